//! Byte ranges that are being changed: a thread that requests an overlapping range waits.

use host::sync::{Condvar, Mutex};
use std::ops::Range;

/// The ranges currently held.
#[derive(Default)]
pub(super) struct Ranges {
    held: Mutex<Vec<Range<u64>>>,
    freed: Condvar,
}

/// A range that is held until this guard is dropped.
pub(super) struct Held<'a> {
    of: &'a Ranges,
    range: Range<u64>,
}

impl Ranges {
    /// Acquires `len` bytes from `offset`, waiting until no other thread holds any of them.
    pub fn hold(&self, offset: u64, len: u64) -> Held<'_> {
        let range = offset..offset.saturating_add(len);
        let mut held = self.held.lock();
        while held.iter().any(|other| other.start < range.end && range.start < other.end) {
            self.freed.wait(&mut held);
        }
        held.push(range.clone());
        Held { of: self, range }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.of.held.lock();
        if let Some(at) = held.iter().position(|range| *range == self.range) {
            held.swap_remove(at);
        }
        drop(held);
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn ranges_that_overlap_are_held_one_after_the_other() {
        let ranges = Ranges::default();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for n in 0..8u64 {
                let (ranges, inside) = (&ranges, &inside);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let held = ranges.hold(n, 8);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        // Adjacent ranges do not wait for each other.
        let _first = ranges.hold(0, 8);
        let _second = ranges.hold(8, 8);
    }
}
