//! The tools whose output can be imported, and how their output is recognised.

use super::text::Source;
use super::{Error, Imported, Options, arcstat, fio, iostat, nicstat, vdbench, vmstat, zpool};
use std::path::Path;

/// A tool whose output can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// vmstat of Linux (procps) and Solaris.
    Vmstat,
    /// iostat of Linux (sysstat), Solaris and illumos; `weir iostat`.
    Iostat,
    /// nicstat with columns or `-p`; `weir nicstat`.
    Nicstat,
    /// zpool iostat, with `-v`, `-T`, `-H`, `-p`, `-l`, `-q`.
    Zpool,
    /// arcstat, zarcstat and `weir arcstat`.
    Arcstat,
    /// A log of fio: bandwidth, operations, latencies, histograms.
    Fio,
    /// Output of vdbench, summary.html, and flatfile.html.
    Vdbench,
}

/// The tool that wrote a text, by its name (logs of fio) or its headings.
pub fn detect(name: &Path, text: &str) -> Option<Tool> {
    if fio::kind(name).is_some() && fio::is_log(text) {
        return Some(Tool::Fio);
    }
    text.lines().take(200).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let has = |all: &[&str]| all.iter().all(|word| words.contains(word));
        match () {
            () if vdbench::is_heading(line) => Some(Tool::Vdbench),
            () if has(&["us", "sy", "id", "free"]) => Some(Tool::Vmstat),
            () if has(&["r/s", "w/s"]) || has(&["tps"]) || line.starts_with("avg-cpu:") => Some(Tool::Iostat),
            () if has(&["alloc", "free", "read", "write"]) || has(&["capacity", "operations", "bandwidth"]) => {
                Some(Tool::Zpool)
            }
            () if has(&["Int", "rKB/s"]) || has(&["RdKB", "WrKB"]) || nicstat::is_parsable(line) => Some(Tool::Nicstat),
            () if arcstat::is_heading(&words) => Some(Tool::Arcstat),
            () if zpool::is_scripted(line) => Some(Tool::Zpool),
            () => None,
        }
    })
}

/// Imports the output of a tool. `name` is the file name: it identifies logs of fio, and is used in
/// error messages.
pub fn read(name: &Path, text: &str, options: &Options) -> Result<Imported, Error> {
    let shown = name.display().to_string();
    let tool = detect(name, text).ok_or_else(|| Error::Unknown(shown.clone()))?;
    let source = Source { name: shown, text, options: *options };
    match tool {
        Tool::Vmstat => vmstat::read(&source),
        Tool::Iostat => iostat::read(&source),
        Tool::Nicstat => nicstat::read(&source),
        Tool::Zpool => zpool::read(&source),
        Tool::Arcstat => arcstat::read(&source),
        Tool::Fio => fio::read(&source, name),
        Tool::Vdbench => vdbench::read(&source),
    }
}
