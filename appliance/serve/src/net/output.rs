//! Output that waits until its client takes it.
//!
//! Any thread may have something to send; one of them writes, including what the others queue
//! meanwhile, and none waits for the client.
//!
//! Invariants:
//!   * one thread at a time writes
//!   * if the socket becomes writable while a thread finds it full, that thread notices and retries
//!   * what is queued is charged to the client's account

use super::budget::Account;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

struct Queue<M> {
    messages: VecDeque<M>,
    /// Bytes of the first message that were already sent.
    from: usize,
    is_writing: bool,
    /// The socket was full; it must be reported when it is writable.
    is_full: bool,
    /// The socket became writable while a thread was writing.
    has_room: bool,
}

/// See the module documentation.
pub(crate) struct Output<M> {
    queue: Mutex<Queue<M>>,
    queued: AtomicUsize,
    account: Arc<Account>,
}

impl<M: Message> Output<M> {
    /// Output that is charged to `account`.
    pub fn new(account: Arc<Account>) -> Self {
        let queue = Queue { messages: VecDeque::new(), from: 0, is_writing: false, is_full: false, has_room: false };
        Self { queue: Mutex::new(queue), queued: AtomicUsize::new(0), account }
    }

    /// Bytes that are not sent.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::SeqCst)
    }

    /// Queues a message and writes as much as the socket takes. `write` sends pieces; any error
    /// other than [`Errno::AGAIN`] discards the message. Returns an empty message to reuse, if
    /// there is one.
    pub fn put(&self, message: M, write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) -> Option<M> {
        let len = message.len();
        self.queued.fetch_add(len, Ordering::SeqCst);
        self.account.charge(len);
        let mut queue = self.queue.lock();
        queue.messages.push_back(message);
        if queue.is_writing || queue.is_full {
            return None;
        }
        queue.is_writing = true;
        drop(queue);
        self.write_out(write)
    }

    /// The socket is writable again.
    pub fn has_room(&self, write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) {
        let mut queue = self.queue.lock();
        if queue.is_writing {
            queue.has_room = true;
            return;
        }
        if !queue.is_full {
            return;
        }
        (queue.is_full, queue.is_writing) = (false, true);
        drop(queue);
        self.write_out(write);
    }

    /// Writes until the queue is empty or the socket is full. The caller has set `is_writing`.
    fn write_out(&self, mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>) -> Option<M> {
        let mut spare = None;
        let mut queue = self.queue.lock();
        loop {
            let Some(mut next) = queue.messages.pop_front() else {
                queue.is_writing = false;
                return spare;
            };
            let mut from = std::mem::take(&mut queue.from);
            while next.len() < TOGETHER_BYTES
                && let Some(more) = queue.messages.pop_front()
            {
                next.append(more);
            }
            queue.has_room = false;
            drop(queue);
            let len = next.len();
            let before = from;
            let result = write_one(&next, &mut from, &mut write);
            let gone = if result == Err(Errno::AGAIN) || result.is_ok() { from - before } else { len - before };
            self.queued.fetch_sub(gone, Ordering::SeqCst);
            self.account.release(gone);
            queue = self.queue.lock();
            match result {
                Ok(()) => {
                    next.clear();
                    spare = Some(next);
                }
                Err(Errno::AGAIN) => {
                    queue.messages.push_front(next);
                    queue.from = from;
                    if !queue.has_room {
                        (queue.is_writing, queue.is_full) = (false, true);
                        return spare;
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Discards what is queued. A message that a thread is writing is not affected.
    pub fn discard(&self) {
        let mut queue = self.queue.lock();
        let waiting: usize = queue.messages.iter().map(M::len).sum::<usize>() - queue.from;
        queue.messages.clear();
        queue.from = 0;
        self.queued.fetch_sub(waiting, Ordering::SeqCst);
        self.account.release(waiting);
    }
}

fn write_one<M: Message>(
    message: &M,
    from: &mut usize,
    write: &mut impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let len = message.len();
    while *from < len {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let count = message.pieces(*from, &mut pieces);
        match write(&pieces[..count]) {
            Ok(n) => *from += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl<M> Drop for Output<M> {
    fn drop(&mut self) {
        self.account.release(*self.queued.get_mut());
    }
}
