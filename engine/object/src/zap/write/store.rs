//! Block store of a ZAP that is being changed: an object in a transaction, or memory.

use super::super::BlockSource;
use crate::{Object, Tx};
use block::Block;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use ondisk::zap::swap;
use ondisk::{Endian, ObjectType};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks of equal size that can be changed. Everything written is little-endian.
pub(crate) trait BlockStore: BlockSource {
    /// Block size in bytes.
    fn block_bytes(&self) -> usize;
    fn object_type(&self) -> ObjectType;
    /// Changes the size of the only block. Contents that fit are kept; growth is filled with zeros.
    fn set_block_bytes(&self, bytes: usize) -> Result<()>;
    /// Writes a whole block.
    fn put(&self, blkid: u64, bytes: &[u8]) -> Result<()>;
    /// Writes some bytes of an existing block.
    fn put_at(&self, blkid: u64, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Changes an existing block. If `change` fails, the block is unchanged.
    fn change(&self, blkid: u64, change: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
    /// Turns `count` blocks into holes.
    fn free(&self, blkid: u64, count: u64) -> Result<()>;
}

/// An object in a transaction.
pub(super) struct InObject<'a> {
    pub object: &'a Object,
    pub tx: &'a Tx,
}

impl InObject<'_> {
    fn offset(&self, blkid: u64, within: usize) -> Result<u64> {
        let offset = blkid.checked_mul(self.object.block_bytes()).and_then(|o| o.checked_add(within as u64));
        offset.ok_or_else(|| Error::corrupt(self.object.place(), format!("zap: block {blkid} is beyond 2^64 bytes")))
    }
}

impl BlockSource for InObject<'_> {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        self.object.block(blkid)
    }

    fn place(&self) -> String {
        self.object.place()
    }
}

impl BlockStore for InObject<'_> {
    fn block_bytes(&self) -> usize {
        self.object.block_bytes() as usize
    }

    fn object_type(&self) -> ObjectType {
        self.object.dnode().object_type
    }

    fn set_block_bytes(&self, bytes: usize) -> Result<()> {
        self.object.set_block_bytes(self.tx, bytes as u32)
    }

    fn put(&self, blkid: u64, bytes: &[u8]) -> Result<()> {
        self.object.write_block(self.tx, blkid, bytes.to_vec())
    }

    fn put_at(&self, blkid: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.object.write_at(self.tx, self.offset(blkid, offset)?, bytes)
    }

    fn change(&self, blkid: u64, change: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        self.object.change_block(self.tx, blkid, change)
    }

    fn free(&self, blkid: u64, count: u64) -> Result<()> {
        let offset = self.offset(blkid, 0)?;
        self.object.punch(self.tx, offset, count.saturating_mul(self.object.block_bytes()))
    }
}

/// Returns block `blkid`. If it is big-endian, it is converted and written back first: a block has
/// one byte order.
pub(super) fn little(store: &dyn BlockStore, blkid: u64) -> Result<Block> {
    let missing = || Error::corrupt(store.place(), format!("zap: block {blkid} is a hole"));
    let block = store.block(blkid)?.ok_or_else(missing)?;
    if block.endian == Endian::Little {
        return Ok(block);
    }
    let mut bytes = block.data.to_vec();
    swap::to_little(&mut bytes).at_with(|| store.place())?;
    store.put(blkid, &bytes)?;
    Ok(Block { data: bytes.into(), endian: Endian::Little })
}

/// Blocks of a ZAP that is built in memory and written to its object when it is complete.
pub(crate) struct Memory {
    blocks: Mutex<BTreeMap<u64, Vec<u8>>>,
    block_bytes: AtomicUsize,
    place: String,
}

impl Memory {
    pub(crate) fn new(block_bytes: usize, place: String) -> Self {
        Self { blocks: Mutex::default(), block_bytes: block_bytes.into(), place }
    }

    /// Writes all blocks to another store with the same block size.
    pub(crate) fn write_to(&self, store: &dyn BlockStore) -> Result<()> {
        self.blocks.lock().iter().try_for_each(|(blkid, bytes)| store.put(*blkid, bytes))
    }
}

impl BlockSource for Memory {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        let blocks = self.blocks.lock();
        Ok(blocks.get(&blkid).map(|b| Block { data: b.clone().into(), endian: Endian::Little }))
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

impl BlockStore for Memory {
    fn block_bytes(&self) -> usize {
        self.block_bytes.load(Ordering::Relaxed)
    }

    fn object_type(&self) -> ObjectType {
        ObjectType::NONE
    }

    fn set_block_bytes(&self, bytes: usize) -> Result<()> {
        self.blocks.lock().values_mut().for_each(|b| b.resize(bytes, 0));
        self.block_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn put(&self, blkid: u64, bytes: &[u8]) -> Result<()> {
        self.blocks.lock().insert(blkid, bytes.to_vec());
        Ok(())
    }

    fn put_at(&self, blkid: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.change(blkid, &mut |block| {
            block[offset..offset + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })
    }

    fn change(&self, blkid: u64, change: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let size = self.block_bytes();
        change(self.blocks.lock().entry(blkid).or_insert_with(|| vec![0; size]))
    }

    fn free(&self, blkid: u64, count: u64) -> Result<()> {
        let mut blocks = self.blocks.lock();
        (blkid..blkid.saturating_add(count)).for_each(|b| drop(blocks.remove(&b)));
        Ok(())
    }
}
