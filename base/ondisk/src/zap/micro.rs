//! Micro ZAP: one block of 64-byte entries, each a short name and a 64-bit number, unsorted.
//!
//! | offset | bytes | field         | since | meaning                               |
//! |--------|-------|---------------|-------|---------------------------------------|
//! | 0x00   | 8     | mz_block_type | v1    | 0x8000000000000003                    |
//! | 0x08   | 8     | mz_salt       | v1    | initial value of the hash             |
//! | 0x10   | 8     | mz_normflags  | v9    | how names are normalized              |
//! | 0x18   | 40    | mz_pad        | v1    | 0                                     |
//! | 0x40   | 64 n  | mz_chunk      | v1    | entries; a free one has an empty name |
//!
//! Entry: 0x00 mze_value (8), 0x08 mze_cd (4), 0x0c pad (2), 0x0e mze_name (50, ended by NUL).
//!
//! A master node written on SPARC: the header, then the entry `VERSION` = 1:
//!
//! ```text
//! 00000000  80 00 00 00 00 00 00 03  00 00 00 00 0d 2f d0 b3  |............./..|
//! 00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ...
//! 00000040  00 00 00 00 00 00 00 01  00 00 00 00 00 00 56 45  |..............VE|
//! 00000050  52 53 49 4f 4e 00 00 00  00 00 00 00 00 00 00 00  |RSION...........|
//! ```

use super::block::BlockKind;
use super::flags::NormFlags;
use crate::endian::{Endian, need};
use crate::error::{Error, Result};

/// Size in bytes of an entry, and of the header before the entries.
pub const ENTRY_BYTES: usize = 64;
/// Size in bytes of a name, including its NUL.
pub const NAME_BYTES: usize = 50;
/// Largest block of a micro ZAP (`zap_micro_max_size`, without the feature `large_microzap`), in
/// bytes.
pub const MAX_BYTES: usize = 128 << 10;
const _: () = assert!(8 + 4 + 2 + NAME_BYTES == ENTRY_BYTES);

/// The block of a micro ZAP.
#[derive(Debug, Clone, Copy)]
pub struct Micro<'a> {
    /// Initial value of the hash.
    pub salt: u64,
    /// How names are normalized.
    pub norm_flags: NormFlags,
    chunks: &'a [u8],
    endian: Endian,
}

/// An entry in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroEntry<'a> {
    /// Name, without its NUL.
    pub name: &'a [u8],
    pub value: u64,
    /// Collision differentiator: distinguishes entries with the same hash.
    pub cd: u32,
    /// Index of the entry in the block.
    pub index: usize,
}

impl<'a> Micro<'a> {
    /// Parses a block. A partial entry at the end is ignored.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self> {
        need("micro zap", bytes, ENTRY_BYTES)?;
        if endian.u64(bytes) != BlockKind::MICRO {
            return Err(Error::corrupt(
                "micro zap",
                "mz_block_type",
                format_args!("{:#x}", endian.u64(bytes)),
                format_args!("{:#x}", BlockKind::MICRO),
            ));
        }
        Ok(Self {
            salt: endian.word(bytes, 1),
            norm_flags: NormFlags::from_bits_retain(endian.word(bytes, 2)),
            chunks: &bytes[ENTRY_BYTES..],
            endian,
        })
    }

    /// The entry at `index`, if in use.
    pub fn entry(&self, index: usize) -> Option<MicroEntry<'a>> {
        let start = index.checked_mul(ENTRY_BYTES)?;
        let bytes = self.chunks.get(start..start.checked_add(ENTRY_BYTES)?)?;
        let name = &bytes[14..];
        // A name that fills its field without a NUL ends with the field.
        let name = &name[..name.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES)];
        (!name.is_empty()).then(|| MicroEntry {
            name,
            value: self.endian.u64(bytes),
            cd: self.endian.u32(&bytes[8..]),
            index,
        })
    }

    /// All entries in use, in the order of the block.
    pub fn entries(&self) -> impl Iterator<Item = MicroEntry<'a>> + use<'a> {
        let micro = *self;
        (0..self.chunks.len() / ENTRY_BYTES).filter_map(move |i| micro.entry(i))
    }

    /// Number of entries that fit in the block.
    pub fn slots(&self) -> usize {
        self.chunks.len() / ENTRY_BYTES
    }
}

/// Encodes the header of a block, little-endian.
pub fn header(salt: u64, norm_flags: NormFlags) -> [u8; ENTRY_BYTES] {
    let mut out = [0; ENTRY_BYTES];
    for (chunk, word) in out.chunks_exact_mut(8).zip([BlockKind::MICRO, salt, norm_flags.bits()]) {
        Endian::Little.put_u64(chunk, word);
    }
    out
}

/// Encodes an entry, little-endian. `name` must be shorter than [`NAME_BYTES`] and contain no NUL.
pub fn entry(name: &[u8], value: u64, cd: u32) -> [u8; ENTRY_BYTES] {
    assert!(name.len() < NAME_BYTES, "longer names are for fat ZAPs");
    let mut out = [0; ENTRY_BYTES];
    Endian::Little.put_u64(&mut out, value);
    Endian::Little.put_u32(&mut out[8..], cd);
    out[14..14 + name.len()].copy_from_slice(name);
    out
}

/// Offset in the block of entry `index`, in bytes.
pub fn entry_offset(index: usize) -> usize {
    (index + 1) * ENTRY_BYTES
}
