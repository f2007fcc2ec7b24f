//! A client's connection: partially received input and queued output.
//!
//! Any thread may find that data has arrived; one of them reads, and the others tell it that there
//! is more ([`ReadState::begin`]). Any thread may have an answer; one of them writes,
//! including what the others queue meanwhile.
//!
//! Invariants:
//!   * one thread at a time reads, and one writes; neither waits for the other, nor for the client
//!   * if the socket becomes writable while a thread finds it full, that thread notices and retries
//!   * nothing is read while more than [`QUEUED_MAX`] bytes of output are queued

use super::framer::Framer;
use super::peer::{Peer, Sender};
use super::progress::{PendingAnswers, ReadState};
use crate::nfs::figures::Figures;
use crate::nfs::xdr::{Mark, Writer};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum output queued for one client before reading from it stops: several of the largest
/// answers.
pub(super) const QUEUED_MAX: usize = 8 << 20;
/// Maximum bytes of one client's calls queued for other threads before reading from it stops.
const HANDED_MAX: usize = 8 << 20;
/// Maximum number of pieces in a gathering write.
const PIECES: usize = 64;
/// Answers are combined up to this size.
const TOGETHER_BYTES: usize = 2 << 20;

/// Output that waits to be sent.
#[derive(Default)]
struct Output {
    queue: VecDeque<Writer>,
    /// Bytes of the first writer that were already sent.
    from: usize,
    is_writing: bool,
    /// The socket was full; epoll will report when it is writable.
    is_full: bool,
    /// The socket became writable while a thread was writing.
    has_room: bool,
}

/// Memory budget of all connections.
pub(super) struct Budget {
    used: Arc<AtomicUsize>,
    max: usize,
}

impl Budget {
    /// A budget of `max` bytes; `used` exposes the bytes in use.
    pub fn new(max: usize, used: Arc<AtomicUsize>) -> Self {
        Self { used, max }
    }

    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn is_spent(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.max
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Partially received input.
pub(super) struct Input {
    pub framer: Framer,
    /// Bytes of the budget that the framer's buffer uses.
    pub charged: usize,
}

/// See the module documentation.
pub(super) struct Connection {
    pub id: u64,
    pub socket: OwnedFd,
    pub peer: Peer,
    pub listener: usize,
    pub input: Mutex<Input>,
    pub reading: ReadState,
    pub pending: PendingAnswers,
    output: Mutex<Output>,
    queued: AtomicUsize,
    /// Bytes of calls queued for other threads.
    handed: AtomicUsize,
    pub is_closed: AtomicBool,
    budget: Arc<Budget>,
}

impl Connection {
    pub fn new(
        (id, listener): (u64, usize),
        socket: OwnedFd,
        ends: (SocketAddr, SocketAddr),
        figures: &Figures,
        record_bytes_max: usize,
        budget: Arc<Budget>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            id,
            socket,
            peer: Peer::stream(id, ends, figures, this.clone()),
            listener,
            input: Mutex::new(Input { framer: Framer::new(record_bytes_max), charged: 0 }),
            reading: ReadState::new(),
            pending: PendingAnswers::default(),
            output: Mutex::default(),
            queued: AtomicUsize::new(0),
            handed: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            budget,
        })
    }

    /// Whether the connection holds memory and has made no progress for `long`.
    pub fn is_stalled(&self, long: Duration) -> bool {
        let holds = self.input.try_lock().is_some_and(|i| i.charged > 0) || self.queued.load(Ordering::Relaxed) > 0;
        holds && self.reading.still_seconds() >= long.as_secs()
    }

    /// Whether so much output or so many calls are queued that reading must pause.
    pub fn is_backed_up(&self) -> bool {
        self.queued.load(Ordering::SeqCst) > QUEUED_MAX || self.handed.load(Ordering::SeqCst) > HANDED_MAX
    }

    /// A call of `bytes` bytes is queued for another thread.
    pub fn hand_over(&self, bytes: usize) {
        self.handed.fetch_add(bytes, Ordering::SeqCst);
        self.budget.take(bytes);
    }

    /// The answer of a queued call of `bytes` bytes is in the output.
    pub fn handed_back(&self, bytes: usize) {
        self.handed.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.give(bytes);
    }

    /// Adjusts the budget to what the framer holds.
    pub fn charge(&self, input: &mut Input) {
        let held = input.framer.held_bytes();
        if held > input.charged {
            self.budget.take(held - input.charged);
        } else {
            self.budget.give(input.charged - held);
        }
        input.charged = held;
    }

    /// Queues an answer and writes as much as the socket takes. `spare` gets an empty writer to
    /// reuse, if there is one.
    pub fn put(&self, answer: Writer, spare: &mut Option<Writer>) {
        let len = answer.len();
        self.queued.fetch_add(len, Ordering::AcqRel);
        self.budget.take(len);
        let mut output = self.output.lock();
        output.queue.push_back(answer);
        if output.is_writing || output.is_full {
            return;
        }
        output.is_writing = true;
        drop(output);
        self.write_out(spare);
    }

    /// The socket is writable again.
    pub fn has_room(&self) {
        let mut output = self.output.lock();
        if output.is_writing {
            output.has_room = true;
            return;
        }
        if !output.is_full {
            return;
        }
        (output.is_full, output.is_writing) = (false, true);
        drop(output);
        self.write_out(&mut None);
    }

    /// Writes until the queue is empty or the socket is full. The caller has set `is_writing`.
    fn write_out(&self, spare: &mut Option<Writer>) {
        let mut output = self.output.lock();
        loop {
            let Some(mut next) = output.queue.pop_front() else {
                output.is_writing = false;
                return;
            };
            let mut from = std::mem::take(&mut output.from);
            while next.len() < TOGETHER_BYTES
                && let Some(more) = output.queue.pop_front()
            {
                next.append(more);
            }
            output.has_room = false;
            drop(output);
            let len = next.len();
            let before = from;
            let result = self.write_one(&next, &mut from);
            let gone = if result == Err(Errno::AGAIN) || result.is_ok() { from - before } else { len - before };
            self.queued.fetch_sub(gone, Ordering::AcqRel);
            self.budget.give(gone);
            output = self.output.lock();
            match result {
                Ok(()) => {
                    next.clear();
                    *spare = Some(next);
                }
                Err(Errno::AGAIN) => {
                    output.queue.push_front(next);
                    output.from = from;
                    if !output.has_room {
                        (output.is_writing, output.is_full) = (false, true);
                        return;
                    }
                }
                Err(_) => {
                    // The reading thread will find that the client is gone.
                    self.hang_up();
                }
            }
        }
    }

    fn write_one(&self, answer: &Writer, from: &mut usize) -> Result<(), Errno> {
        let len = answer.len();
        while *from < len {
            if self.is_closed.load(Ordering::Acquire) {
                return Err(Errno::PIPE);
            }
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let count = answer.pieces(*from, &mut pieces);
            match rustix::io::writev(&self.socket, &pieces[..count]) {
                Ok(n) => {
                    *from += n;
                    self.peer.client.sent.add(n as u64);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Shuts the connection down in both directions. The thread that is notified of it cleans up.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Discards queued output after the connection was closed.
    pub fn drop_queue(&self) {
        let mut output = self.output.lock();
        let waiting: usize = output.queue.iter().map(Writer::len).sum::<usize>() - output.from;
        output.queue.clear();
        output.from = 0;
        self.queued.fetch_sub(waiting, Ordering::AcqRel);
        self.budget.give(waiting);
        drop(output);
        if let Some(mut input) = self.input.try_lock() {
            input.framer = Framer::new(0);
            self.charge(&mut input);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let charged = self.input.get_mut().charged;
        self.budget.give(charged + self.queued.load(Ordering::Acquire) + self.handed.load(Ordering::Acquire));
    }
}

impl Sender for Connection {
    fn send(&self, record: Writer) -> bool {
        if self.is_closed.load(Ordering::Acquire) {
            return false;
        }
        let mut marked = Writer::new();
        marked.u32(super::framer::mark(record.len()));
        marked.append(record);
        self.put(marked, &mut None);
        true
    }
}

/// Writes a placeholder for a record mark, which [`end_record`] fills in.
pub(super) fn begin_record(out: &mut Writer) -> Mark {
    let at = out.mark();
    out.u32(0);
    at
}

/// Fills in the record mark, or removes it if the record is empty.
pub(super) fn end_record(out: &mut Writer, at: Mark) {
    match out.since(at).saturating_sub(4) {
        0 => out.rollback(at),
        len => out.patch(at, super::framer::mark(len)),
    }
}
