//! Deadlist: the blocks that are referenced by the previous snapshot and no longer by this dataset,
//! sorted by birth.
//!
//! A MOS object (type 50): a ZAP that maps a txg in hexadecimal (blocks born after it, up to the
//! next key) to a bpobj, with the totals in the bonus. Before pool version 26 the deadlist is a
//! single bpobj (type 9 or the bonus of a bpobj) without keys.
//!
//! | offset | bytes | field     | since | meaning                            |
//! |--------|-------|-----------|-------|------------------------------------|
//! | 0x00   | 8     | dl_used   | v26   | space of the blocks on the devices |
//! | 0x08   | 8     | dl_comp   | v26   | the same without parity and copies |
//! | 0x10   | 8     | dl_uncomp | v26   | the same before compression        |
//! | 0x18   | 296   | dl_pad    |       |                                    |
//!
//! From a snapshot with 0x35a00 bytes on its deadlist, 0x2e800 without copies, 0x56600
//! uncompressed:
//!
//! ```text
//! 00000000  00 5a 03 00 00 00 00 00  00 e8 02 00 00 00 00 00  |.Z..............|
//! 00000010  00 66 05 00 00 00 00 00  00 00 00 00 00 00 00 00  |.f..............|
//! ```
//!
//! Source: include/sys/dsl_deadlist.h.

use crate::dsl_bookmark::SpaceTriple;
use crate::endian::{Endian, need};
use crate::error::Result;

/// The totals of a deadlist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlistHeader {
    /// Sizes of all blocks in the list.
    pub space: SpaceTriple,
}

impl DeadlistHeader {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 320;

    /// Parses the bonus of a deadlist object.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("deadlist", bonus, Self::SIZE_BYTES)?;
        let w = |index| endian.word(bonus, index);
        Ok(Self { space: SpaceTriple { used: w(0), compressed: w(1), uncompressed: w(2) } })
    }

    /// Writes the totals to `bonus`, leaving the padding unchanged.
    pub fn write(&self, bonus: &mut [u8], endian: Endian) -> Result<()> {
        need("deadlist", bonus, Self::SIZE_BYTES)?;
        let s = self.space;
        for (index, word) in [s.used, s.compressed, s.uncompressed].into_iter().enumerate() {
            endian.put_u64(&mut bonus[index * 8..], word);
        }
        Ok(())
    }

    /// Parses a key of the deadlist's ZAP: a txg in hexadecimal.
    pub fn key(name: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(name).ok()?;
        u64::from_str_radix(text, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bonus of the deadlist of `th/prom@s4` in the image `history`, written by OpenZFS 2.3.2.
    const S4: &[u8] = include_bytes!("../testdata/deadlist.th-prom-s4.bin");

    #[test]
    fn a_deadlist_written_by_openzfs_is_read_and_written_back() {
        let head = DeadlistHeader::parse(S4, Endian::Little).unwrap();
        assert_eq!(head.space, SpaceTriple { used: 219_648, compressed: 190_464, uncompressed: 353_792 });
        let mut out = S4.to_vec();
        out[..24].fill(0xff);
        head.write(&mut out, Endian::Little).unwrap();
        assert_eq!(out, S4);
        assert!(DeadlistHeader::parse(&S4[..319], Endian::Little).is_err());
    }

    #[test]
    fn keys_are_hexadecimal() {
        assert_eq!(DeadlistHeader::key(b"1f"), Some(31));
        assert_eq!(DeadlistHeader::key(b"x"), None);
    }
}
