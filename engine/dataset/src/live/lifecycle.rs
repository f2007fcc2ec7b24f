//! How long a dataset is open, and the changes that are applied before it closes.

use errors::Result;
use host::sync::Mutex;
use object::Tx;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Small changes kept in memory until a txg happens anyway, such as access times.
pub trait LateChanges: Send + Sync {
    /// Applies as many of them as fit in a txg, in a transaction obtained from `begin` for the
    /// given number of bytes. Returns whether more remain that can be applied now. Called
    /// before each txg closes, by the thread that closes it, so it must not wait for a txg, nor
    /// for a lock held while waiting for one; called again before the dataset is closed, until
    /// none remain.
    fn bring(&self, begin: &dyn Fn(u64) -> Result<Tx>) -> bool;
}

/// Whether a dataset is open, and its late changes.
///
/// The late changes reference what references the dataset. [`Lifecycle::take_late`] breaks that
/// circle, so it must run before the dataset is dropped.
#[derive(Default)]
pub(super) struct Lifecycle {
    is_closed: AtomicBool,
    /// Held while late changes are applied before a txg closes.
    late: Mutex<Option<Arc<dyn LateChanges>>>,
}

impl Lifecycle {
    /// Registers `changes`, in place of those registered before.
    pub fn set_late(&self, changes: Arc<dyn LateChanges>) {
        *self.late.lock() = Some(changes);
    }

    /// Removes the late changes, after those that are being applied at this moment.
    pub fn take_late(&self) -> Option<Arc<dyn LateChanges>> {
        self.late.lock().take()
    }

    /// Applies late changes that fit in a txg. Returns whether more remain.
    pub fn apply_late(&self, begin: &dyn Fn(u64) -> Result<Tx>) -> bool {
        self.late.lock().as_ref().is_some_and(|late| late.bring(begin))
    }

    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}
