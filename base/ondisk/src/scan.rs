//! Scrub and resilver: their progress, so that they resume after an export.
//!
//! `scan` in the object directory is an array of 24 words, `dsl_scan_phys_t`:
//!
//! | word  | field                            | since | meaning                                 |
//! |-------|----------------------------------|-------|-----------------------------------------|
//! | 0     | scn_func                         | v25   | [`ScanFunction`]                        |
//! | 1     | scn_state                        | v25   | [`ScanState`]                           |
//! | 2     | scn_queue_obj                    | v25   | ZAP of datasets still to visit          |
//! | 3     | scn_min_txg                      | v25   | only blocks born after it               |
//! | 4     | scn_max_txg                      | v25   | only blocks born up to it               |
//! | 5, 6  | scn_cur_min_txg, scn_cur_max_txg | v25   | the same, for the dataset being visited |
//! | 7, 8  | scn_start_time, scn_end_time     | v25   | seconds since 1970                      |
//! | 9     | scn_to_examine                   | v25   | bytes to examine                        |
//! | 10    | scn_examined                     | v25   | bytes examined                          |
//! | 11    | scn_skipped                      | v25   | bytes skipped (word of the removed      |
//! |       |                                  |       | scn_to_process)                         |
//! | 12    | scn_processed                    | v25   | bytes repaired                          |
//! | 13    | scn_errors                       | v25   | errors that could not be repaired       |
//! | 14    | scn_ddt_class_max                | v25   | last class of dedup tables to visit     |
//! | 15-18 | scn_ddt_bookmark                 | v25   | position in the dedup tables: class,    |
//! |       |                                  |       | type, checksum, cursor                  |
//! | 19-22 | scn_bookmark                     | v25   | position: objset, object, level, block  |
//! | 23    | scn_flags                        | v25   | 1 visit the dataset again, 2 paused     |
//!
//! A scrub (1) that finished (2), of txgs up to 37, in one second, 1297408 bytes:
//!
//! ```text
//! 00000000  01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  |................|
//! 00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000020  25 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  |%...............|
//! 00000030  25 00 00 00 00 00 00 00  c5 70 01 6b 00 00 00 00  |%........p.k....|
//! 00000040  c6 70 01 6b 00 00 00 00  00 cc 13 00 00 00 00 00  |.p.k............|
//! 00000050  00 cc 13 00 00 00 00 00  00 48 02 00 00 00 00 00  |.........H......|
//! ```
//!
//! `error_scrub` is an array of nine words, see [`ErrorScrub`].
//!
//! Source: include/sys/dsl_scan.h, include/sys/fs/zfs.h.

use crate::errlog::ErrorBookmark;
use crate::error::{Error, Result};
use crate::types::Txg;
use crate::zap::first_words;

/// The kind of scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in the format.
pub enum ScanFunction {
    None = 0,
    Scrub = 1,
    Resilver = 2,
    ErrorScrub = 3,
}

impl ScanFunction {
    /// Decodes the value on disk.
    pub fn from_raw(raw: u64) -> Result<Self> {
        Ok(match raw {
            0 => Self::None,
            1 => Self::Scrub,
            2 => Self::Resilver,
            3 => Self::ErrorScrub,
            other => return Err(Error::corrupt("dsl_scan_phys", "scn_func", other, "0 to 3")),
        })
    }
}

/// The state of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in the format.
pub enum ScanState {
    None = 0,
    Scanning = 1,
    Finished = 2,
    Canceled = 3,
    ErrorScrubbing = 4,
}

impl ScanState {
    /// Decodes the value on disk.
    pub fn from_raw(raw: u64) -> Result<Self> {
        Ok(match raw {
            0 => Self::None,
            1 => Self::Scanning,
            2 => Self::Finished,
            3 => Self::Canceled,
            4 => Self::ErrorScrubbing,
            other => return Err(Error::corrupt("dsl_scan_phys", "scn_state", other, "0 to 4")),
        })
    }
}

/// State of the current or last scrub or resilver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    pub function: ScanFunction,
    pub state: ScanState,
    /// ZAP of the datasets still to visit.
    pub queue_object: u64,
    /// Only blocks born after this txg are visited.
    pub min_txg: Txg,
    /// Only blocks born up to this txg are visited.
    pub max_txg: Txg,
    /// Lower bound for the dataset being visited.
    pub current_min_txg: Txg,
    /// Upper bound for the dataset being visited.
    pub current_max_txg: Txg,
    /// Start time in seconds since 1970.
    pub start_time: u64,
    /// End time in seconds since 1970.
    pub end_time: u64,
    pub to_examine_bytes: u64,
    pub examined_bytes: u64,
    pub skipped_bytes: u64,
    /// Bytes repaired.
    pub processed_bytes: u64,
    /// Number of errors that could not be repaired.
    pub errors: u64,
    /// Last class of dedup tables to visit.
    pub ddt_class_max: u64,
    /// Position in the dedup tables: class, type, checksum, cursor.
    pub ddt_bookmark: [u64; 4],
    /// Position in a dataset.
    pub bookmark: ErrorBookmark,
    /// A combination of [`Scan::FLAG_VISIT_AGAIN`], [`Scan::FLAG_PAUSED`] and
    /// [`Scan::FLAG_THOROUGH`].
    pub flags: u64,
}

impl Scan {
    /// Number of words of the ZAP value.
    pub const WORDS: usize = 24;
    /// The dataset must be visited again.
    pub const FLAG_VISIT_AGAIN: u64 = 1;
    /// Paused by the administrator.
    pub const FLAG_PAUSED: u64 = 2;
    /// Reads every copy, even where one would suffice (OpenZFS master).
    pub const FLAG_THOROUGH: u64 = 4;

    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let w: [u64; Self::WORDS] = first_words("dsl_scan_phys", words)?;
        Ok(Self {
            function: ScanFunction::from_raw(w[0])?,
            state: ScanState::from_raw(w[1])?,
            queue_object: w[2],
            min_txg: Txg(w[3]),
            max_txg: Txg(w[4]),
            current_min_txg: Txg(w[5]),
            current_max_txg: Txg(w[6]),
            start_time: w[7],
            end_time: w[8],
            to_examine_bytes: w[9],
            examined_bytes: w[10],
            skipped_bytes: w[11],
            processed_bytes: w[12],
            errors: w[13],
            ddt_class_max: w[14],
            ddt_bookmark: [w[15], w[16], w[17], w[18]],
            bookmark: ErrorBookmark { objset: w[19], object: w[20], level: w[21] as i64, block: w[22] },
            flags: w[23],
        })
    }

    /// Encodes the words of the ZAP value.
    pub fn to_words(&self) -> [u64; Self::WORDS] {
        let [class, kind, checksum, cursor] = self.ddt_bookmark;
        [
            self.function as u64,
            self.state as u64,
            self.queue_object,
            self.min_txg.0,
            self.max_txg.0,
            self.current_min_txg.0,
            self.current_max_txg.0,
            self.start_time,
            self.end_time,
            self.to_examine_bytes,
            self.examined_bytes,
            self.skipped_bytes,
            self.processed_bytes,
            self.errors,
            self.ddt_class_max,
            class,
            kind,
            checksum,
            cursor,
            self.bookmark.objset,
            self.bookmark.object,
            self.bookmark.level as u64,
            self.bookmark.block,
            self.flags,
        ]
    }
}

/// State of the last error scrub, which reads only the blocks in the error log
/// (`dsl_errorscrub_phys_t`, in the order of its nine words).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorScrub {
    pub function: ScanFunction,
    pub state: ScanState,
    /// Position in the error log.
    pub cursor: u64,
    /// Start time in seconds since 1970.
    pub start_time: u64,
    /// End time in seconds since 1970.
    pub end_time: u64,
    /// Number of blocks to examine.
    pub to_examine: u64,
    /// Number of blocks examined.
    pub examined: u64,
    /// Number of errors found again.
    pub errors: u64,
    /// Non-zero: paused.
    pub paused: u64,
}

impl ErrorScrub {
    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let [function, state, cursor, start_time, end_time, to_examine, examined, errors, paused] =
            first_words("dsl_errorscrub_phys", words)?;
        Ok(Self {
            function: ScanFunction::from_raw(function)?,
            state: ScanState::from_raw(state)?,
            cursor,
            start_time,
            end_time,
            to_examine,
            examined,
            errors,
            paused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, golden_words};

    #[test]
    fn finished_scrub_writes_back() {
        let words = golden_words(golden!("scan.bin"));
        let scan = Scan::from_words(&words).unwrap();
        assert_eq!((scan.function, scan.state, scan.max_txg), (ScanFunction::Scrub, ScanState::Finished, Txg(37)));
        assert_eq!((scan.start_time, scan.end_time, scan.errors), (1795256517, 1795256518, 0));
        assert_eq!((scan.examined_bytes, scan.skipped_bytes), (1297408, 149504));
        assert_eq!(scan.to_words()[..], words);
    }

    #[test]
    fn short_values_and_strange_states_are_refused() {
        let mut words = golden_words(golden!("scan.bin"));
        assert!(Scan::from_words(&words[..23]).is_err());
        words[1] = 5;
        assert_eq!(Scan::from_words(&words).unwrap_err().to_string(), "dsl_scan_phys: scn_state is 5, expected 0 to 4");
        assert!(ErrorScrub::from_words(&[3, 4, 0, 0, 0, 0, 0, 0, 1]).is_ok());
        assert!(ErrorScrub::from_words(&[4; 9]).is_err());
    }
}
