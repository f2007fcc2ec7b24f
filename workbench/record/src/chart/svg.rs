//! SVG output: an element for each call.

use super::canvas::{Canvas, Font, Ink, Level, Point, Side, Turn};
use super::{Error, Figure, Wanted, draw};
use std::fmt::Write as _;

/// A document that is being written.
pub(super) struct Svg {
    out: String,
}

/// Ratio of the height of a line to the size of the font, for common fonts without serifs.
const LINE: f64 = 1.24;

impl Svg {
    fn new((width, height): (u32, u32)) -> Self {
        let out = format!(
            "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
        );
        Self { out }
    }

    fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    /// Adds text. Writing to a string cannot fail.
    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(text);
    }
}

fn color(ink: Ink) -> String {
    let (r, g, b) = ink.rgb;
    format!("#{r:02X}{g:02X}{b:02X}")
}

fn list(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{x},{y} ")).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}

impl Canvas for Svg {
    fn rectangle(&mut self, one: Point, other: Point, ink: Ink) {
        let (x, y) = (one.0.min(other.0), one.1.min(other.1));
        let (width, height) = (one.0.max(other.0) - x, one.1.max(other.1) - y);
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" opacity=\"{}\" fill=\"{}\" stroke=\"none\"/>\n",
            ink.opacity,
            color(ink)
        ));
    }

    fn line(&mut self, from: Point, to: Point, ink: Ink) {
        self.add(format_args!(
            "<line opacity=\"{}\" stroke=\"{}\" stroke-width=\"1\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
            ink.opacity,
            color(ink),
            from.0,
            from.1,
            to.0,
            to.1
        ));
    }

    fn path(&mut self, points: &[Point], width: u32, ink: Ink) {
        self.add(format_args!(
            "<polyline fill=\"none\" opacity=\"{}\" stroke=\"{}\" stroke-width=\"{width}\" points=\"{}\"/>\n",
            ink.opacity,
            color(ink),
            list(points)
        ));
    }

    fn polygon(&mut self, points: &[Point], ink: Ink) {
        self.add(format_args!(
            "<polygon opacity=\"{}\" fill=\"{}\" points=\"{}\"/>\n",
            ink.opacity,
            color(ink),
            list(points)
        ));
    }

    fn text(&mut self, text: &str, (x, y): Point, font: Font) {
        let anchor = match font.side {
            Side::Start => "start",
            Side::Middle => "middle",
            Side::End => "end",
        };
        let down = match font.level {
            Level::Top => "0.76em",
            Level::Center => "0.5ex",
        };
        let turn = match font.turn {
            Turn::None => String::new(),
            Turn::Right => format!(" transform=\"rotate(90, {x}, {y})\""),
            Turn::Left => format!(" transform=\"rotate(270, {x}, {y})\""),
        };
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"{down}\" text-anchor=\"{anchor}\" font-family=\"sans-serif\" font-size=\"{}\" opacity=\"{}\" fill=\"{}\"{turn}>\n{}\n</text>\n",
            f64::from(font.size) / LINE,
            font.ink.opacity,
            color(font.ink),
            escaped(text)
        ));
    }
}

impl Figure {
    /// Draws the figure as SVG.
    pub fn svg(&self, wanted: &Wanted) -> Result<String, Error> {
        draw::check(wanted.size)?;
        let mut svg = Svg::new(wanted.size);
        draw::draw(&mut svg, self, wanted);
        Ok(svg.finish())
    }
}
