//! What other tools print, as series: which tool it was is found out by its headings.
//!
//! ```text
//!   text ─> detect ─> vmstat | iostat | nicstat | zpool | arcstat ─> reports ─> series      (tables, a report each interval)
//!                  └> fio (one operation a line) | vdbench ──────────────────────^
//! ```
//!
//! Invariants:
//!   * the area under each series is what the source says: rate times interval, summed
//!   * the report of what was since boot is left out, and told; so is every row that was made up because -z had left it out
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

/// A tool whose output is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// vmstat of Linux (procps) and of Solaris.
    Vmstat,
    /// iostat of Linux (sysstat) and of Solaris, illumos; `weir iostat`.
    Iostat,
    /// nicstat, its columns and `-p`; `weir nicstat`.
    Nicstat,
    /// zpool iostat, with `-v`, `-T`, `-H`, `-p`, `-l`, `-q`.
    Zpool,
    /// arcstat, zarcstat and `weir arcstat`.
    Arcstat,
    /// A log of fio: bandwidth, operations, latencies, histograms.
    Fio,
    /// What vdbench prints, summary.html, and flatfile.html.
    Vdbench,
}

/// How it is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seconds between reports, where the text has no times. Otherwise they are taken from them; 1, if there are none.
    pub interval: Option<f64>,
    /// The first report is an interval too (the tool was called with -y).
    pub keep_first: bool,
}

/// What the times of a source are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// None: reports were counted.
    #[default]
    Counted,
    /// Hours, minutes, seconds, without a date.
    Day,
    /// Since 1970. Dates without a zone count as UTC.
    Utc,
}

/// One operation, where the source tells each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// When, in seconds since the begin.
    pub at: f64,
    /// Whether it wrote.
    pub is_write: bool,
    /// How long it took, in seconds; NaN: not told.
    pub seconds: f64,
    /// Its bytes.
    pub bytes: f64,
    /// Where, in bytes; NaN: not told.
    pub offset: f64,
}

/// Counts of operations by latency in a stretch of time, where the source has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Stretch of time, in seconds since the begin.
    pub time: (f64, f64),
    /// From which value, and to which, not included.
    pub range: (f64, f64),
    /// How many.
    pub count: f64,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// Its series; 0 is the begin.
    pub series: Vec<Series>,
    /// Single operations.
    pub operations: Vec<Operation>,
    /// Counts by latency.
    pub latencies: Vec<Bucket>,
    /// What the times are.
    pub clock: Clock,
    /// The begin, on that clock, in seconds.
    pub start: f64,
    /// What was left out or made up: sentences.
    pub notes: Vec<String>,
}

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Of none of the tools.
    #[error(
        "{0}: no heading of vmstat, iostat, nicstat, zpool iostat, arcstat or vdbench in it, and it is not named as a log of fio"
    )]
    Unknown(String),
    /// A line does not fit its heading.
    #[error("{name}: line {line}: {what}")]
    Line {
        /// Of which file.
        name: String,
        /// Its number, from 1.
        line: usize,
        /// What was found, and what was expected.
        what: String,
    },
    /// There is nothing behind the first report.
    #[error("{0}: no report behind the first, which tells what was since boot (--keep-first takes it)")]
    Empty(String),
    /// A form of the tool that is not read.
    #[error("{name}: Unsupported: {what}")]
    Unsupported {
        /// Of which file.
        name: String,
        /// What it is.
        what: String,
    },
}

/// Which tool wrote a text, by its name (logs of fio) or its headings.
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

/// Reads a text.
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
