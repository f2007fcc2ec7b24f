//! How many serving threads may run a sync, so that the others continue to serve.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts all syncs in progress, also those that run elsewhere.
pub(super) struct SyncSlots {
    running: AtomicUsize,
    /// Maximum number of syncs on serving threads.
    max: usize,
}

impl SyncSlots {
    /// For a mount with `threads` serving threads.
    pub fn new(threads: usize) -> Self {
        Self { running: AtomicUsize::new(0), max: threads / 2 }
    }

    /// A sync begins. Returns whether it may run on this serving thread. [`Self::end`] ends it in
    /// either case.
    pub fn begin(&self) -> bool {
        self.running.fetch_add(1, Ordering::Relaxed) < self.max
    }

    pub fn end(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}
