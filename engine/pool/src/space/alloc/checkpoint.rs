//! Space that the pool's checkpoint holds: blocks that were freed since, and stay allocated until
//! the checkpoint is discarded.
//!
//! ```text
//!   free of a block of the checkpoint ─> checkpointing[txg] ── sync ──> the device's checkpoint space map, as freed
//!                                                                        │ discard: from its end, part by part
//!                                                                        └─> freeing[txg], as any block
//! ```
//! Facts: metaslab_free_concrete, metaslab_sync (module/zfs/metaslab.c),
//! spa_checkpoint_discard_thread_sync (spa_checkpoint.c).
//!
//! Invariants:
//!   * ranges in a checkpoint's space map are allocated in the metaslabs' maps, and cross no
//!     metaslab boundary
//!   * only its birth decides whether a block belongs to the checkpoint: it was born in the
//!     checkpoint's txg or before

use super::Allocator;
use super::group::Group;
use super::maps::MapWriter;
use super::slab::{Freed, MapState};
use super::table::Table;
use crate::Pool;
use crate::space::entries::{self, Spot};
use crate::space::ranges::Ranges;
use errors::{Error, Place, Result};
use object::Object;
use object::zap::Zap;
use ondisk::pool_dir::vdev_top;
use ondisk::spacemap::{self, Action, HISTOGRAM_BUCKETS, Header};
use std::sync::atomic::{AtomicU64, Ordering};

/// Block size of a checkpoint's space map. As OpenZFS (zfs_vdev_standard_sm_blksz).
const BLOCK_BYTES: u32 = 128 << 10;
/// Limit for the bytes of entries that are discarded in one txg: about 100,000 ranges, a fraction
/// of a second. Guessed.
const STEP_BYTES: u64 = 1 << 20;

/// Loads the header of a device's checkpoint space map, if it has one.
pub(super) fn load(pool: &Pool, group: &Group) -> Result<()> {
    if group.objects.top_zap == 0 {
        return Ok(());
    }
    let zap = Zap::open(pool.mos().object(group.objects.top_zap)?)?;
    let Some(id) = zap.lookup_u64(vdev_top::POOL_CHECKPOINT_SM)?.filter(|id| *id != 0) else { return Ok(()) };
    let object = pool.mos().object(id)?;
    let header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
    let block_bytes = object.block_bytes();
    if header.allocated_bytes > 0 || block_bytes < 512 {
        let what = format!("a checkpoint of {} bytes, in blocks of {block_bytes}", -header.allocated_bytes);
        return Err(Error::corrupt(object.place(), what));
    }
    let (length_bytes, allocated_bytes) = (header.length_bytes, header.allocated_bytes);
    let map = MapState { object: id, block_bytes, length_bytes, allocated_bytes, histogram: header.histogram };
    *group.objects.checkpoint.lock() = Some(map);
    Ok(())
}

impl Group {
    /// Bytes that only the checkpoint still holds.
    pub(super) fn checkpoint_bytes(&self) -> u64 {
        self.objects.checkpoint.lock().as_ref().map_or(0, |map| map.allocated_bytes.unsigned_abs())
    }
}

/// Bits of an offset in a space map entry of one word (`SM_OFFSET_BITS`).
const OFFSET_BITS: u32 = 47;

/// Whether entries of one word can address a device of this size. Facts:
/// `vdev_is_spacemap_addressable`.
fn fits_one_word(size_bytes: u64, ashift: u8) -> bool {
    let bits = u32::from(ashift) + OFFSET_BITS;
    bits >= 63 || size_bytes < 1 << bits
}

impl Allocator {
    /// From now on, blocks born in `txg` (the last one synced) or before stay allocated when they
    /// are freed. The syncing thread calls this before it frees anything.
    pub(crate) fn set_checkpoint(&self, txg: u64) {
        self.checkpoint_txg.store(txg, Ordering::SeqCst);
        for group in self.table().groups() {
            for slab in &group.slabs {
                group.totals.kept(slab.checkpoint() << group.ashift);
            }
        }
    }

    /// The checkpoint no longer exists: freed blocks are free, and the space it held is freed step
    /// by step.
    pub(crate) fn forget_checkpoint(&self) {
        self.checkpoint_txg.store(0, Ordering::SeqCst);
    }

    /// Whether there is a checkpoint, and the free space of the normal class is at most half of the
    /// slop.
    pub(crate) fn is_full_with_checkpoint(&self) -> bool {
        self.checkpoint_txg.load(Ordering::SeqCst) != 0 && self.table().is_in_reserve()
    }

    /// Whether some device has no ZAP in which its checkpoint space map could be recorded.
    pub(crate) fn lacks_place_for_checkpoint(&self) -> bool {
        self.table().groups().any(|group| group.objects.top_zap == 0)
    }

    /// Whether some device is too large for space map entries of one word, which is all that pools
    /// without `spacemap_v2` have.
    pub(crate) fn exceeds_one_word_entries(&self) -> bool {
        self.table().groups().any(|group| !fits_one_word((group.slabs.len() as u64) << group.slab_shift, group.ashift))
    }

    /// Writes the blocks of the checkpoint that were freed since the last pass. Returns whether
    /// there were any.
    pub(super) fn sync_checkpoint(&self, table: &Table, when: (u64, u16), maps: &dyn MapWriter) -> Result<bool> {
        let mut wrote = false;
        for group in table.groups() {
            for slab in &group.slabs {
                let kept = slab.take_checkpointed();
                if kept.is_empty() {
                    continue;
                }
                let written = self.append_checkpoint(group, slab.start_units, &kept, when, maps);
                written.inspect_err(|_| slab.put_back_checkpointed(&kept))?;
                wrote = true;
            }
        }
        Ok(wrote)
    }

    fn append_checkpoint(
        &self,
        group: &Group,
        start_units: u64,
        kept: &Ranges,
        (txg, pass): (u64, u16),
        maps: &dyn MapWriter,
    ) -> Result<()> {
        // The lock is not held while the map is written, so that readers of the pool's statistics
        // do not wait.
        let before = group.objects.checkpoint.lock().clone();
        let mut map = match before {
            Some(map) => map,
            None => {
                let object = maps.create_map(BLOCK_BYTES, self.options.histograms)?;
                maps.set_checkpoint_map(group.objects.top_zap, Some(object))?;
                MapState {
                    object,
                    block_bytes: BLOCK_BYTES.into(),
                    length_bytes: 0,
                    allocated_bytes: 0,
                    histogram: self.options.histograms.then_some([0; HISTOGRAM_BUCKETS]),
                }
            }
        };
        let spot = Spot {
            txg,
            pass,
            length_bytes: map.length_bytes,
            block_bytes: map.block_bytes,
            two_words: self.options.two_words,
            start_units,
        };
        let bytes = entries::encode(kept, Action::Free, &spot);
        maps.write_map(map.object, map.length_bytes, &bytes)?;
        map.length_bytes += bytes.len() as u64;
        map.allocated_bytes -= (kept.units() << group.ashift) as i64;
        maps.set_header(map.object, &map.header())?;
        *group.objects.checkpoint.lock() = Some(map);
        Ok(())
    }

    /// Frees in `txg` a part of the space of a discarded checkpoint. Returns whether there was any.
    /// `read` returns the current state of a space map.
    pub(crate) fn discard(&self, txg: u64, maps: &dyn MapWriter, read: &dyn Fn(u64) -> Result<Object>) -> Result<bool> {
        debug_assert_eq!(self.checkpoint_txg.load(Ordering::Relaxed), 0);
        let table = self.table();
        let Some((group, map)) = table.groups().find_map(|g| Some((g, g.objects.checkpoint.lock().clone()?))) else {
            return Ok(false);
        };
        let left = self.discard_end(group, map, txg, maps, read)?;
        if left.is_none() {
            maps.set_checkpoint_map(group.objects.top_zap, None)?;
        }
        *group.objects.checkpoint.lock() = left;
        Ok(true)
    }

    /// Frees the ranges in the last blocks of the map. Returns the rest of the map.
    fn discard_end(
        &self,
        group: &Group,
        mut map: MapState,
        txg: u64,
        maps: &dyn MapWriter,
        read: &dyn Fn(u64) -> Result<Object>,
    ) -> Result<Option<MapState>> {
        let object = read(map.object)?;
        let mut step = 0;
        while map.length_bytes > 0 && step < STEP_BYTES {
            // Two-word entries do not cross the end of a block.
            let number = (map.length_bytes - 1) / map.block_bytes;
            let len = map.length_bytes - number * map.block_bytes;
            let hole =
                || Error::corrupt(object.place(), format!("the checkpoint's space map has a hole at block {number}"));
            let block = object.block(number)?.ok_or_else(hole)?;
            for entry in spacemap::entries(&block.data[..len as usize], block.endian) {
                let entry = entry.at_with(|| object.place())?;
                let (offset, size) = (entry.offset_units << group.ashift, entry.run_units << group.ashift);
                self.discard_range(group, offset, size, txg);
                map.allocated_bytes += size as i64;
            }
            map.length_bytes -= len;
            step += len;
        }
        if map.length_bytes == 0 {
            return Ok(None);
        }
        maps.set_header(map.object, &map.header())?;
        Ok(Some(map))
    }

    fn discard_range(&self, group: &Group, offset_bytes: u64, size_bytes: u64, txg: u64) {
        let none = AtomicU64::new(0);
        let freed =
            group.locate(offset_bytes, size_bytes).map(|(slab, at, len)| slab.free(at, len, txg, 0, true, &none));
        match freed {
            Some(Freed::Some(at_once, later)) => {
                group.totals.freed(at_once << group.ashift, later << group.ashift);
            }
            _ => self.anomaly(format!(
                "{}:{offset_bytes:#x}+{size_bytes:#x} was the checkpoint's and is not allocated",
                group.vdev
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fits_one_word;

    #[test]
    fn one_word_addresses_a_device_of_less_than_64_pib_with_sectors_of_512_bytes() {
        const PIB: u64 = 1 << 50;
        assert!(fits_one_word(64 * PIB - 1, 9) && !fits_one_word(64 * PIB, 9));
        assert!(fits_one_word(511 * PIB, 12) && !fits_one_word(512 * PIB, 12));
        assert!(fits_one_word(u64::MAX, 16));
    }
}
