//! Repetitions of a load, recorded, and what they come to.

use super::counters::{Counters, sources};
use super::facts::{self, Seen};
use super::{Ask, server};
use crate::drive::{Control, Report};
use crate::run::Plan;
use crate::target::Target;
use anyhow::{Context, Result};
use judge::{Claim, Facts};
use record::collect::machine;
use record::format::{Kind, Meta, Stamp, Unit, Writer};
use record::{Column, Recorder};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What is to be measured.
pub(super) struct Setup {
    pub name: String,
    pub plan: Plan,
    pub folder: PathBuf,
    pub warm: Duration,
    pub repeats: usize,
    pub claim: Option<Claim>,
    /// Bytes a second of a link that this machine does not know of.
    pub link_bytes: Option<f64>,
    /// The program that is asked about the pool.
    pub weir: Option<PathBuf>,
    pub ask: Option<Ask>,
}

impl Setup {
    /// Measures, and writes all that was seen.
    pub fn measure(&self) -> Result<Facts> {
        let first = self.plan.targets.first().context("nothing to load")?;
        let is_here = server::is_here(first);
        let ask = self.ask.as_ref().filter(|_| is_here && !matches!(first, Target::Path(_)));
        let stop = AtomicBool::new(false);
        if !self.warm.is_zero() {
            Plan { time: Some(self.warm), ..self.plan.clone() }.run(&stop).context("while warming up")?;
        }
        let program = self.weir.clone().or_else(|| std::env::current_exe().ok());
        let known = program.filter(|_| is_here).and_then(|p| server::known(&p, first));
        let mut meta = Meta::now(&self.name, Duration::from_secs(1));
        meta.machine = machine::describe();
        let recorder = Recorder::start(&record::folder::file(&self.folder), &meta, sources(ask))?;
        let mut seen = Vec::new();
        for n in 1..=self.repeats {
            recorder.note(&format!("repetition {n} begins"));
            // Other seeds, so that chance is seen; the same ones each time the benchmark is run.
            let plan = Plan { seed: self.plan.seed + n as u64, ..self.plan.clone() };
            let before = RefCell::new(Counters::default());
            let ready = || {
                *before.borrow_mut() = Counters::now(ask);
                Ok(())
            };
            let control = Control { stop: &stop, ready: Some(&ready), each: None };
            let report = plan.run_with(control).with_context(|| format!("repetition {n}"))?;
            let after = Counters::now(ask);
            recorder.note(&format!("repetition {n} ends"));
            self.keep(n, &report)?;
            seen.push(Seen { report, before: before.into_inner(), after });
        }
        recorder.stop()?;
        let later = known.as_ref().and_then(|before| {
            let program = self.weir.clone().or_else(|| std::env::current_exe().ok())?;
            Some(server::known(&program, first)?.since(before))
        });
        let facts = facts::facts(self, &meta.machine, later.or(known).as_ref(), &seen);
        write(&self.folder.join("facts.json"), &serde_json::to_string_pretty(&facts)?)?;
        Ok(facts)
    }

    /// Raw seconds of a repetition: as JSON with all classes of latencies, as a table, and as a run that `weir graph` draws.
    fn keep(&self, n: usize, report: &Report) -> Result<()> {
        write(&self.folder.join(format!("report-{n}.json")), &report.json(&self.name).to_string())?;
        write(&self.folder.join(format!("load-{n}.csv")), &crate::report::csv(&report.series))?;
        let mut meta = Meta::now(&format!("{} {n}", self.name), Duration::from_secs(1));
        let ago = Duration::from_secs_f64(report.series.last().map_or(0.0, |s| s.at));
        let back = i64::try_from(ago.as_nanos()).unwrap_or(0);
        meta.started = Stamp { utc_ns: meta.started.utc_ns - back, mono_ns: meta.started.mono_ns - back };
        let started = meta.started;
        let mut writer = Writer::create(&self.folder.join(format!("load-{n}.weirrec")), &meta)?;
        for second in &report.series {
            let value = |name: &str, unit, kind, value: f64| (Column::new(name, &[], unit, kind), value);
            let rate = |count: u64| count as f64 / second.took.max(1e-9);
            let p = |percent: f64| second.latency.percentile(percent) as f64 / 1e9;
            let row = [
                value("load.ops", Unit::Count, Kind::Rate, rate(second.ops)),
                value("load.reads", Unit::Count, Kind::Rate, rate(second.read.count)),
                value("load.writes", Unit::Count, Kind::Rate, rate(second.write.count)),
                value("load.read_bytes", Unit::Bytes, Kind::Rate, rate(second.read.bytes)),
                value("load.written_bytes", Unit::Bytes, Kind::Rate, rate(second.write.bytes)),
                value("load.failed", Unit::Count, Kind::Rate, rate(second.failed)),
                value("load.threads", Unit::Count, Kind::Level, second.threads as f64),
                value("load.latency_p50", Unit::Seconds, Kind::Mean, p(50.0)),
                value("load.latency_p99", Unit::Seconds, Kind::Mean, p(99.0)),
                value("load.latency_p99_9", Unit::Seconds, Kind::Mean, p(99.9)),
                value("load.latency_max", Unit::Seconds, Kind::Mean, p(100.0)),
            ];
            let row: Vec<_> = row.iter().map(|(column, value)| (writer.column(column), *value)).collect();
            writer.row(started.plus(Duration::from_secs_f64(second.at)), &row)?;
        }
        writer.finish(0)?;
        Ok(())
    }
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
