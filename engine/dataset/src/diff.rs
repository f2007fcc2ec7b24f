//! Finds the objects that differ between a snapshot and a later state: the object-level part of
//! `zfs diff`.
//!
//! The dnode tree is followed only where pointers were born after the earlier snapshot, so the cost
//! grows with the changes, not with the size of the dataset. A changed block of dnodes reports all
//! its objects; the caller compares them. Facts: module/zfs/dmu_diff.c, dmu_traverse.c.

use crate::dataset::Dataset;
use crate::zap::open_zap;
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::Dnode;
use ondisk::dnode::{SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::pool_dir::directory;
use std::sync::Arc;

/// A possible change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// An object of the later state whose dnode may be new or changed.
    InUse(u64),
    /// A range of numbers without objects in the later state; the earlier one may have had some.
    Free {
        first: u64,
        /// Last number, inclusive.
        last: u64,
    },
}

impl Dataset {
    /// Calls `sink` with possible changes since snapshot `from`, by object number. `contents` is
    /// this dataset's.
    ///
    /// Returns [`Error::Invalid`] if `from` is not before this state.
    pub fn changed_objects(
        &self,
        contents: &Arc<ObjectSet>,
        from: &Dataset,
        sink: &mut dyn FnMut(ObjectChange) -> Result<()>,
    ) -> Result<()> {
        let from_txg = from.phys().creation_txg.0;
        if !from.is_snapshot() || !self.is_after(from, from_txg)? {
            return Err(Error::invalid(self.name(), format!("{} does not lie before it", from.name())));
        }
        let old_holes_count = self.hole_birth_txg()?.is_none_or(|txg| txg > from_txg);
        let mut walk = Walk { contents, from_txg, old_holes_count, free: None, sink };
        let meta = contents.meta().dnode().clone();
        let top = meta.levels.saturating_sub(1);
        for blkid in 0..meta.blkptrs.len() as u64 {
            walk.visit(&meta, top, blkid).at(self.name())?;
        }
        walk.flush()
    }

    /// The txg from which holes have a birth txg; `None`: they have none.
    fn hole_birth_txg(&self) -> Result<Option<u64>> {
        const HOLE_BIRTH: &str = "com.delphix:hole_birth";
        let pool = self.tree().pool();
        if !pool.features().is_active(HOLE_BIRTH) {
            return Ok(None);
        }
        match pool.directory().lookup_u64(directory::FEATURE_ENABLED_TXG)?.filter(|id| *id != 0) {
            Some(id) => open_zap(self.mos(), id)?.lookup_u64(HOLE_BIRTH),
            None => Ok(None),
        }
    }
}

struct Walk<'a> {
    contents: &'a Arc<ObjectSet>,
    from_txg: u64,
    /// A hole without a birth txg may have been made since.
    old_holes_count: bool,
    free: Option<(u64, u64)>,
    sink: &'a mut dyn FnMut(ObjectChange) -> Result<()>,
}

impl Walk<'_> {
    fn visit(&mut self, meta: &Dnode, level: u8, blkid: u64) -> Result<()> {
        let bp = self.contents.meta().block_pointer(level, blkid)?;
        let birth = bp.logical_birth().0;
        let skip = if birth == 0 { !self.old_holes_count } else { birth <= self.from_txg };
        if skip {
            return Ok(());
        }
        let shift = u32::from(level) * meta.pointers_per_indirect().ilog2();
        if bp.is_hole() {
            let span = SLOTS_PER_BLOCK.checked_shl(shift).unwrap_or(u64::MAX);
            let first = blkid.saturating_mul(span);
            return self.freed(first, first.saturating_add(span - 1));
        }
        if level > 0 {
            let first = blkid.saturating_mul(meta.pointers_per_indirect());
            for child in first..first.saturating_add(meta.pointers_per_indirect()) {
                // There is nothing past the last block, but a hole from truncation there has a
                // birth txg.
                if child.checked_shl(shift - meta.pointers_per_indirect().ilog2()).is_none_or(|b| b > meta.max_block_id)
                {
                    let hole = self.contents.meta().block_pointer(level - 1, child)?;
                    if hole.logical_birth().0 <= self.from_txg {
                        continue;
                    }
                }
                self.visit(meta, level - 1, child)?;
            }
            return Ok(());
        }
        let Some(block) = self.contents.meta().block(blkid)? else { return Ok(()) };
        let mut slot = 0;
        while slot < SLOTS_PER_BLOCK {
            let bytes = block.data.get(slot as usize * SLOT_BYTES..).unwrap_or_default();
            let object = blkid.saturating_mul(SLOTS_PER_BLOCK).saturating_add(slot);
            match bytes.first() {
                None => break,
                Some(0) => self.freed(object, object)?,
                Some(_) => {
                    self.flush()?;
                    (self.sink)(ObjectChange::InUse(object))?;
                }
            }
            slot += Dnode::slots_at(bytes) as u64;
        }
        Ok(())
    }

    fn freed(&mut self, first: u64, last: u64) -> Result<()> {
        match &mut self.free {
            Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
            _ => {
                self.flush()?;
                self.free = Some((first, last));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        match self.free.take() {
            Some((first, last)) => (self.sink)(ObjectChange::Free { first, last }),
            None => Ok(()),
        }
    }
}
