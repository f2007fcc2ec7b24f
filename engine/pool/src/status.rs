//! The state of a pool and of each of its devices, as shown by `zpool status`.
//!
//! Plain data, filled from an open pool or from the labels that a search found. `admin` evaluates
//! it and `cli` prints it. Numbers and names of states are those of OpenZFS (`vdev_state_t`,
//! `vdev_aux_t`, `vdev_stat_t` in include/sys/fs/zfs.h).

use ondisk::removal::Rebuild;

/// State of a device (`vdev_state_t`), worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum VdevState {
    Unknown,
    Closed,
    /// An administrator took it offline.
    Offline,
    /// It disappeared while in use.
    Removed,
    /// It could not be opened.
    CantOpen,
    /// It was declared faulted.
    Faulted,
    /// It works, but parts are missing.
    Degraded,
    /// It works without restriction.
    #[default]
    Healthy,
}

impl VdevState {
    /// The state's name in JSON output.
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

/// Reason for a device's state (`vdev_aux_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VdevAux {
    /// No reason is given.
    #[default]
    None,
    /// It could not be opened.
    OpenFailed,
    /// Its labels or contents are damaged.
    CorruptData,
    /// Too many of its children are unavailable.
    NoReplicas,
    /// The sum of the guids is wrong: a device is unknown.
    BadGuidSum,
    /// It is smaller than before.
    TooSmall,
    /// It has the label of another device.
    BadLabel,
    /// It was written by a newer version.
    VersionNewer,
    /// It was written by a version that is too old.
    VersionOlder,
    /// The pool has unsupported features.
    UnsupFeat,
    /// A hot spare in use.
    Spared,
    /// It had too many errors.
    ErrExceeded,
    /// It failed to read or write.
    IoFailure,
    /// The intent log cannot be read.
    BadLog,
    /// An administrator faulted it.
    External,
    /// It was split off into another pool.
    SplitPool,
    /// Its sector size is invalid.
    BadAshift,
    /// An administrator faulted it permanently.
    ExternalPersist,
    /// Another host uses it.
    Active,
    /// All its children are offline.
    ChildrenOffline,
    /// Its sectors are larger than supported.
    AshiftTooBig,
}

impl VdevAux {
    /// The reason's name in JSON output.
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

/// How the features of a pool compare with those that its property `compatibility` requests: by
/// default, all of OpenZFS 2.3 that Weir supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FeatureSet {
    /// They are the same.
    #[default]
    AsRequested,
    /// Some that are requested are disabled.
    Lacking,
    /// Some are enabled that are not requested, and all that are requested.
    Superfluous,
    /// The files that `compatibility` names cannot be used.
    Unknown,
}

/// Allocation class or role of a top-level device; all devices below have the same.
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
    /// The class's name in JSON output.
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

/// Initialize or trim of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VdevWork {
    /// 0 none, 1 active, 2 cancelled, 3 suspended, 4 complete.
    pub state: u64,
    pub done_bytes: u64,
    /// Free bytes to initialize or trim.
    pub total_bytes: u64,
    /// Time of the last start, suspension or completion; seconds since 1970.
    pub action_time: u64,
    pub errors: u64,
}

/// A sequential rebuild of a top-level device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildStatus {
    /// The state stored in the pool, with current figures if the process that runs the rebuild
    /// reports them.
    pub now: Rebuild,
    /// Run time since the pool was opened, if the process that runs the rebuild reports it;
    /// milliseconds.
    pub pass_time_ms: u64,
    /// Bytes scanned in that time.
    pub pass_scanned_bytes: u64,
    /// Bytes read in that time.
    pub pass_issued_bytes: u64,
}

impl RebuildStatus {
    /// State of the rebuild.
    pub fn progress(&self) -> Progress {
        match self.now.state {
            Rebuild::ACTIVE => Progress::Active,
            Rebuild::CANCELLED => Progress::Cancelled,
            Rebuild::COMPLETE => Progress::Finished,
            _ => Progress::None,
        }
    }
}

/// A device and all devices below it. The default is a healthy leaf without name or size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VdevStatus {
    /// `mirror-0`, `raidz1-0`, `draid2:4d:8c:1s-0`, `spare-3`; a leaf's path; the pool's name for
    /// the root.
    pub name: String,
    /// `root`, `mirror`, `raidz`, `draid`, `replacing`, `spare`, `disk`, `file`, `dspare`,
    /// `indirect`, `hole`, `missing`.
    pub kind: String,
    /// Allocation class or role.
    pub class: VdevClass,
    pub guid: u64,
    /// Position among its siblings.
    pub id: u64,
    pub state: VdevState,
    /// Reason for the state.
    pub aux: VdevAux,
    /// Path at which a leaf was opened; the last known path if it is missing.
    pub path: Option<String>,
    /// Device id of a leaf, from the configuration.
    pub devid: Option<String>,
    /// Physical path of a leaf, from the configuration.
    pub phys_path: Option<String>,
    /// The whole disk was given to ZFS: without `-P` the name omits the partition number.
    pub whole_disk: bool,
    /// The leaf was not found when the pool was opened: it is shown by its guid, with `was PATH`.
    pub not_present: bool,
    /// Read errors since the pool was opened.
    pub read_errors: u64,
    /// Write errors since the pool was opened.
    pub write_errors: u64,
    /// Checksum errors since the pool was opened.
    pub checksum_errors: u64,
    /// Operations that took very long.
    pub slow_ios: u64,
    /// Bytes that were rewritten because they were wrong.
    pub self_healed_bytes: u64,
    /// Reads since the pool was opened.
    pub read_ops: u64,
    pub read_bytes: u64,
    /// Writes since the pool was opened.
    pub write_ops: u64,
    pub write_bytes: u64,
    /// Allocated bytes, of top-level devices and the root (`vs_alloc`).
    pub alloc_bytes: u64,
    /// Allocatable bytes including parity, of top-level devices and the root (`vs_space`).
    pub space_bytes: u64,
    /// Allocatable bytes for data (`vs_dspace`).
    pub dspace_bytes: u64,
    /// Minimum size of a replacement (`vs_rsize`).
    pub replace_bytes: u64,
    /// Size by which the device could be expanded (`vs_esize`).
    pub expand_bytes: u64,
    /// Physical size of the leaf (`vs_pspace`).
    pub phys_bytes: u64,
    /// Size in the configuration (`asize`).
    pub asize_bytes: u64,
    /// Fragmentation in percent; `None` if unknown.
    pub fragmentation_percent: Option<u64>,
    /// Bytes that only the checkpoint holds.
    pub checkpoint_bytes: u64,
    /// log2 of the sector size in bytes.
    pub ashift: u64,
    /// Number of parity columns, of raidz and draid.
    pub parity: u64,
    /// The device is being removed.
    pub removing: bool,
    /// No new blocks are allocated on it.
    pub no_alloc: bool,
    /// A raidz that is being expanded.
    pub expanding: bool,
    /// Bytes that the scan has rewritten on it.
    pub scan_processed_bytes: u64,
    /// The last sequential rebuild of a top-level device (`vdev_rebuild_stat_t`).
    pub rebuild: Option<RebuildStatus>,
    /// It waits for a resilver.
    pub resilver_deferred: bool,
    pub initialize: VdevWork,
    pub trim: VdevWork,
    /// The device does not support trim, or was never open.
    pub trim_unsupported: bool,
    /// Reads and writes of the leaf bypass the page cache.
    pub is_direct: bool,
    /// The children, including holes and removed devices.
    pub children: Vec<VdevStatus>,
}

impl VdevStatus {
    /// Whether it has no children.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// The device with this guid: this one or a descendant.
    pub(crate) fn find_mut(&mut self, guid: u64) -> Option<&mut VdevStatus> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter_mut().find_map(|c| c.find_mut(guid))
    }

    /// This device and all below it, depth first.
    pub fn walk(&self) -> Vec<&VdevStatus> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.walk());
        }
        all
    }
}

/// Kind of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScanKind {
    #[default]
    None,
    Scrub,
    Resilver,
    /// Scrub of the blocks in the error log.
    ErrorScrub,
}

/// State of a scan, a removal or an expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Progress {
    /// There was none.
    #[default]
    None,
    Active,
    Finished,
    /// Cancelled before it completed.
    Cancelled,
}

/// The last scan (`dsl_scan_phys_t`). Times are seconds since 1970, sizes bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanStatus {
    pub kind: ScanKind,
    pub state: Progress,
    pub start_time: u64,
    pub end_time: u64,
    /// Bytes to examine; blocks in an error scrub.
    pub to_examine_bytes: u64,
    /// Bytes examined so far.
    pub examined_bytes: u64,
    /// Bytes examined that needed no read.
    pub skipped_bytes: u64,
    /// Bytes repaired or resilvered.
    pub processed_bytes: u64,
    /// Errors that could not be repaired.
    pub errors: u64,
    /// Start of the current pass.
    pub pass_start: u64,
    /// Time when it was paused; 0 if it is not.
    pub pause_time: u64,
    /// Seconds of this pass during which it was paused.
    pub spent_paused: u64,
    /// Bytes examined in this pass.
    pub pass_examined_bytes: u64,
    /// Bytes read in this pass.
    pub pass_issued_bytes: u64,
    /// Bytes read in total, if the process that runs the scan reports them.
    pub issued_now_bytes: Option<u64>,
}

impl ScanStatus {
    /// Bytes read: the current number, or else what OpenZFS derives from the stored state after an
    /// import.
    pub fn issued_bytes(&self) -> u64 {
        self.issued_now_bytes.unwrap_or(self.examined_bytes.saturating_sub(self.skipped_bytes))
    }
}

/// The last removal of a top-level device. Times are seconds since 1970, sizes bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovalStatus {
    pub state: Progress,
    /// Number of the removed device.
    pub vdev: u64,
    pub start_time: u64,
    pub end_time: u64,
    pub to_copy_bytes: u64,
    pub copied_bytes: u64,
    /// Memory that the mappings of all removed devices take in OpenZFS.
    pub mapping_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// It is being discarded.
    pub discarding: bool,
    /// Time of its creation; seconds since 1970.
    pub start_time: u64,
    /// Bytes that only it holds.
    pub space_bytes: u64,
}

/// The last expansion of a raidz device. Times are seconds since 1970, sizes bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpandStatus {
    pub state: Progress,
    /// Number of the raidz device.
    pub vdev: u64,
    pub start_time: u64,
    pub end_time: u64,
    pub to_reflow_bytes: u64,
    pub reflowed_bytes: u64,
    /// It waits for a resilver.
    pub waiting_for_resilver: bool,
}

/// Size of the dedup tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DedupStatus {
    /// Number of entries: one for each distinct block.
    pub entries: u64,
    /// Space that the tables use in the MOS.
    pub disk_bytes: u64,
    /// Size in memory when loaded.
    pub core_bytes: u64,
    /// The part of it that is in memory. `None`: not determined.
    pub cached_bytes: Option<u64>,
    /// Blocks by number of references: one row for each power of two that has any.
    pub histogram: Vec<DedupRow>,
}

/// A row of the dedup histogram: blocks referenced `2^bucket` to `2^(bucket+1) - 1` times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DedupRow {
    /// Exponent of the power of two.
    pub bucket: u32,
    pub blocks: u64,
    /// Logical bytes.
    pub lsize: u64,
    /// Bytes after compression.
    pub psize: u64,
    /// Bytes on the devices.
    pub dsize: u64,
    /// Sum of the reference counts.
    pub ref_blocks: u64,
    /// Logical bytes, counted once per reference.
    pub ref_lsize: u64,
    /// Bytes after compression, counted once per reference.
    pub ref_psize: u64,
    /// Bytes on the devices, counted once per reference.
    pub ref_dsize: u64,
}

/// Suspension of a pool: it cannot write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspended {
    /// The error of the device.
    pub why: String,
    /// Devices may have lost writes that they had confirmed: the pool must be reopened before it
    /// can be written.
    pub until_reopened: bool,
    /// Heartbeats were late (`ZIO_SUSPEND_MMP`): another host may have taken over the pool.
    pub is_multihost: bool,
}

/// The state of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Set if the process that has the pool imported found that it cannot write.
    pub suspended: Option<Suspended>,
    pub name: String,
    pub guid: u64,
    /// On-disk version: 1 to 28, or 5000.
    pub version: u64,
    /// Txg of the configuration.
    pub config_txg: u64,
    /// The device tree. Log, special and dedup devices are children of the root, marked by their
    /// class.
    pub root: VdevStatus,
    /// Level-2 cache devices.
    pub caches: Vec<VdevStatus>,
    pub spares: Vec<VdevStatus>,
    pub scan: Option<ScanStatus>,
    pub removal: Option<RemovalStatus>,
    pub checkpoint: Option<CheckpointStatus>,
    pub expand: Option<ExpandStatus>,
    pub dedup: DedupStatus,
    /// Number of damaged blocks in the error log.
    pub error_count: u64,
    /// The damaged files, as `zpool status -v` prints them.
    pub errors: Vec<String>,
    /// How the features of the pool compare with those that `compatibility` requests.
    pub feature_set: FeatureSet,
    /// Value of the property `compatibility`.
    pub compatibility: Option<String>,
    /// `ZPOOL_CONFIG_ERRATA`: a known defect in the pool's on-disk data.
    pub errata: u64,
    /// Value of the property `comment`.
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
