//! Copies files out of a pool: contents, holes, attributes, links.
//!
//! ```text
//!   walker ── bounded queue of pieces ──> workers: read, verified by the pool ── pwrite ──> files
//!      │                                     └ the last piece of a file sets its attributes
//!      └ creates directories, links, devices; directories get their times last
//! ```
//!
//! One thread walks the tree and reads no contents. The others read pieces of 1 MiB and write each
//! to its place, so that one large file uses all cores as well as many small ones do.
//!
//! Invariants:
//!   * nothing outside the target is touched, whatever names the pool contains: below the target,
//!     an existing symbolic link is never followed, and a name with a slash is refused
//!   * a copy is complete, or it is removed and reported; with [`Options::best_effort`] it has
//!     holes where the pool could not be read, and a [`damage::DamageMap`] beside it that lists
//!     them

pub mod attributes;
pub mod damage;
mod file;
mod reach;
mod walk;

use anyhow::Result;
use files::vfs::{Attr, Vfs};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to copy, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directories too, with their contents.
    pub recursive: bool,
    /// Keep the verified parts of a damaged file.
    pub best_effort: bool,
    /// Set owner and group of the copies (only root may).
    pub owner: bool,
    /// Number of threads that read and write contents.
    pub workers: usize,
}

impl Default for Options {
    /// At least two workers: one writes while the other reads.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let owner = rustix::process::geteuid().is_root();
        Self { recursive: false, best_effort: false, owner, workers: cores.clamp(2, 8) }
    }
}

/// Progress, failures and warnings, for the user and for the exit code.
pub struct Report {
    bar: ProgressBar,
    /// Files, directories and others that were not copied, or not completely.
    failed: AtomicU64,
    /// Kinds of warnings that were already printed.
    warned: Mutex<HashSet<String>>,
}

impl Report {
    /// Shows progress on `bar` (which may be hidden), failures and warnings on standard error.
    pub fn new(bar: ProgressBar) -> Self {
        Self { bar, failed: AtomicU64::new(0), warned: Mutex::new(HashSet::new()) }
    }

    /// Number of failures so far.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Reports an object that could not be copied.
    pub fn fail(&self, what: &str, error: impl std::fmt::Display) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.bar.suspend(|| eprintln!("weir cp: {what}: {error}"));
    }

    /// Reports an object that was copied with a loss. Printed once for each `kind`: it tends to
    /// affect thousands of files.
    fn warn(&self, kind: String, what: &str, error: impl std::fmt::Display) {
        if self.warned.lock().insert(kind) {
            self.bar.suspend(|| eprintln!("weir cp: warning: {what}: {error} (not repeated for other files)"));
        }
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn now_at(&self, what: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.to_owned());
        }
    }
}

/// Copies `attr` (`shown` in messages) to `to`, which is its final name.
///
/// Errors that concern one file go to `report`. An error is returned only if nothing could be
/// copied at all.
pub fn copy(vfs: &dyn Vfs, attr: &Attr, shown: &str, to: &Path, options: &Options, report: &Report) -> Result<()> {
    walk::copy(vfs, attr, shown, to, options, report)
}

#[cfg(test)]
mod tests;
