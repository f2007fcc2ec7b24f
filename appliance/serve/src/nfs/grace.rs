//! The time after a start in which locks are only given back: one for all versions, since they share the table of locks.
//!
//! It is there if anybody had something before, and as long as a lease of version 4: clients of that find out within it, those of
//! version 3 are told at once (`monitor`). Clients of version 4 say when they have all of theirs, so it ends sooner when only they had
//! any. Opening is not held up for version 3: its share reservations are known to nobody but itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub struct Grace {
    ends: Instant,
    v3: AtomicBool,
    v4: AtomicBool,
}

impl Grace {
    /// As long as this, from now on, once somebody is waited for.
    pub fn new(length: Duration) -> Self {
        let now = Instant::now();
        Self { ends: now.checked_add(length).unwrap_or(now), v3: AtomicBool::new(false), v4: AtomicBool::new(false) }
    }

    /// Clients of version 3 had locks before.
    pub fn wait_for_v3(&self) {
        self.v3.store(true, Ordering::SeqCst);
    }

    /// Whether clients of version 4 may have something to take back.
    pub fn wait_for_v4(&self, waits: bool) {
        // Asked at every call, changed once.
        if self.v4.load(Ordering::Relaxed) != waits {
            self.v4.store(waits, Ordering::SeqCst);
        }
    }

    /// How long it is until it is over in any case.
    pub fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// Clients of version 3 may still take locks back.
    pub fn is_v3(&self) -> bool {
        self.v3.load(Ordering::SeqCst) && Instant::now() < self.ends
    }

    /// Locks are only given back, not out.
    pub fn is_on(&self) -> bool {
        (self.v3.load(Ordering::SeqCst) || self.v4.load(Ordering::SeqCst)) && Instant::now() < self.ends
    }
}

impl Default for Grace {
    /// None.
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}
