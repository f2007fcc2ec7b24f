//! Whether a batch of a scan should stop.

use super::state::{is_active, is_paused};
use crate::writer::Shared;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Decides whether a batch should stop.
pub(super) struct Stop<'a> {
    shared: &'a Shared,
    generation: u64,
    stopped: AtomicBool,
    polls: AtomicU32,
}

/// Only one of this many calls of [`Stop::soon`] checks the state.
const POLL_INTERVAL: u32 = 64;

impl<'a> Stop<'a> {
    pub fn new(shared: &'a Shared, generation: u64) -> Self {
        Self { shared, generation, stopped: AtomicBool::new(false), polls: AtomicU32::new(0) }
    }

    /// Like [`Stop::now`], for frequent calls.
    pub fn soon(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
            || (self.polls.fetch_add(1, Ordering::Relaxed).is_multiple_of(POLL_INTERVAL) && self.now())
    }

    pub fn now(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let state = self.shared.background.scan.state.lock();
        let is_running = state.scan.as_ref().is_some_and(|s| is_active(s) && !is_paused(s));
        let stop =
            state.stop || self.shared.background.scan.is_wanted() || state.generation != self.generation || !is_running;
        drop(state);
        self.stopped.fetch_or(stop, Ordering::Relaxed);
        stop
    }
}
