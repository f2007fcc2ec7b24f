//! Datasets open for writing: their object sets, and their part in each txg.
//!
//! ```text
//!   files, intent log ── LiveDataset::begin ── Tx of the open txg ── changes to the objset
//!   pool::Writer ── LiveDatasets (participant) ── quiesce, sync: blocks, counts, MOS
//! ```
//! Below: `object` (dirty blocks), `pool` (txgs, space), `write` (the MOS). Above: `files`.
//!
//! Invariants:
//!   * a dataset is open once: opening it again returns the same instance
//!   * space and quota figures are those of the last synced txg, plus the reservations of open txgs

mod book;
mod ground;
mod lifecycle;
mod notes;
mod owners;
mod policy;
mod redacting;
mod settings;
pub(crate) mod sync;

pub use lifecycle::LateChanges;
pub use owners::{Owners, OwnersOf, Spill};
pub use settings::{AclType, LogBias, RedundantMetadata, Settings, SyncMode, XattrStore};

pub(crate) use owners::Counting;
pub(crate) use policy::Policies;
pub(crate) use redacting::Redacting;

use crate::intent_log::{self, ClosedLog, Log, LogFigures, forget_skipped, put_header, report_discarded};
use crate::write::contents::{VOLUME_DATA, VOLUME_PROPERTIES};
use crate::write::cx::Cx;
use crate::write::feature;
use crate::write::pending;
use crate::write::receive_progress::ReceivedTo;
use crate::write::space::{self, Delta, Part};
use crate::{Dataset, Datasets, KeyStore, ListOptions};
use book::{Answer, Book, Room};
use errors::{Error, Place, Refusal, Result};
use host::clock::Stopwatch;
use host::sync::{Mutex, RwLock, RwLockReadGuard};
use lifecycle::Lifecycle;
use notes::UnsyncedNotes;
use object::{ObjectSet, RawObjset, Tx, Zap};
use observe::{Collector, Source};
use ondisk::{BlkPtr, DslDataset, ObjsetKind, ZilHeader, version};
use pool::space::Allocator;
use pool::{Participant, SpaceCheck, SyncTx, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Maximum number of txgs a change waits for because of other transactions' reservations before it
/// is refused. Guessed: each of those txgs had room for other changes.
const WAITS_MAX: usize = 100;
/// Minimum number of such waits, and the time after which no further wait starts. Guessed: writers
/// at a limit get their answer soon.
const WAITS_MIN: usize = 4;
const WAITS_NS_MAX: u64 = 10_000_000_000;
/// Maximum number of txgs a change waits for freed space before it is refused. Blocks become
/// reusable two txgs after the one that freed them; one more txg for datasets freed in the
/// background, and one as a margin.
const FREE_WAITS_MAX: usize = 5;
/// Blocks of destroyed datasets freed in one txg. Guessed: a second or so of reading pointers.
const FREE_PACE: u64 = 50_000;
/// Minimum reservation of a change: a few blocks of metadata.
const LEAST_BYTES: u64 = 16 << 10;

/// All datasets of a pool that are open for writing.
pub struct LiveDatasets {
    writer: Arc<Writer>,
    keys: Arc<KeyStore>,
    open: Arc<Open>,
    log_figures: Arc<LogFigures>,
    /// Held while properties are refreshed, so that values of an older txg never replace newer
    /// ones.
    refreshing: Mutex<()>,
}

/// The state that takes part in txgs.
pub(crate) struct Open {
    heads: Mutex<BTreeMap<u64, Arc<LiveDataset>>>,
    book: Book,
    /// Held by the change whose turn is next. It waits for txgs while holding it, and holds no
    /// transaction.
    turns: Mutex<()>,
    /// Destroyed, but still present in the last synced txg.
    going: Mutex<BTreeSet<u64>>,
    /// Space of destroyed datasets may remain to be freed.
    has_pending: AtomicBool,
    /// Number of their blocks freed in one txg.
    free_pace: AtomicU64,
    /// Space they still account for.
    freeing_bytes: AtomicU64,
    /// Redaction lists that are being made.
    redacting: Arc<redacting::Lists>,
    /// The pool's own objects and free space. Not the writer: dropping the writer ends the
    /// syncing thread, so the last reference must not be dropped on that thread.
    mos: Arc<ObjectSet>,
    allocator: Arc<Allocator>,
}

/// A file system or volume that is open for writing.
pub struct LiveDataset {
    id: u64,
    name: Arc<RwLock<String>>,
    objset: Arc<ObjectSet>,
    writer: Arc<Writer>,
    open: Arc<Open>,
    settings: RwLock<Arc<Settings>>,
    counting: Option<Counting>,
    log: Log,
    /// Shared with the log.
    notes: Arc<UnsyncedNotes>,
    /// Size of a volume. Writers hold it for reading within their transaction, so that nothing
    /// is written beyond the end.
    volume_bytes: RwLock<u64>,
    is_receiving: bool,
    lifecycle: Lifecycle,
}

/// Space of a dataset, for statfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Space it may still write.
    pub available_bytes: u64,
    pub referenced_bytes: u64,
}

/// All metrics of the pool: its intent logs, txgs, cache and devices.
impl Source for LiveDatasets {
    fn collect(&self, out: &mut Collector<'_>) {
        self.log_figures.collect(out);
        self.writer.collect(out);
    }
}

impl LiveDatasets {
    /// For the pool of `writer`; datasets are opened with the keys in `keys`.
    pub fn new(writer: Arc<Writer>, keys: Arc<KeyStore>) -> Arc<Self> {
        let open = Arc::new(Open {
            heads: Mutex::default(),
            book: Book::default(),
            turns: Mutex::default(),
            going: Mutex::default(),
            has_pending: AtomicBool::new(true),
            free_pace: AtomicU64::new(FREE_PACE),
            freeing_bytes: AtomicU64::new(0),
            redacting: Arc::default(),
            mos: writer.mos().clone(),
            allocator: writer.allocator().clone(),
        });
        writer.register(open.clone());
        Arc::new(Self { writer, keys, open, log_figures: Arc::default(), refreshing: Mutex::default() })
    }

    /// The txg engine of the pool.
    pub fn writer(&self) -> &Arc<Writer> {
        &self.writer
    }

    /// The keys that are loaded.
    pub fn keys(&self) -> &Arc<KeyStore> {
        &self.keys
    }

    /// Reports the activity of the intent logs to `events` from now on, under pool name `name`.
    pub fn record_to(&self, events: &Arc<observe::Events>, name: &str) {
        self.log_figures.record_to(events, name);
    }

    /// The datasets as the last synced txg left them.
    pub fn synced(&self) -> Result<Arc<Datasets>> {
        Datasets::open(self.writer.pool()?)
    }

    /// The datasets for display: as of the last synced txg, or of an earlier one when the
    /// devices cannot be read in time. Never use these to open a dataset for writing.
    pub fn shown(&self) -> Result<Arc<Datasets>> {
        Datasets::open(self.writer.shown()?)
    }

    /// Opens file system or volume `name` for writing. `owners_of` returns the owners of an
    /// object of a file system, for space accounting by user, group and project.
    pub fn open(&self, name: &str, owners_of: Option<OwnersOf>) -> Result<Arc<LiveDataset>> {
        // Looked up under the lock: a dataset destroyed concurrently is either not found or
        // known to be going.
        let mut heads = self.open.heads.lock();
        let dataset = self.synced()?.dataset(name)?;
        // A dataset being received is open too, and belongs only to the receive.
        check_writable(&dataset)?;
        if let Some(found) = heads.get(&dataset.id()) {
            return Ok(found.clone());
        }
        if self.open.going.lock().contains(&dataset.id()) {
            return Err(Error::not_found(name, "the dataset"));
        }
        let live = self.open_unchecked(&dataset, owners_of, None)?;
        heads.insert(dataset.id(), live.clone());
        Ok(live)
    }

    /// Opens head `id`, which was created to receive a stream and is inconsistent until the
    /// stream is complete. With `sealed`, the stream is raw: blocks arrive encrypted as the
    /// sender has them.
    pub(crate) fn open_receiving(
        &self,
        id: u64,
        owners_of: Option<OwnersOf>,
        sealed: Option<&RawObjset>,
    ) -> Result<Arc<LiveDataset>> {
        let mut heads = self.open.heads.lock();
        let dataset = self.synced()?.dataset_by_id(id)?;
        if heads.contains_key(&id) || !dataset.phys().has(DslDataset::FLAG_INCONSISTENT) {
            return Err(Refusal::Busy.at(dataset.name()));
        }
        let live = self.open_unchecked(&dataset, owners_of, sealed)?;
        heads.insert(id, live.clone());
        Ok(live)
    }

    fn open_unchecked(
        &self,
        dataset: &Dataset,
        owners_of: Option<OwnersOf>,
        sealed: Option<&RawObjset>,
    ) -> Result<Arc<LiveDataset>> {
        let name = dataset.name();
        let keys = match dataset.crypto_object()? {
            Some(_) if sealed.is_none() => Some(self.keys.dataset_keys(dataset)?),
            _ => None,
        };
        let phys = dataset.phys();
        let store = self.writer.store();
        let kind = dataset.contents()?;
        let objset = match sealed {
            Some(sealed) => ObjectSet::open_raw(store, Some(&phys.bp), dataset.id(), kind, sealed),
            None => ObjectSet::open_live(store, Some(&phys.bp), dataset.id(), keys, kind),
        };
        let objset = objset.at(name)?;
        let settings = Settings::of(dataset)?;
        self.writer.set_secondary_cache(dataset.id(), settings.secondary_cache);
        self.open.book.note(dataset, settings.refquota_bytes, settings.refreservation_bytes);
        let features = dataset.tree().pool().features();
        // The owner of an encrypted file is known only once the file is decrypted.
        let owners_of = owners_of.filter(|_| kind == ObjsetKind::FileSystem && sealed.is_none());
        let counting = owners_of.map(|owners_of| Counting {
            owners_of,
            objects: features.count(feature::USEROBJ_ACCOUNTING).is_some(),
            projects: features.count(feature::PROJECT_QUOTA).is_some(),
        });
        let shared_name = Arc::new(RwLock::new(name.to_owned()));
        let notes = Arc::<UnsyncedNotes>::default();
        let ground = ground::DatasetGround {
            writer: self.writer.clone(),
            id: dataset.id(),
            name: shared_name.clone(),
            figures: self.log_figures.clone(),
            notes: notes.clone(),
        };
        let log = Log::open(objset.clone(), Arc::new(ground));
        log.set_mode(settings.sync);
        let is_receiving = dataset.phys().has(DslDataset::FLAG_INCONSISTENT);
        let volume_bytes = match kind {
            // A dataset being received has its size once its objects exist; it is not
            // used before.
            ObjsetKind::Volume if !is_receiving => {
                let size =
                    Zap::open(objset.object(VOLUME_PROPERTIES).at(name)?).at(name)?.lookup_u64("size").at(name)?;
                size.ok_or_else(|| Error::corrupt(name, "the volume has no size"))?
            }
            _ => 0,
        };
        Ok(Arc::new(LiveDataset {
            id: dataset.id(),
            name: shared_name,
            objset,
            writer: self.writer.clone(),
            open: self.open.clone(),
            settings: RwLock::new(Arc::new(settings)),
            counting,
            log,
            notes,
            volume_bytes: RwLock::new(volume_bytes),
            is_receiving,
            lifecycle: Lifecycle::default(),
        }))
    }

    /// Frees all objects of dataset `id`, which is about to be destroyed, about `batch_bytes`
    /// per txg. A dataset whose key is not loaded is left unchanged.
    pub(crate) fn empty_out(&self, id: u64, batch_bytes: u64) -> Result<()> {
        let dataset = self.synced()?.dataset_by_id(id)?;
        if !self.keys.is_available(&dataset)? {
            return Ok(());
        }
        let live = self.open_unchecked(&dataset, None, None)?;
        self.open.heads.lock().insert(id, live.clone());
        let result = live.log.discard().and_then(|()| live.free_all_objects(batch_bytes));
        let closed = self.close(&live);
        result.and(closed)
    }

    /// Returns the dataset if it is open for writing, but not while a stream is being received
    /// into it.
    pub fn get(&self, id: u64) -> Option<Arc<LiveDataset>> {
        self.open.get(id).filter(|dataset| !dataset.is_receiving)
    }

    /// Sets how many blocks of destroyed datasets are freed in one txg.
    pub fn set_free_pace(&self, blocks: u64) {
        self.open.free_pace.store(blocks.max(1), Ordering::Relaxed);
    }

    /// Unloads the key of the encryption root of `name`, unless a dataset that needs it is
    /// open. Returns false if the key was not loaded.
    pub fn unload_key(&self, name: &str) -> Result<bool> {
        let tree = self.synced()?;
        let dataset = tree.dataset(name)?;
        let root = dataset.encryption_root()?.map(|dir| dir.id());
        let open: Vec<u64> = self.open.heads.lock().keys().copied().collect();
        for id in open {
            let used = tree.dataset_by_id(id)?.encryption_root()?.map(|dir| dir.id());
            if used.is_some() && used == root {
                return Err(Refusal::Busy.at(tree.dataset_by_id(id)?.name()));
            }
        }
        self.keys.unload(&dataset)
    }

    /// The state that tasks carry into the syncing thread.
    pub(crate) fn parts(&self) -> (Arc<KeyStore>, Arc<Open>) {
        (self.keys.clone(), self.open.clone())
    }

    /// Syncs everything and closes the dataset. Views of it must not be changed afterwards.
    pub fn close(&self, dataset: &Arc<LiveDataset>) -> Result<()> {
        // Changes that do not fit in this txg have no next one, so all of them are applied
        // here like any other change, after those the syncing thread is applying at this
        // moment.
        let late = dataset.lifecycle.take_late();
        while late.as_ref().is_some_and(|late| late.bring(&|bytes| dataset.begin(bytes))) {}
        dataset.lifecycle.close();
        dataset.log.close()?;
        if !dataset.objset.is_clean() {
            self.writer.sync()?;
        }
        self.open.heads.lock().remove(&dataset.id);
        self.open.book.forget(dataset.id);
        Ok(())
    }

    /// Empties the intent logs of all open datasets: everything they record is then in the
    /// synced tree. The logs continue with new blocks.
    pub fn empty_logs(&self) -> Result<()> {
        let all: Vec<_> = self.open.heads.lock().values().cloned().collect();
        all.iter().try_for_each(|dataset| dataset.log.close())
    }

    /// Frees the intent logs with records that could not be replayed, of all datasets, open or
    /// not. Returns the names of those datasets.
    pub fn discard_kept_logs(&self) -> Result<Vec<String>> {
        let tree = self.synced()?;
        let mut discarded = Vec::new();
        for dataset in tree.list(&[], &ListOptions::heads())?.entries.iter().filter_map(|e| e.dataset()) {
            if !intent_log::has_skipped(dataset)? {
                continue;
            }
            match self.get(dataset.id()) {
                // It is being replayed.
                Some(live) if !live.log.is_kept() => continue,
                Some(live) => live.log.discard()?,
                // Its replay stopped for a reason that may be temporary: the next
                // mount resumes it.
                None if intent_log::read(dataset, None, &mut |_| ())?.unreplayed_records != 0 => continue,
                None => self.discard_closed_log(dataset)?,
            }
            discarded.push(dataset.name().to_owned());
        }
        Ok(discarded)
    }

    /// Removes unreadable parts from the intent logs of all datasets that are not open, so that
    /// the rest can be replayed. Returns the names of those datasets. The blocks after an
    /// unreadable one stay allocated.
    pub fn discard_unread_logs(&self) -> Result<Vec<String>> {
        let tree = self.synced()?;
        let mut discarded = Vec::new();
        for dataset in tree.list(&[], &ListOptions::heads())?.entries.iter().filter_map(|e| e.dataset()) {
            if self.open.get(dataset.id()).is_none() && intent_log::has_unread(dataset)? {
                let (id, name) = (dataset.id(), dataset.name().to_owned());
                self.change_closed_log(dataset, move |cx, log, settings| {
                    let Some((header, unread)) = log.shortened()? else { return Ok(()) };
                    report_discarded(&cx, (&name, id), &unread)?;
                    put_header(cx, id, &header, settings)
                })?;
                discarded.push(dataset.name().to_owned());
            }
        }
        Ok(discarded)
    }

    fn discard_closed_log(&self, dataset: &Dataset) -> Result<()> {
        let id = dataset.id();
        self.change_closed_log(dataset, move |cx, log, settings| {
            log.free(cx.store(), cx.txg())?;
            forget_skipped(&cx, id)?;
            put_header(cx, id, &ZilHeader::EMPTY, settings)
        })
    }

    /// Applies `change` to the log of a dataset that is not open.
    fn change_closed_log(
        &self,
        dataset: &Dataset,
        change: impl FnOnce(Cx<'_>, &ClosedLog, Settings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (id, name, settings) = (dataset.id(), dataset.name().to_owned(), Settings::of(dataset)?);
        let open = self.open.clone();
        self.writer.task(move |sync| {
            let cx = Cx::new(sync);
            let root = cx.dataset(id)?.phys.bp;
            let log = ClosedLog::open(cx.mos().store(), &root, id).at(&name)?;
            // Until the txg is on disk, an open would find the log in its previous
            // state.
            if !open.release_head(id) {
                return Err(Refusal::Busy.at(&*name));
            }
            sync.all_or_nothing(|| change(cx, &log, settings).at(&name))
        })
    }

    pub fn close_all(&self) -> Result<()> {
        let all: Vec<_> = self.open.heads.lock().values().cloned().collect();
        all.iter().try_for_each(|dataset| self.close(dataset))
    }

    /// Refreshes names, properties and quotas after a txg that changed them is synced.
    pub fn refresh(&self) -> Result<()> {
        let _one = self.refreshing.lock();
        let tree = self.synced()?;
        let all: Vec<_> = self.open.heads.lock().values().cloned().collect();
        for live in all {
            let dataset = match tree.dataset_by_id(live.id) {
                Ok(dataset) => dataset,
                Err(Error::NotFound { .. }) => continue,
                Err(e) => return Err(e),
            };
            let settings = Settings::of(&dataset)?;
            self.writer.set_secondary_cache(dataset.id(), settings.secondary_cache);
            {
                // A dataset closed in the meantime has no page any more, and must
                // not get one again.
                let heads = self.open.heads.lock();
                if heads.contains_key(&live.id) {
                    self.open.book.note(&dataset, settings.refquota_bytes, settings.refreservation_bytes);
                }
            }
            *live.name.write() = dataset.name().to_owned();
            live.log.set_mode(settings.sync);
            *live.settings.write() = Arc::new(settings);
        }
        Ok(())
    }
}

impl Open {
    /// Begins to make the redaction list in object `list`; `None` if another redaction does.
    pub(crate) fn redacting(&self, list: u64) -> Option<Redacting> {
        self.redacting.begin(list)
    }

    /// Whether that list is being made.
    pub(crate) fn is_redacting(&self, list: u64) -> bool {
        self.redacting.contains(list)
    }

    /// Marks head `id` as destroyed in this txg unless it is open; its blocks are freed from
    /// the next txg on.
    pub(crate) fn release_head(&self, id: u64) -> bool {
        let heads = self.heads.lock();
        if heads.contains_key(&id) {
            return false;
        }
        self.going.lock().insert(id);
        self.has_more_to_free();
        true
    }

    /// Records that there is space to free from the next txg on.
    pub(crate) fn has_more_to_free(&self) {
        self.has_pending.store(true, Ordering::SeqCst);
    }

    fn room(&self, saved_bytes: u64) -> Room {
        Room::of(&self.allocator.totals(), saved_bytes, self.freeing_bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<LiveDataset>> {
        self.heads.lock().get(&id).cloned()
    }
}

impl Drop for LiveDatasets {
    fn drop(&mut self) {
        let participant: Arc<dyn Participant> = self.open.clone();
        self.writer.unregister(&participant);
        // The datasets and their late changes reference each other.
        let heads = std::mem::take(&mut *self.open.heads.lock());
        heads.values().for_each(|dataset| drop(dataset.lifecycle.take_late()));
    }
}

/// Refuses datasets that Weir cannot write, by name.
fn check_writable(dataset: &Dataset) -> Result<()> {
    let unsupported = |what: &str| Err(Error::unsupported(dataset.name(), what));
    if dataset.is_snapshot() {
        return Err(Refusal::ReadOnly.at(dataset.name()));
    }
    if dataset.phys().has(DslDataset::FLAG_INCONSISTENT) {
        return Err(Error::invalid(dataset.name(), "it is inconsistent: a receive or destroy broke off"));
    }
    if dataset.redacted_by()?.is_some() {
        return unsupported("writing a redacted dataset");
    }
    Ok(())
}

impl LiveDataset {
    /// Object number in the MOS.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Current name; a rename changes it.
    pub fn name(&self) -> String {
        self.name.read().clone()
    }

    /// Its objects; [`LiveDataset::begin`] starts a transaction that changes them.
    pub fn objset(&self) -> &Arc<ObjectSet> {
        &self.objset
    }

    /// The txg engine of the pool.
    pub fn writer(&self) -> &Arc<Writer> {
        &self.writer
    }

    /// The intent log. A log found when the dataset was opened must be replayed before it is
    /// used.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The current properties. Later changes do not appear in the result.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// Begins a transaction in the open txg for changes that write about `bytes` of contents.
    /// Returns an error if they do not fit. Blocks while the pool has too much dirty data.
    pub fn begin(&self, bytes: u64) -> Result<Tx> {
        self.begin_as(bytes, false)
    }

    /// Like [`Self::begin`], for changes that free more than they allocate: they are allowed
    /// when a quota or the pool is full.
    pub fn begin_freeing(&self, bytes: u64) -> Result<Tx> {
        self.begin_as(bytes, true)
    }

    fn begin_as(&self, bytes: u64, net_free: bool) -> Result<Tx> {
        let is_file_system = self.objset.phys().kind == ObjsetKind::FileSystem && !self.objset.is_sealed();
        if self.counting.is_none() && is_file_system {
            return Err(Error::invalid(
                self.name(),
                "a file system can only be written with accounting of file owners",
            ));
        }
        let promised = bytes.saturating_add(LEAST_BYTES).saturating_mul(u64::from(self.settings.read().copies));
        let (mut waits, mut free_waits, mut turn) = (0, 0, None);
        let clock = Stopwatch::start();
        while waits < WAITS_MIN || waits < WAITS_MAX && clock.ns() < WAITS_NS_MAX {
            if self.is_closed() {
                return Err(Refusal::Stale.at(self.name()));
            }
            let tx = self.writer.begin()?;
            let room = self.open.room(self.writer.saved_bytes());
            match self.open.book.ask(self.id, tx.txg(), promised, net_free, &room) {
                Answer::Granted => return Ok(tx),
                Answer::Refused(why) => return Err(why.at(self.name())),
                Answer::Later => waits += 1,
                // No deadline: each txg lets one change through, in order of
                // arrival.
                Answer::InTurn if turn.is_none() => {
                    drop(tx);
                    turn = Some(self.open.turns.lock());
                    continue;
                }
                Answer::InTurn => {}
                Answer::AfterFrees if free_waits == FREE_WAITS_MAX => {
                    self.open.book.waited_in_vain(&room);
                    break;
                }
                Answer::AfterFrees => {
                    free_waits += 1;
                    self.writer.allocator().needs_room();
                }
            }
            drop(tx);
            self.writer.sync()?;
        }
        Err(Refusal::NoSpace.at(self.name()))
    }

    /// Registers `changes` to be applied before each txg closes and before this dataset is
    /// closed. They are kept alive until then, even if all other references are dropped.
    pub fn set_late_changes(&self, changes: Arc<dyn LateChanges>) {
        self.lifecycle.set_late(changes);
    }

    fn bring_late_changes(&self) {
        if self.lifecycle.apply_late(&|bytes| self.hold(bytes)) {
            self.writer.sync_soon();
        }
    }

    /// Begins a transaction in the open txg without waiting.
    fn hold(&self, bytes: u64) -> Result<Tx> {
        let tx = self.writer.hold()?;
        let promised = bytes.saturating_add(LEAST_BYTES).saturating_mul(u64::from(self.settings.read().copies));
        match self.open.book.ask(self.id, tx.txg(), promised, false, &self.open.room(self.writer.saved_bytes())) {
            Answer::Granted => Ok(tx),
            Answer::Refused(why) => Err(why.at(self.name())),
            Answer::Later | Answer::InTurn | Answer::AfterFrees => Err(Refusal::Busy.at(self.name())),
        }
    }

    /// Space, including data on its way to disk.
    pub fn space(&self) -> Space {
        let (available_bytes, referenced_bytes) =
            self.open.book.space(self.id, self.writer.usable_bytes(SpaceCheck::Normal));
        Space { available_bytes, referenced_bytes }
    }

    /// The dataset as the last synced txg left it.
    pub fn synced(&self) -> Result<Dataset> {
        Datasets::open(self.writer.pool()?)?.dataset_by_id(self.id)
    }

    /// Records that a feature is in use from now on: it is counted with the next txg.
    pub fn use_feature(&self, guid: &'static str) {
        self.notes.use_feature(guid);
    }

    /// Records how far a receive has come with `tx`: it reaches the disk with the changes of
    /// that txg.
    pub(crate) fn note_received(&self, tx: &Tx, to: ReceivedTo) {
        self.notes.add_received(tx, to);
    }

    /// Sets the size of a volume, in whole blocks; data beyond the new end is truncated.
    pub fn set_volume_size(&self, bytes: u64) -> Result<()> {
        let (data, properties) = (self.objset.object(VOLUME_DATA)?, self.objset.object(VOLUME_PROPERTIES)?);
        if self.objset.phys().kind != ObjsetKind::Volume
            || bytes == 0
            || !bytes.is_multiple_of(data.block_bytes().max(1))
        {
            let what = format!("volsize {bytes}: only a volume has one, a multiple of {}", data.block_bytes());
            return Err(Error::invalid(self.name(), what));
        }
        let tx = self.begin_freeing(0)?;
        let mut size = self.volume_bytes.write();
        // Writes beyond the old end are valid only in a volume of the new size.
        self.log.record_unloggable(&tx, None);
        Zap::open(properties)?.update_u64(&tx, "size", bytes)?;
        data.punch(&tx, bytes, u64::MAX)?;
        *size = bytes;
        Ok(())
    }

    /// The size of a volume, which cannot change while the guard is held. A writer begins its
    /// transaction first.
    pub fn volume_bytes(&self) -> RwLockReadGuard<'_, u64> {
        self.volume_bytes.read()
    }

    /// Whether it was closed: the objects it references may no longer be on disk.
    pub fn is_closed(&self) -> bool {
        self.lifecycle.is_closed()
    }

    /// Waits until all changes so far are on disk.
    pub fn sync(&self) -> Result<()> {
        self.writer.sync()
    }

    fn free_all_objects(&self, batch_bytes: u64) -> Result<()> {
        let (mut id, mut freed) = (0, 0);
        while let Some(next) = self.objset.next_object(id)? {
            let object = self.objset.object(next)?;
            let size = object.block_bytes().max(1);
            // A file larger than a batch is truncated from its end, one batch per txg.
            let (mut end, used) = (object.max_block_id().saturating_add(1), object.dnode().used_bytes);
            while used > batch_bytes && end > 0 {
                end = end.saturating_sub(batch_bytes / size + 1);
                object.punch(&self.writer.begin()?, end.saturating_mul(size), u64::MAX)?;
                self.writer.sync()?;
            }
            self.objset.free_object(&self.writer.begin()?, next)?;
            freed += used.min(batch_bytes);
            if freed >= batch_bytes {
                self.writer.sync()?;
                freed = 0;
            }
            id = next;
        }
        Ok(())
    }

    fn sync_in(&self, cx: Cx<'_>) -> Result<()> {
        self.notes.sync(&cx, (&self.name(), self.id))?;
        let was_claimed = self.objset.zil_header().claim_txg.0 != 0;
        self.log.sync(cx.txg()).at_with(|| self.name())?;
        if was_claimed && self.objset.zil_header().claim_txg.0 == 0 {
            forget_skipped(&cx, self.id).at_with(|| self.name())?;
        }
        if !self.objset.is_dirty(cx.txg()) {
            return Ok(());
        }
        let settings = self.settings();
        let is_encrypted = self.objset.keys().is_some() || self.objset.is_sealed();
        let policies = Policies::new(Settings::clone(&settings), is_encrypted, &|guid| cx.is_enabled(guid));
        let counting = self.counting.filter(|_| cx.sync.version() >= version::USERSPACE);
        sync::DatasetSync::new(cx, self.id, policies, counting)?.run(&self.objset).at(&self.name())
    }
}

/// Accounts for the space that the pool's own objects allocated or freed since the last call.
fn charge_mos(cx: &Cx<'_>) -> Result<()> {
    let (used, compressed, uncompressed) = cx.sync.take_mos_space();
    match cx.special_dir("$MOS")? {
        Some(dir) => {
            // Space allocated by the last txg before an export is never counted, as in
            // OpenZFS. Freeing it must not drive the count below zero: all bytes of the
            // pool would then appear to be in use.
            let phys = cx.dir(dir)?.phys;
            let at_least = |delta: i64, counted: u64| delta.max(-i64::try_from(counted).unwrap_or(i64::MAX));
            let delta = Delta {
                used: at_least(used, phys.used_bytes),
                compressed: at_least(compressed, phys.compressed_bytes),
                uncompressed: at_least(uncompressed, phys.uncompressed_bytes),
            };
            space::did_use(cx, dir, Part::Head, delta)
        }
        None => Ok(()),
    }
}

impl Participant for Open {
    fn is_dirty(&self, txg: u64) -> bool {
        let heads = self.heads.lock();
        self.has_pending.load(Ordering::SeqCst)
            || heads.values().any(|dataset| dataset.objset.is_dirty(txg) || dataset.notes.is_dirty(txg))
    }

    fn before_close(&self) {
        let all: Vec<_> = self.heads.lock().values().cloned().collect();
        all.iter().for_each(|dataset| dataset.bring_late_changes());
    }

    fn quiesce(&self, txg: u64) {
        for dataset in self.heads.lock().values() {
            dataset.objset.quiesce(txg);
        }
    }

    fn cloned(&self, txg: u64, visit: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        let all: Vec<_> = self.heads.lock().values().cloned().collect();
        all.iter().try_for_each(|dataset| dataset.objset.cloned(txg, &mut *visit))
    }

    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        let all: Vec<_> = self.heads.lock().values().cloned().collect();
        for dataset in all {
            dataset.sync_in(Cx::new(cx))?;
        }
        // Under a checkpoint, destroying frees no space and allocates some for its lists.
        if self.has_pending.load(Ordering::SeqCst) && !cx.is_full_with_checkpoint() {
            let more = pending::work(&Cx::new(cx), self.free_pace.load(Ordering::Relaxed))?;
            self.has_pending.store(more, Ordering::SeqCst);
            self.freeing_bytes.store(if more { pending::left(&Cx::new(cx))? } else { 0 }, Ordering::Relaxed);
        }
        charge_mos(&Cx::new(cx))
    }

    fn synced(&self, txg: u64) {
        self.going.lock().clear();
        self.book.synced(txg, &self.mos, self.room(0).coming_bytes());
        self.heads.lock().values().for_each(|dataset| dataset.log.synced(txg));
    }
}
