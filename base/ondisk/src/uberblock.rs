//! Uberblock: the root of the pool. Each txg writes one into a ring on every device; the newest
//! valid one is the current state of the pool.
//!
//! | offset | bytes | field                | since            | meaning                           |
//! |--------|-------|----------------------|------------------|-----------------------------------|
//! | 0x00   | 8     | ub_magic             | v1               | 0x00bab10c, writer's order        |
//! | 0x08   | 8     | ub_version           | v1               | pool version; 5000: feature flags |
//! | 0x10   | 8     | ub_txg               | v1               | txg; the highest valid one wins   |
//! | 0x18   | 8     | ub_guid_sum          | v1               | sum of the guids of all devices   |
//! | 0x20   | 8     | ub_timestamp         | v1               | seconds since 1970                |
//! | 0x28   | 128   | ub_rootbp            | v1               | pointer to the MOS                |
//! | 0xa8   | 8     | ub_software_version  | v26              | highest version the writer knew   |
//! | 0xb0   | 8     | ub_mmp_magic         | multihost        | 0xa11cea11: next two words valid  |
//! | 0xb8   | 8     | ub_mmp_delay         | multihost        | nanoseconds since the last        |
//! |        |       |                      |                  | heartbeat; 0: off                 |
//! | 0xc0   | 8     | ub_mmp_config        | multihost        | bits 0-7 valid, 8-31 interval     |
//! |        |       |                      |                  | (ms), 32-47 sequence, 48-63 fail  |
//! |        |       |                      |                  | intervals                         |
//! | 0xc8   | 8     | ub_checkpoint_txg    | zpool_checkpoint | 0: not a checkpoint               |
//! | 0xd0   | 8     | ub_raidz_reflow_info | raidz_expansion  | bits 0-54 offset in sectors,      |
//! |        |       |                      |                  | 55-63 state of the scratch area   |
//!
//! The rest of the slot is zero except its checksum in the last 40 bytes
//! ([`crate::label::Trailer`]). The uberblock of txg 4 of a new raidz1 pool:
//!
//! ```text
//! 00000000  0c b1 ba 00 00 00 00 00  88 13 00 00 00 00 00 00  |................| magic, v5000
//! 00000010  04 00 00 00 00 00 00 00  99 ee 4b 1d f3 cf 16 4d  |..........K....M| txg 4, GUID sum
//! 00000020  69 6d 01 6b 00 00 00 00  02 00 00 00 00 00 00 00  |im.k............| 2026-11-21, root
//! ...
//! 000000a0  d0 fe 9c 26 86 97 23 00  88 13 00 00 00 00 00 00  |...&..#.........| .. end, software
//! 000000b0  11 ea 1c a1 00 00 00 00  00 00 00 00 00 00 00 00  |................| multihost off
//! ...
//! 000003d0  00 00 00 00 00 00 00 00  11 7a 0c b1 7a da 10 02  |.........z..z...| trailer
//! ```
//!
//! Source: include/sys/uberblock_impl.h.

use std::cmp::Ordering;

use crate::blkptr::{self, BlkPtr};
use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::types::Txg;

/// `UBERBLOCK_MAGIC`, "oo-ba-bloc!".
pub const MAGIC: u64 = 0x00ba_b10c;
/// `MMP_MAGIC`, "all-see-all".
pub const MMP_MAGIC: u64 = 0xa11c_ea11;
/// First pool version with feature flags; versions 29 to 4999 do not exist.
pub const VERSION_FEATURES: u64 = 5000;

/// The multihost (MMP) fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multihost {
    /// Nanoseconds since the last heartbeat; 0: multihost is off.
    pub delay_ns: u64,
    /// `ub_mmp_config`, packed.
    pub config: u64,
}

impl Multihost {
    /// Written while multihost is off.
    pub const OFF: Self = Self { delay_ns: 0, config: 0 };

    /// The fields of a heartbeat. `delay_ns`: average time between two of them. `interval_ms`: less
    /// than 2^24, or the largest such number is stored.
    pub fn heartbeat(delay_ns: u64, interval_ms: u32, sequence: u16, fail_intervals: u16) -> Self {
        const VALID: u64 = 1 | 2 | 4;
        let interval = u64::from(interval_ms.min(0xff_ffff));
        let config = VALID | interval << 8 | u64::from(sequence) << 32 | u64::from(fail_intervals) << 48;
        Self { delay_ns, config }
    }

    /// Whether multihost is on.
    pub fn is_on(&self) -> bool {
        self.delay_ns > 0
    }

    /// Milliseconds between heartbeats; `None` if the writer did not record it.
    pub fn interval_ms(&self) -> Option<u32> {
        (self.config & 1 != 0).then_some(((self.config >> 8) & 0xff_ffff) as u32)
    }

    /// Sequence number of the heartbeat within a second.
    pub fn sequence(&self) -> Option<u16> {
        (self.config & 2 != 0).then_some((self.config >> 32) as u16)
    }

    /// Intervals without a heartbeat after which the writer suspends the pool; 0: it does not.
    pub fn fail_intervals(&self) -> Option<u16> {
        (self.config & 4 != 0).then_some((self.config >> 48) as u16)
    }
}

/// State of the scratch area in which a RAID-Z expansion stores the first sectors it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format, without RRSS_.
pub enum ScratchState {
    NotInUse,
    /// The scratch area is valid instead of the device's own sectors.
    Valid,
    InvalidSynced,
    InvalidSyncedOnImport,
    InvalidSyncedReflow,
    Unknown(u16),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uberblock {
    /// Pool version, 1 to 28 or 5000.
    pub version: u64,
    /// The txg that wrote this uberblock.
    pub txg: Txg,
    /// Sum of the GUIDs of all vdevs; wraps.
    pub guid_sum: u64,
    /// Time of writing in seconds since 1970.
    pub timestamp: u64,
    /// Pointer to the MOS.
    pub root: BlkPtr,
    /// Highest version known to the writer.
    pub software_version: u64,
    /// Multihost fields, if the writer supported them.
    pub multihost: Option<Multihost>,
    /// Non-zero: this is a checkpoint, taken in that txg.
    pub checkpoint_txg: Txg,
    /// `ub_raidz_reflow_info`, packed.
    pub raidz_reflow: u64,
    /// Byte order of the writer.
    pub endian: Endian,
}

impl Uberblock {
    /// Size of the structure in bytes; the slot is larger.
    pub const SIZE_BYTES: usize = 0xd8;

    /// Parses the uberblock at the start of a slot, in either byte order. The caller verifies the
    /// slot's checksum and decides which versions it can open.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        need("uberblock", bytes, Self::SIZE_BYTES)?;
        let endian = if Endian::Little.u64(bytes) == MAGIC {
            Endian::Little
        } else if Endian::Big.u64(bytes) == MAGIC {
            Endian::Big
        } else {
            let found = format!("{:#x}", Endian::Little.u64(bytes));
            return Err(Error::corrupt("uberblock", "ub_magic", found, "0xbab10c"));
        };
        let word = |at: usize| endian.u64(&bytes[at..]);
        let version = word(0x08);
        if version == 0 {
            return Err(Error::corrupt("uberblock", "ub_version", version, "1 to 28 or 5000"));
        }
        let multihost = Multihost { delay_ns: word(0xb8), config: word(0xc0) };
        Ok(Self {
            version,
            txg: Txg(word(0x10)),
            guid_sum: word(0x18),
            timestamp: word(0x20),
            root: BlkPtr::parse(&bytes[0x28..], endian)?,
            software_version: word(0xa8),
            multihost: (word(0xb0) == MMP_MAGIC).then_some(multihost),
            checkpoint_txg: Txg(word(0xc8)),
            raidz_reflow: word(0xd0),
            endian,
        })
    }

    /// Decodes the uberblock of the checkpoint, which the MOS object directory stores as an array
    /// of numbers ([`crate::pool_dir::directory::ZPOOL_CHECKPOINT`]).
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let mut bytes: Vec<u8> = words.iter().take(Self::SIZE_BYTES / 8).flat_map(|w| w.to_ne_bytes()).collect();
        // Writers that did not know the last fields omitted them.
        if bytes.len() >= 0xb0 {
            bytes.resize(Self::SIZE_BYTES, 0);
        }
        Self::parse(&bytes)
    }

    /// Encodes the words for the object directory, the inverse of [`Uberblock::from_words`].
    pub fn to_words(&self) -> Vec<u64> {
        let bytes = self.to_bytes();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
    }

    /// Encodes the structure, without the rest of the slot.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        let mut put = |at: usize, value: u64| self.endian.put_u64(&mut out[at..], value);
        put(0x00, MAGIC);
        put(0x08, self.version);
        put(0x10, self.txg.0);
        put(0x18, self.guid_sum);
        put(0x20, self.timestamp);
        put(0xa8, self.software_version);
        if let Some(m) = self.multihost {
            put(0xb0, MMP_MAGIC);
            put(0xb8, m.delay_ns);
            put(0xc0, m.config);
        }
        put(0xc8, self.checkpoint_txg.0);
        put(0xd0, self.raidz_reflow);
        out[0x28..0x28 + blkptr::SIZE_BYTES].copy_from_slice(&self.root.to_bytes(self.endian));
        out
    }

    /// Compares by txg, then time, then heartbeat sequence (none counts as 0); the greater one is
    /// newer.
    pub fn compare(&self, other: &Self) -> Ordering {
        let key = |u: &Self| (u.txg, u.timestamp, u.multihost.and_then(|m| m.sequence()).unwrap_or(0));
        key(self).cmp(&key(other))
    }

    /// Offset that a RAID-Z expansion has reached, in bytes of the vdev.
    pub fn reflow_offset_bytes(&self) -> u64 {
        (self.raidz_reflow & ((1 << 55) - 1)) << 9
    }

    /// State of a RAID-Z expansion's scratch area.
    pub fn reflow_state(&self) -> ScratchState {
        match self.raidz_reflow >> 55 {
            0 => ScratchState::NotInUse,
            1 => ScratchState::Valid,
            2 => ScratchState::InvalidSynced,
            3 => ScratchState::InvalidSyncedOnImport,
            4 => ScratchState::InvalidSyncedReflow,
            n => ScratchState::Unknown(n as u16),
        }
    }

    /// Whether this uberblock is a checkpoint.
    pub fn is_checkpoint(&self) -> bool {
        self.checkpoint_txg.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn little_endian_uberblock_matches_zdb_and_is_encoded_back() {
        let bytes = golden!("uberblock_le.bin");
        let ub = Uberblock::parse(bytes).unwrap();
        assert_eq!((ub.version, ub.txg, ub.guid_sum, ub.timestamp), (5000, Txg(4), 5554855833483603609, 1795255657));
        assert_eq!((ub.root.fill(), ub.root.logical_birth()), (47, Txg(4)));
        assert_eq!(ub.root.dva(2).offset_bytes, 0x200_7800);
        let mmp = ub.multihost.unwrap();
        assert_eq!((mmp.delay_ns, mmp.interval_ms(), mmp.sequence(), mmp.fail_intervals()), (0, None, None, None));
        assert_eq!((ub.reflow_state(), ub.reflow_offset_bytes()), (ScratchState::NotInUse, 0));
        assert_eq!(ub.to_bytes(), bytes[..Uberblock::SIZE_BYTES]);
    }

    #[test]
    fn big_endian_uberblock_of_2006_matches_zdb_and_is_encoded_back() {
        let bytes = golden!("uberblock_be.bin");
        let ub = Uberblock::parse(bytes).unwrap();
        assert_eq!((ub.endian, ub.txg, ub.guid_sum), (Endian::Big, Txg(47), 6507362269047887129));
        assert_eq!(ub.multihost, None);
        assert_eq!(ub.root.endian(), Endian::Big);
        assert_eq!(ub.to_bytes(), bytes[..Uberblock::SIZE_BYTES]);
    }

    #[test]
    fn checkpoint_is_an_uberblock_in_words() {
        let words = crate::testing::golden_words(golden!("checkpoint_uberblock.bin"));
        let ub = Uberblock::from_words(&words).unwrap();
        assert_eq!((ub.txg, ub.checkpoint_txg, ub.is_checkpoint()), (Txg(12), Txg(12), true));
        assert_eq!(ub.root.logical_birth(), Txg(10));
        assert_eq!(ub.to_words(), words);
        assert_eq!(Uberblock::from_words(&words[..26]).unwrap().raidz_reflow, 0);
        assert!(Uberblock::from_words(&words[..21]).is_err());
    }

    #[test]
    fn newest_is_by_round_then_time_then_heartbeat() {
        let old = Uberblock::parse(golden!("uberblock_le.bin")).unwrap();
        let heartbeat = |seq: u64| Some(Multihost { delay_ns: 1, config: (seq << 32) | 2 });
        let mut new = old.clone();
        assert_eq!(old.compare(&new), Ordering::Equal);
        new.multihost = heartbeat(1);
        assert_eq!(old.compare(&new), Ordering::Less);
        let older_round = Uberblock { txg: Txg(3), timestamp: u64::MAX, ..new.clone() };
        assert_eq!(older_round.compare(&new), Ordering::Less);
        let later = Uberblock { timestamp: old.timestamp + 1, ..old.clone() };
        assert_eq!(later.compare(&new), Ordering::Greater);
    }

    #[test]
    fn packed_words_are_split() {
        let m = Multihost { delay_ns: 0, config: 0x000a_0007_0003_e807 };
        assert_eq!((m.interval_ms(), m.sequence(), m.fail_intervals()), (Some(1000), Some(7), Some(10)));
        assert_eq!(Multihost::heartbeat(0, 1000, 7, 10), m);
        assert!(!m.is_on() && Multihost::heartbeat(5, 100, 0, 0).is_on());
        let largest = Multihost::heartbeat(u64::MAX, u32::MAX, u16::MAX, u16::MAX);
        let parts = (largest.interval_ms(), largest.sequence(), largest.fail_intervals());
        assert_eq!((parts, largest.config & 0xff), ((Some(0xff_ffff), Some(0xffff), Some(0xffff)), 7));
        let mut ub = Uberblock::parse(golden!("uberblock_le.bin")).unwrap();
        ub.raidz_reflow = (1 << 55) | 3;
        assert_eq!((ub.reflow_state(), ub.reflow_offset_bytes()), (ScratchState::Valid, 1536));
    }

    #[test]
    fn flipped_magic_and_version_are_named() {
        let mut bytes = golden!("uberblock_le.bin").to_vec();
        bytes[0] ^= 1;
        let error = Uberblock::parse(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "uberblock: ub_magic is 0xbab10d, expected 0xbab10c");
        bytes[0] ^= 1;
        bytes[8..10].fill(0);
        let error = Uberblock::parse(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "uberblock: ub_version is 0, expected 1 to 28 or 5000");
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("uberblock_le.bin"), |bytes| {
            if let Ok(ub) = Uberblock::parse(bytes) {
                let _ = (ub.compare(&ub), ub.reflow_state(), ub.to_bytes());
            }
        });
    }
}
