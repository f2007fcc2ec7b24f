//! Imports the output of other tools as series. The headings identify the tool.
//!
//! ```text
//! text ─> detect ─> vmstat | iostat | nicstat | zpool | arcstat ─> reports ─> series
//!                │  (tables, one report per interval)                           ^
//!                └> fio (one operation per line) | vdbench ─────────────────────┘
//! ```
//!
//! Invariants:
//!   * the area under each series is what the source reports: rate times interval, summed
//!   * the report since boot is omitted, and so noted; so is every row that is filled in because -z
//!     omitted it
//!   * units are base units: bytes, seconds, percent; a number is never guessed

mod arcstat;
mod fio;
mod iostat;
mod nicstat;
mod reports;
#[cfg(test)]
mod tests;
mod text;
mod tool;
mod vdbench;
mod vmstat;
mod zpool;

pub use tool::{Tool, detect, read};

use crate::series::Series;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seconds between reports if the text has no times. Otherwise derived from the times; 1 if
    /// there are none.
    pub interval: Option<f64>,
    /// The first report covers an interval, too (the tool was called with -y).
    pub keep_first: bool,
}

/// Kind of the times in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// No times: reports were counted.
    #[default]
    Counted,
    /// Time of day without a date.
    Day,
    /// Since 1970. Dates without a time zone are taken as UTC.
    Utc,
}

/// One operation, if the source lists each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// Time in seconds since the start.
    pub at: f64,
    pub is_write: bool,
    /// Latency in seconds; NaN if unknown.
    pub seconds: f64,
    pub bytes: f64,
    /// Offset in bytes; NaN if unknown.
    pub offset: f64,
}

/// A count of operations by latency in a time span, if the source has histograms.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Time span in seconds since the start.
    pub time: (f64, f64),
    /// Lower bound, and upper bound (exclusive).
    pub range: (f64, f64),
    pub count: f64,
}

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// Series; time 0 is the start.
    pub series: Vec<Series>,
    /// Empty unless the source lists each operation.
    pub operations: Vec<Operation>,
    /// Empty unless the source has histograms.
    pub latencies: Vec<Bucket>,
    /// Kind of the times.
    pub clock: Clock,
    /// Start on that clock, in seconds.
    pub start: f64,
    /// What was omitted or filled in, as sentences.
    pub notes: Vec<String>,
}

/// Why a text could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The output of no known tool.
    #[error(
        "{0}: contains no heading of vmstat, iostat, nicstat, zpool iostat, arcstat or vdbench, and is not named like a log of fio"
    )]
    Unknown(String),
    /// A line does not match its heading.
    #[error("{name}: line {line}: {what}")]
    Line {
        /// Name of the file.
        name: String,
        /// Line number, from 1.
        line: usize,
        /// What was found, and what was expected.
        what: String,
    },
    /// There is no report after the first one.
    #[error("{0}: no report after the first, which covers the time since boot (--keep-first includes it)")]
    Empty(String),
    /// An unsupported output format of the tool.
    #[error("{name}: Unsupported: {what}")]
    Unsupported {
        /// Name of the file.
        name: String,
        /// Description of the format.
        what: String,
    },
}
