//! Output that waits until its client takes it.
//!
//! Any thread may have something to send; one of them writes, including what the others queue
//! meanwhile. A thread that finds the socket full returns, and reports it: then the server waits
//! until the socket is writable.
//!
//! Invariants:
//!   * one thread at a time writes
//!   * if the socket becomes writable while a thread finds it full, that thread notices and retries
//!   * what is queued is charged to the client's account
//!   * after the output was closed, nothing is written or queued

use super::budget::Account;
use super::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use super::sync::{Condvar, Mutex};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of pieces in a gathering write.
const PIECES: usize = 64;
/// Messages are combined up to this size.
const TOGETHER_BYTES: usize = 2 << 20;

/// What is sent: bytes in pieces.
pub(crate) trait Message: Default {
    fn len(&self) -> usize;
    /// Fills `out` with pieces in order, starting at byte `from`. Returns the number of pieces.
    fn pieces<'a>(&'a self, from: usize, out: &mut [IoSlice<'a>]) -> usize;
    /// Appends all of `other`.
    fn append(&mut self, other: Self);
    /// Discards all pieces, to reuse the rest.
    fn clear(&mut self);
}

/// Result of [`Output::put`] and [`Output::has_room`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrote<M> {
    /// An empty message to reuse.
    pub spare: Option<M>,
    /// The socket is full. The caller must call [`Output::has_room`] when it is writable.
    pub is_full: bool,
}

struct Queue<M> {
    messages: VecDeque<M>,
    /// Bytes of the first message that were already sent.
    from: usize,
    is_writing: bool,
    /// Since when the socket is full.
    full: Option<Instant>,
    /// The socket became writable while a thread was writing.
    has_room: bool,
}

/// See the module documentation.
pub(crate) struct Output<M> {
    queue: Mutex<Queue<M>>,
    /// Some output was sent or discarded.
    drained: Condvar,
    queued: AtomicUsize,
    is_closed: AtomicBool,
    account: Arc<Account>,
}

impl<M: Message> Output<M> {
    /// Output that is charged to `account`.
    pub fn new(account: Arc<Account>) -> Self {
        let queue = Queue { messages: VecDeque::new(), from: 0, is_writing: false, full: None, has_room: false };
        Self {
            queue: Mutex::new(queue),
            drained: Condvar::new(),
            queued: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            account,
        }
    }

    /// Bytes that are not sent.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::SeqCst)
    }

    /// Queues a message and writes as much as the socket takes. `write` sends pieces, at least once
    /// for each message; any error other than [`Errno::AGAIN`] discards the message.
    pub fn put(&self, message: M, write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) -> Wrote<M> {
        let len = message.len();
        let mut queue = self.queue.lock();
        if self.is_closed() {
            return Wrote { spare: None, is_full: false };
        }
        self.queued.fetch_add(len, Ordering::SeqCst);
        self.account.charge(len);
        queue.messages.push_back(message);
        if queue.is_writing || queue.full.is_some() {
            return Wrote { spare: None, is_full: false };
        }
        queue.is_writing = true;
        drop(queue);
        self.write_out(write)
    }

    /// The socket is writable again.
    pub fn has_room(&self, write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) -> Wrote<M> {
        let mut queue = self.queue.lock();
        if queue.is_writing || queue.full.is_none() {
            queue.has_room = queue.is_writing;
            return Wrote { spare: None, is_full: false };
        }
        queue.is_writing = true;
        drop(queue);
        self.write_out(write)
    }

    /// Writes until the queue is empty or the socket is full. The caller has set `is_writing`.
    fn write_out(&self, mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) -> Wrote<M> {
        let mut spare = None;
        let mut queue = self.queue.lock();
        loop {
            let Some(mut next) = queue.messages.pop_front() else {
                (queue.is_writing, queue.full) = (false, None);
                self.drained.notify_all();
                return Wrote { spare, is_full: false };
            };
            let before = std::mem::take(&mut queue.from);
            while next.len() < TOGETHER_BYTES
                && let Some(more) = queue.messages.pop_front()
            {
                next.append(more);
            }
            queue.has_room = false;
            drop(queue);
            let (from, result) = write_one(&next, before, &mut write);
            let gone = if matches!(result, Ok(()) | Err(Errno::AGAIN)) { from } else { next.len() } - before;
            self.queued.fetch_sub(gone, Ordering::SeqCst);
            self.account.release(gone);
            queue = self.queue.lock();
            if gone > 0 {
                queue.full = None;
                self.drained.notify_all();
            }
            match result {
                Ok(()) => {
                    next.clear();
                    spare = Some(next);
                }
                Err(Errno::AGAIN) if self.is_closed() => {
                    // It was closed while this thread had the message.
                    self.queued.fetch_sub(next.len() - from, Ordering::SeqCst);
                    self.account.release(next.len() - from);
                }
                Err(Errno::AGAIN) => {
                    queue.messages.push_front(next);
                    queue.from = from;
                    if !queue.has_room {
                        queue.full.get_or_insert_with(Instant::now);
                        queue.is_writing = false;
                        return Wrote { spare, is_full: true };
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Waits until at most `bytes` bytes are not sent.
    pub fn wait(&self, bytes: usize) {
        let mut queue = self.queue.lock();
        while self.queued() > bytes && !self.is_closed() {
            self.drained.wait(&mut queue);
        }
    }

    /// Waits until all was sent.
    pub fn finish(&self) {
        let mut queue = self.queue.lock();
        while (queue.is_writing || !queue.messages.is_empty()) && !self.is_closed() {
            self.drained.wait(&mut queue);
        }
    }

    /// Whether the socket has taken nothing for `long` although something is queued.
    pub fn is_stalled(&self, long: Duration) -> bool {
        self.queue.lock().full.is_some_and(|since| since.elapsed() > long)
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Discards what is queued and accepts no more. A message that a thread is writing is not
    /// affected.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        self.is_closed.store(true, Ordering::SeqCst);
        let waiting: usize = queue.messages.iter().map(M::len).sum::<usize>() - queue.from;
        queue.messages.clear();
        queue.from = 0;
        self.queued.fetch_sub(waiting, Ordering::SeqCst);
        self.account.release(waiting);
        self.drained.notify_all();
    }
}

/// Writes a message from byte `from` on. Returns where it stopped.
fn write_one<M: Message>(
    message: &M,
    mut from: usize,
    write: &mut impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>,
) -> (usize, Result<(), Errno>) {
    loop {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let count = message.pieces(from, &mut pieces);
        match write(&pieces[..count]) {
            Ok(n) => from += n,
            Err(Errno::INTR) => {}
            Err(e) => return (from, Err(e)),
        }
        if from >= message.len() {
            return (from, Ok(()));
        }
    }
}

impl<M> Drop for Output<M> {
    fn drop(&mut self) {
        self.account.release(*self.queued.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{Budget, Client};
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Text(String);

    impl Message for Text {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn pieces<'a>(&'a self, from: usize, out: &mut [IoSlice<'a>]) -> usize {
            out[0] = IoSlice::new(&self.0.as_bytes()[from..]);
            1
        }
        fn append(&mut self, other: Self) {
            self.0.push_str(&other.0);
        }
        fn clear(&mut self) {
            self.0.clear();
        }
    }

    /// A socket that takes a number of bytes.
    struct Socket {
        room: usize,
        taken: Vec<u8>,
    }

    impl Socket {
        fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
            let n = pieces[0].len().min(self.room);
            if n == 0 && !pieces[0].is_empty() {
                return Err(Errno::AGAIN);
            }
            self.taken.extend(&pieces[0][..n]);
            self.room -= n;
            Ok(n)
        }
    }

    fn text(text: &str) -> Text {
        Text(text.to_owned())
    }

    #[test]
    fn unsent_output_is_sent_in_order_once_the_socket_has_room() {
        let used = Arc::new(AtomicUsize::new(0));
        let budget = Budget::new(100, used.clone());
        let output = Output::new(budget.account(Client::Local(1)));
        let mut socket = Socket { room: 3, taken: Vec::new() };
        assert_eq!(output.put(text("ab"), |p| socket.write(p)), Wrote { spare: Some(text("")), is_full: false });
        assert!(output.put(text("cde"), |p| socket.write(p)).is_full);
        assert!(!output.put(text("fg"), |p| socket.write(p)).is_full, "it was reported already");
        assert_eq!((output.queued(), used.load(Ordering::SeqCst)), (4, 4));
        assert!(output.is_stalled(Duration::ZERO));
        socket.room = 10;
        assert!(!output.has_room(|p| socket.write(p)).is_full);
        assert_eq!((&socket.taken[..], output.queued(), used.load(Ordering::SeqCst)), (&b"abcdefg"[..], 0, 0));
        output.wait(0);
        output.finish();
        assert!(!output.is_stalled(Duration::ZERO));
    }

    #[test]
    fn closed_output_releases_its_memory_and_takes_no_more() {
        let used = Arc::new(AtomicUsize::new(0));
        let budget = Budget::new(100, used.clone());
        let output = Output::new(budget.account(Client::Local(1)));
        let mut socket = Socket { room: 1, taken: Vec::new() };
        output.put(text("abc"), |p| socket.write(p));
        assert_eq!(used.load(Ordering::SeqCst), 2);
        output.close();
        output.finish();
        assert_eq!((output.queued(), used.load(Ordering::SeqCst)), (0, 0));
        output.put(text("d"), |_| panic!("nothing is written"));
        assert_eq!(used.load(Ordering::SeqCst), 0);
    }

    /// A socket whose client takes bytes now and then. It reports that it is writable once after
    /// each time that it was full, as epoll does with `EPOLLET`.
    #[derive(Default)]
    struct Edge {
        room: usize,
        taken: String,
        was_full: bool,
    }

    struct Link {
        output: Output<Text>,
        socket: Mutex<Edge>,
        used: Arc<AtomicUsize>,
    }

    impl Link {
        fn new() -> Arc<Self> {
            let used = Arc::new(AtomicUsize::new(0));
            let budget = Budget::new(100, used.clone());
            let output = Output::new(budget.account(Client::Local(1)));
            Arc::new(Self { output, socket: Mutex::new(Edge::default()), used })
        }

        fn write(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
            let mut socket = self.socket.lock();
            let n = pieces[0].len().min(socket.room);
            if n == 0 {
                socket.was_full = true;
                return Err(Errno::AGAIN);
            }
            socket.taken += str::from_utf8(&pieces[0][..n]).expect("text");
            socket.room -= n;
            Ok(n)
        }

        fn put(&self, message: &str) {
            self.output.put(text(message), |pieces| self.write(pieces));
        }

        /// The client takes `bytes` more; the thread that epoll wakes reports it.
        fn take(&self, bytes: usize) {
            let is_edge = {
                let mut socket = self.socket.lock();
                socket.room += bytes;
                std::mem::take(&mut socket.was_full)
            };
            if is_edge {
                self.output.has_room(|pieces| self.write(pieces));
            }
        }
    }

    #[test]
    fn everything_is_sent_once_and_in_order_under_every_schedule() {
        rig::schedule::explore(600, || {
            let link = Link::new();
            let writers: Vec<_> = ["ab", "yz"]
                .map(|letters| {
                    let link = link.clone();
                    rig::schedule::spawn(move || letters.chars().for_each(|c| link.put(&c.to_string().repeat(3))))
                })
                .into_iter()
                .collect();
            let client = rig::schedule::spawn({
                let link = link.clone();
                move || (0..6).for_each(|_| link.take(2))
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            client.join().unwrap();
            let taken = link.socket.lock().taken.clone();
            let of = |letters: &str| taken.chars().filter(|c| letters.contains(*c)).collect::<String>();
            assert_eq!((of("ab").as_str(), of("yz").as_str()), ("aaabbb", "yyyzzz"), "{taken}");
            assert_eq!((link.output.queued(), link.used.load(Ordering::SeqCst)), (0, 0));
            link.output.finish();
        });
    }

    #[test]
    fn closing_releases_memory_and_threads_that_wait_under_every_schedule() {
        rig::schedule::explore(600, || {
            let link = Link::new();
            let writers: Vec<_> = ["aa", "bb"]
                .map(|message| {
                    let link = link.clone();
                    rig::schedule::spawn(move || {
                        link.put(message);
                        link.output.wait(1);
                    })
                })
                .into_iter()
                .collect();
            let client = rig::schedule::spawn({
                let link = link.clone();
                move || link.take(1)
            });
            link.output.close();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            client.join().unwrap();
            link.output.finish();
            assert_eq!((link.output.queued(), link.used.load(Ordering::SeqCst)), (0, 0));
        });
    }

    /// A server stops answering when much is queued, and continues when it was sent: the thread
    /// that stops and the one that sends must not each leave it to the other.
    #[test]
    fn a_paused_server_continues_under_every_schedule() {
        rig::schedule::explore(600, || {
            let link = Link::new();
            let state = Arc::new((Mutex::new(false), Mutex::new(0)));
            let serve = |link: &Link, (is_held, answered): &(Mutex<bool>, Mutex<u32>)| {
                while *answered.lock() < 4 {
                    if link.output.queued() > 2 {
                        *is_held.lock() = true;
                        // It may have been sent in between.
                        if link.output.queued() > 2 || !std::mem::take(&mut *is_held.lock()) {
                            return;
                        }
                    }
                    *answered.lock() += 1;
                    link.put("ab");
                }
            };
            let server = rig::schedule::spawn({
                let (link, state) = (link.clone(), state.clone());
                move || serve(&link, &state)
            });
            for _ in 0..8 {
                link.take(1);
                if link.output.queued() <= 2 && std::mem::take(&mut *state.0.lock()) {
                    serve(&link, &state);
                }
            }
            server.join().unwrap();
            // What was queued after the last look of the client.
            while link.output.queued() > 0 || *state.0.lock() {
                link.take(1);
                if link.output.queued() <= 2 && std::mem::take(&mut *state.0.lock()) {
                    serve(&link, &state);
                }
            }
            assert_eq!(*state.1.lock(), 4);
            assert_eq!(link.socket.lock().taken, "abababab");
        });
    }
}
