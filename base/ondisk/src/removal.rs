//! State of long-running work on a top-level vdev: removal, condensing of its mapping, rebuild.
//!
//! Each is an array of 64-bit words in a ZAP, extended over time. `com.delphix:removing` in the
//! object directory is `spa_removing_phys_t`. For the mappings see [`crate::indirect`].
//!
//! | word | field                 | since          | meaning                                |
//! |------|-----------------------|----------------|----------------------------------------|
//! | 0    | sr_state              | device_removal | [`ScanState`]                          |
//! | 1    | sr_removing_vdev      | device_removal | device being removed; all ones: none   |
//! | 2    | sr_prev_indirect_vdev | device_removal | device removed last; all ones: none    |
//! | 3    | sr_start_time         | device_removal | seconds since 1970                     |
//! | 4    | sr_end_time           | device_removal | seconds since 1970                     |
//! | 5    | sr_to_copy            | device_removal | bytes to copy                          |
//! | 6    | sr_copied             | device_removal | bytes copied, or freed in the meantime |
//!
//! Vdev 1 was removed (state 2); 7 words of 8 bytes:
//!
//! ```text
//! 00000000  02 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  |................|
//! 00000010  01 00 00 00 00 00 00 00  6f 72 01 6b 00 00 00 00  |........or.k....|
//! 00000020  6f 72 01 6b 00 00 00 00  00 f0 09 00 00 00 00 00  |or.k............|
//! 00000030  00 f0 09 00 00 00 00 00                           |........|
//! ```
//!
//! `com.delphix:condensing_indirect` is three words: vdev, old obsolete space map, new mapping.
//! `org.openzfs:vdev_rebuild` in the ZAP of a top-level vdev is twelve words, see [`Rebuild`].
//!
//! Source: include/sys/spa_impl.h, include/sys/vdev_removal.h, include/sys/vdev_rebuild.h.

use crate::error::Result;
use crate::scan::ScanState;
use crate::types::Txg;
use crate::zap::first_words;

/// The removal in progress, or the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removing {
    pub state: ScanState,
    /// The vdev being removed.
    pub vdev: Option<u64>,
    /// The vdev removed last: the start of the chain of `prev_indirect_vdev`.
    pub previous_indirect_vdev: Option<u64>,
    /// Start time in seconds since 1970.
    pub start_time: u64,
    /// End time in seconds since 1970.
    pub end_time: u64,
    pub to_copy_bytes: u64,
    /// Bytes copied, or freed in the meantime.
    pub copied_bytes: u64,
}

impl Removing {
    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let [state, vdev, previous, start_time, end_time, to_copy_bytes, copied_bytes] =
            first_words("spa_removing_phys", words)?;
        let some = |v: u64| (v != u64::MAX).then_some(v);
        Ok(Self {
            state: ScanState::from_raw(state)?,
            vdev: some(vdev),
            previous_indirect_vdev: some(previous),
            start_time,
            end_time,
            to_copy_bytes,
            copied_bytes,
        })
    }

    /// Encodes the words of the ZAP value.
    pub fn to_words(&self) -> [u64; 7] {
        [
            self.state as u64,
            self.vdev.unwrap_or(u64::MAX),
            self.previous_indirect_vdev.unwrap_or(u64::MAX),
            self.start_time,
            self.end_time,
            self.to_copy_bytes,
            self.copied_bytes,
        ]
    }
}

/// A mapping being condensed: rewritten without its obsolete ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condensing {
    /// ID of the removed top-level vdev.
    pub vdev: u64,
    /// Object of the obsolete space map that is being condensed.
    pub previous_obsolete_space_map: u64,
    /// Object of the new mapping.
    pub next_mapping: u64,
}

impl Condensing {
    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let [vdev, previous_obsolete_space_map, next_mapping] = first_words("spa_condensing_indirect_phys", words)?;
        Ok(Self { vdev, previous_obsolete_space_map, next_mapping })
    }
}

/// A sequential rebuild (`vdev_rebuild_phys_t`), in the order of its twelve words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuild {
    /// 0 for none, or one of the constants below (`vdev_rebuild_state_t`).
    pub state: u64,
    /// Offset that the rebuild has reached, in bytes.
    pub last_offset_bytes: u64,
    /// The txg before the first missed one.
    pub min_txg: Txg,
    /// The txg after the last missed one.
    pub max_txg: Txg,
    /// Start time in seconds since 1970.
    pub start_time: u64,
    /// End time in seconds since 1970.
    pub end_time: u64,
    /// Running time in milliseconds.
    pub run_time_ms: u64,
    pub scanned_bytes: u64,
    /// Size of the ranges that were read.
    pub issued_bytes: u64,
    pub rebuilt_bytes: u64,
    /// Estimated size of the ranges to scan (`vrp_bytes_est`).
    pub total_bytes: u64,
    /// Number of ranges that could not be rebuilt.
    pub errors: u64,
}

impl Rebuild {
    /// The rebuild is running.
    pub const ACTIVE: u64 = 1;
    /// The rebuild was canceled.
    pub const CANCELLED: u64 = 2;
    /// The rebuild is complete.
    pub const COMPLETE: u64 = 3;

    /// Encodes the words of the ZAP value.
    pub fn to_words(&self) -> [u64; 12] {
        [
            self.state,
            self.last_offset_bytes,
            self.min_txg.0,
            self.max_txg.0,
            self.start_time,
            self.end_time,
            self.run_time_ms,
            self.scanned_bytes,
            self.issued_bytes,
            self.rebuilt_bytes,
            self.total_bytes,
            self.errors,
        ]
    }

    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let w: [u64; 12] = first_words("vdev_rebuild_phys", words)?;
        Ok(Self {
            state: w[0],
            last_offset_bytes: w[1],
            min_txg: Txg(w[2]),
            max_txg: Txg(w[3]),
            start_time: w[4],
            end_time: w[5],
            run_time_ms: w[6],
            scanned_bytes: w[7],
            issued_bytes: w[8],
            rebuilt_bytes: w[9],
            total_bytes: w[10],
            errors: w[11],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, golden_words};

    #[test]
    fn finished_removal_writes_back() {
        let words = golden_words(golden!("removing.bin"));
        let removing = Removing::from_words(&words).unwrap();
        assert_eq!((removing.state, removing.previous_indirect_vdev), (ScanState::Finished, Some(1)));
        assert_eq!(removing.copied_bytes, removing.to_copy_bytes);
        assert_eq!(removing.to_words()[..], words);
    }

    #[test]
    fn short_values_and_strange_states_are_refused() {
        let words = golden_words(golden!("removing.bin"));
        assert_eq!(
            Removing::from_words(&words[..6]).unwrap_err().to_string(),
            "spa_removing_phys: words is 6, expected at least 7"
        );
        let mut strange = words;
        strange[0] = 9;
        assert!(Removing::from_words(&strange).is_err());
        assert!(Condensing::from_words(&[1, 2]).is_err());
        assert_eq!(Condensing::from_words(&[1, 2, 3]).unwrap().next_mapping, 3);
        let words = std::array::from_fn(|number| number as u64 + 1);
        assert_eq!(Rebuild::from_words(&words).unwrap().to_words(), words);
    }
}
