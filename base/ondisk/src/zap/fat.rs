//! Header of a fat ZAP: block 0, whose second half may be the table of leaf block numbers.
//!
//! | offset | bytes | field           | since | meaning                                         |
//! |--------|-------|-----------------|-------|-------------------------------------------------|
//! | 0x00   | 8     | zap_block_type  | v1    | 0x8000000000000001                              |
//! | 0x08   | 8     | zap_magic       | v1    | 0x2f52ab2ab                                     |
//! | 0x10   | 8     | zt_blk          | v1    | first block of the table; 0: it is in this      |
//! |        |       |                 |       | block's second half                             |
//! | 0x18   | 8     | zt_numblks      | v1    | blocks of the table; 0: as above                |
//! | 0x20   | 8     | zt_shift        | v1    | bits of the hash that index the table           |
//! | 0x28   | 8     | zt_nextblk      | v1    | first block of the table being copied to        |
//! | 0x30   | 8     | zt_blks_copied  | v1    | blocks copied so far                            |
//! | 0x38   | 8     | zap_freeblk     | v1    | first block never used                          |
//! | 0x40   | 8     | zap_num_leafs   | v1    | leaves                                          |
//! | 0x48   | 8     | zap_num_entries | v1    | entries                                         |
//! | 0x50   | 8     | zap_salt        | v1    | initial value of the hash                       |
//! | 0x58   | 8     | zap_normflags   | v9    | how names are normalized                        |
//! | 0x60   | 8     | zap_flags       | v21   | 1 48-bit hash, 2 number keys, 4 key is the hash |
//! | half   | half  |                 | v1    | table, one word an entry                        |
//!
//! A table of 2^10 entries in this block, next free block 2, one leaf, 6 entries, the salt:
//!
//! ```text
//! 00000000  01 00 00 00 00 00 00 80  ab b2 2a f5 02 00 00 00  |..........*.....|
//! 00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000020  0a 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000030  00 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  |................|
//! 00000040  01 00 00 00 00 00 00 00  06 00 00 00 00 00 00 00  |................|
//! 00000050  89 95 a8 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ```

use super::block::{BlockKind, block_shift};
use super::flags::{Flags, NormFlags};
use crate::endian::Endian;
use crate::error::{Error, Result};

/// Block 0 of a fat ZAP, `zap_phys_t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// First block of the pointer table; meaningless if `table_blocks` is 0.
    pub table_start: u64,
    /// Number of blocks of the pointer table; 0: it is in the second half of the header block.
    pub table_blocks: u64,
    /// Number of hash bits that index the table.
    pub table_shift: u32,
    /// `zt_nextblk`.
    pub next_table_start: u64,
    /// `zt_blks_copied`.
    pub next_table_copied: u64,
    /// First block never used.
    pub free_block: u64,
    pub leaves: u64,
    pub entries: u64,
    /// Initial value of the hash.
    pub salt: u64,
    /// How names are normalized.
    pub norm_flags: NormFlags,
    /// How keys are formed.
    pub flags: Flags,
    /// log2 of the block size, from the length of the block.
    pub block_shift: u32,
}

/// Location of a leaf's block number in the pointer table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSlot {
    /// Block of the object; 0 is the header itself.
    pub block: u64,
    /// Index of the word in that block.
    pub word: usize,
}

impl Header {
    /// Value of `zap_magic`.
    pub const MAGIC: u64 = 0x2_f52a_b2ab;
    /// Size of the fields in bytes.
    pub const SIZE_BYTES: usize = 0x68;
    /// Offset of `zap_num_entries` in bytes.
    pub const ENTRIES_OFFSET: usize = 0x48;

    /// Parses block 0. The table must have the size given by its shift, and the hash must have that
    /// many bits.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let shift = block_shift("zap header", bytes)?;
        let word = |index: usize| endian.word(bytes, index);
        let hex = |n: u64| format!("{n:#x}");
        if word(0) != BlockKind::HEADER {
            return Err(Error::corrupt("zap header", "zap_block_type", hex(word(0)), hex(BlockKind::HEADER)));
        }
        if word(1) != Self::MAGIC {
            return Err(Error::corrupt("zap header", "zap_magic", hex(word(1)), hex(Self::MAGIC)));
        }
        let flags = Flags::from_bits(word(12)).ok_or_else(|| Error::Unsupported {
            structure: "zap header",
            what: format!("zap_flags {:#x}", word(12)),
        })?;
        let (table_start, table_blocks, table_shift) = (word(2), word(3), word(4));
        // The shift is at most the number of hash bits; an external table fills whole blocks.
        let table_bits_max = if table_blocks == 0 {
            u64::from(shift) - 4
        } else {
            let words = table_blocks.checked_shl(shift - 3).filter(|w| w >> (shift - 3) == table_blocks);
            words.map_or(64, |w| u64::from(w.ilog2())).min(u64::from(flags.hash_bits()))
        };
        if table_shift > table_bits_max {
            return Err(Error::corrupt(
                "zap header",
                "zt_shift",
                table_shift,
                format_args!("at most {table_bits_max} with zt_numblks {table_blocks}"),
            ));
        }
        if table_blocks != 0 && table_start.checked_add(table_blocks).is_none() {
            return Err(Error::corrupt("zap header", "zt_blk", hex(table_start), "a block of the object"));
        }
        Ok(Self {
            table_start,
            table_blocks,
            table_shift: table_shift as u32,
            next_table_start: word(5),
            next_table_copied: word(6),
            free_block: word(7),
            leaves: word(8),
            entries: word(9),
            salt: word(10),
            norm_flags: NormFlags::from_bits_retain(word(11)),
            flags,
            block_shift: shift,
        })
    }

    /// The header of a ZAP with one empty leaf, in block 1, to which the whole embedded table
    /// refers.
    pub fn new(block_shift: u32, salt: u64, norm_flags: NormFlags, flags: Flags) -> Self {
        Self {
            table_start: 0,
            table_blocks: 0,
            table_shift: block_shift - 4,
            next_table_start: 0,
            next_table_copied: 0,
            free_block: 2,
            leaves: 1,
            entries: 0,
            salt,
            norm_flags,
            flags,
            block_shift,
        }
    }

    /// Encodes the fields, little-endian. On disk they are followed by zeros and the table.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let words = [
            BlockKind::HEADER,
            Self::MAGIC,
            self.table_start,
            self.table_blocks,
            u64::from(self.table_shift),
            self.next_table_start,
            self.next_table_copied,
            self.free_block,
            self.leaves,
            self.entries,
            self.salt,
            self.norm_flags.bits(),
            self.flags.bits(),
        ];
        let mut out = [0; Self::SIZE_BYTES];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            Endian::Little.put_u64(chunk, word);
        }
        out
    }

    /// Table index of `hash`.
    pub fn table_index(&self, hash: u64) -> u64 {
        top_bits(hash, self.table_shift)
    }

    /// Location of table entry `index` (below `1 << table_shift`).
    pub fn table_slot(&self, index: u64) -> TableSlot {
        if self.table_blocks == 0 {
            TableSlot { block: 0, word: (1 << (self.block_shift - 4)) + index as usize }
        } else {
            let words_shift = self.block_shift - 3;
            TableSlot {
                block: self.table_start.wrapping_add(index >> words_shift),
                word: (index & ((1 << words_shift) - 1)) as usize,
            }
        }
    }
}

/// The top `bits` bits of a hash; 0 if `bits` is 0.
pub fn top_bits(hash: u64, bits: u32) -> u64 {
    if bits == 0 { 0 } else { hash >> (64 - bits.min(64)) }
}
