//! File contents: write, append, truncate, punch holes, copy.
//!
//! A file is locked as a whole: readers share the lock, a writer has exclusive access. Blocks begin
//! with 512 bytes, and the only block of a file grows with it up to `recordsize`, as in the kernel.
//! Facts: zfs_write, zfs_freesp, zfs_grow_blocksize, zpl_fallocate_common.

use super::FileSystem;
use super::backing::Settings;
use super::live::Live;
use super::state::State;
use crate::vfs::{Allocate, Caller, FileKind, Time};
use dataset::quota::Principal;
use errors::{Error, Refusal, Result};
use object::Tx;
use ondisk::znode::Flags;

/// Maximum size of a file: the largest offset that Linux accepts.
pub(super) const SIZE_MAX: u64 = i64::MAX as u64;
/// Unit of block sizes.
const SECTOR: u64 = 512;
/// Maximum bytes written in one transaction, so that txgs can close soon: larger than the largest
/// FUSE request.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes that [`FileSystem::copy`] copies at once.
const COPY_BYTES: u64 = 1 << 20;
/// Bytes that a change of attributes and indirect blocks may write in addition to data. Guessed.
const OVERHEAD_BYTES: u64 = 64 << 10;

/// The block size of a file with a single block of `block` bytes (0: none) when it becomes `end`
/// bytes long.
fn grown_block_bytes(block: u64, end: u64, record: u64) -> u64 {
    let limit = if block > record && !block.is_power_of_two() { block.next_power_of_two() } else { record };
    limit.min(end.min(limit).next_multiple_of(SECTOR)).max(block)
}

/// How writing affects the times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// The file changes now: its times are updated.
    Move,
    /// The file changed earlier, and a kernel maintains its times: they are left as they are.
    Stay,
}

impl FileSystem {
    /// Enlarges the only block of a file if the file becomes `end` bytes long.
    fn grow_block(&self, tx: &Tx, settings: &Settings, file: &mut State, end: u64) -> Result<()> {
        let block = file.object.block_bytes();
        let record = u64::from(settings.record_bytes);
        let grows = end > block && (!block.is_power_of_two() || block < record);
        if !grows || (block != 0 && file.size > block) {
            return Ok(());
        }
        let bytes = grown_block_bytes(block, end.max(file.size), record);
        if bytes > block {
            // If blocks beyond the end remain after the size was reduced, the block size cannot
            // change.
            file.object = self.object(file.object.id())?;
            if file.object.max_block_id() == 0 {
                file.object.set_block_bytes(tx, bytes as u32)?;
                file.object = self.object(file.object.id())?;
            }
        }
        Ok(())
    }

    pub(super) fn check_space_quota(&self, live: &Live, file: &State) -> Result<()> {
        let over = |principal, id| live.backing.is_over_quota(principal, id, false);
        if over(Principal::User, file.uid)?
            || over(Principal::Group, file.gid)?
            || file.project != 0 && over(Principal::Project, file.project)?
        {
            return Err(Refusal::QuotaExceeded.at(file.object.place()));
        }
        Ok(())
    }

    /// Writes to a file whose state is locked.
    pub(super) fn write_in(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        (keeps_set_id, times): (bool, Times),
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if self.write_unlogged(tx, settings, file, (keeps_set_id, times), offset, data)? {
            self.log_mode(tx, file);
        }
        self.log_write(tx, file, offset, data);
        if times == Times::Stay {
            // Replaying the write after a crash changes the time.
            self.log_mtime(tx, file);
        }
        Ok(())
    }

    /// Does the same without a record. Returns whether set-id bits were cleared.
    pub(super) fn write_unlogged(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        (keeps_set_id, times): (bool, Times),
        offset: u64,
        data: &[u8],
    ) -> Result<bool> {
        let now = self.live()?.backing.now();
        let end = offset + data.len() as u64;
        self.grow_block(tx, settings, file, end)?;
        file.object.write_at(tx, offset, data)?;
        file.size = file.size.max(end);
        match times {
            Times::Move => file.touch_contents(now),
            Times::Stay => file.mark_contents(),
        }
        let cleared = !keeps_set_id && file.drop_set_id();
        file.store(self, tx, &[])?;
        Ok(cleared)
    }

    pub(super) fn check_writable(file: &State) -> Result<()> {
        match file.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Refusal::IsDirectory.at(file.object.place())),
            kind => return Err(Error::invalid(file.object.place(), format!("is {kind:?}, expected a regular file"))),
        }
        if file.flags.contains(Flags::IMMUTABLE) {
            return Err(Refusal::NotPermitted.at(file.object.place()));
        }
        Ok(())
    }

    /// Writes `data` at `offset`; `None` appends. Returns where it was written.
    pub(super) fn write_data(
        &self,
        who: &Caller,
        id: u64,
        offset: Option<u64>,
        data: &[u8],
        times: Times,
    ) -> Result<u64> {
        let mut written_at = None;
        let mut pieces = data.chunks(PIECE_BYTES);
        let mut done = 0u64;
        // An empty write is still a write: it may be rejected.
        let mut piece = pieces.next().unwrap_or_default();
        loop {
            let at = self.operate(piece.len() as u64 + OVERHEAD_BYTES, false, |tx, live, settings| {
                let node = live.node(id);
                self.change(&[&node], |l| {
                    let file = l.get(id);
                    Self::check_writable(file)?;
                    // Later pieces follow the first, wherever the end of the file is by then.
                    let at = match written_at {
                        Some(first) => first + done,
                        None => offset.unwrap_or(file.size),
                    };
                    if file.flags.contains(Flags::APPENDONLY) && at < file.size {
                        return Err(Refusal::NotPermitted.at(file.object.place()));
                    }
                    if at.checked_add(piece.len() as u64).is_none_or(|end| end > SIZE_MAX) {
                        return Err(Refusal::TooLarge.at(file.object.place()));
                    }
                    if piece.is_empty() {
                        return Ok(at);
                    }
                    self.check_space_quota(live, file)?;
                    self.write_in(tx, settings, file, (who.privileged, times), at, piece)?;
                    Ok(at)
                })
            })?;
            written_at.get_or_insert(at);
            done += piece.len() as u64;
            match pieces.next() {
                Some(next) => piece = next,
                None => return Ok(written_at.unwrap_or(0)),
            }
        }
    }

    /// Sets the size of a file to `size` bytes. The caller changes and stores times and attributes.
    pub(super) fn resize_in(&self, tx: &Tx, settings: &Settings, file: &mut State, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(Refusal::TooLarge.at(file.object.place()));
        }
        if size < file.size {
            file.object = self.object(file.object.id())?;
            file.object.punch(tx, size, u64::MAX)?;
            file.object = self.object(file.object.id())?;
            if size == 0 {
                file.flags -= Flags::SPARSE;
            }
        } else if size > file.size {
            self.grow_block(tx, settings, file, size)?;
        }
        file.size = size;
        Ok(())
    }

    /// Zeroes the range from `offset` on, up to the end of the file. A `len` of 0 truncates the
    /// file there, or extends it to that size.
    pub(super) fn free_range_in(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        (offset, len): (u64, u64),
        now: Time,
    ) -> Result<()> {
        self.free_range_unlogged(tx, settings, file, (offset, len), now)?;
        self.log_truncate(tx, file, offset, len);
        Ok(())
    }

    /// Does the same without a record.
    pub(super) fn free_range_unlogged(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        (offset, len): (u64, u64),
        now: Time,
    ) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| Refusal::TooLarge.at(file.object.place()))?;
        if len == 0 || offset > file.size {
            self.resize_in(tx, settings, file, end)?;
        } else {
            let stop = end.min(file.size);
            if stop > offset {
                file.object = self.object(file.object.id())?;
                file.object.punch(tx, offset, stop - offset)?;
            }
            if end > file.size {
                self.resize_in(tx, settings, file, end)?;
            }
        }
        file.touch_contents(now);
        file.store(self, tx, &[])
    }

    /// [`Vfs::allocate`](crate::vfs::Vfs::allocate).
    pub(super) fn allocate_in_file(&self, who: &Caller, id: u64, what: Allocate, offset: u64, len: u64) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| Refusal::TooLarge.at(format!("object {id}")))?;
        if len == 0 {
            return Err(Error::invalid(format!("object {id}"), "a range of 0 bytes"));
        }
        if let Allocate::Reserve { .. } = what {
            // Blocks are never overwritten in place, so space cannot be reserved: only a request
            // that cannot succeed is rejected.
            let free = self.live()?.backing.space().available_bytes;
            if len > free - free / 11 {
                return Err(Refusal::NoSpace.at(format!("object {id}")));
            }
        }
        let frees = !matches!(what, Allocate::Reserve { .. });
        self.operate(OVERHEAD_BYTES, frees, |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                Self::check_writable(file)?;
                let keeps_size = matches!(
                    what,
                    Allocate::Punch | Allocate::Zero { keep_size: true } | Allocate::Reserve { keep_size: true }
                );
                let range = match what {
                    Allocate::Reserve { .. } if keeps_size || end <= file.size => return Ok(()),
                    Allocate::Reserve { .. } => (end, 0),
                    _ if keeps_size && offset >= file.size => return Ok(()),
                    _ if keeps_size => (offset, end.min(file.size) - offset),
                    _ => (offset, len),
                };
                if file.flags.contains(Flags::APPENDONLY) && range.0 < file.size {
                    return Err(Refusal::NotPermitted.at(file.object.place()));
                }
                if !who.privileged && file.drop_set_id() {
                    self.log_mode(tx, file);
                }
                self.free_range_in(tx, settings, file, range, live.backing.now())
            })
        })
    }

    /// Copies a range between files or within one. Returns the number of bytes copied.
    pub(super) fn copy(&self, who: &Caller, from: (u64, u64), to: (u64, u64), len: u64) -> Result<u64> {
        let overlap = from.0 == to.0 && from.1 < to.1.saturating_add(len) && to.1 < from.1.saturating_add(len);
        if overlap {
            return Err(Error::invalid(format!("object {}", from.0), "ranges that overlap cannot be copied"));
        }
        let live = self.live()?;
        Self::check_readable(&*self.look(&live.node(from.0))?)?;
        Self::check_writable(&*self.look(&live.node(to.0))?)?;
        let mut done = 0;
        while done < len {
            let cloned = self.clone_some(who, (from.0, from.1 + done), (to.0, to.1 + done), len - done)?;
            if cloned > 0 {
                done += cloned;
                continue;
            }
            let node = live.node(from.0);
            let want = {
                // Stops at a block boundary, so that the following blocks may be cloned.
                let block = self.look(&node)?.object.block_bytes().max(1);
                let step = COPY_BYTES.max(block) / block * block;
                (len - done).min(step - (from.1 + done) % block) as usize
            };
            let piece = {
                let file = self.look(&node)?;
                Self::check_readable(&file)?;
                self.read_in(&file, from.1 + done, want)?
            };
            if piece.is_empty() {
                break;
            }
            self.write_data(who, to.0, Some(to.1 + done), &piece, Times::Move)?;
            done += piece.len() as u64;
        }
        Ok(done)
    }

    pub(super) fn check_readable(file: &State) -> Result<()> {
        match file.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Refusal::IsDirectory.at(file.object.place())),
            kind => Err(Error::invalid(file.object.place(), format!("is {kind:?}, expected a regular file"))),
        }
    }

    /// Reads up to `len` bytes of a file that is locked.
    pub(super) fn read_in(&self, file: &State, offset: u64, len: usize) -> Result<bytes::Bytes> {
        let rest = file.size.saturating_sub(offset);
        let len = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(bytes::Bytes::new());
        }
        file.object.read_bytes(offset, len)
    }

    /// Does the same, into `out`.
    pub(super) fn read_into_in(&self, file: &State, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = file.size.saturating_sub(offset);
        let len = out.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len > 0 {
            file.object.read_at(offset, &mut out[..len])?;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_block_grows_with_the_file_up_to_the_record_size() {
        let record = 128 << 10;
        assert_eq!(grown_block_bytes(512, 513, record), 1024);
        assert_eq!(grown_block_bytes(1024, 5000, record), 5120);
        assert_eq!(grown_block_bytes(5120, 1 << 30, record), record);
        assert_eq!(grown_block_bytes(0, 1, record), 512);
        // A damaged file may contain this.
        assert_eq!(grown_block_bytes(0, u64::MAX, record), record);
        // The record size was larger when the file was created: rounds up to the next power of two.
        assert_eq!(grown_block_bytes(200 << 10, 1 << 30, record), 256 << 10);
        assert_eq!(grown_block_bytes(200 << 10, 210 << 10, record), 210 << 10);
    }
}
