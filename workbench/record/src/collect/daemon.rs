//! Metrics of Weir: the daemon's `/metrics`, with the same names.

use super::sample::{Sample, Source};
use crate::format::{Column, Kind, Unit};
use observe::scrape::Metrics;
use std::time::Duration;

/// Fetches the metrics in Prometheus' text format.
pub type Ask = Box<dyn FnMut() -> Result<String, String> + Send>;

/// Metrics in Prometheus' text format.
pub struct Daemon {
    ask: Ask,
}

impl Daemon {
    /// A source that parses the text returned by `ask`.
    pub fn new(ask: Ask) -> Self {
        Self { ask }
    }
}

impl Source for Daemon {
    fn name(&self) -> &str {
        "weir serve"
    }

    fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
        metrics(&(self.ask)()?, into);
        Ok(())
    }
}

pub(super) fn metrics(text: &str, into: &mut Sample) {
    for (name, values) in Metrics::parse(text, Duration::ZERO).iter() {
        let (unit, kind) = kind(name);
        for (labels, value) in values {
            into.values.push((Column { name: name.to_owned(), labels: labels.clone(), unit, kind }, *value));
        }
    }
}

/// Unit and kind, derived from the name by Prometheus' conventions. Buckets, counts and sums of
/// histograms are totals.
fn kind(name: &str) -> (Unit, Kind) {
    let (base, kind) = match name.strip_suffix("_total").or_else(|| name.strip_suffix("_sum")) {
        Some(base) => (base, Kind::Total),
        None if name.ends_with("_bucket") || name.ends_with("_count") => return (Unit::Count, Kind::Total),
        None => (name, Kind::Level),
    };
    let unit = match base {
        base if base.ends_with("_bytes") => Unit::Bytes,
        base if base.ends_with("_seconds") || base.ends_with("_time") => Unit::Seconds,
        base if base.ends_with("_percent") => Unit::Percent,
        _ => Unit::Count,
    };
    (unit, kind)
}
