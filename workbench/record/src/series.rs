//! A number over time: a sequence of time spans, each with a constant value.
//!
//! Invariants:
//!   * spans are sorted and do not overlap; a gap means that nothing was measured
//!   * for counted quantities the value is a rate, so that the area of a span is what happened in
//!     it

use crate::format::{Column, Kind, Labels, Stamp, Unit};

/// A value during a time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Start, in seconds since the start of the run.
    pub from: f64,
    /// End, in seconds since the start of the run.
    pub to: f64,
    pub value: f64,
}

/// A number over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub labels: Labels,
    pub unit: Unit,
    /// Whether the values are per second.
    pub per_second: bool,
    pub spans: Vec<Span>,
}

/// A row that comes later than this many intervals after the previous one follows a gap, except for
/// totals, whose growth in between is known.
const LATE: f64 = 1.5;

impl Series {
    /// A series without spans.
    pub fn new(name: &str, labels: &[(&str, &str)], unit: Unit, per_second: bool) -> Self {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), labels, unit, per_second, spans: Vec::new() }
    }

    /// A series from a column: rows and their values, NaN where nothing was measured.
    pub fn of_rows(column: &Column, rows: &[Stamp], values: &[f64], start: Stamp, every_ns: u64) -> Self {
        let second = |at: &Stamp| (at.mono_ns - start.mono_ns) as f64 / 1e9;
        let every = every_ns as f64 / 1e9;
        let mut spans = Vec::with_capacity(rows.len());
        let mut before: Option<(f64, f64)> = None;
        for (row, value) in rows.iter().zip(values).filter(|(_, v)| !v.is_nan()) {
            let to = second(row);
            let last = before.replace((to, *value));
            let from = match last {
                Some((from, _)) if column.kind == Kind::Total || to - from <= every * LATE => from,
                _ => to - every,
            };
            let value = match (column.kind, last) {
                (Kind::Total, Some((from, old))) if *value >= old && to > from => (value - old) / (to - from),
                // After a reset, and for the first row, the start is unknown.
                (Kind::Total, _) => continue,
                _ => *value,
            };
            if to > from {
                spans.push(Span { from: spans.last().map_or(from, |s: &Span| from.max(s.to)), to, value });
            }
        }
        let per_second = matches!(column.kind, Kind::Total | Kind::Rate);
        Self { name: column.name.clone(), labels: column.labels.clone(), unit: column.unit, per_second, spans }
    }

    /// The total: the area under the curve.
    pub fn area(&self) -> f64 {
        self.spans.iter().map(|s| s.value * (s.to - s.from)).sum()
    }

    /// The average over the measured time; `None` if nothing was measured.
    pub fn average(&self) -> Option<f64> {
        let seconds: f64 = self.spans.iter().map(|s| s.to - s.from).sum();
        (seconds > 0.0).then(|| self.area() / seconds)
    }

    /// The part between two times; spans across a boundary are cut.
    pub fn window(&self, from: f64, to: f64) -> Self {
        let cut = |s: &Span| Span { from: s.from.max(from), to: s.to.min(to), value: s.value };
        let spans = self.spans.iter().map(cut).filter(|s| s.to > s.from).collect();
        Self { spans, ..self.clone() }
    }

    /// The label values, for display.
    pub fn whose(&self) -> String {
        self.labels.values().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}
