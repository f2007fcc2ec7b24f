//! The work on a pool that runs in the background, over many txgs: scans, trim, expansion, removal,
//! discarding a checkpoint. It resumes when the pool is opened again.
//!
//! The state of each is in a module of its own. Here is what the txg engine asks of all of them.

use super::evacuate::Evacuation;
use super::expand::Expansion;
use super::scan::Scans;
use super::sweep::Sweeps;
use std::sync::atomic::{AtomicBool, Ordering};

/// The background work of a pool.
pub(super) struct Background {
    /// Scrub, resilver and rebuild.
    pub scan: Scans,
    /// Trim and initialize.
    pub sweeps: Sweeps,
    /// Expansion of a RAID-Z device.
    pub expansion: Expansion,
    /// Removal of devices that hold data.
    pub evacuation: Evacuation,
    is_discarding: AtomicBool,
}

impl Background {
    pub fn new(scan: Scans, expansion: Expansion, evacuation: Evacuation, is_discarding: bool) -> Self {
        Self { scan, sweeps: Sweeps::default(), expansion, evacuation, is_discarding: is_discarding.into() }
    }

    /// Whether space of a discarded checkpoint is being freed step by step.
    pub fn is_discarding(&self) -> bool {
        self.is_discarding.load(Ordering::SeqCst)
    }

    pub fn set_discarding(&self, yes: bool) {
        self.is_discarding.store(yes, Ordering::SeqCst);
    }

    /// Whether some work needs one txg after another, even if nothing else changes.
    pub fn wants_txgs(&self) -> bool {
        self.is_discarding() || self.evacuation.wants_txgs()
    }

    /// Whether some work changes something in the open txg.
    pub fn is_dirty(&self) -> bool {
        self.is_discarding() || self.evacuation.is_active() || self.scan.is_dirty()
    }
}
