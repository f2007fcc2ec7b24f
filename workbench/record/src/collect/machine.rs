//! Memory and paging from /proc/meminfo and /proc/vmstat, and a description of the machine,
//! collected once.

use super::sample::{Sample, Source, read};
use super::{disks, network};
use crate::format::Unit;
use host::proc::{field, memory_bytes};
use serde_json::{Map, Value, json};

/// Source of memory and paging metrics.
pub struct Memory;

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
        memory(&read("/proc/meminfo")?, into);
        paging(&read("/proc/vmstat")?, into);
        if let Some(seconds) = field(&read("/proc/uptime")?, "") {
            into.level("machine.uptime", &[], Unit::Seconds, seconds);
        }
        Ok(())
    }
}

pub(super) fn memory(text: &str, into: &mut Sample) {
    for (line, name) in [
        ("MemTotal:", "memory.total"),
        ("MemFree:", "memory.free"),
        ("MemAvailable:", "memory.available"),
        ("Buffers:", "memory.buffers"),
        ("Cached:", "memory.cached"),
        ("Dirty:", "memory.dirty"),
        ("Writeback:", "memory.writeback"),
        ("SwapTotal:", "swap.total"),
        ("SwapFree:", "swap.free"),
    ] {
        if let Some(bytes) = memory_bytes(text, line) {
            into.level(name, &[], Unit::Bytes, bytes);
        }
    }
}

pub(super) fn paging(text: &str, into: &mut Sample) {
    // pgpgin and pgpgout are KiB, pswpin and pswpout are pages.
    let page = rustix::param::page_size() as f64;
    for (line, name, bytes) in [
        ("pgpgin ", "paging.in_bytes", 1024.0),
        ("pgpgout ", "paging.out_bytes", 1024.0),
        ("pswpin ", "swap.in_bytes", page),
        ("pswpout ", "swap.out_bytes", page),
    ] {
        if let Some(n) = field(text, line) {
            into.total(name, &[], Unit::Bytes, n * bytes);
        }
    }
}

/// Describes the machine: name, kernel, processors, memory, links with their speeds, disks.
pub fn describe() -> Map<String, Value> {
    let mut out = Map::new();
    let system = rustix::system::uname();
    out.insert("name".to_owned(), json!(system.nodename().to_string_lossy()));
    out.insert(
        "kernel".to_owned(),
        json!(format!("{} {}", system.release().to_string_lossy(), system.machine().to_string_lossy())),
    );
    let processors = read("/proc/cpuinfo").unwrap_or_default();
    let models = processors.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = models.clone().next().map(|m| m.trim_start_matches([' ', '\t', ':']).to_owned());
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    out.insert("processors".to_owned(), json!({ "count": count, "model": model }));
    let memory = read("/proc/meminfo").ok().and_then(|text| memory_bytes(&text, "MemTotal:"));
    out.insert("memory_bytes".to_owned(), json!(memory));
    out.insert("links".to_owned(), Value::Array(network::links()));
    out.insert("disks".to_owned(), Value::Array(disks::describe()));
    out
}
