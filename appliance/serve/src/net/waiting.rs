//! Requests that wait: for devices, or because changes exceed what the devices can write.
//!
//! Dedicated threads execute them, so that requests for cached data are answered however many
//! others wait.
//!
//! Invariant: there are as many threads as requests, up to a limit; above it, requests are queued.

use super::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// An idle thread ends after this time.
const IDLE: Duration = Duration::from_secs(20);

struct Inner<R> {
    requests: VecDeque<R>,
    idle: usize,
    threads: usize,
    is_stopping: bool,
}

/// See the module documentation.
pub(crate) struct Waiting<R> {
    inner: Mutex<Inner<R>>,
    changed: Condvar,
    threads_max: usize,
}

impl<R> Waiting<R> {
    pub fn new(threads_max: usize) -> Self {
        let inner = Inner { requests: VecDeque::new(), idle: 0, threads: 0, is_stopping: false };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), threads_max: threads_max.max(1) }
    }

    /// Queues a request. Returns true if the caller must start a thread that [takes](Waiting::take)
    /// it.
    pub fn give(&self, request: R) -> bool {
        let mut inner = self.inner.lock();
        inner.requests.push_back(request);
        if inner.requests.len() > inner.idle && inner.threads < self.threads_max {
            inner.threads += 1;
            return true;
        }
        self.changed.notify_one();
        false
    }

    /// Reports that the thread could not be started. Returns a request that the caller must execute
    /// if there is no thread at all.
    pub fn not_started(&self) -> Option<R> {
        let mut inner = self.inner.lock();
        inner.threads -= 1;
        if inner.threads == 0 { inner.requests.pop_front() } else { None }
    }

    /// Waits for the next request. `None`: the thread must end.
    pub fn take(&self) -> Option<R> {
        let mut inner = self.inner.lock();
        let mut is_over = false;
        loop {
            if inner.is_stopping {
                break;
            }
            if let Some(request) = inner.requests.pop_front() {
                return Some(request);
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

    /// Discards queued requests and accepts no more: clients repeat them to the next server.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopping = true;
        inner.requests.clear();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_started_for_each_request_that_no_idle_one_takes_up_to_the_limit() {
        let waiting = Waiting::new(2);
        assert_eq!([1, 2, 3].map(|request| waiting.give(request)), [true, true, false]);
        assert_eq!([(); 3].map(|()| waiting.take()), [Some(1), Some(2), Some(3)]);
        assert_eq!(waiting.not_started(), None, "another thread exists");
        assert!(waiting.give(4), "in the place of the thread that was not started");
        assert_eq!((waiting.not_started(), waiting.give(5)), (None, true));
        waiting.stop();
        assert_eq!(waiting.take(), None);
    }

    #[test]
    fn a_request_without_any_thread_returns_to_its_caller() {
        let waiting = Waiting::new(1);
        assert!(waiting.give(1));
        assert_eq!(waiting.not_started(), Some(1));
    }
}
