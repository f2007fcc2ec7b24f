//! Redaction list: the blocks that a redacted stream of a snapshot leaves out.
//!
//! An object of the MOS, type `DMU_OTN_UINT64_METADATA`, that belongs to one bookmark
//! (`zbm_redaction_obj`). Its bonus is the header. With more than 36 GUIDs (feature
//! `redaction_list_spill`) the bonus is empty and the spill block is the header.
//!
//! | offset | bytes | field           | meaning                                                    |
//! |--------|-------|-----------------|------------------------------------------------------------|
//! | 0x00   | 8     | rlp_last_object | while the list is made: everything before this block is in |
//! | 0x08   | 8     | rlp_last_blkid  | it; when it is complete, both are all ones                 |
//! | 0x10   | 8     | rlp_num_entries | entries in the object's data                               |
//! | 0x18   | 8     | rlp_num_snaps   | number of GUIDs                                            |
//! | 0x20   | 8 *   | rlp_snaps       | GUIDs of the snapshots that redact                         |
//!
//! The data is an array of entries, ordered by object and block, that do not overlap:
//!
//! | offset | bytes | field          | meaning                                                     |
//! |--------|-------|----------------|-------------------------------------------------------------|
//! | 0x00   | 8     | rbp_object     | object in the snapshot                                      |
//! | 0x08   | 8     | rbp_blkid      | first of consecutive blocks                                 |
//! | 0x10   | 8     | rbp_size_count | low 48 bits: number of blocks - 1; high 16 bits: size of a  |
//! |        |       |                | block in sectors of 512 bytes                               |
//! | 0x18   | 8     | rbp_padding    | ignored; zero                                               |
//!
//! Since: `redaction_bookmarks`. Source: include/sys/dsl_bookmark.h, include/sys/dmu_redact.h.

use crate::endian::{Endian, need, words};
use crate::error::{Error, Result};

/// The header of a redaction list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionList {
    /// While the list is made: object of the first block that it does not cover.
    pub last_object: u64,
    /// While the list is made: number of that block.
    pub last_blkid: u64,
    /// Number of entries in the object's data.
    pub entries: u64,
    /// Number of redaction snapshots according to the header.
    pub num_snaps: u64,
    /// Their GUIDs, as far as the header holds them.
    pub snaps: Vec<u64>,
}

impl RedactionList {
    /// Size in bytes of the fields before the GUIDs.
    pub const HEAD_BYTES: usize = 32;
    /// Size in bytes of the largest header that is a bonus (`DN_OLD_MAX_BONUSLEN`).
    pub const BONUS_BYTES_MAX: usize = 320;

    /// Position of a complete list: object and block.
    pub const COMPLETE: (u64, u64) = (u64::MAX, u64::MAX);

    /// The header of a new list with respect to these snapshots, without entries.
    pub fn new(snaps: Vec<u64>) -> Self {
        Self { last_object: 0, last_blkid: 0, entries: 0, num_snaps: snaps.len() as u64, snaps }
    }

    /// The header of a complete list without entries.
    pub fn empty(snaps: Vec<u64>) -> Self {
        let (last_object, last_blkid) = Self::COMPLETE;
        Self { last_object, last_blkid, ..Self::new(snaps) }
    }

    /// Parses a header.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("redaction_list", bytes, Self::HEAD_BYTES)?;
        let num_snaps = endian.word(bytes, 3);
        let snaps = bytes[Self::HEAD_BYTES..].chunks_exact(8).map(|b| endian.u64(b));
        Ok(Self {
            last_object: endian.word(bytes, 0),
            last_blkid: endian.word(bytes, 1),
            entries: endian.word(bytes, 2),
            num_snaps,
            snaps: snaps.take(usize::try_from(num_snaps).unwrap_or(usize::MAX)).collect(),
        })
    }

    /// Encodes the header.
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let head = [self.last_object, self.last_blkid, self.entries, self.num_snaps];
        let mut bytes = vec![0; Self::HEAD_BYTES + self.snaps.len() * 8];
        for (word, out) in head.iter().chain(&self.snaps).zip(bytes.chunks_exact_mut(8)) {
            endian.put_u64(out, *word);
        }
        bytes
    }

    /// Whether the list is with respect to exactly these snapshots, by guid.
    pub fn has_snaps(&self, guids: &[u64]) -> bool {
        self.snaps.len() == guids.len() && self.snaps.iter().all(|snap| guids.contains(snap))
    }

    /// Whether the list covers the whole snapshot. Otherwise it is being made, or that was
    /// interrupted.
    pub fn is_complete(&self) -> bool {
        (self.last_object, self.last_blkid) == Self::COMPLETE
    }
}

/// An entry of a redaction list: consecutive blocks of an object (`redact_block_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedactBlock {
    /// Object in the snapshot.
    pub object: u64,
    /// Number of the first block.
    pub first: u64,
    /// Number of blocks, at least 1.
    pub count: u64,
    /// Size of each block in bytes: a multiple of 512.
    pub block_bytes: u32,
}

impl RedactBlock {
    /// Size of an entry in bytes.
    pub const SIZE_BYTES: usize = 32;
    /// Maximum number of blocks in an entry (`REDACT_BLOCK_MAX_COUNT`).
    pub const COUNT_MAX: u64 = 1 << 48;

    /// Number of the first block after these. Saturates: the last possible block has no next one.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Parses an entry. Object 0 and blocks without a size are an error.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let [object, first, size_count, _] = words::<4>("redact_block", bytes, endian)?;
        let block_bytes = ((size_count >> 48) as u32) << 9;
        if object == 0 || block_bytes == 0 {
            let found = format!("object {object}, blocks of {block_bytes} bytes");
            return Err(Error::corrupt("redact_block", "entry", found, "an object and a block size"));
        }
        Ok(Self { object, first, count: (size_count & (Self::COUNT_MAX - 1)) + 1, block_bytes })
    }

    /// Encodes the entry.
    pub fn to_bytes(&self, endian: Endian) -> [u8; Self::SIZE_BYTES] {
        debug_assert!((1..=Self::COUNT_MAX).contains(&self.count), "an entry has blocks, and few enough");
        let size_count = u64::from(self.block_bytes >> 9) << 48 | (self.count - 1);
        let mut bytes = [0; Self::SIZE_BYTES];
        for (word, out) in [self.object, self.first, size_count].iter().zip(bytes.chunks_exact_mut(8)) {
            endian.put_u64(out, *word);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `k/a#next` of a pool made by the kernel module, as `zdb -vvvv` prints it.
    #[test]
    fn a_list_written_by_openzfs_is_read_and_written_back() {
        let bonus = [u64::MAX, u64::MAX, 2, 1, 7653566370188445147];
        let bytes: Vec<u8> = bonus.iter().flat_map(|word| word.to_le_bytes()).collect();
        let list = RedactionList::parse(&bytes, Endian::Little).unwrap();
        assert_eq!((list.entries, list.snaps.as_slice(), list.is_complete()), (2, &bonus[4..], true));
        assert_eq!(list.to_bytes(Endian::Little), bytes);
        let data = [3u64, 0, 0x0020_0000_0000_0027, 0, 5, 1, 0x0020_0000_0000_0002, 0];
        let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
        let entry = |at: usize| RedactBlock::parse(&bytes[at..], Endian::Little).unwrap();
        let block_bytes = 16 << 10;
        assert_eq!(entry(0), RedactBlock { object: 3, first: 0, count: 40, block_bytes });
        assert_eq!(entry(32), RedactBlock { object: 5, first: 1, count: 3, block_bytes });
        assert_eq!([entry(0).to_bytes(Endian::Little), entry(32).to_bytes(Endian::Little)].concat(), bytes);
    }

    #[test]
    fn a_header_never_claims_more_snapshots_than_it_holds() {
        let mut bonus = vec![0; 48];
        Endian::Big.put_u64(&mut bonus[24..], u64::MAX);
        Endian::Big.put_u64(&mut bonus[40..], 9);
        let list = RedactionList::parse(&bonus, Endian::Big).unwrap();
        assert_eq!(list.snaps, [0, 9]);
        assert!(RedactionList::parse(&bonus[..31], Endian::Big).is_err());
    }

    #[test]
    fn a_header_is_written_back_as_it_was_read() {
        for endian in [Endian::Little, Endian::Big] {
            let list = RedactionList { entries: 3, last_object: 7, last_blkid: 9, ..RedactionList::new(vec![1, 2]) };
            assert_eq!(RedactionList::parse(&list.to_bytes(endian), endian).unwrap(), list);
            assert!(!list.is_complete() && RedactionList::empty(vec![5]).is_complete());
        }
    }

    #[test]
    fn an_entry_without_object_or_size_is_rejected() {
        let entry = RedactBlock { object: 2, first: 0, count: RedactBlock::COUNT_MAX, block_bytes: 16 << 20 };
        let bytes = entry.to_bytes(Endian::Little);
        assert_eq!(RedactBlock::parse(&bytes, Endian::Little).unwrap(), entry);
        for at in [0, 22] {
            let mut bad = bytes;
            bad[at..at + 2].fill(0);
            assert!(RedactBlock::parse(&bad, Endian::Little).is_err());
        }
        assert!(RedactBlock::parse(&bytes[..31], Endian::Little).is_err());
    }
}
