//! Encoding of replies: headers, and data as references to cached buffers.

use super::handshake::{ALLOCATION_ID, Agreed};
use super::proto::{Chunk, Request, chunk, simple_reply};
use bytes::Bytes;
use errors::{Error, Refusal};
use object::{Extent, Part};

/// Data up to this length is appended to its header, which is cheaper than a separate slice.
const COPIED_MAX: usize = 16 << 10;
/// Shorter holes are sent as zeros: a chunk costs 32 bytes and processing time on the client.
const HOLE_MIN: usize = 4096;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Replies to be sent together.
#[derive(Default)]
pub(super) struct Replies {
    done: Vec<Bytes>,
    open: Vec<u8>,
    bytes: usize,
}

impl Replies {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes and returns all replies, as pieces to send one after the other.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.close();
        self.bytes = 0;
        std::mem::take(&mut self.done)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
        self.bytes += bytes.len();
    }

    fn data(&mut self, data: Bytes) {
        if data.len() <= COPIED_MAX {
            return self.put(&data);
        }
        self.close();
        self.bytes += data.len();
        self.done.push(data);
    }

    fn zeros(&mut self, mut n: usize) {
        while n > 0 {
            let piece = n.min(ZEROS.len());
            self.data(Bytes::from_static(&ZEROS[..piece]));
            n -= piece;
        }
    }

    fn parts(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part {
                Part::Hole(n) => self.zeros(n),
                Part::Data(data) => self.data(data),
            }
        }
    }

    /// Reports success of a command that returns no data. Always a simple reply.
    pub fn done(&mut self, request: &Request) {
        self.put(&simple_reply(request.cookie, 0));
    }

    /// An error, with its text in structured replies.
    pub fn error(&mut self, request: &Request, agreed: Agreed, errno: u32, text: &str) {
        if !agreed.structured {
            return self.put(&simple_reply(request.cookie, errno));
        }
        let text = &text.as_bytes()[..text.len().min(1024)];
        self.put(&chunk(request.cookie, Chunk::Error, true, 6 + text.len() as u32));
        self.put(&errno.to_be_bytes());
        self.put(&(text.len() as u16).to_be_bytes());
        self.put(text);
    }

    /// The result of a read. Uses several chunks if structured replies were negotiated and `whole`
    /// is not set, so that holes are reported instead of sent.
    pub fn read(&mut self, request: &Request, agreed: Agreed, whole: bool, parts: Vec<Part>) {
        if !agreed.structured {
            self.put(&simple_reply(request.cookie, 0));
            return self.parts(parts);
        }
        let is_hole = |part: &Part| matches!(part, Part::Hole(n) if *n >= HOLE_MIN);
        if whole || !parts.iter().any(is_hole) {
            self.put(&chunk(request.cookie, Chunk::Data, true, 8 + request.length));
            self.put(&request.offset.to_be_bytes());
            return self.parts(parts);
        }
        let mut at = request.offset;
        let end = at + u64::from(request.length);
        let mut rest = parts.into_iter().peekable();
        while let Some(first) = rest.next() {
            if is_hole(&first) {
                let next = at + first.len() as u64;
                self.put(&chunk(request.cookie, Chunk::Hole, next == end, 12));
                self.put(&at.to_be_bytes());
                self.put(&(first.len() as u32).to_be_bytes());
                at = next;
                continue;
            }
            let mut run = vec![first];
            while let Some(part) = rest.next_if(|part| !is_hole(part)) {
                run.push(part);
            }
            let len: usize = run.iter().map(Part::len).sum();
            let next = at + len as u64;
            self.put(&chunk(request.cookie, Chunk::Data, next == end, 8 + len as u32));
            self.put(&at.to_be_bytes());
            self.parts(run);
            at = next;
        }
    }

    /// The result of block status: data and holes.
    pub fn extents(&mut self, request: &Request, extents: &[Extent]) {
        /// NBD_STATE_HOLE and NBD_STATE_ZERO.
        const HOLE: u32 = 3;
        self.put(&chunk(request.cookie, Chunk::BlockStatus, true, 4 + 8 * extents.len() as u32));
        self.put(&ALLOCATION_ID.to_be_bytes());
        for extent in extents {
            self.put(&u32::try_from(extent.bytes).unwrap_or(u32::MAX).to_be_bytes());
            self.put(&(if extent.is_hole { HOLE } else { 0 }).to_be_bytes());
        }
    }
}

/// Error numbers of the protocol: a subset of Linux's.
pub(super) mod errno {
    pub const PERM: u32 = 1;
    pub const IO: u32 = 5;
    pub const INVAL: u32 = 22;
    pub const NOSPC: u32 = 28;
    pub const OVERFLOW: u32 = 75;
    pub const NOTSUP: u32 = 95;
    pub const SHUTDOWN: u32 = 108;
}

/// The error number for an error.
pub(super) fn number(error: &Error) -> u32 {
    match error {
        Error::Refused { why: Refusal::ReadOnly | Refusal::NotPermitted, .. } => errno::PERM,
        Error::Refused { why: Refusal::NoSpace | Refusal::QuotaExceeded | Refusal::TooLarge, .. } => errno::NOSPC,
        Error::Refused { why: Refusal::Stale, .. } => errno::SHUTDOWN,
        Error::Invalid { .. } => errno::INVAL,
        Error::Unsupported { .. } => errno::NOTSUP,
        _ => errno::IO,
    }
}
