//! Opens the descriptors of files and block devices.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Opens `path` with `flags`, without waiting.
pub(super) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // O_NONBLOCK: opening a pipe or an empty tape drive must not block a pool search.
    Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?.into())
}

/// Opens the file or block device behind `file` once more, with other flags.
pub(super) fn reopen(file: &File, flags: OFlags) -> io::Result<File> {
    open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), flags)
}
