//! vmstat: Linux (procps), with or without `-t`, and Solaris.

use super::reports::{Key, Reports};
use super::text::{Source, moment, plain};
use super::{Clock, Error, Imported};
use crate::format::Unit;

/// The meaning of a column, by its name and whether the table is from Solaris; sizes are in KiB
/// there.
fn meaning(name: &str, solaris: bool) -> Option<(&'static str, Unit, bool, f64)> {
    Some(match (name, solaris) {
        ("us", _) => ("cpu.user", Unit::Percent, false, 1.0),
        ("sy", _) => ("cpu.system", Unit::Percent, false, 1.0),
        ("id", _) => ("cpu.idle", Unit::Percent, false, 1.0),
        ("wa", false) => ("cpu.wait", Unit::Percent, false, 1.0),
        ("st", false) => ("cpu.steal", Unit::Percent, false, 1.0),
        ("r", _) => ("process.runnable", Unit::Count, false, 1.0),
        ("b", _) => ("process.blocked", Unit::Count, false, 1.0),
        ("free", _) => ("memory.free", Unit::Bytes, false, 1024.0),
        ("buff", _) => ("memory.buffers", Unit::Bytes, false, 1024.0),
        ("cache", _) => ("memory.cached", Unit::Bytes, false, 1024.0),
        ("si", false) => ("swap.in_bytes", Unit::Bytes, true, 1024.0),
        ("so", false) => ("swap.out_bytes", Unit::Bytes, true, 1024.0),
        ("bi", _) | ("pi", true) => ("paging.in_bytes", Unit::Bytes, true, 1024.0),
        ("bo", _) | ("po", true) => ("paging.out_bytes", Unit::Bytes, true, 1024.0),
        ("in", _) => ("cpu.interrupts", Unit::Count, true, 1.0),
        ("cs", _) => ("cpu.context_switches", Unit::Count, true, 1.0),
        _ => return None,
    })
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(true, false);
    let mut heading: Vec<String> = Vec::new();
    let mut before: Option<(Clock, f64)> = None;
    for (n, line) in source.text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if ["us", "id", "free"].iter().all(|w| words.contains(w)) {
            heading = words.iter().map(|w| (*w).to_owned()).collect();
            // With -t the last column is the time, and its heading the time zone.
            if let Some(last) = heading.last_mut().filter(|l| !l.bytes().all(|c| c.is_ascii_lowercase())) {
                *last = "-time".to_owned();
            }
            continue;
        }
        // Solaris's -T u and -T d print the time on a line of its own.
        if let Some(at) = moment(line) {
            before = Some(at);
            continue;
        }
        let is_row = words.first().is_some_and(|w| w.bytes().all(|c| c.is_ascii_digit()));
        if heading.is_empty() || !is_row {
            continue;
        }
        let timed = heading.last().is_some_and(|l| l == "-time");
        let columns = heading.len() - usize::from(timed);
        let at = if timed { words.get(columns..).and_then(|rest| moment(&rest.join(" "))) } else { before.take() };
        if words.len() < columns || (timed && at.is_none()) || (!timed && words.len() != columns) {
            return Err(source.wrong(n, format!("{} words, expected {} columns", words.len(), heading.len())));
        }
        let solaris = heading.iter().any(|h| h == "mf");
        // Solaris has two columns named sy: system calls, and the share of system time, which comes
        // after us.
        let us = heading.iter().position(|h| h == "us").unwrap_or(0);
        reports.begin(at);
        for (at, (name, word)) in heading.iter().zip(&words).enumerate().take(columns) {
            let value = plain(word).ok_or_else(|| source.wrong(n, format!("{name} is '{word}', expected a number")))?;
            if name == "sy" && at < us {
                continue;
            }
            if let Some((name, unit, per_second, factor)) = meaning(name, solaris) {
                reports.put(Key::new(name, unit, per_second), value * factor);
            }
        }
    }
    reports.finish(source)
}
