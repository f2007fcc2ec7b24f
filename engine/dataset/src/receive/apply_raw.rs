//! Applies the records of a raw stream: dnodes and blocks in their on-disk form.
//!
//! Facts: `receive_object`, `flush_write_batch_impl`, `receive_object_range` in
//! module/zfs/dmu_recv.c.

use super::apply::{Applier, OBJECT_MAX, SPILL};
use super::raw::{INDIRECT_SHIFTS, LEVELS_MAX};
use super::verifying_reader::bad;
use block::{CryptParams, RawBlock};
use errors::{Error, Result};
use object::{RawObject, Tx};
use ondisk::send_record::{Crypt, ObjectRecord, Spill, WriteRecord};
use ondisk::{Compression, Endian};

/// Record flag: the block was written in the other byte order than the stream.
const SWAPPED: u8 = 2;
/// Dnodes per block.
const DNODES: u64 = 32;

fn seal_of(crypt: &Crypt) -> CryptParams {
    CryptParams { salt: crypt.salt, iv: crypt.iv, mac: crypt.mac }
}

impl Applier {
    pub(super) fn object_range(&mut self, first: u64, slots: u64, crypt: &Crypt, flags: u8) -> Result<()> {
        if slots != DNODES || !first.is_multiple_of(DNODES) || first >= OBJECT_MAX {
            return Err(bad(format!("a range of {slots} objects from {first} on")));
        }
        if flags & SWAPPED != 0 {
            return Err(Error::unsupported("", "raw streams with dnodes that a big-endian host wrote"));
        }
        self.range = Some(first);
        self.set.seal_dnodes(first / DNODES, seal_of(crypt))
    }

    /// Handles OBJECT of a raw stream.
    pub(super) fn raw_object(&mut self, tx: &Tx, record: &ObjectRecord, mut bonus: Vec<u8>) -> Result<()> {
        if self.range.is_none_or(|first| !(first..first + DNODES).contains(&record.object)) {
            return Err(bad(format!("object {} outside of its range", record.object)));
        }
        let mut new = self.check(record)?;
        let shape = (u64::from(record.levels), u64::from(record.indirect_shift));
        let fits = (1..=LEVELS_MAX).contains(&shape.0)
            && INDIRECT_SHIFTS.contains(&shape.1)
            && record.raw_bonus_bytes >= record.bonus_bytes
            && record.max_block_id != u64::MAX;
        if !fits {
            return Err(bad(format!("a dnode that cannot be: {record:?}")));
        }
        bonus.truncate(record.raw_bonus_bytes.max(record.bonus_bytes) as usize);
        let bonus_rest = bonus.split_off((record.bonus_bytes as usize).min(bonus.len()));
        new.bonus = bonus;
        new.indirect_shift = record.indirect_shift;
        if usize::from(record.blkptrs) != new.pointers() {
            return Err(bad(format!("{} pointers with a bonus of {} bytes", record.blkptrs, record.bonus_bytes)));
        }
        self.make_room(tx, record.object, new.slots)?;
        let has_spill = record.flags & SPILL != 0;
        if let (Ok(object), false) = (self.set.object(record.object), has_spill)
            && object.dnode_now().spill.is_some()
        {
            object.set_spill(tx, None)?;
        }
        let (levels, max_block_id) = (record.levels, record.max_block_id);
        self.set.put_raw_object(tx, &RawObject { new, bonus_rest, levels, max_block_id })
    }

    /// Handles WRITE of a raw stream.
    pub(super) fn raw_write(&mut self, tx: &Tx, write: &WriteRecord, payload: Vec<u8>) -> Result<()> {
        let object = self.known(write.object)?;
        let size = object.block_bytes();
        if write.logical_bytes != size || !write.offset.is_multiple_of(size) || write.compressed_bytes == 0 {
            return Err(bad(format!("{} bytes at {} of blocks of {size}", write.logical_bytes, write.offset)));
        }
        if write.offset / size > object.max_block_id() {
            return Err(bad(format!("a block at {}, beyond the last one", write.offset)));
        }
        let block = taken(write.compression, write.logical_bytes, (write.flags, &write.crypt), payload, self.endian)?;
        object.put_raw(tx, write.offset / size, block)
    }

    /// Handles SPILL of a raw stream.
    pub(super) fn raw_spill(&mut self, tx: &Tx, spill: &Spill, payload: Vec<u8>) -> Result<()> {
        let object = self.known(spill.object)?;
        let block = taken(spill.compression, spill.length, (spill.flags, &spill.crypt), payload, self.endian)?;
        object.put_raw_spill(tx, block)
    }
}

/// A block as received.
fn taken(
    compression: u8,
    lsize_bytes: u64,
    (flags, crypt): (u8, &Crypt),
    payload: Vec<u8>,
    stream: Endian,
) -> Result<RawBlock> {
    let endian = match (stream, flags & SWAPPED != 0) {
        (Endian::Little, false) | (Endian::Big, true) => Endian::Little,
        _ => Endian::Big,
    };
    let compression = if compression == 0 { Compression::Off } else { Compression::from_raw(compression)? };
    Ok(RawBlock { bytes: payload.into(), lsize_bytes, compression, endian, sealed: Some(seal_of(crypt)) })
}
