//! nicstat: columns, `-x`, `-z`, and `-p` with colons; `weir nicstat`.

use super::reports::{Key, Reports};
use super::text::{Source, moment, of_day, plain};
use super::{Error, Imported};
use crate::format::Unit;

fn meaning(name: &str) -> Option<(&'static str, Unit, bool, f64)> {
    Some(match name {
        "rKB/s" | "RdKB" => ("net.received_bytes", Unit::Bytes, true, 1024.0),
        "wKB/s" | "WrKB" => ("net.sent_bytes", Unit::Bytes, true, 1024.0),
        "rMbps" => ("net.received_bytes", Unit::Bytes, true, 125_000.0),
        "wMbps" => ("net.sent_bytes", Unit::Bytes, true, 125_000.0),
        "rPk/s" | "RdPkt" => ("net.received_packets", Unit::Count, true, 1.0),
        "wPk/s" | "WrPkt" => ("net.sent_packets", Unit::Count, true, 1.0),
        "%Util" => ("net.busy", Unit::Percent, false, 1.0),
        "Sat" => ("net.saturation", Unit::Count, true, 1.0),
        "IErr" => ("net.receive_errors", Unit::Count, true, 1.0),
        "OErr" => ("net.send_errors", Unit::Count, true, 1.0),
        _ => return None,
    })
}

/// The columns of `-p`.
const PARSABLE: [&str; 8] = ["time", "Int", "rKB/s", "wKB/s", "rPk/s", "wPk/s", "%Util", "Sat"];

/// Time, name and six numbers; names may contain colons.
fn parsable(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    let parts: Vec<&str> = line.rsplitn(7, ':').collect();
    let (numbers, front) = (parts.get(..6)?, parts.get(6)?);
    let (time, name) = front.split_once(':')?;
    (time.len() >= 9 && time.parse::<u64>().is_ok() && numbers.iter().all(|n| plain(n).is_some()))
        .then(|| (time, name, numbers.iter().rev().copied().collect()))
}

/// Whether a line is output of `nicstat -p`.
pub(super) fn is_parsable(line: &str) -> bool {
    parsable(line.trim()).is_some()
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(true, true);
    let mut heading: Vec<String> = Vec::new();
    // The last line was a heading: with -z, another heading means an interval in which all devices
    // were idle.
    let mut is_bare = false;
    for (n, line) in source.text.lines().enumerate() {
        let line = line.trim();
        if let Some((time, name, numbers)) = parsable(line) {
            row(&mut reports, moment(time), name, &PARSABLE[2..], &numbers, source, n)?;
            continue;
        }
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.contains(&"InKB") || words.contains(&"InDG") {
            return Err(source.unsupported("nicstat -t and -u: what TCP and UDP do"));
        }
        if words.contains(&"rKB/s") || words.contains(&"RdKB") || words.contains(&"rMbps") {
            heading = words.iter().map(|w| (*w).to_owned()).collect();
            let extended = heading.first().and_then(|h| of_day(h));
            if let Some(at) = extended {
                // -x puts the time into the heading of each report.
                reports.begin(Some((super::Clock::Day, at)));
                if let Some(first) = heading.first_mut() {
                    *first = "Int".to_owned();
                }
            } else if is_bare {
                reports.begin(None);
            }
            is_bare = extended.is_none();
            continue;
        }
        if heading.is_empty() || words.is_empty() {
            continue;
        }
        if words.len() != heading.len() {
            return Err(source.wrong(n, format!("{} words, expected {} columns", words.len(), heading.len())));
        }
        is_bare = false;
        let mut names: Vec<&str> = heading.iter().map(String::as_str).collect();
        let clock = names.first().is_some_and(|name| name.eq_ignore_ascii_case("time"));
        let at = clock.then(|| words.remove(0));
        if clock {
            names.remove(0);
        }
        let (name, numbers) = (words.remove(0), words);
        match at {
            Some(word) => {
                row(&mut reports, moment(word), name, &names[1..], &numbers, source, n)?;
                if word == "boot" {
                    reports.is_boot();
                }
            }
            None => put(&mut reports, name, &names[1..], &numbers, source, n)?,
        }
    }
    if is_bare {
        reports.begin(None);
    }
    reports.finish(source)
}

/// A row with a time: a different time or a repeated device starts a new report.
fn row(
    reports: &mut Reports,
    at: Option<(super::Clock, f64)>,
    name: &str,
    headings: &[&str],
    numbers: &[&str],
    source: &Source<'_>,
    n: usize,
) -> Result<(), Error> {
    let received = Key::new("net.received_bytes", Unit::Bytes, true).of("device", name);
    let is_same = reports.last_at() == at.map(|(_, at)| at) && !reports.has(&received);
    if reports.len() == 0 || !is_same {
        reports.begin(at);
    }
    put(reports, name, headings, numbers, source, n)
}

fn put(
    reports: &mut Reports,
    name: &str,
    headings: &[&str],
    numbers: &[&str],
    source: &Source<'_>,
    n: usize,
) -> Result<(), Error> {
    for (heading, word) in headings.iter().zip(numbers) {
        let Some((column, unit, per_second, factor)) = meaning(heading) else { continue };
        let value = plain(word).ok_or_else(|| source.wrong(n, format!("{heading} is '{word}', expected a number")))?;
        reports.put(Key::new(column, unit, per_second).of("device", name), value * factor);
    }
    Ok(())
}
