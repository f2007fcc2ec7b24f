//! fio's logs: `NAME_bw.1.log`, `_iops`, `_lat`, `_clat`, `_slat`, `_clat_hist`; averaged
//! (log_avg_msec) or one operation per line.

use super::text::Source;
use super::{Bucket, Clock, Error, Imported, Operation};
use crate::format::Unit;
use crate::series::{Series, Span};
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of a log, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bandwidth,
    Operations,
    Latency(&'static str),
    Histogram,
}

pub(super) fn kind(name: &Path) -> Option<Kind> {
    let name = name.file_name()?.to_str()?;
    let stem = name.strip_suffix(".log")?;
    // A job number follows, unless there is one log for all jobs.
    let stem =
        stem.rsplit_once('.').filter(|(_, job)| job.bytes().all(|c| c.is_ascii_digit())).map_or(stem, |(stem, _)| stem);
    Some(match stem.rsplit_once('_').map_or(stem, |(_, kind)| kind) {
        "bw" => Kind::Bandwidth,
        "iops" => Kind::Operations,
        "clat" => Kind::Latency("completion"),
        "slat" => Kind::Latency("submission"),
        "lat" => Kind::Latency("total"),
        "hist" => Kind::Histogram,
        _ => return None,
    })
}

/// Whether the lines are those of a log: comma-separated numbers, starting with a time.
pub(super) fn is_log(text: &str) -> bool {
    text.is_empty()
        || text.lines().take(3).all(|line| line.split(',').count() >= 4 && line.split(',').all(|n| number(n).is_some()))
}

fn number(word: &str) -> Option<f64> {
    let word = word.trim();
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|n| n as f64),
        None => word.parse().ok().filter(|n: &f64| n.is_finite()),
    }
}

/// A line: time in ms, value, direction, block size, offset.
struct Line {
    at: f64,
    value: f64,
    direction: usize,
    bytes: f64,
    offset: f64,
}

const NAMES: [[&str; 3]; 3] = [
    ["load.read_bytes", "load.written_bytes", "load.trimmed_bytes"],
    ["load.reads", "load.writes", "load.trims"],
    ["load.read_each", "load.write_each", "load.trim_each"],
];

pub(super) fn read(source: &Source<'_>, name: &Path) -> Result<Imported, Error> {
    let Some(kind) = kind(name) else { return Err(Error::Unknown(source.name.clone())) };
    if kind == Kind::Histogram {
        return histogram(source);
    }
    let mut lines = Vec::new();
    for (n, line) in source.text.lines().enumerate() {
        let cells: Option<Vec<f64>> = line.split(',').map(number).collect();
        let cells = cells
            .filter(|c| c.len() >= 4)
            .ok_or_else(|| source.wrong(n, "expected time, value, direction, block size"))?;
        let direction = cells[2] as usize;
        if direction > 2 {
            return Err(source.wrong(n, format!("direction is {direction}, expected 0, 1 or 2")));
        }
        lines.push(Line {
            at: cells[0] / 1000.0,
            value: cells[1],
            direction,
            bytes: cells[3],
            offset: cells.get(4).copied().unwrap_or(f64::NAN),
        });
    }
    if lines.is_empty() {
        return Err(Error::Empty(source.name.clone()));
    }
    // An average has no block size; fio writes 0.
    let is_averaged = lines.iter().all(|l| l.bytes == 0.0);
    let mut out = Imported { clock: Clock::Counted, ..Imported::default() };
    let job = name.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".log"));
    let job = job.and_then(|n| n.rsplit_once('_')).map_or("fio", |(job, _)| job);
    for (direction, _) in NAMES[0].iter().enumerate() {
        let lines: Vec<&Line> = lines.iter().filter(|l| l.direction == direction).collect();
        if lines.is_empty() {
            continue;
        }
        let series = |what: usize, unit: Unit, per_second: bool| {
            Series::new(NAMES[what][direction], &[("job", job)], unit, per_second)
        };
        match (kind, is_averaged) {
            (Kind::Bandwidth, true) => out.series.push(averaged(series(0, Unit::Bytes, true), &lines, 1024.0)),
            (Kind::Operations, true) => out.series.push(averaged(series(1, Unit::Count, true), &lines, 1.0)),
            (Kind::Latency(_), true) => out.series.push(averaged(series(2, Unit::Seconds, false), &lines, 1e-9)),
            (_, false) => {
                let width = source.options.interval.filter(|w| *w > 0.0).unwrap_or(1.0);
                let bins = bins(&lines, width);
                let mut push = |mut one: Series, value: &dyn Fn(&Bin) -> Option<f64>| {
                    for (n, bin) in &bins {
                        let from = *n as f64 * width;
                        one.spans.extend(value(bin).map(|value| Span { from, to: from + width, value }));
                    }
                    out.series.push(one);
                };
                push(series(0, Unit::Bytes, true), &|bin| Some(bin.bytes / width));
                push(series(1, Unit::Count, true), &|bin| Some(bin.count / width));
                if matches!(kind, Kind::Latency(_)) {
                    push(series(2, Unit::Seconds, false), &|bin| (bin.count > 0.0).then(|| bin.seconds / bin.count));
                }
            }
            (Kind::Histogram, true) => {}
        }
    }
    if !is_averaged {
        let latency = |value: f64| if matches!(kind, Kind::Latency(_)) { value * 1e-9 } else { f64::NAN };
        out.operations = lines
            .iter()
            .map(|l| Operation {
                at: l.at,
                is_write: l.direction == 1,
                seconds: latency(l.value),
                bytes: l.bytes,
                offset: l.offset,
            })
            .collect();
        out.notes.push("an operation a line: they are counted by the interval".to_owned());
    }
    Ok(out)
}

/// Each line is the average since the previous line.
fn averaged(mut series: Series, lines: &[&Line], factor: f64) -> Series {
    let mut from = 0.0;
    for line in lines {
        if line.at > from {
            series.spans.push(Span { from, to: line.at, value: line.value * factor });
            from = line.at;
        }
    }
    series
}

#[derive(Default)]
struct Bin {
    bytes: f64,
    count: f64,
    seconds: f64,
}

/// Operations by interval, including empty intervals, from the first to the last.
fn bins(lines: &[&Line], width: f64) -> BTreeMap<u64, Bin> {
    let mut out: BTreeMap<u64, Bin> = BTreeMap::new();
    let last = lines.iter().map(|l| (l.at / width) as u64).max().unwrap_or(0);
    for n in 0..=last.min(10_000_000) {
        out.entry(n).or_default();
    }
    for line in lines {
        let bin = out.entry((line.at / width) as u64).or_default();
        bin.bytes += line.bytes;
        bin.count += 1.0;
        bin.seconds += line.value * 1e-9;
    }
    out
}

/// Groups of 64 buckets in fio's histograms, since fio 3.30 and before. There are 64 buckets for
/// each power of two of nanoseconds; the first 128 are one nanosecond wide.
const GROUPS: [usize; 2] = [29, 19];

/// Lower bound of a bucket in nanoseconds.
fn bucket(n: usize) -> f64 {
    match n / 64 {
        0 | 1 => n as f64,
        group => (64 + n % 64) as f64 * 2f64.powi(i32::try_from(group - 1).unwrap_or(0)),
    }
}

fn histogram(source: &Source<'_>) -> Result<Imported, Error> {
    let mut out = Imported { clock: Clock::Counted, ..Imported::default() };
    let mut before: [f64; 3] = [0.0; 3];
    for (n, line) in source.text.lines().enumerate() {
        let cells: Option<Vec<f64>> = line.split(',').map(number).collect();
        let cells = cells.ok_or_else(|| source.wrong(n, "expected numbers with commas"))?;
        let counts = cells.get(3..).unwrap_or_default();
        // log_hist_coarseness merges 2, 4, 8 … buckets into one.
        let each = GROUPS
            .iter()
            .find_map(|groups| (0..7).map(|c| 1usize << c).find(|each| counts.len() * each == groups * 64));
        let Some(each) = each else {
            return Err(
                source.wrong(n, format!("{} buckets, expected 1856, 1216, or a half of it, a quarter …", counts.len()))
            );
        };
        let to = cells[0] / 1000.0;
        let from = match before.get_mut(cells[1] as usize) {
            Some(before) => std::mem::replace(before, to),
            None => return Err(source.wrong(n, format!("direction is {}, expected 0, 1 or 2", cells[1]))),
        };
        for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let range = (bucket(i * each) * 1e-9, bucket((i + 1) * each) * 1e-9);
            out.latencies.push(Bucket { time: (from, to), range, count: *count });
        }
    }
    if out.latencies.is_empty() {
        return Err(Error::Empty(source.name.clone()));
    }
    Ok(out)
}
