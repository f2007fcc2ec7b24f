//! A number over time: stretches, each with the value that held in it.
//!
//! Invariants:
//!   * stretches are in order and do not overlap; where there is none, nobody measured
//!   * of what is counted the value is a rate, so that the area of a stretch is what happened in it

use crate::format::{Column, Kind, Labels, Stamp, Unit};

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Its begin, in seconds since the run's.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// The value.
    pub value: f64,
}

/// A number over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Whose it is.
    pub labels: Labels,
    /// In what it is told.
    pub unit: Unit,
    /// Whether it is told a second.
    pub per_second: bool,
    /// Its stretches.
    pub spans: Vec<Span>,
}

/// A stretch that is longer than so many intervals lies behind a gap, unless it is a total's: what was in between is known then.
const LATE: f64 = 1.5;

impl Series {
    /// Without stretches yet.
    pub fn new(name: &str, labels: &[(&str, &str)], unit: Unit, per_second: bool) -> Self {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), labels, unit, per_second, spans: Vec::new() }
    }

    /// Of a column: rows and their numbers, NaN where nobody measured.
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
                // What began anew, and the first row: since when is not known.
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

    /// What happened in all: the area under the curve.
    pub fn area(&self) -> f64 {
        self.spans.iter().map(|s| s.value * (s.to - s.from)).sum()
    }

    /// Its average over what was measured; nothing, if nothing was.
    pub fn average(&self) -> Option<f64> {
        let seconds: f64 = self.spans.iter().map(|s| s.to - s.from).sum();
        (seconds > 0.0).then(|| self.area() / seconds)
    }

    /// The part between two moments; a stretch across an end is cut.
    pub fn window(&self, from: f64, to: f64) -> Self {
        let cut = |s: &Span| Span { from: s.from.max(from), to: s.to.min(to), value: s.value };
        let spans = self.spans.iter().map(cut).filter(|s| s.to > s.from).collect();
        Self { spans, ..self.clone() }
    }

    /// Labels as people read them: the values.
    pub fn whose(&self) -> String {
        self.labels.values().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}
