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
mod run;

pub use run::{Changes, Run};

use anyhow::{Context, Result};
use std::path::Path;

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
