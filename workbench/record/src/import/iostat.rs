//! iostat: Linux (sysstat), with or without `-x`, `-c`, `-t`, `-k`, `-m`, `-z`; Solaris and illumos
//! with `-x`, `-n`, `-c`, `-M`, `-T`, `-z`; `weir iostat`.

use super::reports::{Key, Reports};
use super::text::{Source, moment, scaled};
use super::{Clock, Error, Imported};
use crate::format::Unit;

fn meaning(name: &str) -> Option<(&'static str, Unit, bool, f64)> {
    let (kib, mib) = (1024.0, 1_048_576.0);
    Some(match name {
        "r/s" => ("disk.reads", Unit::Count, true, 1.0),
        "w/s" => ("disk.writes", Unit::Count, true, 1.0),
        "d/s" => ("disk.discards", Unit::Count, true, 1.0),
        "f/s" => ("disk.flushes", Unit::Count, true, 1.0),
        "tps" => ("disk.transfers", Unit::Count, true, 1.0),
        "kr/s" | "rkB/s" | "kB_read/s" | "Kr/s" => ("disk.read_bytes", Unit::Bytes, true, kib),
        "kw/s" | "wkB/s" | "kB_wrtn/s" | "Kw/s" => ("disk.written_bytes", Unit::Bytes, true, kib),
        "Mr/s" | "rMB/s" | "MB_read/s" => ("disk.read_bytes", Unit::Bytes, true, mib),
        "Mw/s" | "wMB/s" | "MB_wrtn/s" => ("disk.written_bytes", Unit::Bytes, true, mib),
        "dkB/s" | "kB_dscd/s" => ("disk.discarded_bytes", Unit::Bytes, true, kib),
        "dMB/s" | "MB_dscd/s" => ("disk.discarded_bytes", Unit::Bytes, true, mib),
        "wait" => ("disk.waiting", Unit::Count, false, 1.0),
        "actv" => ("disk.active", Unit::Count, false, 1.0),
        "aqu-sz" | "avgqu-sz" => ("disk.queue", Unit::Count, false, 1.0),
        "wsvc_t" => ("disk.wait_each", Unit::Seconds, false, 1e-3),
        "asvc_t" | "svc_t" => ("disk.service_each", Unit::Seconds, false, 1e-3),
        "r_await" => ("disk.read_each", Unit::Seconds, false, 1e-3),
        "w_await" => ("disk.write_each", Unit::Seconds, false, 1e-3),
        "await" => ("disk.service_each", Unit::Seconds, false, 1e-3),
        "%w" => ("disk.waiting_share", Unit::Percent, false, 1.0),
        "%b" | "%util" => ("disk.busy", Unit::Percent, false, 1.0),
        "us" | "%user" => ("cpu.user", Unit::Percent, false, 1.0),
        "sy" | "%system" => ("cpu.system", Unit::Percent, false, 1.0),
        "wt" | "%iowait" => ("cpu.wait", Unit::Percent, false, 1.0),
        "id" | "%idle" => ("cpu.idle", Unit::Percent, false, 1.0),
        "%steal" => ("cpu.steal", Unit::Percent, false, 1.0),
        _ => return None,
    })
}

/// Parts of a report, in the order in which the tools print them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Time,
    Processors,
    Devices,
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(true, true);
    let (mut heading, mut part): (Vec<String>, Option<Part>) = (Vec::new(), None);
    // A part that does not come after the previous one starts a new report.
    let enter = |reports: &mut Reports, before: &mut Option<Part>, part: Part, at: Option<(Clock, f64)>| {
        if before.is_none_or(|b| b >= part) {
            reports.begin(at);
        }
        *before = Some(part);
    };
    for (n, line) in source.text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.is_empty() || line.starts_with("Linux ") {
            continue;
        }
        if let Some(at) = moment(line) {
            enter(&mut reports, &mut part, Part::Time, Some(at));
            heading.clear();
            continue;
        }
        let lower = words.iter().any(|w| matches!(*w, "r/s" | "tps"))
            && words.iter().any(|w| w.to_lowercase().starts_with("device"));
        if lower || matches!(words.as_slice(), ["us", "sy", ..]) || words.first() == Some(&"avg-cpu:") {
            let is_devices = lower;
            // In the tables of `weir iostat` a report is a group of rows, and one heading covers
            // many reports.
            let is_ours = words.first() == Some(&"time");
            heading = words.iter().map(|w| w.trim_end_matches(':').to_owned()).collect();
            if heading.first().is_some_and(|h| h == "avg-cpu") {
                heading.remove(0);
            }
            if !is_ours {
                enter(&mut reports, &mut part, if is_devices { Part::Devices } else { Part::Processors }, None);
            }
            continue;
        }
        let Some(device) = heading.iter().position(|h| h.to_lowercase() == "device") else {
            if heading.len() == words.len() && words.iter().all(|w| scaled(w, 1024.0).is_some()) {
                for (name, word) in heading.iter().zip(&words) {
                    put(&mut reports, source, n, name, word, None)?;
                }
            }
            continue;
        };
        let columns = heading.len();
        if words.len() < columns {
            // Lines such as 'extended device statistics' and '<<device added: sd0>>'.
            if words.iter().any(|w| scaled(w, 1024.0).is_none()) && !words.iter().any(|w| w.parse::<f64>().is_ok()) {
                continue;
            }
            return Err(source.wrong(n, format!("{} words, expected {columns} columns", words.len())));
        }
        // A name with spaces can only be in the last column.
        let name = if device + 1 == columns { words[device..].join(" ") } else { words[device].to_owned() };
        if heading.first().is_some_and(|h| h == "time") {
            let at = moment(words[0]);
            let reads_key = Key::new("disk.reads", Unit::Count, true).of("device", &name);
            let is_next = reports.len() == 0
                || reports.has(&reads_key)
                || at.is_some_and(|(_, at)| reports.last_at() != Some(at));
            if is_next {
                reports.begin(at);
                if at.is_none() {
                    reports.is_boot();
                }
            }
        }
        for (column, (heading, word)) in heading.iter().zip(&words).enumerate() {
            if column != device && heading != "time" {
                put(&mut reports, source, n, heading, word, Some(&name))?;
            }
        }
    }
    reports.finish(source)
}

fn put(
    reports: &mut Reports,
    source: &Source<'_>,
    n: usize,
    heading: &str,
    word: &str,
    device: Option<&str>,
) -> Result<(), Error> {
    let Some((name, unit, per_second, factor)) = meaning(heading) else { return Ok(()) };
    // Linux's -h appends units to the numbers.
    let value = match scaled(word, 1024.0) {
        Some(value) if word.ends_with(|c: char| c.is_ascii_alphabetic()) && unit == Unit::Bytes => value / factor,
        Some(value) => value,
        None => return Err(source.wrong(n, format!("{heading} is '{word}', expected a number"))),
    };
    let key = Key::new(name, unit, per_second);
    reports.put(device.map_or(key.clone(), |device| key.of("device", device)), value * factor);
    Ok(())
}
