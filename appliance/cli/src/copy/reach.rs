//! Paths of any length. A system call accepts paths of 4,096 bytes, and a tree may be deeper than
//! that.
//!
//! A long path is opened part by part, and its last component is accessed through its open
//! directory, as `/proc/self/fd/N/NAME`.

use rustix::fs::{CWD, Mode, OFlags};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Longest part passed to the system at once: `PATH_MAX` less room for a name of 255 bytes.
const PART_BYTES_MAX: usize = 3 << 10;

/// A path that the system accepts while this value exists.
pub(super) struct Reached {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl Deref for Reached {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// A short form of `path`, whose directory must exist.
pub(super) fn reach(path: &Path) -> io::Result<Reached> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Reached { path: path.to_owned(), _dir: None });
    };
    if path.as_os_str().len() <= PART_BYTES_MAX {
        return Ok(Reached { path: path.to_owned(), _dir: None });
    }
    let mut dir: Option<OwnedFd> = None;
    let mut part = PathBuf::new();
    for component in parent.components() {
        if part.as_os_str().len() + component.as_os_str().len() >= PART_BYTES_MAX {
            dir = Some(enter(dir.as_ref(), &part)?);
            part = PathBuf::new();
        }
        part.push(component);
    }
    let dir = enter(dir.as_ref(), &part)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    Ok(Reached { path, _dir: Some(dir) })
}

fn enter(dir: Option<&OwnedFd>, part: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entered = match dir {
        Some(dir) => rustix::fs::openat(dir, part, flags, Mode::empty()),
        None => rustix::fs::openat(CWD, part, flags, Mode::empty()),
    };
    Ok(entered?)
}
