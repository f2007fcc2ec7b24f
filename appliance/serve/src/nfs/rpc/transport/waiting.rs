//! Calls that wait: for devices, or because changes exceed what the devices can write.
//!
//! Dedicated threads answer them. Threads that read connections answer such a call themselves only
//! while fewer than half of them do, so that calls for cached data are answered however many others
//! wait.
//!
//! Invariants:
//!   * there are as many threads as calls, up to a limit; above it, calls are queued
//!   * queued calls are charged to their connection ([`Connection::unanswered`]), which is not read
//!     further when it has many

use super::super::Received;
use super::super::connection::Connection;
use super::super::framer::Record;
use host::clock::Stopwatch;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// An idle thread ends after this time.
const IDLE: Duration = Duration::from_secs(20);

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
struct Inner {
    calls: VecDeque<Handed>,
    idle: usize,
    threads: usize,
    is_stopping: bool,
}

/// See the module documentation.
pub(super) struct Waiting {
    inner: Mutex<Inner>,
    changed: Condvar,
    threads_max: usize,
}

impl Waiting {
    pub fn new(threads_max: usize) -> Self {
        Self { inner: Mutex::default(), changed: Condvar::new(), threads_max }
    }

    /// Queues a call. Returns true if the caller must start a thread that [takes](Waiting::take)
    /// it.
    pub fn give(&self, call: Handed) -> bool {
        let mut inner = self.inner.lock();
        inner.calls.push_back(call);
        if inner.calls.len() > inner.idle && inner.threads < self.threads_max {
            inner.threads += 1;
            return true;
        }
        self.changed.notify_one();
        false
    }

    /// Reports that the thread could not be started. Returns a call that the caller must answer if
    /// there is no thread at all.
    pub fn not_started(&self) -> Option<Handed> {
        let mut inner = self.inner.lock();
        inner.threads -= 1;
        if inner.threads == 0 { inner.calls.pop_front() } else { None }
    }

    /// Waits for the next call. `None`: the thread must end.
    pub fn take(&self) -> Option<Handed> {
        let mut inner = self.inner.lock();
        let mut is_over = false;
        loop {
            if inner.is_stopping {
                break;
            }
            if let Some(call) = inner.calls.pop_front() {
                return Some(call);
            }
            if is_over {
                break;
            }
            inner.idle += 1;
            is_over = self.changed.wait_for(&mut inner, IDLE).timed_out();
            inner.idle -= 1;
        }
        inner.threads -= 1;
        None
    }

    /// Discards queued calls and accepts no more: clients retransmit to the next server.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopping = true;
        inner.calls.clear();
        self.changed.notify_all();
    }
}
