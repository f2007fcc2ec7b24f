//! Finds one block again: from its bookmark to the pointer that leads to it now.
//!
//! Follows block pointers without keys, as scans do: contents of encrypted datasets cannot be read
//! this way, but their blocks can be found.

use crate::Pool;
use block::{Bookmark, Store};
use errors::Result;
use ondisk::dsl_dataset::DslDataset;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, blkptr, dnode};

/// Block number of an object's spill block.
pub(crate) const SPILL: u64 = u64::MAX;
/// Lowest number of the objects that count space: user, group and project, from the highest down.
pub(crate) const ACCOUNTING: u64 = u64::MAX - 2;

impl Pool {
    /// The head or snapshot with this object number; `None` if there is none.
    pub(crate) fn dataset_phys(&self, id: u64) -> Result<Option<DslDataset>> {
        let Ok(object) = self.mos().object(id) else { return Ok(None) };
        if object.dnode().bonus_type != ObjectType::DSL_DATASET {
            return Ok(None);
        }
        Ok(Some(DslDataset::parse(object.bonus(), object.endian())?))
    }

    /// The root block of an object set: 0 is the MOS, other numbers are datasets.
    pub(crate) fn objset_root(&self, objset: u64) -> Result<Option<BlkPtr>> {
        if objset == 0 {
            return Ok(Some(self.uberblock().root));
        }
        Ok(self.dataset_phys(objset)?.map(|ds| ds.bp).filter(|bp| !bp.is_hole()))
    }

    /// The pointer to the block at `at`; `None` if there is no such block, or it is a hole.
    pub fn find_block(&self, at: &Bookmark) -> Result<Option<BlkPtr>> {
        match self.objset_root(at.objset)? {
            Some(root) => find(self.store(), &root, at),
            None => Ok(None),
        }
    }
}

/// The pointer to the block at `at`, in the object set whose root block is `root`.
pub(crate) fn find(store: &Store, root: &BlkPtr, at: &Bookmark) -> Result<Option<BlkPtr>> {
    if at.level == -1 {
        return Ok(Some(*root));
    }
    if at.level < 0 {
        return Ok(None);
    }
    let place = Bookmark { object: 0, level: -1, blkid: 0, ..*at };
    let block = store.read_unopened(root, &place)?;
    let objset = Objset::parse(&block.data, block.endian)?;
    let dnode = match at.object {
        0 => Some(objset.meta_dnode),
        u64::MAX => objset.user_used,
        number if number == u64::MAX - 1 => objset.group_used,
        number if number == ACCOUNTING => objset.project_used,
        number => dnode_of(store, &objset.meta_dnode, number, at)?,
    };
    let Some(dnode) = dnode else { return Ok(None) };
    below(store, &dnode, at)
}

fn dnode_of(store: &Store, meta: &Dnode, number: u64, at: &Bookmark) -> Result<Option<Dnode>> {
    let per_block = u64::from(meta.data_block_bytes) / dnode::SLOT_BYTES as u64;
    if per_block == 0 {
        return Ok(None);
    }
    let place = Bookmark { objset: at.objset, object: 0, level: 0, blkid: number / per_block };
    let Some(bp) = below(store, meta, &place)? else { return Ok(None) };
    let block = store.read_unopened(&bp, &place)?;
    let from = (number % per_block) as usize * dnode::SLOT_BYTES;
    let Some(bytes) = block.data.get(from..) else { return Ok(None) };
    let dnode = Dnode::parse(bytes, block.endian)?;
    Ok((dnode.object_type != ObjectType::NONE).then_some(dnode))
}

/// The pointer to the block of this level and number below a dnode.
fn below(store: &Store, dnode: &Dnode, at: &Bookmark) -> Result<Option<BlkPtr>> {
    if at.level == 0 && at.blkid == SPILL {
        return Ok(dnode.spill.filter(|bp| !bp.is_hole()));
    }
    let (top, wanted) = (u32::from(dnode.levels).saturating_sub(1), at.level as u32);
    let shift = dnode.pointers_per_indirect().checked_ilog2().unwrap_or(0);
    if wanted > top {
        return Ok(None);
    }
    let index = |level: u32| at.blkid.checked_shr(shift * (level - wanted)).unwrap_or(0);
    let Some(mut bp) = usize::try_from(index(top)).ok().and_then(|n| dnode.blkptrs.get(n)).copied() else {
        return Ok(None);
    };
    for level in (wanted..top).rev() {
        if bp.is_hole() {
            return Ok(None);
        }
        let place = Bookmark { level: i64::from(level) + 1, blkid: index(level + 1), ..*at };
        let block = store.read_unopened(&bp, &place)?;
        let from = (index(level) & ((1 << shift) - 1)) as usize * blkptr::SIZE_BYTES;
        let Some(raw) = block.data.get(from..from + blkptr::SIZE_BYTES) else { return Ok(None) };
        bp = BlkPtr::parse(raw, block.endian)?;
    }
    Ok((!bp.is_hole()).then_some(bp))
}
