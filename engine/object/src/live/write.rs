//! Changes the contents of an object within a transaction.

use super::Tx;
use super::state::{Buffer, Found, LiveObject};
use crate::Object;
use block::RawBlock;
use block::crypt::DatasetKeys;
use errors::{Error, Refusal, Result};
use ondisk::{BlkPtr, blkptr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Location of a block to clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloneable {
    /// The block is a hole.
    Hole,
    /// The block is here on disk.
    At(BlkPtr),
    /// The block is dirty, and waits for its txg.
    NotOnDisk,
}

/// Refuses blocks of `block_bytes` that `keys` cannot encrypt: 16 MiB with CCM, unless they are
/// compressed, which is known only during the sync, where an error suspends the pool.
pub(super) fn check_can_be_sealed(keys: Option<&DatasetKeys>, block_bytes: u64) -> Result<()> {
    match keys.map(DatasetKeys::suite) {
        Some(suite) if block_bytes > suite.message_bytes_max() => {
            Err(Error::unsupported("", format!("writing blocks of {block_bytes} bytes with {}", suite.name())))
        }
        _ => Ok(()),
    }
}

impl Object {
    /// Locks out other writers of structured contents (ZAPs, lists), but not readers.
    pub fn lock_contents(&self) -> Result<host::sync::MutexGuard<'_, ()>> {
        Ok(self.need_live()?.writer.lock())
    }

    /// Writes `data` at `offset`; the object grows as needed.
    pub fn write_at(&self, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        let live = self.need_live()?;
        let size = self.block_bytes();
        let end = offset.checked_add(data.len() as u64).ok_or_else(|| Refusal::TooLarge.at(self.place()))?;
        if size == 0 {
            return Err(Error::corrupt(self.place(), "blocks of 0 bytes"));
        }
        check_can_be_sealed(self.keys(), size).map_err(|e| e.at(&self.place()))?;
        if !data.is_empty() {
            self.check_changeable(live, offset / size..end.div_ceil(size))?;
        }
        let mut at = offset;
        while at < end {
            let (blkid, within) = (at / size, (at % size) as usize);
            let n = ((size - within as u64).min(end - at)) as usize;
            let from = (at - offset) as usize;
            let piece = &data[from..from + n];
            if n as u64 == size {
                self.put_block(live, tx, blkid, Buffer::new(piece.to_vec()))?;
            } else {
                self.patch_block(live, tx, blkid, within, piece)?;
            }
            at += n as u64;
        }
        Ok(())
    }

    /// [`Object::check_indirect`], unless the blocks are below the indirect block that was checked
    /// last.
    fn check_changeable(&self, live: &LiveObject, blocks: Range<u64>) -> Result<()> {
        let per_block = self.dnode().pointers_per_indirect().max(1);
        let (first, last) = (blocks.start / per_block, (blocks.end - 1) / per_block);
        if first != last || live.readable.load(Ordering::Relaxed) != last + 1 {
            self.check_indirect(blocks)?;
            live.readable.store(last + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Replaces block `blkid`; `contents` must be exactly one block.
    pub fn write_block(&self, tx: &Tx, blkid: u64, contents: Vec<u8>) -> Result<()> {
        let live = self.need_live()?;
        if contents.len() as u64 != self.block_bytes() {
            let what = format!("{} bytes for a block of {}", contents.len(), self.block_bytes());
            return Err(Error::invalid(self.place(), what));
        }
        check_can_be_sealed(self.keys(), self.block_bytes()).map_err(|e| e.at(&self.place()))?;
        self.put_block(live, tx, blkid, Buffer::new(contents))
    }

    fn put_block(&self, live: &Arc<LiveObject>, tx: &Tx, blkid: u64, buffer: Buffer) -> Result<()> {
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if buffer.as_ref().len() != head.data_block_bytes as usize {
                return Err(Error::invalid(self.place(), "the size of its blocks changed meanwhile"));
            }
            if blkid > head.max_block_id {
                Arc::make_mut(head).max_block_id = blkid;
                *head_changed = true;
            }
            state.open_mut().put(blkid, buffer);
            Ok(())
        })
    }

    /// Location of block `blkid`, for cloning it with [`Object::put_pointer`]. The pointer is valid
    /// during the caller's transaction, if the caller keeps others from changing the block.
    pub fn cloneable(&self, blkid: u64) -> Result<Cloneable> {
        let tree = match self.need_live()?.find(blkid) {
            Found::Data(_) | Found::Raw(_) => return Ok(Cloneable::NotOnDisk),
            Found::Hole => return Ok(Cloneable::Hole),
            Found::At(bp) => return Ok(Cloneable::At(bp)),
            Found::Disk(tree) => tree,
        };
        let bp = self.pointer_under(&tree, blkid)?;
        Ok(if bp.is_hole() { Cloneable::Hole } else { Cloneable::At(bp) })
    }

    /// Makes block `blkid` a clone of another block of this pool with the same size and the same
    /// keys. `bp` is from [`Object::cloneable`].
    pub fn put_pointer(&self, tx: &Tx, blkid: u64, bp: BlkPtr) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if bp.is_hole() || bp.level() != 0 || bp.lsize_bytes() != u64::from(head.data_block_bytes) {
                let what = format!("{bp} for a block of {} bytes", head.data_block_bytes);
                return Err(Error::invalid(self.place(), what));
            }
            if blkid > head.max_block_id {
                Arc::make_mut(head).max_block_id = blkid;
                *head_changed = true;
            }
            let delta = state.open_mut();
            delta.blocks.remove(&blkid);
            delta.forget_raw(blkid);
            delta.pointers.insert(blkid, bp);
            Ok(())
        })
    }

    /// Sets block `blkid` as received: compressed, and perhaps encrypted, by the sender.
    pub fn put_raw(&self, tx: &Tx, blkid: u64, block: RawBlock) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if block.lsize_bytes != u64::from(head.data_block_bytes) {
                let what = format!("{} bytes for a block of {}", block.lsize_bytes, head.data_block_bytes);
                return Err(Error::invalid(self.place(), what));
            }
            if blkid > head.max_block_id {
                Arc::make_mut(head).max_block_id = blkid;
                *head_changed = true;
            }
            state.open_mut().put_raw(blkid, Arc::new(block));
            Ok(())
        })
    }

    /// Changes some bytes of block `blkid` and keeps the rest.
    fn patch_block(&self, live: &Arc<LiveObject>, tx: &Tx, blkid: u64, within: usize, data: &[u8]) -> Result<()> {
        let patch = |buffer: &mut Buffer| buffer.make_mut()[within..within + data.len()].copy_from_slice(data);
        let patched = live.change(tx.txg(), |state, _| {
            let Some(buffer) = state.open_mut().blocks.get_mut(&blkid) else { return false };
            patch(buffer);
            true
        });
        if patched {
            return Ok(());
        }
        // Read outside of the lock, because it may have to come from a device.
        let old = match self.block(blkid)? {
            Some(block) => block.data.to_vec(),
            None => vec![0; self.block_bytes() as usize],
        };
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if old.len() != head.data_block_bytes as usize {
                return Err(Error::invalid(self.place(), "the size of its blocks changed meanwhile"));
            }
            if blkid > head.max_block_id {
                Arc::make_mut(head).max_block_id = blkid;
                *head_changed = true;
            }
            let delta = state.open_mut();
            // Punched while the lock was released: the bytes read are gone.
            let elsewhere = delta.pointers.remove(&blkid).is_some() | delta.forget_raw(blkid);
            let cut = delta.holes.contains(blkid) && !elsewhere && !delta.blocks.contains_key(&blkid);
            let buffer = delta.blocks.entry(blkid).or_insert_with(|| Buffer::new(old));
            if cut {
                buffer.make_mut().fill(0);
            }
            patch(buffer);
            Ok(())
        })
    }

    /// Changes a block in place; a hole starts as zeros. If `change` fails, it must leave the bytes
    /// unchanged.
    ///
    /// The caller must lock out other writers of this block, because its old contents are read
    /// without a lock.
    pub(crate) fn change_block<R>(
        &self,
        tx: &Tx,
        blkid: u64,
        change: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let live = self.need_live()?;
        let mut change = Some(change);
        let mut run = |buffer: &mut Buffer| change.take().map(|change| change(buffer.make_mut()));
        let done = live.change(tx.txg(), |state, _| run(state.open_mut().blocks.get_mut(&blkid)?));
        if let Some(result) = done {
            return result;
        }
        let old = match self.block(blkid)? {
            Some(block) => block.data.to_vec(),
            None => vec![0; self.block_bytes() as usize],
        };
        let mut buffer = Buffer::new(old);
        let result = run(&mut buffer).expect("not run before: the block was not there")?;
        self.put_block(live, tx, blkid, buffer)?;
        Ok(result)
    }

    /// Zeroes `len` bytes from `offset` on; whole blocks become holes. A `len` of `u64::MAX`
    /// truncates the object at `offset`.
    pub fn punch(&self, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        let live = self.need_live()?;
        let size = self.block_bytes();
        if size == 0 || len == 0 {
            return Ok(());
        }
        let end = offset.saturating_add(len);
        let to_end = len == u64::MAX || end > self.max_block_id().saturating_add(1).saturating_mul(size);
        let (first, last) = (offset.div_ceil(size), if to_end { u64::MAX } else { end / size });
        if !offset.is_multiple_of(size) {
            let stop = (offset / size + 1).saturating_mul(size).min(end);
            self.zero(tx, offset, stop - offset)?;
        }
        if !to_end && !end.is_multiple_of(size) && end / size >= first {
            self.zero(tx, end / size * size, end % size)?;
        }
        if first >= last {
            return Ok(());
        }
        self.check_indirect(first..last)?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if to_end && head.max_block_id >= first {
                Arc::make_mut(head).max_block_id = first.saturating_sub(1);
                *head_changed = true;
            }
            state.open_mut().punch(first..last);
            Ok(())
        })
    }

    /// Writes zeros within one block, unless it is a hole already.
    fn zero(&self, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        let blkid = offset / self.block_bytes();
        if blkid > self.max_block_id() || self.block(blkid)?.is_none() {
            return Ok(());
        }
        self.write_at(tx, offset, &vec![0; len as usize])
    }

    /// Changes the size of the object's blocks. Fails if it has more than one. Contents are kept;
    /// the block is truncated, or padded with zeros.
    pub fn set_block_bytes(&self, tx: &Tx, bytes: u32) -> Result<()> {
        let live = self.need_live()?;
        if bytes == 0 || !bytes.is_multiple_of(512) || u64::from(bytes) > blkptr::MAX_BLOCK_BYTES {
            return Err(Error::invalid(self.place(), format!("blocks of {bytes} bytes")));
        }
        if u64::from(bytes) == self.block_bytes() {
            return Ok(());
        }
        check_can_be_sealed(self.keys(), bytes.into()).map_err(|e| e.at(&self.place()))?;
        if self.max_block_id() > 0 {
            return Err(Error::invalid(self.place(), "has more than one block, so its block size is fixed"));
        }
        let old = self.block(0)?.map(|block| block.data.to_vec());
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            Arc::make_mut(head).data_block_bytes = bytes;
            *head_changed = true;
            let now = match state.find(0) {
                Found::Data(data) => Some(data.to_vec()),
                Found::Hole => None,
                Found::At(_) | Found::Raw(_) | Found::Disk(_) => old,
            };
            if let Some(mut contents) = now {
                contents.resize(bytes as usize, 0);
                state.open_mut().put(0, Buffer::new(contents));
            }
            Ok(())
        })
    }
}
