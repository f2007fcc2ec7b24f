//! Verifies a pool, and reports the result in terms that an administrator can act on.
//!
//! Below: `pool::scan` finds problems by number. Here numbers become names: of devices, datasets
//! and files.
//!
//! Invariants:
//!   * the verdict is `Lost` only if some block cannot be read in any way, or records of an intent
//!     log that an import claimed
//!   * nothing is written, and objects without a name are reported by number

mod names;

pub use names::{DamagedFile, Place};

use crate::OpenPool;
use anyhow::Result;
use dataset::intent_log::{self, LogSummary, Unread};
use dataset::tree::{Entry, ListOptions};
use pool::scan::{self, DeviceFaults, OnProgress, Options, Report};
use std::time::{Duration, Instant};

/// Overall result, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Everything is readable and right.
    Clean,
    /// All data is readable, but something is wrong: copies, parity, devices, space or accounting.
    Damaged,
    /// Some data cannot be read in any way.
    Lost,
}

impl Verdict {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Damaged => "damaged",
            Self::Lost => "lost",
        }
    }
}

/// A device and its faults.
#[derive(Debug, Clone)]
pub struct Device {
    /// Path or, if the device is missing, the pool's name for it.
    pub name: String,
    pub guid: u64,
    /// Name of its top-level vdev.
    pub top: String,
    /// Why it cannot be used, if so.
    pub absent: Option<String>,
    /// What was found on it.
    pub faults: DeviceFaults,
}

/// A dataset whose accounting does not match its blocks.
#[derive(Debug, Clone)]
pub struct WrongAccounting {
    pub dataset: String,
    /// Space that it claims to reference, in bytes.
    pub says_bytes: u64,
    /// Space that its blocks add up to, in bytes.
    pub found_bytes: u64,
}

/// An intent log with records that are not in the dataset yet.
#[derive(Debug, Clone)]
pub struct UnreplayedLog {
    pub dataset: String,
    /// Contents of the log.
    pub log: LogSummary,
}

/// An intent log that ends early.
#[derive(Debug, Clone)]
pub struct ShortLog {
    pub dataset: String,
    pub unread: Unread,
}

/// Intent logs of a pool.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// Those that wait for replay.
    pub unreplayed: Vec<UnreplayedLog>,
    /// Those that end early.
    pub short: Vec<ShortLog>,
    /// Errors that prevented reading them.
    pub errors: Vec<String>,
}

/// Result of verifying a pool.
pub struct Verification {
    pub pool: String,
    /// The txg that was verified.
    pub txg: u64,
    /// Time of the txg, in seconds since 1970.
    pub txg_time: u64,
    pub verdict: Verdict,
    /// Counts and lists, by number.
    pub report: Report,
    /// All devices that hold blocks.
    pub devices: Vec<Device>,
    /// Names of the top-level vdevs, by number.
    pub tops: Vec<String>,
    /// Damaged files and other objects.
    pub files: Vec<DamagedFile>,
    /// Datasets whose accounting does not match.
    pub accounting: Vec<WrongAccounting>,
    pub logs: Logs,
    /// Duration of the scan, without the translation to names.
    pub elapsed: Duration,
}

/// Verifies all of `pool`.
pub fn verify(pool: &OpenPool, threads: usize, progress: &OnProgress<'_>) -> Result<Verification> {
    let started = Instant::now();
    let keys = |id| pool.datasets.dataset_by_id(id).and_then(|dataset| pool.keys.dataset_keys(&dataset)).ok();
    let report = scan::verify_with(pool.pool(), &Options { threads }, &keys, progress)?;
    let elapsed = started.elapsed();
    let devices = devices(pool, &report);
    let absent = devices.iter().any(|d| d.absent.is_some());
    let logs = logs(pool);
    // Without a claim it is unknown whether anything is lost.
    let has_lost_records = logs.short.iter().any(|log| log.unread.claim_txg != 0);
    let verdict = match &report {
        r if r.lost_blocks > 0 || has_lost_records => Verdict::Lost,
        r if r.is_clean() && !absent && logs.short.is_empty() => Verdict::Clean,
        _ => Verdict::Damaged,
    };
    let accounting = report.accounting.iter().map(|a| WrongAccounting {
        dataset: names::dataset(pool, a.objset),
        says_bytes: a.says_bytes,
        found_bytes: a.found_bytes,
    });
    let (accounting, files) = (accounting.collect(), names::damaged(pool, &report.damage));
    let uberblock = pool.pool().uberblock();
    Ok(Verification {
        pool: pool.pool().name().to_owned(),
        txg: uberblock.txg.0,
        txg_time: uberblock.timestamp,
        verdict,
        devices,
        tops: pool.pool().store().tree().tops.iter().map(|top| top.name.clone()).collect(),
        files,
        accounting,
        logs,
        elapsed,
        report,
    })
}

fn devices(pool: &OpenPool, report: &Report) -> Vec<Device> {
    let tree = pool.pool().store().tree();
    let mut found = Vec::new();
    for top in &tree.tops {
        for leaf in top.leaves() {
            let absent = (!leaf.is_open()).then(|| leaf.aux().map_or_else(String::new, |aux| format!("{aux:?}")));
            found.push(Device {
                name: leaf.path.clone(),
                guid: leaf.guid,
                top: top.name.clone(),
                absent: absent.map(|why| why_absent(&why).to_owned()),
                faults: report.devices.get(&leaf.guid).cloned().unwrap_or_default(),
            });
        }
    }
    found
}

fn why_absent(aux: &str) -> &'static str {
    match aux {
        "CorruptLabel" => "its labels are damaged",
        "Offline" => "it was taken offline",
        "Removed" => "it was removed",
        "Faulted" => "the pool has declared it faulty",
        "TooSmall" => "it is smaller than it was",
        _ => "it was not found",
    }
}

/// The intent logs of all heads: those with records that the opened pool lacks, those that end
/// early, and errors.
fn logs(pool: &OpenPool) -> Logs {
    let mut logs = Logs::default();
    let listing = match pool.datasets.list(&[], &ListOptions::heads()) {
        Ok(listing) => listing,
        Err(e) => return Logs { errors: vec![e.to_string()], ..logs },
    };
    for entry in &listing.entries {
        let Entry::Dataset(dataset) = entry else { continue };
        match intent_log::read(dataset, None, &mut |_| {}) {
            Ok(log) => {
                let dataset = || dataset.name().to_owned();
                logs.short.extend(log.unread.clone().map(|unread| ShortLog { dataset: dataset(), unread }));
                if log.unreplayed_records > 0 {
                    logs.unreplayed.push(UnreplayedLog { dataset: dataset(), log });
                }
            }
            Err(e) => logs.errors.push(e.to_string()),
        }
    }
    logs
}
