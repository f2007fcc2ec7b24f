//! Attributes and errors, from ours to the kernel's.

use files::vfs::{Attr, FileKind, Time};
use files::{Error, Refusal};
use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime};

/// Kind of file.
pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Linux keeps the low 8 bits of the minor number below 12 bits of major, and the rest of the minor above (`new_encode_dev`).
pub(super) fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

/// Major and minor number, the other way.
pub(super) fn device_number_parts(device: u32) -> (u32, u32) {
    (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00)
}

/// A time that fuser took apart: before 1970 it counts the seconds back and the nanoseconds of `struct timespec` with them.
pub(super) fn time(t: SystemTime) -> Time {
    match t.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Time { seconds: (before.as_secs() as i64).wrapping_neg(), nanoseconds: before.subsec_nanos() }
        }
    }
}

/// Time before 1970 counts back from it; nanoseconds always count forward, as in `struct timespec`.
fn system_time(time: Time) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds.min(999_999_999)));
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    whole.and_then(|t| t.checked_add(nanoseconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Attributes with the inode number that is to be shown.
pub(super) fn file_attr(attr: &Attr, ino: INodeNo) -> FileAttr {
    FileAttr {
        ino,
        size: attr.size,
        blocks: attr.blocks_512,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: device_number(attr.rdev_major, attr.rdev_minor),
        blksize: attr.block_bytes,
        flags: 0,
    }
}

/// What of a directory entry is known without looking at its object.
pub(super) fn entry_attr(kind: FileKind, ino: INodeNo) -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: file_type(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The error number that a process gets.
pub(super) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound { .. } => Errno::ENOENT,
        Error::KeyUnavailable { .. } => Errno::EACCES,
        Error::Unsupported { .. } => Errno::ENOTSUP,
        Error::Invalid { .. } => Errno::EINVAL,
        Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. } | Error::Redacted { .. } => Errno::EIO,
        Error::Refused { why, .. } => refused(*why),
    }
}

fn refused(why: Refusal) -> Errno {
    match why {
        Refusal::NoSpace | Refusal::AttributeTooLarge => Errno::ENOSPC,
        Refusal::QuotaExceeded => Errno::EDQUOT,
        Refusal::ReadOnly => Errno::EROFS,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
        Refusal::NotDirectory => Errno::ENOTDIR,
        Refusal::IsDirectory => Errno::EISDIR,
        Refusal::NameTooLong => Errno::ENAMETOOLONG,
        Refusal::NameNotUtf8 => Errno::EILSEQ,
        Refusal::TooManyLinks => Errno::EMLINK,
        Refusal::CrossDevice => Errno::EXDEV,
        Refusal::NotPermitted => Errno::EPERM,
        Refusal::PermissionDenied => Errno::EACCES,
        Refusal::NoAttribute => Errno::ENODATA,
        Refusal::TooLarge => Errno::EFBIG,
        Refusal::Busy => Errno::EBUSY,
        Refusal::Stale => Errno::ESTALE,
        Refusal::Suspended => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let t = system_time(Time { seconds: -2, nanoseconds: 800_000_000 });
        assert_eq!(SystemTime::UNIX_EPOCH.duration_since(t).expect("before"), Duration::new(1, 200_000_000));
    }

    #[test]
    fn times_beyond_the_clock_do_not_panic() {
        for seconds in [i64::MIN, i64::MAX] {
            system_time(Time { seconds, nanoseconds: u32::MAX });
        }
    }

    #[test]
    fn device_numbers_agree_with_makedev() {
        for (major, minor) in [(1, 3), (8, 0), (259, 65_537), (4095, 1_048_575)] {
            assert_eq!(u64::from(device_number(major, minor)), rustix::fs::makedev(major, minor) & 0xffff_ffff);
            assert_eq!(device_number_parts(device_number(major, minor)), (major, minor));
        }
    }
}
