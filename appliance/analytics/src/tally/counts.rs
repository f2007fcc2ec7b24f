//! Counts by key: small numbers (types of operation, clients, users, shares) in an array, others in
//! a hash map.
//!
//! Counting must take only a few nanoseconds: it runs for every operation and every breakdown.

use rustc_hash::FxHashMap;

/// The value of a field: two numbers, of which most fields need one.
pub type Key = (u32, u64);

/// Numbers below this are counted in the array.
const SMALL: u64 = 4096;

/// Counts by key; see the module.
#[derive(Default)]
pub struct Counts {
    /// Counts of keys whose first number is zero.
    small: Vec<u64>,
    /// Indices of `small` that are not zero.
    used: Vec<u32>,
    others: FxHashMap<Key, u64>,
    /// The most recent key of `others` and its additional count: the next key is often the same.
    last: (Key, u64),
}

impl Counts {
    /// Adds to the count of a key.
    pub fn add(&mut self, key: Key, count: u64) {
        if key.0 == 0 && key.1 < SMALL {
            let at = key.1 as usize;
            if at >= self.small.len() {
                self.small.resize((at + 1).next_power_of_two(), 0);
            }
            let cell = &mut self.small[at];
            if *cell == 0 {
                self.used.push(at as u32);
            }
            *cell += count;
        } else if key == self.last.0 {
            self.last.1 += count;
        } else {
            let (old, so_far) = std::mem::replace(&mut self.last, (key, count));
            if so_far > 0 {
                *self.others.entry(old).or_default() += so_far;
            }
        }
    }

    /// Returns all counts, unsorted, and resets them.
    pub fn take(&mut self) -> Vec<(Key, u64)> {
        let (old, so_far) = std::mem::take(&mut self.last);
        if so_far > 0 {
            *self.others.entry(old).or_default() += so_far;
        }
        let mut all: Vec<(Key, u64)> = self.others.drain().collect();
        for at in self.used.drain(..) {
            if let Some(cell) = self.small.get_mut(at as usize) {
                all.push(((0, at.into()), std::mem::take(cell)));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn every_count_is_taken_once(all in proptest::collection::vec((0u32..3, prop_oneof![0u64..6, 4090u64..4100, Just(u64::MAX)], 1u64..9), 0..200)) {
            let (mut counts, mut expected) = (Counts::default(), BTreeMap::new());
            for round in 0..2 {
                for (a, b, n) in all.iter().skip(round) {
                    counts.add((*a, *b), *n);
                    *expected.entry((*a, *b)).or_insert(0) += n;
                }
                let mut taken = counts.take();
                taken.sort_unstable();
                prop_assert_eq!(taken, std::mem::take(&mut expected).into_iter().collect::<Vec<_>>());
            }
        }
    }
}
