//! Releases the exclusive claim on a block device that is still being read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Replaces the open file behind `file` with a new read-only open of the same device, without
/// `O_EXCL` and with the flags `more`. Reads in progress complete on the old one.
pub fn give_up(file: &File, more: rustix::fs::OFlags) -> io::Result<()> {
    let unclaimed = super::descriptor::reopen(file, rustix::fs::OFlags::RDONLY | more)?;
    // SAFETY: both descriptors are open until after the call. `file` still owns its descriptor,
    // which refers to the new open file from now on; the call closes the old one.
    let result = unsafe { libc::dup3(unclaimed.as_raw_fd(), file.as_raw_fd(), libc::O_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
