//! What each txg did and how long it took, for `weir inspect txgs` and counters.

use parking_lot::Mutex;
use std::collections::VecDeque;

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
    /// Nanoseconds of each [`Phase`], in their order.
    pub phase_ns: [u64; 6],
    /// Passes over the pool's own objects.
    pub passes: u32,
    /// Writes to devices.
    pub writes: u64,
    /// Bytes of them, copies and parity included.
    pub written_bytes: u64,
}

#[derive(Default)]
pub(super) struct Stats {
    kept: Mutex<VecDeque<TxgStats>>,
}

impl Stats {
    pub fn add(&self, stats: TxgStats) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(stats);
    }

    pub fn list(&self) -> Vec<TxgStats> {
        self.kept.lock().iter().cloned().collect()
    }
}
