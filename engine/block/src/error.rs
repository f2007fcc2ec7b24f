//! The engine's one error: the disk is wrong, we are behind, or the machine failed, and where.

use std::sync::Arc;

/// What went wrong in the engine. `place` names pool, dataset, device, object or file, as far as is known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk is wrong.
    #[error("{place}: {what}")]
    Corrupt {
        /// Where.
        place: String,
        /// What was found and what was expected.
        what: String,
    },
    /// We are behind: the feature is named.
    #[error("{place}: unsupported {what}")]
    Unsupported {
        /// Where.
        place: String,
        /// Name of the feature.
        what: String,
    },
    /// The machine failed.
    #[error("{place}: {error}")]
    Io {
        /// Where.
        place: String,
        /// What the operating system said.
        error: Arc<std::io::Error>,
    },
    /// Devices that are needed are not there.
    #[error("{place}: missing {what}")]
    Missing {
        /// Where.
        place: String,
        /// Which devices.
        what: String,
    },
    /// The dataset is encrypted and its key is not loaded.
    #[error("{place}: the encryption key is not loaded")]
    KeyUnavailable {
        /// Which dataset.
        place: String,
    },
    /// The block was left out of a redacted send stream.
    #[error("{place}: the data was left out when the dataset was received from a redacted stream")]
    Redacted {
        /// Where.
        place: String,
    },
    /// There is no such dataset, object, file or property.
    #[error("{place}: {what} does not exist")]
    NotFound {
        /// Where.
        place: String,
        /// What was looked for.
        what: String,
    },
    /// The caller's argument cannot be served.
    #[error("{place}: {what}")]
    Invalid {
        /// Where.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The change is not possible now, or not allowed; nothing is wrong with pool or machine.
    #[error("{place}: {why}")]
    Refused {
        /// Where.
        place: String,
        /// Why.
        why: Refusal,
    },
}

/// Why a change was refused: what system calls tell by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// ENOSPC.
    #[error("out of space")]
    NoSpace,
    /// EDQUOT.
    #[error("quota exceeded")]
    QuotaExceeded,
    /// EROFS.
    #[error("read-only")]
    ReadOnly,
    /// EEXIST.
    #[error("already exists")]
    Exists,
    /// ENOTEMPTY.
    #[error("directory is not empty")]
    NotEmpty,
    /// ENOTDIR.
    #[error("is not a directory")]
    NotDirectory,
    /// EISDIR.
    #[error("is a directory")]
    IsDirectory,
    /// ENAMETOOLONG.
    #[error("name is too long")]
    NameTooLong,
    /// EILSEQ: not UTF-8 where it must be.
    #[error("name is not valid UTF-8")]
    NameNotUtf8,
    /// EMLINK.
    #[error("too many links")]
    TooManyLinks,
    /// EXDEV.
    #[error("crosses file systems or projects")]
    CrossDevice,
    /// EPERM.
    #[error("operation is not permitted")]
    NotPermitted,
    /// EACCES.
    #[error("permission denied")]
    PermissionDenied,
    /// ENODATA.
    #[error("attribute does not exist")]
    NoAttribute,
    /// EFBIG.
    #[error("file too large")]
    TooLarge,
    /// E2BIG, for attributes: ENOSPC on Linux.
    #[error("attribute too large")]
    AttributeTooLarge,
    /// EBUSY.
    #[error("is busy")]
    Busy,
    /// ESTALE: the node is gone.
    #[error("is gone")]
    Stale,
    /// The pool cannot write any more: EIO once it has waited as long as `failmode` says.
    #[error("pool is suspended")]
    Suspended,
}

impl Refusal {
    /// The error, at `place`.
    pub fn at(self, place: impl Into<String>) -> Error {
        Error::Refused { place: place.into(), why: self }
    }
}

/// Result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The disk is wrong.
    pub fn corrupt(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt { place: place.into(), what: what.into() }
    }

    /// We are behind.
    pub fn unsupported(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { place: place.into(), what: what.into() }
    }

    /// The machine failed.
    pub fn io(place: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { place: place.into(), error: Arc::new(error) }
    }

    /// Devices are missing.
    pub fn missing(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Missing { place: place.into(), what: what.into() }
    }

    /// No such thing.
    pub fn not_found(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::NotFound { place: place.into(), what: what.into() }
    }

    /// A bad argument.
    pub fn invalid(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), what: what.into() }
    }

    /// Why it was refused, if that is what it is.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { why, .. } => Some(*why),
            _ => None,
        }
    }

    /// The same error with `outer` put before its place.
    #[must_use]
    pub fn at(mut self, outer: &str) -> Self {
        let place = match &mut self {
            Self::Corrupt { place, .. }
            | Self::Unsupported { place, .. }
            | Self::Io { place, .. }
            | Self::Missing { place, .. }
            | Self::KeyUnavailable { place }
            | Self::Redacted { place }
            | Self::NotFound { place, .. }
            | Self::Invalid { place, .. }
            | Self::Refused { place, .. } => place,
        };
        *place = if place.is_empty() { outer.to_owned() } else { format!("{outer}: {place}") };
        self
    }
}

impl From<ondisk::Error> for Error {
    /// Without a place: the caller adds it with [`Error::at`] or [`Place::at`].
    fn from(e: ondisk::Error) -> Self {
        match e {
            ondisk::Error::Corrupt { structure, field, found, expected } => {
                Self::corrupt("", format!("{structure} {field} is {found}, expected {expected}"))
            }
            ondisk::Error::Unsupported { structure, what } => Self::unsupported("", format!("{structure} {what}")),
        }
    }
}

/// Adds a place to the error of a result.
pub trait Place<T> {
    /// Puts `outer` before the error's place.
    fn at(self, outer: &str) -> Result<T>;
    /// The same, made only when there is an error.
    fn at_with(self, outer: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> Place<T> for std::result::Result<T, E> {
    fn at(self, outer: &str) -> Result<T> {
        self.map_err(|e| e.into().at(outer))
    }

    fn at_with(self, outer: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| e.into().at(&outer()))
    }
}
