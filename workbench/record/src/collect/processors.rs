//! Processors: /proc/stat, in seconds over all processors, and the numbers of running and blocked
//! processes.

use super::sample::{Sample, Source, read};
use crate::format::Unit;
use host::proc::field;

/// Ticks of /proc/stat per second (USER_HZ): the kernel reports 100 to user space on every
/// supported architecture.
const TICKS: f64 = 100.0;
/// The columns of a line of /proc/stat (proc_stat(5)). Guest time is part of user time and not
/// repeated.
const MODES: [&str; 8] = ["user", "nice", "system", "idle", "wait", "interrupt", "softirq", "steal"];

/// Source of processor metrics.
pub struct Processors;

impl Source for Processors {
    fn name(&self) -> &str {
        "processors"
    }

    fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
        stat(&read("/proc/stat")?, into);
        Ok(())
    }
}

pub(super) fn stat(text: &str, into: &mut Sample) {
    let mut count = 0u32;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(number) = words.next().and_then(|word| word.strip_prefix("cpu")) else { continue };
        for (mode, ticks) in MODES.iter().zip(words.filter_map(|word| word.parse::<f64>().ok())) {
            let seconds = ticks / TICKS;
            match number {
                "" => into.total("cpu.time", &[("mode", mode)], Unit::Seconds, seconds),
                _ => into.total("cpu.time_each", &[("cpu", number), ("mode", mode)], Unit::Seconds, seconds),
            }
        }
        count += u32::from(!number.is_empty());
    }
    into.level("cpu.count", &[], Unit::Count, f64::from(count));
    for (line, name) in
        [("ctxt ", "cpu.context_switches"), ("intr ", "cpu.interrupts"), ("processes ", "process.forks")]
    {
        if let Some(n) = field(text, line) {
            into.total(name, &[], Unit::Count, n);
        }
    }
    for (line, name) in [("procs_running ", "process.runnable"), ("procs_blocked ", "process.blocked")] {
        if let Some(n) = field(text, line) {
            into.level(name, &[], Unit::Count, n);
        }
    }
}
