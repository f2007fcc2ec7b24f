//! Alert thresholds: a statistic has been above or below a limit for some time.
//!
//! A state machine without clock, files or network: seconds go in, state changes come out.
//!
//! ```text
//!             true for `for_seconds` in a row
//!   quiet ────────────────────────────────────> firing
//!         <────────────────────────────────────
//!             false for `clear_seconds` in a row
//! ```
//!
//! Invariants:
//!   * a second that was not recorded changes nothing and resets the count: unknown data neither
//!     fires nor clears
//!   * a percentile or average of no operations is neither above nor below: it counts as false

use crate::catalogue::Shown;
use crate::column::{Column, UNRECORDED};
use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};

/// The value of a second that is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Reduction {
    /// The total: per second, or the current level.
    Total,
    /// The average of the breakdown field: a latency or size.
    Average,
    /// The value below which at most this percentage of the operations lie, rounded down to the
    /// lower bound of its bucket.
    Percentile(f64),
    /// The largest value of a breakdown by names, 0 if there is none.
    Largest,
}

impl Reduction {
    /// The value of a second; `None` if there was nothing to reduce.
    pub fn of(self, column: &Column, shown: Shown, scheme: Option<Scheme>) -> Option<f64> {
        let seconds = if shown == Shown::Level { f64::from(column.seconds.max(1)) } else { 1.0 };
        match (self, scheme) {
            (Self::Total, _) => Some(column.total as f64 / seconds),
            (Self::Largest, None) => {
                let known = column.cells.iter().filter(|(key, _)| *key < UNRECORDED);
                Some(known.map(|(_, n)| *n).max().unwrap_or(0) as f64 / seconds)
            }
            (Self::Average, Some(_)) if column.total > 0 => Some(column.sum as f64 / column.total as f64),
            (Self::Percentile(percent), Some(scheme)) => {
                let known = || column.cells.iter().filter(|(key, _)| *key < UNRECORDED);
                let all: u64 = known().map(|(_, n)| n).sum();
                let rank = ((percent / 100.0 * all as f64).ceil() as u64).clamp(1, all.max(1));
                let mut seen = 0;
                let reached = known().find(|(_, n)| {
                    seen += n;
                    seen >= rank
                });
                reached.map(|(class, _)| scheme.range(*class).0 as f64)
            }
            _ => None,
        }
    }
}

/// A condition on a statistic that fires and clears.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    pub reduction: Reduction,
    /// Whether it fires above the limit rather than below.
    pub above: bool,
    /// The limit. A value equal to it does not fire.
    pub limit: f64,
    /// Seconds in a row that must exceed the limit to fire.
    pub for_seconds: u32,
    /// Seconds in a row that must not exceed the limit to clear.
    pub clear_seconds: u32,
}

/// A change of a threshold's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Fired,
    Cleared,
}

/// The state of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Watch {
    /// Second since which it is firing.
    pub firing: Option<u64>,
    /// The value of the newest second that had one.
    pub last: Option<f64>,
    /// The most extreme value since the limit was first exceeded.
    pub worst: Option<f64>,
    #[serde(skip)]
    streak: u32,
}

impl Watch {
    /// Records a second that has no data.
    pub fn skip(&mut self) {
        self.streak = 0;
    }

    /// Records a second and its value, if it has one. Returns a change of state.
    pub fn see(&mut self, second: u64, value: Option<f64>, threshold: &Threshold) -> Option<Change> {
        self.last = value.or(self.last);
        let beyond = value.is_some_and(|v| if threshold.above { v > threshold.limit } else { v < threshold.limit });
        if beyond {
            let worse = |worst: f64, v: f64| if threshold.above { worst.max(v) } else { worst.min(v) };
            self.worst = value.map(|v| self.worst.map_or(v, |worst| worse(worst, v)));
        } else if self.firing.is_none() {
            self.worst = None;
        }
        self.streak = if beyond == self.firing.is_none() { self.streak.saturating_add(1) } else { 0 };
        let needed = if beyond { threshold.for_seconds } else { threshold.clear_seconds };
        if self.streak == 0 || self.streak < needed {
            return None;
        }
        self.streak = 0;
        if beyond {
            self.firing = Some(second);
            Some(Change::Fired)
        } else {
            (self.firing, self.worst) = (None, None);
            Some(Change::Cleared)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOW: Threshold =
        Threshold { reduction: Reduction::Total, above: true, limit: 10.0, for_seconds: 3, clear_seconds: 2 };

    fn run(threshold: &Threshold, values: &[Option<f64>]) -> Vec<(u64, Change)> {
        let mut watch = Watch::default();
        (0..).zip(values).filter_map(|(second, v)| Some((second, watch.see(second, *v, threshold)?))).collect()
    }

    #[test]
    fn it_fires_after_its_time_and_clears_after_its_time() {
        let values = [11.0, 12.0, 9.0, 11.0, 11.0, 99.0, 11.0, 9.0, 11.0, 9.0, 9.0, 9.0].map(Some);
        assert_eq!(run(&SLOW, &values), [(5, Change::Fired), (10, Change::Cleared)]);
        let low = Threshold { above: false, ..SLOW };
        assert_eq!(run(&low, &[Some(10.0), Some(1.0), Some(2.0), Some(3.0)]), [(3, Change::Fired)]);
    }

    #[test]
    fn unknown_values_neither_fire_nor_clear() {
        let mut watch = Watch::default();
        for second in 0..2 {
            assert_eq!(watch.see(second, Some(11.0), &SLOW), None);
        }
        watch.skip();
        assert_eq!(watch.see(3, Some(11.0), &SLOW), None);
        assert_eq!(watch.see(4, Some(11.0), &SLOW), None);
        assert_eq!(watch.see(5, Some(11.0), &SLOW), Some(Change::Fired));
        assert_eq!((watch.firing, watch.worst), (Some(5), Some(11.0)));
        assert_eq!(watch.see(6, None, &SLOW), None);
        watch.skip();
        assert_eq!(watch.see(8, None, &SLOW), None);
        assert_eq!(watch.see(9, Some(1.0), &SLOW), Some(Change::Cleared));
    }

    #[test]
    fn a_percentile_is_the_beginning_of_its_row() {
        let cells = vec![(Scheme::Latency.class(104_000), 98), (Scheme::Latency.class(7_300_000), 2)];
        let column = Column { total: 100, sum: 100 * 200_000, max: 7_300_000, seconds: 1, cells };
        let value = |reduction: Reduction| reduction.of(&column, Shown::Rate, Some(Scheme::Latency));
        assert_eq!(value(Reduction::Percentile(50.0)), Some(100_000.0));
        assert_eq!(value(Reduction::Percentile(98.0)), Some(100_000.0));
        assert_eq!(value(Reduction::Percentile(99.0)), Some(7_300_000.0));
        assert_eq!(value(Reduction::Average), Some(200_000.0));
        assert_eq!(value(Reduction::Total), Some(100.0));
        let nothing = Column { seconds: 1, ..Column::default() };
        assert_eq!(Reduction::Percentile(99.0).of(&nothing, Shown::Rate, Some(Scheme::Latency)), None);
        assert_eq!(Reduction::Average.of(&nothing, Shown::Rate, Some(Scheme::Latency)), None);
    }

    #[test]
    fn the_largest_is_that_of_one_value_and_not_their_sum() {
        let column = |cells: Vec<(u32, u64)>| Column { total: 150, seconds: 1, cells, ..Column::default() };
        let value = |cells| Reduction::Largest.of(&column(cells), Shown::Level, None);
        assert_eq!((value(vec![(1, 60), (7, 80), (UNRECORDED, 90)]), value(Vec::new())), (Some(80.0), Some(0.0)));
        assert_eq!(Reduction::Largest.of(&column(vec![(1, 60)]), Shown::Rate, Some(Scheme::Latency)), None);
    }

    proptest! {
        #[test]
        fn firing_and_clearing_take_turns_and_never_come_early(
            values in proptest::collection::vec(proptest::option::of(0f64..20.0), 0..200),
            for_seconds in 1u32..6,
            clear_seconds in 1u32..6,
        ) {
            let threshold = Threshold { for_seconds, clear_seconds, ..SLOW };
            let changes = run(&threshold, &values);
            for (n, (second, change)) in changes.iter().enumerate() {
                prop_assert_eq!(*change, if n % 2 == 0 { Change::Fired } else { Change::Cleared });
                let needed = if n % 2 == 0 { for_seconds } else { clear_seconds };
                let end = *second as usize + 1;
                let before = &values[end - needed as usize..end];
                prop_assert!(before.iter().all(|v| v.is_some_and(|v| v > 10.0) == (n % 2 == 0)));
            }
        }
    }
}
