//! Counters of a device's space.

use std::sync::atomic::{AtomicU64, Ordering};

/// Space of a device in bytes, updated with every change.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub size: AtomicU64,
    /// Of the size: the metaslab reserved for the intent log.
    pub for_log: AtomicU64,
    /// Not allocatable: allocated, or freed and deferred.
    pub used: AtomicU64,
    /// Freed and deferred.
    pub waiting: AtomicU64,
}

impl Totals {
    pub fn new(size: u64) -> Self {
        Self { size: size.into(), ..Self::default() }
    }

    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub fn allocated(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Moves deferred bytes back to allocated, because they belong to a checkpoint.
    pub fn kept(&self, bytes: u64) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn freed(&self, at_once: u64, later: u64) {
        self.used.fetch_sub(at_once, Ordering::Relaxed);
        self.waiting.fetch_add(later, Ordering::Relaxed);
    }

    pub fn released(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}
