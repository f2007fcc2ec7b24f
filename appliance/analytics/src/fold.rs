//! Reduces the rows of a heat map: merges classes for a picture that has fewer pixels than the
//! scheme has classes.
//!
//! ```text
//! linear   row = first number of the class · rows / end
//! log      row = ln(first / low) · rows / ln(end / low)
//! ```
//!
//! Invariant: each class is in one row as a whole, so counts stay exact and add up to the same; a
//! row narrower than the classes there is empty.

use crate::column::{Column, UNRECORDED};
use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};

/// The scale of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Rows with equal differences.
    #[default]
    Linear,
    /// Rows with equal ratios.
    Log,
}

/// The assignment of classes to rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The row of each class.
    of: Vec<u32>,
    /// Lower bound and exclusive upper bound of each row; both are equal for a row without classes.
    ranges: Vec<(u64, u64)>,
}

impl Rows {
    /// At least one and at most `count` rows. Classes from `top` on are merged into the last one;
    /// without `top`, the rows extend to the largest class in `used` (the smallest and the largest
    /// that occur).
    pub fn new(scheme: Scheme, count: u32, scale: Scale, top: Option<u64>, used: (u32, u32)) -> Self {
        let classes: Vec<(u64, u64)> = (0..scheme.classes()).map(|class| scheme.range(class)).collect();
        let range = |class: u32| classes.get(class as usize).copied().unwrap_or((0, u64::MAX));
        let end = match (top, range(used.1)) {
            (Some(top), _) => top,
            // The last class has no upper bound: it is a row of its own.
            (None, (first, u64::MAX)) => first,
            (None, (_, end)) => end,
        };
        let end = end.max(1);
        let is_above = |class: &(u64, u64)| class.0 >= end;
        let has_last = top.is_some() || classes.get(used.1 as usize).is_some_and(is_above);
        let rows = count.max(1).saturating_sub(has_last.into());
        let low = range(used.0.max(1)).0.clamp(1, end) as f64;
        let row = |first: u64| match scale {
            Scale::Linear => u32::try_from(u128::from(first) * u128::from(rows) / u128::from(end)).unwrap_or(u32::MAX),
            Scale::Log if first as f64 <= low => 0,
            Scale::Log => ((first as f64 / low).ln() / (end as f64 / low).ln() * f64::from(rows)) as u32,
        };
        let of: Vec<u32> = classes
            .iter()
            .map(|class| if is_above(class) || rows == 0 { rows } else { row(class.0).min(rows - 1) })
            .collect();
        let mut ranges = vec![(0, 0); rows as usize + 1];
        for ((first, end), row) in classes.iter().zip(&of) {
            if let Some(range) = ranges.get_mut(*row as usize) {
                *range = if range.1 == 0 { (*first, *end) } else { (range.0, *end) };
            }
        }
        Self { of, ranges }
    }

    /// Merges the classes of a column.
    pub fn fold(&self, column: &mut Column) {
        let mut cells: Vec<(u32, u64)> = Vec::new();
        for (class, n) in std::mem::take(&mut column.cells) {
            // Keys that are not classes are preserved.
            let key = if class >= UNRECORDED { class } else { self.of.get(class as usize).copied().unwrap_or(class) };
            match cells.last_mut().filter(|(last, _)| *last == key) {
                Some((_, sum)) => *sum += n,
                None => cells.push((key, n)),
            }
        }
        column.cells = cells;
    }

    /// Lower bound and exclusive upper bound of a row.
    pub fn range(&self, row: u32) -> (u64, u64) {
        self.ranges.get(row as usize).copied().unwrap_or((0, u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Scheme; 4] = [Scheme::Latency, Scheme::Size, Scheme::Offset, Scheme::Percent];

    proptest! {
        #[test]
        fn counts_stay_and_each_is_in_the_row_that_holds_it(
            scheme in proptest::sample::select(ALL.to_vec()),
            values in proptest::collection::vec((any::<u64>(), 0u32..64, 1u64..1000), 1..60),
            count in 1u32..500,
            log in any::<bool>(),
            top in proptest::option::of((any::<u64>(), 0u32..64)),
        ) {
            let values: Vec<(u64, u64)> = values.into_iter().map(|(v, shift, n)| (v >> shift, n)).collect();
            let top = top.map(|(v, shift)| v >> shift);
            let mut cells = std::collections::BTreeMap::new();
            values.iter().for_each(|(v, n)| *cells.entry(scheme.class(*v)).or_default() += n);
            let used = (*cells.keys().next().expect("one"), *cells.keys().last().expect("one"));
            let scale = if log { Scale::Log } else { Scale::Linear };
            let rows = Rows::new(scheme, count, scale, top, used);
            let total: u64 = cells.values().sum();
            cells.insert(UNRECORDED, 5);
            let mut column = Column { total: total + 5, cells: cells.into_iter().collect(), ..Column::default() };
            rows.fold(&mut column);
            prop_assert_eq!(column.cells.pop(), Some((UNRECORDED, 5)));
            prop_assert!(column.cells.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert!(column.cells.len() <= count as usize && column.cells.iter().all(|(row, _)| *row < count));
            prop_assert_eq!(column.cells.iter().map(|(_, n)| n).sum::<u64>(), total);
            let within = |row: u32, v: u64| { let (from, to) = rows.range(row); from <= v && (v < to || to == u64::MAX) };
            for (row, n) in &column.cells {
                prop_assert_eq!(values.iter().filter(|(v, _)| within(*row, *v)).map(|(_, n)| n).sum::<u64>(), *n);
            }
            if let (Some(top), true) = (top, count > 1) {
                // Values above `top` are separate from those below.
                let class = scheme.range(scheme.class(top));
                let edge = if class.0 >= top { class.0 } else { class.1 };
                prop_assert!(column.cells.iter().all(|(row, _)| rows.range(*row).0 >= edge || rows.range(*row).1 <= edge));
            }
        }
    }

    #[test]
    fn a_linear_map_of_latencies_has_even_rows_and_one_for_the_rest() {
        let rows = Rows::new(Scheme::Latency, 11, Scale::Linear, Some(1_000_000), (5, 600));
        assert_eq!(
            (rows.range(0), rows.range(9), rows.range(10)),
            ((0, 100_000), (900_000, 1_000_000), (1_000_000, u64::MAX))
        );
        let rows = Rows::new(Scheme::Latency, 3, Scale::Log, None, (1, Scheme::Latency.class(999_999)));
        assert_eq!(
            (rows.range(0), rows.range(1), rows.range(2)),
            ((0, 10_000), (10_000, 100_000), (100_000, 1_000_000))
        );
    }
}
