//! Keeping what is freed as it is: for whoever reads the pool as it once was, while others write.
//!
//! Invariants:
//!   * while a [`Kept`] holds, no block of the view that was taken after it is handed out again
//!   * a pool that runs out of space comes first: then nothing is kept any more, and who reads is told
//!   * while somebody writes over a block of such a view ([`Kept::while_kept`]), its space is not handed out

use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// As long as this is there, what is freed is not handed out.
#[must_use]
pub struct Kept {
    holds: Arc<RwLock<bool>>,
}

impl Kept {
    /// Whether all was kept since it was asked for. When not, what was read since may be something else.
    pub fn holds(&self) -> bool {
        *self.holds.read()
    }

    /// Does `work` if all was kept so far, and keeps it until that is done: `work` may write where blocks of the view are, which
    /// only those blocks' own bytes are for. A txg may have to wait for it: it must be short, and wait for no txg.
    pub fn while_kept<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        let holds = self.holds.read();
        holds.then(work)
    }
}

/// All that are there.
#[derive(Default)]
pub(super) struct Keeps(Mutex<Vec<Arc<RwLock<bool>>>>);

impl Keeps {
    /// Whether anybody wants what is freed to be kept. Nobody does any more when the pool needs the room.
    pub fn wanted(&self, needs_room: bool) -> bool {
        let mut all = self.0.lock();
        // The list has one, its `Kept` the other.
        all.retain(|holds| Arc::strong_count(holds) > 1);
        if needs_room {
            all.drain(..).for_each(|holds| *holds.write() = false);
        }
        !all.is_empty()
    }
}

impl super::Allocator {
    /// From now on what is freed stays as it is. Views of the pool that are taken from here on stay whole.
    pub fn keep_freed(&self) -> Kept {
        let holds = Arc::new(RwLock::new(true));
        self.keeps.0.lock().push(holds.clone());
        Kept { holds }
    }

    /// A writer has no room until what was freed is free: from the end of this txg on nothing is kept for readers.
    pub fn needs_room(&self) {
        self.needs_room.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_kept_until_it_is_let_go_of_or_the_pool_is_full() {
        let keeps = Keeps::default();
        assert!(!keeps.wanted(false));
        let keep = || {
            let holds = Arc::new(RwLock::new(true));
            keeps.0.lock().push(holds.clone());
            Kept { holds }
        };
        let (a, b) = (keep(), keep());
        assert!(keeps.wanted(false));
        drop(a);
        assert!(keeps.wanted(false) && b.holds());
        assert_eq!(b.while_kept(|| 7), Some(7));
        assert!(!keeps.wanted(true) && !b.holds());
        assert_eq!(b.while_kept(|| 7), None);
        assert!(!keeps.wanted(false));
    }
}
