//! Error numbers: Linux's, under the names that programs know.

use dataset::write::Denied;
use errors::{Error, Refusal};

/// The global variables of a program. Facts: module/zfs/zcp_global.c.
pub const GLOBALS: &[(&str, i64)] = &[
    ("EPERM", 1),
    ("ENOENT", ENOENT),
    ("ESRCH", ESRCH),
    ("EINTR", 4),
    ("EIO", EIO),
    ("ENXIO", 6),
    ("E2BIG", 7),
    ("ENOEXEC", 8),
    ("EBADF", 9),
    ("ECHILD", 10),
    ("EAGAIN", EAGAIN),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("ENOTBLK", 15),
    ("EBUSY", 16),
    ("EEXIST", EEXIST),
    ("EXDEV", EXDEV),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", EINVAL),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ETXTBSY", 26),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("EDOM", 33),
    ("ERANGE", 34),
    ("EDEADLK", 35),
    ("ENOLCK", 37),
    ("ECANCELED", 125),
    ("ENOTSUP", ENOTSUP),
    ("EDQUOT", 122),
    ("ENAMETOOLONG", 36),
];

pub const ENOENT: i64 = 2;
pub const EIO: i64 = 5;
pub const EXDEV: i64 = 18;
const ESRCH: i64 = 3;
const EAGAIN: i64 = 11;
const EEXIST: i64 = 17;
const EINVAL: i64 = 22;
const ENOTSUP: i64 = 95;

/// The number of an error.
pub fn of_error(error: &Error) -> i64 {
    match error {
        Error::NotFound { .. } => ENOENT,
        Error::Invalid { .. } => EINVAL,
        Error::Unsupported { .. } => ENOTSUP,
        Error::Refused { why, .. } => of_refusal(*why),
        _ => EIO,
    }
}

fn of_refusal(why: Refusal) -> i64 {
    match why {
        Refusal::NoSpace => 28,
        Refusal::QuotaExceeded => 122,
        Refusal::ReadOnly => 30,
        Refusal::Exists => EEXIST,
        Refusal::NameTooLong => 36,
        Refusal::CrossDevice => EXDEV,
        Refusal::NotPermitted => 1,
        Refusal::PermissionDenied | Refusal::IncorrectKey => 13,
        Refusal::Busy => 16,
        Refusal::AttributeTooLarge => 7,
        Refusal::Stale | Refusal::Suspended => EIO,
        Refusal::ImportedElsewhere | Refusal::NoHostId => 121,
        _ => EINVAL,
    }
}

/// The number of an operation's refusal.
pub fn of_denied(denied: &Denied) -> i64 {
    match denied {
        Denied::Error(error) => of_error(error),
        Denied::Later => EAGAIN,
        Denied::NoSnapshot => ESRCH,
        Denied::Conflicts(_) => EEXIST,
    }
}
