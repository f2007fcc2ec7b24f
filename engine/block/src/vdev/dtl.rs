//! The dirty time log of a device: the txgs of which it lacks blocks. ZFS name: `DTL_MISSING`.

use host::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Txg ranges (first, last) that a device missed: blocks born then are stale on it.
#[derive(Default)]
pub(super) struct Dtl {
    ranges: RwLock<Vec<(u64, u64)>>,
    /// The ranges have changed since they were last written to disk.
    changed: AtomicBool,
}

impl Dtl {
    /// Adds the txgs `first` to `last`.
    pub fn add(&self, first: u64, last: u64) {
        let covered = |ranges: &[(u64, u64)]| ranges.iter().any(|(f, l)| *f <= first && last <= *l);
        if covered(&self.ranges.read()) {
            return;
        }
        let mut ranges = self.ranges.write();
        ranges.push((first, last));
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (f, l) in ranges.drain(..) {
            match merged.last_mut() {
                Some((_, end)) if f <= end.saturating_add(1) => *end = l.max(*end),
                _ => merged.push((f, l)),
            }
        }
        *ranges = merged;
        self.changed.store(true, Ordering::Release);
    }

    /// Removes the txgs before `end`. The next txg writes the dtl.
    pub fn excise(&self, end: u64) {
        let mut ranges = self.ranges.write();
        let before = ranges.len();
        ranges.retain_mut(|(first, last)| {
            *first = (*first).max(end);
            *first <= *last
        });
        if before > 0 {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Sets what was read from disk.
    pub fn set(&self, ranges: Vec<(u64, u64)>) {
        *self.ranges.write() = ranges;
    }

    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Returns and resets [`Dtl::has_changed`].
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    pub fn contains(&self, txg: u64) -> bool {
        self.ranges.read().iter().any(|(first, last)| (*first..=*last).contains(&txg))
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.read().is_empty()
    }

    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.ranges.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_excised_from_the_start() {
        let dtl = Dtl::default();
        assert!(dtl.is_empty() && !dtl.has_changed());
        [(10, 12), (20, 22), (13, 13), (11, 12)].into_iter().for_each(|(first, last)| dtl.add(first, last));
        assert_eq!(dtl.ranges(), [(10, 13), (20, 22)]);
        assert_eq!([9, 10, 13, 14, 22].map(|txg| dtl.contains(txg)), [false, true, true, false, true]);
        assert!(dtl.take_changed());
        dtl.add(21, 22);
        assert!(!dtl.has_changed(), "known already");
        dtl.excise(21);
        assert_eq!(dtl.ranges(), [(21, 22)]);
        assert!(dtl.take_changed());
        dtl.excise(23);
        assert!(dtl.is_empty() && dtl.has_changed());
    }
}
