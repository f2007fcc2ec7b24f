//! Disks that are much slower than their siblings.
//!
//! A disk that dies slowly answers correctly, but late, and a whole mirror or raidz waits for it.
//! No threshold in milliseconds fits both flash and spinning disks, so each is compared with the
//! disks that share its load.

use super::super::inputs::DiskTimes;
use super::super::reason::{page_of, reason as begin};
use api::{HealthKind, HealthReason, HealthVerdict};

/// How many times its siblings' latency makes a disk slow. Guessed: within a group, healthy disks
/// of one kind differ by less than a factor of 2.
pub const SLOW_RATIO: u64 = 5;
/// Latencies below this are never slow, in nanoseconds. Guessed: on flash, a few operations behind
/// an erase take some milliseconds.
pub const SLOW_NS: u64 = 5_000_000;

/// A disk that is slower than its siblings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowDisk {
    pub name: String,
    /// `reads` or `writes`.
    pub what: &'static str,
    /// Its 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// Median of its siblings' 99th percentiles, in nanoseconds.
    pub siblings_ns: u64,
}

/// The slow disks among these, each once.
pub fn slow_disks(disks: &[DiskTimes]) -> Vec<SlowDisk> {
    let slow = |disk: &DiskTimes, what: &'static str, of: fn(&DiskTimes) -> Option<u64>| {
        let p99_ns = of(disk)?;
        let is_sibling = |other: &&DiskTimes| other.siblings == disk.siblings && other.name != disk.name;
        let mut others: Vec<u64> = disks.iter().filter(is_sibling).filter_map(of).collect();
        others.sort_unstable();
        let siblings_ns = *others.get(others.len() / 2)?;
        let is_slow = p99_ns >= SLOW_NS && p99_ns / SLOW_RATIO >= siblings_ns.max(1);
        is_slow.then(|| SlowDisk { name: disk.name.clone(), what, p99_ns, siblings_ns })
    };
    let found = disks
        .iter()
        .filter_map(|disk| slow(disk, "reads", |d| d.read_p99_ns).or_else(|| slow(disk, "writes", |d| d.write_p99_ns)));
    found.collect()
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10)
}

pub fn reason(pool: &str, slow: &SlowDisk) -> HealthReason {
    let what = format!(
        "99 % of {} take up to {}, {} on its siblings. The other devices wait for it.",
        slow.what,
        milliseconds(slow.p99_ns),
        milliseconds(slow.siblings_ns)
    );
    let subject = format!("{pool}: {}", slow.name);
    let made = begin(HealthVerdict::Attention, HealthKind::SlowDisk, &subject, what, page_of(pool));
    HealthReason { action: Some("Check its cable and its SMART data; replace it if it stays slow.".to_owned()), ..made }
}
