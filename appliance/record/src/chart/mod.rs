//! Charts of runs: ten kinds, as SVG and PNG.
//!
//! ```text
//!   files ─> data (runs: series, operations, notes) ─> kinds (which lines, which axes) ─> Figure ─> draw ─> plotters ─> SVG, pixels ─> PNG
//!                                                                       reduce, axis ──────^
//! ```
//!
//! Drawing is plotters'; PNG goes through a backend of ours (`pixels`), which needs no font of the machine.
//!
//! Invariants:
//!   * the same input gives the same bytes: no clock, no random names, no fonts of the machine
//!   * an axis has one unit, and its label says which; where nothing was measured, nothing is drawn
//!   * where there are more numbers than pixels, the line goes through averages and a band from the least to the greatest is behind it, so that the
//!     area under the line stays what it was and no peak is lost

mod axis;
pub mod data;
mod derive;
mod draw;
mod kinds;
mod pixels;
pub mod reduce;
#[cfg(test)]
mod tests;

pub use data::Data;
pub use kinds::{Heat, KINDS, Kind, figure};

use crate::format::Unit;
use crate::series::Series;

/// How a chart is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Pixels: width and height.
    pub size: (u32, u32),
    /// Colours.
    pub theme: Theme,
    /// Instead of the chart's own.
    pub title: Option<String>,
    /// The devices, pools or jobs that are drawn, with `*` for anything; all, if it is nothing.
    pub device: Option<String>,
    /// The window: from and for how long, in seconds since the begin.
    pub window: (f64, Option<f64>),
    /// The left axis as logarithms, or not; nothing: as the chart has it.
    pub log: Option<bool>,
    /// An average over so many seconds is drawn too, over each line.
    pub smooth: Option<f64>,
    /// Of heat maps: what is up.
    pub heat: Heat,
    /// A statistic of the run for the right axis.
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

/// Colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// On white.
    Light,
    /// On almost black.
    Dark,
}

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Colours that people who see few of them tell apart (Okabe and Ito, 2008); yellow last, since it is faint on white.
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

/// The colour of a line by its number.
fn color_of(n: usize) -> Rgb {
    COLORS[n % COLORS.len()]
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// Over time.
    pub series: Series,
    /// It belongs to the axis on the right.
    pub is_right: bool,
    /// An average over so many seconds is drawn over it; the line itself stays, fainter.
    pub smooth: Option<f64>,
}

/// A vertical axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertical {
    /// In what.
    pub unit: Unit,
    /// Told a second.
    pub per_second: bool,
    /// What it is, before the unit.
    pub name: String,
    /// As logarithms.
    pub log: bool,
}

/// A cell of a heat map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// From when to when.
    pub time: (f64, f64),
    /// From which value to which.
    pub range: (f64, f64),
    /// How many.
    pub count: f64,
}

/// What is in the area.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Lines, each from the bottom.
    Lines(Vec<Line>),
    /// Each on top of those before.
    Stack(Vec<Line>),
    /// Counts by time and value.
    Heat(Vec<Cell>),
    /// A bar for each name.
    Bars(Vec<(String, f64)>),
}

/// A moment with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When.
    pub at: f64,
    /// What.
    pub text: String,
}

/// A chart, before it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Above it.
    pub title: String,
    /// What is drawn.
    pub content: Content,
    /// The axis on the left.
    pub left: Vertical,
    /// The axis on the right, if there is one.
    pub right: Option<Vertical>,
    /// Moments with names.
    pub marks: Vec<Mark>,
    /// The begin of the run on its clock; otherwise times are told since the begin.
    pub clock: Option<f64>,
    /// The window, in seconds since the begin.
    pub window: (f64, f64),
    /// Below it: what the reader must know.
    pub notes: Vec<String>,
}

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of a run is not read.
    #[error(transparent)]
    Run(#[from] crate::format::Error),
    /// A text is not read.
    #[error(transparent)]
    Text(#[from] crate::import::Error),
    /// The system refused.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// The run does not have what the chart shows.
    #[error("{run}: nothing to draw: it has no {wanted}; it has {has}")]
    Nothing {
        /// Which run.
        run: String,
        /// What is missing.
        wanted: String,
        /// What is there.
        has: String,
    },
    /// More or fewer pixels than a picture can have.
    #[error("{0}x{1} pixels, expected 200x120 to 8000x8000")]
    Size(u32, u32),
    /// What draws says so.
    #[error("cannot draw: {0}")]
    Draw(String),
}

impl Figure {
    /// As an SVG file.
    pub fn svg(&self, wanted: &Wanted) -> Result<String, Error> {
        draw::svg(self, wanted)
    }

    /// As a PNG file.
    pub fn png(&self, wanted: &Wanted) -> Result<Vec<u8>, Error> {
        pixels::png(self, wanted)
    }
}
