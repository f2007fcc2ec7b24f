//! FUSE over io_uring (Linux 6.14 and newer, if `fuse.enable_uring` is set): one system call sends
//! an answer and waits for the next request.
//!
//! Below: [`super::slot`], memory shared with the kernel. Above: [`super::session`], which
//! negotiates io_uring with the kernel and falls back to /dev/fuse. Format:
//! `Documentation/filesystems/fuse/fuse-io-uring.rst` of Linux.
//!
//! ```text
//! a core's requests ─> its queue ─> a slot that waits ─> its thread ─> Answer
//!                                   ─> same slot: answer, and wait again
//! forgets, interrupts ─> /dev/fuse
//! ```
//!
//! The kernel assigns a request to a slot, and a slot belongs to a thread. If a thread had several
//! slots, a request could wait behind one that waits for a disk, while other threads are idle. So a
//! thread has one slot, and each queue has several threads. When another thread answers a request
//! later, the thread that took it adds a slot in the meantime.
//!
//! Invariants:
//!   * while a thread waits, the kernel has at least one of its slots, unless other threads are
//!     answering [`SLOTS_MAX`] of them
//!   * slots outlive the commands that reference them: a thread that ends for any reason other than
//!     the kernel ending its commands leaks its slots
#![allow(unsafe_code)]

use super::reply::Reply;
use super::requests::Answer;
use super::slot::{Mailbox, Slot};
use super::wire::{self, Op};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;
/// Minimum number of commands in flight per thread: its slots and the mailbox.
const DEPTH: u32 = 128;
/// Maximum number of slots per thread. Guessed: one, plus those of requests that wait elsewhere for
/// a disk or the kernel.
const SLOTS_MAX: usize = 64;
/// `user_data` of the command that waits for the mailbox.
const MAIL: u64 = u64::MAX;
/// Offset of the field `len` in an `io_uring_sqe`.
const LEN_OFFSET: usize = 24;

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// Rings ready for use, one per thread.
pub(super) struct Rings {
    threads: Vec<(Ring, Vec<u16>)>,
    payload_bytes: usize,
}

impl Rings {
    /// Creates `threads_per_core` threads' rings per core, for requests of up to `payload_bytes`
    /// bytes. Allocates everything up front, so that nothing can fail once io_uring is agreed on
    /// with the kernel.
    pub fn new(threads_per_core: usize, payload_bytes: usize) -> io::Result<Self> {
        let possible = cpus("possible")?;
        let online = cpus("online")?;
        let mut queues = Vec::new();
        for _ in 0..threads_per_core.max(1) {
            queues.extend(online.iter().map(|&cpu| vec![cpu]));
        }
        // The kernel requires a slot for each possible core. Offline cores share one thread.
        let absent: Vec<u16> = possible.into_iter().filter(|cpu| !online.contains(cpu)).collect();
        if !absent.is_empty() {
            queues.push(absent);
        }
        let ring = |queues: Vec<u16>| {
            let depth = DEPTH.max(2 * queues.len() as u32).next_power_of_two();
            // Completions are processed only when the thread asks for them, which saves interrupts;
            // only this thread submits.
            let ring = Ring::builder()
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_r_disabled()
                .setup_cqsize(2 * depth)
                .build(depth)?;
            Ok((ring, queues))
        };
        Ok(Self { threads: queues.into_iter().map(ring).collect::<io::Result<_>>()?, payload_bytes })
    }

    pub fn serve(
        self,
        device: &Arc<File>,
        server: &Arc<impl Answer>,
        extended: bool,
    ) -> io::Result<Vec<std::thread::JoinHandle<io::Result<()>>>> {
        let mut running = Vec::with_capacity(self.threads.len());
        for (number, (ring, queues)) in self.threads.into_iter().enumerate() {
            let (device, server, payload_bytes) = (device.clone(), server.clone(), self.payload_bytes);
            let serve = move || -> io::Result<()> {
                let mailbox = Arc::new(Mailbox::new()?);
                let mut thread =
                    Thread { device, ring, mailbox, slots: Vec::new(), waiting: 0, payload_bytes, extended };
                let ended = thread.serve(&*server, &queues);
                thread.end(ended)
            };
            running.push(std::thread::Builder::new().name(format!("weir-ring-{number}")).spawn(serve)?);
        }
        Ok(running)
    }
}

/// Numbers of the cores in a sysfs list such as `0-3,6`.
fn cpus(which: &str) -> io::Result<Vec<u16>> {
    let path = format!("/sys/devices/system/cpu/{which}");
    let text = std::fs::read_to_string(&path)?;
    parse_list(text.trim())
        .filter(|list| !list.is_empty())
        .ok_or_else(|| io::Error::other(format!("{path} contains {text:?}, expected a list of cores")))
}

fn parse_list(text: &str) -> Option<Vec<u16>> {
    let mut list = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        list.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(list)
}

struct Thread {
    device: Arc<File>,
    ring: Ring,
    mailbox: Arc<Mailbox>,
    slots: Vec<Place>,
    /// Number of slots that the kernel has.
    waiting: usize,
    payload_bytes: usize,
    extended: bool,
}

/// A slot, its queue, and the commit ID of its request.
struct Place {
    slot: Arc<Slot>,
    queue: u16,
    commit: u64,
}

/// Result of a command.
enum Outcome {
    Request,
    Again,
    End,
    Failed(io::Error),
}

fn outcome(result: i32) -> Outcome {
    match result {
        0.. => Outcome::Request,
        n if n == -libc::ENOTCONN || n == -libc::ECONNABORTED || n == -libc::ENODEV => Outcome::End,
        // The request was withdrawn, or a signal arrived. The slot must be registered again.
        n if n == -libc::ENOENT || n == -libc::EINTR || n == -libc::EAGAIN => Outcome::Again,
        n => Outcome::Failed(io::Error::from_raw_os_error(-n)),
    }
}

impl Thread {
    fn serve(&mut self, server: &impl Answer, queues: &[u16]) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        self.wait_for_mail()?;
        for &queue in queues {
            self.add(queue)?;
        }
        let mut done = Vec::with_capacity(DEPTH as usize);
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::EINTR) || e.raw_os_error() == Some(libc::EBUSY) => {}
                Err(e) => return Err(e),
            }
            done.extend(self.ring.completion().map(|c| (c.user_data(), c.result())));
            for (which, result) in done.drain(..) {
                if which == MAIL {
                    for number in self.mailbox.take() {
                        self.commit(number)?;
                    }
                    self.wait_for_mail()?;
                    continue;
                }
                self.waiting -= 1;
                match outcome(result) {
                    Outcome::Request => self.answer(server, which as usize)?,
                    Outcome::Again => self.register(which as usize)?,
                    Outcome::End => return Ok(()),
                    Outcome::Failed(e) => return Err(e),
                }
            }
        }
    }

    fn answer(&mut self, server: &impl Answer, number: usize) -> io::Result<()> {
        let Some(place) = self.slots.get_mut(number) else {
            return Err(io::Error::other("a slot that we do not have"));
        };
        let slot = place.slot.clone();
        // SAFETY: the slot's command has completed, this is its thread, and the previous request
        // was finished before that command was submitted.
        let request = unsafe { slot.request() };
        place.commit = request.commit();
        let queue = place.queue;
        match wire::parse_apart(request.header(), request.operation(), request.payload, self.extended) {
            Some((header, Op::Destroy)) => Reply::through(slot.clone(), header.unique).empty(Ok(())),
            Some((header, op)) => server.answer(&header, op, Reply::through(slot.clone(), header.unique)),
            None => Reply::through(slot.clone(), request.commit()).error(Errno::NOSYS),
        }
        if slot.leave() {
            return self.commit(number);
        }
        // Another thread will answer. Add a slot for the next request in the meantime.
        if self.waiting == 0 && self.slots.len() < SLOTS_MAX { self.add(queue) } else { Ok(()) }
    }

    fn add(&mut self, queue: u16) -> io::Result<()> {
        let number = self.slots.len();
        let slot = Slot::new(number, self.payload_bytes, self.mailbox.clone())?;
        self.slots.push(Place { slot, queue, commit: 0 });
        self.register(number)
    }

    fn register(&mut self, number: usize) -> io::Result<()> {
        let Some(place) = self.slots.get(number) else { return Ok(()) };
        let mut command = self.command(REGISTER, number, place);
        // SAFETY: an entry is a `struct io_uring_sqe` followed by 64 bytes, all plain integers.
        // `len` is a u32 at this offset, which is aligned because the entry is. The library offers
        // no other way to set it for this command.
        unsafe { (&raw mut command).cast::<u8>().add(LEN_OFFSET).cast::<u32>().write(2) };
        self.push(&command)?;
        self.waiting += 1;
        Ok(())
    }

    /// Queues the answer, which the next system call submits together with the request for more
    /// work.
    fn commit(&mut self, number: usize) -> io::Result<()> {
        let Some(place) = self.slots.get(number) else { return Ok(()) };
        // SAFETY: the slot is answered, as `leave` or the mailbox reported. This is its thread, and
        // `answer` has returned, so its borrow of the request has ended.
        unsafe { place.slot.finish() };
        let command = self.command(COMMIT_AND_FETCH, number, place);
        self.push(&command)?;
        self.waiting += 1;
        Ok(())
    }

    fn command(&self, what: u32, number: usize, place: &Place) -> squeue::Entry128 {
        // `struct fuse_uring_cmd_req`: u64 flags, u64 commit ID, u16 queue.
        let mut body = [0; 80];
        body[8..16].copy_from_slice(&place.commit.to_ne_bytes());
        body[16..18].copy_from_slice(&place.queue.to_ne_bytes());
        let vectors = (what == REGISTER).then(|| place.slot.vectors());
        opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), what)
            .cmd(body)
            .addr(vectors)
            .build()
            .user_data(number as u64)
    }

    fn wait_for_mail(&mut self) -> io::Result<()> {
        let event = types::Fd(self.mailbox.event().as_raw_fd());
        let poll = opcode::PollAdd::new(event, libc::POLLIN as u32).build().user_data(MAIL);
        self.push(&poll.into())
    }

    fn push(&mut self, command: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: what the command points to lives as long as the command may be in flight: the
        // slot (see `end`) with its two vectors, and the open files.
        while unsafe { self.ring.submission().push(command) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Releases the ring and slots. If the kernel may still use the slots, they are leaked.
    fn end(self, ended: io::Result<()>) -> io::Result<()> {
        let Self { ring, slots, mailbox, .. } = self;
        // Dropping the ring does not wait, but cancels the commands: those that the kernel had
        // complete, and their slots are no longer written to, because the thread that submitted
        // them closes the ring.
        drop(ring);
        if ended.is_err() {
            std::mem::forget(slots);
            std::mem::forget(mailbox);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(parse_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list("0-x"), None);
    }
}
