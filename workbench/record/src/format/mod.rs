//! The file of a run: frames with checksums, and columns within them.
//!
//! Format: docs/design/record.md. Above: `recorder` and the load generator write it, `series` and
//! the charts read it.
//!
//! ```text
//! "WEIRREC1"  M {about the run}  C [columns]  R rows  R rows  N {a note}
//!             C [a new device]  R rows …  E {how it ended}
//! ```
//!
//! Invariants:
//!   * frames are only appended; a truncated file is the run up to its last whole frame, and is
//!     reported as torn
//!   * a column keeps its number, name, unit and kind for the whole run
//!   * a row has both clocks: UTC for people, the monotonic one for durations

mod block;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::Run;
pub use write::Writer;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first bytes of a file.
pub const MAGIC: &[u8; 8] = b"WEIRREC1";
/// Extension of the file names.
pub const EXTENSION: &str = "weirrec";
/// Largest frame in bytes, so that a corrupt length is rejected.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Labels: distinguish columns with the same name, for example `device=sda`.
pub type Labels = BTreeMap<String, String>;

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A count of operations, packets or processes.
    Count,
    Bytes,
    Seconds,
    /// Percent, 0 to 100.
    Percent,
}

/// How a number relates to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only grows: the difference between two rows is what happened in between. A decrease is a
    /// counter reset.
    Total,
    /// Per second, averaged since the previous row.
    Rate,
    /// Averaged since the previous row, but not a rate: a share or a time per operation.
    Mean,
    /// The value at the time of the row.
    Level,
}

/// The definition of a column: a metric with labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// Name of the metric, for example `disk.read_bytes`. The names are listed in
    /// docs/design/record.md.
    pub name: String,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    pub unit: Unit,
    /// How it relates to time.
    pub kind: Kind,
}

impl Column {
    /// A column with labels.
    pub fn new(name: &str, labels: &[(&str, &str)], unit: Unit, kind: Kind) -> Self {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), labels, unit, kind }
    }
}

/// Number of a column in its file, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// A time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Nanoseconds since 1970, UTC. May jump.
    pub utc_ns: i64,
    /// Nanoseconds of CLOCK_MONOTONIC, used for durations.
    pub mono_ns: i64,
}

impl Stamp {
    /// Reads both clocks, one after the other.
    pub fn now() -> Self {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mono = mono.tv_sec.saturating_mul(1_000_000_000).saturating_add(mono.tv_nsec);
        Self { utc_ns: i64::try_from(utc.as_nanos()).unwrap_or(i64::MAX), mono_ns: mono }
    }

    /// This time plus `time`, on both clocks.
    pub fn plus(self, time: Duration) -> Self {
        let ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self { utc_ns: self.utc_ns.saturating_add(ns), mono_ns: self.mono_ns.saturating_add(ns) }
    }
}

/// Description of a run: what is needed to interpret the numbers later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    pub title: String,
    /// Program that wrote the file, and its version.
    pub program: String,
    pub started: Stamp,
    /// Intended interval between rows in nanoseconds.
    pub every_ns: u64,
    /// The machine: name, kernel, processors, memory, links, disks.
    #[serde(default)]
    pub machine: Map<String, Value>,
    /// Anything else: benchmark configuration, tunables, requester.
    #[serde(default)]
    pub about: Map<String, Value>,
}

impl Meta {
    /// A description of a run that starts now.
    pub fn now(title: &str, every: Duration) -> Self {
        Self {
            title: title.to_owned(),
            program: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            started: Stamp::now(),
            every_ns: u64::try_from(every.as_nanos()).unwrap_or(u64::MAX),
            machine: Map::new(),
            about: Map::new(),
        }
    }
}

/// An event: a step of a load, the end of the warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: Stamp,
    pub text: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub at: Stamp,
    /// Number of rows in the file.
    pub rows: u64,
    /// Number of rows that were due but missed.
    #[serde(default)]
    pub missed: u64,
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {error}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        error: io::Error,
    },
    /// The file is not a run, or is corrupt.
    #[error("{}: byte {at}: {what}", path.display())]
    Corrupt {
        path: PathBuf,
        /// Byte offset.
        at: u64,
        /// What was found, and what was expected.
        what: String,
    },
}
