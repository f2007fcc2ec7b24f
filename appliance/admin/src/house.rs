//! The pools that this process has open, from import to export.
//!
//! ```text
//!   commands ── reading: the newest synced view ──┐
//!            ── writing: the one WritablePool  ───┼── OwnedPool ── Writer, datasets, keys, a `Vfs` per dataset
//!   FUSE, NFS ── providers ───────────────────────┘
//! ```
//!
//! Imported pools are recorded in the state folder, for this process and for the next. A [`House`]
//! opens a recorded pool on demand and keeps it open. `weir serve` owns all pools of a state
//! folder, `weir mount` only the pool that it mounts.
//!
//! Invariants:
//!   * a pool is opened once, and opening one pool never waits for another: a damaged or missing
//!     pool does not block the rest
//!   * a caller that changes a pool syncs before it reports success; only the House closes a pool
//!   * a pool that cannot be written is open read-only, and the reason is recorded

use crate::errata;
use crate::kept_keys;
use crate::latest::{Found, Latest};
use crate::open::OpenPool;
use crate::state::{Imported, State};
use crate::view::{self, ImportFacts, PoolView};
use crate::write::{self, WritablePool};
use anyhow::{Context as _, Result, bail};
use block::Store;
use block::zevent::{Queue, Reporter, class};
use dataset::pages::Names;
use dataset::{Datasets, KeyStore, ListOptions, View, property};
use files::namespace::Provider;
use parking_lot::{Mutex, RwLock};
use pool::{OpenOptions, Pool};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::import::OpenRequest;

/// How to open an imported pool.
pub fn request(record: &Imported) -> OpenRequest {
    OpenRequest {
        guid: record.guid,
        places: record.places.clone(),
        txg: record.txg,
        rewind: record.rewind,
        checkpoint: record.checkpoint,
        name: Some(record.name.clone()),
        temporary_name: record.temporary_name,
        offline: record.offline.clone(),
        unchanged: None,
    }
}

/// What the import record adds to the pool.
pub fn facts(record: &Imported) -> ImportFacts {
    ImportFacts {
        name: record.name.clone(),
        load_guid: record.load_guid,
        readonly: record.readonly,
        altroot: record.altroot.clone(),
        cachefile: record.cachefile.clone(),
        suspended: None,
    }
}

/// Which of the state folder's pools belong to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All pools: this process is the daemon.
    All,
    /// The pool with this identity.
    One(u64),
}

/// How a pool is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It stays imported: the next process continues with it.
    Close,
    /// It is marked as exported.
    Export,
    /// It is marked as destroyed.
    Destroy,
}

/// The pools of this process.
pub struct House {
    state: State,
    scope: Scope,
    /// Most memory for cached blocks of each pool.
    cache_bytes: Mutex<Option<u64>>,
    slots: Mutex<BTreeMap<u64, Arc<Slot>>>,
    /// The event log of the pools.
    zevents: Arc<Queue>,
    greet: OnceLock<Greet>,
}

/// A callback for each pool that this process opens.
type Greet = Box<dyn Fn(&OwnedPool) + Send + Sync>;

/// Why a pool has nothing to show.
const SILENT: &str = "its devices do not answer";

/// The slot of a pool, locked while the pool is opened or closed.
#[derive(Default)]
struct Slot {
    opening: Mutex<()>,
    pool: RwLock<Option<Arc<OwnedPool>>>,
    /// Opens it for callers that must not wait indefinitely for devices. Holds no reference to a
    /// pool: an exported pool would otherwise stay in memory.
    attempts: Latest<()>,
}

/// An imported pool that this process has open.
pub struct OwnedPool {
    record: RwLock<Imported>,
    names: Names,
    access: Access,
    opened: Instant,
    views: Latest<PoolView>,
    damaged: Latest<Vec<String>>,
    /// What [`errata::of_datasets`] found when the pool was opened.
    errata: OnceLock<u64>,
}

enum Access {
    Write(Arc<WritablePool>),
    Read {
        pool: OpenPool,
        /// Why it is not open for writing, unless it was imported read-only.
        why: Option<String>,
    },
}

impl House {
    /// For the pools of `state` in `scope`; none is open yet.
    pub fn new(state: State, scope: Scope, cache_bytes: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            state,
            scope,
            cache_bytes: Mutex::new(cache_bytes),
            slots: Mutex::default(),
            zevents: Arc::default(),
            greet: OnceLock::new(),
        })
    }

    /// The events of the pools, including those before this process opened them.
    pub fn zevents(&self) -> &Arc<Queue> {
        &self.zevents
    }

    /// The list of imported pools on disk. It may name pools that this process has not open.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Limits the cached blocks of each pool to this size from now on.
    pub fn set_cache_bytes(&self, bytes: u64) {
        *self.cache_bytes.lock() = Some(bytes);
        for owned in self.list() {
            match owned.writable() {
                Some(pool) => pool.writer().set_cache_bytes(bytes),
                None => owned.store().cache().set_cap(bytes),
            }
        }
    }

    /// Calls `greet` for each pool that is opened or taken over from now on, before any other
    /// caller can get it. Can be set once: later calls have no effect.
    pub fn greet_with(&self, greet: impl Fn(&OwnedPool) + Send + Sync + 'static) {
        let _ = self.greet.set(Box::new(greet));
    }

    fn let_in(&self, slot: &Slot, pool: OwnedPool) -> Arc<OwnedPool> {
        pool.reporter().join(&self.zevents);
        // A long-running owner of a pool runs scrubs and resilvers.
        if let Some(Err(error)) = pool.writable().map(|writable| writable.writer().run_scans()) {
            tracing::warn!(pool = pool.name(), %error, "scrubs and resilvers are not running");
        }
        if let Some(Err(error)) = pool.writable().map(|writable| writable.writer().run_sweeps()) {
            tracing::warn!(pool = pool.name(), %error, "trim and initialize are not running");
        }
        if let Some(Err(error)) = pool.writable().map(|writable| writable.writer().run_expansion()) {
            tracing::warn!(pool = pool.name(), %error, "raidz expansion is not running");
        }
        if let Some(greet) = self.greet.get() {
            greet(&pool);
        }
        let pool = Arc::new(pool);
        *slot.pool.write() = Some(pool.clone());
        pool
    }

    /// Whether that pool belongs to this process.
    pub fn owns(&self, guid: u64) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::One(one) => one == guid,
        }
    }

    fn slot(&self, guid: u64) -> Arc<Slot> {
        self.slots.lock().entry(guid).or_default().clone()
    }

    /// The open pools, sorted by name.
    pub fn list(&self) -> Vec<Arc<OwnedPool>> {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let mut pools: Vec<_> = slots.iter().filter_map(|slot| slot.pool.read().clone()).collect();
        pools.sort_by_key(|pool| pool.name());
        pools
    }

    /// The open pool with this identity.
    pub fn opened(&self, guid: u64) -> Option<Arc<OwnedPool>> {
        let slot = self.slots.lock().get(&guid).cloned()?;
        slot.pool.read().clone()
    }

    /// The imported pool with that name or number, opened if necessary.
    pub fn pool(&self, name: &str) -> Result<Arc<OwnedPool>> {
        let guid = name.parse::<u64>().ok();
        let found = self.state.pools()?.into_iter().find(|p| p.name == name || Some(p.guid) == guid);
        self.import(&found.with_context(|| format!("no such pool '{name}'"))?)
    }

    /// The imported pool `record`, opened if necessary.
    pub fn import(&self, record: &Imported) -> Result<Arc<OwnedPool>> {
        let slot = self.slot(record.guid);
        if let Some(pool) = slot.pool.read().clone() {
            return Ok(pool);
        }
        let _opening = slot.opening.lock();
        if let Some(pool) = slot.pool.read().clone() {
            return Ok(pool);
        }
        // It may have been exported or destroyed since the caller looked: if it were reopened,
        // nothing would ever close it.
        if !self.state.pools()?.iter().any(|known| known.guid == record.guid) {
            bail!("no such pool '{}'", record.name);
        }
        Ok(self.let_in(&slot, self.open(record)?))
    }

    /// Like [`Self::import`], for display: waits at most [`crate::latest::PATIENCE`] for devices
    /// that do not answer.
    pub fn import_in_time(self: &Arc<Self>, record: &Imported) -> Result<Arc<OwnedPool>> {
        let slot = self.slot(record.guid);
        if let Some(pool) = slot.pool.read().clone() {
            return Ok(pool);
        }
        let (this, record) = (self.clone(), record.clone());
        let name = record.name.clone();
        match slot.attempts.get(move || this.import(&record).map(drop))? {
            // Another caller may have exported it in the meantime.
            Found::Fresh(()) => slot.pool.read().clone().with_context(|| format!("no such pool '{name}'")),
            Found::Old(..) | Found::Nothing => bail!(SILENT),
        }
    }

    /// Takes over a pool that was just opened or created.
    pub fn adopt(&self, record: Imported, pool: WritablePool) -> Arc<OwnedPool> {
        // The code that opened it does not know this process's cache size per pool.
        if let Some(bytes) = *self.cache_bytes.lock() {
            pool.writer().set_cache_bytes(bytes);
        }
        let slot = self.slot(record.guid);
        self.let_in(&slot, OwnedPool::new(record, Access::Write(Arc::new(pool))))
    }

    fn open(&self, record: &Imported) -> Result<OwnedPool> {
        let options = OpenOptions {
            txg: record.txg,
            rewind: record.rewind,
            checkpoint: record.checkpoint,
            name: Some(record.name.clone()),
            temporary_name: record.temporary_name,
            offline: record.offline.clone(),
            cache_bytes: self.cache_bytes.lock().unwrap_or(OpenOptions::default().cache_bytes),
            unchanged: None,
            created: None,
        };
        let why = if record.readonly {
            None
        } else {
            match write::open_with(&request(record), &options) {
                Ok(pool) => {
                    kept_keys::restore(&self.state, record, &pool.live.synced()?, &pool.keys);
                    return Ok(OwnedPool::new(record.clone(), Access::Write(Arc::new(pool))));
                }
                // Another process may be writing it: anything shown would be out of date a moment
                // later.
                Err(error) if write::is_in_use(&error) || write::is_elsewhere(&error) => return Err(error),
                Err(error) => Some(format!("{error:#}")),
            }
        };
        if let Some(why) = &why {
            tracing::warn!(pool = record.name, %why, "open read-only");
        }
        let found = crate::import::find(&request(record))?;
        let datasets = Datasets::open(Pool::open(&found, &options)?)?;
        datasets.pool().store().start_second(record.guid, false)?;
        let keys = Arc::new(KeyStore::new());
        kept_keys::restore(&self.state, record, &datasets, &keys);
        Ok(OwnedPool::new(record.clone(), Access::Read { pool: OpenPool { datasets, keys }, why }))
    }

    /// Closes a pool: it is synced first, then closed or marked. It is closed in any case; an error
    /// reports what could not be written to its devices. A pool that is not open is ignored.
    ///
    /// An exported or destroyed pool is removed from the imported pools before another process can
    /// open it.
    pub fn release(&self, guid: u64, how: Leave) -> Result<()> {
        let Some(slot) = self.slots.lock().get(&guid).cloned() else { return Ok(()) };
        let _opening = slot.opening.lock();
        let Some(pool) = slot.pool.write().take() else { return Ok(()) };
        let left = pool.leave(how);
        let is_gone = match how {
            Leave::Close => false,
            Leave::Export => true,
            Leave::Destroy => left.is_ok(),
        };
        if is_gone {
            let forgotten = self.state.change(|pools| pools.retain(|known| known.guid != guid));
            return left.and(forgotten);
        }
        left
    }

    /// Records that the import settings of a pool changed; it may have a new identity.
    pub fn reimported(&self, guid: u64, record: Imported) {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.remove(&guid) {
            if let Some(pool) = slot.pool.read().as_ref() {
                pool.set_record(record.clone());
            }
            slots.insert(record.guid, slot);
        }
    }

    /// Closes all pools, which stay imported. Returns the errors, each with the pool's name.
    pub fn close_all(&self) -> Vec<(String, anyhow::Error)> {
        let pools = self.list();
        // In parallel: a pool with a slow device does not delay the others.
        std::thread::scope(|scope| {
            let close = |pool: &Arc<OwnedPool>| self.release(pool.guid(), Leave::Close).err().map(|e| (pool.name(), e));
            let threads: Vec<_> = pools.iter().map(|pool| scope.spawn(move || close(pool))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
        })
    }
}

impl OwnedPool {
    fn new(record: Imported, access: Access) -> Self {
        Self {
            record: RwLock::new(record),
            names: Names::default(),
            access,
            opened: Instant::now(),
            views: Latest::default(),
            damaged: Latest::default(),
            errata: OnceLock::new(),
        }
    }

    /// A copy of its entry in the list of imported pools.
    pub fn record(&self) -> Imported {
        self.record.read().clone()
    }

    fn set_record(&self, record: Imported) {
        *self.record.write() = record;
    }

    /// Name under which it is imported.
    pub fn name(&self) -> String {
        self.record.read().name.clone()
    }

    pub fn guid(&self) -> u64 {
        self.record.read().guid
    }

    /// When this process opened it: its statistics start at this time.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// The pool for display: the last synced txg, as long as its devices answer
    /// (`pool::Writer::shown`).
    pub fn pool(&self) -> Result<Arc<Pool>> {
        match &self.access {
            Access::Write(pool) => Ok(pool.writer().shown()?),
            Access::Read { pool, .. } => Ok(pool.pool().clone()),
        }
    }

    /// Its blocks; getting them reads nothing.
    pub fn store(&self) -> &Arc<Store> {
        match &self.access {
            Access::Write(pool) => pool.writer().store().reader(),
            Access::Read { pool, .. } => pool.pool().store(),
        }
    }

    /// Its status and properties, in bounded time whatever its devices do. If they do not answer,
    /// the last values that could be read, with the current states and error counts of the devices.
    pub fn view(self: &Arc<Self>) -> Result<PoolView> {
        let this = self.clone();
        let found = self.views.get(move || this.gather())?;
        let suspended = self.suspension();
        let (mut view, age) = match found {
            Found::Fresh(view) => return Ok(view),
            Found::Old(view, age) => (view, age),
            Found::Nothing => bail!(SILENT),
        };
        self.pool()?.refresh(&mut view.status);
        view.status.suspended = suspended;
        view.properties.health = crate::health::pool_state(&view.status).to_owned();
        view.age = Some(age);
        Ok(view)
    }

    fn gather(&self) -> Result<PoolView> {
        let pool = self.pool()?;
        let mut view =
            view::of_imported(&pool, &ImportFacts { suspended: self.suspension(), ..facts(&self.record()) })?;
        view.txg = pool.uberblock().txg.0;
        view.warnings = pool.warnings().iter().map(ToString::to_string).collect();
        if view.status.errata == 0 {
            view.status.errata = self.errata(&pool);
        }
        // Missing devices must not prevent the rest from being shown.
        let root = self.datasets().and_then(|datasets| {
            let root = datasets.head(datasets.root())?;
            let phys = root.dir().phys();
            Ok((phys.used_bytes, root.available()?, Some(phys.creation_time)))
        });
        (view.used_bytes, view.available_bytes, view.created) = root.unwrap_or_default();
        Ok(view)
    }

    /// The number of a known defect of the pool's contents; 0 if it has none. As in OpenZFS, one of
    /// datasets that are destroyed is reported until the pool is imported again.
    fn errata(&self, pool: &Pool) -> u64 {
        let of_datasets = self.errata.get().copied().or_else(|| {
            let found = self.datasets().and_then(|datasets| errata::of_datasets(&datasets)).ok()?;
            Some(*self.errata.get_or_init(|| found))
        });
        match of_datasets.unwrap_or(0) {
            0 => errata::of_features(pool),
            found => found,
        }
    }

    /// Names of damaged files (`view::damaged_files`), in bounded time.
    pub fn damaged_files(self: &Arc<Self>) -> Result<Vec<String>> {
        let this = self.clone();
        let found = self.damaged.get(move || {
            let altroot = this.record().altroot;
            let (names, gone) = view::damaged_files(&this.datasets()?, this.keys(), altroot.as_deref())?;
            if let (false, Some(pool)) = (gone.is_empty(), this.writable()) {
                pool.writer().forget_errors(&gone);
            }
            Ok(names)
        })?;
        match found {
            Found::Fresh(names) | Found::Old(names, _) => Ok(names),
            Found::Nothing => bail!(SILENT),
        }
    }

    /// Its datasets for display, as [`OwnedPool::pool`].
    pub fn datasets(&self) -> Result<Arc<Datasets>> {
        match &self.access {
            Access::Write(pool) => Ok(pool.live.shown()?),
            Access::Read { pool, .. } => Ok(pool.datasets.clone()),
        }
    }

    /// The sorted names in its large directories, for paged lists.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Keys of its encrypted datasets that are loaded in this process.
    pub fn keys(&self) -> &Arc<KeyStore> {
        match &self.access {
            Access::Write(pool) => &pool.keys,
            Access::Read { pool, .. } => &pool.keys,
        }
    }

    /// The pool opened for writing, if it is writable.
    pub fn writable(&self) -> Option<&Arc<WritablePool>> {
        match &self.access {
            Access::Write(pool) => Some(pool),
            Access::Read { .. } => None,
        }
    }

    /// Why it can no longer be written, if its devices failed.
    pub fn suspension(&self) -> Option<pool::status::Suspended> {
        self.writable().and_then(|pool| pool.writer().suspension())
    }

    /// Why it is not open for writing, unless it was imported read-only.
    pub fn why_read_only(&self) -> Option<&str> {
        match &self.access {
            Access::Write(_) => None,
            Access::Read { why, .. } => why.as_deref(),
        }
    }

    /// The files of a dataset and everything below it, for servers. Two trees of the same dataset
    /// share the same files.
    pub fn provider(&self, dataset: &str) -> Result<Arc<dyn Provider>> {
        let dataset = self.datasets()?.dataset(dataset)?;
        Ok(match &self.access {
            Access::Write(pool) => pool.provider(dataset, &[]),
            Access::Read { pool, .. } => pool.provider(dataset, &[]),
        })
    }

    /// A number that changes whenever trees created from this pool earlier (`files::namespace`)
    /// would show other file systems, or show them in other places, than trees created now.
    pub fn tree_stamp(&self) -> Result<u64> {
        let mut hash = DefaultHasher::new();
        for entry in self.datasets()?.list(&[&self.name()], &ListOptions::heads())?.entries {
            let Some(dataset) = entry.dataset() else { continue };
            (dataset.id(), dataset.name()).hash(&mut hash);
            for name in ["mountpoint", "canmount"] {
                let value = property::get(&entry, name, &View::default())?.map(|p| p.value.raw);
                value.hash(&mut hash);
            }
            self.keys().is_available(dataset)?.hash(&mut hash);
        }
        self.writable().map(|pool| pool.closings()).hash(&mut hash);
        Ok(hash.finish())
    }

    /// Reports events of this pool.
    pub fn reporter(&self) -> Arc<Reporter> {
        match &self.access {
            Access::Write(pool) => pool.writer().store().reporter().clone(),
            Access::Read { pool, .. } => pool.pool().store().reporter().clone(),
        }
    }

    fn leave(&self, how: Leave) -> Result<()> {
        let reporter = self.reporter();
        let left = self.release_pool(how);
        match how {
            Leave::Close => {}
            Leave::Export => reporter.sysevent(class::POOL_EXPORT, |_| ()),
            Leave::Destroy => reporter.sysevent(class::POOL_DESTROY, |_| ()),
        }
        left
    }

    fn release_pool(&self, how: Leave) -> Result<()> {
        match (&self.access, how) {
            (Access::Read { .. }, _) => Ok(()),
            (Access::Write(pool), Leave::Close) => pool.close(),
            (Access::Write(pool), Leave::Export) => pool.export(),
            (Access::Write(pool), Leave::Destroy) => pool.destroy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateRequest, create};
    use crate::layout::Layout;
    use dataset::write::NewDataset;

    fn pool(dir: &std::path::Path, name: &str) -> (Imported, WritablePool) {
        let disk = dir.join(name);
        std::fs::File::create(&disk).and_then(|f| f.set_len(96 << 20)).expect("an image file");
        let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
        let request = CreateRequest { name: name.to_owned(), layout, ..CreateRequest::default() };
        let pool = create(&request).expect("a pool");
        let guid = pool.writer().pool().expect("synced").guid();
        (Imported { name: name.to_owned(), guid, places: vec![disk], ..Imported::default() }, pool)
    }

    /// A pool created or imported by a command in the daemon kept the cache size of a pool opened
    /// alone, until the next start.
    #[test]
    fn a_pool_that_was_just_made_gets_the_cache_of_the_others() {
        let dir = tempfile::tempdir().expect("a folder");
        let (record, opened) = pool(dir.path(), "new");
        let house = House::new(State::new(dir.path().join("state")), Scope::All, Some(77 << 20));
        let owned = house.adopt(record, opened);
        assert_eq!(owned.pool().expect("open").store().cache().counters().cap_bytes, 77 << 20);
        assert!(house.close_all().is_empty());
    }

    /// A caller that had looked up the pool before reopened it, and its devices stayed locked for a
    /// pool that no one could see.
    #[test]
    fn an_exported_pool_is_not_reopened_by_an_earlier_lookup() {
        let dir = tempfile::tempdir().expect("a folder");
        let state = State::new(dir.path().join("state"));
        let (record, opened) = pool(dir.path(), "gone");
        state.change(|all| all.push(record.clone())).expect("written");
        let house = House::new(state, Scope::All, None);
        let held = house.adopt(record.clone(), opened);
        house.release(record.guid, Leave::Export).expect("exported");
        assert!(house.import(&record).is_err_and(|error| error.to_string() == "no such pool 'gone'"));
        assert!(house.state().pools().expect("read").is_empty());
        pool::devices::open_for_writing(&record.places[0])
            .expect("it is not locked, although a caller still holds the pool");
        drop(held);
    }

    /// The attempt kept its last result: a pool that `zpool list` had opened kept its cache and its
    /// files after the export.
    #[test]
    fn a_pool_that_was_opened_to_be_shown_leaves_memory_when_it_is_exported() {
        let dir = tempfile::tempdir().expect("a folder");
        let state = State::new(dir.path().join("state"));
        let (record, opened) = pool(dir.path(), "shown");
        opened.close().expect("synced");
        drop(opened);
        state.change(|all| all.push(record.clone())).expect("written");
        let house = House::new(state, Scope::All, None);
        let shown = Arc::downgrade(&house.import_in_time(&record).expect("opened"));
        house.release(record.guid, Leave::Export).expect("exported");
        assert!(shown.upgrade().is_none());
    }

    #[test]
    fn each_pool_is_opened_once_and_a_missing_one_blocks_no_other() {
        let dir = tempfile::tempdir().expect("a folder");
        let state = State::new(dir.path().join("state"));
        let (good, opened) = pool(dir.path(), "good");
        let (away, closed) = pool(dir.path(), "away");
        closed.close().expect("synced");
        state.change(|all| all.extend([good.clone(), away.clone()])).expect("written");
        std::fs::remove_file(&away.places[0]).expect("removed");
        let house = House::new(state, Scope::All, None);
        house.adopt(good.clone(), opened);
        let (first, second) = (house.pool("good").expect("open"), house.import(&good).expect("open"));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(house.pool("away").is_err());
        assert!(house.pool("nosuch").is_err());
        assert_eq!(house.list().len(), 1);
        // The pool for display is updated when its tree changes.
        let before = first.tree_stamp().expect("a stamp");
        assert_eq!(first.tree_stamp().expect("a stamp"), before);
        let writable = first.writable().expect("open for writing");
        let new = NewDataset { name: "good/x".to_owned(), ..NewDataset::default() };
        dataset::write::create(&writable.live, &new, write::maker()).expect("made");
        let after = first.tree_stamp().expect("a stamp");
        assert_ne!(after, before);
        let files = |pool: &OwnedPool| pool.provider("good/x").and_then(|p| Ok(p.root()?)).expect("its files");
        assert!(Arc::ptr_eq(&files(&first), &files(&second)), "all servers have the same files");
        writable.close_dataset("good/x").expect("closed");
        assert_ne!(first.tree_stamp().expect("a stamp"), after);
        // After it is closed, it is reopened on demand.
        house.release(good.guid, Leave::Close).expect("synced");
        assert!(house.opened(good.guid).is_none());
        let again = house.pool("good").expect("opened");
        assert_eq!(again.datasets().and_then(|d| Ok(d.dataset("good/x")?.name().to_owned())).expect("there"), "good/x");
        drop(again);
        assert!(house.close_all().is_empty());
    }
}
