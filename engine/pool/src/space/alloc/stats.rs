//! Space of devices and classes.

use super::group::Group;
use super::table::Table;
use crate::space::fragmentation::metaslab_fragmentation;
use crate::usable;
use block::Class;
use ondisk::spacemap::HISTOGRAM_BUCKETS;
use std::sync::atomic::Ordering;

/// Percentage of the special devices above which only metadata is allocated there. As OpenZFS.
const SPECIAL_DATA_PERCENT: u64 = 75;

/// Space of the devices of one class, in raw bytes including parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassSpace {
    /// Capacity in whole metaslabs.
    pub size_bytes: u64,
    /// Allocated, including txgs in flight.
    pub allocated_bytes: u64,
    /// Freed, but not allocatable yet.
    pub deferred_bytes: u64,
    /// Capacity in deflated bytes, as datasets count it.
    pub deflated_size_bytes: u64,
    /// `deferred_bytes` in deflated bytes, as datasets count them.
    pub deflated_deferred_bytes: u64,
    /// Fragmentation of the free space, 0 to 100; `None` if the pool keeps no histograms.
    pub fragmentation_percent: Option<u64>,
}

impl ClassSpace {
    /// What can be allocated now: neither allocated nor deferred.
    pub fn free_bytes(&self) -> u64 {
        self.size_bytes - (self.allocated_bytes + self.deferred_bytes).min(self.size_bytes)
    }
}

/// Share of the slop space that must stay free after a change. ZFS name: `zfs_space_check_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceCheck {
    /// All of it: for operations that take space.
    Normal,
    /// Half of it: for operations that free space, and for administration that takes little.
    Reserved,
    /// A quarter of it: for operations that are certain to free space, such as destroying a dataset
    /// or lifting limits.
    ExtraReserved,
}

/// Space of all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceStats {
    /// By class, in the order of [`Class`].
    pub classes: [ClassSpace; 4],
    /// Space of the normal devices that is reserved for the intent log, in deflated bytes. Not
    /// included in their deflated size.
    pub embedded_log_bytes: u64,
    /// Space that is reserved so that a full pool can be freed.
    pub slop_bytes: u64,
    /// Space on all devices that only the pool's checkpoint holds.
    pub checkpoint_bytes: u64,
}

impl SpaceStats {
    /// Space of one class.
    pub fn class(&self, class: Class) -> &ClassSpace {
        &self.classes[class as usize]
    }

    /// Bytes that all datasets together may use, once deferred frees are free. Savings by dedup and
    /// cloning are not included.
    pub fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        let slop = match check {
            SpaceCheck::Normal => self.slop_bytes,
            SpaceCheck::Reserved => self.slop_bytes / 2,
            SpaceCheck::ExtraReserved => self.slop_bytes / 4,
        };
        self.class(Class::Normal).deflated_size_bytes.saturating_sub(self.checkpoint_bytes.saturating_add(slop))
    }

    /// Freed bytes that become free in later txgs, deflated.
    pub fn held_back_bytes(&self) -> u64 {
        self.class(Class::Normal).deflated_deferred_bytes
    }

    /// Allocated bytes and size of all devices except logs, as `zpool list` counts them.
    pub fn allocated_and_size(&self) -> (u64, u64) {
        let log = Class::Log as usize;
        let counted = self.classes.iter().enumerate().filter(|(n, _)| *n != log);
        counted.fold((0, 0), |(used, size), (_, c)| (used + c.allocated_bytes, size + c.size_bytes))
    }
}

impl Group {
    /// Allocatable bytes, and size.
    pub(super) fn free_and_size(&self) -> (u64, u64) {
        let size = self.totals.size();
        (size - self.totals.used.load(Ordering::Relaxed).min(size), size)
    }

    fn deflated(&self, bytes: u64) -> u64 {
        (bytes >> 9).saturating_mul(self.deflate_ratio)
    }

    /// Mean over the metaslabs, weighted by their free space; `None` unless at least half of them
    /// have a histogram.
    pub(super) fn fragmentation_percent(&self, histograms: bool) -> Option<u64> {
        let (mut weighted, mut free, mut known) = (0u128, 0u128, 0);
        for slab in &self.slabs {
            let inner = slab.lock();
            let histogram: Option<[u64; HISTOGRAM_BUCKETS]> =
                inner.map.as_ref().map_or_else(|| histograms.then_some([0; HISTOGRAM_BUCKETS]), |map| map.histogram);
            let allocated =
                inner.map.as_ref().map_or(0, |m| m.allocated_bytes >> self.ashift) + inner.unflushed.units();
            let free_units = u128::from(u64::from(slab.units).saturating_sub(allocated.max(0) as u64));
            if let Some(h) = histogram {
                weighted += u128::from(metaslab_fragmentation(&h, self.ashift)) * free_units;
                free += free_units;
                known += 1;
            }
        }
        let enough = known >= self.slabs.len().div_ceil(2);
        enough.then(|| weighted.checked_div(free))?.map(|p| p as u64)
    }
}

impl Table {
    /// Whether the free space of the normal class is at most half of the slop.
    pub(super) fn is_in_reserve(&self) -> bool {
        let totals = sums(self);
        totals.class(Class::Normal).free_bytes() <= totals.slop_bytes / 2
    }

    pub(super) fn has_room_for_data_on_special(&self) -> bool {
        let (free, size) = self.by_class[Class::Special as usize]
            .iter()
            .map(|g| g.free_and_size())
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        size - free < size / 100 * SPECIAL_DATA_PERCENT
    }
}

pub(super) fn sums(table: &Table) -> SpaceStats {
    let mut stats = SpaceStats::default();
    for group in table.groups().filter(|g| !g.availability.is_new()) {
        let class = &mut stats.classes[group.class as usize];
        let waiting = group.totals.waiting.load(Ordering::Relaxed);
        let log_bytes = group.totals.for_log.load(Ordering::Relaxed);
        class.size_bytes += group.totals.size();
        class.allocated_bytes += group.totals.used.load(Ordering::Relaxed).saturating_sub(waiting);
        class.deferred_bytes += waiting;
        class.deflated_deferred_bytes += group.deflated(waiting);
        stats.checkpoint_bytes += group.checkpoint_bytes();
        if group.availability.is_allocating() {
            class.deflated_size_bytes += group.deflated(group.totals.size() - log_bytes);
            stats.embedded_log_bytes += group.deflated(log_bytes);
        }
    }
    stats.slop_bytes = usable::slop_bytes(stats.class(Class::Normal).deflated_size_bytes, stats.embedded_log_bytes);
    stats
}
