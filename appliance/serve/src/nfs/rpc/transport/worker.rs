//! The work of a thread of the [`Engine`]: polls, reads, answers and sends.

use super::super::connection::{Connection, begin_record, end_record};
use super::super::framer::Record;
use super::super::{Peer, Received, Registry, Wait};
use super::jobs::{Handed, Job};
use super::{Engine, Listener, Socket, TOKEN_LISTENER, TOKEN_WAKE};
use crate::net::sync::wait;
use crate::nfs::xdr::{Malformed, Writer};
use host::clock::Stopwatch;
use rustix::event::epoll;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of a read while no long record is in progress: a hundred calls without data.
const READ_BYTES: usize = 32 << 10;
/// Fragments of at least this size are read directly into their buffer.
const PLACE_MIN: usize = 8 << 10;
/// A call that took this long may have waited for a device: calls that were read with it go to
/// other threads. Guessed.
const SLOW: Duration = Duration::from_micros(500);
/// A write that took this long was kept waiting. Guessed: longer than copying takes.
const WAITED: Duration = Duration::from_millis(2);
/// Number of calls, or bytes of calls, answered for one client before other ready clients have
/// their turn. Guessed: a millisecond or less if nothing waits.
const TURN_CALLS: usize = 128;
const TURN_BYTES: usize = 4 << 20;
/// Answers are combined with those of the following calls up to this size, unless a call was slow.
const TOGETHER_BYTES: usize = 1 << 20;
/// An additional thread ends after this time without work.
const THREAD_IDLE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };

/// A thread's state between calls.
pub(super) struct Worker<'e> {
    engine: &'e Arc<Engine>,
    scratch: Vec<u8>,
    spare: Option<Writer>,
}

/// Result of one read.
enum Got {
    /// The socket is empty.
    All,
    /// There may be more.
    Part,
    /// The client has closed the connection, or sent something that is not a record.
    End,
}

impl<'e> Worker<'e> {
    pub fn new(engine: &'e Arc<Engine>) -> Self {
        Self { engine, scratch: vec![0; READ_BYTES], spare: Some(Writer::new()) }
    }

    /// A worker that only answers waiting calls and does not read.
    pub fn waiting(engine: &'e Arc<Engine>) -> Self {
        Self { engine, scratch: Vec::new(), spare: Some(Writer::new()) }
    }

    /// Answers waiting calls, until there are none for a while.
    pub fn answer_waiting(&mut self) {
        while let Some(call) = self.engine.waiting.take() {
            self.answer_handed(call);
            self.engine.feed_starved();
        }
    }

    /// Works until the engine stops or, unless `stays`, until there was nothing to do for a while.
    pub fn work(&mut self, stays: bool) {
        let engine = self.engine;
        loop {
            if engine.threads.is_stopping() {
                return;
            }
            if let Some(call) = engine.jobs.take_answer() {
                self.answer_handed(call);
                engine.feed_starved();
                continue;
            }
            engine.threads.begin_idle();
            let waited = wait(&engine.poll, if stays { None } else { Some(&THREAD_IDLE) });
            engine.threads.end_idle();
            let event = match waited {
                Ok(Some(event)) => event,
                Ok(None) if !stays => return,
                Ok(None) | Err(Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "waiting for connections");
                    return;
                }
            };
            let (token, flags) = (event.data.u64(), event.flags);
            match token {
                TOKEN_WAKE => self.job(),
                _ if token >= TOKEN_LISTENER => self.listener((token - TOKEN_LISTENER) as usize),
                id => {
                    let found = engine.connections.read().get(&id).cloned();
                    let Some(connection) = found else { continue };
                    if flags.contains(epoll::EventFlags::OUT) {
                        connection.has_room();
                        engine.resume(&connection);
                    }
                    use epoll::EventFlags as F;
                    if flags.intersects(F::RDHUP | F::HUP | F::ERR) {
                        // This is reported once, and may come together with the last bytes.
                        connection.reading.client_ended();
                    }
                    if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) && connection.reading.begin() {
                        self.serve(&connection);
                    }
                }
            }
            engine.feed_starved();
        }
    }

    /// Takes a job: a call, or else a connection to read from.
    fn job(&mut self) {
        match self.engine.jobs.take() {
            Some(Job::Answer(call)) => self.answer_handed(call),
            // If another thread is reading already, it knows that there is more.
            Some(Job::Read(connection)) if connection.reading.begin() => self.serve(&connection),
            Some(Job::Read(_)) | None => {}
        }
    }

    /// Answers a call that another thread read, or parks it.
    fn answer_handed(&mut self, call: Handed) {
        let Handed { connection, record, arrived, received } = call;
        let Some(reserved) = connection.reserve() else {
            connection.unanswered.park((record, arrived));
            return self.engine.pause(&connection);
        };
        let len = record.bytes().len();
        let before = Instant::now();
        let mut out = self.writer();
        if !self.answer(&connection, (arrived, record.bytes(), &received), &mut out) {
            connection.hang_up();
        }
        self.send(&connection, out);
        drop(reserved);
        if let Record::Kept(buffer, _) = record {
            self.engine.memory.take_back(buffer);
        }
        self.done(&connection);
        if received.wait == Wait::Maybe && before.elapsed() > WAITED {
            self.engine.in_place.writes_wait();
        }
        connection.unanswered.remove(len);
        self.engine.resume(&connection);
    }

    /// A read, or a call that was parked or given to another thread, was answered. Closes the
    /// connection after the last one if the client sends no more. If answers are still queued, the
    /// thread that sends them shuts the connection down.
    fn done(&self, connection: &Arc<Connection>) {
        if connection.pending.remove() && connection.has_sent_all() {
            self.engine.close(connection);
        }
    }

    fn listener(&mut self, index: usize) {
        match self.engine.listeners.get(index) {
            Some(Listener { socket: Socket::Stream(_), .. }) => self.engine.accept(index),
            Some(Listener { socket: Socket::Datagrams(socket), registry }) => {
                let Ok((len, address)) = socket.recv_from(&mut self.scratch) else { return };
                let local = socket.local_addr().unwrap_or(address);
                let mut out = self.writer();
                let peer = Peer::datagram(address, local);
                let answer = || registry.answer(&peer, &self.scratch[..len], &mut out);
                let answered = catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
                    tracing::error!(?peer, "a datagram broke an invariant of this program: it is not answered");
                    Err(Malformed)
                });
                if answered.is_ok() && !out.is_empty() {
                    let _ = socket.send_to(&out.to_vec(), address);
                }
                out.clear();
                self.spare = Some(out);
            }
            None => {}
        }
    }

    fn writer(&mut self) -> Writer {
        self.spare.take().unwrap_or_default()
    }

    /// Answers what is parked, then reads and answers until the socket is empty or other
    /// connections have their turn. The caller has the right to read.
    fn serve(&mut self, connection: &Arc<Connection>) {
        let (mut calls, mut bytes) = (0, 0);
        loop {
            if connection.is_cut() {
                self.clean_up(connection);
                if connection.reading.end() {
                    return;
                }
                continue;
            }
            if calls >= TURN_CALLS || bytes >= TURN_BYTES {
                connection.reading.stop();
                return self.engine.jobs.read_later(connection);
            }
            if connection.is_backed_up() || !connection.has_memory() {
                // Stop before pausing: the thread that resumes must not find this thread still
                // reading.
                connection.reading.stop();
                return self.engine.pause(connection);
            }
            let parked = connection.unanswered.take(TURN_CALLS);
            if !parked.is_empty() {
                calls += parked.len();
                bytes += parked.iter().map(|(record, _)| record.bytes().len()).sum::<usize>();
                let count = parked.len();
                self.answer_all(connection, parked.into_iter());
                (0..count).for_each(|_| self.done(connection));
                continue;
            }
            if connection.pending.was_all_read() {
                if connection.reading.end() {
                    return;
                }
                continue;
            }
            let mut kept: Vec<Record<'static>> = Vec::new();
            let mut scratch = std::mem::take(&mut self.scratch);
            let (got, len) = self.read(connection, &mut scratch, &mut kept);
            // The best available estimate of when the last bytes of the complete records arrived.
            let arrived = Stopwatch::start();
            // Complete records are answered from the scratch buffer. A partial one goes to the
            // framer.
            let mut records = kept;
            let mut got = got;
            let mut fed = Vec::new();
            {
                let mut input = connection.input.lock();
                let mut rest = &scratch[..len];
                self.engine.memory.lend(&mut input.framer);
                loop {
                    match input.framer.feed(&mut rest) {
                        Ok(Some(record)) => fed.push(record),
                        Ok(None) => break,
                        Err(_) => {
                            tracing::debug!(peer = ?connection.peer, "sends an invalid record: closed");
                            got = Got::End;
                            break;
                        }
                    }
                }
                if let Some(buffer) = input.framer.take_back() {
                    self.engine.memory.take_back(buffer);
                }
                connection.charge(&mut input);
            }
            calls += records.len() + fed.len();
            bytes += records.iter().chain(&fed).map(|r| r.bytes().len()).sum::<usize>();
            connection.pending.add();
            let is_done = match got {
                Got::All => connection.reading.end(),
                // Answer first, then handle the end.
                Got::Part if connection.reading.has_ended() => false,
                Got::Part => {
                    // Another thread may continue reading while this one answers.
                    if fed.len() + records.len() > 0 && self.engine.threads.has_idle() {
                        connection.reading.stop();
                        self.engine.jobs.read_later(connection);
                        true
                    } else {
                        false
                    }
                }
                // Calls may be parked below.
                Got::End => {
                    connection.pending.all_read();
                    false
                }
            };
            self.answer_all(connection, records.drain(..).chain(fed).map(|record| (record, arrived)));
            self.scratch = scratch;
            self.done(connection);
            if is_done {
                return;
            }
        }
    }

    /// Reads once: directly into a long record in progress, or into `scratch`. Returns the number
    /// of bytes in `scratch`.
    fn read(&self, connection: &Connection, scratch: &mut [u8], kept: &mut Vec<Record<'static>>) -> (Got, usize) {
        let mut input = connection.input.lock();
        let (result, requested, is_placed) = match input.framer.place(PLACE_MIN) {
            Some(place) => (rustix::io::read(&connection.socket, &mut *place), place.len(), true),
            None => (rustix::io::read(&connection.socket, &mut *scratch), scratch.len(), false),
        };
        let count = match result {
            Ok(0) => return (Got::End, 0),
            Ok(count) => count,
            Err(Errno::AGAIN) => return (Got::All, 0),
            Err(Errno::INTR) => return (Got::Part, 0),
            Err(error) => {
                tracing::debug!(peer = ?connection.peer, %error, "connection lost");
                return (Got::End, 0);
            }
        };
        connection.reading.moved();
        connection.peer.client.received.add(count as u64);
        let is_all = count < requested && !connection.reading.has_ended();
        let got = if is_all { Got::All } else { Got::Part };
        if is_placed {
            kept.extend(input.framer.placed(count));
            return (got, 0);
        }
        (got, count)
    }

    fn registry(&self, connection: &Connection) -> &'e Registry {
        &self.engine.listeners[connection.listener].registry
    }

    /// Answers a call. Returns false if that broke an invariant.
    fn answer(
        &self,
        connection: &Connection,
        (arrived, record, received): (Stopwatch, &[u8], &Received),
        out: &mut Writer,
    ) -> bool {
        let mark = begin_record(out);
        // If an invariant breaks, only this client's connection is closed, and the thread continues
        // to serve others.
        let registry = self.registry(connection);
        let answer = || registry.answer_received(arrived, &connection.peer, record, received, out);
        let is_answered = catch_unwind(AssertUnwindSafe(answer)).is_ok();
        if !is_answered {
            tracing::error!(peer = ?connection.peer, "a call broke an invariant of this program: its connection is closed");
            out.rollback(mark);
        }
        end_record(out, mark);
        self.engine.threads.answered();
        is_answered
    }

    /// Releases what a connection holds that was shut down, and closes it unless other threads are
    /// answering its calls.
    fn clean_up(&self, connection: &Arc<Connection>) {
        connection.pending.add();
        connection.pending.all_read();
        connection.drop_queue();
        loop {
            let parked = connection.unanswered.take(TURN_CALLS);
            if parked.is_empty() {
                break;
            }
            parked.iter().for_each(|_| self.done(connection));
        }
        self.done(connection);
    }

    fn send(&mut self, connection: &Arc<Connection>, out: Writer) {
        if out.is_empty() {
            self.spare = Some(out);
            return;
        }
        if let Some(spare) = connection.put(out) {
            self.spare = Some(spare);
        }
        // All queued output may have been sent, including answers of other threads, without epoll
        // reporting the socket as writable.
        self.engine.resume(connection);
    }

    /// Answers calls until the client has too much to take; the others are parked.
    fn answer_all<'r>(&mut self, connection: &Arc<Connection>, records: impl Iterator<Item = (Record<'r>, Stopwatch)>) {
        let mut records = records.peekable();
        if records.peek().is_none() {
            return;
        }
        let engine = self.engine;
        let Some(mut reserved) = connection.reserve() else { return self.park(connection, records) };
        let mut out = self.writer();
        let mut before = Instant::now();
        let mut is_slow = false;
        // Kept until the answers are written: freeing memory can wait.
        let mut used = Vec::new();
        while let Some((record, arrived)) = records.next() {
            let is_last = records.peek().is_none();
            let Ok(received) = self.registry(connection).parse(record.bytes()) else {
                tracing::debug!(peer = ?connection.peer, "sends an invalid RPC message: closed");
                connection.hang_up();
                break;
            };
            let wait = received.wait;
            let may_stay = match wait {
                Wait::No => true,
                Wait::Maybe => !engine.in_place.do_writes_wait(),
                // Nothing else waits for this thread.
                Wait::Yes => is_last && out.is_empty(),
            };
            if !(may_stay && (wait == Wait::No || engine.in_place.begin())) {
                engine.wait_elsewhere(hand_over(connection, record, arrived, received));
                continue;
            }
            if is_slow && !is_last && wait == Wait::No && engine.threads.has_idle() {
                engine.jobs.answer_elsewhere(hand_over(connection, record, arrived, received));
                continue;
            }
            let is_answered = self.answer(connection, (arrived, record.bytes(), &received), &mut out);
            if wait != Wait::No {
                engine.in_place.end();
            }
            if !is_answered {
                connection.hang_up();
                break;
            }
            if let Record::Kept(buffer, _) = record {
                used.push(buffer);
            }
            let now = Instant::now();
            let took = now - before;
            (is_slow, before) = (took > SLOW, now);
            if wait == Wait::Maybe && took > WAITED {
                engine.in_place.writes_wait();
            }
            if is_slow || out.len() > TOGETHER_BYTES {
                self.send(connection, out);
                out = self.writer();
                if is_last {
                    break;
                }
                drop(reserved);
                reserved = match connection.reserve() {
                    Some(reserved) => reserved,
                    None => {
                        self.park(connection, records);
                        break;
                    }
                };
            }
        }
        self.send(connection, out);
        used.into_iter().for_each(|buffer| engine.memory.take_back(buffer));
    }

    /// Parks calls until their client takes its answers and there is memory.
    fn park<'r>(&self, connection: &Arc<Connection>, records: impl Iterator<Item = (Record<'r>, Stopwatch)>) {
        for (record, arrived) in records {
            add(connection, &record);
            connection.unanswered.park((record.into_kept(), arrived));
        }
        self.engine.pause(connection);
    }
}

/// Adds a call to those that another thread answers, or that are parked.
fn add(connection: &Connection, record: &Record<'_>) {
    connection.pending.add();
    connection.unanswered.add(record.bytes().len());
}

fn hand_over(connection: &Arc<Connection>, record: Record<'_>, arrived: Stopwatch, received: Received) -> Handed {
    add(connection, &record);
    Handed { connection: connection.clone(), record: record.into_kept(), arrived, received }
}
