//! Leaves that hold asynchronous writes, until a thread waits for the end of one.
//!
//! ```text
//!   write of a txg ──> queue of a leaf: held ──> noted here
//!   flush, or too many bytes in flight ── Plug::wait ──> all noted leaves write
//! ```
//! Invariant: while a [`Waiting`] exists, no leaf that a write notes here holds it for long.

use host::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What becomes of the writes that a leaf holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Write,
    /// The pool is given up before the end of their txg.
    Cancel,
}

/// Writes or cancels what a leaf holds.
type Settle = Box<dyn FnOnce(Fate) + Send>;

/// The leaves with held writes of a store.
#[derive(Default)]
pub(crate) struct Plug {
    leaves: Mutex<Vec<Settle>>,
    waiting: AtomicUsize,
}

/// A thread waits for writes.
pub(crate) struct Waiting<'p>(&'p Plug);

impl Plug {
    /// A leaf holds a write.
    pub(super) fn note(&self, settle: Settle) {
        self.leaves.lock().push(settle);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.push();
        }
    }

    /// Starts what is held.
    fn push(&self) {
        self.settle(Fate::Write);
    }

    /// Forgets what is held, which no txg will refer to.
    pub fn cancel(&self) {
        self.settle(Fate::Cancel);
    }

    fn settle(&self, fate: Fate) {
        let leaves = std::mem::take(&mut *self.leaves.lock());
        leaves.into_iter().for_each(|settle| settle(fate));
    }

    /// Starts what is held, and until the result is dropped, what is noted.
    pub fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.push();
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
