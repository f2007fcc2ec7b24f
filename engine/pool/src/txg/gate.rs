//! The gate of the open txg: transactions enter, and closing it waits until all have left.
//!
//! ```text
//!   open n ──close()──> no transaction enters, those inside leave ──> all changes of n are handed over ──> open n + 1
//! ```
//!
//! Writers are slowed before they are stopped. Above [`SLOW_FROM`] percent of the limit for dirty
//! bytes each transaction sleeps a little, longer the closer the limit is. At the limit it waits
//! for the syncing txg.
//!
//! Invariants:
//!   * between two closings all transactions inside hold the same txg
//!   * a transaction inside never waits for a closing: [`object::Tx`] requires it
//!   * a txg in which a thread panicked in the middle of a transaction is never handed over: it has
//!     half of a change

use host::clock::Stopwatch;
#[cfg(not(test))]
use host::sync::{Condvar, Mutex};
use observe::event::note;
#[cfg(test)]
use rig::schedule::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

/// Percentage of the limit above which writers are slowed. As OpenZFS's default
/// (zfs_delay_min_dirty_percent).
const SLOW_FROM: u64 = 60;
/// Longest sleep of one transaction.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Sleep halfway between [`SLOW_FROM`] and the limit. Guessed: 8 KiB writes then reach about 10
/// MB/s each.
const SLEEP_HALFWAY: Duration = Duration::from_micros(500);

/// Whether the gate knows which threads are inside: in debug builds, except in the tests below,
/// where one thread plays several.
const KNOWS_THREADS: bool = cfg!(all(debug_assertions, not(test)));

pub(crate) struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Dirty bytes: not synced yet.
    waiting: Arc<AtomicU64>,
    limit_bytes: AtomicU64,
}

struct Inner {
    open: u64,
    inside: u64,
    /// Transactions that began in the open txg.
    entered: u64,
    closing: bool,
    /// No transaction enters any more: the pool is being closed.
    shut: bool,
    /// No transaction enters for now: the pool is suspended.
    suspended: bool,
    /// A thread panicked in the middle of a transaction: the open txg has half of a change.
    broken: bool,
    /// Threads that began the transactions inside, if [`KNOWS_THREADS`].
    threads: Vec<ThreadId>,
}

impl Inner {
    /// Notes that the calling thread begins a transaction.
    fn note_thread(&mut self) -> Option<ThreadId> {
        let thread = KNOWS_THREADS.then(|| std::thread::current().id());
        self.threads.extend(thread);
        thread
    }

    fn forget_thread(&mut self, thread: Option<ThreadId>) {
        if let Some(at) = self.threads.iter().position(|one| Some(*one) == thread) {
            self.threads.swap_remove(at);
        }
    }

    /// Asserts that the calling thread is not inside.
    fn assert_outside(&self, what: &str) {
        // A second panic would end the process.
        let is_checked = KNOWS_THREADS && !std::thread::panicking();
        let is_inside = is_checked && self.threads.contains(&std::thread::current().id());
        debug_assert!(!is_inside, "{what} inside a transaction of txg {}: it would wait for itself", self.open);
    }

    fn is_refused(&self) -> bool {
        self.shut || self.suspended || self.broken
    }
}

/// A transaction's hold on the open txg.
struct Hold {
    gate: Arc<Gate>,
    txg: u64,
    thread: Option<ThreadId>,
    /// The thread was panicking already when the transaction began: it is whole nevertheless.
    was_panicking: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let is_panicking = std::thread::panicking();
        let mut inner = self.gate.inner.lock();
        let Inner { open, inside, .. } = *inner;
        inner.broken |= (is_panicking && !self.was_panicking) || open != self.txg || inside == 0;
        inner.inside = inside.saturating_sub(1);
        inner.forget_thread(self.thread);
        if inner.broken || (inner.inside == 0 && inner.closing) {
            self.gate.changed.notify_all();
        }
        drop(inner);
        if !is_panicking {
            assert!(open == self.txg, "a transaction of txg {} ends while txg {open} is open", self.txg);
            assert!(inside > 0, "a transaction of txg {open} ends, and none is inside");
        }
    }
}

impl Gate {
    pub fn new(open: u64, waiting: Arc<AtomicU64>, limit_bytes: u64) -> Arc<Self> {
        let (inside, entered) = (0, 0);
        let (closing, shut, suspended, broken) = (false, false, false, false);
        let inner = Inner { open, inside, entered, closing, shut, suspended, broken, threads: Vec::new() };
        Arc::new(Self { inner: Mutex::new(inner), changed: Condvar::new(), waiting, limit_bytes: limit_bytes.into() })
    }

    /// Sets the limit for dirty bytes.
    pub fn set_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
        self.drained();
    }

    /// The limit for dirty bytes.
    pub fn limit(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Number of the open txg.
    pub fn open(&self) -> u64 {
        self.inner.lock().open
    }

    /// Asserts that the calling thread has no transaction, before it waits for a txg.
    pub fn assert_outside(&self, what: &str) {
        if KNOWS_THREADS {
            self.inner.lock().assert_outside(what);
        }
    }

    /// Number of transactions that began in the open txg, ended or not.
    pub fn entered(&self) -> u64 {
        self.inner.lock().entered
    }

    /// Whether a thread panicked in the middle of a transaction.
    pub fn is_broken(&self) -> bool {
        self.inner.lock().broken
    }

    /// Returns a hold on the open txg; `None` if the gate is shut, suspended or broken.
    pub fn enter(self: &Arc<Self>) -> Option<object::Tx> {
        let mut inner = self.inner.lock();
        inner.assert_outside("a transaction begins");
        if inner.closing {
            let clock = Stopwatch::start();
            while inner.closing && !inner.is_refused() {
                self.changed.wait(&mut inner);
            }
            note::wait(clock.ns(), |n| &mut n.txg_wait);
        }
        if inner.is_refused() {
            return None;
        }
        inner.inside += 1;
        inner.entered += 1;
        let (txg, thread) = (inner.open, inner.note_thread());
        let hold = Hold { gate: self.clone(), txg, thread, was_panicking: std::thread::panicking() };
        Some(object::Tx::open(inner.open, Box::new(hold)))
    }

    /// Slows or stops the caller, which is about to enter, while there is too much dirty data.
    /// `push` is called if it must wait.
    pub fn slow(&self, push: impl Fn()) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let limit = self.limit();
        let slow_from = limit / 100 * SLOW_FROM;
        if waiting <= slow_from {
            return;
        }
        push();
        let clock = Stopwatch::start();
        self.delay(waiting, slow_from, limit);
        note::wait(clock.ns(), |n| &mut n.txg_wait);
    }

    fn delay(&self, waiting: u64, slow_from: u64, limit: u64) {
        if waiting < limit {
            let (above, below) = ((waiting - slow_from) as f64, (limit - waiting) as f64);
            host::threads::sleep(SLEEP_HALFWAY.mul_f64((above / below).min(1e6)).min(SLEEP_MAX));
            return;
        }
        let mut inner = self.inner.lock();
        while self.waiting.load(Ordering::Relaxed) >= self.limit() && !inner.is_refused() {
            self.changed.wait_for(&mut inner, SLEEP_MAX);
        }
    }

    /// Waits until no transaction is inside, calls `hand_over` with the number of the txg while
    /// none can enter, and opens the next txg. `None` if a thread panicked in the middle of a
    /// transaction: then no further txg may be written.
    pub fn close<R>(&self, hand_over: impl FnOnce(u64) -> R) -> Option<R> {
        let mut inner = self.inner.lock();
        assert!(!inner.closing, "txg {} is being closed by two threads", inner.open);
        inner.closing = true;
        while inner.inside > 0 && !inner.broken {
            self.changed.wait(&mut inner);
        }
        if inner.broken {
            return None;
        }
        let result = hand_over(inner.open);
        inner.open += 1;
        (inner.entered, inner.closing) = (0, false);
        self.changed.notify_all();
        Some(result)
    }

    /// Closes the gate for good.
    pub fn shut(&self) {
        self.inner.lock().shut = true;
        self.changed.notify_all();
    }

    /// Closes the gate until this is called with `false`.
    pub fn suspend(&self, yes: bool) {
        self.inner.lock().suspended = yes;
        self.changed.notify_all();
    }

    /// Wakes waiting writers after data was synced.
    pub fn drained(&self) {
        let _inner = self.inner.lock();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_for_those_inside_and_they_keep_their_txg() {
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        let tx = gate.enter().unwrap();
        let closer = std::thread::spawn({
            let gate = gate.clone();
            move || gate.close(|txg| txg)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!closer.is_finished());
        assert_eq!(tx.txg(), 7);
        drop(tx);
        assert_eq!(closer.join().unwrap(), Some(7));
        assert_eq!(gate.enter().unwrap().txg(), 8);
        gate.shut();
        assert!(gate.enter().is_none());
    }
    #[test]
    fn a_higher_limit_wakes_waiting_threads() {
        let waiting = Arc::new(AtomicU64::new(100));
        let gate = Gate::new(1, waiting, 100);
        let writer = std::thread::spawn({
            let gate = gate.clone();
            move || gate.slow(|| ())
        });
        gate.set_limit(1000);
        assert_eq!(gate.limit(), 1000);
        writer.join().unwrap();
    }

    #[test]
    fn a_panic_in_a_transaction_breaks_the_gate_and_wakes_all_waiting_threads() {
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        let other = gate.enter().unwrap();
        let closer = std::thread::spawn({
            let gate = gate.clone();
            move || gate.close(|txg| txg)
        });
        while !gate.inner.lock().closing {
            std::thread::yield_now();
        }
        let waiting = std::thread::spawn({
            let gate = gate.clone();
            move || gate.enter().is_none()
        });
        let panicking = std::thread::spawn(move || {
            let _tx = other;
            panic!("in the middle of a change");
        });
        assert!(panicking.join().is_err());
        assert_eq!(closer.join().unwrap(), None, "half of a change is never handed over");
        assert!(waiting.join().unwrap());
        assert!(gate.is_broken() && gate.enter().is_none() && gate.inner.lock().inside == 0);
    }

    #[test]
    fn a_whole_transaction_of_a_thread_that_panics_anyway_breaks_nothing() {
        struct AtTheEnd(Arc<Gate>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                drop(self.0.enter());
            }
        }
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        let ending = AtTheEnd(gate.clone());
        let panicking = std::thread::spawn(move || {
            let _ending = ending;
            panic!("outside of any transaction");
        });
        assert!(panicking.join().is_err());
        assert!(!gate.is_broken());
        assert_eq!(gate.close(|txg| txg), Some(7));
    }

    #[test]
    #[should_panic(expected = "a transaction of txg 7 ends while txg 8 is open")]
    fn a_txg_that_closes_around_a_transaction_panics() {
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        let _tx = gate.enter().unwrap();
        gate.inner.lock().open += 1;
    }

    #[test]
    #[should_panic(expected = "a transaction of txg 7 ends, and none is inside")]
    fn a_transaction_that_ends_twice_panics() {
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        let _tx = gate.enter().unwrap();
        gate.inner.lock().inside = 0;
    }

    #[test]
    #[should_panic(expected = "txg 7 is being closed by two threads")]
    fn a_second_thread_that_closes_a_txg_panics() {
        let gate = Gate::new(7, Arc::default(), 1 << 20);
        gate.inner.lock().closing = true;
        gate.close(|_| ());
    }

    /// What an explored test knows of a txg: the changes made in it, and those handed over.
    #[derive(Default)]
    struct Book {
        open: Mutex<Vec<u64>>,
    }

    impl Book {
        fn change(&self, gate: &Arc<Gate>) -> bool {
            let Some(tx) = gate.enter() else { return false };
            rig::schedule::yield_now();
            self.open.lock().push(tx.txg());
            rig::schedule::yield_now();
            true
        }
    }

    #[test]
    fn every_change_is_handed_over_with_its_txg_under_every_schedule() {
        rig::schedule::explore(400, || {
            let (gate, book) = (Gate::new(7, Arc::default(), 1 << 20), Arc::new(Book::default()));
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    let (gate, book) = (gate.clone(), book.clone());
                    rig::schedule::spawn(move || (0..2).filter(|_| book.change(&gate)).count())
                })
                .collect();
            let mut handed_over = 0;
            for expected in 7..9 {
                let changes = gate.close(|txg| {
                    assert_eq!(txg, expected);
                    std::mem::take(&mut *book.open.lock())
                });
                let changes = changes.expect("no thread panicked");
                assert!(changes.iter().all(|txg| *txg == expected), "{changes:?} in txg {expected}");
                handed_over += changes.len();
            }
            // The pool is being closed while transactions may still begin.
            gate.shut();
            let made: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
            let last = gate.close(|_| std::mem::take(&mut *book.open.lock())).expect("no thread panicked");
            assert_eq!(made, handed_over + last.len());
            assert_eq!(gate.entered(), 0);
            assert_eq!(gate.inner.lock().inside, 0);
        });
    }

    #[test]
    fn suspending_and_resuming_lose_no_wake_up_under_any_schedule() {
        rig::schedule::explore(400, || {
            let waiting = Arc::new(AtomicU64::new(100));
            let gate = Gate::new(7, waiting.clone(), 100);
            let slow = rig::schedule::spawn({
                let gate = gate.clone();
                // At the limit: waits for the pool to be suspended, or for room.
                move || gate.slow(|| ())
            });
            let writer = rig::schedule::spawn({
                let gate = gate.clone();
                move || drop(gate.enter())
            });
            let closer = rig::schedule::spawn({
                let gate = gate.clone();
                move || gate.close(|txg| txg)
            });
            gate.suspend(true);
            gate.suspend(false);
            waiting.store(0, Ordering::Relaxed);
            gate.drained();
            assert_eq!(closer.join().unwrap(), Some(7));
            writer.join().unwrap();
            slow.join().unwrap();
        });
    }
}
