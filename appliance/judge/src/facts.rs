//! What is known of a run. What is not known is absent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a result is said to be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// The server's memory.
    Cache,
    /// Its disks.
    Disk,
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// `randread`, `varmail` …
    pub name: String,
    /// Operations are at random places.
    pub random: bool,
    /// Bytes of an operation; 0: they differ, or have none.
    pub op_bytes: u64,
    /// Writes are asked to be on stable storage.
    pub sync: bool,
    /// Files are read and written past the client's memory.
    pub direct: bool,
    /// Bytes that are touched.
    pub working_set_bytes: Option<f64>,
    /// Operations a second that were asked for; absent: as many as go.
    pub requested_rate: Option<f64>,
    /// Somebody asked for data that compresses.
    pub compressible: bool,
    /// What the result is said to be of.
    pub claim: Option<Claim>,
    /// The load ran on the machine that serves, over no network.
    pub is_local: bool,
}

/// A link, or what carries as much in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes a second that it can carry in one direction; absent: no limit is known, as of a loopback.
    pub limit_bytes_per_second: Option<f64>,
    /// Bytes that it carried in the busier direction while the run lasted.
    pub carried_bytes: Option<f64>,
    /// Largest packet.
    pub mtu: Option<u32>,
}

/// Who made load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Operations that it counted.
    pub ops: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// Bytes among them that were read.
    pub read_bytes: f64,
    /// How busy what makes load was: of the processors that it could use, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Its memory, which may hold files.
    pub memory_bytes: Option<f64>,
    /// Its link to the server.
    pub link: Option<Link>,
}

/// A disk of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Of the run's time it was busy, 0 to 1.
    pub busy: Option<f64>,
    /// Bytes read and written.
    pub bytes: Option<f64>,
    /// Bytes a second that it can do at most.
    pub limit_bytes_per_second: Option<f64>,
}

/// What the server counted, and is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Operations of the clients that it counted.
    pub ops: Option<f64>,
    /// How busy its processors were, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Processors, chips and disks, to divide a result by.
    pub cores: Option<u32>,
    /// Chips.
    pub chips: Option<u32>,
    /// Its links.
    pub links: Vec<Link>,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Blocks found in memory.
    pub cache_hits: Option<f64>,
    /// Blocks not found there.
    pub cache_misses: Option<f64>,
    /// Bytes of the cache in memory when the run began and when it ended.
    pub cache_bytes: Option<(f64, f64)>,
    /// Bytes that it may have.
    pub cache_max_bytes: Option<f64>,
    /// Bytes on cache devices when the run began and when it ended; absent: there are none.
    pub l2_bytes: Option<(f64, f64)>,
    /// Bytes that wait to be written at most, before writers wait.
    pub dirty_max_bytes: Option<f64>,
    /// Bytes of a record of what was loaded.
    pub record_bytes: Option<u64>,
    /// Mirrors, RAID-Z: how the pool is made.
    pub layout: Option<String>,
    /// What is measured of the data: bytes of files for each byte on disk.
    pub compress_ratio: Option<f64>,
    /// Whether a device of its own has the intent log.
    pub has_log_device: Option<bool>,
    /// The dataset's property `sync`.
    pub sync_property: Option<String>,
    /// Writes that had to be stable when they were answered, and syncs.
    pub sync_ops: Option<f64>,
    /// Flushes that went to devices.
    pub device_flushes: Option<f64>,
    /// What else was at work: `scrub of tank` …
    pub jobs: Vec<String>,
    /// Whether reading a file changes it.
    pub atime: Option<bool>,
}

/// A second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Its length.
    pub seconds: f64,
    /// Operations that ended in it.
    pub ops: f64,
}

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// What was asked for.
    pub load: Load,
    /// How long it counted, in seconds.
    pub seconds: f64,
    /// Operations that should have begun, where there was a rate.
    pub due: Option<f64>,
    /// Operations that failed.
    pub failed: f64,
    /// Who made load.
    pub clients: Vec<Client>,
    /// The server; absent: a disk or file of the machine that made load.
    pub server: Option<Server>,
    /// Second by second.
    pub series: Vec<Second>,
    /// Latencies: the largest of a class in nanoseconds, and how many it has; ascending.
    pub latency: Vec<(u64, u64)>,
    /// Operations a second of each repetition, this one among them.
    pub repeats: Vec<f64>,
    /// What the systems are: versions, machines, layout, properties, how full.
    pub configuration: Map<String, Value>,
}

impl Facts {
    /// Operations of all clients.
    pub fn ops(&self) -> f64 {
        self.clients.iter().map(|c| c.ops).sum()
    }

    /// Bytes that they moved.
    pub fn bytes(&self) -> f64 {
        self.clients.iter().map(|c| c.bytes).sum()
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.ops() / self.seconds.max(1e-9)
    }

    /// Nanoseconds within which so many of a hundred operations were done.
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

    /// The result, each number with what it is divided by.
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
            "  half within {:.3} ms, 99 % {:.3} ms, 99.9 % {:.3} ms, all {:.3} ms\n",
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
