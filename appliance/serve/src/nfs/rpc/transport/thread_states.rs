//! How many threads the engine has, and what they do.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// See the module documentation.
#[derive(Default)]
pub(super) struct ThreadStates {
    /// Threads that poll, read and answer.
    readers: AtomicUsize,
    /// Those of them that wait for an event.
    idle: AtomicUsize,
    /// Number of answered calls.
    answered: AtomicU64,
    is_stopping: AtomicBool,
    /// The monitor sleeps here. True while all readers are busy.
    all_busy: (Mutex<bool>, Condvar),
    /// All threads, including those for waiting calls; notified when one has ended.
    running: (Mutex<usize>, Condvar),
}

impl ThreadStates {
    /// A reading thread is about to start. [`Self::reader_ended`] also if it could not.
    pub fn reader_starts(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        self.starts();
    }

    pub fn reader_ended(&self) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.ended();
    }

    /// A thread that does not read is about to start. [`Self::ended`] also if it could not.
    pub fn starts(&self) {
        *self.running.0.lock() += 1;
    }

    pub fn ended(&self) {
        *self.running.0.lock() -= 1;
        self.running.1.notify_all();
    }

    /// Number of reading threads.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::SeqCst)
    }

    /// A reading thread waits for events.
    pub fn begin_idle(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
    }

    /// A reading thread has an event. Wakes the monitor if no other one is idle.
    pub fn end_idle(&self) {
        if self.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
            let mut busy = self.all_busy.0.lock();
            if !*busy {
                *busy = true;
                self.all_busy.1.notify_one();
            }
        }
    }

    /// Whether a reading thread is idle.
    pub fn has_idle(&self) -> bool {
        self.idle.load(Ordering::SeqCst) > 0
    }

    /// Waits until all readers are busy, the engine stops, or, while `must_look`, for `period`.
    pub fn wait_all_busy(&self, must_look: impl Fn() -> bool, period: Duration) {
        let mut busy = self.all_busy.0.lock();
        while !*busy && !self.is_stopping() {
            if !must_look() {
                self.all_busy.1.wait(&mut busy);
            } else if self.all_busy.1.wait_for(&mut busy, period).timed_out() {
                return;
            }
        }
    }

    /// Lets the monitor check whether it must look.
    pub fn wake_monitor(&self) {
        let _busy = self.all_busy.0.lock();
        self.all_busy.1.notify_one();
    }

    /// Lets the monitor sleep until all readers are busy again.
    pub fn recheck_busy(&self) {
        let mut busy = self.all_busy.0.lock();
        // A thread that becomes busy after this sets the flag; one that did so just before is
        // counted here.
        *busy = !self.has_idle();
    }

    /// Counts an answered call.
    pub fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of calls answered so far.
    pub fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Asks the monitor to end, and the readers once they wake.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        *self.all_busy.0.lock() = true;
        self.all_busy.1.notify_all();
    }

    /// Waits until all threads have ended, or `until`. Returns how many have not.
    pub fn wait_ended(&self, until: Instant) -> usize {
        let mut left = self.running.0.lock();
        while *left > 0 {
            if self.running.1.wait_until(&mut left, until).timed_out() {
                break;
            }
        }
        *left
    }
}
