//! The log that an earlier import of the pool left in a dataset.

use ondisk::ZilHeader;

/// A log found when the dataset was opened.
pub(super) struct Old {
    pub header: ZilHeader,
    /// Free the log in this txg.
    pub destroy_txg: Option<u64>,
    /// Records of it were skipped: it is kept until it is discarded.
    pub is_kept: bool,
}

impl Old {
    pub fn new(header: ZilHeader) -> Self {
        Self { header, destroy_txg: None, is_kept: false }
    }
}
