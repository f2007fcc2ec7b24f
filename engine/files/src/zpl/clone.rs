//! Copying ranges of files by sharing their blocks (`cp --reflink`, copy_file_range).
//!
//! Facts: zfs_clone_range, zfs_clone_range_replay in module/zfs/zfs_vnops.c. The caller copies what
//! cannot be cloned: blocks of another size, unaligned ranges, and blocks that are not on disk yet.

use super::FileSystem;
use super::backing::Settings;
use super::data::SIZE_MAX;
use super::live::Live;
use super::state::State;
use crate::vfs::Caller;
use errors::{Error, Refusal, Result};
use object::{Cloneable, Tx};
use ondisk::BlkPtr;
use ondisk::znode::Flags;

/// Maximum number of blocks cloned in one transaction. Guessed.
const BLOCKS_MAX: u64 = 1024;
/// Bytes that cloning writes in addition to the pointers: attributes, indirect blocks.
const OVERHEAD_BYTES: u64 = 256 << 10;

/// A range of a file, as blocks to be shared with another one.
struct Range {
    /// Start of the range.
    offset: u64,
    block_bytes: u64,
    /// Length in bytes; may end within the last block.
    len: u64,
    /// A pointer for each block; `None` for zeros.
    pointers: Vec<Option<BlkPtr>>,
}

/// Whether blocks of the given size that begin at `from` can begin at `to`.
fn fits(block_bytes: u64, from: u64, to: u64) -> bool {
    let is_aligned = block_bytes > 0 && from.is_multiple_of(block_bytes) && to.is_multiple_of(block_bytes);
    is_aligned && (to == 0 || block_bytes.is_power_of_two())
}

impl FileSystem {
    /// Clones the beginning of a range, as much as fits in one transaction. Returns 0 if none of it
    /// can be cloned.
    pub(super) fn clone_some(&self, who: &Caller, from: (u64, u64), to: (u64, u64), len: u64) -> Result<u64> {
        let live = self.live()?;
        let (source, target) = (live.node(from.0), live.node(to.0));
        // Rejects most ranges that cannot be cloned without beginning a transaction.
        if !live.backing.settings().clones || !fits(self.look(&source)?.object.block_bytes(), from.1, to.1) {
            return Ok(0);
        }
        self.operate(OVERHEAD_BYTES, false, |tx, live, settings| {
            self.change(&[&source, &target], |l| {
                let size = l.get(to.0).size;
                let file = l.get(from.0);
                Self::check_readable(file)?;
                let Some(range) = Self::cloneable(file, from.1, (to.1, size), len)? else { return Ok(0) };
                let file = l.get(to.0);
                self.clone_into(tx, live, settings, who, file, &range)
            })
        })
    }

    /// The part of `len` bytes at `offset` that can be cloned to `to` in a file of `size` bytes.
    fn cloneable(file: &State, offset: u64, (to, size): (u64, u64), len: u64) -> Result<Option<Range>> {
        let block_bytes = file.object.block_bytes();
        let rest = file.size.saturating_sub(offset);
        if rest == 0 || !fits(block_bytes, offset, to) {
            return Ok(None);
        }
        let mut len = len.min(rest).min(block_bytes.saturating_mul(BLOCKS_MAX));
        if !len.is_multiple_of(block_bytes) && (len < rest || to.saturating_add(len) < size) {
            // The last block contains more data, in the source or in the target.
            len -= len % block_bytes;
        }
        let mut pointers = Vec::new();
        let first = offset / block_bytes;
        for blkid in first..first + len.div_ceil(block_bytes) {
            match file.object.cloneable(blkid)? {
                Cloneable::Hole => pointers.push(None),
                Cloneable::At(bp) if bp.lsize_bytes() == block_bytes && !bp.is_redacted() => {
                    pointers.push(Some(bp));
                }
                Cloneable::At(_) | Cloneable::NotOnDisk => break,
            }
        }
        let len = len.min(pointers.len() as u64 * block_bytes);
        Ok((len > 0).then_some(Range { offset: to, block_bytes, len, pointers }))
    }

    fn clone_into(
        &self,
        tx: &Tx,
        live: &Live,
        settings: &Settings,
        who: &Caller,
        file: &mut State,
        range: &Range,
    ) -> Result<u64> {
        Self::check_writable(file)?;
        if file.flags.contains(Flags::APPENDONLY) && range.offset < file.size {
            return Err(Refusal::NotPermitted.at(file.object.place()));
        }
        let end = range.offset.checked_add(range.len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| Refusal::TooLarge.at(file.object.place()))?;
        self.check_space_quota(live, file)?;
        // The block size of a file is fixed once it has two blocks, however small they are.
        let block = range.block_bytes;
        let one_more = range.len <= block && file.size <= block && end > block;
        if one_more && block < u64::from(settings.record_bytes) || !self.fit_blocks(tx, file, block)? {
            return Ok(0);
        }
        self.put_range(tx, file, range)?;
        file.size = file.size.max(end);
        file.touch_contents(live.backing.now());
        let cleared = !who.privileged && file.drop_set_id();
        file.store(self, tx, &[])?;
        if cleared {
            self.log_mode(tx, file);
        }
        // A record would name blocks whose own txg may not be on disk yet. A commit waits for this
        // txg instead.
        live.backing.unloggable(tx, file.object.id());
        Ok(range.len)
    }

    /// Sets the block size of a file if it has at most one block. Returns whether its blocks have
    /// that size now.
    fn fit_blocks(&self, tx: &Tx, file: &mut State, block_bytes: u64) -> Result<bool> {
        file.object = self.object(file.object.id())?;
        let now = file.object.block_bytes();
        if now < block_bytes && file.size <= now && file.object.max_block_id() == 0 {
            file.object.set_block_bytes(tx, block_bytes as u32)?;
            file.object = self.object(file.object.id())?;
        }
        Ok(file.object.block_bytes() == block_bytes)
    }

    fn put_range(&self, tx: &Tx, file: &mut State, range: &Range) -> Result<()> {
        let first = range.offset / range.block_bytes;
        for (blkid, pointer) in (first..).zip(&range.pointers) {
            match pointer {
                Some(bp) => file.object.put_pointer(tx, blkid, *bp)?,
                None => file.object.punch(tx, blkid * range.block_bytes, range.block_bytes)?,
            }
        }
        file.object = self.object(file.object.id())?;
        Ok(())
    }

    /// Replays a clone record of the intent log.
    pub(super) fn replay_clone(
        &self,
        id: u64,
        (offset, len): (u64, u64),
        block_bytes: u64,
        pointers: &[BlkPtr],
    ) -> Result<()> {
        let bad = |what: String| {
            Err(Error::corrupt(format!("object {id}"), format!("cloned range in the intent log: {what}")))
        };
        let end = offset.checked_add(len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| Refusal::TooLarge.at(format!("object {id}")))?;
        if block_bytes == 0 || !offset.is_multiple_of(block_bytes) || len.div_ceil(block_bytes) != pointers.len() as u64
        {
            return bad(format!("{len} bytes at {offset} are not {} blocks of {block_bytes}", pointers.len()));
        }
        let pointers = pointers.iter().map(|bp| if bp.is_hole() { None } else { Some(*bp) }).collect();
        let range = Range { offset, block_bytes, len, pointers };
        self.operate(OVERHEAD_BYTES, false, |tx, live, _| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                if !self.fit_blocks(tx, file, block_bytes)? {
                    return bad(format!(
                        "blocks of {block_bytes} bytes, the file's have {}",
                        file.object.block_bytes()
                    ));
                }
                self.put_range(tx, file, &range)?;
                file.size = file.size.max(end);
                file.touch_contents(live.backing.now());
                file.store(self, tx, &[])?;
                self.log_cloned(tx, file, offset, (len, block_bytes));
                Ok(())
            })
        })
    }
}
