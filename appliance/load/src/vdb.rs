//! Parameter files of vdbench: file systems (`fsd`), workloads (`fwd`), and runs (`rd`), as flows.
//!
//! The language: a line is `keyword=value,keyword=value…`; its first keyword determines what it
//! defines. A keyword may be abbreviated to a prefix. `default` as a name sets values for the
//! definitions that follow. Values in parentheses are lists; `(1-8,1)` and `(1-64,d)` are ranges,
//! with a step or doubled. A line that ends in a comma continues on the next. What follows a blank
//! is a comment, and so is a line that starts with `#`, `*` or `/`.
//!
//! Nothing in a file is ignored silently: an unknown or unsupported parameter is an error that
//! names it.

mod build;
mod parse;

use crate::flow::Flow;
use crate::target::Target;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
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
    /// Other rate.
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

/// Reads the runs of a file.
pub fn read(path: &Path, changes: &Changes) -> Result<Vec<Run>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let include = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    parse(&text, changes, &include).with_context(|| path.display().to_string())
}

/// Parses the runs of a text; `include` returns the text of another file.
pub fn parse(text: &str, changes: &Changes, include: &dyn Fn(&str) -> Result<String>) -> Result<Vec<Run>> {
    let lines = parse::lines(text, &changes.variables, include, 0)?;
    build::runs(&lines, changes)
}

#[cfg(test)]
mod tests;
