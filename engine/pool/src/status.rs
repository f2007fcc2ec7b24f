//! The state of a pool and of each of its devices: what `zpool status` shows.
//!
//! Plain data, filled from an open pool or from the labels that a search found; `admin` judges it and `cli` prints it.
//! Numbers and names of states are OpenZFS's (`vdev_state_t`, `vdev_aux_t`, `vdev_stat_t` in include/sys/fs/zfs.h).

use ondisk::removal::Rebuild;

/// State of a device, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum VdevState {
    /// Not known.
    Unknown,
    /// Not opened.
    Closed,
    /// An administrator took it offline.
    Offline,
    /// It went away while in use.
    Removed,
    /// Opening it failed.
    CantOpen,
    /// It was declared faulty.
    Faulted,
    /// It works, with parts missing.
    Degraded,
    /// Good.
    #[default]
    Healthy,
}

impl VdevState {
    /// As JSON documents name it.
    pub fn json_name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Closed => "CLOSED",
            Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
            Self::CantOpen => "CANT_OPEN",
            Self::Faulted => "FAULTED",
            Self::Degraded => "DEGRADED",
            Self::Healthy => "ONLINE",
        }
    }
}

/// Why a device is in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VdevAux {
    /// There is nothing to say.
    #[default]
    None,
    /// It could not be opened.
    OpenFailed,
    /// Its labels or contents are damaged.
    CorruptData,
    /// Too many of its children are away.
    NoReplicas,
    /// The guids do not add up: a device is not known.
    BadGuidSum,
    /// It is smaller than it was.
    TooSmall,
    /// Its label is another device's.
    BadLabel,
    /// Written by a newer version.
    VersionNewer,
    /// Written by a version that is too old.
    VersionOlder,
    /// The pool has features that are not known.
    UnsupFeat,
    /// A hot spare in use.
    Spared,
    /// It had too many errors.
    ErrExceeded,
    /// It failed to read or write.
    IoFailure,
    /// The intent log cannot be read.
    BadLog,
    /// Someone declared it faulty.
    External,
    /// It was split off into another pool.
    SplitPool,
    /// Its sector size is not possible.
    BadAshift,
    /// Someone declared it faulty for good.
    ExternalPersist,
    /// Another host has it.
    Active,
    /// All its children are offline.
    ChildrenOffline,
    /// Its sectors are larger than we can handle.
    AshiftTooBig,
}

impl VdevAux {
    /// As JSON documents name it.
    pub fn json_name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::OpenFailed => "OPEN_FAILED",
            Self::CorruptData => "CORRUPT_DATA",
            Self::NoReplicas => "NO_REPLICAS",
            Self::BadGuidSum => "BAD_GUID_SUM",
            Self::TooSmall => "TOO_SMALL",
            Self::BadLabel => "BAD_LABEL",
            Self::VersionNewer => "VERSION_NEWER",
            Self::VersionOlder => "VERSION_OLDER",
            Self::UnsupFeat => "UNSUP_FEAT",
            Self::Spared => "SPARED",
            Self::ErrExceeded => "ERR_EXCEEDED",
            Self::IoFailure => "IO_FAILURE",
            Self::BadLog => "BAD_LOG",
            Self::External => "EXTERNAL",
            Self::SplitPool => "SPLIT_POOL",
            Self::BadAshift => "BAD_ASHIFT",
            Self::ExternalPersist => "EXTERNAL_PERSIST",
            Self::Active => "ACTIVE",
            Self::ChildrenOffline => "CHILDREN_OFFLINE",
            Self::AshiftTooBig => "ASHIFT_TOO_BIG",
        }
    }
}

/// What a top-level device is for; everything below it has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VdevClass {
    /// Data.
    #[default]
    Normal,
    /// Intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Dedup tables.
    Dedup,
    /// Level-2 cache.
    Cache,
    /// Hot spare.
    Spare,
}

impl VdevClass {
    /// As JSON documents name it.
    pub fn json_name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Log => "log",
            Self::Special => "special",
            Self::Dedup => "dedup",
            Self::Cache => "l2cache",
            Self::Spare => "spare",
        }
    }
}

/// Initialising or trimming of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VdevWork {
    /// 0 none, 1 active, 2 cancelled, 3 suspended, 4 complete.
    pub state: u64,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes to do.
    pub total_bytes: u64,
    /// When it was begun, suspended or finished; seconds since 1970.
    pub action_time: u64,
    /// Errors met.
    pub errors: u64,
}

/// A sequential rebuild of a top-level device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildStatus {
    /// As the pool keeps it; its figures as they are now, where the process that does it tells.
    pub now: Rebuild,
    /// Since the pool was opened, where the process that does it tells: milliseconds.
    pub pass_time_ms: u64,
    /// Bytes looked at in that time.
    pub pass_scanned_bytes: u64,
    /// Bytes read in that time.
    pub pass_issued_bytes: u64,
}

impl RebuildStatus {
    /// How it stands.
    pub fn progress(&self) -> Progress {
        match self.now.state {
            Rebuild::ACTIVE => Progress::Active,
            Rebuild::CANCELLED => Progress::Cancelled,
            Rebuild::COMPLETE => Progress::Finished,
            _ => Progress::None,
        }
    }
}

/// A device and everything below it. The default is a good leaf without name or size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VdevStatus {
    /// `mirror-0`, `raidz1-0`, `draid2:4d:8c:1s-0`, `spare-3`; of a leaf its path; of the root the pool's name.
    pub name: String,
    /// `root`, `mirror`, `raidz`, `draid`, `replacing`, `spare`, `disk`, `file`, `dspare`, `indirect`, `hole`, `missing`.
    pub kind: String,
    /// What it is for.
    pub class: VdevClass,
    /// Identity.
    pub guid: u64,
    /// Place among its siblings.
    pub id: u64,
    /// State.
    pub state: VdevState,
    /// Why.
    pub aux: VdevAux,
    /// Where a leaf was opened; of one that is not there, where it was.
    pub path: Option<String>,
    /// The configuration's hints where the leaf is: device id and physical path.
    pub devid: Option<String>,
    /// Physical path.
    pub phys_path: Option<String>,
    /// The whole disk was given to ZFS (`-P` off: the partition's number is left out of the name).
    pub whole_disk: bool,
    /// A leaf that could not be found when the pool was opened: shown by its guid, `was PATH`.
    pub not_present: bool,
    /// Read errors since the pool was opened.
    pub read_errors: u64,
    /// Write errors.
    pub write_errors: u64,
    /// Checksum errors.
    pub checksum_errors: u64,
    /// Operations that took very long.
    pub slow_ios: u64,
    /// Bytes that were written again because they were wrong.
    pub self_healed_bytes: u64,
    /// Reads made, and bytes read.
    pub read_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes made, and bytes written.
    pub write_ops: u64,
    /// See `write_ops`.
    pub write_bytes: u64,
    /// Bytes allocated: top-level and root devices only (`vs_alloc`).
    pub alloc_bytes: u64,
    /// Bytes allocatable, parity included: top-level and root devices only (`vs_space`).
    pub space_bytes: u64,
    /// Bytes allocatable for data (`vs_dspace`).
    pub dspace_bytes: u64,
    /// Least size that a replacement must have (`vs_rsize`).
    pub replace_bytes: u64,
    /// Size that could be had in addition (`vs_esize`).
    pub expand_bytes: u64,
    /// Size of the whole leaf (`vs_pspace`).
    pub phys_bytes: u64,
    /// Size as configured (`asize`).
    pub asize_bytes: u64,
    /// Fragmentation in percent; `None` when it is not known.
    pub fragmentation_percent: Option<u64>,
    /// Bytes that only the checkpoint holds.
    pub checkpoint_bytes: u64,
    /// Sector size as a power of two.
    pub ashift: u64,
    /// Parity columns, of raidz and draid.
    pub parity: u64,
    /// The device is being removed.
    pub removing: bool,
    /// Nothing new is allocated here.
    pub no_alloc: bool,
    /// A raidz that is being widened.
    pub expanding: bool,
    /// The scan has rewritten so many bytes here.
    pub scan_processed_bytes: u64,
    /// The last sequential rebuild, of a top-level device (`vdev_rebuild_stat_t`).
    pub rebuild: Option<RebuildStatus>,
    /// It waits for a resilver.
    pub resilver_deferred: bool,
    /// Initialising.
    pub initialize: VdevWork,
    /// Trimming.
    pub trim: VdevWork,
    /// The device cannot trim.
    pub trim_unsupported: bool,
    /// The parts, holes and removed devices included.
    pub children: Vec<VdevStatus>,
}

impl VdevStatus {
    /// Whether it has no parts.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// The device with this guid, at or below.
    pub(crate) fn find_mut(&mut self, guid: u64) -> Option<&mut VdevStatus> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter_mut().find_map(|c| c.find_mut(guid))
    }

    /// This device and all below, depth first.
    pub fn walk(&self) -> Vec<&VdevStatus> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.walk());
        }
        all
    }
}

/// What a scan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScanKind {
    /// There was none.
    #[default]
    None,
    /// Scrub.
    Scrub,
    /// Resilver.
    Resilver,
    /// Scrub of what is known to be damaged.
    ErrorScrub,
}

/// How far a scan, a removal or an expansion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Progress {
    /// There was none.
    #[default]
    None,
    /// It goes on.
    Active,
    /// It is done.
    Finished,
    /// It was given up.
    Cancelled,
}

/// The last scan, as the MOS tells (`dsl_scan_phys_t`). Times are seconds since 1970, sizes bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanStatus {
    /// What for.
    pub kind: ScanKind,
    /// How far.
    pub state: Progress,
    /// When it began.
    pub start_time: u64,
    /// When it ended.
    pub end_time: u64,
    /// Bytes to look at.
    pub to_examine_bytes: u64,
    /// Bytes looked at.
    pub examined_bytes: u64,
    /// Bytes left out.
    pub skipped_bytes: u64,
    /// Bytes repaired or resilvered.
    pub processed_bytes: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
    /// When the current pass began.
    pub pass_start: u64,
    /// When it was paused; 0 if it is not.
    pub pause_time: u64,
    /// Seconds of this pass in which it was paused.
    pub spent_paused: u64,
    /// Bytes looked at in this pass.
    pub pass_examined_bytes: u64,
    /// Bytes read in this pass.
    pub pass_issued_bytes: u64,
    /// Bytes read in all, where the process that does it tells.
    pub issued_now_bytes: Option<u64>,
}

impl ScanStatus {
    /// Bytes read: what OpenZFS keeps of it over an import.
    pub fn issued_bytes(&self) -> u64 {
        self.issued_now_bytes.unwrap_or(self.examined_bytes.saturating_sub(self.skipped_bytes))
    }
}

/// The last removal of a top-level device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalStatus {
    /// How far.
    pub state: Progress,
    /// Number of the device.
    pub vdev: u64,
    /// When it began.
    pub start_time: u64,
    /// When it ended.
    pub end_time: u64,
    /// Bytes to copy.
    pub to_copy_bytes: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Memory that the tables of all removed devices take in OpenZFS.
    pub mapping_bytes: u64,
}

/// The checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// It is being discarded.
    pub discarding: bool,
    /// When it was made.
    pub start_time: u64,
    /// Bytes that only it holds.
    pub space_bytes: u64,
}

/// The last expansion of a raidz device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpandStatus {
    /// How far.
    pub state: Progress,
    /// Number of the device.
    pub vdev: u64,
    /// When it began.
    pub start_time: u64,
    /// When it ended.
    pub end_time: u64,
    /// Bytes to move.
    pub to_reflow_bytes: u64,
    /// Bytes moved.
    pub reflowed_bytes: u64,
    /// It waits for a resilver.
    pub waiting_for_resilver: bool,
}

/// Size of the dedup tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DedupStatus {
    /// Entries.
    pub entries: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes in memory when loaded.
    pub core_bytes: u64,
    /// How many blocks are referenced how often, a row for each power of two that has any.
    pub histogram: Vec<DedupRow>,
}

/// A row of the dedup histogram: blocks referenced `2^bucket` to `2^(bucket+1) - 1` times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DedupRow {
    /// Power of two.
    pub bucket: u32,
    /// Blocks, and their logical, physical and device sizes.
    pub blocks: u64,
    /// Logical bytes.
    pub lsize: u64,
    /// Bytes after compression.
    pub psize: u64,
    /// Bytes on the devices.
    pub dsize: u64,
    /// The same multiplied by the references.
    pub ref_blocks: u64,
    /// Logical bytes referenced.
    pub ref_lsize: u64,
    /// Compressed bytes referenced.
    pub ref_psize: u64,
    /// Device bytes referenced.
    pub ref_dsize: u64,
}

/// A pool that cannot write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspended {
    /// What a device said.
    pub why: String,
    /// Devices may have lost what they were told to keep: the pool has to be opened again before it can be written.
    pub until_reopened: bool,
}

/// The state of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Why it cannot write, if the process that has it found that out.
    pub suspended: Option<Suspended>,
    /// Its name.
    pub name: String,
    /// Identity.
    pub guid: u64,
    /// On-disk version: 1 to 28, or 5000.
    pub version: u64,
    /// Txg of the configuration.
    pub config_txg: u64,
    /// The devices; logs, special and dedup devices stand among the root's children, marked by their class.
    pub root: VdevStatus,
    /// Level-2 cache devices.
    pub caches: Vec<VdevStatus>,
    /// Hot spares.
    pub spares: Vec<VdevStatus>,
    /// The last scan.
    pub scan: Option<ScanStatus>,
    /// The last removal.
    pub removal: Option<RemovalStatus>,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointStatus>,
    /// The last expansion.
    pub expand: Option<ExpandStatus>,
    /// The dedup tables.
    pub dedup: DedupStatus,
    /// Damaged blocks in the error log.
    pub error_count: u64,
    /// The damaged files, as `zpool status -v` names them.
    pub errors: Vec<String>,
    /// Features of OpenZFS 2.3 that are off, though the pool could have them (by the rules of `compatibility`).
    pub features_disabled: bool,
    /// Value of the property `compatibility`.
    pub compatibility: Option<String>,
    /// `ZPOOL_CONFIG_ERRATA`: a known flaw that the pool carries.
    pub errata: u64,
    /// Text attached to the pool.
    pub comment: Option<String>,
}

impl PoolStatus {
    /// Sequential rebuilds, with the top-level device of each.
    pub fn rebuilds(&self) -> impl Iterator<Item = (&VdevStatus, &RebuildStatus)> {
        self.root.children.iter().filter_map(|top| Some((top, top.rebuild.as_ref()?)))
    }

    /// All devices: the tree, then cache devices and spares.
    pub fn all_vdevs(&self) -> Vec<&VdevStatus> {
        self.root.walk().into_iter().chain(self.caches.iter().chain(&self.spares).flat_map(VdevStatus::walk)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_states_compare_less() {
        let order = [VdevState::Offline, VdevState::CantOpen, VdevState::Degraded, VdevState::Healthy];
        assert!(order.is_sorted());
        assert_eq!(VdevState::default().json_name(), "ONLINE");
    }

    #[test]
    fn walking_meets_every_device_once() {
        let leaf = |name: &str| VdevStatus { name: name.into(), ..VdevStatus::default() };
        let status = PoolStatus {
            root: VdevStatus { children: vec![leaf("a"), leaf("b")], ..leaf("tank") },
            spares: vec![leaf("s")],
            ..PoolStatus::default()
        };
        let names: Vec<_> = status.all_vdevs().iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["tank", "a", "b", "s"]);
    }
}
