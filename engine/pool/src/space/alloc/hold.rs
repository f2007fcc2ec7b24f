//! Free ranges that are reserved for a short time, because their devices are trimmed or
//! initialized.
//!
//! OpenZFS disables a whole metaslab for that time. Here it is only one range, so that allocation
//! continues in a pool with few metaslabs. ZFS names: metaslab_disable, ms_trim.
//!
//! Invariants:
//!   * a held range is free in the space maps, and was free in those of the last uberblocks to
//!     which the pool may be rewound
//!   * no part of it is allocated before the [`Held`] is dropped

use super::Allocator;
use super::group::Group;
use super::slab::Slab;
use errors::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Limit for the bytes held at a time: the trim size of OpenZFS (`zfs_trim_extent_bytes_max`).
const HELD_BYTES_MAX: u64 = 128 << 20;
/// The second limit is this fraction of the free space of the device, so that allocations find
/// room.
const HELD_PART: u64 = 8;
/// At least this many bytes are held: less would take forever.
const HELD_BYTES_MIN: u64 = 1 << 20;

/// A free range of a top-level device that is not allocated while this value exists.
pub struct Held {
    slab: Arc<Slab>,
    start: u32,
    len: u32,
    trimmed: bool,
    /// Offset as in DVAs.
    pub offset_bytes: u64,
    pub size_bytes: u64,
}

impl Held {
    /// Records that the devices were informed that the range is free.
    pub fn mark_trimmed(&mut self) {
        self.trimmed = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.slab.release(self.start, self.len, self.trimmed);
    }
}

/// Position of a pass over all free space of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Number of the metaslab.
    pub slab: usize,
    unit: u32,
}

impl Sweep {
    /// Continues with the next metaslab.
    pub fn skip_slab(&mut self) {
        *self = Self { slab: self.slab + 1, unit: 0 };
    }
}

/// Selects free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeKind {
    /// All free space.
    Free,
    /// All free space in metaslabs that were ever used.
    Used,
    /// Space that was freed but not trimmed since the allocator started to
    /// [note](Allocator::note_untrimmed) this.
    Untrimmed,
}

impl Allocator {
    /// Start and end of a metaslab in bytes on the device; `None` after the last one.
    pub fn slab_bounds(&self, vdev: u32, slab: usize) -> Option<(u64, u64)> {
        let table = self.table();
        let group = table.group(vdev)?;
        let found = group.slabs.get(slab)?;
        let start = found.start_units << group.ashift;
        Some((start, start + (u64::from(found.units) << group.ashift)))
    }

    /// Reserves the next free range of a device, at most `max_bytes`; `None` if there are no more.
    pub fn hold_next(&self, vdev: u32, at: &mut Sweep, max_bytes: u64, range_kind: RangeKind) -> Result<Option<Held>> {
        let table = self.table();
        let Some(group) = table.group(vdev) else { return Ok(None) };
        let reader = || self.maps();
        let align = (group.shape.alignment_bytes() >> group.ashift).max(1) as u32;
        while let Some(slab) = group.slabs.get(at.slab) {
            let max = u32::try_from(Self::most(group, max_bytes) >> group.ashift).unwrap_or(u32::MAX).max(align);
            let is_selected = range_kind != RangeKind::Used || slab.lock().map.is_some();
            let found = match is_selected {
                true => slab.hold(&reader, at.unit, max, align, range_kind == RangeKind::Untrimmed)?,
                false => None,
            };
            let Some((start, len)) = found else {
                at.skip_slab();
                continue;
            };
            at.unit = start + len;
            return Ok(Some(Held {
                slab: slab.clone(),
                start,
                len,
                trimmed: false,
                offset_bytes: (slab.start_units + u64::from(start)) << group.ashift,
                size_bytes: u64::from(len) << group.ashift,
            }));
        }
        Ok(None)
    }

    fn most(group: &Group, max_bytes: u64) -> u64 {
        let (free, _) = group.free_and_size();
        max_bytes.min(HELD_BYTES_MAX).min((free / HELD_PART).max(HELD_BYTES_MIN))
    }

    /// Number of allocation units that are held on all devices.
    pub(crate) fn held_units(&self) -> u64 {
        self.table().groups().flat_map(|g| g.slabs.iter()).map(|slab| slab.held_units()).sum()
    }

    /// Size of a device's metaslabs in bytes.
    pub fn end_bytes(&self, vdev: u32) -> Option<u64> {
        let table = self.table();
        let group = table.group(vdev)?;
        Some((group.slabs.len() as u64) << group.slab_shift)
    }

    /// Loads the space maps for `bytes` of a device from offset `from`, so that
    /// [`Allocator::not_free`] knows them.
    pub(crate) fn load_slabs(&self, vdev: u32, from: u64, bytes: u64) {
        let table = self.table();
        let Some(group) = table.group(vdev) else { return };
        let reader = || self.maps();
        let numbers = from >> group.slab_shift..=from.saturating_add(bytes) >> group.slab_shift;
        for slab in numbers.map_while(|number| group.slabs.get(number as usize)) {
            if let Err(error) = slab.make_known(&reader) {
                tracing::debug!(device = group.name, metaslab = slab.id, %error, "what is free is not known");
            }
        }
    }

    /// Start and end of the ranges between two offsets of a device that are not free, in order.
    /// Reads nothing from disk: space of unknown state counts as not free.
    pub(crate) fn not_free(&self, vdev: u32, from: u64, to: u64) -> Vec<(u64, u64)> {
        let table = self.table();
        let Some(group) = table.group(vdev) else { return vec![(from, to)] };
        let mut found = Vec::new();
        let slabs = group.slabs.iter().skip((from >> group.slab_shift) as usize);
        for slab in slabs.take_while(|slab| slab.start_units << group.ashift < to) {
            for (start, len) in slab.not_free() {
                let start = (slab.start_units + u64::from(start)) << group.ashift;
                let end = start + (u64::from(len) << group.ashift);
                if end > from && start < to {
                    found.push((start.max(from), end.min(to)));
                }
            }
        }
        found
    }

    /// Starts or stops noting freed ranges for a later trim ([`RangeKind::Untrimmed`]).
    pub fn note_untrimmed(&self, yes: bool) {
        if self.tracks_untrimmed.swap(yes, Ordering::Relaxed) && !yes {
            self.table().groups().flat_map(|g| g.slabs.iter()).for_each(|slab| slab.forget_untrimmed());
        }
    }

    /// Whether freed ranges are noted.
    pub fn notes_untrimmed(&self) -> bool {
        self.tracks_untrimmed.load(Ordering::Relaxed)
    }
}
