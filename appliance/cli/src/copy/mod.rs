//! Copying out of a pool: contents, holes, attributes, links.
//!
//! ```text
//!   walker ── bounded queue of pieces ──> workers: read, verified by the pool ── pwrite ──> files
//!      │                                     └ the last piece of a file sets its attributes
//!      └ makes directories, links, devices; directories get their times last
//! ```
//!
//! One thread walks and does not read contents; the others read pieces of 1 MiB and write each where it belongs, so a
//! large file keeps all cores busy as well as many small ones do.
//!
//! Invariants:
//!   * nothing outside the target is touched, whatever names the pool holds: below the target, an existing symbolic link
//!     is never followed, and a name with a slash is refused
//!   * a file is whole, or it is gone and reported; with [`Options::best_effort`] it has holes where the pool could not
//!     tell, and a [`damage::DamageMap`] beside it that lists them

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

/// What to copy and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directories too, with all that is in them.
    pub recursive: bool,
    /// Keep what can be verified of a damaged file.
    pub best_effort: bool,
    /// Give the copies their owner and group (only root may).
    pub owner: bool,
    /// Threads that read and write contents.
    pub workers: usize,
}

impl Default for Options {
    /// Two workers at least: one writes while the other reads.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let owner = rustix::process::geteuid().is_root();
        Self { recursive: false, best_effort: false, owner, workers: cores.clamp(2, 8) }
    }
}

/// What happened, for the person who waits and for the exit code.
pub struct Report {
    bar: ProgressBar,
    /// Files, directories and others that did not come out, or not whole.
    failed: AtomicU64,
    /// Kinds of warning given already.
    warned: Mutex<HashSet<String>>,
}

impl Report {
    /// Shows progress on `bar` (which may be hidden), failures and warnings on standard error.
    pub fn new(bar: ProgressBar) -> Self {
        Self { bar, failed: AtomicU64::new(0), warned: Mutex::new(HashSet::new()) }
    }

    /// How many failed so far.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Something did not come out.
    pub fn fail(&self, what: &str, error: impl std::fmt::Display) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.bar.suspend(|| eprintln!("weir cp: {what}: {error}"));
    }

    /// Something came out with less than it had. Said once for each `kind`: it tends to hit thousands of files.
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

/// Copies what `attr` stands for (`shown` to people) to `to`, which is its final name.
///
/// Errors that concern one file go to `report`; what is returned is that nothing could be done at all.
pub fn copy(vfs: &dyn Vfs, attr: &Attr, shown: &str, to: &Path, options: &Options, report: &Report) -> Result<()> {
    walk::copy(vfs, attr, shown, to, options, report)
}

#[cfg(test)]
mod tests;
