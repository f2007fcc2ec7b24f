//! The newest view of the pool for readers, as `views` opened it.
//!
//! Invariants:
//!   * a view is replaced only by a newer one

use crate::Pool;
use errors::Error;
use host::clock::Instant;
use host::sync::{Condvar, Mutex};
use std::sync::Arc;

/// The newest view of the pool, and the threads that open another. See `views`.
pub(crate) struct Views {
    /// The pool as it was opened, from which views are opened; `None` while it is being created.
    pub base: Option<Arc<Pool>>,
    pub state: Mutex<State>,
    /// Signalled when a thread that opened a view has ended.
    pub ended: Condvar,
    /// Held while a view is opened, so that threads that wait for the same txg read it once.
    pub opening: Mutex<()>,
}

pub(crate) struct State {
    pub newest: Option<Arc<Pool>>,
    /// When a thread started to open a view for display.
    pub since: Option<Instant>,
    /// Why the last view for display could not be opened.
    pub error: Option<Error>,
}

impl Views {
    pub fn new(base: Option<Arc<Pool>>) -> Self {
        let state = State { newest: base.clone(), since: None, error: None };
        Self { base, state: Mutex::new(state), ended: Condvar::new(), opening: Mutex::new(()) }
    }

    pub fn of(&self, txg: u64) -> Option<Arc<Pool>> {
        self.state.lock().newest.as_ref().filter(|pool| pool.uberblock().txg.0 == txg).cloned()
    }

    pub fn publish(&self, pool: &Arc<Pool>) {
        let mut state = self.state.lock();
        if state.newest.as_ref().is_none_or(|newest| newest.uberblock().txg <= pool.uberblock().txg) {
            state.newest = Some(pool.clone());
        }
    }
}
