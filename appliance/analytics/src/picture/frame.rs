//! The frame around the plot area: title, axes, legend. Shared by PNG and SVG.

use super::color::{Coloring, Palette, Rgb, Theme};
use super::heat::{Drawn, Heat, heat};
use super::lines::{Kind, Shape, lines};
use super::{Area, Error, Raster};
use crate::catalogue::Shown;
use crate::column::Column;
use crate::engine::Answer;
use crate::scheme::Scheme;
use jiff::tz::TimeZone;

/// Margins around the plot area in pixels.
const LEFT: u32 = 76;
const RIGHT: u32 = 20;
const TOP: u32 = 34;
const BOTTOM: u32 = 24;
/// Height of a legend line in pixels.
const LEGEND: u32 = 14;
/// Minimum width of a picture with a frame in pixels, so that its text fits.
const NARROW: u32 = 320;
/// Width of a character in PNG, and approximately in SVG, in pixels.
pub(super) const CHARACTER: u32 = 8;

/// Horizontal alignment of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text in the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    pub x: u32,
    /// Upper edge; the text is 8 pixels high.
    pub y: u32,
    pub anchor: Anchor,
    pub text: String,
}

/// A rendered picture, before it is encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Size including the frame, in pixels.
    pub size: Area,
    /// Left and top of the plot area.
    pub place: (u32, u32),
    /// Contents of the plot area.
    pub raster: Raster,
    /// Colours of the codes.
    pub(super) colors: Vec<Rgb>,
    pub(super) theme: Theme,
    pub(super) title: String,
    pub(super) labels: Vec<Label>,
    /// Rectangles outside of the plot area: left, top, width, height.
    pub(super) boxes: Vec<(u32, u32, u32, u32, Rgb)>,
}

/// Options of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Options of a heat map; its area also applies to graphs.
    pub heat: Heat,
    /// Shape of a graph.
    pub shape: Shape,
    /// Palette of a heat map.
    pub palette: Palette,
    pub theme: Theme,
    /// Omits axes, title and legend.
    pub plain: bool,
}

/// Renders an answer for the seconds `from` to `to`.
pub fn of(answer: &Answer, (from, to): (u64, u64), wanted: &Wanted) -> Result<Picture, Error> {
    let step = answer.step.max(1);
    let from = from - from % step;
    let columns: Vec<Option<&Column>> =
        (0..to.saturating_sub(from).div_ceil(step)).map(|n| answer.columns.get(&(from + n * step))).collect();
    let end = from + step * columns.len() as u64;
    let mut frame = Frame::new(wanted, &answer.title);
    let raster = match answer.scheme {
        Some(scheme) => {
            let drawn = heat(&wanted.heat, scheme, &columns)?;
            frame.colors = wanted.palette.colors(wanted.theme);
            frame.heat(&drawn, &wanted.heat, &columns, answer.unit);
            drawn.raster
        }
        None => {
            let kind = if answer.shown == Shown::Level { Kind::Level } else { Kind::Rate(step) };
            let drawn = lines(wanted.heat.area, wanted.shape, kind, &columns)?;
            frame.colors = wanted.theme.series();
            let unit = if kind == Kind::Level { answer.unit.to_owned() } else { format!("{}/s", answer.unit) };
            let name = |key: &Option<u32>| match key {
                Some(key) => answer.words.get(key).map_or_else(|| key.to_string(), ToString::to_string),
                None if drawn.series.len() == 1 => unit.clone(),
                None => "<other>".to_owned(),
            };
            let series: Vec<(String, f64)> = drawn.series.iter().map(|(key, v)| (name(key), *v)).collect();
            frame.lines(drawn.top, &series, &unit);
            drawn.raster
        }
    };
    frame.times(from, end);
    Ok(frame.around(raster))
}

struct Frame<'a> {
    wanted: &'a Wanted,
    area: Area,
    title: String,
    colors: Vec<Rgb>,
    labels: Vec<Label>,
    boxes: Vec<(u32, u32, u32, u32, Rgb)>,
    legend: u32,
}

impl<'a> Frame<'a> {
    fn new(wanted: &'a Wanted, title: &str) -> Self {
        let area = wanted.heat.area;
        let (colors, labels, boxes) = Default::default();
        let mut frame = Self { wanted, area, title: title.to_owned(), colors, labels, boxes, legend: 0 };
        frame.label(LEFT, 6, Anchor::Start, title.to_owned());
        frame
    }

    fn label(&mut self, x: u32, y: u32, anchor: Anchor, text: String) {
        self.labels.push(Label { x, y, anchor, text });
    }

    /// Five labels next to the plot area, from the bottom.
    fn numbers(&mut self, text: impl Fn(f64) -> String) {
        let ticks = if self.area.height >= 100 { 4 } else { 1 };
        for n in 0..=ticks {
            let y = TOP + self.area.height - self.area.height * n / ticks;
            let ink = self.wanted.theme.ink();
            self.boxes.push((LEFT - 5, y, 5, 1, ink));
            self.label(LEFT - 8, y.saturating_sub(4), Anchor::End, text(f64::from(n) / f64::from(ticks)));
        }
    }

    fn times(&mut self, from: u64, to: u64) {
        let y = TOP + self.area.height + 8;
        let text = |second: u64, form: &str| {
            let second = i64::try_from(second).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
            second.map_or_else(String::new, |s| s.to_zoned(TimeZone::UTC).strftime(form).to_string())
        };
        self.label(LEFT, y, Anchor::Start, text(from, "%Y-%m-%d %H:%M:%S UTC"));
        self.label(LEFT + self.area.width, y, Anchor::End, text(to, "%H:%M:%S"));
    }

    fn heat(&mut self, drawn: &Drawn, heat: &Heat, columns: &[Option<&Column>], unit: &str) {
        let scheme = drawn.axis.scheme;
        self.numbers(|share| short(drawn.axis.at(share), scheme));
        let largest = columns.iter().flatten().map(|c| c.max).max().unwrap_or(0);
        let (above, below) = drawn.outside;
        let mut notes = Vec::new();
        if above > 0 {
            notes.push(format!("{above} {unit} above, max = {}", short(largest as f64, scheme)));
        }
        if below > 0 {
            notes.push(format!("{below} {unit} below"));
        }
        self.label(LEFT, 20, Anchor::Start, notes.join("; "));
        // A colour bar with its counts.
        let (y, each) = (TOP + self.area.height + BOTTOM, 2);
        for index in 0..128u32 {
            let color = self.colors.get(index as usize * 2).copied().unwrap_or_default();
            self.boxes.push((LEFT + index * each, y, each, 8, color));
        }
        let count = |index: u16| drawn.count_at(heat.coloring, index).map_or_else(String::new, |n| n.to_string());
        let scale = match heat.coloring {
            Coloring::Rank => "rank",
            Coloring::Linear => "linear",
            Coloring::Log => "log",
        };
        self.label(LEFT - 8, y, Anchor::End, scale.to_owned());
        for (index, anchor) in [(0, Anchor::Start), (128, Anchor::Middle), (255, Anchor::End)] {
            let text = count(index);
            self.label(LEFT + u32::from(index), y + 10, anchor, text);
        }
        self.legend = 2 * LEGEND;
    }

    fn lines(&mut self, top: f64, series: &[(String, f64)], unit: &str) {
        self.numbers(|share| decimal(top * share));
        self.label(LEFT, 20, Anchor::Start, unit.to_owned());
        for (n, (name, average)) in (0..).zip(series) {
            let y = TOP + self.area.height + BOTTOM + n * LEGEND;
            let color = self.colors.get(n as usize).copied().unwrap_or_default();
            self.boxes.push((LEFT, y, 8, 8, color));
            self.label(LEFT + 14, y, Anchor::Start, format!("{name}  {}", decimal(*average)));
        }
        self.legend = LEGEND * series.len() as u32;
    }

    fn around(mut self, raster: Raster) -> Picture {
        let (theme, title) = (self.wanted.theme, std::mem::take(&mut self.title));
        if self.wanted.plain {
            let (labels, boxes) = Default::default();
            let (size, place) = (self.area, (0, 0));
            return Picture { size, place, raster, colors: self.colors, theme, title, labels, boxes };
        }
        let size = Area {
            width: (LEFT + self.area.width + RIGHT).max(NARROW),
            height: TOP + self.area.height + BOTTOM + self.legend,
        };
        // A border around the plot area.
        let (w, h, ink) = (self.area.width, self.area.height, theme.ink());
        self.boxes.extend([(LEFT - 1, TOP, 1, h + 1, ink), (LEFT - 1, TOP + h, w + 2, 1, ink)]);
        let grid = theme.grid();
        self.boxes.extend([(LEFT - 1, TOP - 1, w + 2, 1, grid), (LEFT + w, TOP, 1, h, grid)]);
        // Labels that do not fit are truncated and end with "..".
        for label in &mut self.labels {
            let room = match label.anchor {
                Anchor::Start => size.width.saturating_sub(label.x),
                Anchor::Middle => 2 * label.x.min(size.width.saturating_sub(label.x)),
                Anchor::End => label.x,
            } / CHARACTER;
            if label.text.chars().count() > room as usize {
                label.text = label.text.chars().take(room.saturating_sub(2) as usize).chain("..".chars()).collect();
            }
        }
        let (labels, boxes) = (self.labels, self.boxes);
        Picture { size, place: (LEFT, TOP), raster, colors: self.colors, theme, title, labels, boxes }
    }
}

/// A number for display, with at most three decimals.
fn decimal(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1e12 => return format!("{value:.3e}"),
        v if v >= 100.0 || v == v.floor() => format!("{value:.0}"),
        v if v >= 0.001 => format!("{value:.3}"),
        _ => return format!("{value:.2e}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number of a scheme, with its unit.
fn short(value: f64, scheme: Scheme) -> String {
    let units: &[(f64, &str)] = match scheme {
        Scheme::Latency => &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")],
        Scheme::Size | Scheme::Offset => {
            &[(1099511627776.0, "TiB"), (1073741824.0, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")]
        }
        Scheme::Percent => &[(1.0, "%")],
    };
    let (factor, unit) = units.iter().find(|(f, _)| value >= *f).or(units.last()).copied().unwrap_or((1.0, ""));
    let value = value / factor;
    let text = if value >= 100.0 { format!("{value:.0}") } else { decimal((value * 100.0).round() / 100.0) };
    format!("{text} {unit}")
}
