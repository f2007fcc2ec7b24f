//! Parameter files of vdbench: file systems (`fsd`), what is done on them (`fwd`), and runs (`rd`), as flows.
//!
//! The language: a line is `keyword=value,keyword=value…`, its first keyword says what it defines. A keyword may be cut short as long as it
//! begins like one. `default` as a name gives values to those that follow. Values in parentheses are lists; `(1-8,1)` and `(1-64,d)` are
//! ranges, by steps and doubled. A line that ends in a comma goes on in the next. What follows a blank is a comment, and so is a line
//! that begins with `#`, `*` or `/`.
//!
//! What a file says is never passed over: what is not known, or not done, is an error that names it.

mod build;
mod parse;

use crate::flow::Flow;
use crate::target::Target;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What is changed of what a file says.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// So many times the files, the rate and the time; `None`: as the file says.
    pub scale: Option<f64>,
    /// Other directories, by the name of the `fsd`.
    pub anchors: BTreeMap<String, Target>,
    /// Another time for each run.
    pub elapsed: Option<Duration>,
    /// Another rate.
    pub rate: Option<f64>,
    /// Another format: `yes`, `no`, `restart`.
    pub format: Option<String>,
    /// Values of `$name`.
    pub variables: BTreeMap<String, String>,
    /// The seed.
    pub seed: u64,
}

/// A run of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name of the `rd`.
    pub name: String,
    /// What loops (`forxx`) chose for it.
    pub chosen: Vec<(String, String)>,
    /// What is done.
    pub flow: Flow,
    /// Only files are made, nothing is run.
    pub only_format: bool,
    /// Waits so long before it.
    pub pause: Duration,
}

/// The runs of a file.
pub fn read(path: &Path, changes: &Changes) -> Result<Vec<Run>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let include = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    parse(&text, changes, &include).with_context(|| path.display().to_string())
}

/// The runs of a text; `include` gives the text of another file.
pub fn parse(text: &str, changes: &Changes, include: &dyn Fn(&str) -> Result<String>) -> Result<Vec<Run>> {
    let lines = parse::lines(text, &changes.variables, include, 0)?;
    build::runs(&lines, changes)
}

#[cfg(test)]
mod tests;
