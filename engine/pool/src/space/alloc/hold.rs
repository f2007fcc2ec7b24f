//! Free space that is set aside for a moment, because something is done to the devices there: trimming, writing a pattern.
//!
//! OpenZFS disables a whole metaslab meanwhile; here it is one range, so that allocating goes on in a pool of few metaslabs.
//! ZFS names: metaslab_disable, ms_trim.
//!
//! Invariants:
//!   * what is held is free in the space maps, and was free in those of the last uberblocks that may be gone back to
//!   * nobody is handed any of it before the [`Held`] is gone

use super::slab::Slab;
use super::{Allocator, Group};
use crate::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes set aside at a time, at most: as OpenZFS trims (`zfs_trim_extent_bytes_max`).
const HELD_BYTES_MAX: u64 = 128 << 20;
/// And of what is free on the device, so that others find room.
const HELD_PART: u64 = 8;
/// But so much in any case: less would take forever.
const HELD_BYTES_MIN: u64 = 1 << 20;

/// A range of a top-level device that is free, and handed to nobody as long as this is there.
pub struct Held {
    slab: Arc<Slab>,
    start: u32,
    len: u32,
    told: bool,
    /// Where it begins, as in addresses.
    pub offset_bytes: u64,
    /// How long it is.
    pub size_bytes: u64,
}

impl Held {
    /// Its devices know that it is free.
    pub fn was_told(&mut self) {
        self.told = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.slab.release(self.start, self.len, self.told);
    }
}

/// How far somebody is who goes through all that is free on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Metaslab.
    pub slab: usize,
    unit: u32,
}

impl Sweep {
    /// Goes on with the next metaslab.
    pub fn skip_slab(&mut self) {
        *self = Self { slab: self.slab + 1, unit: 0 };
    }
}

/// Which free space is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// All.
    Free,
    /// All in metaslabs that were ever used.
    Used,
    /// What was freed and not told to the devices, since the allocator [notes](Allocator::note_untold) that.
    Untold,
}

impl Allocator {
    /// Bounds of a metaslab, in bytes of the device; `None` behind the last one.
    pub fn slab_bounds(&self, vdev: u32, slab: usize) -> Option<(u64, u64)> {
        let table = self.table();
        let group = table.group(vdev)?;
        let found = group.slabs.get(slab)?;
        let start = found.start_units << group.ashift;
        Some((start, start + (u64::from(found.units) << group.ashift)))
    }

    /// Sets aside the next free range of a device, `max_bytes` at most; `None`: there are no more.
    pub fn hold_next(&self, vdev: u32, at: &mut Sweep, max_bytes: u64, meant: Meant) -> Result<Option<Held>> {
        let table = self.table();
        let Some(group) = table.group(vdev) else { return Ok(None) };
        let reader = || self.maps();
        let align = (group.shape.alignment_bytes() >> group.ashift).max(1) as u32;
        while let Some(slab) = group.slabs.get(at.slab) {
            let max = u32::try_from(Self::most(group, max_bytes) >> group.ashift).unwrap_or(u32::MAX).max(align);
            let is_meant = meant != Meant::Used || slab.lock().map.is_some();
            let found = match is_meant {
                true => slab.hold(&reader, at.unit, max, align, meant == Meant::Untold)?,
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
                told: false,
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

    /// Bytes of a device in whole metaslabs.
    pub fn end_bytes(&self, vdev: u32) -> Option<u64> {
        let table = self.table();
        let group = table.group(vdev)?;
        Some((group.slabs.len() as u64) << group.slab_shift)
    }

    /// Reads the space maps of `bytes` of a device from `from` on, so that [`Allocator::not_free`] knows them.
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

    /// Ranges of a device between two places that are not free, start and end, in order. Reads nothing: where it is not known, all counts.
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

    /// What is freed from now on is noted, for whoever tells the devices ([`Meant::Untold`]); or is not any more.
    pub fn note_untold(&self, yes: bool) {
        if self.tells.swap(yes, Ordering::Relaxed) && !yes {
            self.table().groups().flat_map(|g| g.slabs.iter()).for_each(|slab| slab.forget_untold());
        }
    }

    /// Whether that is noted.
    pub fn notes_untold(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }
}
