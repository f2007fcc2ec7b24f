//! A column: the value of a statistic in one time span, as a total and cells.
//!
//! ```text
//! total │ sum │ max │ seconds │ number of cells │ key, count, key, count …
//! all varints; keys as differences
//! ```
//!
//! Invariants:
//!   * the counts of all cells add up to the total; what does not fit in a column is in the cell
//!     [`OTHER`]
//!   * columns can be added: merging is exact, in any order, except for what [`Column::keep`] moved
//!     to [`OTHER`]

use std::cmp::Reverse;

/// Key of the cell for values too small to have their own.
pub const OTHER: u32 = u32::MAX;
/// Key of the cell for operations that were counted, but whose details were not recorded.
pub const UNRECORDED: u32 = u32::MAX - 1;

/// A time span, such as a second or an hour.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Column {
    /// The total in operations or bytes; for levels (sizes, percentages) the sum over the seconds.
    pub total: u64,
    /// Sum of the numeric breakdown field (latencies, sizes), so that averages are exact; wraps.
    pub sum: u64,
    /// Maximum of the numeric breakdown field.
    pub max: u64,
    /// Number of seconds in the span that were recorded.
    pub seconds: u32,
    /// Class of a scheme or number of a word, and its count; ascending, without zeros.
    pub cells: Vec<(u32, u64)>,
}

impl Column {
    /// Adds another column of the same statistic.
    pub fn merge(&mut self, other: &Self) {
        self.total += other.total;
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
        self.seconds += other.seconds;
        if other.cells.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(self.cells.len() + other.cells.len());
        let (mut ours, mut theirs) = (self.cells.iter().copied().peekable(), other.cells.iter().copied().peekable());
        loop {
            match (ours.peek().copied(), theirs.peek().copied()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    out.push((a.0, a.1 + b.1));
                    ours.next();
                    theirs.next();
                }
                (Some(a), b) if b.is_none_or(|b| a.0 < b.0) => {
                    out.push(a);
                    ours.next();
                }
                (_, Some(b)) => {
                    out.push(b);
                    theirs.next();
                }
                (Some(a), None) => {
                    out.push(a);
                    ours.next();
                }
                (None, None) => break,
            }
        }
        self.cells = out;
    }

    /// Keeps the `most` largest cells and moves the others to [`OTHER`].
    pub fn keep(&mut self, most: usize) {
        if self.cells.len() <= most {
            return;
        }
        self.cells.sort_unstable_by_key(|(key, n)| (*key >= UNRECORDED, Reverse(*n), *key));
        // OTHER and UNRECORDED sort after all others: they stay, and OTHER grows.
        let special: Vec<_> = self.cells.iter().copied().filter(|(key, _)| *key >= UNRECORDED).collect();
        self.cells.retain(|(key, _)| *key < UNRECORDED);
        let rest: u64 = self.cells.drain(most.min(self.cells.len())..).map(|(_, n)| n).sum();
        self.cells.sort_unstable();
        let count = |wanted: u32| special.iter().filter(|(key, _)| *key == wanted).map(|(_, n)| *n).sum::<u64>();
        for (key, n) in [(UNRECORDED, count(UNRECORDED)), (OTHER, count(OTHER) + rest)] {
            if n > 0 {
                self.cells.push((key, n));
            }
        }
    }

    /// Appends the encoded column.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for value in [self.total, self.sum, self.max, self.seconds.into(), self.cells.len() as u64] {
            put(out, value);
        }
        let mut last = 0;
        for (key, count) in &self.cells {
            put(out, u64::from(key - last));
            put(out, *count);
            last = *key;
        }
    }

    /// Decodes a column from the front of `bytes`; `None` if it is invalid.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || take(bytes);
        let mut out = Self {
            total: next()?,
            sum: next()?,
            max: next()?,
            seconds: u32::try_from(next()?).ok()?,
            cells: Vec::new(),
        };
        let cells = next()?;
        let mut key = 0u32;
        for n in 0..cells {
            let step = u32::try_from(next()?).ok()?;
            if n > 0 && step == 0 {
                return None;
            }
            key = key.checked_add(step)?;
            out.cells.push((key, next()?));
        }
        Some(out)
    }
}

/// Appends a varint: seven bits per byte, least significant first.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes a varint from the front of `bytes`.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (n, byte) in bytes.iter().copied().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * n as u32)?;
        if byte < 0x80 {
            *bytes = bytes.get(n + 1..)?;
            return (n < 9 || byte < 2).then_some(value);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    pub fn columns() -> impl Strategy<Value = Column> {
        let cell = (prop_oneof![0u32..40, Just(OTHER), Just(UNRECORDED)], 1u64..1000);
        (proptest::collection::vec(cell, 0..30), any::<u64>(), any::<u64>(), 0u32..5).prop_map(
            |(cells, sum, max, seconds)| {
                let cells: BTreeMap<u32, u64> = cells.into_iter().collect();
                Column { total: cells.values().sum(), sum, max, seconds, cells: cells.into_iter().collect() }
            },
        )
    }

    proptest! {
        #[test]
        fn written_columns_are_read_back(all in proptest::collection::vec(columns(), 0..5)) {
            let mut bytes = Vec::new();
            all.iter().for_each(|c| c.encode(&mut bytes));
            let mut rest = bytes.as_slice();
            for column in &all {
                prop_assert_eq!(&Column::decode(&mut rest), &Some(column.clone()));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_a_column_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = bytes.as_slice();
            if let Some(column) = Column::decode(&mut rest) {
                prop_assert!(column.cells.is_sorted_by(|a, b| a.0 < b.0));
            }
        }

        #[test]
        fn merging_adds_up_in_any_order(a in columns(), b in columns(), c in columns(), most in 1usize..50) {
            let (mut left, mut right) = (a.clone(), c.clone());
            left.merge(&b);
            left.merge(&c);
            right.merge(&a);
            right.merge(&b);
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(left.cells.iter().map(|(_, n)| n).sum::<u64>(), left.total);
            let mut kept = left.clone();
            kept.keep(most);
            prop_assert!(kept.cells.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert!(kept.cells.len() <= most + 2);
            prop_assert_eq!(kept.cells.iter().map(|(_, n)| n).sum::<u64>(), left.total);
        }
    }
}
