//! Which calls that may wait a reading thread answers itself, instead of the threads for
//! [waiting calls](crate::net::waiting).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// After a write had to wait, writes that arrive within this time go directly to the threads for
/// waiting calls. Guessed: part of the time that the writes then sleep.
const WRITES_WAIT: Duration = Duration::from_millis(10);

/// At most half of the reading threads may wait in a call at any time.
pub(super) struct InPlace {
    /// Number of reading threads that are answering a call that may wait.
    running: AtomicUsize,
    max: usize,
    /// Until when writes are assumed to wait, in milliseconds since `begun`. 0: no write has
    /// waited.
    writes_wait_until: AtomicU64,
    begun: Instant,
}

impl InPlace {
    /// For `threads` permanent reading threads.
    pub fn new(threads: usize) -> Self {
        Self {
            running: AtomicUsize::new(0),
            max: (threads / 2).max(1),
            writes_wait_until: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    /// Whether a reading thread may answer a call that may wait. If so, [`Self::end`] ends it.
    pub fn begin(&self) -> bool {
        let fits = self.running.fetch_add(1, Ordering::SeqCst) < self.max;
        if !fits {
            self.end();
        }
        fits
    }

    pub fn end(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    /// A write had to wait, so writes that arrive now will too.
    pub fn writes_wait(&self) {
        let until = (self.begun.elapsed() + WRITES_WAIT).as_millis();
        self.writes_wait_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn do_writes_wait(&self) -> bool {
        let until = self.writes_wait_until.load(Ordering::Relaxed);
        until > 0 && self.begun.elapsed().as_millis() < u128::from(until)
    }
}
