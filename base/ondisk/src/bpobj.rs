//! Block pointer object (bpobj): an append-only list of block pointers, used for deadlists, blocks
//! to be freed, and livelists.
//!
//! The object's data is an array of [`BlkPtr`]. A second object (`bpo_subobjs`) lists, as 64-bit
//! numbers, further bpobjs whose entries belong to the list as well. The bonus, `bpobj_phys_t`, has
//! four sizes:
//!
//! | offset | bytes | field           | since    | meaning                               |
//! |--------|-------|-----------------|----------|---------------------------------------|
//! | 0x00   | 8     | bpo_num_blkptrs | v1       | pointers in this object               |
//! | 0x08   | 8     | bpo_bytes       | v1       | space used, including subobjects      |
//! | 0x10   | 8     | bpo_comp        | v3       | their compressed bytes                |
//! | 0x18   | 8     | bpo_uncomp      | v3       | their uncompressed bytes              |
//! | 0x20   | 8     | bpo_subobjs     | v26      | object that lists subobjects; 0: none |
//! | 0x28   | 8     | bpo_num_subobjs | v26      | subobjects                            |
//! | 0x30   | 8     | bpo_num_freed   | livelist | entries that are frees                |
//!
//! To compress well, entries omit the fill count, the checksum (unless deduplicated) and an
//! embedded payload. In a livelist, bit 0 of the fill count means "freed".
//!
//! The list of a snapshot's deadlist entry: 12 pointers, 2048 bytes on disk, no subobjects:
//!
//! ```text
//! 00000000  0c 00 00 00 00 00 00 00  00 08 00 00 00 00 00 00  |................|
//! 00000010  00 04 00 00 00 00 00 00  00 1a 00 00 00 00 00 00  |................|
//! 00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ```
//!
//! Source: include/sys/bpobj.h, module/zfs/bpobj.c.

use crate::blkptr::{self, BlkPtr};
use crate::endian::{Endian, need};
use crate::error::Result;

/// The bonus of a bpobj.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Pointers in this object.
    pub entries: u64,
    /// Space used by the blocks, in bytes, including subobjects.
    pub used_bytes: u64,
    /// Compressed and uncompressed bytes, including subobjects.
    pub logical: Option<Logical>,
    /// The list of subobjects.
    pub subobjects: Option<Subobjects>,
    /// Entries that are frees (livelists).
    pub freed: Option<u64>,
}

/// Sizes of blocks without parity and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Logical {
    pub compressed_bytes: u64,
    pub uncompressed_bytes: u64,
}

/// The list of subobjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subobjects {
    /// Object that holds their object numbers; 0: none.
    pub object: u64,
    pub count: u64,
}

impl Header {
    /// Size in bytes in pools before version 3.
    pub const SIZE_V0_BYTES: usize = 16;
    /// Size in bytes in pools before version 26.
    pub const SIZE_V1_BYTES: usize = 32;
    /// Size in bytes without livelists.
    pub const SIZE_V2_BYTES: usize = 48;
    /// Size in bytes with all fields.
    pub const SIZE_BYTES: usize = 56;

    /// Parses a bonus of any of the four sizes.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("bpobj", bonus, Self::SIZE_V0_BYTES)?;
        let word = |i| endian.word(bonus, i);
        Ok(Self {
            entries: word(0),
            used_bytes: word(1),
            logical: (bonus.len() >= Self::SIZE_V1_BYTES)
                .then(|| Logical { compressed_bytes: word(2), uncompressed_bytes: word(3) }),
            subobjects: (bonus.len() >= Self::SIZE_V2_BYTES).then(|| Subobjects { object: word(4), count: word(5) }),
            freed: (bonus.len() >= Self::SIZE_BYTES).then(|| word(6)),
        })
    }

    /// Encodes the bonus; its last field determines the size.
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let logical = self.logical.unwrap_or_default();
        let sub = self.subobjects.unwrap_or_default();
        let size = match self {
            Self { freed: Some(_), .. } => Self::SIZE_BYTES,
            Self { subobjects: Some(_), .. } => Self::SIZE_V2_BYTES,
            Self { logical: Some(_), .. } => Self::SIZE_V1_BYTES,
            _ => Self::SIZE_V0_BYTES,
        };
        let words = [
            self.entries,
            self.used_bytes,
            logical.compressed_bytes,
            logical.uncompressed_bytes,
            sub.object,
            sub.count,
            self.freed.unwrap_or(0),
        ];
        let mut out = vec![0; size];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            endian.put_u64(chunk, word);
        }
        out
    }
}

/// The pointers in a block of the object. The caller stops after [`Header::entries`].
pub fn entries(block: &[u8], endian: Endian) -> impl Iterator<Item = BlkPtr> + '_ {
    block.chunks_exact(blkptr::SIZE_BYTES).filter_map(move |b| BlkPtr::parse(b, endian).ok())
}

/// Whether a livelist entry is a free (`BP_GET_FREE`).
pub fn is_freed(entry: &BlkPtr) -> bool {
    entry.words()[11] & 1 != 0
}

/// The object numbers in a block of the subobject list. The caller stops after
/// [`Subobjects::count`].
pub fn subobjects(block: &[u8], endian: Endian) -> impl Iterator<Item = u64> + '_ {
    block.chunks_exact(8).map(move |b| endian.u64(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn deadlist_adds_up_and_writes_back() {
        let bonus = golden!("bpobj_bonus.bin");
        let header = Header::parse(bonus, Endian::Little).unwrap();
        assert_eq!((header.entries, header.used_bytes, header.freed), (12, 2048, None));
        let all: Vec<_> = entries(golden!("bpobj.bin"), Endian::Little).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(all.iter().map(|bp| bp.asize_bytes()).sum::<u64>(), 2048);
        let embedded = all.iter().filter(|bp| bp.is_embedded()).count();
        assert_eq!(embedded, 11, "embedded pointers stay in the list without their payload");
        assert_eq!(header.to_bytes(Endian::Little), bonus);
    }

    #[test]
    fn livelist_counts_frees_and_writes_back() {
        let bonus = golden!("bpobj_livelist_bonus.bin");
        let header = Header::parse(bonus, Endian::Little).unwrap();
        assert_eq!((header.entries, header.freed), (15, Some(0)));
        let all: Vec<_> = entries(golden!("bpobj_livelist.bin"), Endian::Little).collect();
        assert!(all.iter().all(|bp| !is_freed(bp)));
        let logical: u64 = all.iter().filter(|bp| !bp.is_embedded()).map(|bp| bp.psize_bytes()).sum();
        assert_eq!(header.logical.unwrap().compressed_bytes, logical);
        assert_eq!(header.to_bytes(Endian::Little), bonus);
    }

    #[test]
    fn older_headers_are_shorter() {
        let bonus = golden!("bpobj_bonus.bin");
        for size in [16, 32, 48] {
            let header = Header::parse(&bonus[..size], Endian::Little).unwrap();
            assert_eq!(header.to_bytes(Endian::Little), bonus[..size]);
        }
        assert!(Header::parse(&bonus[..15], Endian::Little).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("bpobj.bin"), |bytes| {
            let _ = Header::parse(bytes, Endian::Big);
            let _ = entries(bytes, Endian::Little).filter(is_freed).count();
            let _ = subobjects(bytes, Endian::Little).count();
        });
    }
}
