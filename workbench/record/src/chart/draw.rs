//! Draws a figure on any canvas.
//!
//! ```text
//!  title
//!  ┌──────┬───────────────┬───────┐  TOP
//!  │ LEFT │ plot          │ RIGHT │
//!  ├──────┴───────────────┴───────┤
//!  │ times                        │  BOTTOM
//!  legend, notes
//! ```

use super::axis::{Scale, clock, times};
use super::canvas::{Canvas, Font, Ink, Level, Point, Side, Turn};
use super::reduce::{reduce, smooth};
use super::{Cell, Content, Error, Figure, Line, Rgb, Wanted, color_of};
use crate::series::Series;

/// Height of a legend line in pixels.
const LEGEND: i32 = 18;
/// Margins around the plot area in pixels.
const LEFT: i32 = 78;
const RIGHT: i32 = 70;
const BOTTOM: i32 = 30;
const TOP: i32 = 34;
/// Between the edge of the picture and the text next to it.
const EDGE: i32 = 4;
/// Right of a plot without a right axis.
const FREE: i32 = 24;
/// Length of the lines that mark a label on its axis.
const TICK: i32 = 5;

pub(super) fn check((width, height): (u32, u32)) -> Result<(), Error> {
    let fits = (200..=8000).contains(&width) && (120..=8000).contains(&height);
    if fits { Ok(()) } else { Err(Error::Size(width, height)) }
}

/// Draws a figure on a canvas of the requested size, which [`check`] has accepted.
pub(super) fn draw(canvas: &mut dyn Canvas, figure: &Figure, wanted: &Wanted) {
    let (width, height) = (wanted.size.0 as i32, wanted.size.1 as i32);
    canvas.rectangle((0, 0), (width, height), Ink::full(wanted.theme.paper()));
    let entries = legend(figure);
    // As many legend entries in a row as fit.
    let longest = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as i32;
    let column = longest * 8 + 40;
    let per_row = ((width - LEFT) / column.max(1)).max(1) as usize;
    let rows = entries.len().div_ceil(per_row) + figure.notes.len();
    let foot = height - (rows as i32 * LEGEND + 6).min(height / 2);
    match &figure.content {
        Content::Bars(bars) => draw_bars(canvas, figure, wanted, bars, (width, foot)),
        _ => Times::new(figure, wanted, (width, foot)).draw(canvas),
    }
    let font = Font::new(13, Ink::full(wanted.theme.ink()));
    for (n, (name, line)) in entries.iter().enumerate() {
        let (x, y) = (LEFT + (n % per_row) as i32 * column, foot + (n / per_row) as i32 * LEGEND);
        canvas.rectangle((x, y + 4), (x + 20, y + 10), Ink::full(*line));
        canvas.text(name, (x + 26, y + 2), font);
    }
    for (n, note) in figure.notes.iter().enumerate() {
        canvas.text(note, (LEFT, foot + (entries.len().div_ceil(per_row) + n) as i32 * LEGEND + 2), font);
    }
}

/// Legend entries: names and colours.
fn legend(figure: &Figure) -> Vec<(String, Rgb)> {
    let name = |line: &Line| {
        let smooth = line.smooth.map_or(String::new(), |s| format!(", thick: averaged over {s} s"));
        format!("{}{smooth}{}", line.name, if line.is_right { " (right)" } else { "" })
    };
    match &figure.content {
        Content::Lines(lines) | Content::Stack(lines) => {
            lines.iter().enumerate().map(|(n, line)| (name(line), color_of(n))).collect()
        }
        Content::Heat(_) | Content::Bars(_) => Vec::new(),
    }
}

/// The smallest non-zero value, the largest value, and whether there are zeros.
fn bounds<'a>(all: impl Iterator<Item = &'a Series>, (from, to): (f64, f64)) -> (f64, f64, bool) {
    let (mut least, mut most, mut zeros) = (f64::INFINITY, 0.0f64, false);
    for value in all.flat_map(|s| &s.spans).filter(|s| s.to > from && s.from < to).map(|s| s.value) {
        most = most.max(value);
        match value > 0.0 {
            true => least = least.min(value),
            false => zeros = true,
        }
    }
    (if least.is_finite() { least } else { 0.0 }, most, zeros)
}

/// A chart over time: its scales, and where they are in the picture.
struct Times<'a> {
    figure: &'a Figure,
    wanted: &'a Wanted,
    lines: Vec<Line>,
    left: Scale,
    right: Option<Scale>,
    /// Pixels of the plot: left and right, bottom and top.
    x: (i32, i32),
    y: (i32, i32),
}

/// The pixel of a value between the pixels of the ends of its range.
fn map(value: f64, range: (f64, f64), (from, to): (i32, i32)) -> i32 {
    let share = (value - range.0) / (range.1 - range.0);
    from + (f64::from(to - from) * share).round() as i32
}

impl<'a> Times<'a> {
    fn new(figure: &'a Figure, wanted: &'a Wanted, (width, height): (i32, i32)) -> Self {
        let lines = match &figure.content {
            Content::Lines(lines) => lines.clone(),
            Content::Stack(lines) => stack(lines),
            _ => Vec::new(),
        };
        let of =
            |right: bool| bounds(lines.iter().filter(move |l| l.is_right == right).map(|l| &l.series), figure.window);
        let left = match &figure.content {
            Content::Heat(cells) => {
                let low = cells.iter().map(|c| c.range.0).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
                let zeros = figure.left.log && cells.iter().any(|c| c.range.0 <= 0.0);
                let most = cells.iter().map(|c| c.range.1).fold(0.0, f64::max);
                Scale::new(&figure.left, if low.is_finite() { low } else { most }, most, zeros)
            }
            _ => {
                let (least, most, zeros) = of(false);
                Scale::new(&figure.left, least, most, zeros)
            }
        };
        let right = figure.right.as_ref().map(|axis| {
            let (least, most, zeros) = of(true);
            Scale::new(axis, least, most, zeros)
        });
        let margin = EDGE + if right.is_some() { RIGHT } else { FREE };
        let x = (EDGE + LEFT, (width - margin - 1).max(EDGE + LEFT));
        let y = ((height - BOTTOM - 1).max(TOP), TOP);
        Self { figure, wanted, lines, left, right, x, y }
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let ink = Ink::full(self.wanted.theme.ink());
        canvas.text(&self.figure.title, (LEFT, 8), Font::new(16, ink));
        self.draw_frame(canvas, ink);
        if let Content::Heat(cells) = &self.figure.content {
            self.draw_cells(canvas, cells);
        }
        if let Some(floor) = self.left.floor().filter(|_| !self.lines.is_empty()) {
            let (from, to) = self.figure.window;
            let dash = (to - from) / 80.0;
            for at in (0..40).map(|n| from + dash * 2.0 * f64::from(n)) {
                canvas.path(&self.points(&[(at, floor), (at + dash, floor)], false), 1, ink);
            }
        }
        for n in 0..self.lines.len() {
            self.draw_line(canvas, n);
        }
        self.draw_marks(canvas, ink);
    }

    /// The plot's pixels along the right axis, one more than along the left one.
    fn right_plot(&self) -> ((i32, i32), (i32, i32)) {
        ((self.x.0, self.x.1 + 1), (self.y.0 + 1, self.y.1))
    }

    fn point(&self, (at, height): (f64, f64), is_right: bool) -> Point {
        let (x, y) = if is_right { self.right_plot() } else { (self.x, self.y) };
        let scale = self.right.as_ref().filter(|_| is_right).unwrap_or(&self.left);
        (map(at, self.figure.window, x), map(height, scale.range, y))
    }

    fn points(&self, points: &[(f64, f64)], is_right: bool) -> Vec<Point> {
        points.iter().map(|point| self.point(*point, is_right)).collect()
    }

    /// Grid, axes and labels.
    fn draw_frame(&self, canvas: &mut dyn Canvas, ink: Ink) {
        let (x, y, window) = (self.x, self.y, self.figure.window);
        let (label, name) = (Font::new(12, ink), Font::new(13, ink).at(Side::Middle, Level::Top));
        let middle = TOP + (y.0 + 1 - TOP) / 2;
        canvas.text(&self.left.name, (EDGE, middle), name.turned(Turn::Left));
        let grid = Ink::full(self.wanted.theme.grid());
        let columns = times(window, self.figure.clock, 10);
        let columns: Vec<(f64, i32)> = columns.into_iter().map(|at| (at, map(at, window, x))).collect();
        for (_, at) in &columns {
            canvas.line((*at, y.0), (*at, y.1), grid);
        }
        let rows: Vec<(f64, i32)> = self.left.ticks.iter().map(|t| (*t, map(*t, self.left.range, y))).collect();
        for (_, at) in &rows {
            canvas.line((x.0, *at), (x.1, *at), grid);
        }
        let edge = x.0 - 1;
        canvas.path(&[(edge, y.1), (edge, y.0)], 1, ink);
        for (tick, at) in rows {
            canvas.text(&self.left.label(tick), (x.0 - 2 * TICK, at), label.at(Side::End, Level::Center));
            canvas.path(&[(edge - TICK, at), (edge, at)], 1, ink);
        }
        let edge = y.0 + 1;
        canvas.path(&[(x.0, edge), (x.1, edge)], 1, ink);
        for (time, at) in columns.into_iter().filter(|(_, at)| (x.0..=x.1).contains(at)) {
            canvas.text(&clock(time, self.figure.clock), (at, edge + 2 * TICK), label.at(Side::Middle, Level::Top));
            canvas.path(&[(at, edge), (at, edge + TICK)], 1, ink);
        }
        let Some(right) = &self.right else { return };
        let (x, y) = self.right_plot();
        canvas.text(&right.name, (x.1 + RIGHT, middle), name.turned(Turn::Right));
        canvas.path(&[(x.1, y.1), (x.1, y.0)], 1, ink);
        for (tick, at) in right.ticks.iter().map(|tick| (*tick, map(*tick, right.range, y))) {
            canvas.text(&right.label(tick), (x.1 + 2 * TICK, at), label.at(Side::Start, Level::Center));
            canvas.path(&[(x.1, at), (x.1 + TICK, at)], 1, ink);
        }
    }

    fn draw_cells(&self, canvas: &mut dyn Canvas, cells: &[Cell]) {
        let (from, to) = self.figure.window;
        let most = cells.iter().map(|c| c.count).fold(0.0, f64::max);
        for cell in cells {
            // Logarithmic, so that small counts are visible next to large ones.
            let opacity = 0.15 + 0.85 * (1.0 + cell.count).ln() / (1.0 + most).ln();
            let one = self.point((cell.time.0.max(from), self.left.at(cell.range.0)), false);
            let other = self.point((cell.time.1.min(to), self.left.at(cell.range.1)), false);
            canvas.rectangle(one, other, Ink::full(color_of(0)).faint(opacity));
        }
    }

    fn draw_line(&self, canvas: &mut dyn Canvas, n: usize) {
        let Some(line) = self.lines.get(n) else { return };
        let (window, ink) = (self.figure.window, Ink::full(color_of(n)));
        let scale = self.right.as_ref().filter(|_| line.is_right).unwrap_or(&self.left);
        let pixels = (self.x.1 - self.x.0 + 1) as usize;
        if matches!(self.figure.content, Content::Stack(_)) {
            let below = n.checked_sub(1).and_then(|n| self.lines.get(n)).map(|l| &l.series);
            for points in filled(&line.series, below, window, pixels, scale) {
                canvas.polygon(&self.points(&points, false), ink);
            }
            return;
        }
        let (path, band) = paths(&line.series, window, pixels, scale);
        for points in band {
            canvas.polygon(&self.points(&points, line.is_right), ink.faint(0.25));
        }
        let raw = if line.smooth.is_some() { ink.faint(0.45) } else { ink };
        for points in path {
            canvas.path(&self.points(&points, line.is_right), 1, raw);
        }
        if let Some(width) = line.smooth {
            for points in paths(&smooth(&line.series, width), window, pixels, scale).0 {
                canvas.path(&self.points(&points, line.is_right), 3, ink);
            }
        }
    }

    fn draw_marks(&self, canvas: &mut dyn Canvas, ink: Ink) {
        let ((from, to), (low, high)) = (self.figure.window, self.left.range);
        for (n, mark) in self.figure.marks.iter().filter(|m| (from..=to).contains(&m.at)).enumerate() {
            canvas.path(&self.points(&[(mark.at, low), (mark.at, high)], false), 1, ink.faint(0.6));
            // Staggered, so that adjacent labels do not overlap.
            let height = high - (high - low) * (0.01 + 0.04 * (n % 8) as f64);
            let side = if mark.at > from + (to - from) * 0.75 { Side::End } else { Side::Start };
            let at = self.point((mark.at, height), false);
            canvas.text(&mark.text, at, Font::new(12, ink).at(side, Level::Top));
        }
    }
}

/// Stacks each line on top of the previous ones.
fn stack(lines: &[Line]) -> Vec<Line> {
    let mut out: Vec<Line> = Vec::new();
    for line in lines {
        let mut line = line.clone();
        if let Some(below) = out.last() {
            let mut below = below.series.spans.iter().peekable();
            for span in &mut line.series.spans {
                while below.next_if(|b| b.to <= span.from).is_some() {}
                span.value += below.peek().filter(|b| b.from <= span.from).map_or(0.0, |b| b.value);
            }
        }
        out.push(line);
    }
    out
}

type Points = Vec<(f64, f64)>;

/// The line as steps, one path between gaps; and the band behind it, where there are more values
/// than pixels.
fn paths(series: &Series, (from, to): (f64, f64), pixels: usize, scale: &Scale) -> (Vec<Points>, Vec<Points>) {
    let near = (to - from) * 1e-9;
    let (mut path, mut band): (Vec<Points>, Vec<Points>) = Default::default();
    let mut end = f64::NEG_INFINITY;
    if series.spans.len() <= pixels.max(2) * 2 {
        for span in series.spans.iter().filter(|s| s.to > from && s.from < to) {
            let (a, b, height) = (span.from.max(from), span.to.min(to), scale.at(span.value));
            match path.last_mut().filter(|_| (a - end).abs() <= near) {
                // Extends a span with the same value.
                Some(points) if points.last().is_some_and(|(_, h)| *h == height) => {
                    points.pop();
                    points.push((b, height));
                }
                Some(points) => points.extend([(a, height), (b, height)]),
                None => path.push(vec![(a, height), (b, height)]),
            }
            end = b;
        }
        return (path, band);
    }
    let mut edges: Vec<(Points, Points)> = Vec::new();
    for column in reduce(series, (from, to), pixels) {
        let middle = (column.time.0 + column.time.1) / 2.0;
        if (column.time.0 - end).abs() > near || path.is_empty() {
            path.push(Vec::new());
            edges.push(Default::default());
        }
        if let (Some(points), Some((low, high))) = (path.last_mut(), edges.last_mut()) {
            points.push((middle, scale.at(column.mean)));
            low.push((middle, scale.at(column.least)));
            high.push((middle, scale.at(column.most)));
        }
        end = column.time.1;
    }
    for (low, high) in edges {
        band.push(high.into_iter().chain(low.into_iter().rev()).collect());
    }
    (path, band)
}

/// The areas between a line and the one below it, or the bottom.
fn filled(series: &Series, below: Option<&Series>, window: (f64, f64), pixels: usize, scale: &Scale) -> Vec<Points> {
    let (top, _) = paths(series, window, pixels, scale);
    let bottoms = below.map(|below| paths(below, window, pixels, scale).0);
    let bottom = |n: usize, top: &Points| -> Points {
        match bottoms.as_ref().and_then(|b| b.get(n)) {
            Some(points) => points.iter().rev().copied().collect(),
            None => [top.last(), top.first()].into_iter().flatten().map(|(at, _)| (*at, scale.range.0)).collect(),
        }
    };
    top.iter().enumerate().map(|(n, points)| points.iter().copied().chain(bottom(n, points)).collect()).collect()
}

/// Draws horizontal bars, one below the other.
fn draw_bars(
    canvas: &mut dyn Canvas,
    figure: &Figure,
    wanted: &Wanted,
    bars: &[(String, f64)],
    (width, height): (i32, i32),
) {
    let most = bars.iter().map(|(_, v)| *v).fold(0.0, f64::max);
    let scale = Scale::new(&figure.left, most, most, false);
    let ink = Ink::full(wanted.theme.ink());
    canvas.text(&figure.title, (LEFT, 8), Font::new(16, ink));
    canvas.text(&scale.name, (LEFT, 26), Font::new(12, ink));
    let names = bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as i32 * 8 + 20;
    let room = (height - TOP - 16).max(1);
    let each = (room / bars.len().max(1) as i32).clamp(4, 60);
    for (n, (name, value)) in bars.iter().enumerate() {
        let (shown, top) = (scale.at(*value), TOP + 10 + n as i32 * each);
        let long = (width - names - 110).max(1);
        let end = names + (f64::from(long) * shown / scale.range.1).round() as i32;
        canvas.rectangle((names, top + each / 6), (end, top + each - each / 6), Ink::full(color_of(n)));
        let middle = top + each / 2;
        let font = |side: Side| Font::new(13, ink).at(side, Level::Center);
        canvas.text(name, (names - 8, middle), font(Side::End));
        canvas.text(&format!("{shown:.1}"), (end + 6, middle), font(Side::Start));
    }
}
