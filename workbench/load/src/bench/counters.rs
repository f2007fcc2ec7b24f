//! A snapshot of the counters of this machine and its server.

use record::Column;
use record::collect::{self, Sample, Source, daemon};
use std::sync::Arc;

/// Fetches the metrics of the local server in Prometheus' text format.
pub type Ask = Arc<dyn Fn() -> std::result::Result<String, String> + Send + Sync>;

/// A snapshot of counters; see the module.
#[derive(Debug, Default, Clone)]
pub(super) struct Counters(Vec<(Column, f64)>);

/// The sources of all counters: this machine, and the server if it responds.
pub(super) fn sources(ask: Option<&Ask>) -> Vec<Box<dyn Source>> {
    let mut all = collect::machine();
    if let Some(ask) = ask.cloned() {
        all.push(Box::new(daemon::Daemon::new(Box::new(move || ask()))));
    }
    all
}

impl Counters {
    pub fn now(ask: Option<&Ask>) -> Self {
        let mut sample = Sample::default();
        for source in &mut sources(ask) {
            // Values that cannot be read are unknown; the checks that need them report it.
            let _ = source.sample(&mut sample);
        }
        Self(sample.values)
    }

    /// The sum of all columns called `name` that match `wanted`; `None` if there are none.
    pub fn sum(&self, name: &str, wanted: impl Fn(&Column) -> bool) -> Option<f64> {
        let found: Vec<f64> = self.0.iter().filter(|(c, _)| c.name == name && wanted(c)).map(|(_, v)| *v).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    pub fn all(&self, name: &str) -> Option<f64> {
        self.sum(name, |_| true)
    }

    /// Growth since `before`. A column that did not exist then started at zero.
    pub fn grown(&self, before: &Self, name: &str, wanted: impl Fn(&Column) -> bool) -> Option<f64> {
        let now = self.sum(name, &wanted)?;
        Some((now - before.sum(name, &wanted).unwrap_or(0.0)).max(0.0))
    }

    /// The values of a label.
    pub fn labels(&self, name: &str, label: &str) -> Vec<String> {
        let mut found: Vec<String> =
            self.0.iter().filter(|(c, _)| c.name == name).filter_map(|(c, _)| c.labels.get(label).cloned()).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Processor utilization since `before`, 0 to 1; idle and wait time excluded.
    pub fn busy(&self, before: &Self) -> Option<f64> {
        let idle = |c: &Column| c.labels.get("mode").is_some_and(|m| m == "idle" || m == "wait");
        let all = self.grown(before, "cpu.time", |_| true).filter(|t| *t > 0.0)?;
        Some(1.0 - self.grown(before, "cpu.time", idle)? / all)
    }
}

pub(super) fn is(label: &'static str, value: &str) -> impl Fn(&Column) -> bool {
    let value = value.to_owned();
    move |c: &Column| c.labels.get(label).is_some_and(|v| *v == value)
}
