//! Indirect mapping: where the blocks of a removed vdev are now.
//!
//! A removed top-level vdev stays in the configuration with type `indirect`; block pointers to it
//! are resolved through its mapping. `com.delphix:indirect_object` and
//! `com.delphix:indirect_births` in its configuration name two MOS objects. The mapping's bonus,
//! `vdev_indirect_mapping_phys_t`, is 24 bytes or, with obsolete_counts, 32:
//!
//! | offset | bytes | field              | since           | meaning                             |
//! |--------|-------|--------------------|-----------------|-------------------------------------|
//! | 0x00   | 8     | vimp_max_offset    | device_removal  | end of the last range, in bytes     |
//! | 0x08   | 8     | vimp_bytes_mapped  | device_removal  | bytes in all ranges                 |
//! | 0x10   | 8     | vimp_num_entries   | device_removal  | ranges                              |
//! | 0x18   | 8     | vimp_counts_object | obsolete_counts | object of 32-bit counts of obsolete |
//! |        |       |                    |                 | bytes, one for each range           |
//!
//! The data is sorted by source, 24 bytes for each range:
//!
//! | offset | bytes | field     | meaning                                                         |
//! |--------|-------|-----------|-----------------------------------------------------------------|
//! | 0x00   | 8     | vimep_src | bits 0-62: offset on the removed vdev, in 512-byte sectors; 63: |
//! |        |       |           | mark                                                            |
//! | 0x08   | 16    | vimep_dst | current [`Dva`]; its allocated size is the range's length       |
//!
//! ```text
//! 00000000  08 00 00 00 00 00 00 00  6c 00 00 00 00 00 00 00  |........l.......| 0x1000, 0xd800 at
//! 00000010  95 01 00 00 00 00 00 00  c3 00 00 00 00 00 00 00  |................| 0:0x32a00; ..
//! ```
//!
//! The bonus of the births object is its number of entries. Each entry records the txg in which the
//! blocks below an offset were copied, so that incremental sends and scrubs treat them as born
//! then.
//!
//! | offset | bytes | field               | meaning                            |
//! |--------|-------|---------------------|------------------------------------|
//! | 0x00   | 8     | vibe_offset         | end of the part copied in that txg |
//! | 0x08   | 8     | vibe_phys_birth_txg | the txg                            |
//!
//! Ranges that no longer hold live blocks are recorded in a space map until the mapping is
//! condensed; see [`crate::pool_dir::vdev_top::INDIRECT_OBSOLETE_SM`].
//!
//! Source: include/sys/vdev_indirect_mapping.h, include/sys/vdev_indirect_births.h.

use crate::blkptr::Dva;
use crate::endian::{Endian, need, words};
use crate::error::Result;
use crate::types::Txg;

/// The bonus of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingHeader {
    /// End of the last range in bytes.
    pub max_offset_bytes: u64,
    /// Total size of all ranges in bytes.
    pub mapped_bytes: u64,
    /// Number of ranges, 24 bytes each.
    pub entries: u64,
    /// Object of the obsolete counts; 0 or `None`: not recorded.
    pub counts_object: Option<u64>,
}

impl MappingHeader {
    /// Size in bytes without obsolete counts.
    pub const SIZE_V0_BYTES: usize = 24;
    /// Size in bytes with obsolete counts.
    pub const SIZE_BYTES: usize = 32;

    /// Parses a bonus of either size.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        let [max_offset_bytes, mapped_bytes, entries] = words("vdev_indirect_mapping_phys", bonus, endian)?;
        let counts_object = (bonus.len() >= Self::SIZE_BYTES).then(|| endian.word(bonus, 3));
        Ok(Self { max_offset_bytes, mapped_bytes, entries, counts_object })
    }

    /// Encodes 24 bytes, or 32 with `counts_object`.
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let words = [self.max_offset_bytes, self.mapped_bytes, self.entries];
        to_bytes(words.into_iter().chain(self.counts_object), endian)
    }
}

fn to_bytes(words: impl Iterator<Item = u64>, endian: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    for word in words {
        out.resize(out.len() + 8, 0);
        let at = out.len() - 8;
        endian.put_u64(&mut out[at..], word);
    }
    out
}

/// A range of a removed vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingEntry {
    /// Offset on the removed vdev in bytes.
    pub source_offset_bytes: u64,
    /// Current location; `asize_bytes` is the length of the range.
    pub target: Dva,
    /// A mark that only `zdb` sets, and only in memory.
    pub mark: bool,
}

impl MappingEntry {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 24;

    /// Parses the first 24 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let [source, w0, w1] = words("vdev_indirect_mapping_entry_phys", bytes, endian)?;
        Ok(Self { source_offset_bytes: source << 1 << 8, target: Dva::from_words(w0, w1), mark: source >> 63 != 0 })
    }

    /// Encodes the 24 bytes.
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let (w0, w1) = self.target.to_words();
        let source = (u64::from(self.mark) << 63) | (self.source_offset_bytes >> 9);
        to_bytes([source, w0, w1].into_iter(), endian)
    }
}

/// The ranges in a part of the mapping object. The caller stops after [`MappingHeader::entries`].
pub fn mapping_entries(bytes: &[u8], endian: Endian) -> impl Iterator<Item = MappingEntry> + '_ {
    bytes.chunks_exact(MappingEntry::SIZE_BYTES).filter_map(move |b| MappingEntry::parse(b, endian).ok())
}

/// The obsolete bytes of each range, from a part of the counts object.
pub fn obsolete_counts(bytes: &[u8], endian: Endian) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(move |b| endian.u32(b))
}

/// A part of a removed vdev that was copied in one txg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BirthEntry {
    /// End of the part on the removed vdev, in bytes.
    pub end_offset_bytes: u64,
    /// Txg in which it was copied.
    pub txg: Txg,
}

impl BirthEntry {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 16;

    /// Parses the first 16 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let [end_offset_bytes, txg] = words("vdev_indirect_birth_entry_phys", bytes, endian)?;
        Ok(Self { end_offset_bytes, txg: Txg(txg) })
    }
}

/// Number of entries in a births object, from its bonus.
pub fn birth_count(bonus: &[u8], endian: Endian) -> Result<u64> {
    need("vdev_indirect_birth_phys", bonus, 8)?;
    Ok(endian.u64(bonus))
}

/// The entries in a part of the births object. The caller stops after [`birth_count`].
pub fn birth_entries(bytes: &[u8], endian: Endian) -> impl Iterator<Item = BirthEntry> + '_ {
    bytes.chunks_exact(BirthEntry::SIZE_BYTES).filter_map(move |b| BirthEntry::parse(b, endian).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn mapping_of_a_removed_device_adds_up_and_writes_back() {
        let bonus = golden!("indirect_mapping_bonus.bin");
        let header = MappingHeader::parse(bonus, Endian::Little).unwrap();
        assert_eq!(header.entries, 4);
        let bytes = golden!("indirect_mapping.bin");
        let all: Vec<_> = mapping_entries(bytes, Endian::Little).collect();
        assert_eq!(all.iter().map(|e| e.target.asize_bytes).sum::<u64>(), header.mapped_bytes);
        assert_eq!((all[0].source_offset_bytes, all[0].target.offset_bytes), (0x1000, 0x32a00));
        let last = all[3];
        assert_eq!(last.source_offset_bytes + last.target.asize_bytes, header.max_offset_bytes);
        assert_eq!(header.to_bytes(Endian::Little), bonus);
        assert_eq!(all.iter().flat_map(|e| e.to_bytes(Endian::Little)).collect::<Vec<_>>(), bytes);
        assert_eq!(MappingHeader::parse(&bonus[..24], Endian::Little).unwrap().counts_object, None);
    }

    #[test]
    fn births_end_where_the_mapping_ends() {
        let count = birth_count(golden!("indirect_births_bonus.bin"), Endian::Little).unwrap();
        let all: Vec<_> = birth_entries(golden!("indirect_births.bin"), Endian::Little).collect();
        assert_eq!(count, 1);
        assert_eq!(all, [BirthEntry { end_offset_bytes: 67183104, txg: Txg(28) }]);
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("indirect_mapping.bin"), |bytes| {
            let _ = MappingHeader::parse(bytes, Endian::Big);
            for entry in mapping_entries(bytes, Endian::Little) {
                assert_eq!(MappingEntry::parse(&entry.to_bytes(Endian::Big), Endian::Big).unwrap(), entry);
            }
            let _ = (birth_count(bytes, Endian::Big), birth_entries(bytes, Endian::Big).count());
            let _ = obsolete_counts(bytes, Endian::Big).count();
        });
    }
}
