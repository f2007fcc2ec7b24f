//! Histograms with 16 buckets for each power of two.
//!
//! ```text
//! 0 1 2 … 15 | 16 17 … 31 | 32 34 … 62 | 64 68 … 124 | …   width: at most 1/16 of a value
//! ```
//!
//! The bucket bounds are fixed, so that histograms of devices, seconds and machines can be added.

use crate::Counter;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for each power of two.
const PARTS: u64 = 16;
/// 16 for values below 16, and 16 for each power of two from 2^4 to 2^63.
const CLASSES: usize = 61 * PARTS as usize;

/// Counts values by size. Occupies 9 KiB.
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: (0..CLASSES).map(|_| AtomicU64::new(0)).collect(), sum: Counter::default() }
    }
}

fn class_of(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let power = value.ilog2();
    let part = value >> (power - 4) & (PARTS - 1);
    ((u64::from(power) - 3) * PARTS + part) as usize
}

/// The smallest value of a bucket.
fn first_of(class: usize) -> u64 {
    let (row, part) = (class as u64 / PARTS, class as u64 % PARTS);
    if row == 0 { part } else { (PARTS + part) << (row - 1) }
}

/// The largest value of a bucket.
fn last_of(class: usize) -> u64 {
    if class + 1 >= CLASSES { u64::MAX } else { first_of(class + 1) - 1 }
}

impl Histogram {
    /// Counts a value. Takes no lock.
    pub fn record(&self, value: u64) {
        self.counts[class_of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.add(value);
    }

    /// Number of values so far.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Sum of the values so far; wraps at 2^64.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// A snapshot of the counts.
    pub fn spread(&self) -> Spread {
        let mut spread = Spread { sum: self.sum.get(), ..Spread::default() };
        for (class, count) in self.counts.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                spread.count += count;
                spread.classes.push((last_of(class), count));
            }
        }
        spread
    }
}

/// A snapshot of a [`Histogram`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    pub count: u64,
    /// Sum of the values; wraps at 2^64.
    pub sum: u64,
    /// The largest value of each non-empty bucket and its count, ascending.
    pub classes: Vec<(u64, u64)>,
}

impl Spread {
    /// A value that at least `percent` of all values do not exceed, at most a sixteenth too high; 0
    /// if there are no values.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let reached = self.classes.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0, |(last, _)| *last)
    }

    /// The values counted since `before`, an earlier snapshot of the same histogram.
    pub fn since(&self, before: &Self) -> Self {
        let mut old = before.classes.iter().peekable();
        let mut classes = Vec::new();
        for (last, count) in &self.classes {
            while old.next_if(|(l, _)| l < last).is_some() {}
            let gone = old.next_if(|(l, _)| l == last).map_or(0, |(_, c)| *c);
            if count.saturating_sub(gone) > 0 {
                classes.push((*last, count - gone));
            }
        }
        Self { count: classes.iter().map(|(_, c)| c).sum(), sum: self.sum.wrapping_sub(before.sum), classes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_values_without_gap_and_are_a_sixteenth_wide() {
        assert_eq!((first_of(0), last_of(CLASSES - 1)), (0, u64::MAX));
        for class in 0..CLASSES {
            let (first, last) = (first_of(class), last_of(class));
            assert_eq!((class_of(first), class_of(last)), (class, class), "{first} to {last}");
            assert!(last - first <= first / 16, "{first} to {last}");
            assert!(class == 0 || last_of(class - 1) + 1 == first);
        }
    }

    #[test]
    fn percentiles_are_right_to_a_sixteenth() {
        let h = Histogram::default();
        (1..=10_000).for_each(|v| h.record(v));
        let spread = h.spread();
        assert_eq!((spread.count, spread.sum, h.count()), (10_000, 50_005_000, 10_000));
        for (percent, exact) in [(50.0, 5000), (99.0, 9900), (99.9, 9990), (100.0, 10_000), (0.0, 1)] {
            let estimate = spread.percentile(percent);
            assert!(estimate >= exact && estimate <= exact + exact / 16, "{percent}: {estimate}");
        }
        assert_eq!(Spread::default().percentile(99.0), 0);
    }

    #[test]
    fn the_difference_is_the_count_in_between() {
        let (h, later) = (Histogram::default(), Histogram::default());
        [1, 5, 500, 500].iter().for_each(|v| h.record(*v));
        let before = h.spread();
        for v in [5, 500, 70_000, 0] {
            h.record(v);
            later.record(v);
        }
        assert_eq!(h.spread().since(&before), later.spread());
        assert_eq!(before.since(&Spread::default()), before);
    }

    #[test]
    fn threads_that_record_at_once_lose_nothing() {
        let h = Histogram::default();
        std::thread::scope(|s| (0..4).for_each(|_| drop(s.spawn(|| (0..10_000).for_each(|v| h.record(v))))));
        let spread = h.spread();
        assert_eq!((spread.count, spread.sum), (40_000, 4 * (0..10_000).sum::<u64>()));
    }
}
