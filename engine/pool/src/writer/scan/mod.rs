//! Scrub and resilver of a pool that is open for writing.

use std::sync::atomic::{AtomicBool, Ordering};

/// What is scanned, and what is to be.
#[derive(Default)]
pub(crate) struct Scans {
    #[allow(dead_code, reason = "nothing resilvers yet")]
    wanted: AtomicBool,
}

impl Scans {
    /// A leaf that is there has stale ranges, as of the syncing txg: it is to be resilvered. Cheap, and never waits.
    pub(crate) fn resilver_wanted(&self) {
        self.wanted.store(true, Ordering::Release);
    }
}
