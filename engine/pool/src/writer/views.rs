//! States of the pool for readers while it is open for writing. Each is opened when the first
//! reader asks for its txg.
//!
//! Opening a view reads from devices, which may take long or never end. Code that must not miss a
//! change waits for it ([`Shared::pool`]). Code that only displays the pool waits for [`PATIENCE`],
//! then takes the last view that could be opened ([`Shared::shown`]).
//!
//! Invariants:
//!   * no lock except `opening` is held during I/O, and code that displays the pool does not take
//!     it
//!   * a view is replaced only by a newer one

use super::Shared;
use crate::Pool;
use errors::{Error, Refusal, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long display code waits for a view. Guessed: a few reads of a busy disk, and short enough
/// that a command does not seem to hang.
const PATIENCE: Duration = Duration::from_secs(4);

/// See the module.
pub(super) struct Views {
    state: Mutex<State>,
    /// Signalled when a thread that opened a view has ended.
    ended: Condvar,
    /// Held while a view is opened, so that threads that wait for the same txg read it once.
    opening: Mutex<()>,
}

struct State {
    newest: Option<Arc<Pool>>,
    /// When a thread started to open a view for display.
    since: Option<Instant>,
    /// Why the last view for display could not be opened.
    error: Option<Error>,
}

impl Views {
    pub(super) fn new(newest: Option<Arc<Pool>>) -> Self {
        let state = State { newest, since: None, error: None };
        Self { state: Mutex::new(state), ended: Condvar::new(), opening: Mutex::new(()) }
    }

    fn of(&self, txg: u64) -> Option<Arc<Pool>> {
        self.state.lock().newest.as_ref().filter(|pool| pool.uberblock().txg.0 == txg).cloned()
    }

    fn publish(&self, pool: &Arc<Pool>) {
        let mut state = self.state.lock();
        if state.newest.as_ref().is_none_or(|newest| newest.uberblock().txg <= pool.uberblock().txg) {
            state.newest = Some(pool.clone());
        }
    }
}

/// Marks the end of a thread that opens a view, even if it panics.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.views.state.lock().since = None;
        self.0.views.ended.notify_all();
    }
}

impl Shared {
    fn shown_txg(&self) -> u64 {
        self.uberblock.lock().txg.0
    }

    /// See [`super::Writer::pool`].
    pub(super) fn pool(&self) -> Result<Arc<Pool>> {
        if let Some(pool) = self.views.of(self.shown_txg()) {
            return Ok(pool);
        }
        let _opening = self.views.opening.lock();
        let uberblock = self.uberblock.lock().clone();
        if let Some(pool) = self.views.of(uberblock.txg.0) {
            return Ok(pool);
        }
        let base = self.base.as_ref().ok_or_else(|| Refusal::Busy.at(self.store.name()))?;
        let identity = self.identity.lock().clone();
        let pool = base.at_uberblock(&self.store, &uberblock, &identity, &self.scan.figures)?;
        self.views.publish(&pool);
        Ok(pool)
    }

    /// See [`super::Writer::shown`].
    pub(super) fn shown(self: &Arc<Self>) -> Result<Arc<Pool>> {
        let txg = self.shown_txg();
        if let Some(pool) = self.views.of(txg) {
            return Ok(pool);
        }
        let mut state = self.views.state.lock();
        let since = match state.since {
            Some(since) => since,
            None => {
                let (this, now) = (self.clone(), Instant::now());
                let thread = std::thread::Builder::new().name("pool-view".to_owned());
                let started = thread.spawn(move || {
                    let ending = Ending(this);
                    let opened = ending.0.pool();
                    ending.0.views.state.lock().error = opened.err();
                });
                if let Err(error) = started {
                    tracing::warn!("{}: shown as it was before: no thread: {error}", self.store.name());
                    return state.newest.clone().ok_or_else(|| Refusal::Busy.at(self.store.name()));
                }
                state.error = None;
                *state.since.insert(now)
            }
        };
        // A thread that started long ago is blocked by a device. Do not wait for it any longer.
        while state.since == Some(since) && !self.views.ended.wait_until(&mut state, since + PATIENCE).timed_out() {}
        let (newest, error) = (state.newest.clone(), state.error.clone());
        drop(state);
        let newest = newest.ok_or_else(|| Refusal::Busy.at(self.store.name()))?;
        match error {
            // The pool's devices are gone: the previous view still shows which ones they are.
            Some(error) if newest.uberblock().txg.0 < txg => {
                if !self.is_suspended() && !matches!(error, Error::Io { .. } | Error::Missing { .. }) {
                    return Err(error);
                }
                tracing::debug!("{}: shown as it was before: {error}", self.store.name());
            }
            _ => {}
        }
        Ok(newest)
    }
}
