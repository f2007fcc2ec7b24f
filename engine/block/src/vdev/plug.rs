//! Leaves that hold asynchronous writes, until a thread waits for the end of one.
//!
//! ```text
//!   write of a txg ──> queue of a leaf: held ──> noted here
//!   flush, or too many bytes in flight ── Plug::wait ──> all noted leaves write
//! ```
//! Invariant: while a [`Waiting`] exists, no leaf that a write notes here holds it for long.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Starts the writes that a leaf holds.
type Push = Box<dyn FnOnce() + Send>;

/// The leaves with held writes of a store.
#[derive(Default)]
pub(crate) struct Plug {
    leaves: Mutex<Vec<Push>>,
    waiting: AtomicUsize,
}

/// A thread waits for writes.
pub(crate) struct Waiting<'p>(&'p Plug);

impl Plug {
    /// A leaf holds a write.
    pub fn note(&self, push: Push) {
        self.leaves.lock().push(push);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.push();
        }
    }

    /// Starts what is held.
    pub fn push(&self) {
        let leaves = std::mem::take(&mut *self.leaves.lock());
        leaves.into_iter().for_each(|push| push());
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
