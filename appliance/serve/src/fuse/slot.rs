//! A slot through which requests arrive and answers return over io_uring: memory that the kernel
//! and this process write to in turn.
//!
//! Below: the kernel (`Documentation/filesystems/fuse/fuse-io-uring.rst`, `struct
//! fuse_uring_req_header` of `fuse.h`). Above: [`super::ring`], whose threads own the slots, and
//! [`super::reply`], which answers through them.
//!
//! ```text
//! head, 288 bytes:  128 request's header, then the answer's | 128 the operation's structure |
//!                   u64 flags, u64 commit ID, u32 payload bytes, 12 unused
//! payload:          names and data of the request, then all of the answer that follows its header
//! ```
//!
//! Invariants:
//!   * the kernel owns a slot from when a command that references it is submitted until that
//!     command completes; no code here accesses it in that time
//!   * while we own a slot, there is at most one [`Reply`](super::reply::Reply) for it, which is
//!     answered once
//!   * an answer is written into the payload directly only if no part of the request is there;
//!     otherwise it is buffered until the serving thread is done with the request
#![allow(unsafe_code)]

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Size of the areas for a request's header and for an operation's structure.
const PART_BYTES: usize = 128;
/// Size of `struct fuse_out_header`.
const ANSWER_BYTES: usize = 16;

/// The thread that took the request is still serving it.
const SERVING: u8 = 0;
/// The serving thread has moved on; the thread that answers must notify it.
const LATER: u8 = 1;
/// The answer is complete.
const ANSWERED: u8 = 2;

/// `struct fuse_uring_req_header`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    in_out: [u8; PART_BYTES],
    operation: [u8; PART_BYTES],
    flags: u64,
    commit: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Head>() == 288);

/// Notifies a thread of answers that were completed later by other threads.
pub(super) struct Mailbox {
    event: OwnedFd,
    done: Mutex<Vec<usize>>,
}

impl Mailbox {
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, done: Mutex::default() })
    }

    /// Becomes readable (8 bytes) when there are answers.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Takes the numbers of the slots that were answered.
    pub fn take(&self) -> Vec<usize> {
        // Read first, so that an answer that arrives meanwhile makes the event readable again.
        if let Err(error) = rustix::io::read(&self.event, &mut [0; 8]) {
            tracing::debug!(%error, "woken without a request");
        }
        std::mem::take(&mut *self.done.lock())
    }

    fn put(&self, number: usize) {
        self.done.lock().push(number);
        if let Err(error) = rustix::io::write(&self.event, &1_u64.to_ne_bytes()) {
            tracing::error!(%error, "cannot wake a serving thread");
        }
    }
}

/// See the module documentation.
pub(super) struct Slot {
    /// Index among the slots of its thread.
    number: usize,
    head: Box<UnsafeCell<Head>>,
    payload: *mut u8,
    payload_bytes: usize,
    /// Addresses and sizes of the head and the payload, as registered with the kernel.
    vectors: [libc::iovec; 2],
    state: AtomicU8,
    /// Whether no part of the request is in the payload.
    is_free: UnsafeCell<bool>,
    /// An answer that cannot be written into the payload yet.
    beside: Mutex<Vec<u8>>,
    mailbox: Arc<Mailbox>,
}

// SAFETY: the pointers refer to memory that the slot owns. `state` and the invariants above
// determine who may write to it and when: the kernel, the serving thread and the one reply take
// turns, each handing over by a system call or through `state` (release, acquire).
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// A request taken from a slot.
pub(super) struct Request<'a> {
    head: Head,
    /// What follows the structure of the operation: names or data.
    pub payload: &'a [u8],
}

impl Request<'_> {
    pub fn header(&self) -> &[u8] {
        &self.head.in_out
    }

    /// The structure of the operation. Bytes after it belong to earlier requests.
    pub fn operation(&self) -> &[u8] {
        &self.head.operation
    }

    /// Commit ID under which the kernel expects the answer.
    pub fn commit(&self) -> u64 {
        self.head.commit
    }
}

impl Slot {
    /// Creates a slot with `payload_bytes` bytes of payload. Pages are allocated on first use.
    pub fn new(number: usize, payload_bytes: usize, mailbox: Arc<Mailbox>) -> io::Result<Arc<Self>> {
        // SAFETY: creates a new private mapping at an address that the kernel chooses.
        let payload = unsafe {
            mmap_anonymous(null_mut(), payload_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let head = Box::new(UnsafeCell::new(Head {
            in_out: [0; PART_BYTES],
            operation: [0; PART_BYTES],
            flags: 0,
            commit: 0,
            payload_bytes: 0,
            padding: 0,
            reserved: 0,
        }));
        let vectors = [
            libc::iovec { iov_base: head.get().cast(), iov_len: size_of::<Head>() },
            libc::iovec { iov_base: payload, iov_len: payload_bytes },
        ];
        Ok(Arc::new(Self {
            number,
            head,
            payload: payload.cast(),
            payload_bytes,
            vectors,
            state: AtomicU8::new(SERVING),
            is_free: UnsafeCell::new(true),
            beside: Mutex::default(),
            mailbox,
        }))
    }

    /// Address of the two vectors that are registered with the kernel. They live as long as the
    /// slot.
    pub fn vectors(&self) -> u64 {
        self.vectors.as_ptr() as u64
    }

    /// The request that the kernel has written to the slot.
    ///
    /// # Safety
    /// The command that gave the slot to the kernel has completed, this is the thread that serves
    /// it, the payload of the previous request is no longer in use, and there is no reply for it
    /// yet.
    pub unsafe fn request(&self) -> Request<'_> {
        // SAFETY: we own the slot, as the caller guarantees; nothing else accesses the head before
        // the answer.
        let head = unsafe { *self.head.get() };
        let bytes = (head.payload_bytes as usize).min(self.payload_bytes);
        self.state.store(SERVING, Ordering::Relaxed);
        // SAFETY: read only by the reply to this request, which is created after this.
        unsafe { *self.is_free.get() = bytes == 0 };
        let payload = match bytes {
            0 => &[][..],
            // SAFETY: the mapping has at least `n` bytes and lives as long as the slot. Nothing
            // writes to it while this is borrowed: the kernel does not before the next command is
            // submitted, and the reply does not because `is_free` is false.
            n => unsafe { std::slice::from_raw_parts(self.payload, n) },
        };
        Request { head, payload }
    }

    /// Stores the answer, and notifies the serving thread if it has moved on. The reply calls this
    /// once for each request.
    pub fn answer(&self, unique: u64, code: i32, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|p| p.len()).sum::<usize>();
        // The kernel never requests more than fits.
        let (code, parts, bytes) =
            if bytes <= self.payload_bytes { (code, parts, bytes) } else { (-libc::EIO, &[][..], 0) };
        // SAFETY: written only by `request`, before the reply was created.
        let is_free = unsafe { *self.is_free.get() };
        if is_free {
            let mut at = 0;
            for part in parts {
                // SAFETY: the parts fit together, as checked above. They are not in the mapping, to
                // which no reference exists (`is_free`), and nothing else writes to it, as for the
                // head.
                unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.payload.add(at), part.len()) };
                at += part.len();
            }
        } else {
            let mut beside = self.beside.lock();
            beside.clear();
            parts.iter().for_each(|p| beside.extend_from_slice(p));
        }
        self.finish_answer(unique, code, bytes);
    }

    /// Writes the header, then publishes the answer.
    fn finish_answer(&self, unique: u64, code: i32, bytes: usize) {
        let mut header = [0; ANSWER_BYTES];
        header[..4].copy_from_slice(&((ANSWER_BYTES + bytes) as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&code.to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        // SAFETY: we own the slot until the command with the answer is submitted, which the serving
        // thread does only after it sees `ANSWERED`. It has copied what it needs from the head, and
        // this is the only reply.
        let head = unsafe { &mut *self.head.get() };
        head.in_out[..ANSWER_BYTES].copy_from_slice(&header);
        head.payload_bytes = bytes as u32;
        if self.state.swap(ANSWERED, Ordering::AcqRel) == LATER {
            self.mailbox.put(self.number);
        }
    }

    /// Lets `fill` write up to `bytes` bytes of the answer directly into the payload, which avoids
    /// a copy. `fill` returns the number of bytes written. Returns `None` if part of the request is
    /// in the payload or `bytes` does not fit. This does not answer the request: see
    /// [`Self::answer_in_place`]. Only the one reply to the request may call it.
    pub fn fill<E>(&self, bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Option<Result<usize, E>> {
        // SAFETY: written only by `request`, before the reply was created.
        let is_free = unsafe { *self.is_free.get() };
        if !is_free || bytes > self.payload_bytes {
            return None;
        }
        // SAFETY: the mapping has at least `bytes` bytes, initially zeros. We own it until the
        // answer, no part of the request is in it, and the caller is the one reply.
        Some(fill(unsafe { std::slice::from_raw_parts_mut(self.payload, bytes) }))
    }

    /// Like [`Self::answer`], where the answer is the first `bytes` bytes written by
    /// [`Self::fill`].
    pub fn answer_in_place(&self, unique: u64, bytes: usize) {
        self.finish_answer(unique, 0, bytes.min(self.payload_bytes));
    }

    /// The serving thread moves on. Returns true if the answer is complete; otherwise the mailbox
    /// will report it.
    pub fn leave(&self) -> bool {
        self.state.compare_exchange(SERVING, LATER, Ordering::AcqRel, Ordering::Acquire).is_err()
    }

    /// The last step before the answer is submitted: copies a buffered answer into the payload.
    ///
    /// # Safety
    /// The slot is answered, this is the serving thread, and the result of [`Self::request`] is no
    /// longer used.
    pub unsafe fn finish(&self) {
        // SAFETY: the reply, the only other reader, is gone.
        if unsafe { *self.is_free.get() } {
            return;
        }
        let mut beside = self.beside.lock();
        // SAFETY: the answer fits, as `answer` checked. No reference to the mapping exists, as the
        // caller guarantees, and the kernel does not read it yet.
        unsafe { std::ptr::copy_nonoverlapping(beside.as_ptr(), self.payload, beside.len()) };
        if beside.capacity() > 1 << 16 {
            *beside = Vec::new();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no longer in use: neither by the kernel,
        // whose commands have ended (see `ring`), nor by a reply.
        if let Err(error) = unsafe { munmap(self.payload.cast(), self.payload_bytes) } {
            tracing::error!(%error, "cannot release memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what the kernel would do.
    fn put_request(slot: &Slot, payload: &[u8]) {
        // SAFETY: nothing else uses the slot in these tests.
        unsafe {
            std::ptr::copy_nonoverlapping(payload.as_ptr(), slot.payload, payload.len());
            (*slot.head.get()).payload_bytes = payload.len() as u32;
        }
    }

    fn answer_of(slot: &Slot) -> (i32, Vec<u8>) {
        // SAFETY: nothing else uses the slot in these tests, and the mapping has this many bytes.
        unsafe {
            let head = *slot.head.get();
            let code = i32::from_ne_bytes([head.in_out[4], head.in_out[5], head.in_out[6], head.in_out[7]]);
            (code, std::slice::from_raw_parts(slot.payload, head.payload_bytes as usize).to_vec())
        }
    }

    #[test]
    fn an_answer_does_not_overwrite_names_that_are_in_use() {
        let mailbox = Arc::new(Mailbox::new().expect("an event"));
        let slot = Slot::new(3, 4096, mailbox.clone()).expect("memory");
        put_request(&slot, b"name\0");
        // SAFETY: one thread, no kernel.
        let request = unsafe { slot.request() };
        slot.answer(7, 0, &[b"an answer", b" in parts"]);
        assert_eq!(request.payload, b"name\0");
        assert!(slot.leave(), "the answer has arrived");
        // SAFETY: the request is not used below.
        unsafe { slot.finish() };
        assert_eq!(answer_of(&slot), (0, b"an answer in parts".to_vec()));
        assert!(mailbox.take().is_empty(), "the serving thread sees it without a wakeup");
    }

    #[test]
    fn a_late_answer_is_passed_to_the_serving_thread() {
        let mailbox = Arc::new(Mailbox::new().expect("an event"));
        let slot = Slot::new(3, 4096, mailbox.clone()).expect("memory");
        put_request(&slot, b"");
        // SAFETY: one thread, no kernel.
        unsafe { slot.request() };
        assert!(!slot.leave());
        slot.answer(7, -libc::ENOENT, &[]);
        assert_eq!(mailbox.take(), [3]);
        assert_eq!(answer_of(&slot), (-libc::ENOENT, Vec::new()));
    }

    #[test]
    fn an_answer_is_made_in_place_unless_names_are_there() {
        let slot = Slot::new(0, 4096, Arc::new(Mailbox::new().expect("an event"))).expect("memory");
        put_request(&slot, b"name\0");
        let three = |room: &mut [u8]| {
            room.copy_from_slice(b"bytes");
            Ok::<_, ()>(3)
        };
        // SAFETY: one thread, no kernel.
        unsafe { slot.request() };
        assert!(slot.fill(5, three).is_none());
        put_request(&slot, b"");
        // SAFETY: as above.
        unsafe { slot.request() };
        assert!(slot.fill(4097, three).is_none());
        assert_eq!(slot.fill(5, three), Some(Ok(3)));
        slot.answer_in_place(7, 3);
        assert_eq!(answer_of(&slot), (0, b"byt".to_vec()));
    }

    #[test]
    fn an_answer_larger_than_the_kernel_has_room_for_is_an_error() {
        let slot = Slot::new(0, 4096, Arc::new(Mailbox::new().expect("an event"))).expect("memory");
        put_request(&slot, b"");
        // SAFETY: one thread, no kernel.
        unsafe { slot.request() };
        slot.answer(7, 0, &[&[0; 4000], &[0; 97]]);
        assert_eq!(answer_of(&slot), (-libc::EIO, Vec::new()));
    }
}
