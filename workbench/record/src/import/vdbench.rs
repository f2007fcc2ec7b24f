//! vdbench: its output and summary.html, for file systems (fwd) and devices (wd), and
//! flatfile.html.

use super::reports::{Key, Reports};
use super::text::{Source, date, month, of_day, plain};
use super::{Clock, Error, Imported};
use crate::format::Unit;

type Meaning = (&'static str, Unit, bool, f64);

const MB: f64 = 1_048_576.0;

/// Columns of a file system run after the interval number, named by the second heading line.
const FILES: [(&str, Option<Meaning>); 13] = [
    ("rate", Some(("load.operations", Unit::Count, true, 1.0))),
    ("resp", Some(("load.each", Unit::Seconds, false, 1e-3))),
    ("total", Some(("cpu.busy", Unit::Percent, false, 1.0))),
    ("sys", Some(("cpu.system", Unit::Percent, false, 1.0))),
    ("pct", Some(("load.read_share", Unit::Percent, false, 1.0))),
    ("rate", Some(("load.reads", Unit::Count, true, 1.0))),
    ("resp", Some(("load.read_each", Unit::Seconds, false, 1e-3))),
    ("rate", Some(("load.writes", Unit::Count, true, 1.0))),
    ("resp", Some(("load.write_each", Unit::Seconds, false, 1e-3))),
    ("read", Some(("load.read_bytes", Unit::Bytes, true, MB))),
    ("write", Some(("load.written_bytes", Unit::Bytes, true, MB))),
    ("total", None),
    ("size", None),
];

/// Columns of a device run after the interval number.
const DEVICES: [(&str, Option<Meaning>); 13] = [
    ("rate", Some(("load.operations", Unit::Count, true, 1.0))),
    ("1024**2", Some(("load.bytes", Unit::Bytes, true, MB))),
    ("i/o", None),
    ("pct", Some(("load.read_share", Unit::Percent, false, 1.0))),
    ("time", Some(("load.each", Unit::Seconds, false, 1e-3))),
    ("resp", Some(("load.read_each", Unit::Seconds, false, 1e-3))),
    ("resp", Some(("load.write_each", Unit::Seconds, false, 1e-3))),
    ("max", None),
    ("max", None),
    ("stddev", None),
    ("depth", None),
    ("sys+u", Some(("cpu.busy", Unit::Percent, false, 1.0))),
    ("sys", Some(("cpu.system", Unit::Percent, false, 1.0))),
];

/// Columns of flatfile.html.
fn flat(name: &str) -> Option<Meaning> {
    Some(match name.to_ascii_lowercase().as_str() {
        "reqrate" => ("load.requested", Unit::Count, true, 1.0),
        "rate" => ("load.operations", Unit::Count, true, 1.0),
        "mb/sec" => ("load.bytes", Unit::Bytes, true, MB),
        "mb_read" => ("load.read_bytes", Unit::Bytes, true, MB),
        "mb_write" => ("load.written_bytes", Unit::Bytes, true, MB),
        "read%" => ("load.read_share", Unit::Percent, false, 1.0),
        "resp" => ("load.each", Unit::Seconds, false, 1e-3),
        "read_rate" => ("load.reads", Unit::Count, true, 1.0),
        "write_rate" => ("load.writes", Unit::Count, true, 1.0),
        "read_resp" => ("load.read_each", Unit::Seconds, false, 1e-3),
        "write_resp" => ("load.write_each", Unit::Seconds, false, 1e-3),
        "cpu_used" => ("cpu.busy", Unit::Percent, false, 1.0),
        "cpu_kernel" => ("cpu.system", Unit::Percent, false, 1.0),
        _ => return None,
    })
}

/// Whether a line is a heading of vdbench.
pub(super) fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    line.contains(".ReqstdOps")
        || (words.contains(&"interval") && words.contains(&"i/o") && words.contains(&"MB/sec"))
        || is_flat(&words)
}

fn is_flat(words: &[&str]) -> bool {
    words.first() == Some(&"tod") && words.iter().any(|w| w.eq_ignore_ascii_case("interval")) && words.contains(&"rate")
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(false, false);
    let mut day = None;
    let mut columns: Option<&[(&str, Option<Meaning>)]> = None;
    let mut names: Vec<&str> = Vec::new();
    let mut runs: Vec<String> = Vec::new();
    let mut expects_second = false;
    for (n, line) in source.text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let starting = line.split_once("Starting RD=").map(|(_, run)| run.split([';', ' ']).next().unwrap_or_default());
        runs.extend(starting.map(str::to_owned));
        if is_flat(&words) {
            names = words;
            continue;
        }
        if !names.is_empty() && words.len() == names.len() {
            flat_row(&mut reports, source, n, &names, &words)?;
            continue;
        }
        if is_heading(line) {
            // Feb 16, 2021 .Interval. …
            if let (Some(m), Some(d), Some(y)) = (words.first(), words.get(1), words.get(2)) {
                let number = |text: &str| text.trim_end_matches(',').parse::<i16>().ok();
                let parts = month(m).zip(number(d)).zip(number(y));
                day = parts.and_then(|((m, d), y)| date(y, m, i8::try_from(d).ok()?));
            }
            columns = Some(if line.contains(".ReqstdOps") { &FILES } else { &DEVICES });
            expects_second = true;
            continue;
        }
        let Some(columns) = columns else { continue };
        if expects_second {
            let is_match = words.iter().take(columns.len()).zip(columns.iter()).all(|(w, (name, _))| w == name);
            if !is_match || words.len() < columns.len() {
                return Err(source.unsupported(format!("the columns '{}'", line.trim())));
            }
            expects_second = false;
            continue;
        }
        // 08:00:01.003 1 7876.0 …: the time and the interval number. Lines with averages have
        // avg_2-20 instead of the number.
        let Some(at) = words.first().and_then(|w| of_day(w)) else { continue };
        if words.get(1).is_none_or(|w| w.parse::<u32>().is_err()) || words.len() < columns.len() + 2 {
            continue;
        }
        reports.begin(Some(day.map_or((Clock::Day, at), |day| (Clock::Utc, day + at))));
        for ((name, meaning), word) in columns.iter().zip(&words[2..]) {
            let value = plain(word).ok_or_else(|| source.wrong(n, format!("{name} is '{word}', expected a number")))?;
            if let Some((name, unit, per_second, factor)) = meaning {
                reports.put(Key::new(name, *unit, *per_second), value * factor);
            }
        }
    }
    let mut out = reports.finish(source)?;
    if !runs.is_empty() {
        out.notes.push(format!("runs: {}", runs.join(", ")));
    }
    Ok(out)
}

/// A line of flatfile.html: the time, and the columns of the heading. Averages are omitted.
fn flat_row(reports: &mut Reports, source: &Source<'_>, n: usize, names: &[&str], words: &[&str]) -> Result<(), Error> {
    let interval = names.iter().position(|name| name.eq_ignore_ascii_case("interval"));
    let is_average = interval.and_then(|at| words.get(at)).is_none_or(|w| w.parse::<u32>().is_err());
    let Some(at) = words.first().and_then(|w| of_day(w)).filter(|_| !is_average) else { return Ok(()) };
    reports.begin(Some((Clock::Day, at)));
    for (name, word) in names.iter().zip(words) {
        let Some((column, unit, per_second, factor)) = flat(name) else { continue };
        // Missing numbers are n/a.
        if *word == "n/a" || *word == "max" {
            continue;
        }
        let value = plain(word).ok_or_else(|| source.wrong(n, format!("{name} is '{word}', expected a number")))?;
        reports.put(Key::new(column, unit, per_second), value * factor);
    }
    Ok(())
}
