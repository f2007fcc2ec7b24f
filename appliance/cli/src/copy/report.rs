//! Progress, failures and warnings of copying.

use indicatif::ProgressBar;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(super) fn warn(&self, kind: String, what: &str, error: impl std::fmt::Display) {
        if self.warned.lock().insert(kind) {
            self.bar.suspend(|| eprintln!("weir cp: warning: {what}: {error} (not repeated for other files)"));
        }
    }

    pub(super) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    pub(super) fn now_at(&self, what: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_message(what.to_owned());
        }
    }
}
