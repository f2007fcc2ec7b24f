//! Encodes answers to the kernel's requests and notifications, and sends them through /dev/fuse or
//! the io_uring slot of the request.
//!
//! Format: see [`super::wire`]. An answer is a header (u32 total bytes, i32 negated errno, u64
//! number of the request) followed by a structure or data, sent with one `writev`. A notification
//! has the number 0 and its type in place of the error.
//!
//! Invariant: a request is answered exactly once; a reply that is dropped without an answer sends
//! EIO.

use super::attr::{self, put};
use super::figures::Counted;
use super::slot::Slot;
use files::vfs::{Attr, DirEntry, StatFs};
use observe::event::note;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// `FOPEN_DIRECT_IO`: bypasses the kernel's cache.
pub(super) const OPEN_DIRECT: u32 = 1 << 0;
/// `FOPEN_KEEP_CACHE`: the kernel's cached pages remain valid.
pub(super) const OPEN_KEEP: u32 = 1 << 1;
/// `FOPEN_CACHE_DIR`: the kernel caches the entries of the directory.
pub(super) const OPEN_CACHE_DIR: u32 = 1 << 3;
/// `FOPEN_PARALLEL_DIRECT_WRITES`: direct writes may run in parallel.
pub(super) const OPEN_PARALLEL: u32 = 1 << 6;

const HEADER_BYTES: usize = 16;

fn send(device: &File, unique: u64, code: i32, parts: &[&[u8]]) -> io::Result<()> {
    let bytes = HEADER_BYTES + parts.iter().map(|p| p.len()).sum::<usize>();
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&u32::try_from(bytes).map_err(io::Error::other)?.to_ne_bytes());
    header[4..8].copy_from_slice(&code.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    let empty = IoSlice::new(&[]);
    let mut slices = [IoSlice::new(&header), empty, empty, empty];
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    rustix::io::writev(device, &slices[..=parts.len().min(3)])?;
    Ok(())
}

/// How an answer is sent.
enum Way {
    Device(Arc<File>),
    Slot(Arc<Slot>),
}

impl Way {
    fn send(&self, unique: u64, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        match self {
            Self::Device(device) => send(device, unique, code, parts),
            Self::Slot(slot) => {
                slot.answer(unique, code, parts);
                Ok(())
            }
        }
    }
}

/// Answers one request, from any thread.
pub(super) struct Reply {
    way: Way,
    unique: u64,
    answered: bool,
    counted: Option<Counted>,
}

/// Result of [`Reply::fill`].
pub(super) enum Filled<E> {
    /// Answered, with this many bytes.
    Done(usize),
    /// Not answered yet: the fill function failed.
    Failed(Reply, E),
    /// Not answered yet: the buffer cannot be filled in place, so the data must be sent another
    /// way.
    NoRoom(Reply),
}

/// A node as sent to the kernel: `struct fuse_entry_out`.
pub(super) struct Shown {
    /// How long the kernel may cache the name.
    pub entry_ttl: Duration,
    /// How long the kernel may cache the attributes.
    pub attr_ttl: Duration,
    /// FUSE's number of the node.
    pub node: u64,
    /// Different if the node's number was another file's.
    pub generation: u64,
    pub attr: Attr,
}

impl Shown {
    const BYTES: usize = 128;

    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.node);
        put(out, self.generation);
        put(out, self.entry_ttl.as_secs());
        put(out, self.attr_ttl.as_secs());
        put(out, self.entry_ttl.subsec_nanos());
        put(out, self.attr_ttl.subsec_nanos());
        attr::put_attr(out, &self.attr, self.node);
    }
}

impl Reply {
    pub fn new(device: Arc<File>, unique: u64) -> Self {
        Self { way: Way::Device(device), unique, answered: false, counted: None }
    }

    /// Answers through the slot of the request.
    pub fn through(slot: Arc<Slot>, unique: u64) -> Self {
        Self { way: Way::Slot(slot), unique, answered: false, counted: None }
    }

    /// Adds the time until the answer to the statistics.
    pub fn counted(mut self, counted: Counted) -> Self {
        self.counted = Some(counted);
        self
    }

    fn send(mut self, code: i32, parts: &[&[u8]]) {
        self.answered = true;
        // ENOENT: a process that was killed meanwhile no longer waits for the answer; neither does
        // one on a mount that is gone.
        if let Err(error) = self.way.send(self.unique, code, parts)
            && error.raw_os_error() != Some(libc::ENOENT)
        {
            tracing::debug!(%error, "the kernel rejected a reply");
        }
    }

    /// Marks the request as answered without sending anything: it expects no answer, or already has
    /// one.
    pub fn none(mut self) {
        self.answered = true;
    }

    pub fn error(self, errno: Errno) {
        note::result(errno.raw_os_error());
        self.send(-errno.raw_os_error(), &[]);
    }

    pub fn data(self, data: &[u8]) {
        self.send(0, &[data]);
    }

    /// Answers with at most `bytes` bytes, which `fill` writes directly into the buffer that the
    /// kernel reads. If that is not possible, returns the reply.
    pub fn fill<E>(self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Filled<E> {
        let Way::Slot(slot) = &self.way else { return Filled::NoRoom(self) };
        match slot.fill(bytes, fill) {
            None => Filled::NoRoom(self),
            Some(Err(error)) => Filled::Failed(self, error),
            Some(Ok(filled)) => {
                slot.answer_in_place(self.unique, filled.min(bytes));
                self.none();
                Filled::Done(filled)
            }
        }
    }

    pub fn empty(self, result: Result<(), Errno>) {
        match result {
            Ok(()) => self.send(0, &[]),
            Err(errno) => self.error(errno),
        }
    }

    pub fn entry(self, shown: &Shown) {
        let mut out = Vec::with_capacity(Shown::BYTES);
        shown.put(&mut out);
        self.data(&out);
    }

    /// Answers that the name does not exist, which the kernel may cache for `ttl`.
    pub fn no_entry(self, ttl: Duration) {
        let mut out = Vec::with_capacity(Shown::BYTES);
        // Node number 0, and its generation.
        put(&mut out, 0_u64);
        put(&mut out, 0_u64);
        put(&mut out, ttl.as_secs());
        put(&mut out, 0_u64);
        put(&mut out, ttl.subsec_nanos());
        out.resize(Shown::BYTES, 0);
        self.data(&out);
    }

    /// Answers with attributes; `ino` is the inode number to show.
    pub fn attr(self, ttl: Duration, attr: &Attr, ino: u64) {
        let mut out = Vec::with_capacity(104);
        put(&mut out, ttl.as_secs());
        put(&mut out, ttl.subsec_nanos());
        put(&mut out, 0_u32);
        attr::put_attr(&mut out, attr, ino);
        self.data(&out);
    }

    pub fn statx(self, ttl: Duration, attr: &Attr, ino: u64) {
        let mut out = Vec::with_capacity(288);
        put(&mut out, ttl.as_secs());
        put(&mut out, ttl.subsec_nanos());
        out.resize(32, 0);
        attr::put_statx(&mut out, attr, ino);
        self.data(&out);
    }

    pub fn opened(self, flags: u32) {
        self.data(&open_out(flags));
    }

    pub fn created(self, shown: &Shown, flags: u32) {
        let mut out = Vec::with_capacity(144);
        shown.put(&mut out);
        out.extend_from_slice(&open_out(flags));
        self.data(&out);
    }

    pub fn written(self, bytes: u32) {
        let mut out = Vec::with_capacity(8);
        put(&mut out, bytes);
        put(&mut out, 0_u32);
        self.data(&out);
    }

    pub fn offset(self, offset: u64) {
        self.data(&offset.to_ne_bytes());
    }

    pub fn stat_fs(self, s: &StatFs) {
        let unit = u32::try_from(s.block_bytes).unwrap_or(4096);
        let mut out = Vec::with_capacity(80);
        for n in [s.blocks, s.blocks_free, s.blocks_free, s.files, s.files_free] {
            put(&mut out, n);
        }
        for n in [unit, s.name_max, unit] {
            put(&mut out, n);
        }
        out.resize(80, 0);
        self.data(&out);
    }

    /// Answers with the size of an attribute value (`wanted` 0), or with its bytes if they fit into
    /// `wanted`.
    pub fn xattr(self, wanted: u32, value: &[u8]) {
        match u32::try_from(value.len()) {
            Ok(len) if wanted == 0 => {
                let mut out = Vec::with_capacity(8);
                put(&mut out, len);
                put(&mut out, 0_u32);
                self.data(&out);
            }
            Ok(len) if len <= wanted => self.data(value),
            Ok(_) => self.error(Errno::RANGE),
            Err(_) => self.error(Errno::TOOBIG),
        }
    }

    pub fn ioctl(self, data: &[u8]) {
        self.send(0, &[&[0; 16], data]);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            let _ = self.way.send(self.unique, -libc::EIO, &[]);
        }
    }
}

fn open_out(flags: u32) -> [u8; 16] {
    let mut out = [0; 16];
    out[8..12].copy_from_slice(&flags.to_ne_bytes());
    out
}

/// Directory entries, up to the size of the kernel's buffer.
pub(super) struct Entries {
    bytes: Vec<u8>,
    max: usize,
}

impl Entries {
    pub fn new(max: u32) -> Self {
        let max = max as usize;
        Self { bytes: Vec::with_capacity(max), max }
    }

    /// Adds an entry with its inode number. Returns false if it does not fit.
    pub fn add(&mut self, entry: &DirEntry, ino: u64) -> bool {
        if self.bytes.len() + (24 + entry.name.len()).next_multiple_of(8) > self.max {
            return false;
        }
        put(&mut self.bytes, ino);
        put(&mut self.bytes, entry.next_cookie);
        put(&mut self.bytes, entry.name.len() as u32);
        put(&mut self.bytes, attr::type_bits(entry.kind) >> 12);
        self.bytes.extend_from_slice(&entry.name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        true
    }

    /// Adds an entry with the attributes of its node, if known. Returns false if it does not fit.
    pub fn add_plus(&mut self, shown: Option<&Shown>, entry: &DirEntry, ino: u64) -> bool {
        let start = self.bytes.len();
        match shown {
            Some(shown) => shown.put(&mut self.bytes),
            None => self.bytes.resize(start + Shown::BYTES, 0),
        }
        let added = self.add(entry, ino);
        if !added {
            self.bytes.truncate(start);
        }
        added
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends notifications to the kernel.
#[derive(Debug, Clone)]
pub(super) struct Notifier(pub Arc<File>);

impl Notifier {
    fn send(&self, kind: i32, parts: &[&[u8]]) -> io::Result<()> {
        match send(&self.0, 0, kind, parts) {
            // The kernel has already forgotten the node.
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Invalidates the attributes of the node, and its pages from `offset` on (none if negative):
    /// `FUSE_NOTIFY_INVAL_INODE`.
    pub fn invalidate(&self, node: u64, offset: i64) -> io::Result<()> {
        let mut out = Vec::with_capacity(24);
        put(&mut out, node);
        put(&mut out, offset as u64);
        put(&mut out, 0_u64);
        self.send(2, &[&out])
    }

    /// Invalidates the entry `name` in `dir`: `FUSE_NOTIFY_INVAL_ENTRY`.
    pub fn invalidate_entry(&self, dir: u64, name: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(16);
        put(&mut out, dir);
        put(&mut out, u32::try_from(name.len()).map_err(io::Error::other)?);
        put(&mut out, 0_u32);
        self.send(3, &[&out, name, &[0]])
    }

    /// Stores contents of the node in the kernel's page cache: `FUSE_NOTIFY_STORE`.
    pub fn store(&self, node: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(24);
        put(&mut out, node);
        put(&mut out, offset);
        put(&mut out, u32::try_from(data.len()).map_err(io::Error::other)?);
        put(&mut out, 0_u32);
        self.send(4, &[&out, data])
    }
}
