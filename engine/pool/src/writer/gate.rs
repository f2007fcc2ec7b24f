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

use host::clock::Stopwatch;
use observe::event::note;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Percentage of the limit above which writers are slowed. As OpenZFS's default
/// (zfs_delay_min_dirty_percent).
const SLOW_FROM: u64 = 60;
/// Longest sleep of one transaction.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Sleep halfway between [`SLOW_FROM`] and the limit. Guessed: 8 KiB writes then reach about 10
/// MB/s each.
const SLEEP_HALFWAY: Duration = Duration::from_micros(500);

pub(super) struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Dirty bytes: not synced yet.
    waiting: Arc<AtomicU64>,
    limit_bytes: AtomicU64,
}

struct Inner {
    open: u64,
    inside: u64,
    closing: bool,
    /// No transaction enters any more: the pool is being closed.
    shut: bool,
    /// No transaction enters for now: the pool is suspended.
    suspended: bool,
}

/// A transaction's hold on the open txg.
struct Hold(Arc<Gate>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.inside -= 1;
        if inner.inside == 0 && inner.closing {
            self.0.changed.notify_all();
        }
    }
}

impl Gate {
    pub fn new(open: u64, waiting: Arc<AtomicU64>, limit_bytes: u64) -> Arc<Self> {
        let inner = Inner { open, inside: 0, closing: false, shut: false, suspended: false };
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

    /// Returns a hold on the open txg; `None` if the gate is shut or suspended.
    pub fn enter(self: &Arc<Self>) -> Option<object::Tx> {
        let mut inner = self.inner.lock();
        if inner.closing {
            let clock = Stopwatch::start();
            while inner.closing && !inner.shut && !inner.suspended {
                self.changed.wait(&mut inner);
            }
            note::wait(clock.ns(), |n| &mut n.txg_wait);
        }
        if inner.shut || inner.suspended {
            return None;
        }
        inner.inside += 1;
        Some(object::Tx::open(inner.open, Box::new(Hold(self.clone()))))
    }

    /// Slows or stops the caller, who is about to enter, while there is too much dirty data. `push`
    /// is called if it must wait.
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
            std::thread::sleep(SLEEP_HALFWAY.mul_f64((above / below).min(1e6)).min(SLEEP_MAX));
            return;
        }
        let mut inner = self.inner.lock();
        while self.waiting.load(Ordering::Relaxed) >= self.limit() && !inner.shut && !inner.suspended {
            self.changed.wait_for(&mut inner, SLEEP_MAX);
        }
    }

    /// Waits until no transaction is inside, calls `hand_over` with the number of the txg while
    /// none can enter, and opens the next txg.
    pub fn close<R>(&self, hand_over: impl FnOnce(u64) -> R) -> R {
        let mut inner = self.inner.lock();
        inner.closing = true;
        while inner.inside > 0 {
            self.changed.wait(&mut inner);
        }
        let result = hand_over(inner.open);
        inner.open += 1;
        inner.closing = false;
        self.changed.notify_all();
        result
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
        assert_eq!(closer.join().unwrap(), 7);
        assert_eq!(gate.enter().unwrap().txg(), 8);
        gate.shut();
        assert!(gate.enter().is_none());
    }
    #[test]
    fn a_higher_limit_lets_on_who_waits() {
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
}
