//! What counters of this machine and its server stood at, at one moment.

use super::Ask;
use record::Column;
use record::collect::{self, Sample, Source, daemon};

/// See the module.
#[derive(Debug, Default, Clone)]
pub(super) struct Counters(Vec<(Column, f64)>);

/// Everything that is counted here, and by the server if it answers.
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
            // What is not told is not known: checks that want it say so.
            let _ = source.sample(&mut sample);
        }
        Self(sample.values)
    }

    /// The sum of all columns of a name whose labels `wanted` takes; nothing if there are none.
    pub fn sum(&self, name: &str, wanted: impl Fn(&Column) -> bool) -> Option<f64> {
        let found: Vec<f64> = self.0.iter().filter(|(c, _)| c.name == name && wanted(c)).map(|(_, v)| *v).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    pub fn all(&self, name: &str) -> Option<f64> {
        self.sum(name, |_| true)
    }

    /// How much it grew since `before`; what was not there then began at nothing.
    pub fn grown(&self, before: &Self, name: &str, wanted: impl Fn(&Column) -> bool) -> Option<f64> {
        let now = self.sum(name, &wanted)?;
        Some((now - before.sum(name, &wanted).unwrap_or(0.0)).max(0.0))
    }

    /// Values of a label of a name.
    pub fn labels(&self, name: &str, label: &str) -> Vec<String> {
        let mut found: Vec<String> =
            self.0.iter().filter(|(c, _)| c.name == name).filter_map(|(c, _)| c.labels.get(label).cloned()).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Of the processors' time since `before` so much was not idle, 0 to 1.
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
