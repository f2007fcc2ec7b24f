//! The two directions of a connection, with or without TLS.
//!
//! One thread reads and may wait for the client. Any thread with an answer writes it, including
//! what others queue meanwhile. A thread that does not belong to this connection never waits for
//! its client: what the socket does not accept is left to a separate thread.
//!
//! Invariants:
//!   * one thread at a time writes, so that TLS records are sent in the order in which they were
//!     encrypted
//!   * after an error, or when the client has disconnected, nothing more is written or queued
//!   * what is queued is charged to the client's account

use super::waits::Waits;
use crate::net::budget::Account;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ServerConnection;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Size of a read.
const INPUT_BYTES: usize = 64 << 10;
/// Size of a read with TLS: one record and some more.
const RAW_BYTES: usize = 32 << 10;
/// Maximum number of pieces in a gathering write.
const PIECES: usize = 64;
/// Amount encrypted at once; at most twice as much.
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

/// The receiving direction.
pub(super) struct Input {
    socket: Arc<Socket>,
    tls: Option<Arc<Tls>>,
    output: Arc<Output>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Encrypted input.
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
            // At most twice what has arrived, so that an announced length alone allocates no
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

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Bytes>,
    /// Bytes that are not sent.
    bytes: usize,
    is_writing: bool,
    /// When the client last accepted data, or could have started to.
    taken: Option<Instant>,
}

/// The sending direction.
pub(super) struct Output {
    socket: Arc<Socket>,
    account: Arc<Account>,
    tls: Mutex<Option<Arc<Tls>>>,
    queue: Mutex<Queue>,
    drained: Condvar,
    is_gone: AtomicBool,
}

impl Output {
    pub fn new(socket: Arc<Socket>, account: Arc<Account>) -> Arc<Self> {
        Arc::new(Self {
            socket,
            account,
            tls: Mutex::default(),
            queue: Mutex::default(),
            drained: Condvar::new(),
            is_gone: AtomicBool::new(false),
        })
    }

    fn secure(&self, tls: Arc<Tls>) {
        *self.tls.lock() = Some(tls);
    }

    /// Whether the client no longer reads.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Queues and sends data. `may_wait`: the caller belongs to this connection and may wait for
    /// the client.
    pub fn send(self: &Arc<Self>, pieces: Vec<Bytes>, may_wait: bool) {
        {
            let mut queue = self.queue.lock();
            if self.is_gone() {
                return;
            }
            let bytes = pieces.iter().map(Bytes::len).sum::<usize>();
            queue.bytes += bytes;
            self.account.charge(bytes);
            queue.waiting.extend(pieces);
            if queue.is_writing {
                return;
            }
            queue.is_writing = true;
            queue.taken = None;
        }
        self.write(may_wait, VecDeque::new());
    }

    /// Waits until little enough output is queued.
    pub fn wait(&self) {
        let mut queue = self.queue.lock();
        while queue.bytes > QUEUED_MAX && !self.is_gone() {
            self.drained.wait(&mut queue);
        }
    }

    /// Waits until all output was sent.
    pub fn finish(&self) {
        let mut queue = self.queue.lock();
        while (queue.is_writing || !queue.waiting.is_empty()) && !self.is_gone() {
            self.drained.wait(&mut queue);
        }
    }

    /// Closes the connection and discards queued output.
    pub fn give_up(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        let mut queue = self.queue.lock();
        queue.waiting.clear();
        self.sent(&mut queue, usize::MAX);
        self.drained.notify_all();
        drop(queue);
        self.socket.shutdown(Shutdown::Both);
    }

    /// Writes `begun`, then queued output until there is none. Only the thread that set
    /// `is_writing` calls this.
    fn write(self: &Arc<Self>, may_wait: bool, mut begun: VecDeque<Bytes>) {
        let tls = self.tls.lock().clone();
        loop {
            if begun.is_empty() {
                begun = match &tls {
                    None => std::mem::take(&mut self.queue.lock().waiting),
                    Some(tls) => match encrypt(tls, self.some()) {
                        Ok(encrypted) => encrypted,
                        Err(_) => return self.stop_writing(),
                    },
                };
            }
            if begun.is_empty() {
                let mut queue = self.queue.lock();
                if !queue.waiting.is_empty() {
                    continue;
                }
                queue.is_writing = false;
                self.sent(&mut queue, usize::MAX);
                self.drained.notify_all();
                return;
            }
            match self.put(&mut begun) {
                Ok(n) => {
                    let mut queue = self.queue.lock();
                    self.sent(&mut queue, n);
                    queue.taken = None;
                    self.drained.notify_all();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if may_wait => {
                    self.queue.lock().taken.get_or_insert_with(Instant::now);
                    let mut fds = [PollFd::from_borrowed_fd(self.socket.fd(), PollFlags::OUT)];
                    let _ = poll(&mut fds, None);
                }
                Err(Errno::AGAIN) => return self.leave(begun),
                Err(_) => return self.stop_writing(),
            }
        }
    }

    /// `n` bytes were sent. Encrypted ones are more than those that were queued.
    fn sent(&self, queue: &mut Queue, n: usize) {
        let n = n.min(queue.bytes);
        queue.bytes -= n;
        self.account.release(n);
    }

    /// Takes as much queued output as is encrypted at once. The rest stays unencrypted until the
    /// client reads.
    fn some(&self) -> VecDeque<Bytes> {
        let mut queue = self.queue.lock();
        let (mut batch, mut bytes) = (VecDeque::new(), 0);
        while bytes < TLS_BYTES
            && let Some(mut piece) = queue.waiting.pop_front()
        {
            if piece.len() > TLS_BYTES {
                queue.waiting.push_front(piece.split_off(TLS_BYTES));
            }
            bytes += piece.len();
            batch.push_back(piece);
        }
        batch
    }

    /// Whether queued output has made no progress for `long`.
    pub fn is_stalled(&self, long: Duration) -> bool {
        let queue = self.queue.lock();
        queue.is_writing && queue.taken.is_some_and(|taken| taken.elapsed() > long)
    }

    fn stop_writing(&self) {
        self.queue.lock().is_writing = false;
        self.give_up();
    }

    /// Leaves output that the socket does not accept to a thread that waits for it.
    fn leave(self: &Arc<Self>, begun: VecDeque<Bytes>) {
        let this = self.clone();
        let thread = std::thread::Builder::new().name("nbd-out".to_owned()).stack_size(128 << 10);
        if let Err(error) = thread.spawn(move || this.write(true, begun)) {
            tracing::warn!(%error, "disconnected a client: cannot start a thread for it");
            self.stop_writing();
        }
    }

    fn put(&self, begun: &mut VecDeque<Bytes>) -> rustix::io::Result<usize> {
        let pieces: Vec<IoSlice<'_>> = begun.iter().take(PIECES).map(|b| IoSlice::new(b)).collect();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(self.socket.fd(), &pieces, &mut SendAncillaryBuffer::default(), flags)?;
        drop(pieces);
        let mut left = sent;
        while let Some(first) = begun.front_mut() {
            if first.len() > left {
                *first = first.slice(left..);
                break;
            }
            left -= first.len();
            begun.pop_front();
        }
        Ok(sent)
    }
}

/// Encrypts `batch`, after what TLS itself has to send.
fn encrypt(tls: &Tls, batch: VecDeque<Bytes>) -> io::Result<VecDeque<Bytes>> {
    let mut tls = tls.lock();
    tls.set_buffer_limit(None);
    for piece in batch {
        tls.writer().write_all(&piece)?;
    }
    let mut encrypted = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut encrypted)?;
    }
    Ok(if encrypted.is_empty() { VecDeque::new() } else { VecDeque::from([Bytes::from(encrypted)]) })
}
