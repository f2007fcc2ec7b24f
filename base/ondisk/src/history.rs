//! Pool history: every command that changed the pool, and internal events.
//!
//! The MOS object `history` begins with the records up to the pool's creation, which are kept
//! forever, followed by a ring buffer. A record is its length and an nvlist in native encoding (see
//! [`crate::nvlist::native`]):
//!
//! | offset | bytes | meaning                                         |
//! |--------|-------|-------------------------------------------------|
//! | 0x00   | 8     | size of the list in bytes, always little-endian |
//! | 0x08   |       | the list; see [`keys`] for its names            |
//!
//! The bonus, `spa_history_phys_t`. Offsets are logical; they only grow:
//!
//! | offset | bytes | field              | since | meaning                                |
//! |--------|-------|--------------------|-------|----------------------------------------|
//! | 0x00   | 8     | sh_pool_create_len | v4    | end of the records kept forever        |
//! | 0x08   | 8     | sh_phys_max_off    | v4    | end of the ring in the object          |
//! | 0x10   | 8     | sh_bof             | v4    | start of the oldest record of the ring |
//! | 0x18   | 8     | sh_eof             | v4    | end of the newest record               |
//! | 0x20   | 8     | sh_records_lost    | v4    | records overwritten                    |
//!
//! Start of a record: 240 bytes, native (0), little-endian (1), the pair `history command`, a
//! string (9):
//!
//! ```text
//! 00000000  f0 00 00 00 00 00 00 00  00 01 00 00 00 00 00 00  |................|
//! 00000010  01 00 00 00 38 00 00 00  10 00 00 00 01 00 00 00  |....8...........|
//! 00000020  09 00 00 00 68 69 73 74  6f 72 79 20 63 6f 6d 6d  |....history comm|
//! 00000030  61 6e 64 00 7a 66 73 20  63 72 65 61 74 65 20 74  |and.zfs create t|
//! 00000040  68 2f 66 73 00 00 00 00  00 00 00 00 28 00 00 00  |h/fs........(...|
//! 00000050  0d 00 00 00 01 00 00 00  09 00 00 00 68 69 73 74  |............hist|
//! ```
//!
//! Source: include/sys/spa.h, module/zfs/spa_history.c.

use std::ops::Range;

use crate::endian::{Endian, need, words};
use crate::error::{Error, Result};
use crate::nvlist::Nvlist;

/// Names in a record's nvlist (`ZPOOL_HIST_`).
pub mod keys {
    /// Time in seconds since 1970.
    pub const TIME: &str = "history time";
    pub const COMMAND: &str = "history command";
    /// User ID of the caller.
    pub const WHO: &str = "history who";
    pub const ZONE: &str = "history zone";
    pub const HOST: &str = "history hostname";
    /// Txg in which the record was written.
    pub const TXG: &str = "history txg";
    /// Internal event of old pools, an index into [`super::LEGACY_EVENTS`].
    pub const INTERNAL_EVENT: &str = "history internal event";
    /// Description of an internal event.
    pub const INTERNAL_TEXT: &str = "history internal str";
    /// Name of an internal event.
    pub const INTERNAL_NAME: &str = "internal_name";
    /// Name of an ioctl.
    pub const IOCTL: &str = "ioctl";
    /// Input of the ioctl.
    pub const INPUT: &str = "in_nvl";
    /// Output of the ioctl.
    pub const OUTPUT: &str = "out_nvl";
    /// Size in bytes of an output that was omitted.
    pub const OUTPUT_SIZE: &str = "out_size";
    pub const DATASET_NAME: &str = "dsname";
    /// Object number of the dataset.
    pub const DATASET_ID: &str = "dsid";
    /// Error number of the ioctl; missing if it succeeded.
    pub const ERRNO: &str = "errno";
    /// Duration of the ioctl in nanoseconds.
    pub const ELAPSED_NS: &str = "elapsed_ns";
}

/// Names of internal events of pools before feature flags.
pub const LEGACY_EVENTS: [&str; 41] = [
    "invalid event",
    "pool create",
    "vdev add",
    "pool remove",
    "pool destroy",
    "pool export",
    "pool import",
    "vdev attach",
    "vdev replace",
    "vdev detach",
    "vdev online",
    "vdev offline",
    "vdev upgrade",
    "pool clear",
    "pool scrub",
    "pool property set",
    "create",
    "clone",
    "destroy",
    "destroy_begin_sync",
    "inherit",
    "property set",
    "quota set",
    "permission update",
    "permission remove",
    "permission who remove",
    "promote",
    "receive",
    "rename",
    "reservation set",
    "replay_inc_sync",
    "replay_full_sync",
    "rollback",
    "snapshot",
    "filesystem version upgrade",
    "refquota set",
    "refreservation set",
    "pool scrub done",
    "user hold",
    "user release",
    "pool split",
];

/// Largest record accepted: OpenZFS omits output that would make a record larger. Guessed, with a
/// margin.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;

/// The bonus of the history object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// End of the records that are kept forever.
    pub create_end: u64,
    /// End of the ring in the object.
    pub physical_end: u64,
    /// Start of the oldest record in the ring.
    pub begin: u64,
    /// End of the newest record.
    pub end: u64,
    /// Number of records overwritten.
    pub records_lost: u64,
}

impl Header {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 40;

    /// Parses the bonus. Offsets that contradict each other are an error.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        let [create_end, physical_end, begin, end, records_lost] = words("spa_history_phys", bonus, endian)?;
        let ring = physical_end.checked_sub(create_end).filter(|r| *r > 0);
        let Some(ring) = ring else {
            return Err(Error::corrupt(
                "spa_history_phys",
                "sh_phys_max_off",
                physical_end,
                "more than sh_pool_create_len",
            ));
        };
        if begin < create_end || begin > end || end - begin > ring {
            let found = format!("{begin} to {end}");
            let expected = format!("at least {create_end}, at most {ring} bytes");
            return Err(Error::corrupt("spa_history_phys", "sh_bof to sh_eof", found, expected));
        }
        Ok(Self { create_end, physical_end, begin, end, records_lost })
    }

    pub fn to_bytes(&self, endian: Endian) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        let words = [self.create_end, self.physical_end, self.begin, self.end, self.records_lost];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            endian.put_u64(chunk, word);
        }
        out
    }

    /// The ranges of the object that contain all records in order: those kept forever, then the
    /// ring from its oldest record, in one or two parts.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let [first, second] = self.pieces(self.begin, self.end - self.begin);
        [0..self.create_end, first, second].into_iter().filter(|r| !r.is_empty()).collect()
    }

    /// Byte ranges in the object of `length` bytes of the ring, starting at logical offset `from`.
    /// The second range may be empty.
    pub fn pieces(&self, from: u64, length: u64) -> [Range<u64>; 2] {
        let ring = self.physical_end - self.create_end;
        let start = (from - self.create_end) % ring + self.create_end;
        let first = length.min(self.physical_end - start);
        [start..start + first, self.create_end..self.create_end + (length - first)]
    }
}

/// Iterates over the records in the data of [`Header::ranges`]. Ends after the first record with an
/// invalid length.
pub fn records(bytes: &[u8]) -> Records<'_> {
    Records { rest: bytes }
}

/// Iterator returned by [`records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    fn packed(&mut self) -> Result<&'a [u8]> {
        need("history record", self.rest, 8)?;
        let length = Endian::Little.u64(self.rest);
        let packed = usize::try_from(length)
            .ok()
            .filter(|_| length <= MAX_RECORD_BYTES)
            .and_then(|n| self.rest[8..].get(..n))
            .ok_or_else(|| {
                let expected = format!("at most {}", self.rest.len() - 8);
                Error::corrupt("history record", "length", length, expected)
            })?;
        self.rest = &self.rest[8 + packed.len()..];
        Ok(packed)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Nvlist>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let packed = self.packed();
        if packed.is_err() {
            self.rest = &[];
        }
        Some(packed.and_then(Nvlist::parse))
    }
}

/// Encodes a record for appending: length and nvlist.
pub fn write_record(list: &Nvlist, endian: Endian) -> Vec<u8> {
    let packed = list.to_native(endian);
    let mut out = (packed.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(&packed);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn records_of_a_real_pool_write_back() {
        let bytes = golden!("history.bin");
        let all: Vec<_> = records(bytes).collect::<Result<_>>().unwrap();
        assert_eq!(all.len(), 3);
        assert!(all[0].get_str(keys::COMMAND).unwrap().starts_with("zfs create"));
        assert_eq!(all[0].get_str(keys::HOST), Some("oracle"));
        assert!(all[1].get_str(keys::INTERNAL_NAME).is_some());
        let back: Vec<u8> = all.iter().flat_map(|r| write_record(r, Endian::Little)).collect();
        assert_eq!(back, bytes);
        let bonus = golden!("history_bonus.bin");
        let header = Header::parse(bonus, Endian::Little).unwrap();
        assert_eq!((header.create_end, header.end, header.records_lost), (12624, 41196, 0));
        assert_eq!(header.ranges(), [0..12624, 12624..41196]);
        assert_eq!(header.to_bytes(Endian::Little), bonus);
    }

    #[test]
    fn a_ring_that_has_wrapped_comes_in_two_pieces() {
        let header = Header { create_end: 100, physical_end: 200, begin: 380, end: 450, records_lost: 9 };
        assert_eq!(header.ranges(), [0..100, 180..200, 100..150]);
        let wrong = Header { end: 481, ..header };
        assert!(Header::parse(&wrong.to_bytes(Endian::Big), Endian::Big).is_err());
        let empty = Header { create_end: 200, ..header };
        assert!(Header::parse(&empty.to_bytes(Endian::Big), Endian::Big).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("history.bin"), |bytes| {
            let _ = records(bytes).count();
            if let Ok(header) = Header::parse(bytes, Endian::Little) {
                let _ = header.ranges();
            }
        });
    }
}
