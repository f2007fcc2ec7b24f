//! The runs of a parameter file, and what may be changed in them.

use crate::flow::Flow;
use crate::target::Target;
use std::collections::BTreeMap;
use std::time::Duration;

/// Overrides for a parameter file.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Factor for the number of files, the rate and the time; `None`: as in the file.
    pub scale: Option<f64>,
    /// Other directories, by the name of the `fsd`.
    pub anchors: BTreeMap<String, Target>,
    /// Other duration for each run.
    pub elapsed: Option<Duration>,
    /// Operations per second, instead of `fwdrate`.
    pub rate: Option<f64>,
    /// Other format: `yes`, `no`, `restart`.
    pub format: Option<String>,
    /// Values of `$name`.
    pub variables: BTreeMap<String, String>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A run of a parameter file.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name of the `rd`.
    pub name: String,
    /// The values that loops (`forxx`) selected.
    pub chosen: Vec<(String, String)>,
    pub flow: Flow,
    /// Whether files are only created, without a run.
    pub only_format: bool,
    /// Pause before the run.
    pub pause: Duration,
}
