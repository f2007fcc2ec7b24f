//! Calls that wait: for devices, or because more is changed than devices take.
//!
//! They have threads of their own. Those that read connections answer such a call themselves only while half of them do not, so that what
//! is in memory is answered however many others wait.
//!
//! Invariants:
//!   * as many threads as calls, up to a limit; beyond it a call waits for one
//!   * what is queued counts as memory of its connection's ([`Connection::hand_over`]), which is read no further when it is much

use super::super::connection::Connection;
use super::super::framer::Record;
use host::clock::Stopwatch;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// After this long without a call a thread ends.
const IDLE: Duration = Duration::from_secs(20);

/// Whose a call is, it, and what runs since it came.
pub(super) type Handed = (Arc<Connection>, Record<'static>, Stopwatch);

#[derive(Default)]
struct Inner {
    calls: VecDeque<Handed>,
    idle: usize,
    threads: usize,
    is_stopping: bool,
}

/// See the module.
pub(super) struct Waiting {
    inner: Mutex<Inner>,
    changed: Condvar,
    threads_max: usize,
}

impl Waiting {
    pub fn new(threads_max: usize) -> Self {
        Self { inner: Mutex::default(), changed: Condvar::new(), threads_max }
    }

    /// Queues a call. True: the caller is to start a thread that [takes](Waiting::take) it.
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

    /// The thread that was to be started was not. A call for the caller to answer, if nobody else will.
    pub fn not_started(&self) -> Option<Handed> {
        let mut inner = self.inner.lock();
        inner.threads -= 1;
        if inner.threads == 0 { inner.calls.pop_front() } else { None }
    }

    /// The next call; waits for one. `None`: the thread is to end.
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

    /// Nothing more is taken: clients ask the next server.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopping = true;
        inner.calls.clear();
        self.changed.notify_all();
    }
}
