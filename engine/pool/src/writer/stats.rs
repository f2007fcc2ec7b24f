//! What each txg did and how long it took, for `weir inspect txgs` and counters.

use observe::{Collector, Counter, Histogram, Info, Source, Unit};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Instant;

/// Txgs remembered: eight minutes at one in five seconds.
const KEPT: usize = 100;

/// A part of syncing a txg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting until nobody is inside the txg, and handing its changes over.
    Quiesce,
    /// Writing datasets.
    Datasets,
    /// Tasks: administration.
    Tasks,
    /// Space maps and the pool's own objects, all passes.
    Mos,
    /// Flushing devices before the uberblock.
    Flush,
    /// Labels and uberblock.
    Labels,
}

/// Figures of one txg.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxgStats {
    /// Its number.
    pub txg: u64,
    /// When it was closed, in seconds since 1970.
    pub closed_seconds: u64,
    /// Bytes of contents that were dirty when it was closed.
    pub dirty_bytes: u64,
    /// Nanoseconds that it was open: from the closing of the one before. 0 of the first one after the pool was opened.
    pub open_ns: u64,
    /// Nanoseconds of each [`Phase`], in their order.
    pub phase_ns: [u64; 6],
    /// Passes over the pool's own objects.
    pub passes: u32,
    /// Writes to devices.
    pub writes: u64,
    /// Bytes of them, copies and parity included.
    pub written_bytes: u64,
}

impl Phase {
    /// All, in their order, and what they are called.
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
    help: "How long syncing a txg took; its count is the number of txgs.",
};
static PHASE_TIME: Info =
    Info { name: "txg_phase_time", unit: Unit::Nanoseconds, help: "How long each phase of syncing a txg took." };
static DIRTY: Info =
    Info { name: "txg_dirty", unit: Unit::Bytes, help: "Bytes of contents that were dirty when a txg was closed." };
static PASSES: Info = Info {
    name: "txg_passes",
    unit: Unit::Number,
    help: "Passes over the pool's own objects until they did not change any more.",
};
static WRITES: Info =
    Info { name: "txg_writes", unit: Unit::Number, help: "Writes to devices while txgs were synced." };
static WRITTEN: Info = Info {
    name: "txg_written",
    unit: Unit::Bytes,
    help: "Bytes written to devices while txgs were synced, copies and parity included.",
};

/// The last txgs one by one, and what all of them were together.
#[derive(Default)]
pub(super) struct Stats {
    kept: Mutex<VecDeque<TxgStats>>,
    /// When the open txg was opened.
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

    /// The open txg began to close at `closing`, and the next one is open now: how long it was open, in nanoseconds.
    pub fn turned(&self, closing: Instant) -> u64 {
        let opened = self.opened.lock().replace(Instant::now());
        opened.map_or(0, |opened| u64::try_from((closing - opened).as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn list(&self) -> Vec<TxgStats> {
        self.kept.lock().iter().cloned().collect()
    }
}
