//! The store: a pool's vdev tree with a cache in front. Reads take a block pointer and return
//! verified contents; writes take contents and return a pointer.
//!
//! This file has the state that all operations share. The operations, which work through `zio`, are
//! in [`read`], [`write`](mod@write) and [`verify`].
//!
//! Below: `vdev`, `arc`, `l2`. Above: `zio`, then the operations, then `object`.

mod metrics;
mod read;
mod verify;
mod write;

use crate::arc::{Arc as Cache, Key};
use crate::inject::Injection;
use crate::l2::L2;
use crate::vdev::{Kind, Leaf, Tree, Vdev};
use crate::zevent::Reporter;
use crate::{Allocate, Bookmark, Duplicates, References, zio};
use errors::{Error, Refusal, Result};
use host::device::Device;
use host::sync::RwLock;
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Who gives out and takes back space, and how: set while a pool is open for writing.
struct Space {
    allocator: RwLock<Option<Arc<dyn Allocate>>>,
    references: RwLock<Option<Arc<dyn References>>>,
    duplicates: RwLock<Option<Arc<dyn Duplicates>>>,
    /// Smallest allocation, and granularity of larger ones (`spa_min_alloc`, `spa_gcd_alloc`).
    units: (AtomicUsize, AtomicUsize),
    hole_births: AtomicBool,
}

/// Writes on their way, and those that failed.
#[derive(Default)]
struct Writes {
    /// Writes of the txg that is being synced.
    flight: Arc<zio::Flight>,
    /// Bytes of dirty data that are in memory only.
    waiting: Arc<AtomicU64>,
    /// Called when a block cannot be written.
    on_failure: RwLock<Option<Arc<OnWriteFailure>>>,
    /// Number of times that writing was resumed after failures.
    resumptions: AtomicU64,
    /// Blocks of each txg, by its number modulo [`TXGS`].
    blocks: [Blocks; TXGS],
}

/// Txgs that have blocks which are not flushed: the open one, and the one that is being synced. The
/// intent log allocates for one more.
const TXGS: usize = 4;

/// How many blocks were written so far. Those of the intent log do not count.
#[derive(Default)]
struct Blocks {
    begun: AtomicU64,
    /// Given to the devices, or to the writes that a flush waits for.
    written: AtomicU64,
    flushed: AtomicU64,
}

/// A block that is being written.
pub(crate) struct Writing<'s>(&'s Blocks);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.written.fetch_add(1, Ordering::SeqCst);
    }
}

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
    space: Space,
    writes: Writes,
    /// Notified of bad blocks.
    watch: RwLock<Option<Arc<dyn Watch>>>,
    /// Number of reads and writes so far that a caller waits for.
    demand: AtomicU64,
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
        let space = Space {
            allocator: RwLock::default(),
            references: RwLock::default(),
            duplicates: RwLock::default(),
            units,
            hole_births: AtomicBool::new(true),
        };
        Arc::new(Self {
            name,
            tree: RwLock::new(Arc::new(tree)),
            cache: Cache::new(cache_bytes),
            injection,
            second: Arc::default(),
            reporter,
            salt: RwLock::new(None),
            prefetcher: zio::Prefetcher::default(),
            space,
            writes: Writes::default(),
            watch: RwLock::default(),
            demand: AtomicU64::new(0),
        })
    }

    /// A store over one device without a pool. Nothing is written to it. Addresses begin after the
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
    pub fn waiting_bytes(&self) -> &Arc<AtomicU64> {
        &self.writes.waiting
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
        self.second.release_devices(&tree.caches);
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

    pub(crate) fn has_salt(&self) -> bool {
        self.salt.read().is_some()
    }

    pub(crate) fn salt(&self) -> Option<Arc<zio::Salt>> {
        self.salt.read().clone()
    }

    /// Sets the watcher of bad blocks; `None` removes it.
    pub fn set_watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.write() = watch;
    }

    /// Number of reads and writes so far that a caller waits for. Scans and healing do not count.
    pub fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    fn place(&self, at: &Bookmark) -> String {
        format!("{}: block {at}", self.name)
    }

    /// Sets the space allocator. Without one, every write is refused as read-only.
    pub fn set_allocator(&self, allocator: Arc<dyn Allocate>) {
        *self.space.allocator.write() = Some(allocator);
    }

    /// Sets the table of cloned blocks. Without it, each data block that is freed counts as used
    /// once.
    pub fn set_references(&self, references: Arc<dyn References>) {
        *self.space.references.write() = Some(references);
    }

    /// Sets the dedup tables. Without them, no block is deduplicated, and no deduplicated block can
    /// be freed.
    pub fn set_duplicates(&self, duplicates: Arc<dyn Duplicates>) {
        *self.space.duplicates.write() = Some(duplicates);
    }

    /// Drops the objects set for writing, once no txg follows. They may refer to objects that are
    /// read through this store, which would then never be freed. Reading works as before; writing
    /// is refused as read-only.
    pub fn end_writing(&self) {
        let allocator = self.space.allocator.write().take();
        let references = self.space.references.write().take();
        let duplicates = self.space.duplicates.write().take();
        let on_write_failure = self.writes.on_failure.write().take();
        // Dropped outside of the locks: the last reference may end objects of the store.
        drop((allocator, references, duplicates, on_write_failure));
    }

    pub(crate) fn duplicates(&self) -> Option<Arc<dyn Duplicates>> {
        self.space.duplicates.read().clone()
    }

    pub(crate) fn allocator(&self) -> Result<Arc<dyn Allocate>> {
        self.space.allocator.read().clone().ok_or_else(|| Refusal::ReadOnly.at(""))
    }

    /// Sets the smallest allocation and the granularity of larger ones, in bytes: minimum and
    /// greatest common divisor of
    /// [`Vdev::minimum_psize_bytes`](crate::vdev::Vdev::minimum_psize_bytes) over the vdevs of the
    /// normal class. By default all top-level vdevs count.
    pub fn set_units(&self, minimum_bytes: usize, unit_bytes: usize) {
        self.space.units.0.store(minimum_bytes.max(512), Ordering::Relaxed);
        self.space.units.1.store(unit_bytes.max(512), Ordering::Relaxed);
    }

    pub(crate) fn units(&self) -> (usize, usize) {
        (self.space.units.0.load(Ordering::Relaxed), self.space.units.1.load(Ordering::Relaxed))
    }

    /// Whether holes keep size, type, level and birth: true if the feature hole_birth is active, as
    /// in all pools of recent years.
    pub fn set_hole_births(&self, on: bool) {
        self.space.hole_births.store(on, Ordering::Relaxed);
    }

    pub(crate) fn hole_births(&self) -> bool {
        self.space.hole_births.load(Ordering::Relaxed)
    }

    /// Number of times that writing was resumed after failures.
    pub fn resumptions(&self) -> u64 {
        self.writes.resumptions.load(Ordering::SeqCst)
    }

    /// Counts a resumption. Writes that began earlier and fail later are retried once more.
    pub fn count_resumption(&self) {
        self.writes.resumptions.fetch_add(1, Ordering::SeqCst);
    }

    /// Sets the callback for blocks that no device accepts. The write is retried if it returns
    /// true. The callback may block until devices are back.
    pub fn set_on_write_failure(&self, ask: Option<Arc<OnWriteFailure>>) {
        *self.writes.on_failure.write() = ask;
    }

    pub(crate) fn flight(&self) -> &Arc<zio::Flight> {
        &self.writes.flight
    }

    /// Must be called before a block of `txg` is written; the result is dropped afterwards.
    pub(crate) fn begin_write(&self, txg: u64) -> Writing<'_> {
        let blocks = &self.writes.blocks[txg as usize % TXGS];
        blocks.begun.fetch_add(1, Ordering::SeqCst);
        Writing(blocks)
    }

    /// Number of blocks of `txg` that no successful [`Store::flush`] followed. An uberblock may
    /// only lead to blocks that one did.
    pub fn unflushed(&self, txg: u64) -> u64 {
        let blocks = &self.writes.blocks[txg as usize % TXGS];
        // In this order: other threads may write and flush meanwhile.
        let flushed = blocks.flushed.load(Ordering::SeqCst);
        blocks.begun.load(Ordering::SeqCst) - flushed
    }

    /// As [`Store::flush`], for the top-level vdevs that hold these blocks.
    pub fn flush_blocks(&self, blocks: &[BlkPtr]) -> Result<()> {
        let mut tops: Vec<u32> =
            blocks.iter().flat_map(|bp| bp.dvas().map(|dva| dva.vdev).collect::<Vec<_>>()).collect();
        tops.sort_unstable();
        tops.dedup();
        self.tree().flush_tops(&tops).map_err(|failure| failure.into_write_error(self.name.clone()))
    }
}

impl Drop for Store {
    /// Writes that are held refer to their leaves, which would never be closed. No txg refers to
    /// them, since a flush would have written them.
    fn drop(&mut self) {
        self.writes.flight.plug().cancel();
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
