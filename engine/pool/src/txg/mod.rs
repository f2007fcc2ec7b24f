//! The txg engine. In this file: txgs as the rest of the pool uses them, which are transactions,
//! tasks in the syncing txg, waiting for a txg, and suspending the pool when it cannot write.
//!
//! ```text
//!   gate      lets transactions into the open txg, and closes it
//!   progress  how far the earlier txgs are; suspends and resumes
//!   sync      the thread that closes and syncs txgs
//!   tx        what a task can do in the syncing txg
//!   stats     times and sizes of the last txgs
//! ```
//! Below: `writer::spa`, the state that all parts share, which uses `gate`, `progress` and `stats`.
//! Above: everything that changes a pool. ZFS names: txg, dsl_sync_task, spa_sync.

pub(crate) mod gate;
pub(crate) mod progress;
pub(crate) mod stats;
pub(crate) mod sync;
mod tx;

use crate::status::Suspended;
use crate::writer::spa::{Jobs, Participant, Shared, SyncTx, Writer};
use errors::{Error, Refusal, Result};
use host::sync::Mutex;
use object::Tx;
use stats::TxgStats;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The first txg of a pool (`TXG_INITIAL`).
pub(crate) const FIRST_TXG: u64 = 4;

/// Share of the limit for dirty data, in percent, at which a txg is closed early. As OpenZFS (20
/// %).
pub(crate) const EARLY_PERCENT: u64 = 20;

impl Writer {
    /// Begins a transaction in the open txg. Waits while there is too much dirty data. Fails if the
    /// pool is suspended or closed.
    ///
    /// The holder must not wait for a txg, and must not call this again.
    pub fn begin(&self) -> Result<Tx> {
        let shared = &self.shared;
        let early = shared.txgs.gate.limit() / 100 * EARLY_PERCENT;
        if shared.store.waiting_bytes().load(Ordering::Relaxed) > early {
            shared.push();
        }
        shared.txgs.gate.slow(|| shared.push());
        shared.txgs.gate.enter().ok_or_else(|| shared.refusal())
    }

    /// Like [`Writer::begin`], but without waiting for dirty data to be written: for callers that
    /// make existing dirty data durable, such as the intent log. They must not add much dirty data.
    pub fn hold(&self) -> Result<Tx> {
        self.shared.txgs.gate.enter().ok_or_else(|| self.shared.refusal())
    }

    /// Runs `task` in the syncing thread, where the MOS may be changed, and returns when its txg is
    /// on disk.
    ///
    /// A task that returns an error must have changed nothing.
    pub fn task<R: Send + 'static>(&self, task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static) -> Result<R> {
        self.shared.task(task)
    }

    /// Runs `task` in the syncing thread, in the txg that is open now, without waiting for it:
    /// changes that must not be lost need [`Writer::task`]. A task that fails must have changed
    /// nothing; the error is logged.
    pub fn task_later(&self, task: impl FnOnce(&SyncTx<'_>) -> Result<()> + Send + 'static) -> Result<()> {
        let shared = &self.shared;
        let _tx = shared.txgs.gate.enter().ok_or_else(|| shared.refusal())?;
        shared.txgs.jobs.lock().push(Box::new(move |cx| {
            if let Err(error) = task(cx) {
                tracing::warn!(%error, "a task in the background failed");
            }
        }));
        Ok(())
    }

    /// Has the open txg synced before its time, and waits for nothing.
    pub fn sync_soon(&self) {
        self.shared.push();
    }

    /// Returns once everything that was changed before is on disk.
    pub fn sync(&self) -> Result<()> {
        self.wait(self.shared.txgs.gate.open())
    }

    /// Returns when `txg` is on disk.
    pub fn wait(&self, txg: u64) -> Result<()> {
        self.shared.wait(txg)
    }

    /// Number of the open txg.
    pub fn open_txg(&self) -> u64 {
        self.shared.txgs.gate.open()
    }

    /// Number of the last synced txg.
    pub fn synced_txg(&self) -> u64 {
        self.shared.txgs.progress.synced()
    }

    /// Sets the limit for the bytes of blocks in the cache. The limit for dirty data follows it,
    /// unless it was set explicitly.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.shared.store.cache().set_cap(bytes);
        self.shared.txgs.gate.set_limit(self.shared.options.dirty_bytes(bytes));
    }

    /// Limit for dirty data in memory, in bytes.
    pub fn dirty_max_bytes(&self) -> u64 {
        self.shared.txgs.gate.limit()
    }

    /// Adds `participant` to all txgs from now on.
    pub fn register(&self, participant: Arc<dyn Participant>) {
        self.shared.txgs.participants.lock().push(participant);
    }

    /// Reverts [`Writer::register`]. The participant's changes must be synced.
    pub fn unregister(&self, participant: &Arc<dyn Participant>) {
        self.shared.txgs.participants.lock().retain(|p| !Arc::ptr_eq(p, participant));
    }

    /// Why the pool is suspended, if it is.
    pub fn failure(&self) -> Option<Error> {
        self.shared.txgs.progress.failure()
    }

    /// The same for the pool's status.
    pub fn suspension(&self) -> Option<Suspended> {
        self.shared.txgs.progress.suspension()
    }

    /// The last heartbeats, oldest first: as many as [`crate::mmp::Settings::history`].
    pub fn heartbeats(&self) -> Vec<crate::mmp::Heartbeat> {
        self.shared.background.heartbeats.history()
    }

    /// Retries writes that failed (`zpool clear`). [`Writer::failure`] shows a moment later whether
    /// that helped. If devices failed to flush, so that their contents are unknown, the pool must
    /// be exported and imported again.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Statistics of the last txgs, the newest last.
    pub fn txg_stats(&self) -> Vec<TxgStats> {
        self.shared.txgs.stats.list()
    }

    /// Dirty bytes that wait to be written.
    pub fn dirty_bytes(&self) -> u64 {
        self.shared.store.waiting_bytes().load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(crate) fn now(&self) -> u64 {
        host::clock::seconds()
    }

    pub(crate) fn push(&self) {
        self.txgs.progress.push();
    }

    pub(crate) fn refusal(&self) -> Error {
        let failed = self.txgs.progress.failure();
        let name = self.config.identity.lock().name.clone();
        match failed {
            Some(why) => {
                tracing::debug!("{name} is suspended: {why}");
                Refusal::Suspended.at(name)
            }
            None if self.txgs.gate.is_broken() => {
                // The syncing thread reports why.
                self.push();
                Refusal::Suspended.at(name)
            }
            None => Refusal::Stale.at(name),
        }
    }

    /// See [`Writer::task`].
    pub(crate) fn task<R: Send + 'static>(
        &self,
        task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        self.task_among(&self.txgs.jobs, task)
    }

    pub(crate) fn task_among<R: Send + 'static>(
        &self,
        jobs: &Jobs,
        task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let slot = Arc::new(Mutex::new(None));
        let txg = {
            let tx = self.txgs.gate.enter().ok_or_else(|| self.refusal())?;
            let slot = slot.clone();
            jobs.lock().push(Box::new(move |cx| *slot.lock() = Some(task(cx))));
            tx.txg()
        };
        self.wait(txg)?;
        let result = slot.lock().take();
        result.unwrap_or_else(|| Err(self.refusal()))
    }

    pub(crate) fn wait(&self, txg: u64) -> Result<()> {
        self.txgs.gate.assert_outside("a thread waits for a txg");
        self.txgs.progress.wait(txg, || Refusal::Stale.at(self.store.name()))
    }

    /// Called by a thread that syncs the txg when no device takes a block: suspends the pool, and
    /// waits for [`Writer::resume`] or for the pool to be closed. Returns whether to retry. A write
    /// that began before the last resumption is retried at once.
    pub(crate) fn suspended(&self, error: &Error, begun: u64) -> bool {
        let is_resumed = || self.store.resumptions() != begun;
        // Nothing else closes the fence.
        let is_multihost = self.store.fence().is_closed();
        self.txgs.progress.suspend(error, is_multihost, is_resumed, || self.note_suspension(error))
    }

    /// Suspends the pool because its heartbeats are late.
    pub(crate) fn suspend_late(&self) {
        let name = self.store.name();
        let what = "multihost writes have not succeeded in time, and another host may take over the pool";
        let error = Error::io(name, std::io::Error::other(what));
        self.txgs.progress.suspend_late(&error, || self.note_suspension(&error));
    }

    fn note_suspension(&self, error: &Error) {
        tracing::error!("{}: suspended: {error}", self.store.name());
        self.report_states();
        self.store.reporter().pool_report(block::zevent::class::IO_FAILURE);
        self.txgs.gate.suspend(true);
    }

    pub(crate) fn resume(&self) {
        self.txgs.progress.resume(|| {
            self.background.heartbeats.reopen(self);
            self.store.count_resumption();
            self.store.tree().leaves().iter().for_each(|leaf| leaf.clear_errors());
            self.txgs.gate.suspend(false);
        });
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.txgs.progress.is_suspended()
    }
}
