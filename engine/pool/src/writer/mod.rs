//! A pool open for writing: one owner moves txgs through open, quiescing and syncing.
//!
//! Below: `object` (live object sets), `space` (the allocator), `block` (blocks and labels). Above: datasets take part as
//! [`Participant`]s, administration runs [`Writer::task`]s. ZFS names: spa_sync, txg, dsl_sync_task.
//!
//! ```text
//!   begin()  ── transactions ──>  open txg n+1
//!                                     │ every 5 s, at a dirty limit, or on demand: gate closes, changes are handed over
//!                                     v
//!   one thread:  participants' object sets ─> tasks ─> space maps and MOS, pass by pass, until nothing is dirty
//!                ─> flush ─> even labels ─> uberblock ─> odd labels ─> n is synced, whoever waits goes on
//! ```
//!
//! Invariants:
//!   * the MOS is changed by the syncing thread only
//!   * an uberblock is written only after everything that it leads to was flushed
//!   * after an error in the middle of a txg nothing more is written: the pool is suspended, as the last synced txg left it

mod config;
mod create;
mod features;
mod gate;
mod history;
mod label;
mod maps;
mod missed;
mod mos;
mod open;
mod props;
mod stats;
mod sync;
mod tx;

pub use create::{CreatePool, NewVdev, check_features};
pub use open::{ClaimLogs, WriteOptions, can_write, default_features, is_called};
pub use stats::{Phase, TxgStats};
pub use tx::SyncTx;

use crate::config::VdevConfig;
use crate::space::Allocator;
use crate::{Error, Pool, Refusal, Result};
use block::Store;
use config::Identity;
use features::LiveFeatures;
use gate::Gate;
use object::{ObjectSet, Tx};
use ondisk::BlkPtr;
use ondisk::uberblock::Uberblock;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Something whose changes are part of txgs: a dataset open for writing.
pub trait Participant: Send + Sync {
    /// Whether `txg` has changes of it.
    fn is_dirty(&self, txg: u64) -> bool;
    /// `txg` is closed: nobody changes anything in it any more. Hands over, and returns quickly: everybody waits.
    fn quiesce(&self, txg: u64);
    /// Writes the changes of the txg. Called even when there are none.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()>;
    /// The uberblock of `txg` is on disk.
    fn synced(&self, txg: u64) {
        let _ = txg;
    }
}

type Job = Box<dyn FnOnce(&SyncTx<'_>) + Send>;

/// How far txgs have come.
struct Progress {
    /// The last txg on disk.
    synced: u64,
    /// Somebody waits for this one.
    wanted: u64,
    /// Sync soon: much is dirty.
    pushed: bool,
    stop: bool,
    stopped: bool,
    /// Why the pool cannot write any more.
    failed: Option<Error>,
    /// Why the pool cannot write for now: [`Writer::resume`] has it tried again.
    suspended: Option<Error>,
    /// Counts resumptions.
    resumed: u64,
}

pub(crate) struct Shared {
    store: Arc<Store>,
    mos: Arc<ObjectSet>,
    allocator: Arc<Allocator>,
    features: LiveFeatures,
    gate: Arc<Gate>,
    identity: Mutex<Identity>,
    root: Mutex<VdevConfig>,
    uberblock: Mutex<Uberblock>,
    progress: Mutex<Progress>,
    /// Wakes the syncing thread.
    wake: Condvar,
    /// Wakes those who wait for a txg.
    done: Condvar,
    participants: Mutex<Vec<Arc<dyn Participant>>>,
    jobs: Mutex<Vec<Job>>,
    config_dirty: AtomicBool,
    /// Space of the MOS not yet counted in its directory: used, compressed, uncompressed.
    mos_space: Mutex<(i64, i64, i64)>,
    deflate: Vec<u64>,
    /// The pool as it was opened; `None` while it is being made.
    base: Option<Arc<Pool>>,
    published: Mutex<Option<Arc<Pool>>>,
    /// Waiting bytes at which a txg is closed before its time.
    early_bytes: u64,
    stats: stats::Stats,
    interval: Duration,
}

/// A pool open for writing.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Writer {
    fn start(shared: Arc<Shared>) -> Result<Arc<Self>> {
        let weak = Arc::downgrade(&shared);
        let ask = move |e: &Error| weak.upgrade().is_some_and(|shared| shared.suspended(e));
        shared.store.set_on_write_failure(Some(Arc::new(ask)));
        let thread = std::thread::Builder::new().name("txg-sync".into()).spawn({
            let shared = shared.clone();
            move || sync::run(&shared)
        });
        let thread = thread.map_err(|e| Error::io(shared.store.name(), e))?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// A transaction in the open txg. Waits while too much is dirty; refused when the pool is suspended or closed.
    ///
    /// Whoever holds it must not wait for a txg, nor call this again.
    pub fn begin(&self) -> Result<Tx> {
        let shared = &self.shared;
        if shared.store.waiting_bytes().load(Ordering::Relaxed) > shared.early_bytes {
            shared.push();
        }
        shared.gate.slow(|| shared.push());
        shared.gate.enter().ok_or_else(|| shared.refusal())
    }

    /// As [`Writer::begin`], without waiting while much is dirty: for whoever makes safe what is dirty already, such as the
    /// intent log. It must not make much more of it.
    pub fn hold(&self) -> Result<Tx> {
        self.shared.gate.enter().ok_or_else(|| self.shared.refusal())
    }

    /// Runs `task` in the thread that syncs, where the pool's own objects may be changed, and returns once its txg is on disk.
    ///
    /// A task that returns an error must have changed nothing.
    pub fn task<R: Send + 'static>(&self, task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static) -> Result<R> {
        let slot = Arc::new(Mutex::new(None));
        let shared = &self.shared;
        let txg = {
            let tx = shared.gate.enter().ok_or_else(|| shared.refusal())?;
            let slot = slot.clone();
            shared.jobs.lock().push(Box::new(move |cx| *slot.lock() = Some(task(cx))));
            tx.txg()
        };
        self.wait(txg)?;
        let result = slot.lock().take();
        result.unwrap_or_else(|| Err(shared.refusal()))
    }

    /// Returns once everything that was changed before is on disk.
    pub fn sync(&self) -> Result<()> {
        self.wait(self.shared.gate.open())
    }

    /// Returns once `txg` is on disk.
    pub fn wait(&self, txg: u64) -> Result<()> {
        self.shared.wait(txg)
    }

    /// Number of the open txg.
    pub fn open_txg(&self) -> u64 {
        self.shared.gate.open()
    }

    /// Number of the last txg on disk.
    pub fn synced_txg(&self) -> u64 {
        self.shared.progress.lock().synced
    }

    /// The pool as the last synced txg left it, for reading.
    pub fn pool(&self) -> Result<Arc<Pool>> {
        self.shared.pool()
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// The pool's free space.
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.shared.allocator
    }

    /// The pool's own objects, live: for the syncing thread, and for reading what it is about to sync.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.shared.mos
    }

    /// The pool's name.
    pub fn name(&self) -> String {
        self.shared.identity.lock().name.clone()
    }

    /// Whether a feature may be used.
    pub fn feature_enabled(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some())
    }

    /// Whether a feature is in use.
    pub fn feature_active(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some_and(|n| n > 0))
    }

    /// A random number, from where the machine has them.
    pub fn random(&self) -> u64 {
        host::random::u64()
    }

    /// Lets `participant` take part in txgs from now on.
    pub fn register(&self, participant: Arc<dyn Participant>) {
        self.shared.participants.lock().push(participant);
    }

    /// Ends what [`Writer::register`] began. What it changed must be synced.
    pub fn unregister(&self, participant: &Arc<dyn Participant>) {
        self.shared.participants.lock().retain(|p| !Arc::ptr_eq(p, participant));
    }

    /// Why the pool is suspended, if it is.
    pub fn failure(&self) -> Option<Error> {
        let progress = self.shared.progress.lock();
        progress.failed.clone().or_else(|| progress.suspended.clone())
    }

    /// Tries again what could not be written (`zpool clear`). Whether that helps, [`Writer::failure`] tells a moment later; a
    /// pool whose devices failed to flush, so that it is not known what they hold, has to be exported and imported again.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Figures of the last txgs, the newest last.
    pub fn txg_stats(&self) -> Vec<TxgStats> {
        self.shared.stats.list()
    }

    /// Bytes that wait to be written.
    pub fn dirty_bytes(&self) -> u64 {
        self.shared.store.waiting_bytes().load(Ordering::Relaxed)
    }

    /// Renames the pool with the next txg (`zpool import POOL NEWNAME`).
    pub fn set_name(&self, name: &str) -> Result<()> {
        self.shared.identity.lock().name = name.to_owned();
        self.change_config()
    }

    /// Sets what the configuration says beside the devices: comment and compatibility.
    pub fn set_texts(&self, comment: Option<Option<String>>, compatibility: Option<Option<String>>) -> Result<()> {
        {
            let mut identity = self.shared.identity.lock();
            if let Some(comment) = comment {
                identity.comment = comment;
            }
            if let Some(compatibility) = compatibility {
                identity.compatibility = compatibility;
            }
        }
        self.change_config()
    }

    /// Gives the pool another identity (`zpool reguid`).
    pub fn set_guid(&self, guid: u64) -> Result<()> {
        {
            let mut root = self.shared.root.lock();
            root.guid = guid;
            root.all.put(ondisk::pool_dir::config::GUID, guid);
            self.shared.identity.lock().guid = guid;
        }
        self.change_config()
    }

    fn change_config(&self) -> Result<()> {
        self.task(|cx| {
            cx.config_changed();
            Ok(())
        })
    }

    /// Syncs and stops: the pool stays in use by this host, as its labels say.
    pub fn close(&self) -> Result<()> {
        let result = self.sync();
        self.stop();
        result
    }

    /// Syncs, marks the pool as exported, and stops. A pool that cannot write is let go as well, as the last synced txg has it,
    /// and the error says why.
    pub fn export(&self) -> Result<()> {
        self.leave(EXPORTED)
    }

    /// Syncs, marks the pool as destroyed, and stops.
    pub fn destroy(&self) -> Result<()> {
        self.leave(DESTROYED)
    }

    fn leave(&self, state: u64) -> Result<()> {
        let result = self.sync().and_then(|()| {
            self.shared.identity.lock().state = state;
            self.change_config()
        });
        self.stop();
        result
    }

    fn stop(&self) {
        self.shared.gate.shut();
        self.shared.progress.lock().stop = true;
        self.shared.wake.notify_all();
        self.shared.done.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // It panicked: whoever waited was told.
            let _ = thread.join();
        }
    }
}

/// `POOL_STATE_` of labels.
const ACTIVE: u64 = 0;
const EXPORTED: u64 = 1;
const DESTROYED: u64 = 2;

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn now(&self) -> u64 {
        host::clock::seconds()
    }

    fn push(&self) {
        let mut progress = self.progress.lock();
        if !progress.pushed {
            progress.pushed = true;
            self.wake.notify_all();
        }
    }

    fn refusal(&self) -> Error {
        let failed = {
            let progress = self.progress.lock();
            progress.failed.clone().or_else(|| progress.suspended.clone())
        };
        let name = self.identity.lock().name.clone();
        match failed {
            Some(why) => {
                tracing::debug!("{name} is suspended: {why}");
                Refusal::Suspended.at(name)
            }
            None => Refusal::Stale.at(name),
        }
    }

    fn wait(&self, txg: u64) -> Result<()> {
        let mut progress = self.progress.lock();
        progress.wanted = progress.wanted.max(txg);
        self.wake.notify_all();
        while progress.synced < txg {
            if let Some(e) = progress.failed.as_ref().or(progress.suspended.as_ref()) {
                return Err(e.clone());
            }
            if progress.stopped {
                return Err(Refusal::Stale.at(self.store.name()));
            }
            self.done.wait(&mut progress);
        }
        Ok(())
    }

    /// Called by the thread that syncs when no device takes a block: waits for [`Writer::resume`], or for the end.
    fn suspended(&self, error: &Error) -> bool {
        let mut progress = self.progress.lock();
        if progress.stop {
            return false;
        }
        tracing::error!("{}: suspended: {error}", self.store.name());
        let before = progress.resumed;
        progress.suspended = Some(error.clone());
        self.gate.suspend(true);
        self.done.notify_all();
        while progress.resumed == before && !progress.stop {
            self.done.wait(&mut progress);
        }
        !progress.stop
    }

    fn resume(&self) {
        let mut progress = self.progress.lock();
        if progress.suspended.take().is_some() {
            progress.resumed += 1;
            self.store.tree().leaves().iter().for_each(|leaf| leaf.clear_errors());
            self.gate.suspend(false);
            self.done.notify_all();
        }
    }

    /// Space that a block counts for (`bp_get_dsize`).
    fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        if bp.is_embedded() {
            return 0;
        }
        let of = |dva: ondisk::Dva| {
            let ratio = self.deflate.get(dva.vdev as usize).copied().unwrap_or(512);
            (dva.asize_bytes >> 9).saturating_mul(ratio)
        };
        bp.dvas().map(of).sum()
    }

    fn pool(&self) -> Result<Arc<Pool>> {
        let uberblock = self.uberblock.lock().clone();
        let mut published = self.published.lock();
        if let Some(pool) = published.as_ref().filter(|p| p.uberblock().txg == uberblock.txg) {
            return Ok(pool.clone());
        }
        let base = self.base.as_ref().ok_or_else(|| Refusal::Busy.at(self.store.name()))?;
        let pool = base.at_uberblock(&self.store, &uberblock, &self.identity.lock())?;
        *published = Some(pool.clone());
        Ok(pool)
    }

    fn is_dirty(&self, txg: u64) -> bool {
        !self.jobs.lock().is_empty()
            || self.config_dirty.load(Ordering::SeqCst)
            || self.participants.lock().iter().any(|p| p.is_dirty(txg))
    }
}

/// Time since `start` in nanoseconds, and starts anew.
fn lap(start: &mut Instant) -> u64 {
    let now = Instant::now();
    let spent = now.duration_since(*start);
    *start = now;
    u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)
}
