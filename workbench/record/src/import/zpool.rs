//! zpool iostat: units that change from cell to cell, trees of `-v`, times of `-T`, tabs of `-H`,
//! wait times of `-l`, queues of `-q`.

use super::reports::{Key, Reports};
use super::text::{Source, duration, moment, scaled};
use super::{Clock, Error, Imported};
use crate::format::Unit;

/// zpool scales by 1024, operations too.
const BASE: f64 = 1024.0;
/// The columns after the name, always present.
const COLUMNS: [(&str, &str, Unit, bool); 6] = [
    ("pool.allocated_bytes", "vdev.allocated_bytes", Unit::Bytes, false),
    ("pool.free_bytes", "vdev.free_bytes", Unit::Bytes, false),
    ("pool.reads", "vdev.reads", Unit::Count, true),
    ("pool.writes", "vdev.writes", Unit::Count, true),
    ("pool.read_bytes", "vdev.read_bytes", Unit::Bytes, true),
    ("pool.written_bytes", "vdev.written_bytes", Unit::Bytes, true),
];
/// The columns that follow with `-l`.
const WAITS: [(&str, &str); 4] = [
    ("pool.read_each", "vdev.read_each"),
    ("pool.write_each", "vdev.write_each"),
    ("pool.disk_read_each", "vdev.disk_read_each"),
    ("pool.disk_write_each", "vdev.disk_write_each"),
];

/// Headings of `-v`, which are not allowed as pool names.
const GROUPS: [&str; 5] = ["logs", "cache", "special", "dedup", "spares"];

/// Whether a line is output of `-H`: a name and at least six numbers, separated by tabs.
pub(super) fn is_scripted(line: &str) -> bool {
    let cells: Vec<&str> = line.split('\t').collect();
    cells.len() >= 7 && cells.get(1..7).is_some_and(|n| n.iter().all(|n| scaled(n, BASE).is_some()))
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(true, false);
    let mut at: Option<(Clock, f64)> = None;
    let mut pool = String::new();
    let mut has_waits = false;
    for (n, line) in source.text.lines().enumerate() {
        if let Some(found) = moment(line.trim()) {
            at = Some(found);
            continue;
        }
        let line = line.trim_end();
        if line.starts_with("latency ") || line.starts_with("req_size ") {
            return Err(source.unsupported("zpool iostat -w and -r: histograms since the pool was imported"));
        }
        if line.contains("total_wait") || line.contains("disk_wait") {
            has_waits = true;
            continue;
        }
        let is_table = line.contains("bandwidth") || line.trim_start().starts_with("pool ") && line.contains("alloc");
        if line.trim().is_empty() || line.starts_with('-') || is_table || line.contains("alloc   free") {
            continue;
        }
        let (depth, words): (usize, Vec<&str>) = match line.contains('\t') {
            true => (0, line.split('\t').collect()),
            false => (line.len() - line.trim_start().len(), line.split_ascii_whitespace().collect()),
        };
        // Group headings of -v ('logs', 'cache') have no values.
        if words.len() < 7 {
            if words.iter().skip(1).all(|w| scaled(w, BASE).is_none_or(f64::is_nan)) {
                continue;
            }
            return Err(source.wrong(n, format!("{} words, expected a name and six numbers", words.len())));
        }
        let name = words[0];
        let is_pool = depth == 0 && !GROUPS.contains(&name);
        if is_pool {
            pool = name.to_owned();
        }
        let reads = Key::new("pool.reads", Unit::Count, true).of("pool", name);
        // A repeated pool, or a preceding time, starts a new report.
        if is_pool && (reports.len() == 0 || reports.has(&reads) || at.is_some()) {
            reports.begin(at.take());
        }
        let key = |pool_name: &'static str, vdev_name: &'static str, unit: Unit, per_second: bool| match is_pool {
            true => Key::new(pool_name, unit, per_second).of("pool", name),
            false => Key::new(vdev_name, unit, per_second).of("pool", &pool).of("vdev", name),
        };
        for ((pool_name, vdev_name, unit, per_second), word) in COLUMNS.iter().zip(&words[1..]) {
            let value = scaled(word, BASE)
                .ok_or_else(|| source.wrong(n, format!("'{word}' is not a number of zpool iostat")))?;
            reports.put(key(pool_name, vdev_name, *unit, *per_second), value);
        }
        if has_waits {
            for ((pool_name, vdev_name), word) in WAITS.iter().zip(words.iter().skip(7)) {
                // '-' if nothing waited. With -p these are nanoseconds.
                let seconds = duration(word).or_else(|| word.parse::<f64>().ok().map(|ns| ns * 1e-9));
                if let Some(seconds) = seconds {
                    reports.put(key(pool_name, vdev_name, Unit::Seconds, false), seconds);
                }
            }
        }
    }
    reports.finish(source)
}
