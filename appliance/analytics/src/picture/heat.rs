//! Heat maps: time on the horizontal axis, values on the vertical axis, counts as colours.

use super::axis::{Axis, Outliers, Scale, ln, rows};
use super::color::Coloring;
use super::{Area, Error, Raster, check, part};
use crate::column::{Column, UNRECORDED};
use crate::scheme::Scheme;
use std::collections::BTreeMap;

/// Options of a heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heat {
    /// Size of the plot area.
    pub area: Area,
    /// Finest resolution of the vertical axis.
    pub rows: u32,
    pub scale: Scale,
    pub coloring: Coloring,
    /// The largest values to ignore.
    pub outliers: Outliers,
    /// Lower end of the axis; `None`: chosen from the data.
    pub low: Option<u64>,
    /// Upper end of the axis, exclusive; `None`: chosen from the data.
    pub high: Option<u64>,
}

/// A rendered heat map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    pub raster: Raster,
    pub axis: Axis,
    /// Number of events above and below the axis.
    pub outside: (u64, u64),
    /// Non-zero counts of all visible cells, ascending.
    pub cells: Vec<u64>,
}

impl Drawn {
    /// The smallest count with at least this colour index, for the legend.
    pub fn count_at(&self, coloring: Coloring, index: u16) -> Option<u64> {
        self.cells.iter().copied().find(|v| index_of(*v, &self.cells, coloring) >= index)
    }
}

/// The colour index of a count among all counts, which are ascending.
fn index_of(v: u64, cells: &[u64], coloring: Coloring) -> u16 {
    let max = cells.last().copied().unwrap_or(1) as f64;
    let t = match coloring {
        Coloring::Rank => cells.partition_point(|c| *c <= v) as f64 / cells.len() as f64,
        Coloring::Linear => v as f64 / max,
        Coloring::Log => ln(1.0 + v as f64) / ln(1.0 + max),
    };
    (t * 255.0 + 0.5).floor() as u16
}

/// Cells with a class: excludes those for lost details.
fn classes(column: &Column) -> impl Iterator<Item = (u32, u64)> {
    column.cells.iter().copied().filter(|(key, _)| *key < UNRECORDED)
}

/// Renders columns as a heat map. Columns that were not recorded are `None`.
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
    // Non-zero cells: column, row, count.
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
