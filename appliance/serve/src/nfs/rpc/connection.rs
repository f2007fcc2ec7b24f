//! A client's connection: partially received input, calls that are not answered, and queued output.
//!
//! Any thread may find that data has arrived; one of them reads, and the others notify it of more
//! data ([`ReadState::begin`]). Any thread may have an answer; one of them writes
//! ([`Output`]).
//!
//! Invariants:
//!   * one thread at a time reads, and one writes; neither waits for the other, nor for the client
//!   * while more than [`QUEUED_MAX`] bytes of output are queued, nothing is read and no call is
//!     begun: calls that were read are parked
//!   * before a call is answered, memory for its answer is reserved in the client's account

use super::backlog::Unanswered;
use super::framer::Framer;
use super::peer::{Peer, Sender};
use super::progress::{PendingAnswers, ReadState};
use crate::net::budget::{Account, Budget, Client, Reservation};
use crate::net::output::Output;
use crate::net::sync::Mutex;
use crate::net::sync::atomic::{AtomicBool, Ordering};
use crate::network::network;
use crate::nfs::figures::Figures;
use crate::nfs::xdr::{Mark, Writer};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum output queued for one client before serving it stops: several of the largest answers.
pub(super) const QUEUED_MAX: usize = 8 << 20;
/// Maximum bytes of one client's calls queued for other threads before reading from it stops.
const HANDED_MAX: usize = 8 << 20;
/// Reserved by a thread that answers calls of one connection, until the answers are queued. A
/// longer answer is charged when it is queued: the threads exceed the budget by at most an answer
/// each.
const ANSWER_BYTES: usize = 256 << 10;
/// Must be free for a read.
const READ_BYTES: usize = 32 << 10;

/// Memory for all connections. Answers have their own, so that calls that wait for an answer never
/// take the memory that it needs.
pub(super) struct Budgets {
    pub calls: Arc<Budget>,
    pub answers: Arc<Budget>,
}

/// What was received of the next call. The thread that reads holds its lock.
pub(super) struct Input {
    pub framer: Framer,
    /// Bytes of the budget that the framer's buffer uses.
    pub charged: usize,
}

/// Accounts of the client.
struct Accounts {
    calls: Arc<Account>,
    answers: Arc<Account>,
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
    pub unanswered: Unanswered,
    output: Output<Writer>,
    /// It was shut down: what it holds is not needed any more.
    is_cut: AtomicBool,
    accounts: Accounts,
}

impl Connection {
    pub fn new(
        (id, listener): (u64, usize),
        socket: OwnedFd,
        ends: (SocketAddr, SocketAddr),
        figures: &Figures,
        record_bytes_max: usize,
        budgets: &Budgets,
    ) -> Arc<Self> {
        let client = Client::Network(network(ends.0.ip()));
        let (calls, answers) = (budgets.calls.account(client), budgets.answers.account(client));
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            id,
            socket,
            peer: Peer::stream(id, ends, figures, this.clone()),
            listener,
            input: Mutex::new(Input { framer: Framer::new(record_bytes_max), charged: 0 }),
            reading: ReadState::new(),
            pending: PendingAnswers::default(),
            unanswered: Unanswered::new(calls.clone()),
            output: Output::new(answers.clone()),
            is_cut: AtomicBool::new(false),
            accounts: Accounts { calls, answers },
        })
    }

    /// The client, whose connections share its memory.
    pub fn client(&self) -> Client {
        self.accounts.calls.client()
    }

    /// Whether the connection holds memory and has made no progress for `long`.
    pub fn is_stalled(&self, long: Duration) -> bool {
        let holds = self.input.try_lock().is_some_and(|i| i.charged > 0) || self.output.queued() > 0;
        holds && self.reading.still() >= long
    }

    /// Whether so much output or so many calls are queued that serving must pause.
    pub fn is_backed_up(&self) -> bool {
        let has_many = || self.unanswered.bytes() > HANDED_MAX && !self.unanswered.has_parked();
        self.output.queued() > QUEUED_MAX || has_many()
    }

    /// Whether there is memory to continue: to answer what is parked, to read, or to complete a
    /// call whose memory is charged already. Otherwise connections of one client that each have
    /// part of a call could wait for one another.
    pub fn has_memory(&self) -> bool {
        self.accounts.answers.has_room(ANSWER_BYTES)
            && (self.unanswered.has_parked()
                || self.accounts.calls.has_room(READ_BYTES)
                || self.input.try_lock().is_some_and(|input| input.framer.has_place()))
    }

    /// Reserves memory for answers, to be held until they are queued. `None`: no call may be begun
    /// now.
    pub fn reserve(&self) -> Option<Reservation> {
        if self.output.queued() > QUEUED_MAX {
            return None;
        }
        self.accounts.answers.try_reserve(ANSWER_BYTES)
    }

    /// Adjusts the budget to what the framer holds.
    pub fn charge(&self, input: &mut Input) {
        let held = input.framer.held_bytes();
        if held > input.charged {
            self.accounts.calls.charge(held - input.charged);
        } else {
            self.accounts.calls.release(input.charged - held);
        }
        input.charged = held;
    }

    /// Queues an answer and writes as much as the socket takes. Returns an empty writer to reuse,
    /// if there is one.
    pub fn put(&self, answer: Writer) -> Option<Writer> {
        // epoll reports when the socket is writable.
        let spare = self.output.put(answer, |pieces| self.write(pieces)).spare;
        self.end_if_sent();
        spare
    }

    /// The socket is writable again.
    pub fn has_room(&self) {
        self.output.has_room(|pieces| self.write(pieces));
        self.end_if_sent();
    }

    /// Whether all queued answers are sent, or none can be sent any more.
    pub fn has_sent_all(&self) -> bool {
        self.is_cut() || self.output.queued() == 0
    }

    /// Shuts the connection down if its last answer was queued before, and is sent now.
    fn end_if_sent(&self) {
        if self.pending.are_over() && self.has_sent_all() {
            self.hang_up();
        }
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let result = rustix::io::writev(&self.socket, pieces);
        match result {
            Ok(n) => {
                self.peer.client.sent.add(n as u64);
                self.reading.moved();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The thread that reads will clean up.
            Err(_) => self.hang_up(),
        }
        result
    }

    /// Shuts the connection down in both directions. The thread that is notified of it cleans up.
    pub fn hang_up(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Whether it was shut down.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    /// Discards input and output after the connection was shut down.
    pub fn drop_queue(&self) {
        self.output.close();
        if let Some(mut input) = self.input.try_lock() {
            input.framer = Framer::new(0);
            self.charge(&mut input);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.accounts.calls.release(self.input.get_mut().charged);
    }
}

impl Sender for Connection {
    fn send(&self, record: Writer) -> bool {
        if self.output.is_closed() {
            return false;
        }
        let mut marked = Writer::new();
        marked.u32(super::framer::mark(record.len()));
        marked.append(record);
        self.put(marked);
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
