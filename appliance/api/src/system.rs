//! The process itself.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Whether the process works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReply {
    /// Whether all checks passed.
    pub ok: bool,
    /// The checks.
    pub checks: Vec<Check>,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Weir's.
    pub weir: String,
    /// That of this interface.
    pub api: String,
    /// The release of OpenZFS whose commands are modelled.
    pub openzfs: String,
    /// This machine's name.
    pub host: String,
}

/// Resources used by the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct System {
    /// When it started.
    pub started: u64,
    /// Its number.
    pub pid: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Seconds of processor time.
    pub cpu_seconds: f64,
    /// Open files and sockets.
    pub open_files: u64,
    /// Threads.
    pub threads: u64,
    /// Processors of the machine.
    pub processors: u64,
    /// The block caches of all pools together.
    pub cache: Cache,
}

/// The block cache.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Cache {
    /// Most bytes it may hold.
    pub max_bytes: u64,
    /// Bytes it holds.
    pub used_bytes: u64,
    /// Reads that it answered.
    pub hits: u64,
    /// Reads that went to devices.
    pub misses: u64,
}

/// A setting that is in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Its key in the configuration file, such as `nfs.address`.
    pub name: String,
    /// Its value, as the file would say it.
    pub value: String,
    /// The value when nothing is set.
    pub default: String,
    /// Its source.
    pub source: SettingSource,
    /// What it means.
    pub help: String,
    /// When a change is in force.
    pub changes: SettingChanges,
    /// The value after a restart, when that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}

/// When a change of a setting is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingChanges {
    /// At once.
    Now,
    /// After a restart.
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
    /// Keys that have another value now.
    pub changed: Vec<String>,
    /// Keys whose new value is in force after a restart.
    pub restart: Vec<String>,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// Nothing is set.
    Default,
    /// The configuration file.
    File,
    /// Set through the API.
    Interface,
    /// An option of the command line.
    Option,
}
