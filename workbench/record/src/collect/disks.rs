//! Disks: /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux).

use super::sample::{Sample, Source, read};
use crate::format::Unit;
use serde_json::{Value, json};

/// Sector size of /proc/diskstats in bytes, independent of the device.
const SECTOR: f64 = 512.0;

/// Whole disks. Partitions are omitted, since they would be counted twice.
pub struct Disks;

impl Source for Disks {
    fn name(&self) -> &str {
        "disks"
    }

    fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
        diskstats(&read("/proc/diskstats")?, is_whole, into);
        Ok(())
    }
}

/// Partitions have no directory of their own in /sys/block.
fn is_whole(name: &str) -> bool {
    std::path::Path::new("/sys/block").join(name.replace('/', "!")).is_dir()
}

pub(super) fn diskstats(text: &str, is_whole: impl Fn(&str) -> bool, into: &mut Sample) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let Some(name) = words.next() else { continue };
        let n: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        // Devices that were never used, such as most loop devices, are omitted.
        if n.len() < 11 || n.iter().all(|n| *n == 0.0) || !is_whole(name) {
            continue;
        }
        let at = |i: usize| n.get(i).copied();
        let device = [("device", name)];
        let mut total = |what: &str, unit: Unit, i: usize, factor: f64| {
            if let Some(n) = at(i) {
                into.total(what, &device, unit, n * factor);
            }
        };
        total("disk.reads", Unit::Count, 0, 1.0);
        total("disk.reads_merged", Unit::Count, 1, 1.0);
        total("disk.read_bytes", Unit::Bytes, 2, SECTOR);
        total("disk.read_time", Unit::Seconds, 3, 1e-3);
        total("disk.writes", Unit::Count, 4, 1.0);
        total("disk.writes_merged", Unit::Count, 5, 1.0);
        total("disk.written_bytes", Unit::Bytes, 6, SECTOR);
        total("disk.write_time", Unit::Seconds, 7, 1e-3);
        total("disk.busy_time", Unit::Seconds, 9, 1e-3);
        total("disk.queue_time", Unit::Seconds, 10, 1e-3);
        total("disk.discards", Unit::Count, 11, 1.0);
        total("disk.discarded_bytes", Unit::Bytes, 13, SECTOR);
        total("disk.flushes", Unit::Count, 15, 1.0);
        total("disk.flush_time", Unit::Seconds, 16, 1e-3);
        into.level("disk.in_flight", &device, Unit::Count, at(8).unwrap_or(0.0));
    }
}

/// The disks of the machine: name, size in bytes, whether rotational, model.
pub(super) fn describe() -> Vec<Value> {
    let Ok(folder) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let mut names: Vec<String> = folder.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let disk = |name: String| {
        let of = |file: &str| read(&format!("/sys/block/{name}/{file}")).ok().map(|t| t.trim().to_owned());
        let bytes = of("size")?.parse::<f64>().ok()? * SECTOR;
        let turns = of("queue/rotational").map(|t| t == "1");
        (bytes > 0.0).then(|| json!({ "name": name, "bytes": bytes, "rotational": turns, "model": of("device/model") }))
    };
    names.into_iter().filter_map(disk).collect()
}
