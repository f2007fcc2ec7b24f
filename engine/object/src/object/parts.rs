//! Reads contents as shared blocks, without a copy, and finds data and holes.
//!
//! Above: volumes. Below: the cache, and dirty data.

use super::{Elsewhere, Object, Recent};
use block::Block;
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::{Dnode, blkptr};

/// A range of bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// That many bytes of zeros.
    Hole(usize),
    /// Bytes of one block, shared with the cache and other readers.
    Data(Bytes),
}

impl Part {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Hole(n) => *n,
            Self::Data(d) => d.len(),
        }
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A run of blocks that are all holes, or all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub bytes: u64,
    /// Whether they are zeros that take no space.
    pub is_hole: bool,
}

impl Object {
    /// Reads `len` bytes from `offset` on without a copy, and prefetches.
    pub fn read_parts(&self, offset: u64, len: usize) -> Result<Vec<Part>> {
        self.note_read(offset, len);
        let mut recent = None;
        let parts = self.parts(offset, len, &mut |blkid| match self.changed(blkid) {
            Ok(block) => Ok(Some(block)),
            Err(place) => self.block_on_disk(&place, blkid, &mut recent).map(Some),
        });
        Ok(parts?.unwrap_or_default())
    }

    /// As [`Object::read_parts`], if everything is in memory. Otherwise returns `None`, without
    /// reading a device.
    pub fn parts_in_memory(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>> {
        let parts = self.parts(offset, len, &mut |blkid| match self.changed(blkid) {
            Ok(block) => Ok(Some(block)),
            Err(Elsewhere::Under(tree)) => self.block_in_memory(&tree, blkid),
            // Rare; a full read will find it.
            Err(Elsewhere::At(_) | Elsewhere::Raw(_)) => Ok(None),
        })?;
        if parts.is_some() {
            self.note_read(offset, len);
        }
        Ok(parts)
    }

    fn note_read(&self, offset: u64, len: usize) {
        let ahead = self.inner.ahead.lock().note(offset, len as u64);
        for range in ahead {
            self.prefetch(range.offset, range.len);
        }
    }

    /// Collects the parts that `get` returns. Returns `None` as soon as it returns `None`.
    fn parts(
        &self,
        offset: u64,
        len: usize,
        get: &mut dyn FnMut(u64) -> Result<Option<Option<Block>>>,
    ) -> Result<Option<Vec<Part>>> {
        let size = self.block_bytes();
        let end = offset.checked_add(len as u64).ok_or_else(|| Error::invalid(self.place(), "offset beyond 2^64"))?;
        if size == 0 {
            return Ok(Some(vec![Part::Hole(len)]));
        }
        let mut parts = Vec::with_capacity(len / size as usize + 2);
        let mut at = offset;
        while at < end {
            let within = (at % size) as usize;
            let n = (size - within as u64).min(end - at) as usize;
            let Some(block) = get(at / size)? else { return Ok(None) };
            match (block, parts.last_mut()) {
                (Some(block), _) => parts.push(Part::Data(block.data.slice(within..within + n))),
                (None, Some(Part::Hole(before))) => *before += n,
                (None, _) => parts.push(Part::Hole(n)),
            }
            at += n as u64;
        }
        Ok(Some(parts))
    }

    /// Data block `blkid` below `tree`, if it and the path to it are in memory; `Some(None)` for a
    /// hole.
    fn block_in_memory(&self, tree: &Dnode, blkid: u64) -> Result<Option<Option<Block>>> {
        let Some(top) = tree.levels.checked_sub(1).filter(|_| blkid <= tree.max_block_id) else {
            return Ok(Some(None));
        };
        let shift = u32::from(tree.indirect_shift.max(blkptr::SIZE_BYTES.ilog2() as u8)) - blkptr::SIZE_BYTES.ilog2();
        let index_at = |level: u8| blkid.checked_shr(shift * u32::from(level)).unwrap_or(0);
        let mut bp = tree.blkptrs.get(usize::try_from(index_at(top)).unwrap_or(usize::MAX)).copied();
        for level in (0..=top).rev() {
            let Some(at) = bp.filter(|bp| !bp.is_hole()) else { return Ok(Some(None)) };
            self.expect_level(&at, level)?;
            let Some(block) =
                self.inner.store.in_memory(&at, &self.bookmark(i64::from(level), index_at(level)), self.keys())?
            else {
                return Ok(None);
            };
            if level == 0 {
                return match block.data.len() as u64 == u64::from(tree.data_block_bytes) {
                    true => Ok(Some(Some(block))),
                    // A full read will report what is wrong.
                    false => Ok(None),
                };
            }
            bp = Some(self.entry(&block, level - 1, index_at(level - 1), shift)?);
        }
        Ok(Some(None))
    }

    /// Returns the data and hole extents from `offset` up to `end`: at most `max`, each as long as
    /// possible.
    pub fn extents(&self, offset: u64, end: u64, max: usize) -> Result<Vec<Extent>> {
        let size = self.block_bytes();
        let mut found: Vec<Extent> = Vec::new();
        let mut recent = None;
        let mut at = offset;
        while at < end {
            let (is_hole, next) = match at.checked_div(size) {
                Some(blkid) if blkid <= self.max_block_id() => {
                    let (is_hole, next) = self.step(blkid, &mut recent)?;
                    (is_hole, next.saturating_mul(size).min(end))
                }
                _ => (true, end),
            };
            let is_full = found.len() == max;
            match found.last_mut().filter(|last| last.is_hole == is_hole) {
                Some(last) => last.bytes += next - at,
                None if is_full => break,
                None => found.push(Extent { bytes: next - at, is_hole }),
            }
            at = next;
        }
        Ok(found)
    }

    /// Whether block `blkid` is a hole, and the first block after it that may be different.
    fn step(&self, blkid: u64, recent: &mut Recent) -> Result<(bool, u64)> {
        let tree = match self.changed(blkid) {
            Ok(block) => return Ok((block.is_none(), blkid + 1)),
            Err(Elsewhere::At(_) | Elsewhere::Raw(_)) => return Ok((false, blkid + 1)),
            Err(Elsewhere::Under(tree)) => tree,
        };
        let after = if blkid > tree.max_block_id {
            u64::MAX
        } else if self.pointer(&tree, 0, blkid, recent)?.is_hole() {
            self.behind_hole(&tree, blkid, tree.pointers_per_indirect().ilog2())?
        } else {
            return Ok((false, blkid + 1));
        };
        // A dirty block may be in the middle of a hole on disk.
        let changed = self.inner.live.as_ref().and_then(|live| live.next_changed(blkid + 1)).unwrap_or(u64::MAX);
        Ok((true, after.min(changed)))
    }
}
