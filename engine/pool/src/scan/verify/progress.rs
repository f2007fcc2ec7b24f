//! Progress of a verification, and how its caller ends it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Phase of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Loading space maps.
    SpaceMaps,
    /// Reading blocks.
    Blocks,
    /// Comparing space, references and accounting.
    Compare,
}

/// Progress of a verification.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub phase: Phase,
    /// Allocated bytes verified so far.
    pub done_bytes: u64,
    /// Allocated bytes in total.
    pub total_bytes: u64,
}

/// Progress callback, called now and then from any thread. If it returns false, the verification
/// ends early.
pub type OnProgress<'a> = dyn Fn(Progress) -> bool + Sync + 'a;

/// Counts the bytes that all workers have verified. Once the callback has returned false, it stays
/// stopped.
pub(super) struct Meter<'a> {
    report: &'a OnProgress<'a>,
    done_bytes: AtomicU64,
    total_bytes: u64,
    is_stopped: AtomicBool,
}

impl<'a> Meter<'a> {
    pub fn new(report: &'a OnProgress<'a>, total_bytes: u64) -> Self {
        Self { report, done_bytes: AtomicU64::new(0), total_bytes, is_stopped: AtomicBool::new(false) }
    }

    /// Counts bytes of verified blocks, and reports the sum.
    pub fn add(&self, bytes: u64) {
        let done = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let done_bytes = done.min(self.total_bytes);
        if !(self.report)(Progress { phase: Phase::Blocks, done_bytes, total_bytes: self.total_bytes }) {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}
