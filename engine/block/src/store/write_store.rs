//! The state of a store that writes. ZFS names: parts of spa_t and zio_t.
//!
//! Invariants:
//!   * [`WriteStore::unflushed`] is 0 for a txg only if every block of it was given to the devices
//!     and followed by a successful flush

use super::Store;
use crate::vdev::Tree;
use crate::{Allocate, Duplicates, References, zio};
use errors::{Error, Result};
use host::sync::RwLock;
use ondisk::BlkPtr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A pool's blocks, for reading and writing. It dereferences to the [`Store`] that it writes to.
pub struct WriteStore {
    pub(super) store: Arc<Store>,
    allocator: Arc<dyn Allocate>,
    references: OnceLock<Arc<dyn References>>,
    duplicates: OnceLock<Arc<dyn Duplicates>>,
    /// Smallest allocation, and granularity of larger ones (`spa_min_alloc`, `spa_gcd_alloc`).
    units: (AtomicUsize, AtomicUsize),
    hole_births: AtomicBool,
    copies_max: AtomicU8,
    pub(super) writes: Writes,
}

/// Writes on their way, and those that failed.
#[derive(Default)]
pub(super) struct Writes {
    /// Writes of the txg that is being synced.
    pub flight: Arc<zio::Flight>,
    /// Bytes of dirty data that are in memory only.
    pub waiting: Arc<AtomicU64>,
    /// Called when a block cannot be written.
    pub on_failure: RwLock<Option<Arc<OnWriteFailure>>>,
    /// Number of times that writing was resumed after failures.
    resumptions: AtomicU64,
    /// Blocks of each txg, by its number modulo [`TXGS`].
    pub blocks: [Blocks; TXGS],
}

/// Txgs that have blocks which are not flushed: the open one, and the one that is being synced. The
/// intent log allocates for one more.
const TXGS: usize = 4;

/// How many blocks were written so far. Those of the intent log do not count.
#[derive(Default)]
pub(super) struct Blocks {
    begun: AtomicU64,
    /// Given to the devices, or to the writes that a flush waits for.
    pub written: AtomicU64,
    pub flushed: AtomicU64,
}

/// A block that is being written.
pub(crate) struct Writing<'s>(&'s Blocks);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.written.fetch_add(1, Ordering::SeqCst);
    }
}

/// Decides whether to retry a failed write. The number is [`WriteStore::resumptions`] when the
/// write began: if writing was resumed since, the failure is out of date.
pub type OnWriteFailure = dyn Fn(&Error, u64) -> bool + Send + Sync;

/// Threads that prepare blocks for slow devices. They wait for reads of indirect blocks, and rarely
/// for writes, so more would only take memory.
const WRITERS_MAX: usize = 16;

impl WriteStore {
    /// Makes `store` writable, in the space that `allocator` hands out.
    ///
    /// The allocator must not keep the result alive. It may keep objects that are read through
    /// `store`.
    pub fn new(store: Arc<Store>, allocator: Arc<dyn Allocate>) -> Arc<Self> {
        let units = units(&store.tree());
        Arc::new(Self {
            store,
            allocator,
            references: OnceLock::new(),
            duplicates: OnceLock::new(),
            units: (units.0.into(), units.1.into()),
            hole_births: AtomicBool::new(true),
            copies_max: AtomicU8::new(3),
            writes: Writes::default(),
        })
    }

    /// The same blocks, for code that only reads.
    pub fn reader(&self) -> &Arc<Store> {
        &self.store
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

    /// Sets the table of cloned blocks. Until then, each data block that is freed counts as used
    /// once. The table cannot be replaced: a second call is ignored.
    pub fn set_references(&self, references: Arc<dyn References>) {
        let _ = self.references.set(references);
    }

    /// Sets the dedup tables. Until then, no block is deduplicated, and no deduplicated block can
    /// be freed. The tables cannot be replaced: a second call is ignored.
    pub fn set_duplicates(&self, duplicates: Arc<dyn Duplicates>) {
        let _ = self.duplicates.set(duplicates);
    }

    pub(crate) fn allocator(&self) -> &dyn Allocate {
        self.allocator.as_ref()
    }

    pub(super) fn references(&self) -> Option<&dyn References> {
        self.references.get().map(Arc::as_ref)
    }

    pub(crate) fn duplicates(&self) -> Option<&dyn Duplicates> {
        self.duplicates.get().map(Arc::as_ref)
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

    /// Sets the maximum number of copies of a block: 3 by default, 1 in pools of version 1. ZFS
    /// name: `spa_max_replication`.
    pub fn set_copies_max(&self, copies: u8) {
        self.copies_max.store(copies.clamp(1, 3), Ordering::Relaxed);
    }

    pub(crate) fn copies_max(&self) -> u8 {
        self.copies_max.load(Ordering::Relaxed)
    }

    pub(crate) fn hole_births(&self) -> bool {
        self.hole_births.load(Ordering::Relaxed)
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

    /// Number of blocks of `txg` that no successful [`WriteStore::flush`] followed. An uberblock
    /// may only lead to blocks that one did.
    pub fn unflushed(&self, txg: u64) -> u64 {
        let blocks = &self.writes.blocks[txg as usize % TXGS];
        // In this order: other threads may write and flush meanwhile.
        let flushed = blocks.flushed.load(Ordering::SeqCst);
        blocks.begun.load(Ordering::SeqCst) - flushed
    }

    /// As [`WriteStore::flush`], for the top-level vdevs that hold these blocks.
    pub fn flush_blocks(&self, blocks: &[BlkPtr]) -> Result<()> {
        let mut tops: Vec<u32> =
            blocks.iter().flat_map(|bp| bp.dvas().map(|dva| dva.vdev).collect::<Vec<_>>()).collect();
        tops.sort_unstable();
        tops.dedup();
        self.tree().flush_tops(&tops).map_err(|failure| failure.into_write_error(self.name.clone()))
    }
}

impl Deref for WriteStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Drop for WriteStore {
    /// Writes that are held refer to their leaves, which would never be closed. No txg refers to
    /// them, since a flush would have written them.
    fn drop(&mut self) {
        self.writes.flight.plug().cancel();
    }
}

/// The allocation units if all top-level vdevs count: see [`WriteStore::set_units`].
fn units(tree: &Tree) -> (usize, usize) {
    let sizes = || tree.tops.iter().filter_map(|top| top.minimum_psize_bytes()).map(|bytes| bytes as usize);
    (sizes().min().unwrap_or(512), sizes().reduce(gcd).unwrap_or(512))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
