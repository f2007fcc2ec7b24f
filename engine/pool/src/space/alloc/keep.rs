//! Keeping what is freed as it is: for whoever reads the pool as it once was, while others write.
//!
//! Invariants:
//!   * while a [`Kept`] holds, no block of the view that was taken after it is handed out again
//!   * a pool that runs out of space comes first: then nothing is kept any more, and who reads is told

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// As long as this is there, what is freed is not handed out.
#[must_use]
pub struct Kept {
    holds: Arc<AtomicBool>,
}

impl Kept {
    /// Whether all was kept since it was asked for. When not, what was read since may be something else.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }
}

/// All that are there.
#[derive(Default)]
pub(super) struct Keeps(Mutex<Vec<Arc<AtomicBool>>>);

impl Keeps {
    /// Whether anybody wants what is freed to be kept. Nobody does any more when the pool needs the room.
    pub fn wanted(&self, needs_room: bool) -> bool {
        let mut all = self.0.lock();
        // The list has one, its `Kept` the other.
        all.retain(|holds| Arc::strong_count(holds) > 1);
        if needs_room {
            all.drain(..).for_each(|holds| holds.store(false, Ordering::Release));
        }
        !all.is_empty()
    }
}

impl super::Allocator {
    /// From now on what is freed stays as it is. Views of the pool that are taken from here on stay whole.
    pub fn keep_freed(&self) -> Kept {
        let holds = Arc::new(AtomicBool::new(true));
        self.keeps.0.lock().push(holds.clone());
        Kept { holds }
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
            let holds = Arc::new(AtomicBool::new(true));
            keeps.0.lock().push(holds.clone());
            Kept { holds }
        };
        let (a, b) = (keep(), keep());
        assert!(keeps.wanted(false));
        drop(a);
        assert!(keeps.wanted(false) && b.holds());
        assert!(!keeps.wanted(true) && !b.holds());
        assert!(!keeps.wanted(false));
    }
}
