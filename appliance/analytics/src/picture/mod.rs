//! Pictures of statistics: heat maps, lines, stacked areas; as pixels, PNG and SVG.
//!
//! The web page draws the same with the same algorithm (docs/operating/analytics-pictures.md). Both
//! are tested with `ui/test/fixtures/picture.json`, and take their colours from
//! `ui/app/analytics/palettes.json`.
//!
//! ```text
//! engine::Answer ─> axis (low, high, rows) ─> heat ───┬─> Raster: pixel codes ─> frame ─> png, svg
//!                 └─> series (largest, rest) ─> lines ┘      color: codes -> RGB
//! ```
//!
//! Invariants:
//!   * a bucket is never split over two rows; what is not drawn is counted as above or below
//!   * arithmetic uses doubles, in the order of the document, so that the picture is the same on
//!     every machine and in every language

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

/// Code of a background pixel: zero.
pub const BACKGROUND: u16 = 256;
/// Code of a pixel on a hatch line, which means not recorded.
pub const HATCH: u16 = 257;
/// Maximum width and height in pixels.
pub const PIXELS: u32 = 4096;
/// Maximum number of rows.
pub const ROWS: u32 = 1000;

/// Why a picture cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are more columns or rows than pixels.
    #[error("{0}")]
    Size(String),
    /// The picture is too large for this file format.
    #[error("the picture is more than {0} MiB as SVG, expected fewer rows or columns, or PNG")]
    Large(usize),
    /// An error of the PNG encoder.
    #[error("PNG: {0}")]
    Png(String),
}

/// Size of the plot area in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    pub width: u32,
    pub height: u32,
}

/// Codes of pixels, line by line from the top left: palette index or series number, [`BACKGROUND`]
/// or [`HATCH`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    pub area: Area,
    /// One code for each pixel.
    pub codes: Vec<u16>,
    /// Hatched pixel columns: start and exclusive end.
    pub hatched: Vec<(u32, u32)>,
}

impl Raster {
    fn new(area: Area) -> Self {
        Self { area, codes: vec![BACKGROUND; area.width as usize * area.height as usize], hatched: Vec::new() }
    }

    /// Fills a rectangle; ends are exclusive.
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

/// The first pixel and the exclusive end of part `n` of `parts`.
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

/// The end of a bucket, also for the last one, which is unbounded.
fn end_of(scheme: Scheme, class: u32) -> u64 {
    match scheme.range(class) {
        (_, end) if end != u64::MAX => end,
        (_, _) if scheme == Scheme::Percent => 101,
        (first, _) => first + first / 10,
    }
}

#[cfg(test)]
mod tests;
