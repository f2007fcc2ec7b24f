//! Derived series, which are not columns of a recorded run: shares, time per operation, sums over
//! devices.

use super::Cell;
use crate::format::{ColumnId, Run, Unit};
use crate::series::{Series, Span};
use std::collections::BTreeMap;

/// Computes a series from the values of others at the same spans. Omits spans that one of them
/// lacks.
pub(super) fn combine(
    name: &str,
    labels: &[(&str, &str)],
    unit: Unit,
    per_second: bool,
    parts: &[&Series],
    of: impl Fn(&[f64]) -> Option<f64>,
) -> Series {
    let mut out = Series::new(name, labels, unit, per_second);
    let Some((first, rest)) = parts.split_first() else { return out };
    let mut others: Vec<_> = rest.iter().map(|s| s.spans.iter().peekable()).collect();
    'spans: for span in &first.spans {
        let mut values = vec![span.value];
        for other in &mut others {
            while other.next_if(|o| o.to < span.to).is_some() {}
            match other.peek().filter(|o| o.to == span.to) {
                Some(o) => values.push(o.value),
                None => continue 'spans,
            }
        }
        out.spans.extend(of(&values).map(|value| Span { value, ..*span }));
    }
    out
}

/// The sum of series. A series without a span that another one has counts as zero there.
pub(super) fn sum(name: &str, labels: &[(&str, &str)], parts: &[&Series]) -> Option<Series> {
    let first = parts.first()?;
    // Columns of one file have the same rows: no lookup is needed.
    let same =
        |s: &&Series| s.spans.len() == first.spans.len() && s.spans.iter().zip(&first.spans).all(|(a, b)| a.to == b.to);
    if parts.iter().all(same) {
        let mut out = Series::new(name, labels, first.unit, first.per_second);
        out.spans.clone_from(&first.spans);
        for part in parts.iter().skip(1) {
            for (sum, span) in out.spans.iter_mut().zip(&part.spans) {
                sum.value += span.value;
            }
        }
        return Some(out);
    }
    let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
    for span in parts.iter().flat_map(|s| &s.spans) {
        // Ends are not negative, so their bits sort like the numbers.
        spans.entry(span.to.max(0.0).to_bits()).and_modify(|s| s.value += span.value).or_insert(*span);
    }
    let mut out = Series::new(name, labels, first.unit, first.per_second);
    out.spans = spans.into_values().collect();
    Some(out)
}

/// All columns, and the series derived from them.
pub(super) fn all(run: &Run, wants: &dyn Fn(&str) -> bool) -> Vec<Series> {
    let named = |name: &str| -> Vec<Series> { run.named(name).filter_map(|(id, _)| run.series(id)).collect() };
    let mut out = Vec::new();
    if ["cpu.user", "cpu.system", "cpu.wait", "cpu.idle"].into_iter().any(wants) {
        let modes = named("cpu.time");
        let every: Vec<&Series> = modes.iter().collect();
        if let Some(all) = sum("all", &[], &every) {
            for (name, of) in [
                ("cpu.user", ["user", "nice", ""]),
                ("cpu.system", ["system", "interrupt", "softirq"]),
                ("cpu.wait", ["wait", "", ""]),
                ("cpu.idle", ["idle", "", ""]),
            ] {
                if !wants(name) {
                    continue;
                }
                let part: Vec<&Series> = modes.iter().filter(|s| of.contains(&s.whose().as_str())).collect();
                let share = |n: &[f64]| (n[1] > 0.0).then(|| 100.0 * n[0] / n[1]);
                out.extend(sum(name, &[], &part).map(|p| combine(name, &[], Unit::Percent, false, &[&p, &all], share)));
            }
        }
    }
    {
        let times = |name: &str, of: &str, by: Option<&str>, factor: f64, unit: Unit, most: f64| -> Vec<Series> {
            if !wants(name) {
                return Vec::new();
            }
            let (of, by) = (named(of), by.map(&named));
            let one = |s: &Series| {
                let labels: Vec<(&str, &str)> = s.labels.iter().map(|(l, w)| (l.as_str(), w.as_str())).collect();
                let mut parts = vec![s];
                if let Some(by) = &by {
                    parts.push(by.iter().find(|b| b.labels == s.labels)?);
                }
                let value = |n: &[f64]| match n.get(1) {
                    Some(by) => (*by > 0.0).then(|| (n[0] / by * factor).min(most)),
                    None => Some((n[0] * factor).min(most)),
                };
                Some(combine(name, &labels, unit, false, &parts, value))
            };
            of.iter().filter_map(one).collect()
        };
        out.extend(times("disk.busy", "disk.busy_time", None, 100.0, Unit::Percent, 100.0));
        out.extend(times("disk.queue", "disk.queue_time", None, 1.0, Unit::Count, f64::MAX));
        out.extend(times("disk.read_each", "disk.read_time", Some("disk.reads"), 1.0, Unit::Seconds, f64::MAX));
        out.extend(times("disk.write_each", "disk.write_time", Some("disk.writes"), 1.0, Unit::Seconds, f64::MAX));
    }
    if wants("net.busy") {
        let (sent, speeds) = (named("net.sent_bytes"), named("net.speed_bytes"));
        for received in named("net.received_bytes") {
            let of = |all: &[Series]| all.iter().find(|s| s.labels == received.labels).cloned();
            if let (Some(sent), Some(speed)) = (of(&sent), of(&speeds)) {
                let labels = [("device", received.whose())];
                let labels = labels.each_ref().map(|(l, w)| (*l, w.as_str()));
                let share = |n: &[f64]| Some((100.0 * n[0].max(n[1]) / n[2]).min(100.0));
                out.push(combine("net.busy", &labels, Unit::Percent, false, &[&received, &sent, &speed], share));
            }
        }
    }
    {
        for (name, of) in [
            ("pool.read_bytes", "weir_device_read_bytes_total"),
            ("pool.written_bytes", "weir_device_written_bytes_total"),
            ("pool.reads", "weir_device_read_time_seconds_count"),
            ("pool.writes", "weir_device_write_time_seconds_count"),
        ] {
            if !wants(name) {
                continue;
            }
            let devices = named(of);
            let mut pools: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
            for device in &devices {
                pools.entry(device.labels.get("pool").map_or("", String::as_str)).or_default().push(device);
            }
            out.extend(pools.iter().filter_map(|(pool, parts)| sum(name, &[("pool", pool)], parts)));
        }
    }
    {
        for (name, of) in [
            ("arc.hits", "weir_cache_hits_total"),
            ("arc.misses", "weir_cache_misses_total"),
            ("l2arc.hits", "weir_l2_hits_total"),
        ] {
            if !wants(name) {
                continue;
            }
            let parts = named(of);
            out.extend(sum(name, &[], &parts.iter().collect::<Vec<_>>()));
        }
    }
    let plain = |(_, c): &(ColumnId, &crate::format::Column)| wants(&c.name) && !c.name.ends_with("_bucket");
    out.extend((0u32..).map(ColumnId).zip(&run.columns).filter(plain).filter_map(|(id, _)| run.series(id)));
    out
}

/// Operations by latency or size: how much the buckets of a histogram grew.
pub(super) fn buckets(run: &Run, name: &str) -> Vec<Cell> {
    // By time and upper bound: the counts of all kinds of operations together.
    let mut counts: BTreeMap<(u64, u64), (f64, f64)> = BTreeMap::new();
    for (id, column) in run.named(name) {
        let bound = column.labels.get("le").and_then(|le| le.parse::<f64>().ok()).unwrap_or(f64::INFINITY);
        for span in run.series(id).into_iter().flat_map(|series| series.spans) {
            let entry = counts.entry((span.to.max(0.0).to_bits(), bound.to_bits())).or_insert((span.from, 0.0));
            entry.1 += span.value * (span.to - span.from);
        }
    }
    let (mut cells, mut moment, mut below) = (Vec::new(), 0, (0.0, 0.0));
    for ((to, bound), (from, up_to)) in counts {
        let bound = f64::from_bits(bound);
        if std::mem::replace(&mut moment, to) != to {
            below = (0.0, 0.0);
        }
        let (lower, fewer) = std::mem::replace(&mut below, (bound, up_to));
        let upper = if bound.is_finite() { bound } else { lower * 2.0 };
        if up_to - fewer > 0.5 {
            let lower = if lower > 0.0 { lower } else { upper / 2.0 };
            cells.push(Cell { time: (from, f64::from_bits(to)), range: (lower, upper), count: up_to - fewer });
        }
    }
    cells
}
