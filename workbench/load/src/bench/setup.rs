//! Parameters of a run.

use super::counters::Ask;
use super::work::Work;
use judge::Claim;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Setup {
    pub name: String,
    pub work: Work,
    pub folder: PathBuf,
    pub warm: Duration,
    pub repeats: usize,
    pub claim: Option<Claim>,
    /// Speed of a link that this machine cannot determine, in bytes per second.
    pub link_bytes: Option<f64>,
    /// The program to query for the pool's configuration.
    pub weir: PathBuf,
    pub ask: Option<Ask>,
}

/// `weir` next to this program; otherwise its name, which is looked up in `$PATH`.
pub(super) fn weir() -> PathBuf {
    let sibling = std::env::current_exe().ok().map(|this| this.with_file_name("weir"));
    sibling.filter(|path| path.is_file()).unwrap_or_else(|| "weir".into())
}
