//! Giving back every block of a dataset that is being destroyed.
//!
//! Below: blocks are read without keys, since their pointers are in the clear. Facts: `traverse_dataset`, `kill_blkptr`,
//! `zil_destroy_sync`.
//!
//! Invariants:
//!   * a block is given back after everything below it
//!   * blocks born at or before a snapshot that the dataset stands on are left alone, with all below them

use crate::{Error, Place, Result};
use object::{Block, Bookmark, Store};
use ondisk::dnode::SLOT_BYTES;
use ondisk::zil::LogBlock;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, blkptr};
use std::sync::Arc;

/// Blocks of a log followed at most.
const LOG_BLOCKS_MAX: u64 = 1 << 20;

/// Takes a block that nobody needs any more; `true`: it belongs to the intent log.
type Sink<'a> = &'a mut dyn FnMut(&BlkPtr, bool) -> Result<()>;

struct Walk<'a> {
    store: &'a Arc<Store>,
    min_txg: u64,
    sink: Sink<'a>,
}

/// Calls `sink` with every block of the object set at `root` that was born after `min_txg`.
pub(crate) fn free_tree(store: &Arc<Store>, root: &BlkPtr, min_txg: u64, sink: Sink<'_>) -> Result<()> {
    let mut walk = Walk { store, min_txg, sink };
    if walk.is_kept(root) {
        return Ok(());
    }
    let block = walk.read(root)?;
    let objset = Objset::parse(&block.data, block.endian).at("object set")?;
    walk.log(&objset)?;
    let dnodes =
        [Some(&objset.meta_dnode), objset.user_used.as_ref(), objset.group_used.as_ref(), objset.project_used.as_ref()];
    for dnode in dnodes.into_iter().flatten() {
        walk.dnode(dnode)?;
    }
    (walk.sink)(root, false)
}

impl Walk<'_> {
    fn is_kept(&self, bp: &BlkPtr) -> bool {
        bp.is_hole() || bp.is_redacted() || bp.logical_birth().0 <= self.min_txg
    }

    fn read(&self, bp: &BlkPtr) -> Result<Block> {
        self.store.read_unopened(bp, &Bookmark { objset: 0, object: 0, level: i64::from(bp.level()), blkid: 0 })
    }

    fn dnode(&mut self, dnode: &Dnode) -> Result<()> {
        let top = dnode.levels.saturating_sub(1);
        for bp in &dnode.blkptrs {
            self.block(bp, top, dnode.object_type)?;
        }
        match &dnode.spill {
            Some(bp) if !self.is_kept(bp) => (self.sink)(bp, false),
            _ => Ok(()),
        }
    }

    fn block(&mut self, bp: &BlkPtr, level: u8, object_type: ObjectType) -> Result<()> {
        if self.is_kept(bp) {
            return Ok(());
        }
        if bp.level() != level {
            return Err(Error::corrupt(
                "",
                format!("block pointer of level {} where level {level} was expected", bp.level()),
            ));
        }
        if level > 0 {
            let block = self.read(bp)?;
            for bytes in block.data.chunks_exact(blkptr::SIZE_BYTES) {
                let below = BlkPtr::parse(bytes, block.endian).at("indirect block")?;
                self.block(&below, level - 1, object_type)?;
            }
        } else if object_type == ObjectType::DNODE {
            let block = self.read(bp)?;
            let mut slot = 0;
            while let Some(bytes) = block.data.get(slot * SLOT_BYTES..).filter(|b| b.len() >= SLOT_BYTES) {
                if bytes[0] != 0 {
                    let dnode = Dnode::parse(bytes, block.endian).at("dnode")?;
                    self.dnode(&dnode)?;
                }
                slot += Dnode::slots_at(bytes);
            }
        }
        (self.sink)(bp, false)
    }

    /// The blocks of the intent log that were claimed, or are known to be the log's because they can be read.
    fn log(&mut self, objset: &Objset) -> Result<()> {
        let mut bp = objset.zil.log;
        for _ in 0..LOG_BLOCKS_MAX {
            if bp.is_hole() {
                break;
            }
            let next = self.store.read_unopened(&bp, &Bookmark { objset: 0, object: 0, level: -2, blkid: 0 });
            let next = next.ok().and_then(|block| LogBlock::parse(&block.data, &bp).ok().map(|parsed| parsed.next));
            (self.sink)(&bp, true)?;
            match next {
                Some(next) => bp = next,
                None => break,
            }
        }
        Ok(())
    }
}
