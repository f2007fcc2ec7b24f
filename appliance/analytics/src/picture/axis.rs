//! The vertical axis of a heat map: its range, and the rows formed by the buckets of the scheme.

use super::end_of;
use crate::scheme::Scheme;
use std::collections::BTreeMap;

/// The scale of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// The share of the largest values to ignore when choosing the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
pub enum Outliers {
    /// No values are ignored.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Up to 5 % of the events.
    #[serde(rename = "5")]
    Five,
    /// Up to 1 %.
    #[serde(rename = "1")]
    One,
    /// Up to 0.1 %.
    #[serde(rename = "0.1")]
    Tenth,
    /// Up to 0.01 %.
    #[serde(rename = "0.01")]
    Hundredth,
}

impl Outliers {
    /// The share as a number of 10,000 events.
    fn of_ten_thousand(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Five => 500.0,
            Self::One => 100.0,
            Self::Tenth => 10.0,
            Self::Hundredth => 1.0,
        }
    }
}

/// The vertical axis of a heat map, and how it divides into slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    pub scheme: Scheme,
    pub scale: Scale,
    /// Value at the bottom.
    pub low: u64,
    /// Value at the top.
    pub high: u64,
    /// Number of slots, the finest resolution.
    pub rows: u32,
}

/// Natural logarithm of a number of at least 1, with the same result in all languages.
pub(super) fn ln(x: f64) -> f64 {
    let (mut e, mut m) = (0.0, x);
    while m >= 2.0 {
        m /= 2.0;
        e += 1.0;
    }
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut t = 0.0;
    for k in (1..=41).rev().step_by(2) {
        t = t * z + 1.0 / f64::from(k);
    }
    e * std::f64::consts::LN_2 + 2.0 * s * t
}

impl Axis {
    /// An axis for `counts` (events of each class): `low` and `high` as given, or chosen
    /// automatically.
    pub fn choose(
        scheme: Scheme,
        scale: Scale,
        counts: &BTreeMap<u32, u64>,
        outliers: Outliers,
        (low, high): (Option<u64>, Option<u64>),
        rows: u32,
    ) -> Self {
        let events: u64 = counts.values().sum();
        let lowest = || match counts.first_key_value() {
            Some((class, _)) if scale == Scale::Log => match scheme.range(*class) {
                (0, end) => end / 10,
                (first, _) => first,
            },
            _ => 0,
        };
        let mut low = low.unwrap_or_else(lowest);
        if scale == Scale::Log {
            low = low.max(1);
        }
        let highest = || {
            if scheme == Scheme::Percent {
                return 101;
            }
            // In floating point, as specified.
            let spare = (events as f64 * outliers.of_ten_thousand() / 10_000.0).floor();
            let (mut above, mut high) = (0, low + 1);
            for (class, n) in counts.iter().rev() {
                high = end_of(scheme, *class);
                above += n;
                if above as f64 > spare {
                    break;
                }
            }
            high
        };
        let high = high.unwrap_or_else(highest).max(low.saturating_add(1));
        Self { scheme, scale, low, high, rows }
    }

    /// The slot of a number, from the bottom: 0 to `rows`.
    pub fn slot(&self, value: u64) -> u32 {
        let (low, high, rows, v) = (self.low as f64, self.high as f64, f64::from(self.rows), value as f64);
        let p = match self.scale {
            Scale::Linear => (v - low) * rows / (high - low),
            Scale::Log => (ln(v.max(1.0)) - ln(low)) * rows / (ln(high) - ln(low)),
        };
        p.floor().max(0.0).min(rows) as u32
    }

    /// The value at a fraction of the height, for labels.
    pub fn at(&self, share: f64) -> f64 {
        let (low, high) = (self.low as f64, self.high as f64);
        match self.scale {
            Scale::Linear => low + (high - low) * share,
            Scale::Log => low * (high / low).powf(share),
        }
    }

    fn is_below(&self, class: u32) -> bool {
        let last = self.scheme.range(class).1.saturating_sub(1);
        (if self.scale == Scale::Log { last.max(1) } else { last }) < self.low
    }

    /// Whether a class is visible; if not, `Err` holds whether it is above the range.
    pub fn shows(&self, class: u32) -> Result<(), bool> {
        match (self.is_below(class), self.scheme.range(class).0 >= self.high) {
            (false, false) => Ok(()),
            (_, above) => Err(above),
        }
    }
}

/// Adjacent classes that are drawn as one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// First class of the row.
    pub first: u32,
    /// Last class of the row, inclusive.
    pub last: u32,
    /// Slots from the bottom, end exclusive.
    pub slots: (u32, u32),
}

/// All rows of an axis, from the bottom. They do not depend on the data.
pub fn rows(axis: &Axis) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::new();
    for class in (0..axis.scheme.classes()).filter(|class| axis.shows(*class).is_ok()) {
        let slot = axis.slot(axis.scheme.range(class).0).min(axis.rows - 1);
        match out.last_mut() {
            Some(row) if row.slots.0 == slot => row.last = class,
            before => {
                if let Some(row) = before {
                    row.slots.1 = slot;
                }
                out.push(Row { first: class, last: class, slots: (slot, axis.rows) });
            }
        }
    }
    out
}
