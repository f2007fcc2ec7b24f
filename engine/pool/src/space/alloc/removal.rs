//! Frees on devices that are being or were removed: their blocks may have moved. They are deferred,
//! and the syncing thread resolves them in their txg ([`crate::removal`]).
//!
//! Invariants:
//!   * a deferred free is synced in its txg

use super::Allocator;
use super::group::Group;
use super::removal_frees::RemovalFree;
use block::Class;
use errors::Result;
use ondisk::Dva;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Allocator {
    /// Starts or stops deferring frees on a device.
    pub(crate) fn set_evacuated(&self, vdev: u32, yes: bool) {
        let mut devices = self.evacuated.devices.write();
        match yes {
            true => devices.insert(vdev),
            false => devices.remove(&vdev),
        };
        self.evacuated.any.store(!devices.is_empty() || !self.evacuated.deferred.lock().is_empty(), Ordering::SeqCst);
    }

    /// Takes the deferred frees up to `txg`, which is syncing.
    pub(crate) fn take_deferred(&self, txg: u64) -> Vec<RemovalFree> {
        let mut all = self.evacuated.deferred.lock();
        let (now, later) = std::mem::take(&mut *all).into_iter().partition(|gone| gone.txg <= txg);
        *all = later;
        now
    }

    /// Frees a DVA on the device that it names.
    pub(crate) fn free_here(&self, txg: u64, birth: u64, dva: &Dva) {
        self.give_back_here(&self.table(), txg, birth, dva, true);
    }

    /// The allocated ranges in metaslab number `slab` of a device that takes no new blocks,
    /// including the changes of the syncing txg: offset on the device and length, in bytes, in
    /// order. `None` if there is no such metaslab.
    pub(crate) fn allocated_in(&self, vdev: u32, slab: u64) -> Result<Option<Vec<(u64, u64)>>> {
        let table = self.table();
        let Some((group, slab)) = table.group(vdev).and_then(|g| Some((g, g.slabs.get(slab as usize)?))) else {
            return Ok(None);
        };
        let reader = || self.maps();
        let in_bytes = |(at, len)| ((slab.start_units + u64::from(at)) << slab.ashift, u64::from(len) << slab.ashift);
        let ranges = slab.allocated(&reader)?;
        debug_assert_eq!(group.vdev, vdev);
        Ok(Some(ranges.iter().map(in_bytes).collect()))
    }

    /// log2 of the metaslab size of a device in bytes; `None` if there is no such device.
    pub(crate) fn slab_shift(&self, vdev: u32) -> Option<u8> {
        Some(self.table().group(vdev)?.slab_shift)
    }

    /// Used bytes of a device, including freed space that is not allocatable yet, and its size.
    pub(crate) fn used_and_size(&self, vdev: u32) -> Option<(u64, u64)> {
        let table = self.table();
        let group = table.group(vdev)?;
        Some((group.totals.used.load(Ordering::Relaxed), group.totals.size()))
    }

    /// Free bytes on the devices of a class that take new blocks, except for device `without`.
    pub(crate) fn free_bytes_without(&self, class: Class, without: u32) -> u64 {
        let table = self.table();
        let others = table.by_class[class as usize].iter().filter(|g: &&Arc<Group>| g.vdev != without && g.is_open());
        others.map(|g| g.free_and_size().0).sum()
    }

    /// Whether a device is configured to take new blocks.
    pub(crate) fn is_allocating(&self, vdev: u32) -> bool {
        self.table().group(vdev).is_some_and(|g| g.availability.is_allocating())
    }
}
