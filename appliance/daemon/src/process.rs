//! Resource usage of this process, from /proc, for the statistics and the page.

use observe::{Collector, Info, Source, Unit, Value};
use std::fs;

static MEMORY: Info = Info { name: "process_memory", unit: Unit::Bytes, help: "Resident memory of this process." };
static CPU: Info =
    Info { name: "process_cpu", unit: Unit::Nanoseconds, help: "Processor time that this process has used." };
static FILES: Info = Info { name: "process_open_files", unit: Unit::Number, help: "Open files and sockets." };
static THREADS: Info = Info { name: "process_threads", unit: Unit::Number, help: "Threads." };
static START: Info =
    Info { name: "process_start_time", unit: Unit::Number, help: "Start time, in seconds since 1970." };

/// Resource usage of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Resident memory, `VmRSS`.
    pub memory_bytes: u64,
    /// Processor time of all threads.
    pub cpu_nanoseconds: u64,
    pub open_files: u64,
    pub threads: u64,
}

/// Measures the usage. Values that the system does not report are 0.
pub fn usage() -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanoseconds = cpu.tv_sec.saturating_mul(1_000_000_000).saturating_add(cpu.tv_nsec);
    Usage {
        memory_bytes: field("VmRSS:") << 10,
        cpu_nanoseconds: u64::try_from(nanoseconds).unwrap_or(0),
        // The directory itself is open while it is read.
        open_files: fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1) as u64),
        threads: field("Threads:"),
    }
}

/// This process as a source of statistics.
pub struct Process {
    /// Start time, in seconds since 1970.
    pub started: u64,
}

impl Source for Process {
    fn collect(&self, out: &mut Collector<'_>) {
        let usage = usage();
        out.put(&MEMORY, &[], Value::Level(usage.memory_bytes));
        out.put(&CPU, &[], Value::Count(usage.cpu_nanoseconds));
        out.put(&FILES, &[], Value::Level(usage.open_files));
        out.put(&THREADS, &[], Value::Level(usage.threads));
        out.put(&START, &[], Value::Level(self.started));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_usage_of_this_process_is_read() {
        let usage = usage();
        assert!(usage.memory_bytes > 1 << 20 && usage.cpu_nanoseconds > 0 && usage.threads >= 1, "{usage:?}");
        assert!(usage.open_files >= 3 || usage.open_files > 0, "{usage:?}");
    }
}
