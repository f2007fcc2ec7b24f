//! The file of a run: frames with a check each, columns within them.
//!
//! Format: docs/design/record.md. Above: `recorder` and the load generator write it, `series` and the charts read it.
//!
//! ```text
//!   "WEIRREC1"  M {about the run}  C [columns]  R rows  R rows  N {a note}  C [a device came]  R rows …  E {how it ended}
//! ```
//!
//! Invariants:
//!   * frames are only appended; a file that was cut off anywhere is the run up to its last whole frame, and says that it is torn
//!   * a column keeps its number, name, unit and kind for the whole run
//!   * both clocks of a row are told: UTC for people, the monotonic one for lengths

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

/// What a file begins with.
pub const MAGIC: &[u8; 8] = b"WEIRREC1";
/// How the names of these files end.
pub const EXTENSION: &str = "weirrec";
/// Largest frame, so that a damaged length is not believed.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Labels: what tells columns of one name apart, as `device=sda`.
pub type Labels = BTreeMap<String, String>;

/// In what a number is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Operations, packets, processes: what is counted.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Percent: 0 to 100.
    Percent,
}

/// How a number relates to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only grows: what happened between two rows is their difference. A smaller number is a new beginning.
    Total,
    /// Of each second, on average since the row before.
    Rate,
    /// Averaged since the row before; no rate, as a share or a time per operation.
    Mean,
    /// At the moment of the row.
    Level,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// What is counted, as `disk.read_bytes`. The names are in docs/design/record.md.
    pub name: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// In what it is told.
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

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Nanoseconds since 1970, UTC. It may jump.
    pub utc_ns: i64,
    /// Nanoseconds of CLOCK_MONOTONIC: lengths are taken from it.
    pub mono_ns: i64,
}

impl Stamp {
    /// Now.
    pub fn now() -> Self {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mono = mono.tv_sec.saturating_mul(1_000_000_000).saturating_add(mono.tv_nsec);
        Self { utc_ns: i64::try_from(utc.as_nanos()).unwrap_or(i64::MAX), mono_ns: mono }
    }

    /// The moment so much later on both clocks.
    pub fn plus(self, time: Duration) -> Self {
        let ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self { utc_ns: self.utc_ns.saturating_add(ns), mono_ns: self.mono_ns.saturating_add(ns) }
    }
}

/// About a run: what somebody must know who looks at the numbers later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// What it is called.
    pub title: String,
    /// Who wrote the file: program and version.
    pub program: String,
    /// When it began.
    pub started: Stamp,
    /// Nanoseconds between rows, as intended.
    pub every_ns: u64,
    /// The machine: name, kernel, processors, memory, links, disks.
    #[serde(default)]
    pub machine: Map<String, Value>,
    /// Whatever else: the configuration of a benchmark, tunables, who asked.
    #[serde(default)]
    pub about: Map<String, Value>,
}

impl Meta {
    /// One that begins now.
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

/// Something that happened at a moment: a step of a load, the end of warming up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at: Stamp,
    /// What.
    pub text: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: Stamp,
    /// Rows of the file.
    pub rows: u64,
    /// Reports that came too late and were left out.
    #[serde(default)]
    pub missed: u64,
}

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// It is no such file, or damaged.
    #[error("{}: byte {at}: {what}", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What was found, and what was expected.
        what: String,
    },
}
