//! The changes that log space maps add to a metaslab's own map: the sum of their entries, in the
//! order of writing.
//!
//! Invariants:
//!   * `allocated` and `freed` have no unit in common: a range that was freed and allocated again
//!     is in neither
//!   * applied to the free units of the metaslab's own map, in any order and any number of times,
//!     it gives the units that are free now: it does no harm if the map already contains it

use crate::space::ranges::Ranges;

/// The sum of a metaslab's entries in logs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Delta {
    pub allocated: Ranges,
    pub freed: Ranges,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.allocated.is_empty() && self.freed.is_empty()
    }

    /// Number of ranges in memory.
    pub fn ranges(&self) -> usize {
        self.allocated.count() + self.freed.count()
    }

    /// Units that it allocates minus units that it frees.
    pub fn units(&self) -> i64 {
        self.allocated.units() as i64 - self.freed.units() as i64
    }

    /// Adds an entry. Returns false if an earlier entry did the same, which is impossible in a
    /// valid log.
    pub fn add(&mut self, start: u32, len: u32, is_alloc: bool) -> bool {
        let (adds, undoes) = match is_alloc {
            true => (&mut self.allocated, &mut self.freed),
            false => (&mut self.freed, &mut self.allocated),
        };
        if undoes.overlap(start, len) == 0 {
            return adds.add(start, len) == 0;
        }
        // Parts on which earlier entries did the opposite cancel out; the rest is added.
        let mut new = Ranges::of(start, len);
        let undone: Vec<_> = undoes.within(start, len).collect();
        for (s, l) in undone {
            undoes.remove(s, l);
            new.remove(s, l);
        }
        new.iter().all(|(s, l)| adds.add(s, l) == 0)
    }

    /// Adds the allocated ranges, then the freed ones.
    pub fn add_all(&mut self, allocated: &Ranges, freed: &Ranges) -> bool {
        let mut right = true;
        for (ranges, is_alloc) in [(allocated, true), (freed, false)] {
            ranges.iter().for_each(|(s, l)| right &= self.add(s, l, is_alloc));
        }
        right
    }

    /// Applies the logs to the free ranges of a map.
    pub fn apply(&self, free: &mut Ranges) {
        free.remove_all(&self.allocated);
        free.add_all(&self.freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_of_entries_does_what_the_entries_do_one_by_one(
            steps in prop::collection::vec((any::<bool>(), 0u32..200, 1u32..40), 1..200), split in 0usize..200
        ) {
            let (mut free, mut delta, mut base) = (Ranges::of(0, 256), Delta::default(), None);
            for (i, (is_alloc, start, len)) in steps.into_iter().enumerate() {
                if i == split {
                    base = Some(free.clone());
                    delta = Delta::default();
                }
                // Only free units can be allocated and only allocated ones freed: one entry for
                // each such part.
                let parts: Vec<_> = match is_alloc {
                    true => free.within(start, len).collect(),
                    false => free.complement(256).within(start, len).collect(),
                };
                for (s, l) in parts {
                    if is_alloc { free.remove(s, l) } else { free.add(s, l) };
                    prop_assert!(delta.add(s, l, is_alloc));
                }
                prop_assert!(delta.allocated.iter().all(|(s, l)| delta.freed.overlap(s, l) == 0));
            }
            let mut now = base.unwrap_or_else(|| Ranges::of(0, 256));
            prop_assert_eq!(now.units() as i64 - delta.units(), free.units() as i64);
            delta.apply(&mut now);
            prop_assert_eq!(&now, &free);
            delta.apply(&mut now);
            prop_assert_eq!(&now, &free, "once more changes nothing");
        }
    }

    #[test]
    fn a_redundant_entry_is_reported() {
        let mut delta = Delta::default();
        assert!(delta.add(0, 10, true) && delta.add(4, 2, false));
        assert!(!delta.add(8, 4, true));
        assert!(Delta::default().add_all(&Ranges::of(0, 4), &Ranges::of(2, 4)));
    }
}
