//! Dnode: describes an object. One or more slots of 512 bytes, in blocks of 16 KiB.
//!
//! | offset  | bytes | field           | since       | meaning                                 |
//! |---------|-------|-----------------|-------------|-----------------------------------------|
//! | 0x00    | 1     | dn_type         | v1          | object type; 0: free                    |
//! | 0x01    | 1     | dn_indblkshift  | v1          | log2 of the indirect block's bytes      |
//! | 0x02    | 1     | dn_nlevels      | v1          | 1: pointers refer to data blocks        |
//! | 0x03    | 1     | dn_nblkptr      | v1          | pointers in the dnode, 1 to 3           |
//! | 0x04    | 1     | dn_bonustype    | v1          | type of the bonus                       |
//! | 0x05    | 1     | dn_checksum     | v1          | algorithm, 0: the dataset's             |
//! | 0x06    | 1     | dn_compress     | v1          | algorithm, 0: the dataset's             |
//! | 0x07    | 1     | dn_flags        | v1          | 1 used is in bytes, 2 user accounted, 4 |
//! |         |       |                 |             | spill pointer, 8 object accounted       |
//! | 0x08    | 2     | dn_datablkszsec | v1          | data block, in 512-byte sectors         |
//! | 0x0a    | 2     | dn_bonuslen     | v1          | bytes of bonus in use                   |
//! | 0x0c    | 1     | dn_extra_slots  | large_dnode | 512-byte slots beyond the first         |
//! | 0x10    | 8     | dn_maxblkid     | v1          | number of the last block                |
//! | 0x18    | 8     | dn_used         | v1          | space, in bytes (flag 1) or sectors     |
//! | 0x40    | 128×n | dn_blkptr       | v1          | block pointers                          |
//! |         |       | dn_bonus        | v1          | after the last pointer                  |
//! | end-128 | 128   | dn_spill        | v24         | spill pointer, with flag 4              |
//!
//! The dnode of a root directory: type 20, bonus of system attributes (44), one level, one pointer,
//! block of 4 sectors, bonus of 168 bytes. Its block pointer is at 0x40, the bonus at 0xc0:
//!
//! ```text
//! 00000000  14 11 01 01 2c 00 00 0b  04 00 a8 00 00 00 00 00  |....,...........|
//! 00000010  00 00 00 00 00 00 00 00  00 04 00 00 00 00 00 00  |................|
//! 00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000030  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000040  01 00 00 00 00 00 00 00  aa 78 00 00 00 00 00 00  |.........x......|
//! 00000050  01 00 00 00 00 00 00 00  63 25 01 00 00 00 00 00  |........c%......|
//! ...
//! 000000c0  5a 50 2f 00 02 04 18 00  ed 41 00 00 00 00 00 00  |ZP/......A......|
//! 000000d0  1f 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00  |................|
//! ```
//!
//! Source: include/sys/dnode.h.

use crate::blkptr::{self, BlkPtr};
use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::types::ObjectType;

/// Size in bytes of a slot, which is also the smallest dnode.
pub const SLOT_BYTES: usize = 512;
/// Size of a dnode block in bytes.
pub const BLOCK_BYTES: usize = 16384;
/// Number of slots in a dnode block.
pub const SLOTS_PER_BLOCK: u64 = (BLOCK_BYTES / SLOT_BYTES) as u64;
/// Size in bytes of the fields before the first pointer.
pub const CORE_BYTES: usize = 64;

/// The dnode of an object, validated.
#[derive(Debug, Clone)]
pub struct Dnode {
    /// Type of the object. [`ObjectType::NONE`] is a free slot.
    pub object_type: ObjectType,
    /// log2 of the size of an indirect block in bytes: 10 to 24, of which OpenZFS writes 12 to 17.
    /// Any value if the slot is free.
    pub indirect_shift: u8,
    /// Levels of the tree; 1: the dnode's pointers refer to data blocks.
    pub levels: u8,
    /// Block pointers in the dnode.
    pub blkptrs: Vec<BlkPtr>,
    /// Type of the bonus.
    pub bonus_type: ObjectType,
    /// `dn_checksum`, raw; 0: inherit.
    pub checksum: u8,
    /// `dn_compress`, raw; 0: inherit.
    pub compression: u8,
    /// `dn_flags`: a combination of `FLAG_*`.
    pub flags: u8,
    /// Size of a data block in bytes.
    pub data_block_bytes: u32,
    /// Number of 512-byte slots of this dnode, 1 to 32.
    pub slots: u8,
    /// Number of the last block of the object.
    pub max_block_id: u64,
    /// Space that the object uses on disk, in bytes.
    pub used_bytes: u64,
    /// The bonus, `dn_bonuslen` bytes.
    pub bonus: Vec<u8>,
    /// The rest of the bonus area, after the bonus. Encryption covers the whole area, so raw data
    /// may have non-zero bytes here. Empty: all zeros. [`Dnode::parse`] omits it,
    /// [`Dnode::parse_whole`] keeps it.
    pub bonus_rest: Vec<u8>,
    /// Pointer to the spill block, if there is one.
    pub spill: Option<BlkPtr>,
    /// Byte order of the writer, also that of the bonus.
    pub endian: Endian,
}

impl Dnode {
    /// `dn_used` is in bytes; otherwise in sectors of 512, as before pool version 3.
    pub const FLAG_USED_BYTES: u8 = 1;
    /// The space is included in user, group and project accounting.
    pub const FLAG_USERUSED_ACCOUNTED: u8 = 2;
    /// There is a spill pointer.
    pub const FLAG_SPILL_BLKPTR: u8 = 4;
    /// The object is included in user, group and project accounting.
    pub const FLAG_USEROBJUSED_ACCOUNTED: u8 = 8;

    /// Number of slots of the dnode at the start of `bytes` (1 if free). Checks nothing else.
    pub fn slots_at(bytes: &[u8]) -> usize {
        match bytes {
            [0, ..] => 1,
            [_, rest @ ..] => rest.get(11).map_or(1, |extra| usize::from(*extra) + 1),
            [] => 1,
        }
    }

    /// Parses the dnode at the start of `bytes`, which must contain all of its slots.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("dnode", bytes, SLOT_BYTES)?;
        let object_type = ObjectType(bytes[0]);
        let free = object_type == ObjectType::NONE;
        let slots = Self::slots_at(bytes);
        let size = slots * SLOT_BYTES;
        if size > BLOCK_BYTES {
            return Err(Error::corrupt("dnode", "dn_extra_slots", slots - 1, "0 to 31"));
        }
        need("dnode", bytes, size)?;
        if !object_type.is_valid() {
            return Err(Error::corrupt("dnode", "dn_type", object_type.0, "a known object type"));
        }
        let nblkptr = usize::from(bytes[3]);
        let flags = bytes[7];
        let bonus_len = usize::from(endian.u16(&bytes[10..]));
        let spill_at = size - blkptr::SIZE_BYTES;
        let (mut blkptrs, mut bonus, mut spill) = (Vec::new(), Vec::new(), None);
        if !free {
            if !(1..=3).contains(&nblkptr) {
                return Err(Error::corrupt("dnode", "dn_nblkptr", nblkptr, "1 to 3"));
            }
            let bonus_at = CORE_BYTES + nblkptr * blkptr::SIZE_BYTES;
            let bonus_end = bonus_at + bonus_len;
            let has_spill = flags & Self::FLAG_SPILL_BLKPTR != 0;
            // OpenZFS gives redaction lists with a spill block three pointers and no bonus. The
            // third pointer is where the spill pointer is, and therefore not a pointer.
            let overlaps = has_spill && bonus_len == 0 && bonus_end <= size;
            if bonus_end > if has_spill && !overlaps { spill_at } else { size } {
                return Err(Error::corrupt(
                    "dnode",
                    "dn_bonuslen",
                    bonus_len,
                    format_args!("to fit {size} bytes with {nblkptr} pointers"),
                ));
            }
            if bytes[2] == 0 || bytes[2] > 20 {
                return Err(Error::corrupt("dnode", "dn_nlevels", bytes[2], "1 to 20"));
            }
            if bytes[2] > 1 && !(10..=24).contains(&bytes[1]) {
                return Err(Error::corrupt("dnode", "dn_indblkshift", bytes[1], "10 to 24"));
            }
            let pointers = if has_spill { nblkptr.min((spill_at - CORE_BYTES) / blkptr::SIZE_BYTES) } else { nblkptr };
            for i in 0..pointers {
                blkptrs.push(BlkPtr::parse(&bytes[CORE_BYTES + i * blkptr::SIZE_BYTES..], endian)?);
            }
            bonus.extend_from_slice(&bytes[bonus_at..bonus_end]);
            if has_spill {
                spill = Some(BlkPtr::parse(&bytes[spill_at..], endian)?);
            }
        }
        let used = endian.u64(&bytes[24..]);
        let dnode = Self {
            object_type,
            indirect_shift: bytes[1],
            levels: bytes[2],
            blkptrs,
            bonus_type: ObjectType(bytes[4]),
            checksum: bytes[5],
            compression: bytes[6],
            flags,
            data_block_bytes: u32::from(endian.u16(&bytes[8..])) << 9,
            slots: slots as u8,
            max_block_id: endian.u64(&bytes[16..]),
            used_bytes: if flags & Self::FLAG_USED_BYTES != 0 { used } else { used.saturating_mul(512) },
            bonus,
            bonus_rest: Vec::new(),
            spill,
            endian,
        };
        if !free && u64::from(dnode.data_block_bytes) > blkptr::MAX_BLOCK_BYTES {
            return Err(Error::corrupt("dnode", "dn_datablkszsec", dnode.data_block_bytes, "at most 16 MiB"));
        }
        Ok(dnode)
    }

    /// Like [`Dnode::parse`], and keeps the bytes after the bonus.
    pub fn parse_whole(bytes: &[u8], endian: Endian) -> Result<Self> {
        let mut dnode = Self::parse(bytes, endian)?;
        let at = CORE_BYTES + dnode.blkptrs.len() * blkptr::SIZE_BYTES;
        let area = at + dnode.bonus.len()..at + dnode.bonus_bytes_max();
        if dnode.object_type != ObjectType::NONE && bytes[area.clone()].iter().any(|byte| *byte != 0) {
            dnode.bonus_rest = bytes[area].to_vec();
        }
        Ok(dnode)
    }

    /// Bytes available for the bonus next to the block pointers and, if present, the spill pointer.
    pub fn bonus_bytes_max(&self) -> usize {
        let spill = if self.spill.is_some() { blkptr::SIZE_BYTES } else { 0 };
        (usize::from(self.slots) * SLOT_BYTES)
            .saturating_sub(CORE_BYTES + self.blkptrs.len() * blkptr::SIZE_BYTES + spill)
    }

    /// Encodes the dnode: `slots` times 512 bytes. Contents that do not fit are an error; nothing
    /// is truncated.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (endian, size) = (self.endian, usize::from(self.slots) * SLOT_BYTES);
        if self.slots == 0 || self.slots as usize > BLOCK_BYTES / SLOT_BYTES {
            return Err(Error::corrupt("dnode", "dn_extra_slots", self.slots, "1 to 32 slots"));
        }
        let bonus_bytes = self.bonus.len() + self.bonus_rest.len();
        if bonus_bytes > self.bonus_bytes_max() {
            let expected = format_args!("at most {} with {} pointers", self.bonus_bytes_max(), self.blkptrs.len());
            return Err(Error::corrupt("dnode", "dn_bonuslen", bonus_bytes, expected));
        }
        if !self.data_block_bytes.is_multiple_of(512) || self.data_block_bytes >> 9 > u32::from(u16::MAX) {
            return Err(Error::corrupt(
                "dnode",
                "dn_datablkszsec",
                self.data_block_bytes,
                "whole sectors, below 32 MiB",
            ));
        }
        let mut out = vec![0; size];
        out[0] = self.object_type.0;
        out[1] = self.indirect_shift;
        out[2] = self.levels;
        out[3] = self.blkptrs.len() as u8;
        out[4] = self.bonus_type.0;
        out[5] = self.checksum;
        out[6] = self.compression;
        out[7] =
            (self.flags & !Self::FLAG_SPILL_BLKPTR) | if self.spill.is_some() { Self::FLAG_SPILL_BLKPTR } else { 0 };
        endian.put_u16(&mut out[8..], (self.data_block_bytes >> 9) as u16);
        endian.put_u16(&mut out[10..], self.bonus.len() as u16);
        out[12] = self.slots - 1;
        endian.put_u64(&mut out[16..], self.max_block_id);
        let in_bytes = self.flags & Self::FLAG_USED_BYTES != 0;
        endian.put_u64(&mut out[24..], if in_bytes { self.used_bytes } else { self.used_bytes / 512 });
        let mut at = CORE_BYTES;
        for bp in &self.blkptrs {
            out[at..at + blkptr::SIZE_BYTES].copy_from_slice(&bp.to_bytes(endian));
            at += blkptr::SIZE_BYTES;
        }
        out[at..at + self.bonus.len()].copy_from_slice(&self.bonus);
        at += self.bonus.len();
        out[at..at + self.bonus_rest.len()].copy_from_slice(&self.bonus_rest);
        if let Some(spill) = &self.spill {
            out[size - blkptr::SIZE_BYTES..].copy_from_slice(&spill.to_bytes(endian));
        }
        Ok(out)
    }

    /// Block pointers in one indirect block.
    pub fn pointers_per_indirect(&self) -> u64 {
        // Objects without indirect blocks may hold any value here.
        1 << (self.indirect_shift.clamp(7, 24) - 7)
    }
}
