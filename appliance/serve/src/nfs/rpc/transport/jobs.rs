//! Work for any thread that polls: an epoll event announces each job.
//!
//! Invariant: for each job in the queue, the semaphore is readable once, or a thread is about to
//! take a job. It may be readable once more, to wake a thread that finds no job.

use super::super::Received;
use super::super::connection::Connection;
use super::super::framer::Record;
use crate::net::sync::Mutex;
use host::clock::Stopwatch;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A call for another thread, which is among the [unanswered](Connection::unanswered) ones of its
/// connection.
pub(super) struct Handed {
    pub connection: Arc<Connection>,
    pub record: Record<'static>,
    /// Started when the call arrived.
    pub arrived: Stopwatch,
    pub received: Received,
}

#[derive(Default)]
struct Jobs {
    /// Connections to continue reading from, after those that are ready now.
    reads: VecDeque<Arc<Connection>>,
    /// Calls that were already read. A free thread takes all of them before it polls again: epoll
    /// reports `wake` once per round over all ready connections, so each call of a batch would wait
    /// for a whole round.
    answers: VecDeque<Handed>,
}

pub(super) enum Job {
    Read(Arc<Connection>),
    Answer(Handed),
}

/// See the module documentation.
pub(super) struct JobQueue {
    /// Semaphore that counts the jobs.
    wake: OwnedFd,
    jobs: Mutex<Jobs>,
}

impl JobQueue {
    /// `poll` reports jobs with the event data `token`.
    pub fn new(poll: &OwnedFd, token: u64) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)?;
        epoll::add(poll, &wake, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        Ok(Self { wake, jobs: Mutex::default() })
    }

    pub fn read_later(&self, connection: &Arc<Connection>) {
        self.jobs.lock().reads.push_back(connection.clone());
        self.wake_one();
    }

    pub fn answer_elsewhere(&self, call: Handed) {
        self.jobs.lock().answers.push_back(call);
        self.wake_one();
    }

    /// Wakes a thread that polls.
    pub fn wake_one(&self) {
        // Cannot fail in practice: the counter has 64 bits.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Takes a call, without waiting.
    pub fn take_answer(&self) -> Option<Handed> {
        let call = self.jobs.lock().answers.pop_front()?;
        self.was_woken();
        Some(call)
    }

    /// Takes the job that epoll announced: a call, or else a connection to read from. `None` if
    /// another thread has taken it.
    pub fn take(&self) -> Option<Job> {
        self.was_woken();
        let mut jobs = self.jobs.lock();
        match jobs.answers.pop_front() {
            Some(call) => Some(Job::Answer(call)),
            None => jobs.reads.pop_front().map(Job::Read),
        }
    }

    /// Decrements the semaphore for one job.
    fn was_woken(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}
