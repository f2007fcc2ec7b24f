//! What a chart is drawn on: rectangles, lines, polygons and text, at whole pixels.
//!
//! ```text
//! draw ─> dyn Canvas ─┬─ svg: an element for each call
//!                     └─ pixels: RGB in memory, then PNG
//! ```

use super::Rgb;

/// A place: pixels from the left and from the top.
pub(super) type Point = (i32, i32);

/// A colour, and how much of it covers what is below: 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ink {
    pub rgb: Rgb,
    pub opacity: f64,
}

impl Ink {
    /// The colour without anything shining through.
    pub fn full(rgb: Rgb) -> Self {
        Self { rgb, opacity: 1.0 }
    }

    /// The same colour, fainter.
    pub fn faint(self, opacity: f64) -> Self {
        Self { opacity: self.opacity * opacity, ..self }
    }
}

/// Which part of a text is at its place, from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    Middle,
    End,
}

/// Which part of a text is at its place, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Top,
    Center,
}

/// The direction in which a text runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// From top to bottom.
    Right,
    /// From bottom to top.
    Left,
}

/// How a text is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Font {
    /// Height of a line in pixels.
    pub size: u32,
    pub ink: Ink,
    pub side: Side,
    pub level: Level,
    pub turn: Turn,
}

impl Font {
    /// A text that begins at its place, below it.
    pub fn new(size: u32, ink: Ink) -> Self {
        Self { size, ink, side: Side::Start, level: Level::Top, turn: Turn::None }
    }

    /// The same, placed differently.
    pub fn at(self, side: Side, level: Level) -> Self {
        Self { side, level, ..self }
    }

    pub fn turned(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }
}

/// See the module.
pub(super) trait Canvas {
    /// Fills the rectangle between two corners.
    fn rectangle(&mut self, one: Point, other: Point, ink: Ink);
    /// A thin straight line.
    fn line(&mut self, from: Point, to: Point, ink: Ink);
    /// Straight lines from point to point. Lines wider than a pixel must be opaque.
    fn path(&mut self, points: &[Point], width: u32, ink: Ink);
    /// Fills the area inside.
    fn polygon(&mut self, points: &[Point], ink: Ink);
    fn text(&mut self, text: &str, at: Point, font: Font);
}
