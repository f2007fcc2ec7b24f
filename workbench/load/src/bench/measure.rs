//! Runs and records the repetitions of a load.

use super::counters::{Counters, sources};
use super::facts::{self, Seen};
use super::server;
use super::setup::Setup;
use super::work::Done;
use crate::drive::Report;
use crate::target::Target;
use crate::watch::Second;
use anyhow::{Context, Result};
use judge::Facts;
use record::collect::machine;
use record::format::{Kind, Meta, Stamp, Unit, Writer};
use record::{Column, Recorder};
use serde_json::Value;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

impl Setup {
    /// Runs all repetitions, and writes everything that was recorded.
    pub fn measure(&self) -> Result<Facts> {
        let targets = self.work.targets();
        let first = targets.first().context("nothing to load")?;
        let is_here = server::is_here(first);
        let ask = self.ask.as_ref().filter(|_| is_here && !matches!(first, Target::Path(_)));
        if !self.warm.is_zero() {
            self.work.warm(self.warm).context("while warming up")?;
        }
        let known = is_here.then(|| server::known(&self.weir, first)).flatten();
        let mut meta = Meta::now(&self.name, Duration::from_secs(1));
        meta.machine = machine::describe();
        let recorder = Recorder::start(&record::folder::file(&self.folder), &meta, sources(ask))?;
        let mut seen = Vec::new();
        for n in 1..=self.repeats {
            recorder.note(&format!("repetition {n} starts"));
            let before = RefCell::new(Counters::default());
            let ready = || {
                *before.borrow_mut() = Counters::now(ask);
                Ok(())
            };
            let is_first = n == 1 && self.warm.is_zero();
            let done = self.work.run(n, is_first, &ready).with_context(|| format!("repetition {n}"))?;
            let after = Counters::now(ask);
            recorder.note(&format!("repetition {n} ends"));
            self.keep(n, &done)?;
            seen.push(Seen { report: done.report, each: done.each, before: before.into_inner(), after });
        }
        recorder.stop()?;
        let later = known.as_ref().and_then(|before| Some(server::known(&self.weir, first)?.since(before)));
        let facts = facts::facts(self, &meta.machine, later.or(known).as_ref(), &seen);
        write(&self.folder.join("facts.json"), &serde_json::to_string_pretty(&facts)?)?;
        Ok(facts)
    }

    /// Writes the seconds of a repetition: as JSON with all latency buckets, as a table, and as a
    /// run for `weir graph`.
    fn keep(&self, n: usize, done: &Done) -> Result<()> {
        let report: &Report = &done.report;
        if !done.each.is_empty() {
            let each = done.each.iter().map(|one| (one.host.clone(), one.report.json(&one.host)));
            let each = Value::Object(each.collect());
            write(&self.folder.join(format!("clients-{n}.json")), &each.to_string())?;
        }
        write(&self.folder.join(format!("report-{n}.json")), &report.json(&self.name).to_string())?;
        write(&self.folder.join(format!("load-{n}.csv")), &crate::report::csv(&report.series))?;
        let mut meta = Meta::now(&format!("{} {n}", self.name), Duration::from_secs(1));
        let ago = Duration::from_secs_f64(report.series.last().map_or(0.0, |s| s.at));
        let back = i64::try_from(ago.as_nanos()).unwrap_or(0);
        meta.started = Stamp { utc_ns: meta.started.utc_ns - back, mono_ns: meta.started.mono_ns - back };
        let started = meta.started;
        let mut writer = Writer::create(&self.folder.join(format!("load-{n}.weirrec")), &meta)?;
        // Cumulative sums, so that the area of a chart equals the count, however late a second was
        // sampled.
        let bounds = bounds(&report.series);
        let mut sum = Second::default();
        for second in std::iter::once(None).chain(report.series.iter().map(Some)) {
            if let Some(second) = second {
                sum.add(second);
            }
            let mut row: Vec<_> = counted(&sum).map(|(column, value)| (writer.column(&column), value)).collect();
            let (mut classes, mut within) = (sum.latency.classes.iter().peekable(), 0);
            for class in bounds.clone() {
                let last = bound(class);
                while let Some((_, count)) = classes.next_if(|(ns, _)| *ns <= last) {
                    within += count;
                }
                let le = (last as f64 / 1e9).to_string();
                let column = Column::new("load.latency_bucket", &[("le", &le)], Unit::Count, Kind::Total);
                row.push((writer.column(&column), within as f64));
            }
            if let Some(second) = second {
                row.extend(of_moment(second).map(|(column, value)| (writer.column(&column), value)));
            }
            let at = second.map_or(0.0, |s| s.at);
            writer.row(started.plus(Duration::from_secs_f64(at)), &row)?;
        }
        writer.finish(0)?;
        Ok(())
    }
}

/// Cumulative counts, under the names that `weir graph` draws.
fn counted(sum: &Second) -> impl Iterator<Item = (Column, f64)> + use<> {
    let counts = [
        ("load.operations", Unit::Count, sum.ops),
        ("load.reads", Unit::Count, sum.read.count),
        ("load.writes", Unit::Count, sum.write.count),
        ("load.read_bytes", Unit::Bytes, sum.read.bytes),
        ("load.written_bytes", Unit::Bytes, sum.write.bytes),
        ("load.failed", Unit::Count, sum.failed),
    ];
    counts.into_iter().map(|(name, unit, count)| (Column::new(name, &[], unit, Kind::Total), count as f64))
}

/// Values of one second: the number of active threads, and percentiles if there were operations.
fn of_moment(second: &Second) -> impl Iterator<Item = (Column, f64)> {
    let p = |percent: f64| second.latency.percentile(percent) as f64 / 1e9;
    let percentiles = [
        ("load.latency_p50", p(50.0)),
        ("load.latency_p99", p(99.0)),
        ("load.latency_p99_9", p(99.9)),
        ("load.latency_max", p(100.0)),
    ];
    let threads = (Column::new("load.threads", &[], Unit::Count, Kind::Level), second.threads as f64);
    let percentiles = percentiles.into_iter().filter(|_| second.latency.count > 0);
    std::iter::once(threads)
        .chain(percentiles.map(|(name, value)| (Column::new(name, &[], Unit::Seconds, Kind::Mean), value)))
}

/// Upper bound of a bucket of `load.latency_bucket` in nanoseconds: four buckets for each doubling,
/// like the rows of the report's heat map.
fn bound(class: i32) -> u64 {
    (1000.0 * (f64::from(class) / 4.0).exp2()) as u64
}

/// The buckets of all latencies of a run, and the one below the lowest, so that the lowest has a
/// lower bound, too.
fn bounds(series: &[Second]) -> std::ops::Range<i32> {
    let all = || series.iter().flat_map(|s| &s.latency.classes).map(|(ns, _)| *ns);
    let class = |ns: u64| (-40..200).find(|class| bound(*class) >= ns).unwrap_or(200);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) => class(least) - 1..class(most) + 1,
        _ => 0..0,
    }
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
