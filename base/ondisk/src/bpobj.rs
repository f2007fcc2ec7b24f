//! Head of a block pointer object: a list of blocks to free or freed, kept as an array of block pointers.
//!
//! The bonus of an object of type 37 whose data are 128-byte block pointers. It may name a second object, an array of
//! 64-bit object numbers of further lists that belong to this one; the sums count those too. How much of the head there
//! is follows from the length of the bonus.
//!
//! | offset | bytes | field            | since                | meaning                                           |
//! |--------|-------|------------------|----------------------|---------------------------------------------------|
//! | 0x00   | 8     | bpo_num_blkptrs  | v1                   | pointers in this object's own data                |
//! | 0x08   | 8     | bpo_bytes        | v1                   | space of all blocks on the devices                |
//! | 0x10   | 8     | bpo_comp         | v10                  | the same without parity and copies                |
//! | 0x18   | 8     | bpo_uncomp       | v10                  | the same before compression                       |
//! | 0x20   | 8     | bpo_subobjs      | v26                  | object with the numbers of further lists; 0: none |
//! | 0x28   | 8     | bpo_num_subobjs  | v26                  | numbers in it                                     |
//! | 0x30   | 8     | bpo_num_freed    | livelist             | of a livelist: entries that stand for a free      |
//!
//! Source: include/sys/bpobj.h.

use crate::dsl_bookmark::SpaceTriple;
use crate::endian::{Endian, need};
use crate::error::Result;

/// The head of a list of block pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpobjHeader {
    /// Pointers in the object's own data.
    pub num_blkptrs: u64,
    /// Space of all blocks, also of the sub-lists; the second and third number are zero without
    /// [`BpobjHeader::has_compressed`].
    pub space: SpaceTriple,
    /// Whether the compressed and uncompressed sums are kept.
    pub has_compressed: bool,
    /// Object with the numbers of further lists; 0: none.
    pub subobjs: u64,
    /// Numbers in it.
    pub num_subobjs: u64,
    /// Of a livelist: entries that stand for a free.
    pub num_freed: u64,
}

impl BpobjHeader {
    /// Bytes of the shortest head.
    pub const SIZE_V0_BYTES: usize = 16;
    /// Bytes of the head of today.
    pub const SIZE_BYTES: usize = 56;

    /// Takes a bonus of any length that was ever written.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("bpobj", bonus, Self::SIZE_V0_BYTES)?;
        let w = |index: usize| bonus.get(index * 8..index * 8 + 8).map_or(0, |b| endian.u64(b));
        let (has_compressed, has_subobjs) = (bonus.len() >= 32, bonus.len() >= 48);
        Ok(Self {
            num_blkptrs: w(0),
            space: SpaceTriple {
                used: w(1),
                compressed: if has_compressed { w(2) } else { 0 },
                uncompressed: if has_compressed { w(3) } else { 0 },
            },
            has_compressed,
            subobjs: if has_subobjs { w(4) } else { 0 },
            num_subobjs: if has_subobjs { w(5) } else { 0 },
            num_freed: w(6),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64], endian: Endian) -> Vec<u8> {
        let mut out = vec![0; words.len() * 8];
        for (i, w) in words.iter().enumerate() {
            endian.put_u64(&mut out[i * 8..], *w);
        }
        out
    }

    #[test]
    fn each_length_of_the_head_is_understood() {
        for endian in [Endian::Little, Endian::Big] {
            let all = words(&[5, 1024, 768, 2048, 77, 3, 1], endian);
            let full = BpobjHeader::parse(&all, endian).unwrap();
            let space = SpaceTriple { used: 1024, compressed: 768, uncompressed: 2048 };
            assert_eq!((full.num_blkptrs, full.space, full.subobjs, full.num_subobjs), (5, space, 77, 3));
            assert_eq!(full.num_freed, 1);
            let v2 = BpobjHeader::parse(&all[..48], endian).unwrap();
            assert_eq!(v2, BpobjHeader { num_freed: 0, ..full });
            let v1 = BpobjHeader::parse(&all[..32], endian).unwrap();
            assert_eq!(v1, BpobjHeader { subobjs: 0, num_subobjs: 0, ..v2 });
            let v0 = BpobjHeader::parse(&all[..16], endian).unwrap();
            assert_eq!((v0.has_compressed, v0.space.used, v0.space.compressed), (false, 1024, 0));
            assert!(BpobjHeader::parse(&all[..15], endian).is_err());
        }
    }
}
