//! The store: a pool's device tree with a cache before it. Block pointer in, verified contents out; contents in, pointer out.
//!
//! Below: `vdev`, `arc`, `zio`. Above: `object`.

use crate::arc::{Arc as Cache, Key, Met, Want};
use crate::crypt::DatasetKeys;
use crate::inject::Injection;
use crate::l2::L2;
use crate::vdev::{Kind, Leaf, Tree, Vdev};
use crate::zevent::{Reading, Reporter};
use crate::{
    Allocate, Block, Bookmark, Class, Device, Duplicates, Error, Place, References, Refusal, Result, TakenBlock,
    WritePolicy, zio,
};
use bytes::Bytes;
use observe::{Collector, Info, Source, Unit, Value};
use ondisk::{BlkPtr, Endian};
use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A pool's blocks.
pub struct Store {
    name: String,
    tree: RwLock<Arc<Tree>>,
    cache: Cache,
    injection: Injection,
    second: Arc<L2>,
    reporter: Arc<Reporter>,
    salt: RwLock<Option<Arc<zio::Salt>>>,
    prefetcher: zio::Prefetcher,
    /// Errors that reads met, for `zpool status`: blocks that no copy could give.
    data_errors: RwLock<std::collections::BTreeSet<Bookmark>>,
    allocator: RwLock<Option<Arc<dyn Allocate>>>,
    references: RwLock<Option<Arc<dyn References>>>,
    duplicates: RwLock<Option<Arc<dyn Duplicates>>>,
    /// Smallest allocation, and unit of larger ones (`spa_min_alloc`, `spa_gcd_alloc`).
    units: (AtomicUsize, AtomicUsize),
    hole_births: AtomicBool,
    /// Reads and writes so far that somebody waits for.
    demand: AtomicU64,
    /// Told of bad blocks.
    watch: RwLock<Option<Arc<dyn Watch>>>,
    /// Asked when a block cannot be written.
    on_write_failure: RwLock<Option<Arc<OnWriteFailure>>>,
    /// Bytes of changed contents that are in memory only.
    waiting: Arc<std::sync::atomic::AtomicU64>,
}

/// Is told of blocks that are not as they should be, by whoever reads them: it must return at once.
pub trait Watch: Send + Sync {
    /// The block was read, but not every place that was asked had the right bytes.
    fn met_bad(&self, bp: &BlkPtr, at: &Bookmark);
    /// The block cannot be read.
    fn lost(&self, bp: &BlkPtr, at: &Bookmark);
}

/// Says whether to try again.
pub type OnWriteFailure = dyn Fn(&Error) -> bool + Send + Sync;

/// Entries kept in the list of unreadable blocks.
const DATA_ERRORS_MAX: usize = 100_000;

impl Store {
    /// A store over `tree`, with a cache of at most `cache_bytes`. `name` is the pool's, for messages.
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
            prefetcher: zio::Prefetcher::new(host::processors().clamp(2, 8)),
            data_errors: RwLock::default(),
            watch: RwLock::default(),
            demand: AtomicU64::new(0),
            allocator: RwLock::default(),
            references: RwLock::default(),
            duplicates: RwLock::default(),
            hole_births: AtomicBool::new(true),
            waiting: Arc::default(),
            on_write_failure: RwLock::default(),
        })
    }

    /// A store that is no pool's, over one device: nothing is written to it, and addresses begin behind the place of labels.
    pub fn over(name: String, device: Arc<dyn Device>, cache_bytes: u64) -> Arc<Self> {
        let kind = Kind::Leaf(Leaf::present(0, device));
        let leaf = Vdev { guid: 0, id: 0, kind, ashift: 9, children: Vec::new(), name: name.clone() };
        Self::new(name, Tree::of(vec![leaf]), cache_bytes)
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts the bytes of changed contents that are in memory and not yet written. Whoever holds such counts them.
    pub fn waiting_bytes(&self) -> &Arc<std::sync::atomic::AtomicU64> {
        &self.waiting
    }

    /// The devices, as they are now.
    pub fn tree(&self) -> Arc<Tree> {
        self.tree.read().clone()
    }

    /// Changes which devices there are. Whoever works with the tree of before goes on with it: top-level devices that stay must
    /// be the same ones, with their counts of errors and of what is not flushed.
    pub fn change_tree(&self, change: impl FnOnce(&Tree) -> Tree) {
        let mut tree = self.tree.write();
        *tree = Arc::new(change(&tree));
        self.injection.govern(&tree);
        self.second.let_go(&tree.caches);
        tree.all_leaves().for_each(|leaf| leaf.report_to(&self.reporter));
    }

    /// Who tells what happens to the pool.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// The cache devices.
    pub fn second(&self) -> &Arc<L2> {
        &self.second
    }

    /// Finds again what lies on the cache devices of the pool with this identity, and, if `feeds`, writes there what is put out of
    /// memory from now on, until [`Store::stop_second`].
    pub fn start_second(self: &Arc<Self>, pool_guid: u64, feeds: bool) -> Result<()> {
        self.second.start(self, pool_guid, feeds).map_err(|e| Error::io(self.name.clone(), e))
    }

    /// Writes nothing to cache devices any more.
    pub fn stop_second(&self) {
        self.cache.collect_evicted(false);
        self.second.stop();
    }

    /// What is made to go wrong.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Sets the pool's salt, which skein, edonr and blake3 checksums need.
    pub fn set_salt(&self, salt: &[u8; 32]) {
        *self.salt.write() = Some(Arc::new(zio::Salt::new(salt)));
    }

    pub(crate) fn salt(&self) -> Option<Arc<zio::Salt>> {
        self.salt.read().clone()
    }

    /// Blocks that could not be read since the pool was opened.
    pub fn data_errors(&self) -> Vec<Bookmark> {
        self.data_errors.read().iter().copied().collect()
    }

    /// The contents of the block at `bp`: from the cache, or read, checked, decrypted and decompressed.
    /// A hole gives zeros.
    pub fn read(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        self.get(bp, at, keys, Want::Demand)
    }

    /// As [`Store::read`], without keeping the block in the cache.
    pub fn read_uncached(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if let Some(key) = cache_key(bp)
            && let Some(block) = self.cache.peek(&key)
        {
            return Ok(block);
        }
        self.load(bp, at, keys)
    }

    /// The contents of the block at `bp` if they can be had without a device.
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

    /// The block decompressed but not decrypted and without looking at MACs, past the cache: for walks that follow pointers
    /// and need no key. Blocks of dnodes and indirect blocks keep their pointers in the clear.
    pub fn read_unopened(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Block> {
        if !bp.uses_crypt() && !bp.is_embedded() {
            // Small pools are walked while their metadata is hot, and large ones must not flush the cache.
            if let Some(block) = cache_key(bp).and_then(|key| self.cache.peek(&key)) {
                return Ok(block);
            }
        }
        self.unless_injected(bp, at, |met_bad| zio::read_unopened(self, bp, met_bad))
    }

    /// The block's bytes as they are on disk, past the cache: their checksum is verified, but they stay compressed and encrypted.
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

    /// Starts to read the block in the background, unless it is in the cache or the workers are busy.
    pub fn prefetch(self: &Arc<Self>, bp: &BlkPtr, at: &Bookmark, keys: Option<&Arc<DatasetKeys>>) {
        let Some(key) = cache_key(bp) else { return };
        if self.cache.knows(&key) {
            return;
        }
        let (store, bp, at, keys) = (self.clone(), *bp, *at, keys.cloned());
        self.prefetcher.offer(Box::new(move || {
            // Whoever comes to need the block will meet the error again and be told.
            let _ = store.get(&bp, &at, keys.as_deref(), Want::Prefetch);
        }));
    }

    fn get(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>, want: Want) -> Result<Block> {
        match cache_key(bp) {
            // What needs a key is never handed out without one, even when it is in the cache.
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => {
                let is_metadata = is_metadata(bp);
                // What is there already is not sent there again.
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

    /// Who is told of bad blocks from now on; `None`: nobody.
    pub fn set_watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.write() = watch;
    }

    /// Looks at every copy and every column of the block, and writes the right bytes over those that `what` is about. The caller
    /// makes sure that the block stays where it is meanwhile: nothing may be written to its place but what it holds.
    pub fn repair(&self, bp: &BlkPtr, what: crate::vdev::Mend) -> crate::vdev::Mended {
        zio::repair(self, bp, what)
    }

    /// Whether some device that is there lacks part of the block, because it was away when that was written.
    pub fn lacks(&self, bp: &BlkPtr) -> bool {
        let (size, birth) = (bp.psize_bytes(), bp.physical_birth().0);
        let tree = self.tree();
        bp.dvas().any(|dva| match dva.is_gang {
            // Its members may be on any device.
            true => tree.logs().iter().any(|leaf| leaf.is_open() && leaf.is_stale(birth)),
            false => tree.lacks(&dva, size, birth),
        })
    }

    /// Grows with each read and write that somebody waits for; scans and healing are none.
    pub fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    /// Looks at every copy of blocks that lie close together on one top-level device, reading large pieces: for each whether all is
    /// right there. `copies` are blocks and which of their addresses. What is not right says [`Store::repair`]. Gang blocks are never.
    pub fn look_at_run(&self, copies: &[(&BlkPtr, usize)], read_bytes: &mut u64) -> Vec<bool> {
        zio::look_at_run(self, copies, read_bytes)
    }

    fn place(&self, at: &Bookmark) -> String {
        format!("{}: block {at}", self.name)
    }

    /// Writes a block that cannot be read over with its contents from elsewhere, to all its addresses. False: `block` is not what the
    /// pointer means, or cannot be made it again, and nothing was written. Nobody may free the block meanwhile.
    pub fn heal(&self, bp: &BlkPtr, at: &Bookmark, block: &TakenBlock, keys: Option<&DatasetKeys>) -> Result<bool> {
        let is_healed = zio::heal(self, bp, block, keys).at_with(|| self.place(at))?;
        if is_healed {
            if let Some(key) = cache_key(bp) {
                self.cache.remove(&key);
            }
            self.data_errors.write().remove(at);
        }
        Ok(is_healed)
    }

    /// Sets who gives out space. Until then every write is refused as read-only.
    pub fn set_allocator(&self, allocator: Arc<dyn Allocate>) {
        *self.allocator.write() = Some(allocator);
    }

    /// Sets who knows of cloned blocks. Without, each data block that is freed is taken for used once.
    pub fn set_references(&self, references: Arc<dyn References>) {
        *self.references.write() = Some(references);
    }

    /// Sets who knows of deduplicated blocks. Without, none is written, and none can be freed.
    pub fn set_duplicates(&self, duplicates: Arc<dyn Duplicates>) {
        *self.duplicates.write() = Some(duplicates);
    }

    /// Drops what was set for writing, once no txg follows. All of it may refer to objects that are read through this store, which
    /// would never be freed otherwise. Reading works as before; writing is refused as read-only.
    pub fn end_writing(&self) {
        let allocator = self.allocator.write().take();
        let references = self.references.write().take();
        let duplicates = self.duplicates.write().take();
        let on_write_failure = self.on_write_failure.write().take();
        // Outside of the locks: the last of them may end the store's objects.
        drop((allocator, references, duplicates, on_write_failure));
    }

    pub(crate) fn duplicates(&self) -> Option<Arc<dyn Duplicates>> {
        self.duplicates.read().clone()
    }

    pub(crate) fn allocator(&self) -> Result<Arc<dyn Allocate>> {
        self.allocator.read().clone().ok_or_else(|| Refusal::ReadOnly.at(""))
    }

    /// Sets the smallest allocation and the unit of larger ones, in bytes: minimum and greatest common divisor of
    /// [`Vdev::minimum_psize_bytes`](crate::vdev::Vdev::minimum_psize_bytes) over the devices of the normal class. Without
    /// this, all top-level devices count.
    pub fn set_units(&self, minimum_bytes: usize, unit_bytes: usize) {
        self.units.0.store(minimum_bytes.max(512), Ordering::Relaxed);
        self.units.1.store(unit_bytes.max(512), Ordering::Relaxed);
    }

    pub(crate) fn units(&self) -> (usize, usize) {
        (self.units.0.load(Ordering::Relaxed), self.units.1.load(Ordering::Relaxed))
    }

    /// Whether holes keep size, type, level and birth: the feature hole_birth is active, as it is in all pools of this age.
    pub fn set_hole_births(&self, on: bool) {
        self.hole_births.store(on, Ordering::Relaxed);
    }

    pub(crate) fn hole_births(&self) -> bool {
        self.hole_births.load(Ordering::Relaxed)
    }

    /// Writes a block that is born in `txg`: compressed if that saves an eighth, into the pointer if that is allowed and
    /// possible, encrypted with `keys` as its type demands, with a checksum, as a gang if there is no room for it in one
    /// piece, to all its addresses. Zeros become a hole with a birth, unless compression is off.
    ///
    /// The fill of the result is 1 at level 0 and else 0; whoever knows better sets it. The contents are in the cache
    /// afterwards. They are safe from a power cut after the next [`Store::flush`].
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

    /// As [`Store::write`] of a set that is received as its sender sealed it, whose keys are not here: an indirect block, or the root
    /// block, with its MACs in it.
    pub fn write_sealed_set(&self, txg: u64, data: Bytes, policy: &WritePolicy, at: &Bookmark) -> Result<BlkPtr> {
        Ok(self.keep(self.write_patiently(txg, data, policy, at, zio::Seal::Elsewhere, None)?, at))
    }

    /// Writes a block as it came, born in `txg`: see [`TakenBlock`]. With `keys`, it is encrypted if it is not yet.
    pub fn write_taken(
        &self,
        txg: u64,
        block: &TakenBlock,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        self.patiently(at, || zio::write_taken(self, txg, block, policy, keys))
    }

    /// As [`Store::write`], over `old`, born in the same txg, if the contents fit into what it takes: then nothing is
    /// allocated or freed. Else `old` is freed.
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
            let error = match write() {
                Ok(written) => return Ok(written),
                Err(e) => e.at(&self.place(at)),
            };
            let asked = self.on_write_failure.read().clone();
            let is_device = matches!(error, Error::Io { .. } | Error::Missing { .. });
            if !is_device || !asked.is_some_and(|ask| ask(&error)) {
                return Err(error);
            }
        }
    }

    /// Who is asked when no device takes a block: with `true` it is tried again. The caller may wait until devices are back.
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

    /// Gives back all addresses of a block, those of gang members included, unless it is used elsewhere, as a clone or because
    /// it was deduplicated. Holes and embedded blocks have none.
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
                // No table has it: `zpool ddtprune` took it out.
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

    /// As [`Store::free`], of a block that a committed tree or log still names, whatever its birth says: blocks of the intent
    /// log are born in txgs to come. Its space is not given out again before the txg is on disk.
    pub fn free_later(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::free_born_before(self, txg, bp).at_with(|| format!("{}: freeing {bp}", self.name))?;
        if let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(())
    }

    /// Takes all addresses of a log block that is found at import.
    pub fn claim(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::claim(self, txg, bp).at_with(|| format!("{}: claiming {bp}", self.name))
    }

    /// Space for a block of the intent log, of 4 KiB or a multiple. The caller sets the seed of the chain as its checksum.
    pub fn allocate_log(&self, txg: u64, size_bytes: u64, class: Class, keys: Option<&DatasetKeys>) -> Result<BlkPtr> {
        zio::log::allocate(self, txg, size_bytes, class, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Seals a block of the intent log, with its used length in the chain header, and writes it to where `bp` says.
    pub fn write_log(&self, bp: &BlkPtr, block: &mut [u8], keys: Option<&DatasetKeys>) -> Result<()> {
        zio::log::write(self, bp, block, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Returns when everything written before is on the media of enough devices. After an error it never succeeds again
    /// for those devices: what they have lost is not known.
    pub fn flush(&self) -> Result<()> {
        self.tree().flush().map_err(|failure| failure.into_write_error(self.name.clone()))
    }

    /// As [`Store::flush`], of the top-level devices that hold these blocks.
    pub fn flush_blocks(&self, blocks: &[BlkPtr]) -> Result<()> {
        let mut tops: Vec<u32> =
            blocks.iter().flat_map(|bp| bp.dvas().map(|dva| dva.vdev).collect::<Vec<_>>()).collect();
        tops.sort_unstable();
        tops.dedup();
        self.tree().flush_tops(&tops).map_err(|failure| failure.into_write_error(self.name.clone()))
    }

    /// Reads every copy and every parity column of the block, and says which are wrong. Nothing is decompressed,
    /// decrypted or cached: the checksum stands over the stored bytes.
    pub fn verify(&self, bp: &BlkPtr) -> crate::vdev::BlockReport {
        zio::verify(self, bp)
    }

    /// As [`Store::verify`], and says whether the right bytes are contents too: they are decrypted, where `keys` are given, and
    /// decompressed.
    pub fn verify_contents(&self, bp: &BlkPtr, keys: Option<&DatasetKeys>) -> crate::vdev::BlockReport {
        zio::verify_contents(self, bp, keys)
    }
}

static HITS: Info = Info { name: "cache_hits", unit: Unit::Number, help: "Blocks wanted that were in memory." };
static PREFETCHED: Info = Info {
    name: "cache_prefetched_hits",
    unit: Unit::Number,
    help: "Of those, blocks that had been read ahead and were wanted for the first time.",
};
static MISSES: Info = Info { name: "cache_misses", unit: Unit::Number, help: "Blocks wanted that had to be read." };
static PREFETCHES: Info = Info { name: "cache_prefetches", unit: Unit::Number, help: "Blocks read ahead." };
static GHOST_HITS: Info = Info {
    name: "cache_ghost_hits",
    unit: Unit::Number,
    help: "Misses of blocks that were in memory not long before: a larger cache would have had them.",
};
static EVICTIONS: Info = Info { name: "cache_evictions", unit: Unit::Number, help: "Blocks put out for others." };
static SIZE: Info = Info { name: "cache_size", unit: Unit::Bytes, help: "Bytes of blocks in memory." };
static CAP: Info = Info { name: "cache_cap", unit: Unit::Bytes, help: "Bytes that the cache may hold." };
static TARGET: Info = Info {
    name: "cache_recent_target",
    unit: Unit::Bytes,
    help: "Share of the cache for blocks that were wanted once; it moves with what is asked for.",
};
static WAITING: Info = Info { name: "waiting", unit: Unit::Bytes, help: "Bytes changed and not yet written." };

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
