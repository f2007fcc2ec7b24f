//! The second cache level (L2ARC): blocks that the in-memory cache evicts are written to cache
//! devices, and read from there.
//!
//! ```text
//!   Arc ── evicted blocks ─> feed (a thread) ─> device: | header | ring of blocks and log blocks |
//!   zio::read ── miss ─> L2::read ─> index ─> leaf ─> the pointer's checksum ─> block, or miss
//! ```
//! Format: [`ondisk::l2arc`]. Blocks are stored on the device as in the pool, compressed and
//! encrypted alike, so that the checksum in the block pointer covers them. The OpenZFS kernel
//! module can rebuild its cache from a device written by Weir, and the other way round. ZFS name:
//! L2ARC (module/zfs/arc.c).
//!
//! Invariants:
//!   * a cache device is not trusted: bytes that do not match the checksum are a miss
//!   * a place is removed from the index before it is overwritten
//!   * a failing device makes the cache cold, and does no other harm

mod device;
mod feed;
mod rebuild;

use crate::store::Store;
use crate::vdev::Vdev;
use crate::zio;
use device::CacheDevice;
use observe::{Collector, Counter, Info, Source, Unit, Value};
use ondisk::BlkPtr;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Which blocks of a dataset may go to cache devices (`secondarycache`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Secondary {
    None,
    /// Metadata only.
    Metadata,
    /// Data and metadata.
    #[default]
    All,
}

impl Secondary {
    /// From the property's numeric value (`zfs_cache_type_t`).
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Metadata,
            _ => Self::All,
        }
    }
}

/// Identity of a block, as in OpenZFS: both words of the first address, and the birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Address(u64, u64, u64);

impl Address {
    /// `None` for a block that cannot be on a cache device: a hole, an embedded or redacted block,
    /// or a gang block.
    fn of(bp: &BlkPtr) -> Option<Self> {
        if bp.is_hole() || bp.is_embedded() || bp.is_gang() || bp.is_redacted() {
            return None;
        }
        let (w0, w1) = bp.dva(0).to_words();
        Some(Self(w0, w1, bp.physical_birth().0))
    }
}

/// Position of a block on the cache devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    device: u32,
    offset_bytes: u64,
    lsize_bytes: u32,
    psize_bytes: u32,
}

/// Memory per index entry, in bytes, including the entry in the device's own list. Measured once,
/// rounded up.
const ENTRY_BYTES: u64 = 160;
/// Maximum size of the index as a percentage of the first level's cap (`l2arc_meta_percent`).
const INDEX_PERCENT: u64 = 33;

#[derive(Default)]
struct Counts {
    hits: Counter,
    misses: Counter,
    read_bytes: Counter,
    feeds: Counter,
    writes: Counter,
    written_bytes: Counter,
    write_errors: Counter,
    wrong: Counter,
    read_errors: Counter,
    log_blocks: Counter,
    rebuilds: Counter,
    rebuild_failures: Counter,
    rebuilt_blocks: Counter,
    rebuilt_bytes: Counter,
    rebuilt_log_blocks: Counter,
    refused: Counter,
    size_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

/// Counters and sizes of the L2ARC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Misses of the first level that hit here.
    pub hits: u64,
    /// Misses of both levels.
    pub misses: u64,
    /// Bytes read for hits.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Uncompressed bytes of the blocks held.
    pub size_bytes: u64,
    /// Bytes of the blocks held, as stored.
    pub stored_bytes: u64,
    /// Bytes of memory used by the index.
    pub index_bytes: u64,
    /// Reads whose checksum did not match.
    pub wrong: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks rebuilt from the devices after the pool was opened.
    pub rebuilt_blocks: u64,
}

/// The cache devices of a pool.
#[derive(Default)]
pub struct L2 {
    index: RwLock<HashMap<Address, Place>>,
    devices: RwLock<Vec<Arc<CacheDevice>>>,
    /// Whether there are any devices.
    has_devices: AtomicBool,
    next: AtomicU64,
    policies: RwLock<HashMap<u64, Secondary>>,
    counts: Counts,
    stop: Mutex<bool>,
    stopping: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl L2 {
    /// Sets which blocks of an object set may go to cache devices. Default: all.
    pub fn set_policy(&self, objset: u64, policy: Secondary) {
        if policy == Secondary::All {
            self.policies.write().remove(&objset);
        } else {
            self.policies.write().insert(objset, policy);
        }
    }

    /// Whether a block may go to a cache device once it is evicted.
    pub(crate) fn wants(&self, objset: u64, is_metadata: bool) -> bool {
        self.has_devices.load(Ordering::Acquire)
            && match self.policies.read().get(&objset) {
                None | Some(Secondary::All) => true,
                Some(Secondary::Metadata) => is_metadata,
                Some(Secondary::None) => false,
            }
    }

    /// Whether the index lists the block.
    pub(crate) fn has(&self, bp: &BlkPtr) -> bool {
        Address::of(bp).is_some_and(|address| self.knows(&address))
    }

    /// Returns the stored bytes of a block, checksum verified, if a cache device has them.
    pub(crate) fn read(&self, store: &Store, bp: &BlkPtr) -> Option<Vec<u8>> {
        if !self.has_devices.load(Ordering::Acquire) {
            return None;
        }
        let address = Address::of(bp)?;
        let place = self.index.read().get(&address).copied();
        let Some(place) = place.filter(|p| u64::from(p.psize_bytes) == bp.psize_bytes()) else {
            self.counts.misses.add(1);
            return None;
        };
        let found = self.read_place(store, bp, &address, place);
        match &found {
            Some(bytes) => {
                self.counts.hits.add(1);
                self.counts.read_bytes.add(bytes.len() as u64);
            }
            None => self.counts.misses.add(1),
        }
        found
    }

    fn read_place(&self, store: &Store, bp: &BlkPtr, address: &Address, place: Place) -> Option<Vec<u8>> {
        let device = self.devices.read().iter().find(|d| d.number == place.device).cloned()?;
        let leaf = device.vdev.leaf()?;
        let mut bytes = vec![0; place.psize_bytes as usize];
        match leaf.read_to_judge(place.offset_bytes, &mut bytes)? {
            Ok(_) if zio::matches(store, bp, &bytes) => return Some(bytes),
            Ok(answer) => {
                // If the place was overwritten meanwhile, the device is not at fault.
                if self.index.read().get(address) == Some(&place) {
                    answer.is_wrong();
                    self.counts.wrong.add(1);
                }
            }
            Err(_) => self.counts.read_errors.add(1),
        }
        self.forget(address, place);
        None
    }

    fn remember(&self, address: Address, place: Place) {
        let before = self.index.write().insert(address, place);
        if let Some(before) = before {
            self.count_out(before);
        }
        self.counts.size_bytes.fetch_add(place.lsize_bytes.into(), Ordering::Relaxed);
        self.counts.stored_bytes.fetch_add(place.psize_bytes.into(), Ordering::Relaxed);
    }

    /// Removes a block from the index, unless it has another place by now.
    fn forget(&self, address: &Address, place: Place) {
        let mut index = self.index.write();
        if index.get(address) == Some(&place) {
            index.remove(address);
            self.count_out(place);
        }
    }

    fn count_out(&self, place: Place) {
        self.counts.size_bytes.fetch_sub(place.lsize_bytes.into(), Ordering::Relaxed);
        self.counts.stored_bytes.fetch_sub(place.psize_bytes.into(), Ordering::Relaxed);
    }

    fn knows(&self, address: &Address) -> bool {
        self.index.read().contains_key(address)
    }

    /// Whether the index has reached its memory limit.
    fn is_full(&self, store: &Store) -> bool {
        let entries = self.index.read().len() as u64;
        entries * ENTRY_BYTES > store.cache().counters().cap_bytes / 100 * INDEX_PERCENT
    }

    /// Starts the feed thread: it rebuilds the index from the devices and, if `feeds`, writes
    /// evicted blocks to them.
    pub(crate) fn start(self: &Arc<Self>, store: &Arc<Store>, pool_guid: u64, feeds: bool) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        *self.stop.lock() = false;
        let (l2, store) = (self.clone(), Arc::downgrade(store));
        let work = move || feed::run(&l2, &store, pool_guid, feeds);
        *thread = Some(std::thread::Builder::new().name("l2arc".into()).spawn(work)?);
        Ok(())
    }

    /// Stops the feed thread after the blocks that are due are written. Reading continues.
    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.stopping.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            // If the thread panicked, nothing is fed any more, which only makes the cache cold.
            let _ = thread.join();
        }
    }

    fn is_stopping(&self) -> bool {
        *self.stop.lock()
    }

    /// Waits up to `longest` or until the thread must stop. Returns whether it must.
    fn pause(&self, longest: std::time::Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopping.wait_for(&mut stop, longest);
        }
        *stop
    }

    /// Opens cache devices that were added, and releases those that were removed.
    fn follow(&self, caches: &[Arc<Vdev>], pool_guid: u64) {
        let mut devices = self.devices.write();
        let is_used = |v: &Vdev| v.leaf().is_some_and(|leaf| leaf.device().is_some());
        let gone: Vec<u32> = devices
            .iter()
            .filter(|d| !caches.iter().any(|v| Arc::ptr_eq(v, &d.vdev) && is_used(v)))
            .map(|d| d.number)
            .collect();
        devices.retain(|d| !gone.contains(&d.number));
        if !gone.is_empty() {
            let mut index = self.index.write();
            index.retain(|_, place| {
                let stays = !gone.contains(&place.device);
                if !stays {
                    self.count_out(*place);
                }
                stays
            });
        }
        for vdev in caches.iter().filter(|v| is_used(v)) {
            if devices.iter().any(|d| Arc::ptr_eq(vdev, &d.vdev)) {
                continue;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed) as u32;
            devices.extend(CacheDevice::new(number, vdev.clone(), pool_guid).map(Arc::new));
        }
        self.has_devices.store(!devices.is_empty(), Ordering::Release);
    }

    /// Stops writing to devices that are not in `caches`. When this returns, no write to such a
    /// device is in progress. The feed thread removes their contents from the index shortly
    /// afterwards.
    pub(crate) fn let_go(&self, caches: &[Arc<Vdev>]) {
        let devices = self.devices.read().clone();
        for device in devices.iter().filter(|d| !caches.iter().any(|v| Arc::ptr_eq(v, &d.vdev))) {
            device.ring.lock().failed = true;
        }
    }

    /// Bytes of blocks and log blocks on the cache device with this guid.
    pub fn held_bytes(&self, guid: u64) -> u64 {
        let devices = self.devices.read();
        devices.iter().find(|d| d.vdev.guid == guid).map_or(0, |d| d.held_bytes())
    }

    /// Current counters and sizes.
    pub fn figures(&self) -> Figures {
        let c = &self.counts;
        Figures {
            hits: c.hits.get(),
            misses: c.misses.get(),
            read_bytes: c.read_bytes.get(),
            written_bytes: c.written_bytes.get(),
            size_bytes: c.size_bytes.load(Ordering::Relaxed),
            stored_bytes: c.stored_bytes.load(Ordering::Relaxed),
            index_bytes: self.index.read().len() as u64 * ENTRY_BYTES,
            wrong: c.wrong.get(),
            read_errors: c.read_errors.get(),
            rebuilt_blocks: c.rebuilt_blocks.get(),
        }
    }
}

macro_rules! infos {
    ($($name:ident = $text:literal, $unit:ident, $help:literal;)*) => {
        $(static $name: Info = Info { name: $text, unit: Unit::$unit, help: $help };)*
    };
}

infos! {
    HITS = "l2_hits", Number, "ARC misses answered from a cache device.";
    MISSES = "l2_misses", Number, "ARC misses that were not on a cache device either.";
    READ = "l2_read", Bytes, "Bytes read from cache devices for hits.";
    FEEDS = "l2_feeds", Number, "Searches for blocks to write to cache devices.";
    WRITES = "l2_writes", Number, "Blocks written to cache devices.";
    WRITTEN = "l2_written", Bytes, "Bytes written to cache devices.";
    WRITE_ERRORS = "l2_write_errors", Number, "Writes to cache devices that failed.";
    WRONG = "l2_checksum_errors", Number, "Blocks with a wrong checksum on a cache device; they were read from the pool instead.";
    READ_ERRORS = "l2_read_errors", Number, "Failed reads of cache devices; the pool was read instead.";
    LOG_BLOCKS = "l2_log_blocks", Number, "Log blocks written to cache devices, from which their index is rebuilt.";
    REBUILDS = "l2_rebuilds", Number, "Cache devices whose index was rebuilt.";
    REBUILD_FAILURES = "l2_rebuild_failures", Number, "Cache devices whose index was rebuilt only in part or not at all.";
    REBUILT = "l2_rebuilt_blocks", Number, "Blocks found on cache devices when their index was rebuilt.";
    REBUILT_BYTES = "l2_rebuilt", Bytes, "Size of the blocks found when the index of cache devices was rebuilt, as they are in memory.";
    REBUILT_LOGS = "l2_rebuilt_log_blocks", Number, "Log blocks read to rebuild the index of cache devices.";
    REFUSED = "l2_refused", Number, "Evicted blocks that were not written to a cache device, because there were too many at once.";
    SIZE = "l2_size", Bytes, "Size of the blocks on cache devices, as they are in memory.";
    STORED = "l2_stored", Bytes, "Size of the blocks on cache devices, as stored there.";
    INDEX = "l2_index", Bytes, "Memory used by the index of the cache devices.";
}

impl Source for L2 {
    fn collect(&self, out: &mut Collector<'_>) {
        if !self.has_devices.load(Ordering::Acquire) {
            return;
        }
        let c = &self.counts;
        for (info, counter) in [
            (&HITS, &c.hits),
            (&MISSES, &c.misses),
            (&READ, &c.read_bytes),
            (&FEEDS, &c.feeds),
            (&WRITES, &c.writes),
            (&WRITTEN, &c.written_bytes),
            (&WRITE_ERRORS, &c.write_errors),
            (&WRONG, &c.wrong),
            (&READ_ERRORS, &c.read_errors),
            (&LOG_BLOCKS, &c.log_blocks),
            (&REBUILDS, &c.rebuilds),
            (&REBUILD_FAILURES, &c.rebuild_failures),
            (&REBUILT, &c.rebuilt_blocks),
            (&REBUILT_BYTES, &c.rebuilt_bytes),
            (&REBUILT_LOGS, &c.rebuilt_log_blocks),
            (&REFUSED, &c.refused),
        ] {
            out.counter(info, &[], counter);
        }
        let figures = self.figures();
        for (info, bytes) in
            [(&SIZE, figures.size_bytes), (&STORED, figures.stored_bytes), (&INDEX, figures.index_bytes)]
        {
            out.put(info, &[], Value::Level(bytes));
        }
    }
}
