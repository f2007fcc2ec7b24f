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
mod figures;
mod index;
mod rebuild;

pub use figures::Figures;

use crate::vdev::Vdev;
use device::CacheDevice;
use host::sync::{Condvar, Mutex, RwLock};
use host::threads::JoinHandle;
use index::{Address, Index, Place};
use observe::{Collector, Source};
use ondisk::BlkPtr;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which blocks of a dataset may go to cache devices (`secondarycache`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Secondary {
    None,
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

/// Maximum size of the index as a percentage of the first level's cap (`l2arc_meta_percent`).
const INDEX_PERCENT: u64 = 33;

/// The cache devices of a pool.
#[derive(Default)]
pub struct L2 {
    index: Index,
    devices: RwLock<Vec<Arc<CacheDevice>>>,
    /// Whether there are any devices.
    has_devices: AtomicBool,
    next: AtomicU64,
    policies: RwLock<HashMap<u64, Secondary>>,
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
        Address::of(bp).is_some_and(|address| self.index.knows(&address))
    }

    /// Returns the stored bytes of a block that `is_right` accepts, by their checksum, if a cache
    /// device has them.
    pub(crate) fn read(&self, bp: &BlkPtr, is_right: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        if !self.has_devices.load(Ordering::Acquire) {
            return None;
        }
        let address = Address::of(bp)?;
        let place = self.index.find(&address);
        let Some(place) = place.filter(|p| u64::from(p.psize_bytes) == bp.psize_bytes()) else {
            self.index.counts.misses.add(1);
            return None;
        };
        let found = self.read_place(&address, place, is_right);
        match &found {
            Some(bytes) => {
                self.index.counts.hits.add(1);
                self.index.counts.read_bytes.add(bytes.len() as u64);
            }
            None => self.index.counts.misses.add(1),
        }
        found
    }

    fn read_place(&self, address: &Address, place: Place, is_right: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let device = self.devices.read().iter().find(|d| d.number == place.device).cloned()?;
        let leaf = device.vdev.leaf()?;
        let mut bytes = vec![0; place.psize_bytes as usize];
        match leaf.read_to_judge(place.offset_bytes, &mut bytes)? {
            Ok(_) if is_right(&bytes) => return Some(bytes),
            Ok(answer) => {
                // If the place was overwritten meanwhile, the device is not at fault.
                if self.index.find(address) == Some(place) {
                    answer.is_wrong();
                    self.index.counts.wrong.add(1);
                }
            }
            Err(_) => self.index.counts.read_errors.add(1),
        }
        self.index.forget(address, place);
        None
    }

    /// Whether the index has reached its memory limit in a pool whose first level may take
    /// `cap_bytes`.
    fn is_full(&self, cap_bytes: u64) -> bool {
        self.index.bytes() > cap_bytes / 100 * INDEX_PERCENT
    }

    /// Stops the feed thread after the blocks that are due are written. Reading continues.
    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.stopping.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && !thread.is_current()
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
            self.index.forget_devices(&gone);
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
    pub(crate) fn release_devices(&self, caches: &[Arc<Vdev>]) {
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
        self.index.counts.figures(self.index.bytes())
    }
}

impl Source for L2 {
    fn collect(&self, out: &mut Collector<'_>) {
        if self.has_devices.load(Ordering::Acquire) {
            self.index.counts.collect(self.index.bytes(), out);
        }
    }
}
