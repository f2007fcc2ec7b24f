//! Work and duration of each txg, for `weir inspect txgs` and the statistics.

use host::clock::Instant;
use host::sync::Mutex;
use observe::{Collector, Counter, Histogram, Info, Source, Unit};
use std::collections::VecDeque;

/// Number of txgs kept: eight minutes at one in five seconds.
const KEPT: usize = 100;

/// A phase of syncing a txg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting until no transaction is inside the txg, and handing its changes over.
    Quiesce,
    /// Writing datasets.
    Datasets,
    /// Tasks: administration.
    Tasks,
    /// Space maps and the MOS, all passes.
    Mos,
    /// Flushing devices before the uberblock.
    Flush,
    /// Writing labels and uberblock.
    Labels,
}

/// Statistics of one txg.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxgStats {
    pub txg: u64,
    /// Time when it was closed, in seconds since 1970.
    pub closed_seconds: u64,
    /// Bytes that were dirty when it was closed.
    pub dirty_bytes: u64,
    /// Nanoseconds during which it was open, from the closing of the previous one. 0 for the first
    /// one after the pool was opened.
    pub open_ns: u64,
    /// Nanoseconds of each [`Phase`], in their order.
    pub phase_ns: [u64; 6],
    /// Passes over the MOS.
    pub passes: u32,
    /// Number of writes to devices.
    pub writes: u64,
    /// Bytes of these writes, including copies and parity.
    pub written_bytes: u64,
}

impl Phase {
    /// All phases in their order, with their names.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Quiesce, "quiesce"),
        (Self::Datasets, "datasets"),
        (Self::Tasks, "tasks"),
        (Self::Mos, "mos"),
        (Self::Flush, "flush"),
        (Self::Labels, "labels"),
    ];
}

static TXG_TIME: Info = Info {
    name: "txg_time",
    unit: Unit::Nanoseconds,
    help: "Duration of syncing a txg; the count is the number of txgs.",
};
static PHASE_TIME: Info =
    Info { name: "txg_phase_time", unit: Unit::Nanoseconds, help: "Duration of each phase of syncing a txg." };
static DIRTY: Info = Info { name: "txg_dirty", unit: Unit::Bytes, help: "Dirty data when a txg was closed." };
static PASSES: Info = Info {
    name: "txg_passes",
    unit: Unit::Number,
    help: "Passes over the pool's own objects until they no longer changed.",
};
static WRITES: Info = Info { name: "txg_writes", unit: Unit::Number, help: "Writes to devices while syncing txgs." };
static WRITTEN: Info = Info {
    name: "txg_written",
    unit: Unit::Bytes,
    help: "Bytes written to devices while syncing txgs, including copies and parity.",
};

/// The last txgs one by one, and the totals of all.
#[derive(Default)]
pub(crate) struct Stats {
    kept: Mutex<VecDeque<TxgStats>>,
    /// Time when the open txg was opened.
    opened: Mutex<Option<Instant>>,
    time: Histogram,
    phases: [Histogram; 6],
    dirty: Histogram,
    passes: Counter,
    writes: Counter,
    written: Counter,
}

impl Source for Stats {
    fn collect(&self, out: &mut Collector<'_>) {
        out.histogram(&TXG_TIME, &[], &self.time);
        for ((_, name), times) in Phase::ALL.iter().zip(&self.phases) {
            out.histogram(&PHASE_TIME, &[("phase", name)], times);
        }
        out.histogram(&DIRTY, &[], &self.dirty);
        out.counter(&PASSES, &[], &self.passes);
        out.counter(&WRITES, &[], &self.writes);
        out.counter(&WRITTEN, &[], &self.written);
    }
}

impl Stats {
    pub fn add(&self, stats: TxgStats) {
        self.time.record(stats.phase_ns.iter().sum());
        self.phases.iter().zip(stats.phase_ns).for_each(|(times, ns)| times.record(ns));
        self.dirty.record(stats.dirty_bytes);
        self.passes.add(u64::from(stats.passes));
        self.writes.add(stats.writes);
        self.written.add(stats.written_bytes);
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(stats);
    }

    /// The open txg began to close at `closing`, and the next one is open now. Returns how long it
    /// was open, in nanoseconds.
    pub fn turned(&self, closing: Instant) -> u64 {
        let opened = self.opened.lock().replace(Instant::now());
        opened.map_or(0, |opened| u64::try_from((closing - opened).as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn list(&self) -> Vec<TxgStats> {
        self.kept.lock().iter().cloned().collect()
    }
}
