//! The engine's error type: the disk is wrong, we are behind, or the machine failed, and where.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use std::sync::Arc;

/// An engine error. `place` names the pool, dataset, device, object or file, as far as known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk is wrong: a structure does not hold what it must.
    #[error("{place}: {what}")]
    Corrupt {
        place: String,
        /// What was found and what was expected.
        what: String,
    },
    /// We are behind: the pool uses a feature that Weir does not support.
    #[error("{place}: unsupported {what}")]
    Unsupported {
        place: String,
        /// Name of the feature.
        what: String,
    },
    /// The machine failed.
    #[error("{place}: {error}")]
    Io {
        place: String,
        /// The operating system's error.
        error: Arc<std::io::Error>,
    },
    /// Devices that are needed are missing.
    #[error("{place}: missing {what}")]
    Missing {
        place: String,
        /// Names of the devices, separated by commas.
        what: String,
    },
    /// The dataset is encrypted and its key is not loaded.
    #[error("{place}: the encryption key is not loaded")]
    KeyUnavailable { place: String },
    /// The block was left out of a redacted send stream.
    #[error("{place}: the data was left out when the dataset was received from a redacted stream")]
    Redacted { place: String },
    /// The dataset, object, file or property does not exist.
    #[error("{place}: {what} does not exist")]
    NotFound {
        place: String,
        /// The name that was looked up.
        what: String,
    },
    /// The caller passed an argument that cannot be used.
    #[error("{place}: {what}")]
    Invalid {
        place: String,
        /// What is wrong with the argument.
        what: String,
    },
    /// The change is not possible now, or not allowed. Neither the pool nor the machine is at
    /// fault.
    #[error("{place}: {why}")]
    Refused { place: String, why: Refusal },
}

/// Reason why a change was refused. Each corresponds to the errno of a system call.
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
    /// EACCES: the wrapping key does not open the dataset's keys.
    #[error("incorrect key")]
    IncorrectKey,
    /// ESTALE: the file no longer exists.
    #[error("is gone")]
    Stale,
    /// The pool cannot write: EIO after waiting for as long as `failmode` requires.
    #[error("pool is suspended")]
    Suspended,
    /// EREMOTEIO: another host writes to the pool, whose property `multihost` is on.
    #[error("pool is imported on a different host")]
    ImportedElsewhere,
    /// The pool's property `multihost` is on, and the host has no ID.
    #[error("pool has the multihost property on and the system's hostid is not set")]
    NoHostId,
}

impl Refusal {
    /// Makes an [`Error::Refused`] at `place`.
    pub fn at(self, place: impl Into<String>) -> Error {
        Error::Refused { place: place.into(), why: self }
    }
}

/// The engine's result type.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn corrupt(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt { place: place.into(), what: what.into() }
    }

    pub fn unsupported(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { place: place.into(), what: what.into() }
    }

    pub fn io(place: impl Into<String>, error: std::io::Error) -> Self {
        Self::Io { place: place.into(), error: Arc::new(error) }
    }

    pub fn missing(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Missing { place: place.into(), what: what.into() }
    }

    pub fn not_found(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::NotFound { place: place.into(), what: what.into() }
    }

    pub fn invalid(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), what: what.into() }
    }

    /// Whether a wrapping key was wrong.
    pub fn is_incorrect_key(&self) -> bool {
        self.refusal() == Some(Refusal::IncorrectKey)
    }

    /// The reason, if this is an [`Error::Refused`].
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { why, .. } => Some(*why),
            _ => None,
        }
    }

    /// Returns the same error with `outer` put before its place.
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
    /// The place is empty: the caller adds it with [`Error::at`] or [`Place::at`].
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
    /// Converts the error and puts `outer` before its place.
    fn at(self, outer: &str) -> Result<T>;
    /// As [`Place::at`], but builds `outer` only if there is an error.
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
