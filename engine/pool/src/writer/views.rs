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

use super::config::Identity;
use super::spa::{Shared, SyncTx, Writer};
use crate::Pool;
use crate::import::open;
use crate::scan::live::Figures;
use block::Store;
use errors::{Error, Place, Refusal, Result};
use host::clock::Instant;
use ondisk::uberblock::Uberblock;
use std::sync::Arc;
use std::time::Duration;

/// How long display code waits for a view. Guessed: a few reads of a busy disk, and short enough
/// that a command does not seem to hang.
const PATIENCE: Duration = Duration::from_secs(4);

/// Marks the end of a thread that opens a view, even if it panics.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.views.state.lock().since = None;
        self.0.views.ended.notify_all();
    }
}

impl Writer {
    /// The pool in the state of the last synced txg, for callers that must see every change.
    /// Opening it reads from devices, and waits for them.
    pub fn pool(&self) -> Result<Arc<Pool>> {
        self.shared.pool()
    }

    /// The pool for display: in the state of the last synced txg, or of an earlier one if the
    /// devices do not respond in time.
    pub fn shown(&self) -> Result<Arc<Pool>> {
        self.shared.shown()
    }
}

impl Shared {
    fn shown_txg(&self) -> u64 {
        self.config.uberblock.lock().txg.0
    }

    /// See [`super::Writer::pool`].
    pub(crate) fn pool(&self) -> Result<Arc<Pool>> {
        if let Some(pool) = self.views.of(self.shown_txg()) {
            return Ok(pool);
        }
        let _opening = self.views.opening.lock();
        let uberblock = self.config.uberblock.lock().clone();
        if let Some(pool) = self.views.of(uberblock.txg.0) {
            return Ok(pool);
        }
        let base = self.views.base.as_ref().ok_or_else(|| Refusal::Busy.at(self.store.name()))?;
        let identity = self.config.identity.lock().clone();
        let pool = base.at_uberblock(self.store.reader(), &uberblock, &identity, &self.background.scan.figures)?;
        self.views.publish(&pool);
        Ok(pool)
    }

    /// See [`super::Writer::shown`].
    pub(crate) fn shown(self: &Arc<Self>) -> Result<Arc<Pool>> {
        let txg = self.shown_txg();
        if let Some(pool) = self.views.of(txg) {
            return Ok(pool);
        }
        let mut state = self.views.state.lock();
        let since = match state.since {
            Some(since) => since,
            None => {
                let (this, now) = (self.clone(), Instant::now());
                let started = host::threads::spawn("pool-view", move || {
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

impl SyncTx<'_> {
    /// The pool with all changes of this txg so far, for code that reads. It changes with the txg,
    /// so the task that asks for it must not keep it.
    pub fn pool(&self) -> Result<Arc<Pool>> {
        let shared = self.shared;
        let base = shared.views.base.as_ref().ok_or_else(|| Refusal::Busy.at(shared.store.name()))?;
        let (uberblock, identity) = (shared.config.uberblock.lock().clone(), shared.config.identity.lock().clone());
        let opened = open::finish(shared.store.reader(), shared.mos.clone(), &uberblock, base.warnings().to_vec())?;
        Ok(base.with(identity.name, identity.guid, opened, shared.background.scan.figures.clone()))
    }
}

impl Pool {
    /// The same pool in the state of a later uberblock.
    fn at_uberblock(
        &self,
        store: &Arc<Store>,
        uberblock: &Uberblock,
        identity: &Identity,
        figures: &Arc<Figures>,
    ) -> Result<Arc<Self>> {
        let opened = open::at(store, uberblock, self.warnings().to_vec()).at(self.name())?;
        Ok(self.with(identity.name.clone(), identity.guid, opened, figures.clone()))
    }
}
