//! The grace period after a start, in which locks can only be reclaimed. All versions share it,
//! because they share the lock table.
//!
//! It applies if any client held state before the restart, and lasts as long as a lease of version
//! 4: version 4 clients notice the restart within that time, version 3 clients are notified
//! immediately (`monitor`). Version 4 clients report when they have reclaimed everything, so the
//! grace period ends early if only they had state. OPEN is not delayed for version 3, because its
//! share reservations are not visible to version 4.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// See the module documentation.
#[derive(Debug)]
pub struct Grace {
    ends: Instant,
    v3: AtomicBool,
    v4: AtomicBool,
}

impl Grace {
    /// A grace period of `length`, starting now. It takes effect once a client has something to
    /// reclaim.
    pub fn new(length: Duration) -> Self {
        let now = Instant::now();
        Self { ends: now.checked_add(length).unwrap_or(now), v3: AtomicBool::new(false), v4: AtomicBool::new(false) }
    }

    /// Records that version 3 clients held locks before the restart.
    pub fn wait_for_v3(&self) {
        self.v3.store(true, Ordering::SeqCst);
    }

    /// Sets whether version 4 clients may have state to reclaim.
    pub fn wait_for_v4(&self, waits: bool) {
        // Called for each request, but changes only once.
        if self.v4.load(Ordering::Relaxed) != waits {
            self.v4.store(waits, Ordering::SeqCst);
        }
    }

    /// Time until the grace period ends at the latest.
    pub fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// Whether version 3 clients may still reclaim locks.
    pub fn is_v3(&self) -> bool {
        self.v3.load(Ordering::SeqCst) && Instant::now() < self.ends
    }

    /// Whether locks can only be reclaimed, not newly acquired.
    pub fn is_on(&self) -> bool {
        (self.v3.load(Ordering::SeqCst) || self.v4.load(Ordering::SeqCst)) && Instant::now() < self.ends
    }
}

impl Default for Grace {
    /// No grace period.
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}
