//! A pool open for writing: one owner moves txgs through open, quiescing and syncing.
//!
//! Below: `object` (live object sets), `space` (the allocator), `block` (blocks and labels). Above:
//! datasets take part in txgs as [`Participant`]s, administration runs [`Writer::task`]s. ZFS
//! names: spa_sync, txg, dsl_sync_task.
//!
//! ```text
//!   begin()  ── transactions ──>  open txg n+1
//!                                     │ every 5 s, at a dirty limit, or on demand: gate closes, changes are handed over
//!                                     v
//!   one thread:  participants' object sets ─> tasks ─> space maps and MOS, pass by pass, until nothing is dirty
//!                ─> flush ─> even labels ─> uberblock ─> odd labels ─> n is synced, waiting threads continue
//! ```
//!
//! Invariants:
//!   * only the syncing thread changes the MOS
//!   * an uberblock is written only after everything that it leads to was flushed
//!   * after an error in the middle of a txg nothing more is written: the pool is suspended in the
//!     state of the last synced txg

mod add;
mod attach;
mod caches;
mod checkpoint;
mod config;
mod create;
mod deflate;
mod detach;
mod dtl;
mod evacuate;
mod events;
mod expand;
mod features;
mod gate;
mod grow;
mod history;
mod label;
mod maps;
mod mos;
mod open;
mod props;
mod remove;
mod scan;
mod shape;
mod split;
mod states;
mod stats;
mod sweep;
mod sync;
mod tree;
mod tx;
mod vdev_props;
mod vdevs;
mod views;

pub use crate::feature::{can_write, default_features, is_called};
pub use attach::{Joins, NewLeaf};
pub use create::{CreatePool, check_features};
pub(crate) use evacuate::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};
pub use open::{ClaimLogs, WriteOptions};
pub(crate) use scan::Figures as ScanFigures;
pub use scan::{ScanActivity, ScanAnswer, ScanRefused};
pub use split::OwnedOpener;
pub use states::{Lasts, Opener};
pub use stats::{Phase, TxgStats};
pub(crate) use sweep::read_work;
pub use sweep::{Order, Work, WorkRefused, WorkState};
pub use tx::SyncTx;
pub use vdevs::{NewAuxiliary, NewDevices, NewDraid, NewVdev};

use crate::clones::Clones;
use crate::config::VdevConfig;
use crate::dedup::Dedup;
use crate::space::Allocator;
use crate::{Pool, SpaceCheck};
use block::Store;
use block::l2::Secondary;
use config::Identity;
use deflate::Deflate;
use errors::{Error, Refusal, Result};
use features::LiveFeatures;
use gate::Gate;
use object::zap::Zap;
use object::{ObjectSet, Tx};
use observe::{Collector, Info, Source, Unit, Value};
use ondisk::pool_dir::{DIRECTORY_OBJECT, directory};
use ondisk::uberblock::Uberblock;
use ondisk::{BlkPtr, DslDir};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An object whose changes are part of txgs: a dataset open for writing.
pub trait Participant: Send + Sync {
    /// Called before the open txg is closed, if it has any changes. The participant may still
    /// change something in it. The calling thread closes the txg, so this must not wait for a txg.
    fn before_close(&self) {}
    /// Whether the participant has changes in `txg`.
    fn is_dirty(&self, txg: u64) -> bool;
    /// `txg` is closed: no thread changes anything in it any more. Hands the changes over. It must
    /// return quickly, because all writers wait.
    fn quiesce(&self, txg: u64);
    /// `txg` is closed: calls `tell` for each data block that the txg references once more than
    /// before. Called for all participants before the first one frees anything.
    fn cloned(&self, txg: u64, tell: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        let _ = (txg, tell);
        Ok(())
    }
    /// Writes the changes of the txg. Called even if there are none.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()>;
    /// The uberblock of `txg` is on disk.
    fn synced(&self, txg: u64) {
        let _ = txg;
    }
}

type Job = Box<dyn FnOnce(&SyncTx<'_>) + Send>;

/// Progress of txgs.
struct Progress {
    /// The last txg on disk.
    synced: u64,
    /// The last txg for which a thread waits.
    wanted: u64,
    /// Sync soon, because there is much dirty data.
    pushed: bool,
    stop: bool,
    stopped: bool,
    /// The syncing thread releases the pool when it ends: it was the last that had something of it.
    releases: bool,
    /// Why the pool cannot write any more.
    failed: Option<Error>,
    /// Why the pool cannot write for now: [`Writer::resume`] retries.
    suspended: Option<Error>,
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
    /// Wakes threads that wait for a txg.
    done: Condvar,
    participants: Mutex<Vec<Arc<dyn Participant>>>,
    jobs: Mutex<Vec<Job>>,
    /// Jobs that run before anything is changed or freed in their txg.
    early_jobs: Mutex<Vec<Job>>,
    /// Removal of devices that hold data.
    evacuation: evacuate::Evacuation,
    /// Space of a discarded checkpoint is being freed step by step.
    discarding: AtomicBool,
    config_dirty: AtomicBool,
    /// Space of the MOS not yet counted in its DSL directory: used, compressed, uncompressed.
    mos_space: Mutex<(i64, i64, i64)>,
    /// Deflate ratios by number of the top-level device.
    deflate: Arc<Deflate>,
    /// Blocks that are referenced more than once because of cloning (BRT).
    clones: Arc<Clones>,
    scan: scan::Scans,
    expansion: expand::Expansion,
    /// Trim and initialize.
    sweeps: sweep::Sweeps,
    /// Dedup tables (DDT).
    dedup: Arc<Dedup>,
    /// Devices that leave the pool with the syncing txg.
    farewells: Mutex<Vec<detach::Farewell>>,
    /// The pool as it was opened; `None` while it is being created.
    base: Option<Arc<Pool>>,
    /// States of the pool for readers.
    views: views::Views,
    /// Options with which it was opened.
    options: WriteOptions,
    stats: stats::Stats,
    /// Device states that were last reported.
    states: events::ReportedStates,
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
        let ask = move |e: &Error, begun| weak.upgrade().is_some_and(|shared| shared.suspended(e, begun));
        shared.store.set_on_write_failure(Some(Arc::new(ask)));
        shared.report_identity();
        shared.report_failmode();
        shared.report_states();
        let thread = std::thread::Builder::new().name("txg-sync".into()).spawn({
            let shared = shared.clone();
            move || {
                let _doing = block::doing(block::Task::Background);
                sync::run(&shared);
            }
        });
        let thread = thread.map_err(|e| Error::io(shared.store.name(), e))?;
        let guid = shared.identity.lock().guid;
        shared.store.start_second(guid, true)?;
        shared.watch_reads();
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Begins a transaction in the open txg. Waits while there is too much dirty data. Fails if the
    /// pool is suspended or closed.
    ///
    /// The holder must not wait for a txg, and must not call this again.
    pub fn begin(&self) -> Result<Tx> {
        let shared = &self.shared;
        let early = shared.gate.limit() / 100 * sync::EARLY_PERCENT;
        if shared.store.waiting_bytes().load(Ordering::Relaxed) > early {
            shared.push();
        }
        shared.gate.slow(|| shared.push());
        shared.gate.enter().ok_or_else(|| shared.refusal())
    }

    /// Like [`Writer::begin`], but without waiting for dirty data to be written: for callers that
    /// make existing dirty data durable, such as the intent log. They must not add much dirty data.
    pub fn hold(&self) -> Result<Tx> {
        self.shared.gate.enter().ok_or_else(|| self.shared.refusal())
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
        let _tx = shared.gate.enter().ok_or_else(|| shared.refusal())?;
        shared.jobs.lock().push(Box::new(move |cx| {
            if let Err(error) = task(cx) {
                tracing::warn!(%error, "a task that nobody waits for failed");
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
        self.wait(self.shared.gate.open())
    }

    /// Returns when `txg` is on disk.
    pub fn wait(&self, txg: u64) -> Result<()> {
        self.shared.wait(txg)
    }

    /// Number of the open txg.
    pub fn open_txg(&self) -> u64 {
        self.shared.gate.open()
    }

    /// Number of the last synced txg.
    pub fn synced_txg(&self) -> u64 {
        self.shared.progress.lock().synced
    }

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

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Sets the limit for the bytes of blocks in the cache. The limit for dirty data follows it,
    /// unless it was set explicitly.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.shared.store.cache().set_cap(bytes);
        self.shared.gate.set_limit(self.shared.options.dirty_bytes(bytes));
    }

    /// Limit for dirty data in memory, in bytes.
    pub fn dirty_max_bytes(&self) -> u64 {
        self.shared.gate.limit()
    }

    /// Bytes saved by dedup and cloning.
    pub fn saved_bytes(&self) -> u64 {
        self.shared.saved_bytes()
    }

    /// Bytes that all datasets together may use, including savings by dedup and cloning. Deferred
    /// frees count as free.
    pub fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.shared.usable_bytes(check)
    }

    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.shared.allocator
    }

    /// The live MOS: for the syncing thread, and for reading changes that are about to be synced.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.shared.mos
    }

    pub fn name(&self) -> String {
        self.shared.identity.lock().name.clone()
    }

    /// Whether a feature is enabled.
    pub fn feature_enabled(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some())
    }

    /// Whether a feature is active.
    pub fn feature_active(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some_and(|n| n > 0))
    }

    /// Sets which blocks of `dataset` the cache devices store: `setting` is the number of the
    /// property `secondarycache`.
    pub fn set_secondary_cache(&self, dataset: u64, setting: u64) {
        self.store().second().set_policy(dataset, Secondary::from_number(setting));
    }

    /// A random number from the operating system.
    pub fn random(&self) -> u64 {
        host::random::u64()
    }

    /// Adds `participant` to all txgs from now on.
    pub fn register(&self, participant: Arc<dyn Participant>) {
        self.shared.participants.lock().push(participant);
    }

    /// Reverts [`Writer::register`]. The participant's changes must be synced.
    pub fn unregister(&self, participant: &Arc<dyn Participant>) {
        self.shared.participants.lock().retain(|p| !Arc::ptr_eq(p, participant));
    }

    /// Why the pool is suspended, if it is.
    pub fn failure(&self) -> Option<Error> {
        let progress = self.shared.progress.lock();
        progress.failed.clone().or_else(|| progress.suspended.clone())
    }

    /// The same for the pool's status.
    pub fn suspension(&self) -> Option<crate::status::Suspended> {
        let progress = self.shared.progress.lock();
        let until_reopened = progress.failed.is_some();
        let why = progress.failed.as_ref().or(progress.suspended.as_ref())?.to_string();
        Some(crate::status::Suspended { why, until_reopened })
    }

    /// Retries writes that failed (`zpool clear`). [`Writer::failure`] shows a moment later whether
    /// that helped. If devices failed to flush, so that their contents are unknown, the pool must
    /// be exported and imported again.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Statistics of the last txgs, the newest last.
    pub fn txg_stats(&self) -> Vec<TxgStats> {
        self.shared.stats.list()
    }

    /// Dirty bytes that wait to be written.
    pub fn dirty_bytes(&self) -> u64 {
        self.shared.store.waiting_bytes().load(Ordering::Relaxed)
    }

    /// Renames the pool in the next txg (`zpool import POOL NEWNAME`).
    pub fn set_name(&self, name: &str) -> Result<()> {
        {
            let mut identity = self.shared.identity.lock();
            identity.name = name.to_owned();
            identity.label_name = name.to_owned();
        }
        self.shared.report_identity();
        self.change_config()
    }

    /// Sets the comment and the compatibility in the configuration.
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

    /// Changes the pool's guid (`zpool reguid`).
    pub fn set_guid(&self, guid: u64) -> Result<()> {
        self.task(move |cx| {
            cx.shared.refuse_with_checkpoint()?;
            let mut root = cx.shared.root.lock();
            root.guid = guid;
            root.all.put(ondisk::pool_dir::config::GUID, guid);
            cx.shared.identity.lock().guid = guid;
            cx.shared.report_identity();
            cx.store().reporter().sysevent(block::zevent::class::POOL_REGUID, |_| ());
            cx.config_changed();
            Ok(())
        })
    }

    fn change_config(&self) -> Result<()> {
        self.task(|cx| {
            cx.config_changed();
            Ok(())
        })
    }

    /// Syncs and stops. The labels keep saying that this host uses the pool.
    pub fn close(&self) -> Result<()> {
        self.shared.stop_background();
        let result = self.sync();
        self.stop();
        result
    }

    /// Syncs, marks the pool as exported, and stops. A pool that cannot write is closed too, in the
    /// state of the last synced txg, and the error gives the reason.
    pub fn export(&self) -> Result<()> {
        self.leave(EXPORTED)
    }

    /// Syncs, marks the pool as destroyed, and stops.
    pub fn destroy(&self) -> Result<()> {
        self.leave(DESTROYED)
    }

    fn leave(&self, state: u64) -> Result<()> {
        self.shared.stop_background();
        let result = self.sync().and_then(|()| {
            self.shared.identity.lock().state = state;
            if state == EXPORTED {
                self.shared.allocator.flush_all_next();
            }
            self.change_config()
        });
        self.stop();
        result
    }

    fn stop(&self) {
        self.shared.gate.shut();
        // Threads that wait for a txg find out that there will be none.
        self.shared.done.notify_all();
        let thread = self.thread.lock().take();
        if thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id()) {
            // In the middle of a txg, for which what runs in the background may wait.
            let mut progress = self.shared.progress.lock();
            (progress.stop, progress.releases) = (true, true);
            return;
        }
        self.shared.stop_background();
        self.shared.progress.lock().stop = true;
        self.shared.wake.notify_all();
        self.shared.done.notify_all();
        if let Some(thread) = thread {
            // An error means that it panicked; threads that waited for it know that already.
            let _ = thread.join();
        }
        self.shared.release();
    }
}

/// Pool states in labels (`POOL_STATE_*`).
const ACTIVE: u64 = 0;
const EXPORTED: u64 = 1;
const DESTROYED: u64 = 2;

static SUSPENDED: Info = Info {
    name: "pool_suspended",
    unit: Unit::Number,
    help: "1 while the pool is suspended because it cannot write; unwritten data waits in memory.",
};
static SYNCED: Info = Info { name: "txg_synced", unit: Unit::Number, help: "Number of the last synced txg." };

static DIRTY_CAP: Info = Info {
    name: "txg_dirty_cap",
    unit: Unit::Bytes,
    help: "Limit of dirty data in memory; writers wait while it is reached.",
};

/// Statistics of the pool: its txgs, cache and devices.
impl Source for Writer {
    fn collect(&self, out: &mut Collector<'_>) {
        out.put(&SUSPENDED, &[], Value::Level(u64::from(self.failure().is_some())));
        out.put(&SYNCED, &[], Value::Level(self.synced_txg()));
        out.put(&DIRTY_CAP, &[], Value::Level(self.dirty_max_bytes()));
        self.shared.stats.collect(out);
        self.shared.store.collect(out);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Nothing is written any more.
    fn release(&self) {
        self.store.stop_second();
        self.store.end_writing();
        // Threads that still read from the pool keep no other process from opening it.
        self.store.tree().all_leaves().filter_map(|leaf| leaf.device()).for_each(|device| device.release());
    }

    /// Ends what runs in the background, and waits for it.
    fn stop_background(&self) {
        self.stop_expansion();
        self.stop_sweeps();
        self.stop_scans();
    }

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

    /// See [`Writer::task`].
    fn task<R: Send + 'static>(&self, task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static) -> Result<R> {
        self.task_among(&self.jobs, task)
    }

    fn task_among<R: Send + 'static>(
        &self,
        jobs: &Mutex<Vec<Job>>,
        task: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let slot = Arc::new(Mutex::new(None));
        let txg = {
            let tx = self.gate.enter().ok_or_else(|| self.refusal())?;
            let slot = slot.clone();
            jobs.lock().push(Box::new(move |cx| *slot.lock() = Some(task(cx))));
            tx.txg()
        };
        self.wait(txg)?;
        let result = slot.lock().take();
        result.unwrap_or_else(|| Err(self.refusal()))
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

    /// Called by a thread that syncs the txg when no device takes a block: suspends the pool, and
    /// waits for [`Writer::resume`] or for the pool to be closed. Returns whether to retry. A write
    /// that began before the last resumption is retried at once.
    fn suspended(&self, error: &Error, begun: u64) -> bool {
        let mut progress = self.progress.lock();
        if progress.stop || self.store.resumptions() != begun {
            return !progress.stop;
        }
        tracing::error!("{}: suspended: {error}", self.store.name());
        self.report_states();
        self.store.reporter().pool_report(block::zevent::class::IO_FAILURE);
        progress.suspended = Some(error.clone());
        self.gate.suspend(true);
        self.done.notify_all();
        while self.store.resumptions() == begun && !progress.stop {
            self.done.wait(&mut progress);
        }
        !progress.stop
    }

    fn resume(&self) {
        let mut progress = self.progress.lock();
        if progress.suspended.take().is_some() {
            self.store.count_resumption();
            self.store.tree().leaves().iter().for_each(|leaf| leaf.clear_errors());
            self.gate.suspend(false);
            self.done.notify_all();
        }
    }

    /// Space of a block without parity, in bytes (`bp_get_dsize`).
    fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.deflate.space_bytes(bp)
    }

    /// Bytes that all datasets together may use, including savings by dedup and cloning.
    fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.allocator.totals().usable_bytes(check).saturating_add(self.saved_bytes())
    }

    fn saved_bytes(&self) -> u64 {
        self.dedup.saved_bytes().saturating_add(self.clones.saved_bytes())
    }

    /// Bytes that all datasets together use, from the live MOS.
    fn used_bytes(&self) -> Result<u64> {
        let objects = Zap::open(self.mos.object(DIRECTORY_OBJECT)?)?;
        let root = objects.lookup_u64(directory::ROOT_DATASET)?.unwrap_or(0);
        let root = self.mos.object(root)?;
        Ok(DslDir::parse(root.bonus(), root.endian())?.used_bytes)
    }

    fn is_suspended(&self) -> bool {
        let progress = self.progress.lock();
        progress.failed.is_some() || progress.suspended.is_some()
    }

    fn is_dirty(&self, txg: u64) -> bool {
        !self.jobs.lock().is_empty()
            || self.config_dirty.load(Ordering::SeqCst)
            || self.discarding.load(Ordering::SeqCst)
            || self.evacuation.is_active()
            || self.scan.is_dirty()
            || self.participants.lock().iter().any(|p| p.is_dirty(txg))
            || self.dedup.is_dirty()
    }
}

/// Nanoseconds since `start`. Restarts the measurement.
fn lap(start: &mut Instant) -> u64 {
    let now = Instant::now();
    let spent = now.duration_since(*start);
    *start = now;
    u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)
}
