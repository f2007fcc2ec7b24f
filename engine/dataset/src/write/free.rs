//! Freeing every block of a dataset that is being destroyed.
//!
//! Blocks are read without keys, because their pointers are unencrypted. Facts:
//! module/zfs/dmu_traverse.c, `kill_blkptr` in dsl_destroy.c.
//!
//! Invariants:
//!   * a block is freed after everything below it
//!   * blocks born at or before the dataset's origin snapshot are kept, with everything below them
//!   * an interrupted walk resumes where it stopped, and frees no block twice

use block::Block;
use block::{Bookmark, Store};
use errors::{Error, Place, Result};
use ondisk::dnode::{SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, blkptr};
use std::sync::Arc;

/// Block number that means a spill block.
const SPILL: u64 = u64::MAX;

/// Position of a walk: the next data block. Object 0 is the dnode of dnodes, as in on-disk
/// bookmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct At {
    pub(crate) object: u64,
    pub(crate) blkid: u64,
}

impl At {
    /// Sort key in walk order: objects by number, a block of dnodes at its first object.
    fn order(self) -> (u64, u64) {
        if self.object == 0 { (self.blkid.saturating_mul(SLOTS_PER_BLOCK), 0) } else { (self.object, self.blkid) }
    }
}

/// Why a walk ended early.
pub(crate) enum Stop {
    /// The sink paused it; it resumes at this block.
    Paused(At),
    /// A block cannot be read; nothing from here on was freed.
    Failed(At, Error),
    /// The caller's own error.
    Broken(Error),
}

impl Stop {
    /// The error, unless the walk only paused.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Paused(_) => Error::invalid("", "paused"),
            Self::Failed(_, e) | Self::Broken(e) => e,
        }
    }
}

/// What a walk passes to its sink.
pub(crate) enum Met<'a> {
    /// A data block is next: `false` pauses before it.
    Next,
    /// A block that is no longer needed.
    Block(&'a BlkPtr),
}

/// A walk over an object set.
pub(crate) struct Walk<'a> {
    pub(crate) store: &'a Arc<Store>,
    /// Blocks born at or before this txg are kept.
    pub(crate) min_txg: u64,
    /// Where to resume; `None`: at the start.
    pub(crate) resume: Option<At>,
    /// Skip everything below an unreadable block, instead of stopping.
    pub(crate) gives_up: bool,
}

type Sink<'a> = &'a mut dyn FnMut(Met<'_>) -> Result<bool>;
type Walked = std::result::Result<(), Stop>;

/// An object being walked.
#[derive(Clone, Copy)]
struct Object {
    id: u64,
    object_type: ObjectType,
    /// log2 of the number of pointers in an indirect block.
    shift: u32,
}

impl Walk<'_> {
    /// Calls `sink` with every block of the object set at `root`, the root last.
    pub(crate) fn run(&self, root: &BlkPtr, sink: Sink<'_>) -> Walked {
        if self.is_kept(root) {
            return Ok(());
        }
        let start = At::default();
        let parsed = self.read(root).and_then(|block| Objset::parse(&block.data, block.endian).at("object set"));
        if let Some(objset) = self.or_give_up(parsed, start)? {
            self.dnode(0, &objset.meta_dnode, sink)?;
            // In the order of their object numbers, which are the highest.
            let accounting = [(2, &objset.project_used), (1, &objset.group_used), (0, &objset.user_used)];
            for (back, dnode) in accounting {
                if let Some(dnode) = dnode {
                    self.dnode(u64::MAX - back, dnode, sink)?;
                }
            }
        }
        pass_on(sink, Met::Block(root))
    }

    fn is_kept(&self, bp: &BlkPtr) -> bool {
        bp.is_hole() || bp.is_redacted() || bp.logical_birth().0 <= self.min_txg
    }

    fn read(&self, bp: &BlkPtr) -> Result<Block> {
        self.store.read_unopened(bp, &Bookmark { objset: 0, object: 0, level: i64::from(bp.level()), blkid: 0 })
    }

    fn or_give_up<T>(&self, result: Result<T>, at: At) -> std::result::Result<Option<T>, Stop> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e) if self.gives_up => {
                tracing::warn!("space of a destroyed dataset is lost: {e}");
                Ok(None)
            }
            Err(e) => Err(Stop::Failed(at, e)),
        }
    }

    fn is_done(&self, next: (u64, u64)) -> bool {
        self.resume.is_some_and(|resume| next <= resume.order())
    }

    fn dnode(&self, id: u64, dnode: &Dnode, sink: Sink<'_>) -> Walked {
        let top = dnode.levels.saturating_sub(1);
        let shift = u32::from(dnode.indirect_shift).saturating_sub(blkptr::SIZE_BYTES.ilog2()).min(20);
        let object = Object { id, object_type: dnode.object_type, shift };
        for (blkid, bp) in dnode.blkptrs.iter().enumerate() {
            self.block(object, bp, top, blkid as u64, sink)?;
        }
        match &dnode.spill {
            // The last block of its object.
            Some(bp) if !self.is_kept(bp) && !self.is_done((id.saturating_add(1), 0)) => {
                self.pause(At { object: id, blkid: SPILL }, sink)?;
                pass_on(sink, Met::Block(bp))
            }
            _ => Ok(()),
        }
    }

    fn pause(&self, at: At, sink: Sink<'_>) -> Walked {
        match sink(Met::Next) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Paused(at)),
            Err(e) => Err(Stop::Broken(e)),
        }
    }

    fn block(&self, object: Object, bp: &BlkPtr, level: u8, blkid: u64, sink: Sink<'_>) -> Walked {
        if self.is_kept(bp) {
            return Ok(());
        }
        let first = |blkid: u64| blkid.checked_shl(object.shift * u32::from(level)).unwrap_or(u64::MAX);
        let at = At { object: object.id, blkid: first(blkid) };
        if self.is_done(At { object: object.id, blkid: first(blkid.saturating_add(1)) }.order()) {
            return Ok(());
        }
        let is_dnodes = level == 0 && object.object_type == ObjectType::DNODE;
        // If the walk paused before a block of dnodes, the objects of those dnodes are
        // already done.
        if (level > 0 || is_dnodes) && !(level == 0 && self.resume == Some(at)) {
            let read = match bp.level() == level {
                true => self.read(bp),
                false => {
                    Err(Error::corrupt("", format!("block pointer of level {} where {level} was expected", bp.level())))
                }
            };
            if let Some(block) = self.or_give_up(read, at)? {
                if level > 0 {
                    self.pointers(object, &block, level, blkid, sink)?
                } else {
                    self.dnodes(&block, blkid, sink)?
                }
            }
        }
        if level == 0 {
            self.pause(at, sink)?;
        }
        pass_on(sink, Met::Block(bp))
    }

    fn pointers(&self, object: Object, block: &Block, level: u8, blkid: u64, sink: Sink<'_>) -> Walked {
        for (index, bytes) in block.data.chunks_exact(blkptr::SIZE_BYTES).enumerate() {
            let child = (blkid << object.shift).saturating_add(index as u64);
            let at = At { object: object.id, blkid: child << (object.shift * u32::from(level - 1)).min(63) };
            let below = BlkPtr::parse(bytes, block.endian).at("indirect block");
            if let Some(below) = self.or_give_up(below, at)? {
                self.block(object, &below, level - 1, child, sink)?;
            }
        }
        Ok(())
    }

    fn dnodes(&self, block: &Block, blkid: u64, sink: Sink<'_>) -> Walked {
        let mut slot = 0;
        while let Some(bytes) = block.data.get(slot * SLOT_BYTES..).filter(|b| b.len() >= SLOT_BYTES) {
            if bytes[0] != 0 {
                let id = blkid * SLOTS_PER_BLOCK + slot as u64;
                let dnode = Dnode::parse(bytes, block.endian).at("dnode");
                if let Some(dnode) = self.or_give_up(dnode, At { object: id, blkid: 0 })? {
                    self.dnode(id, &dnode, sink)?;
                }
            }
            slot += Dnode::slots_at(bytes);
        }
        Ok(())
    }
}

fn pass_on(sink: Sink<'_>, met: Met<'_>) -> Walked {
    sink(met).map(drop).map_err(Stop::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_dnodes_sort_by_their_first_object() {
        let at = |object, blkid| At { object, blkid }.order();
        assert!(at(0, 2) <= at(64, 0));
        assert!(at(0, 2) > at(63, 9));
        assert!(at(64, 5) < at(64, 6) && at(64, 6) < at(65, 0));
    }
}
