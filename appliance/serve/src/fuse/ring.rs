//! The conversation with the kernel through io_uring (Linux 6.14 and newer, where `fuse.enable_uring` is set): one system call
//! hands over an answer and waits for the next request.
//!
//! Below: [`super::slot`], memory shared with the kernel. Above: [`super::session`], which asks the kernel for it and falls back
//! to /dev/fuse. Format: `Documentation/filesystems/fuse/fuse-io-uring.rst` of Linux.
//!
//! ```text
//! a core's requests ─> its queue ─> a slot that waits ─> its thread ─> Answer ─> same slot: answer, and wait again
//! forgets, interrupts ─────────────────────────────────> /dev/fuse
//! ```
//!
//! The kernel gives a request to a slot, and a slot belongs to a thread. So a thread has one slot, or a request would wait for
//! another one that waits for a disk, while threads are idle; each queue has several threads instead. When a request is answered later,
//! by somebody else, its thread takes a slot more for as long.
//!
//! Invariants:
//!   * each thread has a slot with the kernel whenever it waits, unless [`SLOTS_MAX`] are being answered by others
//!   * slots outlive the commands that name them: a thread that ends otherwise than by the kernel's ending them keeps them for good
#![allow(unsafe_code)]

use super::reply::Reply;
use super::session::Answer;
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
/// Commands that may be under way in one thread, at least: its slots and the mailbox.
const DEPTH: u32 = 128;
/// Slots of a thread, at most. Guessed: one, and as many as wait for a disk or the kernel elsewhere.
const SLOTS_MAX: usize = 64;
/// Marks the command that waits for the mailbox.
const MAIL: u64 = u64::MAX;
/// Bytes of an `io_uring_sqe` before its field `len`.
const LEN_OFFSET: usize = 24;

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// Rings that are ready, one for each thread.
pub(super) struct Rings {
    threads: Vec<(Ring, Vec<u16>)>,
    payload_bytes: usize,
}

impl Rings {
    /// For so many threads to each core, and requests of so many bytes. Takes what it needs of the machine, so that nothing is
    /// missing once the kernel was told.
    pub fn new(threads_per_core: usize, payload_bytes: usize) -> io::Result<Self> {
        let possible = cpus("possible")?;
        let online = cpus("online")?;
        let mut queues = Vec::new();
        for _ in 0..threads_per_core.max(1) {
            queues.extend(online.iter().map(|&cpu| vec![cpu]));
        }
        // The kernel wants a slot for each core that could be there; those that are not share a thread.
        let absent: Vec<u16> = possible.into_iter().filter(|cpu| !online.contains(cpu)).collect();
        if !absent.is_empty() {
            queues.push(absent);
        }
        let ring = |queues: Vec<u16>| {
            let depth = DEPTH.max(2 * queues.len() as u32).next_power_of_two();
            // Work for the ring is done when its thread asks for it, which spares interrupts; and nobody else asks.
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

    /// Starts the threads.
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

/// Numbers of cores, from a list like `0-3,6`.
fn cpus(which: &str) -> io::Result<Vec<u16>> {
    let path = format!("/sys/devices/system/cpu/{which}");
    let text = std::fs::read_to_string(&path)?;
    parse_list(text.trim())
        .filter(|list| !list.is_empty())
        .ok_or_else(|| io::Error::other(format!("{path} says {text:?}, expected a list of cores")))
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
    /// Slots that the kernel has.
    waiting: usize,
    payload_bytes: usize,
    extended: bool,
}

/// A slot, its queue, and the number that its answer goes under.
struct Place {
    slot: Arc<Slot>,
    queue: u16,
    commit: u64,
}

/// What became of a command.
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
        // The request was withdrawn; a signal. The slot is nobody's now.
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
        // SAFETY: its command has completed, this is its thread, and the last request was finished before that command was
        // submitted.
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
        // Somebody else answers; meanwhile there is another slot for what comes.
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
        // SAFETY: an entry is `struct io_uring_sqe` and 64 bytes behind it, all of which are plain numbers; `len` is a u32 at this
        // offset of it, aligned as the whole is. The library offers no other way to set it for such a command.
        unsafe { (&raw mut command).cast::<u8>().add(LEN_OFFSET).cast::<u32>().write(2) };
        self.push(&command)?;
        self.waiting += 1;
        Ok(())
    }

    /// The answer goes to the kernel with the next system call, and the slot waits for another request.
    fn commit(&mut self, number: usize) -> io::Result<()> {
        let Some(place) = self.slots.get(number) else { return Ok(()) };
        // SAFETY: it is answered: `leave` or the mailbox said so. This is its thread, and what `answer` had of the request ended
        // with the call.
        unsafe { place.slot.finish() };
        let command = self.command(COMMIT_AND_FETCH, number, place);
        self.push(&command)?;
        self.waiting += 1;
        Ok(())
    }

    fn command(&self, what: u32, number: usize, place: &Place) -> squeue::Entry128 {
        // `struct fuse_uring_cmd_req`: u64 flags, u64 commit number, u16 queue.
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
        // SAFETY: what the command points to lives as long as it may be under way: the slot (see `end`) with its two vectors,
        // and the open files.
        while unsafe { self.ring.submission().push(command) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Lets go of everything. If the kernel may have slots yet, they stay.
    fn end(self, ended: io::Result<()>) -> io::Result<()> {
        let Self { ring, slots, mailbox, .. } = self;
        // Waits for nothing, but takes commands back: what the kernel had completes, and is not written to, when its ring is
        // closed by the thread that submitted it.
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
