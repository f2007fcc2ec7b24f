//! Flows: groups of threads that execute steps on sets of files, like vdbench's file systems and
//! filebench's personalities.
//!
//! ```text
//! Fileset (where, how many, how large) <─ Group (threads, steps: create, open, read, sync …)
//! Flow: all groups, at a rate or as fast as possible
//! ```

mod files;
mod mix;
pub mod profile;
mod run;

pub use mix::Mix;

use crate::pace::Arrivals;
use crate::target::Target;
pub use crate::tree::Access;
use crate::watch::What;
use anyhow::{Result, ensure};
use std::time::Duration;

/// A set of files below a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Fileset {
    /// Name in reports.
    pub name: String,
    /// The directory, local or on a server.
    pub anchor: Target,
    /// Levels of directories below it.
    pub depth: u32,
    /// Subdirectories in each directory.
    pub width: u32,
    /// Files in each directory that contains files.
    pub files: u64,
    /// Whether all directories contain files, not only the lowest.
    pub everywhere: bool,
    /// File sizes in bytes.
    pub sizes: Mix,
    /// Percentage of files that exist before the run.
    pub there: u8,
    /// Whether two threads may use the same file at once.
    pub shared: bool,
}

/// The order in which a group selects files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Random,
    /// In sequence, repeatedly.
    Sequential,
    /// In sequence, each file once.
    Once,
}

/// A step that threads repeat.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Creates a file that does not exist, and keeps it open.
    Create,
    /// Opens an existing file; `true`: also for writing.
    Open(bool),
    /// Reads the whole open file.
    ReadAll(Mix),
    /// Writes the whole open file, up to its size.
    WriteAll(Mix),
    /// Appends to the open file.
    Append(Mix),
    /// Reads and writes parts of the open file.
    Parts {
        /// Percentage of reads.
        reads: u8,
        /// At random offsets, aligned to the length; otherwise sequentially.
        random: bool,
        /// Operation size in bytes.
        transfer: Mix,
        /// Number of operations; `None`: to the end of the file.
        count: Option<u64>,
    },
    /// Waits until written data is stable.
    Sync,
    /// Closes the open file.
    Close,
    /// Removes an existing file.
    Delete,
    /// Reads the attributes of an existing file.
    Look,
    /// Sets attributes of an existing file.
    Change,
    /// Creates a directory that does not exist.
    MakeDirectory,
    /// Removes an empty directory.
    RemoveDirectory,
    List,
    /// Waits without doing anything.
    Think(Duration),
}

/// Threads with the same steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name in reports.
    pub name: String,
    /// Index of the flow's file set.
    pub fileset: usize,
    pub threads: usize,
    /// Percentage of the flow's operations; `None`: an equal share of the remainder.
    pub skew: Option<f64>,
    pub order: Order,
    pub steps: Vec<Step>,
    /// Types of operations that the rate and the count apply to; others are auxiliary. Empty: all.
    pub counted: Vec<What>,
}

/// Preparation of file sets before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// They must exist.
    Keep,
    /// Files that are missing or have the wrong size are created.
    Fill,
    /// They are removed and recreated.
    Fresh,
}

/// A complete flow: file sets, groups and their rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Name in reports.
    pub name: String,
    pub filesets: Vec<Fileset>,
    pub groups: Vec<Group>,
    /// When operations start, for all groups together.
    pub arrivals: Arrivals,
    /// Duration; `None`: until `stop`, or until all threads are finished.
    pub time: Option<Duration>,
    /// Length of the ramp at the start, which is not counted.
    pub ramp: Duration,
    /// Preparation of the file sets.
    pub format: Format,
    /// How files are read and written.
    pub access: Access,
    /// Seed: the same seed gives the same operations.
    pub seed: u64,
}

impl Flow {
    fn check(&self) -> Result<()> {
        ensure!(!self.groups.is_empty(), "{}: nothing to do", self.name);
        for set in &self.filesets {
            ensure!(set.depth <= 16 && set.width <= 1 << 20, "{}: at most 16 levels of 2^20 directories", set.name);
            ensure!(set.count() > 0 && set.count() <= 1 << 32, "{}: 1 to 2^32 files, not {}", set.name, set.count());
        }
        for group in &self.groups {
            ensure!(group.fileset < self.filesets.len(), "{}: no file set", group.name);
            ensure!((1..=4096).contains(&group.threads), "{}: 1 to 4096 threads", group.name);
            ensure!(!group.steps.is_empty(), "{}: no steps", group.name);
        }
        let specified: f64 = self.groups.iter().filter_map(|g| g.skew).sum();
        ensure!(specified <= 100.01, "the skew of all groups is {specified}, more than 100");
        Ok(())
    }

    /// The share of each group in the rate.
    fn parts(&self) -> Vec<f64> {
        let specified: f64 = self.groups.iter().filter_map(|g| g.skew).sum();
        let silent = self.groups.iter().filter(|g| g.skew.is_none()).count();
        let rest = (100.0 - specified).max(0.0) / silent.max(1) as f64;
        let parts: Vec<f64> = self.groups.iter().map(|g| g.skew.unwrap_or(rest)).collect();
        let all: f64 = parts.iter().sum();
        parts.iter().map(|p| p / all.max(1e-9)).collect()
    }
}
