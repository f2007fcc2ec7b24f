//! Space map: a log of the allocations and frees in a region, stored as an object of 64-bit
//! entries.
//!
//! Replayed from the start, the entries yield the allocated ranges. Each metaslab has a space map,
//! and so do removed vdevs, checkpoints, dirty time logs (DTL) and, with log_spacemap, each txg for
//! all metaslabs together.
//!
//! In a device's DTL the unit is one txg: an "allocated" range is a range of txgs that the device
//! missed.
//!
//! The object's bonus, `space_map_phys_t`, is 24 bytes or, with spacemap_histogram, 320:
//!
//! | offset | bytes | field         | since              | meaning                           |
//! |--------|-------|---------------|--------------------|-----------------------------------|
//! | 0x00   | 8     | smp_object    | v1                 | object number, not used           |
//! | 0x08   | 8     | smp_length    | v1                 | bytes of entries                  |
//! | 0x10   | 8     | smp_alloc     | v1                 | bytes allocated, signed           |
//! | 0x18   | 40    | smp_pad       | spacemap_histogram | zero                              |
//! | 0x40   | 256   | smp_histogram | spacemap_histogram | free ranges by size: `\[i\]` from |
//! |        |       |               |                    | 2^(i+shift) bytes on              |
//!
//! Entries; the unit is a sector (`1 << ashift`), offsets count from the start of the region:
//!
//! | bits        | field    | meaning                       |
//! |-------------|----------|-------------------------------|
//! | ***debug**: the txg of the entries that follow; all zero but the prefix: padding |||
//! | 63-62       | prefix   | 10                            |
//! | 61-60       | action   | 0 allocations follow, 1 frees |
//! | 59-50       | syncpass | sync pass                     |
//! | 49-0        | txg      | txg                           |
//! | **one word** |||
//! | 63          | prefix   | 0                             |
//! | 62-16       | offset   | start                         |
//! | 15          | type     | 0 allocated, 1 freed          |
//! | 14-0        | run      | length - 1                    |
//! | **two words** (spacemap_v2), never across a block's end |||
//! | 63-62       | prefix   | 11                            |
//! | 59-24       | run      | length - 1                    |
//! | 23-0        | vdev     | top-level device; 2^24: none  |
//! | second 63   | type     | 0 allocated, 1 freed          |
//! | second 62-0 | offset   | start                         |
//!
//! A metaslab's map: the mark of txg 5, pass 1, then three allocations, 0x17 sectors at 0, 0x1f at
//! 0x18 ..:
//!
//! ```text
//! 00000000  05 00 00 00 00 00 04 80  16 00 00 00 00 00 00 00  |................|
//! 00000010  1e 00 18 00 00 00 00 00  10 00 38 00 00 00 00 00  |..........8.....|
//! ```
//!
//! Source: include/sys/space_map.h, module/zfs/space_map.c.

use std::ops::Range;

use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::types::Txg;

/// Number of histogram buckets.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Width of the vdev field of a two-word entry. The value for "no vdev" (`SM_NO_VDEVID`, 2^24) does
/// not fit: OpenZFS truncates it to 0, so a reader of a single vdev's map must ignore the field.
pub const VDEV_BITS: u32 = 24;

/// The bonus of a space map object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `smp_object`, not used.
    pub object: u64,
    /// Size of the entries in the object, in bytes.
    pub length_bytes: u64,
    /// Bytes allocated minus bytes freed by the entries.
    pub allocated_bytes: i64,
    /// Free ranges by size, if the pool records them.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

impl Header {
    /// Size in bytes without spacemap_histogram.
    pub const SIZE_V0_BYTES: usize = 24;
    /// Size in bytes with the histogram.
    pub const SIZE_BYTES: usize = 320;

    /// Parses a bonus of either size.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("space_map_phys", bonus, Self::SIZE_V0_BYTES)?;
        let histogram =
            (bonus.len() >= Self::SIZE_BYTES).then(|| std::array::from_fn(|i| endian.word(&bonus[0x40..], i)));
        let length_bytes = endian.word(bonus, 1);
        if !length_bytes.is_multiple_of(8) {
            return Err(Error::corrupt("space_map_phys", "smp_length", length_bytes, "a multiple of 8"));
        }
        Ok(Self {
            object: endian.word(bonus, 0),
            length_bytes,
            allocated_bytes: endian.word(bonus, 2) as i64,
            histogram,
        })
    }

    /// Encodes `SIZE_V0_BYTES`, or `SIZE_BYTES` with a histogram.
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let size = if self.histogram.is_some() { Self::SIZE_BYTES } else { Self::SIZE_V0_BYTES };
        let mut out = vec![0; size];
        endian.put_u64(&mut out, self.object);
        endian.put_u64(&mut out[8..], self.length_bytes);
        endian.put_u64(&mut out[16..], self.allocated_bytes as u64);
        for (i, count) in self.histogram.iter().flatten().enumerate() {
            endian.put_u64(&mut out[0x40 + i * 8..], *count);
        }
        out
    }
}

/// What happened to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Alloc,
    Free,
}

/// An allocated or freed range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    pub action: Action,
    /// Start in units, from the start of the map's region.
    pub offset_units: u64,
    /// Length in units, 1 to 2^36.
    pub run_units: u64,
    /// Top-level vdev of a two-word entry. Meaningful in log space maps only.
    pub vdev: Option<u32>,
}

impl Entry {
    /// The range in bytes, for a map with units of `1 << shift` bytes and a region at
    /// `start_bytes`.
    pub fn range_bytes(&self, shift: u32, start_bytes: u64) -> Result<Range<u64>> {
        let scale = |units: u64| units.checked_mul(1u64.checked_shl(shift)?);
        let range = || {
            let start = start_bytes.checked_add(scale(self.offset_units)?)?;
            Some(start..start.checked_add(scale(self.run_units)?)?)
        };
        range().ok_or_else(|| {
            let found = format!("{:#x}+{:#x} << {shift}", self.offset_units, self.run_units);
            Error::corrupt("space_map", "entry", found, "a range below 2^64")
        })
    }
}

/// An entry of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Item {
    /// A mark: the txg and pass of the entries that follow.
    Debug {
        /// What the entries that follow record.
        action: Action,
        /// Sync pass of the txg.
        pass: u16,
        /// Low 50 bits of the txg; 0: padding.
        txg: Txg,
    },
    /// An allocated or freed range.
    Range(Entry),
}

impl Item {
    /// Appends the entry's one or two words, preceded by padding if two words would cross a block
    /// of `block_bytes`.
    pub fn write(&self, out: &mut Vec<u8>, endian: Endian, block_bytes: usize) {
        let mut put = |word: u64| {
            let at = out.len();
            out.resize(at + 8, 0);
            endian.put_u64(&mut out[at..], word);
            out.len()
        };
        match *self {
            Self::Debug { action, pass, txg } => {
                let action = u64::from(action == Action::Free);
                put((2 << 62) | (action << 60) | (u64::from(pass & 0x3ff) << 50) | (txg.0 & ((1 << 50) - 1)));
            }
            Self::Range(Entry { action, offset_units, run_units, vdev: None }) => {
                put((offset_units << 16) | (u64::from(action == Action::Free) << 15) | (run_units - 1));
            }
            Self::Range(Entry { action, offset_units, run_units, vdev: Some(vdev) }) => {
                let first = (3 << 62) | ((run_units - 1) << VDEV_BITS) | u64::from(vdev);
                let end = put(first);
                if end.is_multiple_of(block_bytes) {
                    // The first word would be the last of a block: pad and start in the next block.
                    let at = end - 8;
                    endian.put_u64(&mut out[at..], 2 << 62);
                    return self.write(out, endian, block_bytes);
                }
                put((u64::from(action == Action::Free) << 63) | offset_units);
            }
        }
    }
}

/// All entries in a block of a space map object, including marks. The caller truncates the last
/// block at `smp_length`.
pub fn items(block: &[u8], endian: Endian) -> Items<'_> {
    Items { words: block.chunks_exact(8), endian }
}

/// The ranges in a block of a space map object.
pub fn entries(block: &[u8], endian: Endian) -> impl Iterator<Item = Result<Entry>> + '_ {
    items(block, endian).filter_map(|item| match item {
        Ok(Item::Range(entry)) => Some(Ok(entry)),
        Ok(Item::Debug { .. }) => None,
        Err(e) => Some(Err(e)),
    })
}

/// Iterator returned by [`items`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    words: std::slice::ChunksExact<'a, u8>,
    endian: Endian,
}

impl Iterator for Items<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let word = self.endian.u64(self.words.next()?);
        let action = |free: u64| if free & 1 != 0 { Action::Free } else { Action::Alloc };
        Some(match word >> 62 {
            2 => match (word >> 60) & 3 {
                which @ 0..=1 => {
                    let (pass, txg) = (((word >> 50) & 0x3ff) as u16, Txg(word & ((1 << 50) - 1)));
                    Ok(Item::Debug { action: action(which), pass, txg })
                }
                other => Err(Error::corrupt("space_map", "debug action", other, "0 or 1")),
            },
            3 => match self.words.next().map(|w| self.endian.u64(w)) {
                Some(second) => Ok(Item::Range(Entry {
                    action: action(second >> 63),
                    offset_units: second & !(1 << 63),
                    run_units: ((word >> VDEV_BITS) & ((1 << 36) - 1)) + 1,
                    vdev: Some((word & 0xff_ffff) as u32),
                })),
                None => {
                    Err(Error::corrupt("space_map", "two-word entry", "truncated by the end of the map", "two words"))
                }
            },
            _ => Ok(Item::Range(Entry {
                action: action(word >> 15),
                offset_units: (word >> 16) & ((1 << 47) - 1),
                run_units: (word & 0x7fff) + 1,
                vdev: None,
            })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    fn rewrite(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        items(bytes, Endian::Little).for_each(|i| i.unwrap().write(&mut out, Endian::Little, 128 << 10));
        out
    }

    #[test]
    fn metaslab_map_matches_zdb_and_is_encoded_back() {
        let bytes = golden!("spacemap_v1.bin");
        let all: Vec<_> = items(bytes, Endian::Little).collect::<Result<_>>().unwrap();
        assert_eq!(all[0], Item::Debug { action: Action::Alloc, pass: 1, txg: Txg(5) });
        let ranges: Vec<_> = entries(bytes, Endian::Little)
            .map(|e| e.unwrap())
            .map(|e| (e.action, e.range_bytes(9, 0).unwrap()))
            .collect();
        // zdb: A range 0-2e00, 3000-6e00, 7000-9200; later F range 0-1000.
        assert_eq!(ranges[0], (Action::Alloc, 0..0x2e00));
        assert_eq!(ranges[1], (Action::Alloc, 0x3000..0x6e00));
        assert_eq!(ranges[2], (Action::Alloc, 0x7000..0x9200));
        assert!(ranges.contains(&(Action::Free, 0..0x1000)));
        let header = Header::parse(golden!("spacemap_bonus.bin"), Endian::Little).unwrap();
        assert_eq!((header.length_bytes, header.allocated_bytes), (0x1a0, 0xb0000));
        assert_eq!(header.length_bytes as usize, bytes.len());
        let sum: i64 =
            ranges.iter().map(|(a, r)| (r.end - r.start) as i64 * if *a == Action::Alloc { 1 } else { -1 }).sum();
        assert_eq!(sum, header.allocated_bytes);
        assert_eq!(rewrite(bytes), bytes);
        assert_eq!(header.to_bytes(Endian::Little), golden!("spacemap_bonus.bin"));
    }

    #[test]
    fn log_map_names_the_device_and_writes_back() {
        let bytes = golden!("spacemap_log.bin");
        let ranges: Vec<_> = entries(bytes, Endian::Little).map(|e| e.unwrap()).collect();
        assert_eq!(ranges.len(), 36);
        assert!(ranges.iter().all(|e| e.vdev == Some(0)));
        let sum: i64 =
            ranges.iter().map(|e| (e.run_units << 9) as i64 * if e.action == Action::Alloc { 1 } else { -1 }).sum();
        assert_eq!(sum, -3072);
        assert_eq!(rewrite(bytes), bytes);
    }

    #[test]
    fn two_word_entries_do_not_cross_a_block() {
        let entry = Entry { action: Action::Free, offset_units: 1 << 50, run_units: 1 << 36, vdev: Some(7) };
        let mut bytes = Vec::new();
        Item::Debug { action: Action::Free, pass: 2, txg: Txg(9) }.write(&mut bytes, Endian::Big, 32);
        for _ in 0..2 {
            Item::Range(entry).write(&mut bytes, Endian::Big, 32);
        }
        assert_eq!(bytes.len(), 48);
        let back: Vec<_> = items(&bytes, Endian::Big).map(|i| i.unwrap()).collect();
        let padding = Item::Debug { action: Action::Alloc, pass: 0, txg: Txg(0) };
        assert_eq!(back[1..], [Item::Range(entry), padding, Item::Range(entry)]);
    }

    #[test]
    fn ranges_beyond_64_bits_are_refused() {
        let entry = Entry { action: Action::Free, offset_units: 1 << 62, run_units: 1, vdev: Some(0) };
        assert!(entry.range_bytes(9, 0).is_err());
        assert!(entry.range_bytes(64, 0).is_err());
        assert!(entry.range_bytes(1, u64::MAX).is_err());
        assert_eq!(entry.range_bytes(1, 0).unwrap(), 1 << 63..(1 << 63) + 2);
    }

    #[test]
    fn old_bonus_has_no_histogram() {
        let bonus = &golden!("spacemap_bonus.bin")[..24];
        let header = Header::parse(bonus, Endian::Little).unwrap();
        assert_eq!(header.histogram, None);
        assert_eq!(header.to_bytes(Endian::Little), bonus);
    }

    #[test]
    fn no_bytes_panic() {
        for real in [golden!("spacemap_v1.bin"), golden!("spacemap_log.bin"), golden!("spacemap_bonus.bin")] {
            never_panics(real, |bytes| {
                let _ = Header::parse(bytes, Endian::Big);
                for entry in entries(bytes, Endian::Little).flatten() {
                    let _ = entry.range_bytes(9, 0);
                }
            });
        }
    }
}
