//! The process itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Health or readiness of the daemon. The status is 503 if a check failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReply {
    /// Whether all checks passed.
    pub ok: bool,
    /// Checks that were made, passed or not.
    pub checks: Vec<Check>,
}

/// A check of health or readiness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Name of the check: `threads`, `started` or `pools`.
    pub name: String,
    /// Whether the check passed.
    pub ok: bool,
    /// Why the check failed; absent if it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Versions of the daemon, the API and the OpenZFS release that it follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Version of the daemon.
    pub weir: String,
    /// Version of this API: `1`, as in its paths.
    pub api: String,
    /// The release of OpenZFS whose commands are modelled.
    pub openzfs: String,
    /// Host name of the machine.
    pub host: String,
}

/// Resources used by the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct System {
    /// Start time of the daemon, in seconds since 1970.
    pub started: u64,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// Processor time used, in seconds; grows faster than time if several threads work.
    pub cpu_seconds: f64,
    /// Number of open files and sockets.
    pub open_files: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of processors of the machine.
    pub processors: u64,
    /// Block caches (ARC) of all pools together.
    pub cache: Cache,
}

/// Size and hits of the block cache (ARC).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Cache {
    /// Maximum size in bytes.
    pub max_bytes: u64,
    /// Current size in bytes.
    pub used_bytes: u64,
    /// Number of reads answered from the cache.
    pub hits: u64,
    /// Number of reads that were not in the cache.
    pub misses: u64,
}

/// A setting of the daemon with its current value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Key in the configuration file, such as `nfs.listen`.
    pub name: String,
    /// Current value, as written in the configuration file.
    pub value: String,
    /// Value if nothing is set.
    pub default: String,
    /// Where the current value comes from.
    pub source: SettingSource,
    /// Meaning of the setting.
    pub help: String,
    /// When a change takes effect.
    pub changes: SettingChanges,
    /// Value after the next restart; absent if it equals the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}

/// When a change of a setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingChanges {
    /// Immediately.
    Now,
    /// After a restart of the daemon.
    Restart,
}

/// Changes settings that can change while the daemon runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSettings {
    /// Keys with values as in the configuration file (quotes may be omitted); `null` restores the
    /// value of the file. The values survive a restart.
    pub set: BTreeMap<String, Option<String>>,
}

/// Result of a change of settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingsChanged {
    /// Keys whose value has changed and is in effect.
    pub changed: Vec<String>,
    /// Keys whose new value takes effect after a restart.
    pub restart: Vec<String>,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// Not set: the built-in default.
    Default,
    /// Set in the configuration file.
    File,
    /// Set through this API.
    Interface,
    /// An option on the command line.
    Option,
}
