//! Changes an object's tree of pointers: inserts new blocks, frees old ones, and writes indirect
//! blocks from the bottom up.
//!
//! ```text
//!   changes, in order of block numbers:   [5: block] [9..20: hole] [77: block]
//!   each level passes on what is under each of its pointers, and then writes its own block
//! ```
//!
//! Invariants:
//!   * an indirect block without anything below it becomes a hole itself
//!   * the fill count of a pointer is the sum of those below it

use super::SyncContext;
use super::sync_context::Written;
use crate::object::span;
use block::crypt::DatasetKeys;
use block::{Block, Bookmark};
use bytes::Bytes;
use errors::{Error, Place, Result};
use ondisk::{BlkPtr, Dnode, ObjectType, Txg, blkptr};
use std::ops::Range;

/// A change of one or more blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub start: u64,
    /// End of the range, exclusive.
    pub end: u64,
    /// The pointer of one new block, already written; `None` for holes.
    pub block: Option<BlkPtr>,
}

/// An object whose tree is being changed.
pub(crate) struct Tree<'a> {
    pub cx: &'a dyn SyncContext,
    pub objset: u64,
    pub id: u64,
    pub keys: Option<&'a DatasetKeys>,
    /// Whether this is a raw receive, with keys that are not loaded.
    pub is_sealed: bool,
    /// Minimum number of levels.
    pub levels_min: u8,
    /// The new dnode; it starts with the old pointers.
    pub dnode: Dnode,
}

impl Tree<'_> {
    fn bookmark(&self, level: u8, blkid: u64) -> Bookmark {
        Bookmark { objset: self.objset, object: self.id, level: i64::from(level), blkid }
    }

    fn shift(&self) -> u32 {
        self.dnode.pointers_per_indirect().ilog2()
    }

    fn place(&self) -> String {
        format!("{}: object {}:{}", self.cx.store().name(), self.objset, self.id)
    }

    /// Describes a block of this object for its write policy.
    pub fn written(&self, level: u8, is_spill: bool) -> Written {
        Written {
            object: self.id,
            object_type: if is_spill { self.dnode.bonus_type } else { self.dnode.object_type },
            level,
            checksum: self.dnode.checksum,
            compression: self.dnode.compression,
            is_spill,
        }
    }

    fn lsize(&self, level: u8) -> u64 {
        if level == 0 { u64::from(self.dnode.data_block_bytes) } else { 1 << self.dnode.indirect_shift }
    }

    fn hole(&self, level: u8) -> BlkPtr {
        if self.cx.hole_birth() {
            BlkPtr::new_hole(self.dnode.object_type, level, self.lsize(level), Txg(self.cx.txg()))
        } else {
            BlkPtr::HOLE
        }
    }

    /// Subtracts `bp` from the used space, and frees it.
    pub fn kill(&mut self, bp: &BlkPtr) -> Result<()> {
        if !bp.is_hole() {
            self.dnode.used_bytes = self.dnode.used_bytes.saturating_sub(self.cx.space_bytes(bp));
            self.cx.killed(bp)?;
        }
        Ok(())
    }

    /// Adds `bp` to the used space.
    pub fn born(&mut self, bp: &BlkPtr) {
        if !bp.is_hole() {
            self.dnode.used_bytes = self.dnode.used_bytes.saturating_add(self.cx.space_bytes(bp));
            self.cx.born(bp);
        }
    }

    /// Subtracts a block that was overwritten by another one of the same txg: its space is in use,
    /// or freed already.
    pub fn forget(&mut self, bp: &BlkPtr) {
        self.dnode.used_bytes = self.dnode.used_bytes.saturating_sub(self.cx.space_bytes(bp));
        self.cx.forgotten(bp);
    }

    /// Whether an earlier pass over the same txg wrote a block, so that it is overwritten and not
    /// freed.
    pub fn is_rewrite(&self, old: &BlkPtr) -> bool {
        self.cx.repeats() && !old.is_hole() && !old.is_embedded() && old.logical_birth().0 == self.cx.txg()
    }

    /// Applies the changes, which must be in order and disjoint, to the tree.
    pub fn apply(&mut self, changes: &[Change]) -> Result<()> {
        self.grow()?;
        let top = self.dnode.levels - 1;
        let pointers = self.dnode.blkptrs.len() as u64;
        for index in 0..pointers {
            let span = self.span(top, index);
            // No change is beyond the last pointer.
            let mine = within(changes, span);
            if mine.is_empty() {
                continue;
            }
            let old = self.dnode.blkptrs[index as usize];
            self.dnode.blkptrs[index as usize] = self.change(top, index, old, mine)?;
        }
        Ok(())
    }

    /// Range of block numbers under block `index` of `level`.
    fn span(&self, level: u8, index: u64) -> Range<u64> {
        span(self.shift() * u32::from(level), index)
    }

    /// Adds levels until the last block can be reached: the pointers in the dnode move into a new
    /// indirect block.
    fn grow(&mut self) -> Result<()> {
        while self.span(self.dnode.levels - 1, self.dnode.blkptrs.len() as u64 - 1).end <= self.dnode.max_block_id
            || self.dnode.levels < self.levels_min
        {
            let empty = vec![BlkPtr::HOLE; self.dnode.blkptrs.len()];
            let old = std::mem::replace(&mut self.dnode.blkptrs, empty);
            let level = self.dnode.levels;
            self.dnode.levels += 1;
            if old.iter().any(|bp| !bp.is_hole()) {
                let mut entries = vec![BlkPtr::HOLE; self.dnode.pointers_per_indirect() as usize];
                entries[..old.len()].copy_from_slice(&old);
                self.dnode.blkptrs[0] = self.write_indirect(level, 0, BlkPtr::HOLE, &entries)?;
            } else if old.iter().any(|bp| bp.logical_birth().0 != 0) {
                self.dnode.blkptrs[0] = self.hole(level);
            }
        }
        Ok(())
    }

    fn change(&mut self, level: u8, index: u64, old: BlkPtr, changes: &[Change]) -> Result<BlkPtr> {
        if level == 0 {
            let change = changes[0];
            return match change.block {
                // The contents are those on disk.
                Some(new) if new == old => Ok(old),
                Some(new) => {
                    if self.is_rewrite(&old) {
                        self.forget(&old);
                    } else {
                        self.kill(&old)?;
                    }
                    self.born(&new);
                    Ok(new)
                }
                None if old.is_hole() => Ok(old),
                None => {
                    self.kill(&old)?;
                    Ok(self.hole(0))
                }
            };
        }
        let all_holes = changes.iter().all(|c| c.block.is_none());
        if all_holes && old.is_hole() {
            return Ok(old);
        }
        let span = self.span(level, index);
        if let [change] = changes
            && change.block.is_none()
            && change.start <= span.start
            && change.end >= span.end
        {
            self.free_below(level, index, &old)?;
            return Ok(self.hole(level));
        }
        let mut entries = self.entries(level, index, &old)?;
        let per_block = entries.len() as u64;
        let child_shift = self.shift() * u32::from(level - 1);
        let mut at = 0;
        let mut rest = changes;
        while let Some(first) = rest.first() {
            // Skip to the next child that a change affects.
            let from = first.start.max(span.start);
            at = at.max((from - span.start) >> child_shift);
            if at >= per_block {
                break;
            }
            let child = index * per_block + at;
            let child_span = self.span(level - 1, child);
            let mine = within(rest, child_span.clone());
            entries[at as usize] = self.change(level - 1, child, entries[at as usize], mine)?;
            rest = &rest[rest.partition_point(|c| c.end <= child_span.end)..];
            at += 1;
        }
        if entries.iter().all(BlkPtr::is_hole) {
            if self.is_rewrite(&old) || !old.is_hole() {
                self.kill(&old)?;
            }
            return Ok(self.hole(level));
        }
        self.write_indirect(level, index, old, &entries)
    }

    fn write_indirect(&mut self, level: u8, index: u64, old: BlkPtr, entries: &[BlkPtr]) -> Result<BlkPtr> {
        let mut data = Vec::with_capacity(entries.len() * blkptr::SIZE_BYTES);
        for bp in entries {
            data.extend_from_slice(&bp.to_bytes(super::state::WRITTEN));
        }
        let fill = entries.iter().map(fill_of).sum();
        let policy = self.cx.policy(&self.written(level, false));
        let (at, txg, store) = (self.bookmark(level, index), self.cx.txg(), self.cx.store());
        let mut new = if self.is_rewrite(&old) {
            let new = store.rewrite(txg, &old, Bytes::from(data), &policy, &at, self.keys)?;
            self.forget(&old);
            new
        } else {
            let new = match self.is_sealed {
                true => store.write_sealed_set(txg, Bytes::from(data), &policy, &at)?,
                false => store.write(txg, Bytes::from(data), &policy, &at, self.keys)?,
            };
            self.kill(&old)?;
            new
        };
        new.set_fill(fill);
        self.born(&new);
        Ok(new)
    }

    /// The pointers in an indirect block, or those that a hole implies.
    fn entries(&self, level: u8, index: u64, bp: &BlkPtr) -> Result<Vec<BlkPtr>> {
        let count = self.dnode.pointers_per_indirect() as usize;
        if bp.is_hole() {
            // The birth of a hole applies to everything below it.
            let below = match bp.logical_birth() {
                Txg(0) => BlkPtr::HOLE,
                birth => BlkPtr::new_hole(self.dnode.object_type, level - 1, self.lsize(level - 1), birth),
            };
            return Ok(vec![below; count]);
        }
        let block = self.indirect(level, index, bp)?;
        (0..count).map(|number| self.entry(&block, level, number)).collect()
    }

    /// Reads an indirect block.
    fn indirect(&self, level: u8, index: u64, bp: &BlkPtr) -> Result<Block> {
        let block = self.cx.store().read(bp, &self.bookmark(level, index), self.keys)?;
        if block.data.len() as u64 != self.dnode.pointers_per_indirect() * blkptr::SIZE_BYTES as u64 {
            return Err(Error::corrupt(self.place(), format!("an indirect block of {} bytes", block.data.len())));
        }
        Ok(block)
    }

    /// Pointer `number` in an indirect block of `level`.
    fn entry(&self, block: &Block, level: u8, number: usize) -> Result<BlkPtr> {
        let bytes = &block.data[number * blkptr::SIZE_BYTES..];
        let entry = BlkPtr::parse(bytes, block.endian).at_with(|| self.place())?;
        if !entry.is_hole() && !entry.is_redacted() && entry.level() != level - 1 {
            let what = format!("block pointer of level {} where level {} was expected", entry.level(), level - 1);
            return Err(Error::corrupt(self.place(), what));
        }
        Ok(entry)
    }

    /// Frees a block and everything below it.
    fn free_below(&mut self, level: u8, index: u64, bp: &BlkPtr) -> Result<()> {
        if bp.is_hole() {
            return Ok(());
        }
        if level > 0 {
            let entries = self.entries(level, index, bp)?;
            let per_block = entries.len() as u64;
            for (i, entry) in entries.iter().enumerate() {
                self.free_below(level - 1, index.wrapping_mul(per_block).wrapping_add(i as u64), entry)?;
            }
        }
        self.kill(bp)
    }

    /// Frees the whole tree and the spill block.
    pub fn free_all(&mut self) -> Result<()> {
        let top = self.dnode.levels - 1;
        for index in 0..self.dnode.blkptrs.len() {
            let bp = std::mem::replace(&mut self.dnode.blkptrs[index], BlkPtr::HOLE);
            self.free_below(top, index as u64, &bp)?;
        }
        if let Some(spill) = self.dnode.spill.take() {
            self.kill(&spill)?;
        }
        Ok(())
    }

    /// The current pointer of data block `blkid` in the tree.
    pub fn pointer(&self, blkid: u64) -> Result<BlkPtr> {
        let top = self.dnode.levels - 1;
        let shift = self.shift();
        let index_at = |level: u8| blkid.checked_shr(shift * u32::from(level)).unwrap_or(0);
        let Some(bp) = self.dnode.blkptrs.get(usize::try_from(index_at(top)).unwrap_or(usize::MAX)) else {
            return Ok(BlkPtr::HOLE);
        };
        let mut bp = *bp;
        for level in (1..=top).rev() {
            if bp.is_hole() {
                return Ok(BlkPtr::HOLE);
            }
            let block = self.indirect(level, index_at(level), &bp)?;
            bp = self.entry(&block, level, (index_at(level - 1) & ((1 << shift) - 1)) as usize)?;
        }
        Ok(bp)
    }
}

/// The changes that overlap `span`.
fn within(changes: &[Change], span: Range<u64>) -> &[Change] {
    let from = changes.partition_point(|c| c.end <= span.start);
    let to = changes.partition_point(|c| c.start < span.end);
    &changes[from..to.max(from)]
}

/// The pointer's share in the fill count of the one above it.
fn fill_of(bp: &BlkPtr) -> u64 {
    if bp.is_hole() { 0 } else { bp.fill() }
}

/// Number of objects in a block of dnodes.
pub(crate) fn dnodes_in(block: &[u8]) -> u64 {
    let slots = block.len() / ondisk::dnode::SLOT_BYTES;
    let (mut at, mut count) = (0, 0);
    while at < slots {
        let bytes = &block[at * ondisk::dnode::SLOT_BYTES..];
        if bytes[0] != ObjectType::NONE.0 {
            count += 1;
        }
        at += Dnode::slots_at(bytes);
    }
    count
}
