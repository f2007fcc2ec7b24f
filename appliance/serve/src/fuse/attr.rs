//! Converts attributes and errors to the kernel's form.

use errors::{Error, Refusal};
use files::vfs::{Attr, FileKind, Time};
use rustix::io::Errno;

/// An integer field of the protocol, in native byte order.
pub(super) trait Number {
    /// Appends the bytes of the number.
    fn append(self, out: &mut Vec<u8>);
}

impl Number for u32 {
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_ne_bytes());
    }
}

impl Number for u64 {
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_ne_bytes());
    }
}

pub(super) fn put(out: &mut Vec<u8>, number: impl Number) {
    number.append(out);
}

/// The file type bits of `st_mode` (`S_IFMT`).
pub(super) fn type_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
    }
}

/// Encodes a device number as Linux does (`new_encode_dev`): bits 0-7 are the low bits of the minor
/// number, bits 8-19 the major number, bits 20-31 the rest of the minor number.
pub(super) fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

/// Splits a device number into (major, minor); the inverse of [`device_number`].
pub(super) fn device_number_parts(device: u32) -> (u32, u32) {
    (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00)
}

/// Clamps the value to the maximum that Linux accepts, so that a damaged timestamp does not make
/// the file inaccessible.
fn nanoseconds(time: Time) -> u32 {
    time.nanoseconds.min(999_999_999)
}

fn mode(attr: &Attr) -> u32 {
    type_bits(attr.kind) | attr.mode & 0o7777
}

/// Appends `struct fuse_attr`. `ino` is the inode number to show.
pub(super) fn put_attr(out: &mut Vec<u8>, attr: &Attr, ino: u64) {
    let times = [attr.atime, attr.mtime, attr.ctime];
    for n in [ino, attr.size, attr.blocks_512] {
        put(out, n);
    }
    for t in times {
        put(out, t.seconds as u64);
    }
    for t in times {
        put(out, nanoseconds(t));
    }
    let device = device_number(attr.rdev_major, attr.rdev_minor);
    for n in [mode(attr), attr.links, attr.uid, attr.gid, device, attr.block_bytes, 0] {
        put(out, n);
    }
}

/// Appends `struct fuse_statx`: the basic stat(2) fields and the birth time.
pub(super) fn put_statx(out: &mut Vec<u8>, attr: &Attr, ino: u64) {
    let end = out.len() + 256;
    put(out, libc::STATX_BASIC_STATS | libc::STATX_BTIME);
    put(out, attr.block_bytes);
    put(out, 0_u64);
    // The mode is 16 bits wide and followed by 16 bits of padding.
    for n in [attr.links, attr.uid, attr.gid] {
        put(out, n);
    }
    out.extend_from_slice(&(mode(attr) as u16).to_ne_bytes());
    out.extend_from_slice(&[0; 2]);
    for n in [ino, attr.size, attr.blocks_512, 0] {
        put(out, n);
    }
    for t in [attr.atime, attr.btime, attr.ctime, attr.mtime] {
        put(out, t.seconds as u64);
        put(out, nanoseconds(t));
        put(out, 0_u32);
    }
    put(out, attr.rdev_major);
    put(out, attr.rdev_minor);
    out.resize(end, 0);
}

/// Maps an error to the errno that the process gets.
pub(super) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound { .. } => Errno::NOENT,
        Error::KeyUnavailable { .. } => Errno::ACCESS,
        Error::Unsupported { .. } => Errno::OPNOTSUPP,
        Error::Invalid { .. } => Errno::INVAL,
        Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. } | Error::Redacted { .. } => Errno::IO,
        Error::Refused { why, .. } => refused(*why),
    }
}

fn refused(why: Refusal) -> Errno {
    match why {
        Refusal::NoSpace | Refusal::AttributeTooLarge => Errno::NOSPC,
        Refusal::QuotaExceeded => Errno::DQUOT,
        Refusal::ReadOnly => Errno::ROFS,
        Refusal::Exists => Errno::EXIST,
        Refusal::NotEmpty => Errno::NOTEMPTY,
        Refusal::NotDirectory => Errno::NOTDIR,
        Refusal::IsDirectory => Errno::ISDIR,
        Refusal::NameTooLong => Errno::NAMETOOLONG,
        Refusal::NameNotUtf8 => Errno::ILSEQ,
        Refusal::TooManyLinks => Errno::MLINK,
        Refusal::CrossDevice => Errno::XDEV,
        Refusal::NotPermitted => Errno::PERM,
        Refusal::PermissionDenied | Refusal::IncorrectKey => Errno::ACCESS,
        Refusal::NoAttribute => Errno::NODATA,
        Refusal::TooLarge => Errno::FBIG,
        Refusal::Busy => Errno::BUSY,
        Refusal::Stale => Errno::STALE,
        Refusal::Suspended | Refusal::ImportedElsewhere | Refusal::NoHostId => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_agree_with_makedev() {
        for (major, minor) in [(1, 3), (8, 0), (259, 65_537), (4095, 1_048_575)] {
            assert_eq!(u64::from(device_number(major, minor)), rustix::fs::makedev(major, minor) & 0xffff_ffff);
            assert_eq!(device_number_parts(device_number(major, minor)), (major, minor));
        }
    }

    #[test]
    fn structures_have_the_sizes_that_the_kernel_reads() {
        let vfs = files::memory::MemoryVfs::new();
        let attr = files::vfs::Vfs::attr(&vfs, files::vfs::Vfs::root(&vfs)).expect("root");
        let (mut plain, mut extended) = (Vec::new(), vec![0; 32]);
        put_attr(&mut plain, &attr, 1);
        put_statx(&mut extended, &attr, 1);
        assert_eq!((plain.len(), extended.len()), (88, 288));
    }
}
