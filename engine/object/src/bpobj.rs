//! Block pointer objects: lists of blocks, such as deadlists and deferred frees.
//!
//! Below: `Object`, `ondisk::bpobj`. ZFS name: bpobj. A list may contain further lists (sub-lists).
//! The sums in its header include them, so most questions about space are answered without reading
//! an entry.
//!
//! Invariants:
//!   * a walk visits each list once: a list that contains itself, directly or not, is an error

use crate::{Object, ObjectSet};
use errors::{Error, Place, Result};
use ondisk::BlkPtr;
use ondisk::bpobj::{self, Header};
use std::collections::HashSet;
use std::sync::Arc;

/// A list of block pointers, open for reading.
#[derive(Clone)]
pub struct Bpobj {
    object: Object,
    header: Header,
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub struct BpobjEntry {
    /// The block. Entries lack everything that freeing does not need: fill count, checksum,
    /// embedded payload.
    pub bp: BlkPtr,
    /// For a livelist: the block was freed, not born.
    pub freed: bool,
}

impl Bpobj {
    /// Opens list `id` of the MOS.
    pub fn open(mos: &Arc<ObjectSet>, id: u64) -> Result<Self> {
        let object = mos.object(id)?;
        let header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
        Ok(Self { object, header })
    }

    /// The header with counts and sums, as it was when the list was opened.
    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Calls `sink` with each entry of this list and of its sub-lists, until it returns false.
    /// Fails if a list occurs twice.
    pub fn for_each(&self, mos: &Arc<ObjectSet>, sink: &mut dyn FnMut(BpobjEntry) -> Result<bool>) -> Result<()> {
        let mut seen = HashSet::from([self.object.id()]);
        // Sub-lists are walked from a queue: the disk determines their depth, and recursion could
        // overflow the stack.
        let mut queue = vec![self.clone()];
        while let Some(list) = queue.pop() {
            if !list.own_entries(sink)? {
                return Ok(());
            }
            for id in list.sub_lists(mos)? {
                if !seen.insert(id) {
                    return Err(Error::corrupt(list.object.place(), format!("bpobj: sub-list {id} is listed twice")));
                }
                queue.push(Self::open(mos, id)?);
            }
        }
        Ok(())
    }

    fn own_entries(&self, sink: &mut dyn FnMut(BpobjEntry) -> Result<bool>) -> Result<bool> {
        let per_block = (self.object.block_bytes() / 128).max(1);
        let mut left = self.header.entries;
        for blkid in 0..=self.object.max_block_id() {
            if left == 0 {
                break;
            }
            let here = left.min(per_block);
            let block = self.object.block(blkid)?.ok_or_else(|| {
                Error::corrupt(self.object.place(), format!("bpobj: block {blkid} is a hole, expected {left} entries"))
            })?;
            for bp in bpobj::entries(&block.data, block.endian).take(here as usize) {
                let freed = self.header.freed.is_some() && bpobj::is_freed(&bp);
                if !sink(BpobjEntry { bp, freed })? {
                    return Ok(false);
                }
            }
            left -= here;
        }
        if left > 0 {
            return Err(Error::corrupt(
                self.object.place(),
                format!("bpobj: {left} entries are beyond the last block"),
            ));
        }
        Ok(true)
    }

    pub(crate) fn sub_lists(&self, mos: &Arc<ObjectSet>) -> Result<Vec<u64>> {
        let Some(sub) = self.header.subobjects.filter(|s| s.object != 0 && s.count != 0) else { return Ok(Vec::new()) };
        let object = mos.object(sub.object)?;
        let room = (object.max_block_id().saturating_add(1)).saturating_mul(object.block_bytes() / 8);
        if sub.count > room {
            let what = format!("bpobj: bpo_num_subobjs is {}, expected at most {room}", sub.count);
            return Err(Error::corrupt(self.object.place(), what));
        }
        let mut ids = Vec::new();
        for blkid in 0..=object.max_block_id() {
            let left = (sub.count as usize).saturating_sub(ids.len());
            if left == 0 {
                break;
            }
            let block = object.block(blkid)?.ok_or_else(|| {
                Error::corrupt(object.place(), format!("bpobj: block {blkid} of sub-lists is a hole"))
            })?;
            ids.extend(bpobj::subobjects(&block.data, block.endian).take(left));
        }
        Ok(ids)
    }
}
