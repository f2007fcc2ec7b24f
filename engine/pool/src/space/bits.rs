//! A set of allocation units of one device: one bit each, in chunks that exist only where a bit is
//! set.
//!
//! 64 Ki units a chunk: 8 KiB of memory for 256 MiB of a device with 4 KiB sectors, so 1 TiB in
//! full takes 32 MiB.
//!
//! Invariants:
//!   * a chunk that does not exist is all zeros

use std::collections::BTreeMap;

/// Units in a chunk.
const CHUNK_UNITS: u64 = 1 << 16;
const WORDS: usize = (CHUNK_UNITS / 64) as usize;

/// A set of units.
#[derive(Default, Clone)]
pub struct Bits {
    /// Chunks by number. A map, because a hostile configuration may claim a device of any size.
    chunks: BTreeMap<u64, Box<[u64; WORDS]>>,
    units: u64,
}

/// A run of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub start: u64,
    /// Number of units.
    pub len: u64,
}

impl Bits {
    /// An empty set over `units` units.
    pub fn new(units: u64) -> Self {
        Self { chunks: BTreeMap::new(), units }
    }

    /// Number of units that the set covers.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Sets or clears a run. Returns how many of its units already had that value. Units beyond the
    /// end are ignored.
    pub fn set(&mut self, run: Run, value: bool) -> u64 {
        let mut already = 0;
        self.for_words(run, |word, mask| {
            already += u64::from((if value { *word & mask } else { !*word & mask }).count_ones());
            if value {
                *word |= mask;
            } else {
                *word &= !mask;
            }
        });
        already
    }

    /// Whether a unit is set.
    pub fn contains(&self, unit: u64) -> bool {
        let within = unit % CHUNK_UNITS;
        self.chunk(unit / CHUNK_UNITS).is_some_and(|c| c[(within / 64) as usize] >> (within % 64) & 1 != 0)
    }

    fn for_words(&mut self, run: Run, mut f: impl FnMut(&mut u64, u64)) {
        let end = run.start.saturating_add(run.len).min(self.units);
        let mut at = run.start;
        while at < end {
            let words = self.chunks.entry(at / CHUNK_UNITS).or_insert_with(|| Box::new([0; WORDS]));
            let within = at % CHUNK_UNITS;
            let (word, bit) = ((within / 64) as usize, within % 64);
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            f(&mut words[word], mask);
            at += n;
        }
    }

    fn chunk(&self, i: u64) -> Option<&[u64; WORDS]> {
        self.chunks.get(&i).map(|c| &**c)
    }

    /// Number of units that are set.
    pub fn count(&self) -> u64 {
        self.chunks.values().flat_map(|c| c.iter()).map(|w| u64::from(w.count_ones())).sum()
    }

    /// The runs that are in `self` and not in `other`.
    pub fn minus<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Run> + 'a {
        let words = self.chunks.iter().flat_map(move |(c, mine)| {
            let theirs = other.chunk(*c);
            (0..WORDS).filter_map(move |w| {
                let word = mine[w] & !theirs.map_or(0, |t| t[w]);
                (word != 0).then_some((c * CHUNK_UNITS + w as u64 * 64, word))
            })
        });
        join(words.flat_map(|(base, word)| runs_of(base, word)))
    }

    /// The runs that are set.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        static EMPTY: Bits = Bits { chunks: BTreeMap::new(), units: 0 };
        self.minus(&EMPTY)
    }
}

fn runs_of(base: u64, mut word: u64) -> impl Iterator<Item = Run> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let zeros = word.trailing_zeros();
        let ones = (word >> zeros).trailing_ones();
        let run = Run { start: base + u64::from(at + zeros), len: u64::from(ones) };
        let used = zeros + ones;
        word = if used == 64 { 0 } else { word >> used };
        at += used;
        Some(run)
    })
}

fn join(runs: impl Iterator<Item = Run>) -> impl Iterator<Item = Run> {
    let mut runs = runs.peekable();
    std::iter::from_fn(move || {
        let mut run = runs.next()?;
        while let Some(next) = runs.next_if(|n| n.start == run.start + run.len) {
            run.len += next.len;
        }
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_set_bit_is_detected() {
        let mut b = Bits::new(1 << 20);
        assert_eq!(b.set(Run { start: 60, len: 70_000 }, true), 0);
        assert_eq!(b.set(Run { start: 70_000, len: 100 }, true), 60);
        assert_eq!(b.count(), 70_040);
        assert_eq!(b.set(Run { start: 0, len: 61 }, false), 60);
        assert_eq!(b.runs().collect::<Vec<_>>(), [Run { start: 61, len: 70_039 }]);
    }

    #[test]
    fn a_difference_comes_as_whole_runs() {
        let (mut a, mut b) = (Bits::new(1 << 18), Bits::new(1 << 18));
        a.set(Run { start: 0, len: 200_000 }, true);
        b.set(Run { start: 100, len: 1 }, true);
        b.set(Run { start: 65_530, len: 10 }, true);
        let diff: Vec<Run> = a.minus(&b).collect();
        assert_eq!(
            diff,
            [Run { start: 0, len: 100 }, Run { start: 101, len: 65_429 }, Run { start: 65_540, len: 134_460 }]
        );
        assert_eq!(b.minus(&a).count(), 0);
    }

    #[test]
    fn memory_grows_with_used_space_and_not_with_the_claimed_size() {
        let mut b = Bits::new(u64::MAX);
        b.set(Run { start: 1 << 60, len: 5 }, true);
        assert_eq!(b.runs().collect::<Vec<_>>(), [Run { start: 1 << 60, len: 5 }]);
    }

    #[test]
    fn units_beyond_the_end_are_left_out() {
        let mut b = Bits::new(100);
        b.set(Run { start: 90, len: u64::MAX }, true);
        b.set(Run { start: 1 << 60, len: 5 }, true);
        assert_eq!(b.count(), 10);
    }
}
