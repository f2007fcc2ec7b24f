//! Giving up the claim to a block device that is still read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Puts an opening of the same device, read-only and without `O_EXCL`, in the place of the one that `file` is. Reads under way end
/// with the one that they began with.
pub fn give_up(file: &File) -> io::Result<()> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK;
    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    let unclaimed = rustix::fs::open(same, flags, rustix::fs::Mode::empty())?;
    // SAFETY: both numbers are of files that are open until after the call. `file` still owns its number, which leads to the other
    // opening from now on; what it led to before is closed by the call.
    let result = unsafe { libc::dup3(unclaimed.as_raw_fd(), file.as_raw_fd(), libc::O_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
