//! Sets of block numbers, kept as ranges.
//!
//! Invariant: ranges are not empty, do not touch, and are in order.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of block numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    /// End of each range, by its start.
    map: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds all numbers of `range`.
    pub fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((s, e)) = self.map.range(..=start).next_back().map(|(s, e)| (*s, *e))
            && e >= start
        {
            start = s;
            end = end.max(e);
        }
        while let Some((s, e)) = self.map.range(start..).next().map(|(s, e)| (*s, *e)) {
            if s > end {
                break;
            }
            end = end.max(e);
            self.map.remove(&s);
        }
        self.map.insert(start, end);
    }

    pub fn contains(&self, number: u64) -> bool {
        self.map.range(..=number).next_back().is_some_and(|(_, end)| *end > number)
    }

    /// Iterates over the ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.map.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut r = Ranges::default();
        r.add(5..7);
        r.add(10..12);
        r.add(7..10);
        assert!(r.iter().eq(std::iter::once(5..12)));
        r.add(0..1);
        r.add(3..100);
        assert_eq!(r.iter().collect::<Vec<_>>(), [0..1, 3..100]);
        assert!(r.contains(0) && !r.contains(1) && !r.contains(2) && r.contains(99) && !r.contains(100));
        r.add(50..u64::MAX);
        assert_eq!(r.iter().collect::<Vec<_>>(), [0..1, 3..u64::MAX]);
        r.add(4..4);
        assert_eq!(r.iter().count(), 2);
    }
}
