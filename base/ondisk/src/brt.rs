//! Block reference table (BRT): how many additional references a cloned block has (reflinks, `cp
//! --reflink`).
//!
//! For each top-level vdev with clones the object directory has an entry
//! `com.fudosecurity:brt:vdev:N` ([`crate::pool_dir::brt`]). The object holds 16-bit counts of the
//! blocks with entries, one for each 16 MiB of the vdev, so that most frees need not consult the
//! table. Its bonus, `brt_vdev_phys_t`:
//!
//! | offset | bytes | field           | since         | meaning                                   |
//! |--------|-------|-----------------|---------------|-------------------------------------------|
//! | 0x00   | 8     | bvp_mos_entries | block_cloning | object of the entries                     |
//! | 0x08   | 8     | bvp_size        | block_cloning | number of counts                          |
//! | 0x10   | 8     | bvp_byteorder   | block_cloning | byte order of the counts: 0 little, 1 big |
//! | 0x18   | 8     | bvp_totalcount  | block_cloning | blocks with entries                       |
//! | 0x20   | 8     | bvp_rangesize   | block_cloning | bytes for each count, 16 MiB              |
//! | 0x28   | 8     | bvp_usedspace   | block_cloning | space of those blocks, counted once       |
//! | 0x30   | 8     | bvp_savedspace  | block_cloning | space saved by cloning                    |
//!
//! The entries are a ZAP. The key is one word, the block's offset on the vdev. The value is the
//! number of references beyond the first: 8 bytes in the writer's byte order or, with
//! block_cloning_endian, one 64-bit number.
//!
//! A vdev of 240 MiB with two cloned blocks of 752128 bytes each:
//!
//! ```text
//! 00000000  05 01 00 00 00 00 00 00  0f 00 00 00 00 00 00 00  |................|
//! 00000010  00 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  |................|
//! 00000020  00 00 00 01 00 00 00 00  00 f4 16 00 00 00 00 00  |................|
//! 00000030  00 f4 16 00 00 00 00 00                           |........|
//! ```
//!
//! Source: include/sys/brt_impl.h, module/zfs/brt.c.

use crate::endian::{Endian, words};
use crate::error::{Error, Result};

/// Bytes of a vdev covered by one count, unless the bonus differs.
pub const RANGE_BYTES: u64 = 16 << 20;

/// The bonus of a vdev's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Object of the entries.
    pub entries_object: u64,
    /// Number of 16-bit counts, one for each range of the vdev.
    pub counts: u64,
    /// Byte order of the counts.
    pub counts_endian: Endian,
    /// Number of blocks with entries.
    pub total_count: u64,
    /// Bytes that one count covers.
    pub range_bytes: u64,
    /// Space of those blocks in bytes, each counted once.
    pub used_bytes: u64,
    /// Space saved by cloning, in bytes.
    pub saved_bytes: u64,
}

impl Header {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 56;

    /// Parses the bonus. A byte order other than 0 and 1 is an error.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        let [entries_object, counts, order, total_count, range_bytes, used_bytes, saved_bytes] =
            words("brt_vdev_phys", bonus, endian)?;
        let counts_endian = match order {
            0 => Endian::Little,
            1 => Endian::Big,
            other => return Err(Error::corrupt("brt_vdev_phys", "bvp_byteorder", other, "0 or 1")),
        };
        Ok(Self { entries_object, counts, counts_endian, total_count, range_bytes, used_bytes, saved_bytes })
    }

    pub fn to_bytes(&self, endian: Endian) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        let order = u64::from(self.counts_endian == Endian::Big);
        let words = [
            self.entries_object,
            self.counts,
            order,
            self.total_count,
            self.range_bytes,
            self.used_bytes,
            self.saved_bytes,
        ];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            endian.put_u64(chunk, word);
        }
        out
    }
}

/// Decodes counts from a part of the object.
pub fn counts(bytes: &[u8], endian: Endian) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(move |b| endian.u16(b))
}

/// References beyond the first, from the value of an entry: integers of `int_bytes` each, as read
/// from the ZAP. `pool_endian` is the byte order in which the pool's host wrote the 8-byte form.
pub fn reference_count(int_bytes: u8, ints: &[u64], pool_endian: Endian) -> Result<u64> {
    match (int_bytes, ints) {
        (8, [count]) => Ok(*count),
        (1, ints) if ints.len() == 8 => {
            let bytes: [u8; 8] = std::array::from_fn(|i| ints[i] as u8);
            Ok(pool_endian.u64(&bytes))
        }
        _ => {
            let found = format!("{} integers of {int_bytes} bytes", ints.len());
            Err(Error::corrupt("brt entry", "value", found, "8 of 1 or 1 of 8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn table_of_a_pool_with_reflinks_adds_up_and_writes_back() {
        let bonus = golden!("brt_bonus.bin");
        let header = Header::parse(bonus, Endian::Little).unwrap();
        assert_eq!((header.entries_object, header.counts, header.range_bytes), (261, 15, RANGE_BYTES));
        assert_eq!((header.used_bytes, header.saved_bytes), (1504256, 1504256));
        let counts: Vec<_> = counts(golden!("brt_entcounts.bin"), header.counts_endian).collect();
        assert_eq!(counts.iter().map(|c| u64::from(*c)).sum::<u64>(), header.total_count);
        assert_eq!(header.to_bytes(Endian::Little), bonus);
    }

    #[test]
    fn entries_count_in_both_forms() {
        assert_eq!(reference_count(1, &[1, 0, 0, 0, 0, 0, 0, 0], Endian::Little).unwrap(), 1);
        assert_eq!(reference_count(1, &[0, 0, 0, 0, 0, 0, 0, 1], Endian::Big).unwrap(), 1);
        assert_eq!(reference_count(8, &[5], Endian::Little).unwrap(), 5);
        assert!(reference_count(1, &[1], Endian::Little).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("brt_bonus.bin"), |bytes| {
            let _ = Header::parse(bytes, Endian::Big);
            let _ = counts(bytes, Endian::Little).count();
        });
    }
}
