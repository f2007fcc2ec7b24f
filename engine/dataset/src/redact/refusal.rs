//! Why a redaction bookmark is refused.

use errors::Error;

/// Why a redaction bookmark was not created.
#[derive(Debug)]
pub enum NotRedacted {
    /// There is a bookmark of that name, which is no unfinished redaction.
    Exists,
    /// The name of the bookmark is too long.
    NameTooLong,
    /// There are more redaction snapshots than a list can hold.
    TooMany,
    /// A redaction snapshot is not later than the snapshot, or a name cannot be one.
    NotDescendant,
    /// The snapshot or a redaction snapshot is redacted itself.
    Redacted,
    /// The pool has not enabled redaction bookmarks.
    Disabled,
    /// A redaction snapshot is in another pool.
    OtherPool,
    /// The unfinished redaction is with respect to other snapshots.
    OtherSnapshots,
    /// The snapshot or a redaction snapshot does not exist.
    Missing,
    /// Anything else.
    Failed(Error),
}

impl From<Error> for NotRedacted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
