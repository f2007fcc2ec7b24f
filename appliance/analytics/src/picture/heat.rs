//! Heat maps: time to the right, numbers upwards, colour by count.

use super::axis::{Axis, Outliers, Scale, ln, rows};
use super::color::Coloring;
use super::{Area, Error, Raster, check, part};
use crate::column::{Column, UNRECORDED};
use crate::scheme::Scheme;
use std::collections::BTreeMap;

/// How a heat map is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heat {
    /// Pixels.
    pub area: Area,
    /// Finest resolution of the vertical axis.
    pub rows: u32,
    /// How numbers are spread over the height.
    pub scale: Scale,
    /// How counts become colours.
    pub coloring: Coloring,
    /// Which of the largest numbers are left out.
    pub outliers: Outliers,
    /// A chosen bottom.
    pub low: Option<u64>,
    /// A chosen top.
    pub high: Option<u64>,
}

/// A heat map that was drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Its pixels.
    pub raster: Raster,
    /// Its vertical axis.
    pub axis: Axis,
    /// Events above and below it.
    pub outside: (u64, u64),
    /// Counts of all cells in view that are not zero, ascending.
    pub cells: Vec<u64>,
}

impl Drawn {
    /// The least count that gets at least this colour's index; for the legend.
    pub fn count_at(&self, coloring: Coloring, index: u16) -> Option<u64> {
        self.cells.iter().copied().find(|v| index_of(*v, &self.cells, coloring) >= index)
    }
}

/// The colour of a count among all, which ascend.
fn index_of(v: u64, cells: &[u64], coloring: Coloring) -> u16 {
    let max = cells.last().copied().unwrap_or(1) as f64;
    let t = match coloring {
        Coloring::Rank => cells.partition_point(|c| *c <= v) as f64 / cells.len() as f64,
        Coloring::Linear => v as f64 / max,
        Coloring::Log => ln(1.0 + v as f64) / ln(1.0 + max),
    };
    (t * 255.0 + 0.5).floor() as u16
}

/// Cells that are classes: not what was counted and lost.
fn classes(column: &Column) -> impl Iterator<Item = (u32, u64)> {
    column.cells.iter().copied().filter(|(key, _)| *key < UNRECORDED)
}

/// Draws a heat map of columns, of which those that were not recorded are absent.
pub fn heat(wanted: &Heat, scheme: Scheme, columns: &[Option<&Column>]) -> Result<Drawn, Error> {
    let count = check(wanted.area, columns.len(), wanted.rows)?;
    let mut events: BTreeMap<u32, u64> = BTreeMap::new();
    for (class, n) in columns.iter().flatten().flat_map(|c| classes(c)) {
        *events.entry(class).or_default() += n;
    }
    let band = (wanted.low, wanted.high);
    let axis = Axis::choose(scheme, wanted.scale, &events, wanted.outliers, band, wanted.rows);
    let mut outside = (0, 0);
    for (class, n) in &events {
        match axis.shows(*class) {
            Ok(()) => {}
            Err(true) => outside.0 += n,
            Err(false) => outside.1 += n,
        }
    }
    // Cells that are not zero: column, row, count.
    let rows = rows(&axis);
    let mut cells: Vec<(u32, usize, u64)> = Vec::new();
    for (x, column) in (0..count).zip(columns).filter_map(|(x, c)| Some((x, (*c)?))) {
        let start = cells.len();
        for (class, n) in classes(column) {
            let row = rows.partition_point(|r| r.last < class);
            if rows.get(row).is_none_or(|r| class < r.first) {
                continue;
            }
            match cells.get_mut(start..).and_then(<[_]>::last_mut) {
                Some((_, last, sum)) if *last == row => *sum += n,
                _ => cells.push((x, row, n)),
            }
        }
    }
    let mut values: Vec<u64> = cells.iter().map(|(_, _, n)| *n).collect();
    values.sort_unstable();
    let mut indices: BTreeMap<u64, u16> = BTreeMap::new();
    let mut raster = Raster::new(wanted.area);
    let Area { width, height } = wanted.area;
    for (x, _) in (0..count).zip(columns).filter(|(_, c)| c.is_none()) {
        raster.hatch(part(x, count, width));
    }
    for (x, row, n) in cells {
        let Some(row) = rows.get(row) else { continue };
        let index = *indices.entry(n).or_insert_with(|| index_of(n, &values, wanted.coloring));
        let bottom = part(row.slots.0, wanted.rows, height).0;
        let top = part(row.slots.1, wanted.rows, height).0;
        raster.fill(part(x, count, width), (height - top, height - bottom), index);
    }
    Ok(Drawn { raster, axis, outside, cells: values })
}
