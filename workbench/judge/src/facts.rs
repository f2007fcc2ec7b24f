//! The facts known about a run. Unknown values are absent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a result claims to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// The server's memory.
    Cache,
    /// The server's disks.
    Disk,
}

/// The load that was requested, not what was achieved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// `randread`, `varmail` …
    pub name: String,
    /// Operations are at random offsets.
    pub random: bool,
    /// Size of an operation in bytes; 0: sizes differ, or operations have none.
    pub op_bytes: u64,
    /// Writes are requested to be stable.
    pub sync: bool,
    /// Files are read and written with direct I/O, bypassing the client's memory.
    pub direct: bool,
    /// Size of the working set in bytes.
    pub working_set_bytes: Option<f64>,
    /// Requested operations per second; absent: unlimited.
    pub requested_rate: Option<f64>,
    /// Compressible data was requested.
    pub compressible: bool,
    /// What the result claims to measure.
    pub claim: Option<Claim>,
    /// The load ran on the server itself, without a network.
    pub is_local: bool,
}

/// A network link, or an equivalent transport.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    pub name: String,
    /// Capacity in one direction, in bytes per second; absent: no known limit, as for a loopback
    /// device.
    pub limit_bytes_per_second: Option<f64>,
    /// Bytes carried in the busier direction during the run.
    pub carried_bytes: Option<f64>,
    /// Maximum packet size (MTU) in bytes.
    pub mtu: Option<u32>,
}

/// A load generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    pub name: String,
    /// Operations that it counted.
    pub ops: f64,
    /// Bytes moved by these operations.
    pub bytes: f64,
    /// Bytes read, out of those.
    pub read_bytes: f64,
    /// Utilization of the processors available to the load generator, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Memory in bytes, which may cache files.
    pub memory_bytes: Option<f64>,
    /// Link to the server.
    pub link: Option<Link>,
}

/// A disk of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    pub name: String,
    /// Utilization during the run, 0 to 1.
    pub busy: Option<f64>,
    /// Bytes read and written.
    pub bytes: Option<f64>,
    /// Maximum throughput in bytes per second.
    pub limit_bytes_per_second: Option<f64>,
}

/// The server's counts and configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Client operations that it counted.
    pub ops: Option<f64>,
    /// Utilization of its processors, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Number of processor cores, to divide a result by.
    pub cores: Option<u32>,
    /// Number of processor chips.
    pub chips: Option<u32>,
    pub links: Vec<Link>,
    pub disks: Vec<Disk>,
    /// Cache hits, in blocks.
    pub cache_hits: Option<f64>,
    /// Cache misses, in blocks.
    pub cache_misses: Option<f64>,
    /// Bytes in the memory cache at the start and the end of the run.
    pub cache_bytes: Option<(f64, f64)>,
    /// Maximum size of the memory cache in bytes.
    pub cache_max_bytes: Option<f64>,
    /// Bytes on cache devices at the start and the end of the run; absent: there are none.
    pub l2_bytes: Option<(f64, f64)>,
    /// Maximum amount of dirty data in bytes, from which writers are throttled.
    pub dirty_max_bytes: Option<f64>,
    /// Record size of the dataset under load, in bytes.
    pub record_bytes: Option<u64>,
    /// Pool layout, such as mirror or RAID-Z.
    pub layout: Option<String>,
    /// Measured compression ratio: logical bytes per byte on disk.
    pub compress_ratio: Option<f64>,
    /// Whether the intent log has a device of its own.
    pub has_log_device: Option<bool>,
    /// The dataset's property `sync`.
    pub sync_property: Option<String>,
    /// Writes that had to be stable when acknowledged, and syncs.
    pub sync_ops: Option<f64>,
    /// Flushes sent to devices.
    pub device_flushes: Option<f64>,
    /// Other activity, such as `scrub of tank`.
    pub jobs: Vec<String>,
    /// Whether reads update the access time.
    pub atime: Option<bool>,
}

/// One interval of the time series, about a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    pub seconds: f64,
    /// Operations completed in it.
    pub ops: f64,
}

/// The facts about a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub load: Load,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Operations that were due, if a rate was requested.
    pub due: Option<f64>,
    /// Number of failed operations.
    pub failed: f64,
    pub clients: Vec<Client>,
    /// The server; absent: a local disk or file on the client.
    pub server: Option<Server>,
    pub series: Vec<Second>,
    /// Latency histogram: upper bound of each bucket in nanoseconds, and its count; ascending.
    pub latency: Vec<(u64, u64)>,
    /// Operations per second of each repetition, including this one.
    pub repeats: Vec<f64>,
    /// Description of the systems: versions, machines, layout, properties, fill level.
    pub configuration: Map<String, Value>,
}

impl Facts {
    /// Total operations of all clients.
    pub fn ops(&self) -> f64 {
        self.clients.iter().map(|c| c.ops).sum()
    }

    /// Total bytes moved by all clients.
    pub fn bytes(&self) -> f64 {
        self.clients.iter().map(|c| c.bytes).sum()
    }

    /// Operations per second of all clients together.
    pub fn rate(&self) -> f64 {
        self.ops() / self.seconds.max(1e-9)
    }

    /// The latency in nanoseconds that `percent` of all operations did not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        let count: u64 = self.latency.iter().map(|(_, c)| c).sum();
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let reached = self.latency.iter().find(|(_, c)| {
            seen += c;
            seen >= rank
        });
        reached.map_or(0, |(last, _)| *last)
    }

    /// The result as text, with each number's divisor.
    pub fn text(&self) -> String {
        let (rate, mib) = (self.rate(), self.bytes() / self.seconds.max(1e-9) / f64::from(1 << 20));
        let mut text =
            format!("{}: {rate:.0} operations a second, {mib:.1} MiB/s, for {:.0} s\n", self.load.name, self.seconds);
        let server = self.server.as_ref();
        let disks = server.map(|s| s.disks.len()).filter(|n| *n > 0);
        let parts = [
            ("core", server.and_then(|s| s.cores).map(f64::from)),
            ("chip", server.and_then(|s| s.chips).map(f64::from)),
            ("disk", disks.map(|n| n as f64)),
            ("client", Some(self.clients.len() as f64)),
        ];
        for (name, count) in parts.into_iter().filter_map(|(n, c)| Some((n, c.filter(|c| *c > 0.0)?))) {
            text += &format!("  for each {name} ({count}): {:.0} a second\n", rate / count);
        }
        let ms = |p: f64| self.percentile(p) as f64 / 1e6;
        text += &format!(
            "  50 % within {:.3} ms, 99 % {:.3} ms, 99.9 % {:.3} ms, all {:.3} ms\n",
            ms(50.0),
            ms(99.0),
            ms(99.9),
            ms(100.0)
        );
        if self.repeats.len() > 1
            && let Some((mean, half)) = crate::statistics::interval(&self.repeats)
        {
            text += &format!(
                "  {} repetitions: {mean:.0} a second, 95 % interval {:.0} to {:.0}\n",
                self.repeats.len(),
                mean - half,
                mean + half
            );
        }
        text
    }
}
