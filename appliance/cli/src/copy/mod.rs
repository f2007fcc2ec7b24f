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
//!     holes where the pool could not be read, and a [`damage::DamageMap`] next to it that lists
//!     them

pub mod attributes;
pub mod damage;
mod file;
mod options;
mod reach;
mod report;
mod walk;

pub use options::Options;
pub use report::Report;

use anyhow::Result;
use files::vfs::{Attr, Vfs};
use std::path::Path;

/// Copies `attr` (`shown` in messages) to `to`, which is its final name.
///
/// Errors that concern one file go to `report`. An error is returned only if nothing could be
/// copied at all.
pub fn copy(vfs: &dyn Vfs, attr: &Attr, shown: &str, to: &Path, options: &Options, report: &Report) -> Result<()> {
    walk::copy(vfs, attr, shown, to, options, report)
}

#[cfg(test)]
mod tests;
