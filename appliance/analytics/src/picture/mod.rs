//! Pictures of statistics: heat maps, lines, stacks, as pixels, PNG and SVG.
//!
//! Beside: the web page, which draws the same by the same algorithm (docs/operating/analytics-pictures.md). Both are held against
//! `ui/test/fixtures/picture.json`, and take their colours from `ui/app/analytics/palettes.json`.
//!
//! ```text
//!   engine::Answer ─> axis (low, high, which buckets make a row) ─> heat ──┬─> Raster: codes of pixels ─> frame ─> png, svg
//!                 └─> series (the most important, the rest) ─────> lines ──┘        color: codes -> RGB
//! ```
//!
//! Invariants:
//!   * a bucket is never split over two rows; what is not drawn is counted as above or below
//!   * arithmetic is on doubles, in the order of the document: no machine and no language draws another picture

mod axis;
mod color;
mod frame;
mod heat;
mod lines;
mod png;
mod svg;

pub use axis::{Axis, Outliers, Row, Scale, rows};
pub use color::{Coloring, Palette, Theme};
pub use frame::{Picture, Wanted, of};
pub use heat::{Drawn, Heat, heat};
pub use lines::{Kind, Lines, Shape, lines};

use crate::scheme::Scheme;

/// Code of a pixel that is plain: zero.
pub const BACKGROUND: u16 = 256;
/// Code of a pixel on a line of the hatch that stands for not recorded.
pub const HATCH: u16 = 257;
/// Largest width and height, in pixels.
pub const PIXELS: u32 = 4096;
/// Most rows.
pub const ROWS: u32 = 1000;

/// Why a picture cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are more columns or rows than pixels to show them.
    #[error("{0}")]
    Size(String),
    /// Too much for a file of this kind.
    #[error("the picture is more than {0} MiB as SVG, expected fewer rows or columns, or PNG")]
    Large(usize),
    /// What writes PNG says so.
    #[error("PNG: {0}")]
    Png(String),
}

/// How large the area between the axes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

/// Codes of pixels, line by line from the top left: index of a palette or number of a series, [`BACKGROUND`] or [`HATCH`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    /// Its size.
    pub area: Area,
    /// One code a pixel.
    pub codes: Vec<u16>,
    /// Columns of pixels that are hatched, from and to, ends not included.
    pub hatched: Vec<(u32, u32)>,
}

impl Raster {
    fn new(area: Area) -> Self {
        Self { area, codes: vec![BACKGROUND; area.width as usize * area.height as usize], hatched: Vec::new() }
    }

    /// Fills a rectangle, ends not included.
    fn fill(&mut self, (left, right): (u32, u32), (top, bottom): (u32, u32), code: u16) {
        for y in top..bottom.min(self.area.height) {
            let line = y as usize * self.area.width as usize;
            let line = line + left as usize..line + right.min(self.area.width) as usize;
            if let Some(pixels) = self.codes.get_mut(line) {
                pixels.fill(code);
            }
        }
    }

    /// Hatches a column from top to bottom.
    fn hatch(&mut self, (left, right): (u32, u32)) {
        match self.hatched.last_mut() {
            Some((_, end)) if *end == left => *end = right,
            _ => self.hatched.push((left, right)),
        }
        for y in 0..self.area.height {
            for x in (left..right).filter(|x| (x + y) % 6 == 0) {
                self.fill((x, x + 1), (y, y + 1), HATCH);
            }
        }
    }
}

/// From which pixel to which, end not included, part `n` of `parts` reaches.
fn part(n: u32, parts: u32, pixels: u32) -> (u32, u32) {
    let at = |n: u32| (u64::from(n) * u64::from(pixels) / u64::from(parts.max(1))) as u32;
    (at(n), at(n + 1))
}

fn check(area: Area, columns: usize, rows: u32) -> Result<u32, Error> {
    let size = |text: String| Err(Error::Size(text));
    for (name, pixels) in [("width", area.width), ("height", area.height)] {
        if pixels == 0 || pixels > PIXELS {
            return size(format!("{name} is {pixels}, expected 1 to {PIXELS}"));
        }
    }
    if rows == 0 || rows > ROWS.min(area.height) {
        return size(format!("rows is {rows}, expected 1 to {}", ROWS.min(area.height)));
    }
    match u32::try_from(columns) {
        Ok(columns) if columns > 0 && columns <= area.width => Ok(columns),
        _ => size(format!("{columns} columns on {} pixels, expected 1 to {}: a longer step", area.width, area.width)),
    }
}

/// Where a bucket ends that has no end.
fn end_of(scheme: Scheme, class: u32) -> u64 {
    match scheme.range(class) {
        (_, end) if end != u64::MAX => end,
        (_, _) if scheme == Scheme::Percent => 101,
        (first, _) => first + first / 10,
    }
}

#[cfg(test)]
mod tests;
