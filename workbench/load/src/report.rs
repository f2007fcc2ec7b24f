//! Reports as JSON and as text, and merging of reports.

use crate::drive::Report;
use crate::watch::{Second, Total, What};
use observe::Spread;
use serde_json::{Value, json};

/// Percentiles of the latency to print.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];

fn total_json(total: &Total) -> Value {
    json!({ "ops": total.count, "bytes": total.bytes, "ns": total.nanos })
}

fn total_of(value: &Value) -> Total {
    let n = |key: &str| value[key].as_u64().unwrap_or(0);
    Total { count: n("ops"), bytes: n("bytes"), nanos: n("ns") }
}

fn spread_json(spread: &Spread) -> Value {
    json!({ "sum_ns": spread.sum, "classes": spread.classes })
}

fn spread_of(value: &Value) -> Option<Spread> {
    let pair = |v: &Value| Some((v.get(0)?.as_u64()?, v.get(1)?.as_u64()?));
    let classes: Vec<(u64, u64)> = value["classes"].as_array()?.iter().map(pair).collect::<Option<_>>()?;
    let count = classes.iter().map(|(_, c)| c).sum();
    Some(Spread { count, sum: value["sum_ns"].as_u64()?, classes })
}

fn add_spread(to: &mut Spread, more: &Spread) {
    let mut all: std::collections::BTreeMap<u64, u64> = to.classes.iter().copied().collect();
    for (last, count) in &more.classes {
        *all.entry(*last).or_default() += count;
    }
    to.classes = all.into_iter().collect();
    to.count += more.count;
    to.sum = to.sum.wrapping_add(more.sum);
}

fn add_total(to: &mut Total, more: &Total) {
    to.count += more.count;
    to.bytes += more.bytes;
    to.nanos += more.nanos;
}

impl Second {
    fn json(&self) -> Value {
        json!({
            "at_s": self.at, "took_s": self.took, "threads": self.threads, "ops": self.ops, "failed": self.failed,
            "read": total_json(&self.read), "write": total_json(&self.write), "latency": spread_json(&self.latency),
        })
    }

    fn of(value: &Value) -> Option<Self> {
        Some(Self {
            at: value["at_s"].as_f64()?,
            took: value["took_s"].as_f64()?,
            threads: value["threads"].as_u64()? as usize,
            ops: value["ops"].as_u64()?,
            failed: value["failed"].as_u64()?,
            read: total_of(&value["read"]),
            write: total_of(&value["write"]),
            latency: spread_of(&value["latency"])?,
        })
    }

    /// Adds the second of another client.
    pub(crate) fn add(&mut self, more: &Self) {
        self.threads += more.threads;
        self.ops += more.ops;
        self.failed += more.failed;
        add_total(&mut self.read, &more.read);
        add_total(&mut self.write, &more.write);
        add_spread(&mut self.latency, &more.latency);
    }
}

impl Report {
    /// Encodes the whole report; [`Self::from_json`] restores it.
    pub fn json(&self, name: &str) -> Value {
        let percentile = |p: f64| (format!("p{p}"), json!(self.latency.percentile(p)));
        json!({
            "kind": name,
            "began_unix_s": self.began_unix,
            "seconds": self.seconds,
            "first_done_s": self.first_done,
            "ops": self.ops,
            "bytes": self.bytes,
            "failed": self.failed,
            "first_failure": self.first_failure,
            "ops_per_second": self.rate(),
            "requested_ops_per_second": self.requested,
            "due": self.due,
            "kept": self.kept(),
            "cpu_seconds": self.cpu_seconds,
            "processors": self.processors,
            "latency_ns": PERCENTILES.into_iter().map(percentile).collect::<serde_json::Map<_, _>>(),
            "operations": self.kinds.iter().map(|(w, t)| (w.name().to_owned(), total_json(t))).collect::<serde_json::Map<_, _>>(),
            "latency": spread_json(&self.latency),
            "series": self.series.iter().map(Second::json).collect::<Vec<_>>(),
        })
    }

    /// Decodes the output of [`Self::json`].
    pub fn from_json(value: &Value) -> Option<Self> {
        let kinds = value["operations"].as_object()?;
        let kinds = What::ALL.into_iter().filter_map(|w| Some((w, total_of(kinds.get(w.name())?))));
        Some(Self {
            seconds: value["seconds"].as_f64()?,
            ops: value["ops"].as_u64()?,
            bytes: value["bytes"].as_u64()?,
            failed: value["failed"].as_u64()?,
            first_failure: value["first_failure"].as_str().map(str::to_owned),
            requested: value["requested_ops_per_second"].as_f64(),
            due: value["due"].as_u64()?,
            latency: spread_of(&value["latency"])?,
            kinds: kinds.collect(),
            series: value["series"].as_array()?.iter().map(Second::of).collect::<Option<_>>()?,
            first_done: value["first_done_s"].as_f64()?,
            cpu_seconds: value["cpu_seconds"].as_f64()?,
            began_unix: value["began_unix_s"].as_f64()?,
            processors: value["processors"].as_u64().and_then(|n| usize::try_from(n).ok()),
        })
    }

    /// Merges the reports of all clients: what they did at the same time is added, second by
    /// second.
    pub fn merged(reports: &[Self]) -> Option<Self> {
        let (first, rest) = reports.split_first()?;
        let mut all = first.clone();
        if !rest.is_empty() {
            all.processors = None;
        }
        for more in rest {
            all.seconds = all.seconds.max(more.seconds);
            all.first_done = all.first_done.min(more.first_done);
            all.began_unix = all.began_unix.min(more.began_unix);
            all.ops += more.ops;
            all.bytes += more.bytes;
            all.failed += more.failed;
            all.due += more.due;
            all.cpu_seconds += more.cpu_seconds;
            all.first_failure = all.first_failure.or_else(|| more.first_failure.clone());
            all.requested = all.requested.zip(more.requested).map(|(a, b)| a + b);
            add_spread(&mut all.latency, &more.latency);
            for (what, total) in &more.kinds {
                match all.kinds.iter_mut().find(|(w, _)| w == what) {
                    Some((_, sum)) => add_total(sum, total),
                    None => all.kinds.push((*what, *total)),
                }
            }
            for (n, second) in more.series.iter().enumerate() {
                match all.series.get_mut(n) {
                    Some(sum) => sum.add(second),
                    None => all.series.push(second.clone()),
                }
            }
        }
        Some(all)
    }

    /// The report as text.
    pub fn text(&self, name: &str) -> String {
        let rate = self.rate();
        let mib = self.bytes as f64 / self.seconds.max(1e-9) / f64::from(1 << 20);
        let mut text =
            format!("{name}: {} operations in {:.1} s, {rate:.0} a second, {mib:.1} MiB/s\n", self.ops, self.seconds);
        if let (Some(requested), Some(kept)) = (self.requested, self.kept()) {
            let short = if kept < 0.99 { ": the rate was not reached" } else { "" };
            text += &format!(
                "{requested} a second requested, {} were due, {:.1} % of them completed{short}\n",
                self.due,
                100.0 * kept
            );
        }
        let (reads, writes) = (self.of(What::Read).count, self.of(What::Write).count);
        if reads > 0 && writes > 0 {
            text += &format!("{:.1} % of reads and writes read\n", 100.0 * reads as f64 / (reads + writes) as f64);
        }
        let [half, p99, p999, all] = PERCENTILES.map(|p| self.latency.percentile(p) as f64 / 1e6);
        text += &format!("half within {half:.3} ms, 99 % {p99:.3} ms, 99.9 % {p999:.3} ms, all {all:.3} ms\n");
        if self.kinds.len() > 1 {
            for (what, total) in &self.kinds {
                text += &format!(
                    "  {:<8} {:>10}  {:>10.1} a second  {:>10.1} MiB/s  {:>9.3} ms on average\n",
                    what.name(),
                    total.count,
                    total.count as f64 / self.seconds.max(1e-9),
                    total.bytes as f64 / self.seconds.max(1e-9) / f64::from(1 << 20),
                    total.nanos as f64 / 1e6 / total.count.max(1) as f64,
                );
            }
        }
        if self.seconds - self.first_done > 0.05 * self.seconds {
            text += &format!(
                "the first thread finished after {:.1} s, the last after {:.1} s\n",
                self.first_done, self.seconds
            );
        }
        if let Some(failure) = &self.first_failure {
            text += &format!("{} failed; the first: {failure}\n", self.failed);
        }
        text
    }
}

/// The sum of several histograms.
pub fn summed<'a>(spreads: impl Iterator<Item = &'a Spread>) -> Spread {
    let mut all = Spread::default();
    spreads.for_each(|s| add_spread(&mut all, s));
    all
}

/// The seconds as CSV, with names and units in the first line.
pub fn csv(series: &[Second]) -> String {
    let mut text = crate::watch::COLUMNS.to_owned() + "\n";
    for second in series {
        text += &second.row();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ops: u64, latency: u64) -> Report {
        let histogram = observe::Histogram::default();
        (0..ops).for_each(|_| histogram.record(latency));
        let second = Second {
            at: 1.0,
            took: 1.0,
            threads: 1,
            ops,
            read: Total { count: ops, bytes: ops * 10, nanos: 5 },
            write: Total::default(),
            failed: 0,
            latency: histogram.spread(),
        };
        Report {
            seconds: 1.0,
            ops,
            bytes: ops * 10,
            failed: 0,
            first_failure: None,
            requested: Some(100.0),
            due: ops + 1,
            latency: histogram.spread(),
            kinds: vec![(What::Read, second.read)],
            series: vec![second],
            first_done: 0.5,
            cpu_seconds: 0.25,
            began_unix: 7.0,
            processors: Some(2),
        }
    }

    #[test]
    fn reports_of_clients_travel_as_json_and_add_up() {
        let (a, b) = (report(90, 1000), report(10, 1_000_000));
        assert_eq!(Report::from_json(&a.json("x")).as_ref(), Some(&a));
        let both = Report::merged(&[a.clone(), b]).expect("two");
        assert_eq!((both.ops, both.bytes, both.requested, both.due), (100, 1000, Some(200.0), 102));
        assert_eq!((both.series.len(), both.series[0].ops, both.of(What::Read).count), (1, 100, 100));
        // Percentiles of all operations, not averages of percentiles.
        assert!(both.latency.percentile(50.0) < 1100 && both.latency.percentile(99.0) >= 1_000_000);
        assert!(both.text("x").contains("half within 0.001 ms"), "{}", both.text("x"));
        assert!(csv(&a.series).starts_with("second_s,took_s") && csv(&a.series).lines().count() == 2);
    }
}
