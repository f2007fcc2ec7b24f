//! Graphs of values over time: lines, or stacked areas.

use super::{Area, Error, Raster, check, part};
use crate::column::{Column, UNRECORDED};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How series are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Each series from the bottom.
    #[default]
    Lines,
    /// Each series on top of the previous ones.
    Stacked,
}

/// How the value of a column is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Per second: divided by this many seconds.
    Rate(u64),
    /// Averaged over the recorded seconds.
    Level,
}

impl Kind {
    fn value(self, count: u64, column: &Column) -> f64 {
        let seconds = match self {
            Self::Rate(step) => step,
            Self::Level => u64::from(column.seconds),
        };
        count as f64 / seconds.max(1) as f64
    }
}

/// A rendered graph, without its frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Pixels; codes are indices of `series`.
    pub raster: Raster,
    /// Value at the top; the bottom is 0.
    pub top: f64,
    /// Keys of the series, and their average over the recorded time. Without a key: the remainder,
    /// or everything if there is no breakdown.
    pub series: Vec<(Option<u32>, f64)>,
}

/// Maximum number of series.
const SERIES: usize = 8;

/// The keys that have their own series; `None` is added if there is a remainder.
fn choose(columns: &[Option<&Column>]) -> Vec<Option<u32>> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for (key, n) in columns.iter().flatten().flat_map(|c| &c.cells) {
        *sums.entry(*key).or_default() += n;
    }
    if sums.is_empty() {
        return vec![None];
    }
    let mut keys: Vec<(u32, u64)> = sums.iter().map(|(k, n)| (*k, *n)).filter(|(k, _)| *k < UNRECORDED).collect();
    keys.sort_by_key(|(key, n)| (Reverse(*n), *key));
    let all = keys.len();
    keys.truncate(SERIES - 1);
    let is_rest = keys.len() < all || sums.keys().any(|k| *k >= UNRECORDED);
    keys.into_iter().map(|(k, _)| Some(k)).chain(is_rest.then_some(None)).collect()
}

/// The next 1, 2 or 5 times a power of ten.
fn round_up(v: f64) -> f64 {
    if v <= 0.0 {
        return 1.0;
    }
    let mut p = 1.0;
    while p < v {
        p *= 10.0;
    }
    while p / 10.0 >= v {
        p /= 10.0;
    }
    [p / 5.0, p / 2.0].into_iter().find(|t| *t >= v).unwrap_or(p)
}

/// Renders columns as a graph. Columns that were not recorded are `None`.
pub fn lines(area: Area, shape: Shape, kind: Kind, columns: &[Option<&Column>]) -> Result<Lines, Error> {
    let count = check(area, columns.len(), 1)?;
    let keys = choose(columns);
    // Values of a column, in the order of the series.
    let values = |column: &Column| -> Vec<f64> {
        let own = |key: u32| column.cells.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n);
        let known: u64 = keys.iter().flatten().map(|key| own(*key)).sum();
        let count = |key: &Option<u32>| key.map_or(column.total.saturating_sub(known), own);
        keys.iter().map(|key| kind.value(count(key), column)).collect()
    };
    let all: Vec<Option<Vec<f64>>> = columns.iter().map(|c| c.map(values)).collect();
    let highest = |values: &Vec<f64>| match shape {
        Shape::Stacked => values.iter().sum::<f64>(),
        Shape::Lines => values.iter().copied().fold(0.0, f64::max),
    };
    let top = round_up(all.iter().flatten().map(highest).fold(0.0, f64::max));
    let height = |v: f64| (v * f64::from(area.height) / top + 0.5).floor().clamp(0.0, f64::from(area.height)) as u32;
    let mut raster = Raster::new(area);
    for (x, _) in (0..count).zip(&all).filter(|(_, c)| c.is_none()) {
        raster.hatch(part(x, count, area.width));
    }
    match shape {
        Shape::Stacked => {
            for (x, values) in (0..count).zip(&all).filter_map(|(x, v)| Some((x, v.as_ref()?))) {
                let mut sum = 0.0;
                for (code, v) in values.iter().enumerate() {
                    let bottom = height(sum);
                    sum += v;
                    let lines = (area.height - height(sum), area.height - bottom);
                    raster.fill(part(x, count, area.width), lines, code as u16);
                }
            }
        }
        Shape::Lines => {
            for code in (0..keys.len()).rev() {
                let mut before: Option<u32> = None;
                for (x, values) in (0..count).zip(&all) {
                    let line = values.as_ref().and_then(|v| v.get(code)).map(|v| height(*v).min(area.height - 1));
                    if let Some(line) = line {
                        let (left, right) = part(x, count, area.width);
                        let y = area.height - 1 - line;
                        raster.fill((left, right), (y, y + 1), code as u16);
                        if let Some(before) = before {
                            let old = area.height - 1 - before;
                            raster.fill((left, left + 1), (y.min(old), y.max(old) + 1), code as u16);
                        }
                    }
                    before = line;
                }
            }
        }
    }
    let recorded: u64 = columns.iter().flatten().map(|c| u64::from(c.seconds)).sum();
    let sums = keys.iter().enumerate().map(|(i, key)| {
        let mut sum = 0.0;
        for (column, values) in columns.iter().flatten().zip(all.iter().flatten()) {
            let seconds = if let Kind::Rate(step) = kind { step } else { u64::from(column.seconds) };
            sum += values.get(i).copied().unwrap_or(0.0) * seconds as f64;
        }
        (*key, sum / recorded.max(1) as f64)
    });
    let series = sums.collect();
    Ok(Lines { raster, top, series })
}
