//! Axis scales: tick positions and labels.

use super::Vertical;
use crate::format::Unit;

/// Possible distances between time labels, in seconds.
const STEPS: [f64; 24] = [
    0.001,
    0.01,
    0.1,
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
];

/// Labelled times in seconds since the start of the run, at round clock times.
pub(super) fn times((from, to): (f64, f64), clock: Option<f64>, most: usize) -> Vec<f64> {
    let start = clock.unwrap_or(0.0);
    let step = STEPS.iter().copied().find(|s| (to - from) / s <= most as f64).unwrap_or(2_592_000.0 * 12.0);
    let first = ((start + from) / step - 1e-9).ceil();
    (0..=most * 2).map(|n| (first + n as f64) * step - start).take_while(|t| *t <= to + step * 1e-9).collect()
}

/// The label of a time.
pub(super) fn clock(at: f64, start: Option<f64>) -> String {
    let at = at + start.map_or(0.0, |s| s.rem_euclid(86_400.0));
    let whole = (at + 1e-6).floor();
    let part = at - whole;
    let (mut h, m, s) = ((whole / 3600.0).floor(), (whole / 60.0).floor() % 60.0, whole % 60.0);
    if start.is_some() {
        h %= 24.0;
    }
    let part = if part > 5e-4 { format!("{part:.3}").trim_start_matches('0').to_owned() } else { String::new() };
    match start {
        None if h == 0.0 => format!("{m:.0}:{s:02.0}{part}"),
        _ => format!("{h:02.0}:{m:02.0}:{s:02.0}{part}"),
    }
}

/// A scale: maps values to heights and provides labels.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    /// Lowest and highest height.
    pub range: (f64, f64),
    /// Heights that have a label.
    pub ticks: Vec<f64>,
    /// The label of the axis.
    pub name: String,
    log: bool,
    /// Height of zero on a logarithmic axis.
    floor: Option<f64>,
    /// The unit of the labels in base units.
    factor: f64,
}

/// The unit for an axis with maximum `most`: its size in base units, and its name.
fn unit(axis: &Vertical, most: f64) -> (f64, String) {
    let per = if axis.per_second { "/s" } else { "" };
    let of = |list: &[(f64, &str)]| {
        let found = list.iter().find(|(factor, _)| most >= *factor).or(list.last());
        found.map_or((1.0, String::new()), |(factor, name)| (*factor, (*name).to_owned()))
    };
    let (factor, name) = match axis.unit {
        Unit::Bytes => of(&[
            (1024f64.powi(4), "TiB"),
            (1024f64.powi(3), "GiB"),
            (1024f64.powi(2), "MiB"),
            (1024.0, "KiB"),
            (1.0, "bytes"),
        ]),
        Unit::Seconds => of(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]),
        Unit::Percent => (1.0, "%".to_owned()),
        Unit::Count => (1.0, String::new()),
    };
    (factor, format!("{name}{per}"))
}

impl Scale {
    /// A scale for values from `least` (the smallest non-zero value) to `most`.
    pub fn new(axis: &Vertical, least: f64, most: f64, has_zeros: bool) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        // Over many orders of magnitude, the unit for the middle is the most readable.
        let shown = if axis.log && axis.unit == Unit::Seconds && least > 0.0 { (least * most).sqrt() } else { most };
        let (factor, unit) = unit(axis, shown);
        let name = match (axis.name.as_str(), unit.as_str()) {
            (name, "") => name.to_owned(),
            ("", unit) => unit.to_owned(),
            (name, unit) => format!("{name} [{unit}]"),
        };
        if axis.log {
            let least = if least > 0.0 { least } else { most };
            let low = (least / factor).log10().floor();
            let high = (most / factor).log10().ceil().max(low + 1.0);
            let floor = has_zeros.then_some(low - 0.5);
            let decades = (high - low) as usize;
            let each = decades.div_ceil(12).max(1);
            let mut ticks: Vec<f64> = (0..=decades).step_by(each).map(|n| low + n as f64).collect();
            ticks.splice(0..0, floor);
            return Self { range: (floor.unwrap_or(low), high), ticks, name, log: true, floor, factor };
        }
        if axis.unit == Unit::Percent && most <= 100.5 {
            let ticks = (0..=5).map(|n| f64::from(n) * 20.0).collect();
            return Self { range: (0.0, 100.0), ticks, name, log: false, floor: None, factor };
        }
        let most = most / factor;
        let power = 10f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|n| n * power).find(|s| most / s <= 6.0).unwrap_or(power * 10.0);
        let count = (most / step - 1e-9).ceil().max(1.0) as usize;
        let ticks = (0..=count).map(|n| n as f64 * step).collect();
        Self { range: (0.0, count as f64 * step), ticks, name, log: false, floor: None, factor }
    }

    /// The height of a value.
    pub fn at(&self, value: f64) -> f64 {
        let value = value / self.factor;
        match self.log {
            true if value > 0.0 => value.log10().clamp(self.range.0, self.range.1),
            true => self.floor.unwrap_or(self.range.0),
            false => value.clamp(self.range.0, self.range.1),
        }
    }

    /// The label at a height.
    pub fn label(&self, height: f64) -> String {
        if self.floor.is_some_and(|floor| (height - floor).abs() < 1e-9) {
            return "0".to_owned();
        }
        let value = if self.log { 10f64.powf(height) } else { height };
        let text = match value.abs() {
            v if v >= 1e7 || (v < 1e-4 && v > 0.0) => return format!("{value:.0e}"),
            v if v >= 1.0 && (v - v.round()).abs() < v * 1e-9 => format!("{value:.0}"),
            _ => format!("{value:.4}"),
        };
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }

    /// The height of the zero line, if it is marked.
    pub fn floor(&self) -> Option<f64> {
        self.floor
    }
}
