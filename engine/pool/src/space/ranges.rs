//! Sets of ranges of allocation units within one metaslab, and the set of free ranges, which is
//! also indexed by size.
//!
//! Units count from the metaslab's start and fit 32 bits. A range costs about 16 bytes of memory,
//! in [`FreeSpace`] 32.
//!
//! Invariants:
//!   * ranges of a set neither overlap nor touch
//!   * `by_size` and the histogram contain exactly the ranges of the set

use ondisk::spacemap::HISTOGRAM_BUCKETS;
use std::collections::{BTreeMap, BTreeSet};

/// Limit for the units of a metaslab: the sum of a start and a length then fits 32 bits.
pub const UNITS_MAX: u64 = 1 << 31;
/// Ranges that are scanned from the cursor on before the index by size is used. Guessed: a scan of
/// 64 costs about as much as the two changes to the maps that follow an allocation.
const SCAN_MAX: usize = 64;

/// Is notified of each range that is added or removed.
trait Watch {
    fn added(&mut self, start: u32, len: u32);
    fn gone(&mut self, start: u32, len: u32);
}

impl Watch for () {
    fn added(&mut self, _: u32, _: u32) {}
    fn gone(&mut self, _: u32, _: u32) {}
}

/// A set of units, stored as ranges.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ranges {
    runs: BTreeMap<u32, u32>,
    units: u64,
}

impl Ranges {
    /// The set of one range.
    pub fn of(start: u32, len: u32) -> Self {
        let mut set = Self::default();
        set.add(start, len);
        set
    }

    /// Number of units in the set.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Number of ranges in the set.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The ranges, as start and length, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs.iter().map(|(s, l)| (*s, *l))
    }

    /// Adds a range. Returns how many of its units were already in the set.
    pub fn add(&mut self, start: u32, len: u32) -> u64 {
        self.add_watched(start, len, &mut ())
    }

    /// Removes a range. Returns how many of its units were in the set.
    pub fn remove(&mut self, start: u32, len: u32) -> u64 {
        self.remove_watched(start, len, &mut ())
    }

    /// The first range that ends after `from`, without its part before `from`.
    pub fn next_from(&self, from: u32) -> Option<(u32, u32)> {
        let before = self.runs.range(..from).next_back().map(|(s, l)| (from, (s + l).saturating_sub(from)));
        before.filter(|(_, len)| *len > 0).or_else(|| self.runs.range(from..).next().map(|(s, l)| (*s, *l)))
    }

    /// Adds all ranges of another set.
    pub fn add_all(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.add(start, len);
        }
    }

    /// Number of units of a range that are in the set.
    pub fn overlap(&self, start: u32, len: u32) -> u64 {
        self.within(start, len).map(|(_, l)| u64::from(l)).sum()
    }

    /// Removes all ranges of another set.
    pub fn remove_all(&mut self, other: &Self) {
        for (start, len) in other.iter() {
            self.remove(start, len);
        }
    }

    /// The parts of a range that are in the set.
    pub fn within(&self, start: u32, len: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let end = start + len;
        let before = self.runs.range(..start).next_back().filter(move |(s, l)| **s + **l > start);
        before.into_iter().chain(self.runs.range(start..end)).map(move |(s, l)| {
            let from = (*s).max(start);
            (from, (s + l).min(end) - from)
        })
    }

    /// The units between 0 and `end` that are not in the set.
    pub fn complement(&self, end: u32) -> Self {
        let mut out = Self::default();
        let mut at = 0;
        for (start, len) in self.iter() {
            if start > at {
                out.add(at, start - at);
            }
            at = start + len;
        }
        if at < end {
            out.add(at, end - at);
        }
        out
    }

    /// Adds the ranges to a histogram; bucket `i` counts ranges of 2^i to 2^(i+1) - 1 units.
    pub fn add_to_histogram(&self, histogram: &mut [u64; HISTOGRAM_BUCKETS]) {
        for (_, len) in self.iter() {
            histogram[bucket(len)] += 1;
        }
    }

    fn add_watched(&mut self, start: u32, len: u32, watch: &mut impl Watch) -> u64 {
        if len == 0 {
            return 0;
        }
        let (mut from, mut to) = (start, start + len);
        let mut swallowed = 0;
        // Merge with the range that touches or overlaps on the left, then with those on the right.
        if let Some((&s, &l)) = self.runs.range(..start).next_back()
            && s + l >= start
        {
            from = s;
            to = to.max(s + l);
            self.runs.remove(&s);
            watch.gone(s, l);
            swallowed += u64::from(l);
        }
        while let Some((&s, &l)) = self.runs.range(start..=to).next() {
            to = to.max(s + l);
            self.runs.remove(&s);
            watch.gone(s, l);
            swallowed += u64::from(l);
        }
        self.runs.insert(from, to - from);
        watch.added(from, to - from);
        let already = swallowed + u64::from(len) - u64::from(to - from);
        self.units += u64::from(len) - already;
        already
    }

    fn remove_watched(&mut self, start: u32, len: u32, watch: &mut impl Watch) -> u64 {
        let end = start + len;
        let mut removed = 0;
        if len == 0 {
            return 0;
        }
        if let Some((&s, &l)) = self.runs.range(..start).next_back()
            && s + l > start
        {
            watch.gone(s, l);
            self.runs.insert(s, start - s);
            watch.added(s, start - s);
            removed += u64::from((s + l).min(end) - start);
            if s + l > end {
                self.runs.insert(end, s + l - end);
                watch.added(end, s + l - end);
            }
        }
        while let Some((&s, &l)) = self.runs.range(start..end).next() {
            self.runs.remove(&s);
            watch.gone(s, l);
            removed += u64::from((s + l).min(end) - s);
            if s + l > end {
                self.runs.insert(end, s + l - end);
                watch.added(end, s + l - end);
            }
        }
        self.units -= removed;
        removed
    }
}

fn bucket(len: u32) -> usize {
    (31 - len.max(1).leading_zeros()) as usize
}

/// The allocatable ranges of a loaded metaslab.
#[derive(Debug, Default, Clone)]
pub struct FreeSpace {
    ranges: Ranges,
    index: Index,
}

#[derive(Debug, Default, Clone)]
struct Index {
    by_size: BTreeSet<(u32, u32)>,
    histogram: [u64; HISTOGRAM_BUCKETS],
}

impl Watch for Index {
    fn added(&mut self, start: u32, len: u32) {
        self.by_size.insert((len, start));
        self.histogram[bucket(len)] += 1;
    }

    fn gone(&mut self, start: u32, len: u32) {
        self.by_size.remove(&(len, start));
        self.histogram[bucket(len)] -= 1;
    }
}

impl From<Ranges> for FreeSpace {
    fn from(ranges: Ranges) -> Self {
        let mut index = Index::default();
        ranges.iter().for_each(|(s, l)| index.added(s, l));
        Self { ranges, index }
    }
}

impl FreeSpace {
    /// The ranges as a set.
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Free segments by size.
    pub fn histogram(&self) -> &[u64; HISTOGRAM_BUCKETS] {
        &self.index.histogram
    }

    /// Units of the largest range.
    pub fn largest(&self) -> u32 {
        self.index.by_size.last().map_or(0, |(len, _)| *len)
    }

    /// Frees a range. Returns how many of its units were already free.
    pub fn add(&mut self, start: u32, len: u32) -> u64 {
        self.ranges.add_watched(start, len, &mut self.index)
    }

    /// Allocates a range. Returns how many of its units were free.
    pub fn remove(&mut self, start: u32, len: u32) -> u64 {
        self.ranges.remove_watched(start, len, &mut self.index)
    }

    /// Start of `need` free units: at or near `cursor` if possible, else at the start of the
    /// largest range. If `tight`, in the smallest range that is large enough.
    pub fn find(&self, need: u32, cursor: u32, tight: bool) -> Option<u32> {
        if self.largest() < need {
            return None;
        }
        if !tight {
            if let Some((&s, &l)) = self.ranges.runs.range(..=cursor).next_back()
                && s + l >= cursor.max(s) + need
            {
                return Some(cursor);
            }
            let near = self.ranges.runs.range(cursor..).take(SCAN_MAX).find(|(_, l)| **l >= need);
            if let Some((s, _)) = near {
                return Some(*s);
            }
            return self.index.by_size.last().map(|(_, s)| *s);
        }
        self.index.by_size.range((need, 0)..).next().map(|(_, s)| *s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(set: &Ranges, model: &[bool]) {
        let mut runs = Vec::new();
        for (i, on) in model.iter().enumerate() {
            match runs.last_mut() {
                Some((s, l)) if *on && *s + *l == i as u32 => *l += 1,
                _ if *on => runs.push((i as u32, 1)),
                _ => {}
            }
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), runs);
        assert_eq!(set.units(), model.iter().filter(|on| **on).count() as u64);
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_does_what_a_row_of_flags_does(
            steps in prop::collection::vec((any::<bool>(), 0u32..200, 1u32..40), 1..200)
        ) {
            let mut model = vec![false; 256];
            let mut free = FreeSpace::default();
            for (add, start, len) in steps {
                let span = &mut model[start as usize..(start + len) as usize];
                let on = span.iter().filter(|b| **b).count() as u64;
                prop_assert_eq!(free.ranges().overlap(start, len), on);
                prop_assert_eq!(if add { free.add(start, len) } else { free.remove(start, len) }, on);
                span.fill(add);
                check(free.ranges(), &model);
                let mut sizes: Vec<_> = free.ranges().iter().map(|(s, l)| (l, s)).collect();
                sizes.sort_unstable();
                prop_assert_eq!(free.index.by_size.iter().copied().collect::<Vec<_>>(), sizes);
                let mut histogram = [0; HISTOGRAM_BUCKETS];
                free.ranges().add_to_histogram(&mut histogram);
                prop_assert_eq!(free.histogram(), &histogram);
                let back = free.ranges().complement(256).complement(256);
                prop_assert_eq!(&back, free.ranges());
            }
        }

        #[test]
        fn what_is_found_is_free(
            taken in prop::collection::vec((0u32..1000, 1u32..20), 0..80), need in 1u32..50, cursor in 0u32..1024,
            tight in any::<bool>()
        ) {
            let mut free = FreeSpace::from(Ranges::of(0, 1024));
            for (s, l) in taken {
                free.remove(s, l);
            }
            match free.find(need, cursor, tight) {
                Some(at) => prop_assert_eq!(free.ranges().overlap(at, need), u64::from(need)),
                None => prop_assert!(free.ranges().iter().all(|(_, l)| l < need)),
            }
        }
    }

    #[test]
    fn ranges_are_met_in_order_from_any_place() {
        let mut set = Ranges::of(10, 10);
        set.add(40, 5);
        let from = |at| set.next_from(at);
        assert_eq!(
            (from(0), from(10), from(15), from(19)),
            (Some((10, 10)), Some((10, 10)), Some((15, 5)), Some((19, 1)))
        );
        assert_eq!((from(20), from(44), from(45)), (Some((40, 5)), Some((44, 1)), None));
    }

    #[test]
    fn allocations_follow_the_cursor_until_space_is_tight() {
        let mut free = FreeSpace::from(Ranges::of(0, 1000));
        free.remove(10, 80);
        assert_eq!(free.find(5, 100, false), Some(100));
        assert_eq!(free.find(20, 5, false), Some(90));
        assert_eq!(free.find(5, 100, true), Some(0), "the smallest range that holds it");
    }
}
