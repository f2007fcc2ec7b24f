//! Discards unused ranges of a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `BLKDISCARD`, `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// Discards `len` bytes at `offset` of a block device. Returns an error of kind `Unsupported` if
/// the device cannot discard.
pub fn block_device(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range: [u64; 2] = [offset, len];
    // SAFETY: the descriptor stays open while `file` is borrowed; the request reads two numbers,
    // which `range` holds until the call returns.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
