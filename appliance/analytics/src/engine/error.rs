//! Why a request to the engine failed.

use crate::name::BadName;
use std::io;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The archive cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Operations are not recorded.
    #[error("operations are not recorded: the recorder is off, or the statistic does not count operations")]
    NotRecorded,
    /// Too many columns for one answer.
    #[error("{0} columns exceed the limit of {1}: request a shorter time or a larger step")]
    TooMany(u64, u64),
    /// The limit of counted statistics.
    #[error("{0} statistics are counted: destroy some before others are counted")]
    Counted(usize),
    /// The limit of watched statistics.
    #[error("{0} statistics are watched that are not counted otherwise")]
    Watched(usize),
    /// The limit of operation followers.
    #[error("operations are followed by {0} already")]
    Followed(usize),
}
