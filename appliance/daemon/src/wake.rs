//! Wakes threads that run periodically.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Wakes a thread before its time, and ends it.
#[derive(Default)]
pub struct Wake {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    now: bool,
    ends: bool,
}

impl Wake {
    /// Makes the thread run at once.
    pub fn wake(&self) {
        self.due.lock().now = true;
        self.changed.notify_all();
    }

    /// Makes the thread end.
    pub fn end(&self) {
        self.due.lock().ends = true;
        self.changed.notify_all();
    }

    /// Waits until it is time to run; false: the thread must end.
    pub fn wait(&self, longest: Duration) -> bool {
        self.pause(longest).is_some()
    }

    /// Waits at most `longest`. Returns whether the thread was woken; `None`: it must end.
    pub fn pause(&self, longest: Duration) -> Option<bool> {
        let mut due = self.due.lock();
        if !due.now && !due.ends {
            self.changed.wait_for(&mut due, longest);
        }
        let woken = std::mem::take(&mut due.now);
        (!due.ends).then_some(woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_woken_and_ended() {
        let wake = Wake::default();
        wake.wake();
        assert!(wake.wait(Duration::from_secs(100)));
        assert!(wake.wait(Duration::from_millis(1)));
        wake.end();
        assert!(!wake.wait(Duration::from_secs(100)));
    }
}
