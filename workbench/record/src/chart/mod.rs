//! Charts of runs: ten kinds, as SVG and PNG.
//!
//! ```text
//! files ─> data (runs: series, operations, notes) ─> kinds (lines, axes) ─> Figure
//!                                                          reduce, axis ──┐   │
//!                                  svg, pixels (PNG) <─ canvas <─ draw <──┴───┘
//! ```
//!
//! Invariants:
//!   * the same input gives the same bytes: no clock, no random names, no installed fonts
//!   * an axis has one unit, and its label names it; where nothing was measured, nothing is drawn
//!   * where there are more values than pixels, the line shows averages and a band behind it spans
//!     minimum to maximum, so that the area under the line is preserved and no peak is lost

mod axis;
mod canvas;
pub mod data;
mod derive;
mod draw;
mod kinds;
mod pixels;
pub mod reduce;
mod svg;
#[cfg(test)]
mod tests;

pub use data::Data;
pub use kinds::{KINDS, Kind, figure};

use crate::format::Unit;
use crate::series::Series;

/// Options of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Width and height in pixels.
    pub size: (u32, u32),
    pub theme: Theme,
    /// Title instead of the default.
    pub title: Option<String>,
    /// Devices, pools or jobs to draw, with `*` for anything; all if `None`.
    pub device: Option<String>,
    /// Time window: start and length, in seconds since the start of the run.
    pub window: (f64, Option<f64>),
    /// Whether the left axis is logarithmic; `None`: the default of the chart.
    pub log: Option<bool>,
    /// Also draws a moving average over this many seconds, on each line.
    pub smooth: Option<f64>,
    /// Vertical axis of a heat map.
    pub heat: Heat,
    /// Series of the run for the right axis.
    pub right: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            size: (1200, 600),
            theme: Theme::Light,
            title: None,
            device: None,
            window: (0.0, None),
            log: None,
            smooth: None,
            heat: Heat::Latency,
            right: None,
        }
    }
}

/// The vertical axis of a heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heat {
    Latency,
    Offset,
    Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// White background.
    Light,
    /// Nearly black background.
    Dark,
}

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// A palette for people with colour vision deficiency (Okabe and Ito, 2008); yellow comes last,
/// since it is faint on white.
const COLORS: [Rgb; 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (120, 120, 120),
    (240, 228, 66),
];

impl Theme {
    fn paper(self) -> Rgb {
        if self == Self::Light { (255, 255, 255) } else { (24, 24, 28) }
    }

    fn ink(self) -> Rgb {
        if self == Self::Light { (40, 40, 40) } else { (220, 220, 220) }
    }

    fn grid(self) -> Rgb {
        if self == Self::Light { (225, 225, 225) } else { (60, 60, 66) }
    }
}

/// The colour of line `n`.
fn color_of(n: usize) -> Rgb {
    COLORS[n % COLORS.len()]
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    pub series: Series,
    /// Whether it is drawn on the right axis.
    pub is_right: bool,
    /// Also draws a moving average over this many seconds; the line itself is drawn fainter.
    pub smooth: Option<f64>,
}

/// A vertical axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertical {
    pub unit: Unit,
    /// Whether the values are per second.
    pub per_second: bool,
    /// Label before the unit.
    pub name: String,
    /// Whether it is logarithmic.
    pub log: bool,
}

/// A cell of a heat map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Start and end in seconds.
    pub time: (f64, f64),
    /// Lower and upper bound of the values.
    pub range: (f64, f64),
    pub count: f64,
}

/// The contents of the plot area.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Lines, each from the bottom.
    Lines(Vec<Line>),
    /// Lines stacked on top of each other.
    Stack(Vec<Line>),
    /// Counts by time and value.
    Heat(Vec<Cell>),
    /// A bar for each name.
    Bars(Vec<(String, f64)>),
}

/// A labelled event.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Time in seconds since the start.
    pub at: f64,
    pub text: String,
}

/// A chart before it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub title: String,
    pub content: Content,
    pub left: Vertical,
    /// The right axis, if there is one.
    pub right: Option<Vertical>,
    pub marks: Vec<Mark>,
    /// Start of the run on its clock; if absent, times count from the start.
    pub clock: Option<f64>,
    /// Time window in seconds since the start.
    pub window: (f64, f64),
    /// Notes below the chart.
    pub notes: Vec<String>,
}

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A recorded file could not be read.
    #[error(transparent)]
    Run(#[from] crate::format::Error),
    /// A text could not be read.
    #[error(transparent)]
    Text(#[from] crate::import::Error),
    /// The path, and why it cannot be read.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// The run lacks the series that the chart shows.
    #[error("{run}: nothing to draw: it has no {wanted}; it has {has}")]
    Nothing {
        /// Name of the run.
        run: String,
        wanted: String,
        has: String,
    },
    /// The picture is too large or too small.
    #[error("{0}x{1} pixels, expected 200x120 to 8000x8000")]
    Size(u32, u32),
    /// The picture cannot be encoded.
    #[error("cannot write PNG: {0}")]
    Png(String),
}
