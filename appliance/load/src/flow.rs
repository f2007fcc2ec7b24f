//! Flows: groups of threads that go through steps on sets of files, as vdbench's file systems and filebench's personalities do.
//!
//! ```text
//!   Fileset (where, how many, how large) <─ Group (threads, steps: create, open, read, append, sync, delete …) ─┐
//!                                                         Flow: all of them, at a rate or as fast as they go <──┘
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

/// Files below a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Fileset {
    /// What reports call it.
    pub name: String,
    /// The directory.
    pub anchor: Target,
    /// Levels of directories below it.
    pub depth: u32,
    /// Directories in each.
    pub width: u32,
    /// Files in each directory that has some.
    pub files: u64,
    /// Not only the lowest directories have files.
    pub everywhere: bool,
    /// Bytes of a file.
    pub sizes: Mix,
    /// Of a hundred files so many are there before the run.
    pub there: u8,
    /// Two threads may use the same file at once.
    pub shared: bool,
}

/// In which order a group takes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Random,
    /// One after the other, again and again.
    Sequential,
    /// One after the other, each once.
    Once,
}

/// What a thread does, again and again.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Makes a file that is not there, and keeps it open.
    Create,
    /// Opens one that is there, also for writing.
    Open(bool),
    /// Reads all of the open file.
    ReadAll(Mix),
    /// Writes a file's size of bytes to the open file.
    WriteAll(Mix),
    /// Writes behind its end.
    Append(Mix),
    /// Reads and writes parts of the open file.
    Parts {
        /// Of a hundred operations so many read.
        reads: u8,
        /// At random places, aligned to the length; else one behind the other.
        random: bool,
        /// Bytes of an operation.
        transfer: Mix,
        /// So many operations, or to the end of the file.
        count: Option<u64>,
    },
    /// Waits until what was written is safe.
    Sync,
    /// Closes it.
    Close,
    /// Removes a file that is there.
    Delete,
    /// Asks for attributes of one that is there.
    Look,
    /// Sets attributes of one that is there.
    Change,
    /// Makes a directory that is not there.
    MakeDirectory,
    /// Removes an empty directory.
    RemoveDirectory,
    /// Lists a directory.
    List,
    /// Does nothing for a while.
    Think(Duration),
}

/// Threads that do the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What reports call it.
    pub name: String,
    /// Which of the flow's file sets.
    pub fileset: usize,
    /// How many.
    pub threads: usize,
    /// Of a hundred operations of the whole flow so many are its; without: what others leave, in equal parts.
    pub skew: Option<f64>,
    /// Which files.
    pub order: Order,
    /// What.
    pub steps: Vec<Step>,
    /// Operations that have a rate and count; others come beside. Empty: all count.
    pub counted: Vec<What>,
}

/// What becomes of file sets before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// They must be there.
    Keep,
    /// What is missing of them, or has another size, is made.
    Fill,
    /// They are removed and made.
    Fresh,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// What reports call it.
    pub name: String,
    /// Sets of files.
    pub filesets: Vec<Fileset>,
    /// Threads.
    pub groups: Vec<Group>,
    /// When operations begin, of all groups together.
    pub arrivals: Arrivals,
    /// For how long; `None`: until `stop`, or until all threads have nothing left to do.
    pub time: Option<Duration>,
    /// So much of the beginning is not counted.
    pub ramp: Duration,
    /// What becomes of the file sets before.
    pub format: Format,
    /// How files are read and written.
    pub access: Access,
    /// The same seed does the same operations.
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
        let told: f64 = self.groups.iter().filter_map(|g| g.skew).sum();
        ensure!(told <= 100.01, "the skew of all groups is {told}, more than 100");
        Ok(())
    }

    /// What part of the rate each group has.
    fn parts(&self) -> Vec<f64> {
        let told: f64 = self.groups.iter().filter_map(|g| g.skew).sum();
        let silent = self.groups.iter().filter(|g| g.skew.is_none()).count();
        let rest = (100.0 - told).max(0.0) / silent.max(1) as f64;
        let parts: Vec<f64> = self.groups.iter().map(|g| g.skew.unwrap_or(rest)).collect();
        let all: f64 = parts.iter().sum();
        parts.iter().map(|p| p / all.max(1e-9)).collect()
    }
}
