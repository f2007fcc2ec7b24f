//! Decodes the kernel's requests from /dev/fuse.
//!
//! Format: `include/uapi/linux/fuse.h` of Linux, protocol 7.40. All numbers are in native byte
//! order. A request is a header of 40 bytes, a structure that depends on the operation, then names
//! (each terminated by a zero byte) or data.
//!
//! ```text
//! u32 total bytes, u32 operation, u64 unique, u64 node,
//! u32 uid, u32 gid, u32 pid, u16 extension / 8, u16 0
//! ```

use files::vfs::{SetTime, Time};

/// Size of a request's header.
pub(super) const HEADER_BYTES: usize = 40;
/// Protocol version that we implement. The kernel uses what both sides support.
pub(super) const MAJOR: u32 = 7;
/// Minor version; see [`MAJOR`].
pub(super) const MINOR: u32 = 40;

/// Header fields of every request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// Number of the request, repeated in the answer.
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    /// The thread that waits for the answer, in the PID namespace of the mount. 0: it has no number
    /// there, or the kernel sends the request by itself.
    pub thread: u32,
}

/// Requested change of attributes (SETATTR).
#[derive(Debug, Clone, Copy)]
pub(super) struct SetAttrIn {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    pub ctime: Option<Time>,
    /// Setuid and setgid are cleared with the change.
    pub kill_setid: bool,
    /// No attribute is set.
    pub is_empty: bool,
}

/// A request of the kernel. Handles of open files are omitted: we never return any.
#[derive(Debug)]
#[allow(missing_docs)] // As in fuse.h.
pub(super) enum Op<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        times: u64,
    },
    /// Pairs of a node and the number of lookups to forget: two u64 each.
    BatchForget {
        pairs: &'a [u8],
    },
    GetAttr,
    Statx,
    SetAttr(SetAttrIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        mode: u32,
        rdev: u32,
        umask: u32,
        name: &'a [u8],
    },
    Mkdir {
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        to_dir: u64,
        flags: u32,
        name: &'a [u8],
        to_name: &'a [u8],
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        flags: u32,
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    /// Like [`Op::Create`], without a name (`O_TMPFILE`).
    CreateUnnamed {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read {
        offset: u64,
        bytes: u32,
        flags: u32,
    },
    /// `flags` of the request, and those with which the file was opened.
    Write {
        offset: u64,
        flags: u32,
        open_flags: u32,
        data: &'a [u8],
    },
    StatFs,
    Release {
        flags: u32,
    },
    Fsync {
        data_only: bool,
    },
    FsyncDir {
        data_only: bool,
    },
    SetXattr {
        how: u32,
        kill_setgid: bool,
        name: &'a [u8],
        value: &'a [u8],
    },
    GetXattr {
        bytes: u32,
        name: &'a [u8],
    },
    ListXattr {
        bytes: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Init {
        minor: u32,
        major: u32,
        read_ahead: u32,
        flags: u64,
    },
    OpenDir,
    ReadDir {
        offset: u64,
        bytes: u32,
    },
    ReadDirPlus {
        offset: u64,
        bytes: u32,
    },
    ReleaseDir,
    Access {
        mask: u32,
    },
    Destroy,
    Ioctl {
        flags: u32,
        command: u32,
        out_bytes: u32,
        data: &'a [u8],
    },
    Fallocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    Seek {
        offset: u64,
        whence: u32,
    },
    CopyRange {
        from: u64,
        to_node: u64,
        to: u64,
        len: u64,
    },
    /// Interrupts are ignored and expect no answer.
    Interrupt,
    /// An operation that is not supported.
    Other,
}

/// The unread part of a request: the structure, and names and data, either after it or in a
/// separate buffer.
struct Rest<'a>(&'a [u8], Option<&'a [u8]>);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// Switches to names and data.
    fn payload(&mut self) {
        if let Some(payload) = self.1.take() {
            self.0 = payload;
        }
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        self.payload();
        let end = self.0.iter().position(|&b| b == 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = rest.get(1..)?;
        Some(name)
    }

    fn data(&mut self, bytes: u32) -> Option<&'a [u8]> {
        self.payload();
        let data = self.0.get(..bytes as usize)?;
        self.skip(data.len())?;
        Some(data)
    }

    /// Offset and size of requests that read a file or a directory.
    fn range(&mut self) -> Option<(u64, u32)> {
        self.skip(8)?;
        Some((self.u64()?, self.u32()?))
    }

    fn set_attr(&mut self) -> Option<SetAttrIn> {
        const MODE: u32 = 1 << 0;
        const UID: u32 = 1 << 1;
        const GID: u32 = 1 << 2;
        const SIZE: u32 = 1 << 3;
        const ATIME: u32 = 1 << 4;
        const MTIME: u32 = 1 << 5;
        const ATIME_NOW: u32 = 1 << 7;
        const MTIME_NOW: u32 = 1 << 8;
        const CTIME: u32 = 1 << 10;
        const KILL_SETID: u32 = 1 << 11;
        let valid = self.u32()?;
        // Padding and file handle; after the size, the lock owner.
        self.skip(12)?;
        let size = self.u64()?;
        self.skip(8)?;
        let seconds = [self.u64()?, self.u64()?, self.u64()?];
        let nanoseconds = [self.u32()?, self.u32()?, self.u32()?];
        let mode = self.u32()?;
        self.skip(4)?;
        let (uid, gid) = (self.u32()?, self.u32()?);
        let time = |i: usize| Time { seconds: seconds[i] as i64, nanoseconds: nanoseconds[i] };
        let has = |bit| valid & bit != 0;
        let set_time = |i, bit, now| has(bit).then(|| if has(now) { SetTime::Now } else { SetTime::To(time(i)) });
        Some(SetAttrIn {
            mode: has(MODE).then_some(mode),
            uid: has(UID).then_some(uid),
            gid: has(GID).then_some(gid),
            size: has(SIZE).then_some(size),
            atime: set_time(0, ATIME, ATIME_NOW),
            mtime: set_time(1, MTIME, MTIME_NOW),
            ctime: has(CTIME).then(|| time(2)),
            kill_setid: has(KILL_SETID),
            is_empty: valid & !KILL_SETID == 0,
        })
    }
}

/// `FUSE_SETXATTR_ACL_KILL_SGID`.
const SETXATTR_KILL_SETGID: u32 = 1;

/// Decodes a request; `None` if it is shorter than its operation requires. `extended`:
/// `FUSE_SETXATTR_EXT` was agreed on, so that the structure of SETXATTR has 8 more bytes.
pub(super) fn parse(request: &[u8], extended: bool) -> Option<(Header, Op<'_>)> {
    let mut r = Rest(request, None);
    let (bytes, operation, header) = r.header()?;
    if bytes < HEADER_BYTES || bytes > request.len() {
        return None;
    }
    Some((header, r.op(operation, extended)?))
}

/// Decodes a request whose header, structure, and names or data are in three buffers. The structure
/// may be followed by arbitrary bytes.
pub(super) fn parse_apart<'a>(
    header: &[u8],
    structure: &'a [u8],
    payload: &'a [u8],
    extended: bool,
) -> Option<(Header, Op<'a>)> {
    let (_, operation, header) = Rest(header, None).header()?;
    Some((header, Rest(structure, Some(payload)).op(operation, extended)?))
}

impl<'a> Rest<'a> {
    /// Decodes the header; returns it with the total size and the operation number.
    fn header(&mut self) -> Option<(usize, u32, Header)> {
        let (bytes, operation) = (self.u32()? as usize, self.u32()?);
        let (unique, node) = (self.u64()?, self.u64()?);
        let header = Header { unique, node, uid: self.u32()?, gid: self.u32()?, thread: self.u32()? };
        self.skip(4)?;
        Some((bytes, operation, header))
    }

    fn op(&mut self, operation: u32, extended: bool) -> Option<Op<'a>> {
        Some(match operation {
            1 => Op::Lookup { name: self.name()? },
            2 => Op::Forget { times: self.u64()? },
            3 => Op::GetAttr,
            4 => Op::SetAttr(self.set_attr()?),
            5 => Op::ReadLink,
            6 => Op::Symlink { name: self.name()?, target: self.name()? },
            8 => {
                let (mode, rdev, umask, _) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
                Op::Mknod { mode, rdev, umask, name: self.name()? }
            }
            9 => Op::Mkdir { mode: self.u32()?, umask: self.u32()?, name: self.name()? },
            10 => Op::Unlink { name: self.name()? },
            11 => Op::Rmdir { name: self.name()? },
            12 => Op::Rename { to_dir: self.u64()?, flags: 0, name: self.name()?, to_name: self.name()? },
            13 => Op::Link { node: self.u64()?, name: self.name()? },
            14 => Op::Open { flags: self.u32()? },
            15 => {
                let (offset, bytes) = self.range()?;
                self.skip(12)?;
                Op::Read { offset, bytes, flags: self.u32()? }
            }
            16 => {
                let (offset, bytes) = self.range()?;
                let (flags, _owner) = (self.u32()?, self.u64()?);
                let (open_flags, _) = (self.u32()?, self.u32()?);
                Op::Write { offset, flags, open_flags, data: self.data(bytes)? }
            }
            17 => Op::StatFs,
            18 => {
                self.skip(8)?;
                Op::Release { flags: self.u32()? }
            }
            20 | 30 => {
                self.skip(8)?;
                let data_only = self.u32()? & 1 != 0;
                if operation == 20 { Op::Fsync { data_only } } else { Op::FsyncDir { data_only } }
            }
            21 => {
                let (bytes, how) = (self.u32()?, self.u32()?);
                let kill_setgid = extended && self.u32()? & SETXATTR_KILL_SETGID != 0;
                self.skip(if extended { 4 } else { 0 })?;
                Op::SetXattr { how, kill_setgid, name: self.name()?, value: self.data(bytes)? }
            }
            22 => {
                let (bytes, _) = (self.u32()?, self.u32()?);
                Op::GetXattr { bytes, name: self.name()? }
            }
            23 => Op::ListXattr { bytes: self.u32()? },
            24 => Op::RemoveXattr { name: self.name()? },
            26 => {
                let (major, minor, read_ahead) = (self.u32()?, self.u32()?, self.u32()?);
                let low = self.u32().unwrap_or(0);
                // The upper half was added in 7.36 and is announced by a bit of the lower half.
                let high = if low & 1 << 30 != 0 { self.u32()? } else { 0 };
                Op::Init { minor, major, read_ahead, flags: u64::from(low) | u64::from(high) << 32 }
            }
            27 => Op::OpenDir,
            28 | 44 => {
                let (offset, bytes) = self.range()?;
                if operation == 28 { Op::ReadDir { offset, bytes } } else { Op::ReadDirPlus { offset, bytes } }
            }
            29 => Op::ReleaseDir,
            34 => Op::Access { mask: self.u32()? },
            35 => {
                let (flags, mode, umask, _) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
                Op::Create { flags, mode, umask, name: self.name()? }
            }
            36 => Op::Interrupt,
            38 => Op::Destroy,
            39 => {
                self.skip(8)?;
                let (flags, command) = (self.u32()?, self.u32()?);
                self.skip(8)?;
                let (in_bytes, out_bytes) = (self.u32()?, self.u32()?);
                Op::Ioctl { flags, command, out_bytes, data: self.data(in_bytes)? }
            }
            42 => {
                let (count, _) = (self.u32()?, self.u32()?);
                Op::BatchForget { pairs: self.data(count.checked_mul(16)?)? }
            }
            43 => {
                self.skip(8)?;
                Op::Fallocate { offset: self.u64()?, len: self.u64()?, mode: self.u32()? }
            }
            45 => {
                let (to_dir, flags, _) = (self.u64()?, self.u32()?, self.u32()?);
                Op::Rename { to_dir, flags, name: self.name()?, to_name: self.name()? }
            }
            46 => {
                self.skip(8)?;
                Op::Seek { offset: self.u64()?, whence: self.u32()? }
            }
            47 => {
                self.skip(8)?;
                let (from, to_node) = (self.u64()?, self.u64()?);
                self.skip(8)?;
                Op::CopyRange { from, to_node, to: self.u64()?, len: self.u64()? }
            }
            51 => Op::CreateUnnamed { flags: self.u32()?, mode: self.u32()?, umask: self.u32()? },
            52 => Op::Statx,
            _ => Op::Other,
        })
    }
}

/// The (node, times) pairs of [`Op::BatchForget`].
pub(super) fn forgets(pairs: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let (pairs, _) = pairs.as_chunks::<16>();
    pairs.iter().filter_map(|pair| {
        let mut r = Rest(pair, None);
        Some((r.u64()?, r.u64()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: u32, body: &[u8]) -> Vec<u8> {
        let mut out = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        out.extend_from_slice(&operation.to_ne_bytes());
        for n in [7_u64, 34] {
            out.extend_from_slice(&n.to_ne_bytes());
        }
        for n in [1000_u32, 100, 4711, 0] {
            out.extend_from_slice(&n.to_ne_bytes());
        }
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_write_carries_its_data() {
        let mut body = Vec::new();
        for n in [0_u64, 4096] {
            body.extend_from_slice(&n.to_ne_bytes());
        }
        for n in [5_u32, 4, 0, 0, 0, 0] {
            body.extend_from_slice(&n.to_ne_bytes());
        }
        body.extend_from_slice(b"hello");
        let bytes = request(16, &body);
        let (header, op) = parse(&bytes, true).expect("whole");
        assert_eq!((header.unique, header.node), (7, 34));
        assert_eq!((header.uid, header.gid, header.thread), (1000, 100, 4711));
        assert!(matches!(op, Op::Write { offset: 4096, flags: 4, open_flags: 0, data: b"hello" }), "{op:?}");
    }

    #[test]
    fn names_end_with_a_zero_byte() {
        let bytes = request(6, b"name\0target\0");
        let (_, op) = parse(&bytes, true).expect("whole");
        assert!(matches!(op, Op::Symlink { name: b"name", target: b"target" }), "{op:?}");
        assert!(parse(&request(6, b"name\0target"), true).is_none());
    }

    #[test]
    fn names_and_data_may_be_in_separate_buffers() {
        let header = request(21, b"");
        let mut structure = vec![0xee; 128];
        structure[..16].copy_from_slice(&[5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let (_, op) = parse_apart(&header, &structure, b"user.a\0value", true).expect("whole");
        assert!(matches!(op, Op::SetXattr { how: 1, kill_setgid: true, name: b"user.a", value: b"value" }), "{op:?}");
        assert!(parse_apart(&header, &structure, b"user.a\0valu", true).is_none());
        // Without a structure, its buffer holds bytes of the previous request.
        let (_, op) = parse_apart(&request(10, b""), &structure, b"gone\0", true).expect("whole");
        assert!(matches!(op, Op::Unlink { name: b"gone" }), "{op:?}");
    }

    /// For any operation and length: no panic, and no read past the end.
    #[test]
    fn short_requests_are_refused() {
        for operation in 0..60 {
            for len in 0..130 {
                let bytes = request(operation, &vec![0x11; len]);
                let _ = parse(&bytes, len % 2 == 0);
                let _ = parse(&bytes[..bytes.len().min(len)], true);
            }
        }
    }
}
