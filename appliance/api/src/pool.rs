//! Pools, their devices, and the operations on them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How a device is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Past Linux's page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache.
    Buffered,
}

/// State of a pool or device, in the words of `zpool status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Works normally.
    Online,
    /// Works, but without full redundancy or with unavailable parts.
    Degraded,
    /// It had too many errors, or its contents are damaged.
    Faulted,
    /// An administrator took it offline.
    Offline,
    /// It was removed while in use.
    Removed,
    /// It cannot be opened.
    Unavail,
    /// Its data was split off into another pool (`zpool split`).
    Split,
    /// Its devices refuse writes; reads continue. Resumed by `zpool clear`.
    Suspended,
    /// A hot spare that is not in use.
    Avail,
    /// A hot spare that replaces a device.
    Inuse,
    /// The state is not known to this version.
    Unknown,
}

impl std::fmt::Display for State {
    /// As in JSON.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_uppercase())
    }
}

/// A pool in short form, as in lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Name under which it is imported.
    pub name: String,
    /// GUID, a decimal number of 64 bits.
    pub guid: String,
    /// State of the pool as a whole.
    pub state: State,
    /// Most urgent problem and recommended action.
    pub health: Health,
    /// Whether it is imported read-only.
    pub read_only: bool,
    /// Property `size`: bytes of all top-level devices, parity included.
    pub size_bytes: u64,
    /// Property `allocated`: bytes in use, parity included.
    pub allocated_bytes: u64,
    /// Property `free`: bytes not in use, parity included.
    pub free_bytes: u64,
    /// Property `capacity`: allocated bytes in percent of the size.
    pub capacity_percent: u64,
    /// Property `fragmentation` of the free space, in percent. Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// Bytes used by all datasets, without parity.
    pub used_bytes: u64,
    /// Bytes that can still be written to datasets, without parity.
    pub available_bytes: u64,
    /// Property `dedupratio`: referenced divided by allocated bytes of deduplicated blocks.
    pub dedup_ratio: f64,
    /// Directory prepended to all mount points; absent if none was given at import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// Number of entries in the pool's error log.
    pub error_count: u64,
    /// Newest transaction group on disk.
    pub txg: u64,
    /// The current or last scrub or resilver; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
}

/// The most urgent problem of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// True if nothing needs attention. `status` may still suggest an upgrade.
    pub ok: bool,
    /// The problem, as `zpool status` describes it below `status:`; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What to do, as `zpool status` shows it below `action:`; absent if there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// URL of the page of OpenZFS's documentation on the problem; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

/// A pool with its devices, features and known damage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolDetail {
    /// The short form.
    #[serde(flatten)]
    pub pool: Pool,
    /// Root of the device tree: data, log, special and dedup devices.
    pub devices: Device,
    /// L2ARC devices.
    pub caches: Vec<Device>,
    /// Hot spares, in use or not.
    pub spares: Vec<Device>,
    /// Features that this version knows, and their states.
    pub features: Vec<Feature>,
    /// Files that are known to be damaged, by name. At most 1,000.
    pub damaged_files: Vec<String>,
    /// Warnings from opening the pool, for people.
    pub warnings: Vec<String>,
    /// Removal, checkpoint and raidz expansion in progress, one sentence each.
    pub activity: Vec<String>,
}

/// A device and its children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Name, as `zpool status` shows it.
    pub name: String,
    /// `root`, `mirror`, `raidz`, `draid`, `file`, `disk`, `replacing`, `spare`, `indirect`,
    /// `hole`, `missing` …
    pub kind: String,
    /// Class: `normal`, `log`, `special`, `dedup`, `l2cache`, `spare`.
    pub class: String,
    /// GUID, a decimal number of 64 bits.
    pub guid: String,
    /// State of the device.
    pub state: State,
    /// Reason for the state: OpenZFS's `vdev_aux` in lower case, such as `open failed`. Absent if
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Path of the device or file; absent for devices that consist of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the device is read and written; absent for devices that consist of others and for
    /// missing ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Number of failed reads since the pool was opened or its errors were cleared.
    pub read_errors: u64,
    /// Number of failed writes since the pool was opened or its errors were cleared.
    pub write_errors: u64,
    /// Number of reads with a wrong checksum since the pool was opened or its errors were cleared.
    pub checksum_errors: u64,
    /// Number of operations that took longer than the setting `events.slow_ms`, by default 30
    /// seconds.
    pub slow_operations: u64,
    /// Bytes rewritten because they were damaged.
    pub self_healed_bytes: u64,
    /// Number of reads since the pool was opened.
    pub read_operations: u64,
    /// Bytes read since the pool was opened.
    pub read_bytes: u64,
    /// Number of writes since the pool was opened.
    pub write_operations: u64,
    /// Bytes written since the pool was opened.
    pub write_bytes: u64,
    /// Capacity in bytes; 0 if only the top-level device has one.
    pub size_bytes: u64,
    /// Bytes allocated; 0 if only the top-level device counts them.
    pub allocated_bytes: u64,
    /// Fragmentation of the free space, in percent; absent if only the top-level device has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// Devices that it consists of; empty for a leaf.
    #[schema(no_recursion)]
    pub children: Vec<Device>,
}

/// A feature flag of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Feature {
    /// Short name, as in `feature@NAME`.
    pub name: String,
    /// Whether the feature is enabled and in use.
    pub state: FeatureState,
}

/// State of a feature flag, as in `zpool get feature@NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureState {
    /// Not enabled.
    Disabled,
    /// Enabled, but nothing on disk depends on it.
    Enabled,
    /// Enabled and in use: older software may be unable to open the pool.
    Active,
}

/// The current or last scrub or resilver of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scan {
    /// `scrub` or `resilver`.
    pub kind: String,
    /// `active`, `paused`, `finished` or `cancelled`.
    pub state: String,
    /// Start time, in seconds since 1970.
    pub started: u64,
    /// End time, in seconds since 1970; absent while it runs or is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Bytes checked so far.
    pub done_bytes: u64,
    /// Bytes to check in total.
    pub total_bytes: u64,
    /// Bytes repaired by a scrub or written by a resilver.
    pub repaired_bytes: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
}

/// A pool that was found on devices and is not imported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportablePool {
    /// Name in its labels; an import may change it.
    pub name: String,
    /// GUID, a decimal number of 64 bits; identifies the pool if names are ambiguous.
    pub guid: String,
    /// State that the pool would have after an import.
    pub state: State,
    /// Most urgent problem and recommended action.
    pub health: Health,
    /// Whether the pool was destroyed. Importing it may recover it.
    pub destroyed: bool,
    /// Root of the device tree, with the devices that were found.
    pub devices: Device,
}

/// `zpool create`: creates a pool from devices or files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Name of the new pool.
    pub name: String,
    /// Devices of the pool: one group for each redundancy group or purpose. 1 to 1,000 paths in
    /// all.
    pub groups: Vec<DeviceGroup>,
    /// Properties of the pool (`-o`).
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Properties of its root dataset (`-O`).
    #[serde(default)]
    pub dataset_properties: BTreeMap<String, String>,
    /// Use devices that seem to be in use, and groups of different redundancy (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// Devices that form one top-level device, or with layout `single` one each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceGroup {
    /// Redundancy between the devices.
    pub layout: Layout,
    /// Use of the devices. Default: `data`.
    #[serde(default)]
    pub purpose: Purpose,
    /// Absolute paths of devices or files.
    pub paths: Vec<String>,
    /// Size in bytes of files to create for paths that do not exist; absent: all paths must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub make_files_bytes: Option<u64>,
}

/// Redundancy between the devices of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// No redundancy: each device is a top-level device.
    Single,
    /// Every device holds the same data; one is enough.
    Mirror,
    /// Single parity: one device may fail.
    Raidz1,
    /// Double parity: two devices may fail.
    Raidz2,
    /// Triple parity: three devices may fail.
    Raidz3,
}

/// Use of a group of devices (`zpool create`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Data and metadata of the pool.
    #[default]
    Data,
    /// Intent log (`log`).
    Log,
    /// Metadata and small blocks (`special`).
    Special,
    /// Dedup tables (`dedup`).
    Dedup,
    /// L2ARC (`cache`).
    Cache,
    /// Hot spares (`spare`).
    Spare,
}

/// `zpool import`: imports a pool that was found on devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Name or GUID of the pool.
    pub pool: String,
    /// Absolute paths of directories or devices to search; empty: `/dev`.
    #[serde(default)]
    pub places: Vec<String>,
    /// Name to import it under; absent: its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// Import it read-only (`-o readonly=on`).
    #[serde(default)]
    pub read_only: bool,
    /// Directory to prepend to all mount points; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// Import it even if it seems to be in use by another system (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zpool export`: closes a pool. Running jobs of the pool are cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportPool {
    /// Unmount file systems even if they are in use (`-f`).
    pub force: bool,
}

/// `zpool destroy`: destroys a pool. The name must be repeated to confirm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// Name of the pool, repeated to confirm.
    pub confirm: String,
    /// Unmount file systems even if they are in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zpool clear`: clears errors, and resumes a suspended pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClearPool {
    /// Name of the device whose errors are cleared; absent: all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
