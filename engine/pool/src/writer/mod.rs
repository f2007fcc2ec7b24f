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

mod add;
mod attach;
mod caches;
mod checkpoint;
mod config;
mod create;
mod deflate;
mod evacuate;
mod expand;
mod features;
mod gate;
mod grow;
mod history;
mod label;
mod maps;
mod missed;
mod mos;
mod open;
mod props;
mod remove;
mod replaced;
mod scan;
mod shape;
mod split;
mod states;
mod stats;
mod sweep;
mod sync;
mod told;
mod tree;
mod tx;
mod vdev_props;
mod vdevs;
mod views;

pub use attach::{Joins, NewLeaf};
pub use create::{CreatePool, check_features};
pub(crate) use evacuate::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};
pub use open::{ClaimLogs, WriteOptions, can_write, default_features, is_called};
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
use crate::{Error, Pool, Refusal, Result, SpaceCheck};
use block::Store;
use config::Identity;
use deflate::Deflate;
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

/// Something whose changes are part of txgs: a dataset open for writing.
pub trait Participant: Send + Sync {
    /// The open txg is about to be closed, if it has any changes: changes may be made in it still. Called by the thread that
    /// closes it, which must not wait for a txg.
    fn before_close(&self) {}
    /// Whether `txg` has changes of it.
    fn is_dirty(&self, txg: u64) -> bool;
    /// `txg` is closed: nobody changes anything in it any more. Hands over, and returns quickly: everybody waits.
    fn quiesce(&self, txg: u64);
    /// `txg` is closed: tells the data blocks that it uses once more than before. Called for all participants before the first one
    /// frees anything.
    fn cloned(&self, txg: u64, tell: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        let _ = (txg, tell);
        Ok(())
    }
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
    /// The syncing thread releases the pool when it ends: it was the last that had something of it.
    releases: bool,
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
    /// Those that come before anything of their txg is changed or freed.
    early_jobs: Mutex<Vec<Job>>,
    /// Removal of devices that hold data.
    evacuation: evacuate::Evacuation,
    /// What a checkpoint kept goes, step by step.
    discarding: AtomicBool,
    config_dirty: AtomicBool,
    /// Space of the MOS not yet counted in its directory: used, compressed, uncompressed.
    mos_space: Mutex<(i64, i64, i64)>,
    /// By number of the top-level device: what its bytes count for.
    deflate: Arc<Deflate>,
    /// Blocks that are used more than once.
    clones: Arc<Clones>,
    /// Scrub and resilver.
    scan: scan::Scans,
    /// Of a raidz that is being widened.
    expansion: expand::Expansion,
    /// Trimming and initializing.
    sweeps: sweep::Sweeps,
    /// Contents that are stored once and used several times.
    dedup: Arc<Dedup>,
    /// Devices that leave with the txg that is synced.
    farewells: Mutex<Vec<replaced::Farewell>>,
    /// The pool as it was opened; `None` while it is being made.
    base: Option<Arc<Pool>>,
    /// For those who read.
    views: views::Views,
    /// How it was opened.
    options: WriteOptions,
    stats: stats::Stats,
    /// What was last told of leaves.
    states: told::States,
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
        shared.tell_identity();
        shared.tell_failmode();
        shared.tell_states();
        let thread = std::thread::Builder::new().name("txg-sync".into()).spawn({
            let shared = shared.clone();
            move || sync::run(&shared)
        });
        let thread = thread.map_err(|e| Error::io(shared.store.name(), e))?;
        let guid = shared.identity.lock().guid;
        shared.store.start_second(guid, true)?;
        shared.watch_reads();
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// A transaction in the open txg. Waits while too much is dirty; refused when the pool is suspended or closed.
    ///
    /// Whoever holds it must not wait for a txg, nor call this again.
    pub fn begin(&self) -> Result<Tx> {
        let shared = &self.shared;
        let early = shared.gate.limit() / 100 * sync::EARLY_PERCENT;
        if shared.store.waiting_bytes().load(Ordering::Relaxed) > early {
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
        self.shared.task(task)
    }

    /// Has `task` run in the thread that syncs, with the txg that is open now, and waits for nothing: what must not be lost is no task for
    /// this. A task that fails must have changed nothing; it is told in the log.
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

    /// The pool as the last synced txg left it, for whatever must not miss a change. Opening it reads from devices, and waits for them.
    pub fn pool(&self) -> Result<Arc<Pool>> {
        self.shared.pool()
    }

    /// The pool for display: as the last synced txg left it, or as an earlier one did when the devices do not let it be read in time.
    pub fn shown(&self) -> Result<Arc<Pool>> {
        self.shared.shown()
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Most bytes of blocks that the cache keeps from now on; how much may wait to be written follows, unless it was said.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.shared.store.cache().set_cap(bytes);
        self.shared.gate.set_limit(self.shared.options.dirty_bytes(bytes));
    }

    /// Most bytes of changed contents that may wait in memory.
    pub fn dirty_max_bytes(&self) -> u64 {
        self.shared.gate.limit()
    }

    /// What deduplication and cloning save.
    pub fn saved_bytes(&self) -> u64 {
        self.shared.saved_bytes()
    }

    /// What all datasets together may use, with what deduplication and cloning save. Deferred frees count as free.
    pub fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.shared.usable_bytes(check)
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

    /// The same for the pool's status.
    pub fn suspension(&self) -> Option<crate::status::Suspended> {
        let progress = self.shared.progress.lock();
        let until_reopened = progress.failed.is_some();
        let why = progress.failed.as_ref().or(progress.suspended.as_ref())?.to_string();
        Some(crate::status::Suspended { why, until_reopened })
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
        {
            let mut identity = self.shared.identity.lock();
            identity.name = name.to_owned();
            identity.label_name = name.to_owned();
        }
        self.shared.tell_identity();
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
        self.task(move |cx| {
            cx.shared.refuse_with_checkpoint()?;
            let mut root = cx.shared.root.lock();
            root.guid = guid;
            root.all.put(ondisk::pool_dir::config::GUID, guid);
            cx.shared.identity.lock().guid = guid;
            cx.shared.tell_identity();
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

    /// Syncs and stops: the pool stays in use by this host, as its labels say.
    pub fn close(&self) -> Result<()> {
        self.shared.stop_background();
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
        // Whoever waits for a txg is told that there are no more.
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
            // It panicked: whoever waited was told.
            let _ = thread.join();
        }
        self.shared.release();
    }
}

/// `POOL_STATE_` of labels.
const ACTIVE: u64 = 0;
const EXPORTED: u64 = 1;
const DESTROYED: u64 = 2;

static SUSPENDED: Info = Info {
    name: "pool_suspended",
    unit: Unit::Number,
    help: "1 while the pool cannot write; what it has not written waits in memory.",
};
static SYNCED: Info = Info { name: "txg_synced", unit: Unit::Number, help: "Number of the last txg on disk." };

static DIRTY_CAP: Info = Info {
    name: "txg_dirty_cap",
    unit: Unit::Bytes,
    help: "Most bytes of changed contents that may wait in memory before writers wait.",
};

/// Figures of the pool: its txgs, cache and devices.
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
        // Who still reads something of the pool keeps nobody from opening it.
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

    /// Called by the thread that syncs when no device takes a block: waits for [`Writer::resume`], or for the end.
    fn suspended(&self, error: &Error) -> bool {
        let mut progress = self.progress.lock();
        if progress.stop {
            return false;
        }
        tracing::error!("{}: suspended: {error}", self.store.name());
        self.tell_states();
        self.store.reporter().pool_report(block::zevent::class::IO_FAILURE);
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
        self.deflate.space_bytes(bp)
    }

    /// What all datasets together may use, with what deduplication and cloning save.
    fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.allocator.totals().usable_bytes(check).saturating_add(self.saved_bytes())
    }

    fn saved_bytes(&self) -> u64 {
        self.dedup.saved_bytes().saturating_add(self.clones.saved_bytes())
    }

    /// What all datasets together use, as the pool's own objects say now.
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

/// Time since `start` in nanoseconds, and starts anew.
fn lap(start: &mut Instant) -> u64 {
    let now = Instant::now();
    let spent = now.duration_since(*start);
    *start = now;
    u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)
}
