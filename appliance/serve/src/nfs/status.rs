//! Status codes that NFS versions 3 and 4 share, and their mapping from the engine's errors.

use errors::{Error, Refusal};

/// A status of NFS: the number of both `NFS3ERR_` and `NFS4ERR_`. Codes of only one version are
/// defined with that version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

#[allow(missing_docs)] // As in RFC 1813 and RFC 8881.
impl Status {
    pub const OK: Self = Self(0);
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const IO: Self = Self(5);
    pub const NXIO: Self = Self(6);
    pub const ACCES: Self = Self(13);
    pub const EXIST: Self = Self(17);
    pub const XDEV: Self = Self(18);
    pub const NODEV: Self = Self(19);
    pub const NOTDIR: Self = Self(20);
    pub const ISDIR: Self = Self(21);
    pub const INVAL: Self = Self(22);
    pub const FBIG: Self = Self(27);
    pub const NOSPC: Self = Self(28);
    pub const ROFS: Self = Self(30);
    pub const MLINK: Self = Self(31);
    pub const NAMETOOLONG: Self = Self(63);
    pub const NOTEMPTY: Self = Self(66);
    pub const DQUOT: Self = Self(69);
    pub const STALE: Self = Self(70);
    pub const REMOTE: Self = Self(71);
    pub const BADHANDLE: Self = Self(10001);
    pub const NOT_SYNC: Self = Self(10002);
    pub const BAD_COOKIE: Self = Self(10003);
    pub const NOTSUPP: Self = Self(10004);
    pub const TOOSMALL: Self = Self(10005);
    pub const SERVERFAULT: Self = Self(10006);
    pub const BADTYPE: Self = Self(10007);
    /// `NFS3ERR_JUKEBOX`, `NFS4ERR_DELAY`: try again later.
    pub const JUKEBOX: Self = Self(10008);
}

pub type Result<T> = std::result::Result<T, Status>;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Status {
    /// Uses the status that the Linux server returns for the errno that FUSE or the kernel module
    /// would return, so that clients see the same error over NFS.
    fn from(error: &Error) -> Self {
        match error {
            Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. } | Error::Redacted { .. } => Self::IO,
            Error::Unsupported { .. } => Self::NOTSUPP,
            Error::KeyUnavailable { .. } => Self::ACCES,
            Error::NotFound { .. } => Self::NOENT,
            Error::Invalid { .. } => Self::INVAL,
            Error::Refused { why, .. } => match why {
                Refusal::NoSpace | Refusal::AttributeTooLarge => Self::NOSPC,
                Refusal::QuotaExceeded => Self::DQUOT,
                Refusal::ReadOnly => Self::ROFS,
                Refusal::Exists => Self::EXIST,
                Refusal::NotEmpty => Self::NOTEMPTY,
                Refusal::NotDirectory => Self::NOTDIR,
                Refusal::IsDirectory => Self::ISDIR,
                Refusal::NameTooLong => Self::NAMETOOLONG,
                Refusal::NameNotUtf8 => Self::INVAL,
                Refusal::TooManyLinks => Self::MLINK,
                Refusal::CrossDevice => Self::XDEV,
                Refusal::NotPermitted => Self::PERM,
                Refusal::PermissionDenied | Refusal::IncorrectKey => Self::ACCES,
                Refusal::NoAttribute => Self::NOENT,
                Refusal::TooLarge => Self::FBIG,
                // For removing a mount point: what the Linux server returns, since version 3 has no
                // status for "busy".
                Refusal::Busy => Self::ACCES,
                Refusal::Stale => Self::STALE,
                // The operation has already waited as `failmode` requires.
                Refusal::Suspended | Refusal::ImportedElsewhere | Refusal::NoHostId => Self::IO,
            },
        }
    }
}
