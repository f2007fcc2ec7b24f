//! The two directions of a connection, with or without TLS.
//!
//! One thread reads and may wait for the client. Any thread with an answer writes it
//! ([`net::output`]). A thread that does not belong to this connection never waits for its client:
//! what the socket does not accept is left to a separate thread.
//!
//! Invariant: one thread at a time encrypts and writes, so that TLS records are sent in the order
//! in which they were encrypted.

use super::waits::Waits;
use crate::net;
use crate::net::budget::Account;
use crate::net::output::Message;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of a read.
const INPUT_BYTES: usize = 64 << 10;
/// Size of a read with TLS: one record and some more.
const RAW_BYTES: usize = 32 << 10;
/// Maximum amount encrypted at once.
const TLS_BYTES: usize = 256 << 10;
/// Maximum output queued before no further request is read.
pub(super) const QUEUED_MAX: usize = 4 << 20;

/// A socket of either kind.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }

    pub fn shutdown(&self, how: Shutdown) {
        // The socket may be closed already.
        let _ = match self {
            Self::Tcp(s) => s.shutdown(how),
            Self::Unix(s) => s.shutdown(how),
        };
    }

    /// Sets the read timeout; `None`: no timeout.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_read_timeout(patience),
            Self::Unix(s) => s.set_read_timeout(patience),
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let result = match self {
                Self::Tcp(s) => (&mut &*s).read(buf),
                Self::Unix(s) => (&mut &*s).read(buf),
            };
            match result {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

type Tls = Mutex<ServerConnection>;

/// The receiving direction of a connection. Decrypts if TLS is used.
pub(super) struct Input {
    socket: Arc<Socket>,
    tls: Option<Arc<Tls>>,
    output: Arc<Output>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Received bytes of TLS. Those from `raw_start` on are not decrypted yet.
    raw: Vec<u8>,
    raw_start: usize,
    /// What the connection waits for, including the rest of a partial request.
    waits: Arc<Mutex<Waits>>,
}

impl Input {
    pub fn new(socket: Arc<Socket>, output: Arc<Output>, waits: Arc<Mutex<Waits>>) -> Self {
        let (buf, raw) = (vec![0; INPUT_BYTES], Vec::new());
        Self { socket, tls: None, output, buf, start: 0, end: 0, raw, raw_start: 0, waits }
    }

    /// Updates what the connection waits for, after a request was received partially or completely.
    fn has_part(&self, is_part: bool) {
        let mut waits = self.waits.lock();
        match *waits {
            Waits::Nothing | Waits::First(_) if is_part => *waits = Waits::Rest(Instant::now()),
            Waits::Rest(_) if !is_part => *waits = Waits::Nothing,
            _ => {}
        }
    }

    /// Switches to TLS. There may be no buffered input, because the client must wait for our
    /// answer.
    pub fn secure(&mut self, tls: ServerConnection) -> io::Result<()> {
        if self.start != self.end {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "data before the TLS handshake"));
        }
        let tls = Arc::new(Mutex::new(tls));
        self.tls = Some(tls.clone());
        self.output.secure(tls);
        Ok(())
    }

    /// Reads the next `N` bytes; `None` if the client has closed the connection before the first.
    pub fn next<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.end - self.start < N {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let is_part = self.end > self.start;
            if is_part {
                self.has_part(true);
            }
            let mut buf = std::mem::take(&mut self.buf);
            let count = self.receive(&mut buf[self.end..]);
            self.buf = buf;
            if is_part {
                self.has_part(false);
            }
            match count? {
                0 if self.end == self.start => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.end += n,
            }
        }
        let bytes = self.buf[self.start..self.start + N].try_into().expect("as many are there");
        self.start += N;
        Ok(Some(bytes))
    }

    /// Whether `n` more bytes are buffered.
    pub fn has(&self, n: usize) -> bool {
        self.end - self.start >= n
    }

    /// Reads the next `len` bytes. The buffer grows as they arrive. `is_late` is called whenever a
    /// read times out, and aborts if it returns true.
    pub fn take(&mut self, len: usize, is_late: &mut dyn FnMut() -> bool) -> io::Result<Vec<u8>> {
        let here = (self.end - self.start).min(len);
        let mut out = Vec::with_capacity(len.min(here + INPUT_BYTES));
        out.extend_from_slice(&self.buf[self.start..self.start + here]);
        self.start += here;
        while out.len() < len {
            let from = out.len();
            // At most twice what has arrived, so that an announced length by itself allocates no
            // memory.
            let to = len.min((2 * from).max(from + INPUT_BYTES));
            out.resize(to, 0);
            let mut at = from;
            while at < to {
                match self.receive(&mut out[at..to]) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n) => at += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && !is_late() => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(out)
    }

    /// Discards the next `len` bytes.
    pub fn skip(&mut self, len: usize) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let piece = self.take(left.min(INPUT_BYTES), &mut || true)?;
            left -= piece.len();
        }
        Ok(())
    }

    fn receive(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.clone() else { return self.socket.read(out) };
        loop {
            let wants_write = {
                let mut tls = tls.lock();
                match tls.reader().read(out) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    // The client closed without close_notify. A truncated request is detected by
                    // its reader.
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    other => return other,
                }
                if self.raw_start < self.raw.len() {
                    let mut rest = &self.raw[self.raw_start..];
                    tls.read_tls(&mut rest)?;
                    self.raw_start = self.raw.len() - rest.len();
                    let result = tls.process_new_packets().map(drop).map_err(io::Error::other);
                    Some((tls.wants_write(), result))
                } else {
                    None
                }
            };
            match wants_write {
                Some((wants_write, result)) => {
                    if wants_write {
                        // Our side of the handshake, or an alert.
                        self.output.send(Vec::new(), true);
                    }
                    result?;
                }
                None => {
                    self.raw.resize(RAW_BYTES, 0);
                    let result = self.socket.read(&mut self.raw);
                    self.raw.truncate(*result.as_ref().unwrap_or(&0));
                    self.raw_start = 0;
                    if result? == 0 {
                        return Ok(0);
                    }
                }
            }
        }
    }
}

/// Pieces that are sent together.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Message for Pieces {
    fn len(&self) -> usize {
        self.bytes
    }

    fn pieces<'a>(&'a self, from: usize, out: &mut [IoSlice<'a>]) -> usize {
        let (mut skip, mut count) = (from, 0);
        for piece in &self.pieces {
            let rest = &piece[skip.min(piece.len())..];
            skip -= piece.len() - rest.len();
            if rest.is_empty() {
                continue;
            }
            let Some(slot) = out.get_mut(count) else { break };
            *slot = IoSlice::new(rest);
            count += 1;
        }
        count
    }

    fn append(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
        self.bytes += other.bytes;
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is encrypted and not yet sent. Only the thread that writes uses it.
#[derive(Default)]
struct Encrypted {
    bytes: Vec<u8>,
    sent: usize,
    /// Number of bytes that were encrypted.
    plain: usize,
}

/// The sending direction of a connection. Any thread may send.
pub(super) struct Output {
    socket: Arc<Socket>,
    tls: Mutex<Option<Arc<Tls>>>,
    encrypted: Mutex<Encrypted>,
    queue: net::output::Output<Pieces>,
}

impl Output {
    pub fn new(socket: Arc<Socket>, account: Arc<Account>) -> Arc<Self> {
        let queue = net::output::Output::new(account);
        Arc::new(Self { socket, tls: Mutex::default(), encrypted: Mutex::default(), queue })
    }

    fn secure(&self, tls: Arc<Tls>) {
        *self.tls.lock() = Some(tls);
    }

    /// Whether the client no longer reads.
    pub fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }

    /// Queues and sends data, and what TLS itself has to send. `may_wait`: the caller belongs to
    /// this connection and may wait for the client.
    pub fn send(self: &Arc<Self>, pieces: Vec<Bytes>, may_wait: bool) {
        let bytes = pieces.iter().map(Bytes::len).sum();
        if !self.queue.put(Pieces { pieces, bytes }, |pieces| self.write(pieces)).is_full {
            return;
        }
        if may_wait {
            return self.drain();
        }
        let this = self.clone();
        let thread = std::thread::Builder::new().name("nbd-out".to_owned()).stack_size(128 << 10);
        if let Err(error) = thread.spawn(move || this.drain()) {
            tracing::warn!(%error, "disconnected a client: cannot start a thread for it");
            self.give_up();
        }
    }

    /// Waits for the client until the socket has taken all output.
    fn drain(&self) {
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.socket.fd(), PollFlags::OUT)];
            let _ = poll(&mut fds, None);
            if !self.queue.has_room(|pieces| self.write(pieces)).is_full {
                return;
            }
        }
    }

    /// Waits until little enough output is queued.
    pub fn wait(&self) {
        self.queue.wait(QUEUED_MAX);
    }

    /// Waits until all output was sent.
    pub fn finish(&self) {
        self.queue.finish();
    }

    /// Whether queued output has made no progress for `long`.
    pub fn is_stalled(&self, long: Duration) -> bool {
        self.queue.is_stalled(long)
    }

    /// Closes the connection and discards queued output.
    pub fn give_up(&self) {
        self.queue.close();
        self.socket.shutdown(Shutdown::Both);
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        let tls = self.tls.lock().clone();
        let result = match tls {
            None => self.put(pieces),
            Some(tls) => self.put_encrypted(&tls, pieces),
        };
        if result.is_err_and(|e| e != Errno::AGAIN && e != Errno::INTR) {
            self.give_up();
        }
        result
    }

    /// Encrypts some of `pieces`, unless that was done before, and sends all of that. So the rest
    /// stays unencrypted until the client reads.
    fn put_encrypted(&self, tls: &Tls, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        let mut encrypted = self.encrypted.lock();
        if encrypted.sent == encrypted.bytes.len() {
            *encrypted = encrypt(tls, pieces).map_err(|_| Errno::IO)?;
        }
        while encrypted.sent < encrypted.bytes.len() {
            let n = self.put(&[IoSlice::new(&encrypted.bytes[encrypted.sent..])])?;
            encrypted.sent += n;
        }
        Ok(std::mem::take(&mut *encrypted).plain)
    }

    fn put(&self, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        if pieces.is_empty() {
            return Ok(0);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(self.socket.fd(), pieces, &mut SendAncillaryBuffer::default(), flags)
    }
}

/// Encrypts the first of `pieces`, after what TLS itself has to send.
fn encrypt(tls: &Tls, pieces: &[IoSlice<'_>]) -> io::Result<Encrypted> {
    let mut tls = tls.lock();
    tls.set_buffer_limit(None);
    let mut plain = 0;
    for piece in pieces {
        let some = &piece[..piece.len().min(TLS_BYTES - plain)];
        tls.writer().write_all(some)?;
        plain += some.len();
    }
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes)?;
    }
    Ok(Encrypted { bytes, sent: 0, plain })
}
