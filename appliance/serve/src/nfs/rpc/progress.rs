//! How far a connection was read and answered.

use crate::net::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const IDLE: u8 = 0;
const READING: u8 = 1;
const MORE: u8 = 2;

/// Which thread reads a connection, and whether reading is paused. One thread at a time has the
/// right to read.
pub(super) struct ReadState {
    turn: AtomicU8,
    /// Serving is paused until output was sent or fewer calls are queued.
    is_held: AtomicBool,
    /// Serving is paused until memory is available.
    is_starved: AtomicBool,
    /// The client has closed its sending side: reading will reach the end.
    has_ended: AtomicBool,
    /// When data was last received or sent, in milliseconds since `begun`.
    moved: AtomicU64,
    begun: Instant,
}

impl ReadState {
    pub fn new() -> Self {
        Self {
            turn: AtomicU8::new(IDLE),
            is_held: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }

    /// Data has arrived. Returns whether this thread must read it.
    pub fn begin(&self) -> bool {
        let mut now = self.turn.load(Ordering::Acquire);
        loop {
            let next = if now == IDLE { READING } else { MORE };
            match self.turn.compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return now == IDLE,
                Err(other) => now = other,
            }
        }
    }

    /// All data was read. Returns false if more has arrived in the meantime and the thread must
    /// continue.
    pub fn end(&self) -> bool {
        if self.turn.compare_exchange(READING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        self.turn.store(READING, Ordering::Release);
        false
    }

    /// Stops reading although there is more. The next thread that calls [`Self::begin`] continues.
    pub fn stop(&self) {
        self.turn.store(IDLE, Ordering::Release);
    }

    /// Pauses serving until output was sent or fewer calls are queued. The caller then checks
    /// whether that has happened meanwhile.
    pub fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
    }

    /// Ends the pause. Returns true for the one thread that ended it.
    pub fn release(&self) -> bool {
        self.is_held.swap(false, Ordering::SeqCst)
    }

    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Pauses serving until memory is available. Returns false if it was paused already.
    pub fn starve(&self) -> bool {
        !self.is_starved.swap(true, Ordering::SeqCst)
    }

    pub fn is_starved(&self) -> bool {
        self.is_starved.load(Ordering::SeqCst)
    }

    /// Ends the pause that [`Self::starve`] began.
    pub fn feed(&self) {
        self.is_starved.store(false, Ordering::SeqCst);
    }

    /// Records that the client has closed its sending side.
    pub fn client_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Records that data was received or sent.
    pub fn moved(&self) {
        self.moved.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time since data was last received or sent.
    pub fn still(&self) -> Duration {
        self.begun.elapsed().saturating_sub(Duration::from_millis(self.moved.load(Ordering::Relaxed)))
    }
}

/// Answers that a connection still has to give. It is closed after the last one is sent if the
/// client sends no more.
#[derive(Default)]
pub(super) struct PendingAnswers {
    /// Number of reads, and of calls that are parked or queued for other threads, whose answers are
    /// not all queued yet.
    busy: AtomicUsize,
    /// All input was read.
    was_read: AtomicBool,
}

impl PendingAnswers {
    /// Adds a read, or a call that is parked or for another thread.
    pub fn add(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    /// Answers of one read or call are queued. Returns whether it was the last one of the
    /// connection. Two threads may both get that answer.
    pub fn remove(&self) -> bool {
        // Another read may have begun, and have found the end, since the number was 0.
        self.busy.fetch_sub(1, Ordering::SeqCst) == 1 && self.are_over()
    }

    /// Whether the last answer is queued, and none follows.
    pub fn are_over(&self) -> bool {
        self.was_read.load(Ordering::SeqCst) && self.busy.load(Ordering::SeqCst) == 0
    }

    /// All input was read. Called before the last read is removed.
    pub fn all_read(&self) {
        self.was_read.store(true, Ordering::SeqCst);
    }

    pub fn was_all_read(&self) -> bool {
        self.was_read.load(Ordering::SeqCst)
    }
}
