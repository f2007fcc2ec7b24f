//! The store: a pool's vdev tree with a cache in front. Reads take a block pointer and return
//! verified contents; writes take contents and return a pointer.
//!
//! Below: `vdev`, `arc`, `zio`. Above: `object`.

use crate::arc::{Arc as Cache, Key, Met, Want};
use crate::crypt::DatasetKeys;
use crate::inject::Injection;
use crate::l2::L2;
use crate::vdev::{Kind, Leaf, Tree, Vdev};
use crate::zevent::{Reading, Reporter};
use crate::{Allocate, Block, Bookmark, Class, Duplicates, RawBlock, References, WritePolicy, zio};
use bytes::Bytes;
use errors::{Error, Place, Refusal, Result};
use host::device::Device;
use observe::{Collector, Info, Source, Unit, Value};
use ondisk::{BlkPtr, Dva, Endian};
use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A pool's block store.
pub struct Store {
    name: String,
    tree: RwLock<Arc<Tree>>,
    cache: Cache,
    injection: Injection,
    second: Arc<L2>,
    reporter: Arc<Reporter>,
    salt: RwLock<Option<Arc<zio::Salt>>>,
    prefetcher: zio::Prefetcher,
    /// Writes of the txg that is being synced.
    flight: Arc<zio::Flight>,
    /// Blocks that no copy could provide, for `zpool status`.
    data_errors: RwLock<std::collections::BTreeSet<Bookmark>>,
    allocator: RwLock<Option<Arc<dyn Allocate>>>,
    references: RwLock<Option<Arc<dyn References>>>,
    duplicates: RwLock<Option<Arc<dyn Duplicates>>>,
    /// Smallest allocation, and granularity of larger ones (`spa_min_alloc`, `spa_gcd_alloc`).
    units: (AtomicUsize, AtomicUsize),
    hole_births: AtomicBool,
    /// Number of reads and writes so far that a caller waits for.
    demand: AtomicU64,
    /// Notified of bad blocks.
    watch: RwLock<Option<Arc<dyn Watch>>>,
    /// Called when a block cannot be written.
    on_write_failure: RwLock<Option<Arc<OnWriteFailure>>>,
    /// Number of times that writing was resumed after failures.
    resumptions: AtomicU64,
    /// Bytes of dirty data that are in memory only.
    waiting: Arc<std::sync::atomic::AtomicU64>,
}

/// Is notified of bad blocks by the threads that read them. Its methods must return at once.
pub trait Watch: Send + Sync {
    /// The block was read, but at least one of the copies or columns that were read was bad.
    fn met_bad(&self, bp: &BlkPtr, at: &Bookmark);
    /// The block cannot be read.
    fn lost(&self, bp: &BlkPtr, at: &Bookmark);
}

/// Decides whether to retry a failed write. The number is [`Store::resumptions`] when the write
/// began: if writing was resumed since, the failure is out of date.
pub type OnWriteFailure = dyn Fn(&Error, u64) -> bool + Send + Sync;

/// Threads that prepare blocks for slow devices. They wait for reads of indirect blocks, and rarely
/// for writes, so more would only take memory.
const WRITERS_MAX: usize = 16;

/// Limit of the list of unreadable blocks, in entries.
const DATA_ERRORS_MAX: usize = 100_000;

impl Store {
    /// A store over `tree`, with a cache of at most `cache_bytes`. `name` is the pool's name, used
    /// in messages.
    pub fn new(name: String, tree: Tree, cache_bytes: u64) -> Arc<Self> {
        let sizes = || tree.tops.iter().filter_map(|top| top.minimum_psize_bytes()).map(|bytes| bytes as usize);
        let units =
            (AtomicUsize::new(sizes().min().unwrap_or(512)), AtomicUsize::new(sizes().reduce(gcd).unwrap_or(512)));
        let injection = Injection::default();
        injection.govern(&tree);
        let reporter = Reporter::new(&name);
        tree.all_leaves().for_each(|leaf| leaf.report_to(&reporter));
        Arc::new(Self {
            name,
            units,
            injection,
            second: Arc::default(),
            reporter,
            tree: RwLock::new(Arc::new(tree)),
            cache: Cache::new(cache_bytes),
            salt: RwLock::new(None),
            prefetcher: zio::Prefetcher::default(),
            flight: Arc::default(),
            data_errors: RwLock::default(),
            watch: RwLock::default(),
            demand: AtomicU64::new(0),
            allocator: RwLock::default(),
            references: RwLock::default(),
            duplicates: RwLock::default(),
            hole_births: AtomicBool::new(true),
            waiting: Arc::default(),
            on_write_failure: RwLock::default(),
            resumptions: AtomicU64::new(0),
        })
    }

    /// A store over one device without a pool. Nothing is written to it. Addresses begin behind the
    /// space of the front labels.
    pub fn over(name: String, device: Arc<dyn Device>, cache_bytes: u64) -> Arc<Self> {
        let kind = Kind::Leaf(Leaf::present(0, device));
        let leaf = Vdev { guid: 0, id: 0, kind, ashift: 9, children: Vec::new(), name: name.clone() };
        Self::new(name, Tree::of(vec![leaf]), cache_bytes)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counter of the bytes of dirty data that are in memory and not yet written. Each owner of
    /// dirty data adds to it and subtracts from it.
    pub fn waiting_bytes(&self) -> &Arc<std::sync::atomic::AtomicU64> {
        &self.waiting
    }

    /// Number of threads that should write `count` blocks: as many as there are processors, or
    /// [`WRITERS_MAX`] where writes wait for devices.
    pub fn writers(&self, count: usize) -> usize {
        match self.tree().has_slow_writes() {
            true => count.min(WRITERS_MAX),
            false => host::processors().min(count.div_ceil(4)),
        }
    }

    /// The current vdev tree.
    pub fn tree(&self) -> Arc<Tree> {
        self.tree.read().clone()
    }

    /// Replaces the vdev tree. Threads that work with the old tree continue to use it: top-level
    /// vdevs that remain must be shared between the two, with their error counts and flush state.
    pub fn change_tree(&self, change: impl FnOnce(&Tree) -> Tree) {
        let mut tree = self.tree.write();
        *tree = Arc::new(change(&tree));
        self.injection.govern(&tree);
        self.second.let_go(&tree.caches);
        tree.all_leaves().for_each(|leaf| leaf.report_to(&self.reporter));
    }

    /// Reports the pool's events.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// The cache devices (L2ARC).
    pub fn second(&self) -> &Arc<L2> {
        &self.second
    }

    /// Rebuilds the index of the cache devices of the pool `pool_guid`. If `feeds`, also writes the
    /// blocks that the cache evicts from now on there, until [`Store::stop_second`].
    pub fn start_second(self: &Arc<Self>, pool_guid: u64, feeds: bool) -> Result<()> {
        self.second.start(self, pool_guid, feeds).map_err(|e| Error::io(self.name.clone(), e))
    }

    /// Stops writing to cache devices.
    pub fn stop_second(&self) {
        self.cache.collect_evicted(false);
        self.second.stop();
    }

    /// The pool's fault injection.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// The in-memory cache (ARC).
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Sets the pool's checksum salt, which skein, edonr and blake3 need.
    pub fn set_salt(&self, salt: &[u8; 32]) {
        *self.salt.write() = Some(Arc::new(zio::Salt::new(salt)));
    }

    pub(crate) fn salt(&self) -> Option<Arc<zio::Salt>> {
        self.salt.read().clone()
    }

    /// Blocks that could not be read since the pool was opened, at most 100,000.
    pub fn data_errors(&self) -> Vec<Bookmark> {
        self.data_errors.read().iter().copied().collect()
    }

    /// Returns the contents of the block at `bp`: from the cache, or read, verified, decrypted and
    /// decompressed. A hole reads as zeros.
    pub fn read(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        self.get(bp, at, keys, Want::Demand)
    }

    /// As [`Store::read`], without adding the block to the cache.
    pub fn read_uncached(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if let Some(key) = cache_key(bp)
            && let Some(block) = self.cache.peek(&key)
        {
            return Ok(block);
        }
        self.load(bp, at, keys)
    }

    /// The contents of the block at `bp` if they are available without reading a device.
    pub fn in_memory(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Option<Block>> {
        match cache_key(bp) {
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => {
                let found = self.cache.peek(&key);
                if found.is_some() {
                    Met::Hit.note(is_metadata(bp));
                }
                Ok(found)
            }
            None => self.load(bp, at, keys).map(Some),
        }
    }

    /// Returns the block decompressed but not decrypted, without verifying MACs and without filling
    /// the cache: for tree walks that follow pointers and have no key. In dnode blocks and indirect
    /// blocks the pointers are not encrypted.
    pub fn read_unopened(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Block> {
        if !bp.uses_crypt() && !bp.is_embedded() {
            // A small pool is walked while its metadata is in the cache; the walk of a large pool
            // must not flush the cache.
            if let Some(block) = cache_key(bp).and_then(|key| self.cache.peek(&key)) {
                return Ok(block);
            }
        }
        self.unless_injected(bp, at, |met_bad| zio::read_unopened(self, bp, met_bad))
    }

    /// The block's bytes as they are on disk, bypassing the cache: verified against the checksum,
    /// but still compressed and encrypted.
    pub fn read_stored(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Bytes> {
        self.unless_injected(bp, at, |met_bad| zio::stored(self, bp, met_bad).map(Bytes::from))
    }

    fn unless_injected<R>(&self, bp: &BlkPtr, at: &Bookmark, read: impl FnOnce(&Cell<bool>) -> Result<R>) -> Result<R> {
        let _reading = Reading::of(at);
        let met_bad = Cell::new(false);
        let result = match self.injection.data_error(bp, at) {
            Some(error) => Err(error),
            None => read(&met_bad),
        };
        self.tell_bad(bp, at, &met_bad);
        result.at_with(|| self.place(at))
    }

    /// Starts to read the block in the background, unless it is in the cache or the workers are
    /// busy.
    pub fn prefetch(self: &Arc<Self>, bp: &BlkPtr, at: &Bookmark, keys: Option<&Arc<DatasetKeys>>) {
        let Some(key) = cache_key(bp) else { return };
        if self.cache.knows(&key) {
            return;
        }
        let (store, bp, at, keys) = (self.clone(), *bp, *at, keys.cloned());
        let is_slow = self.tree().has_slow_reads();
        self.prefetcher.offer(
            is_slow,
            Box::new(move || {
                // A thread that needs the block hits the error again and returns it.
                let _ = store.get(&bp, &at, keys.as_deref(), Want::Prefetch);
            }),
        );
    }

    fn get(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>, want: Want) -> Result<Block> {
        match cache_key(bp) {
            // A block that needs a key is never returned without one, even if it is in the cache.
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => {
                let is_metadata = is_metadata(bp);
                // Blocks that are on the cache device already are not written there again.
                let origin = || (self.second.wants(at.objset, is_metadata) && !self.second.has(bp)).then_some(*bp);
                let (result, met) = self.cache.look_from(key, want, is_metadata, origin, || self.load(bp, at, keys));
                met.note(is_metadata);
                result
            }
            None => self.load(bp, at, keys),
        }
    }

    fn load(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if bp.is_hole() {
            let size = bp.lsize_bytes().min(ondisk::blkptr::MAX_BLOCK_BYTES) as usize;
            return Ok(Block { data: Bytes::from(vec![0; size]), endian: bp.endian() });
        }
        self.demand.fetch_add(1, Ordering::Relaxed);
        let result = self.unless_injected(bp, at, |met_bad| zio::read(self, bp, keys, met_bad));
        if matches!(result, Err(Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. })) {
            self.reporter.data_report(at);
            let mut errors = self.data_errors.write();
            if errors.len() < DATA_ERRORS_MAX {
                errors.insert(*at);
            }
            drop(errors);
            if let Some(watch) = self.watch.read().clone() {
                watch.lost(bp, at);
            }
        }
        result
    }

    fn tell_bad(&self, bp: &BlkPtr, at: &Bookmark, met_bad: &Cell<bool>) {
        if met_bad.get()
            && let Some(watch) = self.watch.read().clone()
        {
            watch.met_bad(bp, at);
        }
    }

    /// Sets the watcher of bad blocks; `None` removes it.
    pub fn set_watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.write() = watch;
    }

    /// Reads every copy and every column of the block, and rewrites the bad ones that `what`
    /// selects with the right bytes. The caller ensures that the block is neither moved nor freed
    /// meanwhile: nothing else may be written to its place.
    pub fn repair(&self, bp: &BlkPtr, what: crate::vdev::Mend) -> crate::vdev::Mended {
        zio::repair(self, bp, what)
    }

    /// Whether some available device lacks part of the block because it was offline when the block
    /// was written (dtl).
    pub fn lacks(&self, bp: &BlkPtr) -> bool {
        let (size, birth) = (bp.psize_bytes(), bp.physical_birth().0);
        let tree = self.tree();
        bp.dvas().any(|dva| match dva.is_gang {
            // Gang members may be on any device.
            true => tree.logs().iter().any(|leaf| leaf.is_open() && leaf.is_stale(birth)),
            false => tree.lacks(&dva, size, birth),
        })
    }

    /// Number of reads and writes so far that a caller waits for. Scans and healing do not count.
    pub fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    /// Checks every copy of blocks that lie close together on one top-level vdev, with large reads.
    /// Returns for each block whether everything is right. `copies` are blocks and the index of the
    /// address to check. For a block that is not right, [`Store::repair`] gives the details. Gang
    /// blocks always return false.
    pub fn look_at_run(&self, copies: &[(&BlkPtr, usize)], read_bytes: &mut u64) -> Vec<bool> {
        zio::look_at_run(self, copies, read_bytes)
    }

    fn place(&self, at: &Bookmark) -> String {
        format!("{}: block {at}", self.name)
    }

    /// Overwrites all addresses of an unreadable block with its contents from elsewhere (corrective
    /// receive). Returns false, without writing, if `block` is not what the pointer describes or
    /// cannot be turned into it. The caller ensures that nothing frees the block meanwhile.
    pub fn heal(&self, bp: &BlkPtr, at: &Bookmark, block: &RawBlock, keys: Option<&DatasetKeys>) -> Result<bool> {
        let is_healed = zio::heal(self, bp, block, keys).at_with(|| self.place(at))?;
        if is_healed {
            if let Some(key) = cache_key(bp) {
                self.cache.remove(&key);
            }
            self.data_errors.write().remove(at);
        }
        Ok(is_healed)
    }

    /// Sets the space allocator. Without one, every write is refused as read-only.
    pub fn set_allocator(&self, allocator: Arc<dyn Allocate>) {
        *self.allocator.write() = Some(allocator);
    }

    /// Sets the table of cloned blocks. Without it, each data block that is freed counts as used
    /// once.
    pub fn set_references(&self, references: Arc<dyn References>) {
        *self.references.write() = Some(references);
    }

    /// Sets the dedup tables. Without them, no block is deduplicated, and no deduplicated block can
    /// be freed.
    pub fn set_duplicates(&self, duplicates: Arc<dyn Duplicates>) {
        *self.duplicates.write() = Some(duplicates);
    }

    /// Drops the objects set for writing, once no txg follows. They may refer to objects that are
    /// read through this store, which would then never be freed. Reading works as before; writing
    /// is refused as read-only.
    pub fn end_writing(&self) {
        let allocator = self.allocator.write().take();
        let references = self.references.write().take();
        let duplicates = self.duplicates.write().take();
        let on_write_failure = self.on_write_failure.write().take();
        // Dropped outside of the locks: the last reference may end objects of the store.
        drop((allocator, references, duplicates, on_write_failure));
    }

    pub(crate) fn duplicates(&self) -> Option<Arc<dyn Duplicates>> {
        self.duplicates.read().clone()
    }

    pub(crate) fn allocator(&self) -> Result<Arc<dyn Allocate>> {
        self.allocator.read().clone().ok_or_else(|| Refusal::ReadOnly.at(""))
    }

    /// Sets the smallest allocation and the granularity of larger ones, in bytes: minimum and
    /// greatest common divisor of
    /// [`Vdev::minimum_psize_bytes`](crate::vdev::Vdev::minimum_psize_bytes) over the vdevs of the
    /// normal class. By default all top-level vdevs count.
    pub fn set_units(&self, minimum_bytes: usize, unit_bytes: usize) {
        self.units.0.store(minimum_bytes.max(512), Ordering::Relaxed);
        self.units.1.store(unit_bytes.max(512), Ordering::Relaxed);
    }

    pub(crate) fn units(&self) -> (usize, usize) {
        (self.units.0.load(Ordering::Relaxed), self.units.1.load(Ordering::Relaxed))
    }

    /// Whether holes keep size, type, level and birth: true if the feature hole_birth is active, as
    /// in all pools of recent years.
    pub fn set_hole_births(&self, on: bool) {
        self.hole_births.store(on, Ordering::Relaxed);
    }

    pub(crate) fn hole_births(&self) -> bool {
        self.hole_births.load(Ordering::Relaxed)
    }

    /// Writes a block that is born in `txg`: compressed if that saves an eighth, embedded in the
    /// pointer if allowed and possible, encrypted with `keys` if its type requires it, with a
    /// checksum, as a gang block if it does not fit in one piece, to all its addresses. Zeros
    /// become a hole with a birth, unless compression is off.
    ///
    /// The fill count of the result is 1 at level 0 and otherwise 0; the caller sets it if another
    /// value is right. The contents are in the cache afterwards. They are durable after the next
    /// [`Store::flush`].
    pub fn write(
        &self,
        txg: u64,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        Ok(self.keep(self.write_patiently(txg, data, policy, at, keys.into(), None)?, at))
    }

    /// As [`Store::write`], for a raw receive whose keys are not loaded: an indirect block or the
    /// root block of an object set, with the sender's MACs in it.
    pub fn write_sealed_set(&self, txg: u64, data: Bytes, policy: &WritePolicy, at: &Bookmark) -> Result<BlkPtr> {
        Ok(self.keep(self.write_patiently(txg, data, policy, at, zio::Seal::Elsewhere, None)?, at))
    }

    /// Writes a block as it was received, born in `txg`: see [`RawBlock`]. With `keys`, it is
    /// encrypted unless it is already.
    pub fn write_raw(
        &self,
        txg: u64,
        block: &RawBlock,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        self.patiently(at, || zio::write_raw(self, txg, block, policy, keys))
    }

    /// As [`Store::write`], but overwrites `old`, born in the same txg, if the contents fit into
    /// its space: then nothing is allocated or freed. Otherwise `old` is freed.
    pub fn rewrite(
        &self,
        txg: u64,
        old: &BlkPtr,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        let written = self.write_patiently(txg, data, policy, at, keys.into(), Some(old))?;
        let moved = written.bp.is_embedded() || written.bp.is_hole() || written.bp.dva(0) != old.dva(0);
        let bp = self.keep(written, at);
        if moved {
            self.free(txg, old).at_with(|| self.place(at))?;
        }
        Ok(bp)
    }

    fn write_patiently(
        &self,
        txg: u64,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: zio::Seal<'_>,
        old: Option<&BlkPtr>,
    ) -> Result<zio::Written> {
        self.patiently(at, || zio::write(self, txg, data.clone(), policy, keys, old))
    }

    fn patiently<T>(&self, at: &Bookmark, mut write: impl FnMut() -> Result<T>) -> Result<T> {
        self.demand.fetch_add(1, Ordering::Relaxed);
        loop {
            let begun = self.resumptions();
            let error = match write() {
                Ok(written) => return Ok(written),
                Err(e) => e.at(&self.place(at)),
            };
            if !self.retries(&error, begun) {
                return Err(error);
            }
        }
    }

    /// Whether to retry a write that failed with `error` and began after `begun` resumptions.
    fn retries(&self, error: &Error, begun: u64) -> bool {
        let asked = self.on_write_failure.read().clone();
        matches!(error, Error::Io { .. } | Error::Missing { .. }) && asked.is_some_and(|ask| ask(error, begun))
    }

    /// Number of times that writing was resumed after failures.
    pub fn resumptions(&self) -> u64 {
        self.resumptions.load(Ordering::SeqCst)
    }

    /// Counts a resumption. Writes that began earlier and fail later are retried once more.
    pub fn count_resumption(&self) {
        self.resumptions.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets the callback for blocks that no device accepts. The write is retried if it returns
    /// true. The callback may block until devices are back.
    pub fn set_on_write_failure(&self, ask: Option<Arc<OnWriteFailure>>) {
        *self.on_write_failure.write() = ask;
    }

    fn keep(&self, written: zio::Written, at: &Bookmark) -> BlkPtr {
        if let Some(key) = cache_key(&written.bp) {
            let is_metadata = is_metadata(&written.bp);
            let origin = self.second.wants(at.objset, is_metadata).then_some(&written.bp);
            self.cache.insert_from(key, is_metadata, origin, Block { data: written.contents, endian: Endian::Little });
        }
        written.bp
    }

    /// Frees all addresses of a block, those of gang members included, unless it has other
    /// references, as a clone or because it was deduplicated. Holes and embedded blocks have no
    /// addresses.
    pub fn free(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        let alone;
        let bp = match bp.is_dedup() {
            false => bp,
            true => {
                let place = || format!("{}: freeing {bp}", self.name);
                let Some(duplicates) = self.duplicates() else {
                    return Err(Error::unsupported(place(), "freeing a deduplicated block without its table"));
                };
                if duplicates.release(bp).at_with(place)? {
                    return Ok(());
                }
                // No table knows it: `zpool ddtprune` removed it.
                alone = bp.not_dedup();
                &alone
            }
        };
        if !is_metadata(bp) && !bp.is_hole() && !bp.is_embedded() {
            let references = self.references.read().clone();
            let is_last = references.map_or(Ok(true), |r| r.release(bp));
            if !is_last.at_with(|| format!("{}: freeing {bp}", self.name))? {
                return Ok(());
            }
        }
        zio::free::free(self, txg, bp).at_with(|| format!("{}: freeing {bp}", self.name))?;
        if let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(())
    }

    /// As [`Store::free`], for a block that a committed tree or log still refers to, whatever its
    /// birth: intent log blocks are born in future txgs. The space is not reused before the txg is
    /// on disk.
    pub fn free_later(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::free_born_before(self, txg, bp).at_with(|| format!("{}: freeing {bp}", self.name))?;
        if let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(())
    }

    /// Marks all addresses of a log block found at import as allocated.
    pub fn claim(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::claim(self, txg, bp).at_with(|| format!("{}: claiming {bp}", self.name))
    }

    /// Allocates an intent log block of 4 KiB or a multiple. The caller sets the seed of the chain
    /// as its checksum.
    pub fn allocate_log(&self, txg: u64, size_bytes: u64, class: Class, keys: Option<&DatasetKeys>) -> Result<BlkPtr> {
        zio::log::allocate(self, txg, size_bytes, class, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Seals an intent log block, with its used length in the chain header, and writes it to the
    /// addresses of `bp`.
    pub fn write_log(&self, bp: &BlkPtr, block: &mut [u8], keys: Option<&DatasetKeys>) -> Result<()> {
        zio::log::write(self, bp, block, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Returns when everything written before is on stable storage of enough devices. After an
    /// error it never succeeds again for those devices, since it is not known what they lost.
    pub fn flush(&self) -> Result<()> {
        self.end_writes()?;
        self.tree().flush().map_err(|failure| failure.into_write_error(self.name.clone()))
    }

    /// Waits for the writes that [`Store::write`] only began. Those that failed are repeated for as
    /// long as the callback for failed writes returns true.
    fn end_writes(&self) -> Result<()> {
        let mut failed = self.flight.wait();
        // Those that began before the pool was resumed are repeated without asking.
        let mut begun = failed.iter().map(|write| write.begun).max().unwrap_or(0);
        while let Some(first) = failed.first() {
            let error = first.failure.clone().into_write_error(self.name.clone());
            // Waits until the pool is resumed: once for all that failed.
            if !self.retries(&error, begun) {
                return Err(error);
            }
            begun = self.resumptions();
            let tree = self.tree();
            failed.retain_mut(|write| {
                let Dva { vdev, offset_bytes, .. } = write.dva;
                match tree.write(vdev, offset_bytes, &write.stored, write.txg) {
                    Ok(()) => false,
                    Err(again) => {
                        write.failure = again;
                        true
                    }
                }
            });
        }
        Ok(())
    }

    pub(crate) fn flight(&self) -> &Arc<zio::Flight> {
        &self.flight
    }

    /// As [`Store::flush`], for the top-level vdevs that hold these blocks.
    pub fn flush_blocks(&self, blocks: &[BlkPtr]) -> Result<()> {
        let mut tops: Vec<u32> =
            blocks.iter().flat_map(|bp| bp.dvas().map(|dva| dva.vdev).collect::<Vec<_>>()).collect();
        tops.sort_unstable();
        tops.dedup();
        self.tree().flush_tops(&tops).map_err(|failure| failure.into_write_error(self.name.clone()))
    }

    /// Reads every copy and every parity column of the block, and reports which are wrong. Nothing
    /// is decompressed, decrypted or cached, because the checksum covers the stored bytes.
    pub fn verify(&self, bp: &BlkPtr) -> crate::vdev::BlockReport {
        zio::verify(self, bp)
    }

    /// As [`Store::verify`], and also checks that the right bytes are valid contents: decrypts
    /// them, if `keys` are given, and decompresses them.
    pub fn verify_contents(&self, bp: &BlkPtr, keys: Option<&DatasetKeys>) -> crate::vdev::BlockReport {
        zio::verify_contents(self, bp, keys)
    }
}

static HITS: Info = Info { name: "cache_hits", unit: Unit::Number, help: "Block reads answered from memory." };
static PREFETCHED: Info = Info {
    name: "cache_prefetched_hits",
    unit: Unit::Number,
    help: "Cache hits on blocks that were read ahead, counted at their first use.",
};
static MISSES: Info =
    Info { name: "cache_misses", unit: Unit::Number, help: "Block reads that had to go to the devices." };
static PREFETCHES: Info = Info { name: "cache_prefetches", unit: Unit::Number, help: "Blocks read ahead." };
static GHOST_HITS: Info = Info {
    name: "cache_ghost_hits",
    unit: Unit::Number,
    help: "Misses of recently evicted blocks, which a larger cache would still hold.",
};
static EVICTIONS: Info =
    Info { name: "cache_evictions", unit: Unit::Number, help: "Blocks evicted to make room for others." };
static SIZE: Info = Info { name: "cache_size", unit: Unit::Bytes, help: "Bytes of blocks in memory." };
static CAP: Info = Info { name: "cache_cap", unit: Unit::Bytes, help: "Maximum size of the cache." };
static TARGET: Info = Info {
    name: "cache_recent_target",
    unit: Unit::Bytes,
    help: "Target size of the part of the cache for blocks that were used once; it adapts to the workload.",
};
static WAITING: Info = Info { name: "waiting", unit: Unit::Bytes, help: "Changed bytes that are not yet written." };

impl Source for Store {
    fn collect(&self, out: &mut Collector<'_>) {
        let c = self.cache.counters();
        for (info, count) in [
            (&HITS, c.hits),
            (&PREFETCHED, c.prefetched_hits),
            (&MISSES, c.misses),
            (&PREFETCHES, c.prefetches),
            (&EVICTIONS, c.evictions),
        ] {
            out.put(info, &[], Value::Count(count));
        }
        for (list, count) in [("recent", c.ghost_recent_hits), ("frequent", c.ghost_frequent_hits)] {
            out.put(&GHOST_HITS, &[("list", list)], Value::Count(count));
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        for (info, bytes) in
            [(&SIZE, c.size_bytes), (&CAP, c.cap_bytes), (&TARGET, c.recent_target_bytes), (&WAITING, waiting)]
        {
            out.put(info, &[], Value::Level(bytes));
        }
        self.second.collect(out);
        let tree = self.tree();
        for leaf in tree.leaves() {
            out.within(&[("device", leaf.path.as_str())], leaf);
        }
    }
}

fn cache_key(bp: &BlkPtr) -> Option<Key> {
    if bp.is_embedded() || bp.is_hole() {
        return None;
    }
    let dva = bp.dva(0);
    Some(Key { vdev: dva.vdev, offset_bytes: dva.offset_bytes, birth: bp.physical_birth().0 })
}

fn is_metadata(bp: &BlkPtr) -> bool {
    bp.level() > 0 || bp.object_type().is_metadata()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
