//! What the verdict is made of. Everything that cannot be found out is absent.

use api::{Alert, Device, JobKind, Pool};
use serde::{Deserialize, Serialize};
use serve::nfs::Refusal;

/// All inputs, at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs {
    /// Seconds since 1970.
    pub now: u64,
    pub pools: Vec<PoolInput>,
    /// Names of imported pools that could not be opened.
    pub closed: Vec<String>,
    /// All alerts, firing or not.
    pub alerts: Vec<Alert>,
    /// Outcomes of `zfs send` and `zfs receive`.
    pub streams: Vec<StreamRecord>,
    /// Certificate for HTTPS; `None` without HTTPS.
    pub certificate: Option<Validity>,
    /// For each table of the NFS server, how often clients were refused, and when last (seconds
    /// since 1970; 0: never). Empty without NFS.
    pub refusals: Vec<(Refusal, u64, u64)>,
}

/// An open pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolInput {
    pub pool: Pool,
    /// Root of the device tree, then cache devices.
    pub devices: Vec<Device>,
    pub spares: Vec<Device>,
    /// Latencies of disks in the last minutes, as far as they were busy enough.
    pub disks: Vec<DiskTimes>,
    pub scan: LastScan,
}

/// What is known of the last scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastScan {
    /// Nothing, or a scan runs or is paused.
    #[default]
    Unknown,
    /// No scan of any kind ended since the pool was created, at this time (seconds since 1970).
    NoneSince(u64),
    /// A scrub finished then.
    Finished(u64),
    /// A resilver ended or a scrub was cancelled then, and no scrub has finished since.
    OtherEnded(u64),
}

impl LastScan {
    /// Time since which no scrub has finished, in seconds since 1970.
    pub fn unscrubbed_since(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::NoneSince(time) | Self::Finished(time) | Self::OtherEnded(time) => Some(time),
        }
    }
}

/// Latencies of a disk in the last minutes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskTimes {
    /// Name, as `zpool status` shows it.
    pub name: String,
    /// Disks with the same group share the same load: the name of their top-level device, or their
    /// class.
    pub siblings: String,
    /// 99th percentile of the reads in nanoseconds; `None` if there were too few.
    pub read_p99_ns: Option<u64>,
    /// The same for writes.
    pub write_p99_ns: Option<u64>,
}

/// Times of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: u64,
    pub not_after: u64,
}

/// Outcomes of the streams of a dataset in one direction. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// `send` or `receive`.
    pub kind: JobKind,
    pub dataset: String,
    pub last_success: Option<u64>,
    /// Time and reason of a failure after the last success.
    pub failure: Option<(u64, String)>,
}
