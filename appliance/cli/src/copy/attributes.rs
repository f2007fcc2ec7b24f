//! Mode, owner, extended attributes and times of a copy.
//!
//! The order matters: changing the owner clears setuid bits and file capabilities, an ACL rewrites
//! the mode's group bits, and everything changes the times. So the order is owner, mode, extended
//! attributes (including ACLs), times.

use super::options::Options;
use super::report::Report;
use files::vfs::{Attr, FileKind, Time, Vfs};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::fs::File;
use std::path::Path;

/// A copy: an open file, or a path if it cannot be opened (symbolic link, device).
pub(super) enum Target<'a> {
    Open(&'a File),
    Path(&'a Path),
}

/// Sets the attributes of the original on the copy, as far as this machine and user can.
pub(super) fn apply(vfs: &dyn Vfs, attr: &Attr, shown: &str, target: &Target<'_>, options: &Options, report: &Report) {
    let warn = |what: &str, error: Errno| {
        report.warn(format!("{what} {error}"), shown, format_args!("cannot set {what}: {error}"));
    };
    let mut owned = false;
    if options.owner {
        match target.set_owner(attr) {
            Ok(()) => owned = true,
            Err(e) => warn("owner", e),
        }
    }
    if attr.kind != FileKind::Symlink {
        // A setuid program that belongs to another user than the original would grant that user's
        // permissions.
        let keep = if owned { 0o7777 } else { 0o1777 };
        if let Err(e) = target.set_mode(attr.mode & keep) {
            warn("mode", e);
        }
    }
    match vfs.list_xattr(attr.node) {
        Ok(names) => {
            for name in names {
                match vfs.get_xattr(attr.node, &name) {
                    Ok(Some(value)) => {
                        if let Err(e) = target.set_xattr(&name, &value) {
                            let space = name.split(|&b| b == b'.').next().unwrap_or_default();
                            let what = if name.starts_with(b"system.posix_acl") { &name[..] } else { space };
                            warn(&format!("extended attribute {}", String::from_utf8_lossy(what)), e);
                        }
                    }
                    Ok(None) => {}
                    Err(e) => report.fail(shown, e),
                }
            }
        }
        Err(errors::Error::Unsupported { .. }) => {}
        Err(e) => report.fail(shown, e),
    }
    if let Err(e) = target.set_times(attr) {
        warn("times", e);
    }
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanoseconds.min(999_999_999)) }
}

impl Target<'_> {
    fn set_owner(&self, attr: &Attr) -> Result<()> {
        // -1 means "leave unchanged" to chown(2), and no file has it as its owner.
        if attr.uid == u32::MAX || attr.gid == u32::MAX {
            return Err(Errno::INVAL);
        }
        let (uid, gid) = (Some(Uid::from_raw(attr.uid)), Some(Gid::from_raw(attr.gid)));
        match self {
            Self::Open(file) => rustix::fs::fchown(file, uid, gid),
            Self::Path(path) => rustix::fs::chownat(CWD, *path, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match self {
            Self::Open(file) => rustix::fs::fchmod(file, mode),
            // For a device that was just created, in a directory in which only this process creates
            // files.
            Self::Path(path) => rustix::fs::chmodat(CWD, *path, mode, AtFlags::empty()),
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Self::Open(file) => rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()),
            Self::Path(path) => rustix::fs::lsetxattr(*path, name, value, XattrFlags::empty()),
        }
    }

    fn set_times(&self, attr: &Attr) -> Result<()> {
        let times = Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) };
        match self {
            Self::Open(file) => rustix::fs::futimens(file, &times),
            Self::Path(path) => rustix::fs::utimensat(CWD, *path, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }
}
