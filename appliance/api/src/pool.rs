//! Pools, their devices, and the operations on them.

use crate::Property;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How a pool or a device is, in `zpool status`'s words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// In service.
    Online,
    /// It works, with parts missing.
    Degraded,
    /// It had too many errors, or its contents are damaged.
    Faulted,
    /// An administrator took it offline.
    Offline,
    /// It was removed while in use.
    Removed,
    /// It cannot be opened.
    Unavail,
    /// It was split off into another pool.
    Split,
    /// Its devices refuse writes; reads continue. Resumed by `zpool clear`.
    Suspended,
    /// A spare that waits.
    Avail,
    /// A spare in use.
    Inuse,
    /// Not known.
    Unknown,
}

/// A pool, in a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Name under which it is imported.
    pub name: String,
    /// Identity: a decimal number.
    pub guid: String,
    /// Its state.
    pub state: State,
    /// Problems, and what to do about them.
    pub health: Health,
    /// Whether it is imported read-only.
    pub read_only: bool,
    /// Allocatable bytes of all devices, parity included.
    pub size_bytes: u64,
    /// Bytes allocated, parity included.
    pub allocated_bytes: u64,
    /// Bytes free, parity included.
    pub free_bytes: u64,
    /// Allocated part of the size.
    pub capacity_percent: u64,
    /// Fragmentation of the free space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// Bytes used by all datasets, without parity.
    pub used_bytes: u64,
    /// Bytes that datasets can still take.
    pub available_bytes: u64,
    /// Referenced to allocated bytes of deduplicated blocks.
    pub dedup_ratio: f64,
    /// Put before all mount points, if given at import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// Errors in the pool's error log.
    pub error_count: u64,
    /// The newest txg on disk.
    pub txg: u64,
    /// Background work on the whole pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
}

/// The most pressing thing that is wrong with a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Nothing needs attention.
    pub ok: bool,
    /// The text that `zpool status` shows below `status:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The text below `action:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The page that explains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

/// A pool with everything in it that is not a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolDetail {
    /// The line.
    #[serde(flatten)]
    pub pool: Pool,
    /// Its devices: data, logs, special and dedup devices below one root.
    pub devices: Device,
    /// Level-2 caches.
    pub caches: Vec<Device>,
    /// Hot spares.
    pub spares: Vec<Device>,
    /// Features and how they are.
    pub features: Vec<Feature>,
    /// Files that are known to be damaged, by name. At most 1,000.
    pub damaged_files: Vec<String>,
    /// Warnings from opening it.
    pub warnings: Vec<String>,
    /// The lines below `scan:`, `remove:`, `checkpoint:` and `expand:` of `zpool status`.
    pub activity: Vec<String>,
}

/// A device and its children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// As `zpool status` names it.
    pub name: String,
    /// `root`, `mirror`, `raidz`, `draid`, `file`, `disk`, `replacing`, `spare`, `indirect`,
    /// `hole`, `missing` …
    pub kind: String,
    /// Class: `normal`, `log`, `special`, `dedup`, `l2cache`, `spare`.
    pub class: String,
    /// Identity: a decimal number.
    pub guid: String,
    /// Its state.
    pub state: State,
    /// Why it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Reads that brought something else than was written.
    pub checksum_errors: u64,
    /// Operations that took longer than 30 s.
    pub slow_operations: u64,
    /// Bytes rewritten because they were damaged.
    pub self_healed_bytes: u64,
    /// Operations since the pool was opened.
    pub read_operations: u64,
    /// Bytes since the pool was opened.
    pub read_bytes: u64,
    /// Operations since the pool was opened.
    pub write_operations: u64,
    /// Bytes since the pool was opened.
    pub write_bytes: u64,
    /// Bytes it holds; 0 where that is known only above.
    pub size_bytes: u64,
    /// Bytes allocated on it; 0 where that is known only above.
    pub allocated_bytes: u64,
    /// How torn its free space is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u64>,
    /// What it consists of.
    #[schema(no_recursion)]
    pub children: Vec<Device>,
}

/// A feature of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Feature {
    /// Short name, as in `feature@NAME`.
    pub name: String,
    /// Its state.
    pub state: FeatureState,
}

/// How a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureState {
    /// Off.
    Disabled,
    /// On, and nothing on disk depends on it.
    Enabled,
    /// On, and in use.
    Active,
}

/// A scrub or resilver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scan {
    /// `scrub` or `resilver`.
    pub kind: String,
    /// `active`, `paused`, `finished` or `cancelled`.
    pub state: String,
    /// When it began.
    pub started: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Bytes looked at.
    pub done_bytes: u64,
    /// Bytes to look at.
    pub total_bytes: u64,
    /// Bytes repaired.
    pub repaired_bytes: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
}

/// A pool that could be imported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImportablePool {
    /// Its name.
    pub name: String,
    /// Identity: a decimal number.
    pub guid: String,
    /// How it would be.
    pub state: State,
    /// Problems, and what to do about them.
    pub health: Health,
    /// It was destroyed.
    pub destroyed: bool,
    /// Its devices.
    pub devices: Device,
}

/// `zpool create`: creates a pool from devices or files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    pub name: String,
    /// Devices, in groups.
    pub groups: Vec<DeviceGroup>,
    /// Properties of the pool (`-o`).
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Properties of its root dataset (`-O`).
    #[serde(default)]
    pub dataset_properties: BTreeMap<String, String>,
    /// Take devices that seem to be in use, and groups that do not match (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// Devices of one top-level device, or of several if they are single.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceGroup {
    /// How they are put together.
    pub layout: Layout,
    /// What for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Absolute paths of devices or files.
    pub paths: Vec<String>,
    /// Missing files are created, each of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub make_files_bytes: Option<u64>,
}

/// How devices are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Single devices without redundancy.
    Single,
    /// All hold the same.
    Mirror,
    /// One may fail.
    Raidz1,
    /// Two may fail.
    Raidz2,
    /// Three may fail.
    Raidz3,
}

/// What devices are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Data.
    #[default]
    Data,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Dedup tables.
    Dedup,
    /// Level-2 cache.
    Cache,
    /// Hot spares.
    Spare,
}

/// `zpool import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Name or number of the pool.
    pub pool: String,
    /// Folders or devices to look in; none: the usual places.
    #[serde(default)]
    pub places: Vec<String>,
    /// Import it under this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// Only to be looked at.
    #[serde(default)]
    pub read_only: bool,
    /// Put before all mount points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// Also if another system had it last (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zpool export`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportPool {
    /// Also while it is in use (`-f`).
    pub force: bool,
}

/// `zpool destroy`, `zfs destroy`: the name must be repeated to confirm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// Name of the object to destroy.
    pub confirm: String,
    /// Also descendants (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// Also while it is in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zpool clear`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClearPool {
    /// One device; none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Properties of a pool as they are after being set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolProperties {
    /// All of them.
    pub items: Vec<Property>,
}
