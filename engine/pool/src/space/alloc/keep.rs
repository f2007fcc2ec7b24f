//! Keeps freed blocks unchanged, for readers of an older state of the pool while it is being
//! written.
//!
//! Invariants:
//!   * while a [`Kept`] holds, no block of a view taken after it is reallocated
//!   * a pool that runs out of space takes precedence: then nothing is kept any more, and readers
//!     find out from [`Kept::holds`]
//!   * while a thread overwrites a block of such a view ([`Kept::while_kept`]), its space is not
//!     reallocated

use host::sync::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// While this value exists, freed space is not reallocated.
#[must_use]
pub struct Kept {
    holds: Arc<RwLock<bool>>,
}

impl Kept {
    /// Whether all freed space was kept since the start. If not, data read since may be wrong.
    pub fn holds(&self) -> bool {
        *self.holds.read()
    }

    /// Runs `work` if all freed space was kept so far, and keeps it until `work` is done. `work`
    /// may write to blocks of the view, but only the blocks' own bytes. A txg may wait for it: it
    /// must be short, and must not wait for a txg.
    pub fn while_kept<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let holds = self.holds.read();
        holds.then(work)
    }
}

/// All [`Kept`] values of a pool.
#[derive(Default)]
pub(super) struct Keeps {
    all: Mutex<Vec<Arc<RwLock<bool>>>>,
    /// A writer waits for freed space.
    is_room_awaited: AtomicBool,
    /// Everything is kept from now on, whatever the pool needs.
    is_frozen: AtomicBool,
}

impl Keeps {
    /// From now on freed space is kept.
    pub fn keep(&self) -> Kept {
        let holds = Arc::new(RwLock::new(true));
        self.all.lock().push(holds.clone());
        Kept { holds }
    }

    /// From now on no freed space is reallocated any more, however full the pool is.
    pub fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
    }

    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::SeqCst)
    }

    /// A writer has no space left: the next call of [`Keeps::wanted`] keeps nothing.
    pub fn await_room(&self) {
        self.is_room_awaited.store(true, Ordering::Relaxed);
    }

    /// Whether any reader needs freed space to be kept. If the pool or a writer needs the space,
    /// none is kept.
    pub fn wanted(&self, needs_room: bool) -> bool {
        if self.is_frozen() {
            return true;
        }
        let needs_room = self.is_room_awaited.swap(false, Ordering::Relaxed) || needs_room;
        let mut all = self.all.lock();
        // The list holds one reference, the `Kept` the other.
        all.retain(|holds| Arc::strong_count(holds) > 1);
        if needs_room {
            all.drain(..).for_each(|holds| *holds.write() = false);
        }
        !all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_space_is_kept_until_it_is_released_or_the_pool_is_full() {
        let keeps = Keeps::default();
        assert!(!keeps.wanted(false));
        let (a, b) = (keeps.keep(), keeps.keep());
        assert!(keeps.wanted(false));
        drop(a);
        assert!(keeps.wanted(false) && b.holds());
        assert_eq!(b.while_kept(|| 7), Some(7));
        assert!(!keeps.wanted(true) && !b.holds());
        assert_eq!(b.while_kept(|| 7), None);
        assert!(!keeps.wanted(false));
        let c = keeps.keep();
        keeps.await_room();
        assert!(!keeps.wanted(false) && !c.holds());
        let d = keeps.keep();
        assert!(keeps.wanted(false) && d.holds());
        drop(d);
        keeps.freeze();
        keeps.await_room();
        assert!(keeps.wanted(true) && keeps.wanted(false));
    }
}
