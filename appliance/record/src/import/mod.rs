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
mod vdbench;
mod vmstat;
mod zpool;

use crate::series::Series;
use std::path::Path;

/// A tool whose output can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// vmstat of Linux (procps) and Solaris.
    Vmstat,
    /// iostat of Linux (sysstat), Solaris and illumos; `weir iostat`.
    Iostat,
    /// nicstat with columns or `-p`; `weir nicstat`.
    Nicstat,
    /// zpool iostat, with `-v`, `-T`, `-H`, `-p`, `-l`, `-q`.
    Zpool,
    /// arcstat, zarcstat and `weir arcstat`.
    Arcstat,
    /// A log of fio: bandwidth, operations, latencies, histograms.
    Fio,
    /// Output of vdbench, summary.html, and flatfile.html.
    Vdbench,
}

/// Import options.
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
    /// Size in bytes.
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
    /// Number of operations.
    pub count: f64,
}

/// The result of an import.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// Series; time 0 is the start.
    pub series: Vec<Series>,
    /// Single operations.
    pub operations: Vec<Operation>,
    /// Counts by latency.
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
        "{0}: no heading of vmstat, iostat, nicstat, zpool iostat, arcstat or vdbench in it, and it is not named as a log of fio"
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
    #[error("{0}: no report behind the first, which tells what was since boot (--keep-first takes it)")]
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

/// The tool that wrote a text, by its name (logs of fio) or its headings.
pub fn detect(name: &Path, text: &str) -> Option<Tool> {
    if fio::kind(name).is_some() && fio::is_log(text) {
        return Some(Tool::Fio);
    }
    text.lines().take(200).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let has = |all: &[&str]| all.iter().all(|word| words.contains(word));
        match () {
            () if vdbench::is_heading(line) => Some(Tool::Vdbench),
            () if has(&["us", "sy", "id", "free"]) => Some(Tool::Vmstat),
            () if has(&["r/s", "w/s"]) || has(&["tps"]) || line.starts_with("avg-cpu:") => Some(Tool::Iostat),
            () if has(&["alloc", "free", "read", "write"]) || has(&["capacity", "operations", "bandwidth"]) => {
                Some(Tool::Zpool)
            }
            () if has(&["Int", "rKB/s"]) || has(&["RdKB", "WrKB"]) || nicstat::is_parsable(line) => Some(Tool::Nicstat),
            () if arcstat::is_heading(&words) => Some(Tool::Arcstat),
            () if zpool::is_scripted(line) => Some(Tool::Zpool),
            () => None,
        }
    })
}

/// Imports the output of a tool. `name` is the file name: it identifies logs of fio, and is used in
/// error messages.
pub fn read(name: &Path, text: &str, options: &Options) -> Result<Imported, Error> {
    let shown = name.display().to_string();
    let tool = detect(name, text).ok_or_else(|| Error::Unknown(shown.clone()))?;
    let source = text::Source { name: shown, text, options: *options };
    match tool {
        Tool::Vmstat => vmstat::read(&source),
        Tool::Iostat => iostat::read(&source),
        Tool::Nicstat => nicstat::read(&source),
        Tool::Zpool => zpool::read(&source),
        Tool::Arcstat => arcstat::read(&source),
        Tool::Fio => fio::read(&source, name),
        Tool::Vdbench => vdbench::read(&source),
    }
}
