//! Health: one verdict on everything that the daemon serves, with its reasons.
//!
//! ```text
//!   pools, alerts, streams, certificate, NFS ── gather ─> Inputs ── verdict::assess ─> SystemHealth
//!                                                                └─ measures ─> statistics, alerts
//! ```
//!
//! The thread that watches the pools assesses every few seconds, and sends the verdict to
//! subscribers when it changed. A request for it assesses again.

pub(crate) mod certificate;
mod gather;
mod inputs;
mod kind;
mod latency;
pub mod limits;
mod measures;
mod reason;
mod streams;
mod verdict;

pub use certificate::validity;
pub use inputs::Validity;
pub use measures::Measures;
pub use streams::Streams;

use api::{HealthKind, HealthVerdict, SystemHealth};
use kind::kind_name;
use latency::Latencies;
use observe::{Collector, Info, Source, Unit, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

static VERDICT: Info = Info {
    name: "health",
    unit: Unit::Number,
    help: "The verdict on everything: 0 good, 1 needs attention, 2 serious.",
};
static REASONS: Info =
    Info { name: "health_reasons", unit: Unit::Number, help: "Reasons for the verdict, by condition." };

/// The last verdict, and what is remembered to make the next one.
pub struct HealthWatch {
    /// Outcomes of `zfs send` and `zfs receive`.
    pub streams: Streams,
    /// Values for statistics, from the last assessment.
    pub measures: Arc<Measures>,
    latencies: Mutex<Latencies>,
    last: Mutex<SystemHealth>,
}

impl HealthWatch {
    /// Reads what earlier processes remembered in the state directory.
    pub fn open(state: &Path) -> Arc<Self> {
        let (measures, latencies) = Default::default();
        let last = Mutex::new(SystemHealth { verdict: HealthVerdict::Good, reasons: Vec::new() });
        Arc::new(Self { streams: Streams::open(state), measures, latencies, last })
    }
}

impl Source for HealthWatch {
    fn collect(&self, out: &mut Collector<'_>) {
        let last = self.last.lock();
        out.put(&VERDICT, &[], Value::Level(last.verdict as u64));
        let mut counts: BTreeMap<HealthKind, u64> = BTreeMap::new();
        last.reasons.iter().for_each(|reason| *counts.entry(reason.kind).or_default() += 1);
        for (kind, count) in counts {
            out.put(&REASONS, &[("kind", kind_name(kind))], Value::Level(count));
        }
    }
}
