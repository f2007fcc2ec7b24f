//! Draws a figure with plotters, on any of its backends.

use super::axis::{Scale, clock, times};
use super::reduce::{reduce, smooth};
use super::{Content, Error, Figure, Line, Rgb, Wanted, color_of};
use crate::series::Series;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of a legend line in pixels.
const LEGEND: i32 = 18;
/// Margins around the plot area in pixels.
const LEFT: u32 = 78;
const RIGHT: u32 = 70;
const BOTTOM: u32 = 30;
const TOP: u32 = 34;

pub(super) fn check((width, height): (u32, u32)) -> Result<(), Error> {
    let fits = (200..=8000).contains(&width) && (120..=8000).contains(&height);
    if fits { Ok(()) } else { Err(Error::Size(width, height)) }
}

impl Figure {
    /// Draws the figure as SVG.
    pub fn svg(&self, wanted: &Wanted) -> Result<String, Error> {
        check(wanted.size)?;
        let mut out = String::new();
        on(SVGBackend::with_string(&mut out, wanted.size), self, wanted)?;
        Ok(out)
    }
}

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::Draw(error.to_string())
}

fn color((r, g, b): Rgb) -> RGBColor {
    RGBColor(r, g, b)
}

fn font(size: i32, ink: &RGBColor) -> TextStyle<'static> {
    let mut style = TextStyle::from(("sans-serif", size).into_font());
    style.color = ink.to_backend_color();
    style
}

/// A plotters axis with our own labels.
struct Ticks {
    range: (f64, f64),
    labelled: Vec<f64>,
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        // Grid lines without labels are not drawn.
        if hint.weight().allow_light_points() { Vec::new() } else { self.labelled.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

type Area<DB> = DrawingArea<DB, Shift>;

/// Draws a figure on a backend.
pub(super) fn on<DB: DrawingBackend>(backend: DB, figure: &Figure, wanted: &Wanted) -> Result<(), Error>
where
    DB::ErrorType: 'static,
{
    let root = backend.into_drawing_area();
    root.fill(&color(wanted.theme.paper())).map_err(failed)?;
    let entries = legend(figure);
    // As many legend entries in a row as fit.
    let longest = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as i32;
    let column = longest * 8 + 40;
    let beside = ((wanted.size.0 as i32 - LEFT as i32) / column.max(1)).max(1) as usize;
    let rows = entries.len().div_ceil(beside) + figure.notes.len();
    let below = (rows as i32 * LEGEND + 6).min(wanted.size.1 as i32 / 2);
    let (area, foot) = root.split_vertically(wanted.size.1 as i32 - below);
    match &figure.content {
        Content::Bars(bars) => draw_bars(&area, figure, wanted, bars)?,
        _ => draw_times(&area, figure, wanted)?,
    }
    let ink = color(wanted.theme.ink());
    let text = |text: &str, at: (i32, i32)| foot.draw(&Text::new(text.to_owned(), at, font(13, &ink))).map_err(failed);
    for (n, (name, line)) in entries.iter().enumerate() {
        let (x, y) = (LEFT as i32 + (n % beside) as i32 * column, (n / beside) as i32 * LEGEND);
        foot.draw(&Rectangle::new([(x, y + 4), (x + 20, y + 10)], color(*line).filled())).map_err(failed)?;
        text(name, (x + 26, y + 2))?;
    }
    for (n, note) in figure.notes.iter().enumerate() {
        text(note, (LEFT as i32, (entries.len().div_ceil(beside) + n) as i32 * LEGEND + 2))?;
    }
    root.present().map_err(failed)
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

/// Draws a chart over time.
fn draw_times<DB: DrawingBackend>(area: &Area<DB>, figure: &Figure, wanted: &Wanted) -> Result<(), Error>
where
    DB::ErrorType: 'static,
{
    let (from, to) = figure.window;
    let stacked;
    let (lines, is_stack): (&[Line], bool) = match &figure.content {
        Content::Lines(lines) => (lines, false),
        Content::Stack(lines) => {
            stacked = stack(lines);
            (&stacked, true)
        }
        _ => (&[], false),
    };
    let of = |right: bool| bounds(lines.iter().filter(move |l| l.is_right == right).map(|l| &l.series), figure.window);
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
    let ink = color(wanted.theme.ink());
    area.draw(&Text::new(figure.title.clone(), (LEFT as i32, 8), font(16, &ink))).map_err(failed)?;
    let x = || Ticks { range: (from, to), labelled: times((from, to), figure.clock, 10) };
    let y = |scale: &Scale| Ticks { range: scale.range, labelled: scale.ticks.clone() };
    let other = right.clone().unwrap_or_else(|| left.clone());
    let mut chart = ChartBuilder::on(area)
        .margin_top(TOP)
        .margin_left(4)
        .margin_right(4)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
        .set_label_area_size(LabelAreaPosition::Right, if right.is_some() { RIGHT } else { 24 })
        .build_cartesian_2d(x(), y(&left))
        .map_err(failed)?
        .set_secondary_coord(x(), y(&other));
    chart
        .configure_mesh()
        .bold_line_style(color(wanted.theme.grid()))
        .light_line_style(TRANSPARENT)
        .axis_style(ink)
        .label_style(font(12, &ink))
        .axis_desc_style(font(13, &ink))
        .y_desc(left.name.clone())
        .x_label_formatter(&|at| clock(*at, figure.clock))
        .y_label_formatter(&|height| left.label(*height))
        .draw()
        .map_err(failed)?;
    if let Some(right) = &right {
        chart
            .configure_secondary_axes()
            .axis_style(ink)
            .label_style(font(12, &ink))
            .axis_desc_style(font(13, &ink))
            .y_desc(right.name.clone())
            .y_label_formatter(&|height| right.label(*height))
            .draw()
            .map_err(failed)?;
    }
    let pixels = chart.plotting_area().dim_in_pixel().0 as usize;
    if let Content::Heat(cells) = &figure.content {
        let most = cells.iter().map(|c| c.count).fold(0.0, f64::max);
        for cell in cells {
            // Logarithmic, so that small counts are visible beside large ones.
            let alpha = 0.15 + 0.85 * (1.0 + cell.count).ln() / (1.0 + most).ln();
            let corners =
                [(cell.time.0.max(from), left.at(cell.range.0)), (cell.time.1.min(to), left.at(cell.range.1))];
            let cell = Rectangle::new(corners, color(color_of(0)).mix(alpha).filled());
            chart.draw_series(std::iter::once(cell)).map_err(failed)?;
        }
    }
    if let Some(floor) = left.floor().filter(|_| !lines.is_empty()) {
        let dash = (to - from) / 80.0;
        let dashes = (0..40).map(|n| from + dash * 2.0 * f64::from(n));
        let dashes = dashes.map(|at| PathElement::new(vec![(at, floor), (at + dash, floor)], ink.stroke_width(1)));
        chart.draw_series(dashes).map_err(failed)?;
    }
    for (n, line) in lines.iter().enumerate() {
        let scale = if line.is_right { &other } else { &left };
        let ink = color(color_of(n));
        if is_stack {
            let below = n.checked_sub(1).and_then(|n| lines.get(n)).map(|l| &l.series);
            let filled = filled(&line.series, below, figure.window, pixels, scale);
            chart.draw_series(filled.into_iter().map(|points| Polygon::new(points, ink.filled()))).map_err(failed)?;
            continue;
        }
        let mut pieces = Vec::new();
        let (path, band) = paths(&line.series, figure.window, pixels, scale);
        let raw = if line.smooth.is_some() { ink.mix(0.45).stroke_width(1) } else { ink.stroke_width(1) };
        pieces.extend(path.into_iter().map(|points| (points, raw)));
        if let Some(width) = line.smooth {
            let (path, _) = paths(&smooth(&line.series, width), figure.window, pixels, scale);
            pieces.extend(path.into_iter().map(|points| (points, ink.stroke_width(3))));
        }
        let band = band.into_iter().map(|points| Polygon::new(points, ink.mix(0.25).filled()));
        let path = pieces.into_iter().map(|(points, style)| PathElement::new(points, style));
        if line.is_right {
            chart.draw_secondary_series(band).map_err(failed)?;
            chart.draw_secondary_series(path).map_err(failed)?;
        } else {
            chart.draw_series(band).map_err(failed)?;
            chart.draw_series(path).map_err(failed)?;
        }
    }
    let (low, high) = left.range;
    for (n, mark) in figure.marks.iter().filter(|m| (from..=to).contains(&m.at)).enumerate() {
        let bar = PathElement::new(vec![(mark.at, low), (mark.at, high)], ink.mix(0.6).stroke_width(1));
        chart.draw_series(std::iter::once(bar)).map_err(failed)?;
        // Staggered, so that adjacent labels do not overlap.
        let height = high - (high - low) * (0.01 + 0.04 * (n % 8) as f64);
        let anchor = if mark.at > from + (to - from) * 0.75 { HPos::Right } else { HPos::Left };
        let style = font(12, &ink).pos(Pos::new(anchor, VPos::Top));
        chart.draw_series(std::iter::once(Text::new(mark.text.clone(), (mark.at, height), style))).map_err(failed)?;
    }
    Ok(())
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
fn draw_bars<DB: DrawingBackend>(
    area: &Area<DB>,
    figure: &Figure,
    wanted: &Wanted,
    bars: &[(String, f64)],
) -> Result<(), Error>
where
    DB::ErrorType: 'static,
{
    let most = bars.iter().map(|(_, v)| *v).fold(0.0, f64::max);
    let scale = Scale::new(&figure.left, most, most, false);
    let ink = color(wanted.theme.ink());
    let draw =
        |text: String, at: (i32, i32), style: TextStyle<'_>| area.draw(&Text::new(text, at, style)).map_err(failed);
    draw(figure.title.clone(), (LEFT as i32, 8), font(16, &ink))?;
    draw(scale.name.clone(), (LEFT as i32, 26), font(12, &ink))?;
    let (width, height) = area.dim_in_pixel();
    let names = bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as i32 * 8 + 20;
    let room = (height as i32 - TOP as i32 - 16).max(1);
    let each = (room / bars.len().max(1) as i32).clamp(4, 60);
    for (n, (name, value)) in bars.iter().enumerate() {
        let (told, top) = (scale.at(*value), TOP as i32 + 10 + n as i32 * each);
        let long = (width as i32 - names - 110).max(1);
        let end = names + (f64::from(long) * told / scale.range.1).round() as i32;
        let bar = Rectangle::new([(names, top + each / 6), (end, top + each - each / 6)], color(color_of(n)).filled());
        area.draw(&bar).map_err(failed)?;
        let middle = top + each / 2;
        let side = |side: HPos| font(13, &ink).pos(Pos::new(side, VPos::Center));
        draw(name.clone(), (names - 8, middle), side(HPos::Right))?;
        draw(format!("{told:.1}"), (end + 6, middle), side(HPos::Left))?;
    }
    Ok(())
}
