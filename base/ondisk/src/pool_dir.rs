//! Names used in the MOS object directory, in pool configurations and in the ZAPs of vdevs.
//!
//! Object 1 of the MOS is a ZAP, the object directory, which lists everything that belongs to the
//! pool as a whole ([`directory`]). The configuration is an nvlist, complete in the MOS and reduced
//! to one top-level vdev in each label ([`config`]). Each vdev has a ZAP for state that changes
//! often ([`vdev_top`], [`vdev_leaf`]).
//!
//! From the label of a raidz1 pool: the name `state`, type uint64, one value, 1, exported.
//!
//! ```text
//! 00000040  00 00 00 09 00 00 00 01  00 00 00 03 74 7a 31 00  |............tz1.|
//! 00000050  00 00 00 24 00 00 00 20  00 00 00 05 73 74 61 74  |...$... ....stat|
//! 00000060  65 00 00 00 00 00 00 08  00 00 00 01 00 00 00 00  |e...............|
//! 00000070  00 00 00 01 00 00 00 20  00 00 00 20 00 00 00 03  |....... ... ....|
//! ```
//!
//! Source: include/sys/dmu.h, include/sys/fs/zfs.h.

use crate::error::{Error, Result};

/// Object number of the object directory in the MOS.
pub const DIRECTORY_OBJECT: u64 = 1;

/// Value of [`config::POOL_STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolState {
    /// In use, or not exported cleanly.
    Active,
    Exported,
    /// Destroyed; can still be imported.
    Destroyed,
    /// The device is a hot spare.
    Spare,
    /// The device is a cache device.
    L2Cache,
}

impl PoolState {
    /// Decodes the value on disk.
    pub fn from_raw(raw: u64) -> Result<Self> {
        Ok(match raw {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::L2Cache,
            other => return Err(Error::corrupt("label", "state", other, "0 to 4")),
        })
    }
}

/// Name in the object directory of the dedup tables for a checksum (fast_dedup).
pub fn ddt_directory(checksum: &str) -> String {
    format!("DDT-{checksum}")
}

/// Name of a dedup table: by checksum, storage type (`zap`) and class (`ditto`, `duplicate`,
/// `unique`).
pub fn ddt_object(checksum: &str, store: &str, class: &str) -> String {
    format!("DDT-{checksum}-{store}-{class}")
}

/// Name of log 0 or 1 of a dedup table.
pub fn ddt_log(checksum: &str, index: u32) -> String {
    format!("DDT-log-{checksum}-{index}")
}

/// Name of a top-level vdev's block reference table.
pub fn brt(vdev: u64) -> String {
    format!("com.fudosecurity:brt:vdev:{vdev}")
}

/// Names in the object directory, object 1 of the MOS (`DMU_POOL_`).
pub mod directory {
    /// Object: the configuration, a packed nvlist (XDR). The bonus holds its length.
    pub const CONFIG: &str = "config";
    /// Object: ZAP of the features required only for writing, by GUID, with their reference counts.
    pub const FEATURES_FOR_WRITE: &str = "features_for_write";
    /// Object: ZAP of the features required for reading.
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    /// Object: ZAP of feature descriptions.
    pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
    /// Object: ZAP of the txg in which each feature was enabled.
    pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
    /// Object: the DSL directory of the pool's root dataset.
    pub const ROOT_DATASET: &str = "root_dataset";
    /// Object: block pointers to free in the next txg.
    pub const SYNC_BPOBJ: &str = "sync_bplist";
    /// Object: errors found by the current scrub.
    pub const ERRLOG_SCRUB: &str = "errlog_scrub";
    /// Object: errors found up to the last scrub.
    pub const ERRLOG_LAST: &str = "errlog_last";
    /// Object: the hot spares, a packed nvlist.
    pub const SPARES: &str = "spares";
    /// 1: used space excludes RAID-Z parity.
    pub const DEFLATE: &str = "deflate";
    /// Object: the pool history ([`crate::history`]).
    pub const HISTORY: &str = "history";
    /// Object: ZAP of pool properties.
    pub const PROPS: &str = "pool_props";
    /// Object: the cache devices, a packed nvlist.
    pub const L2CACHE: &str = "l2cache";
    /// Object: ZAP of temporary holds, which end with the process that made them.
    pub const TMP_USERREFS: &str = "tmp_userrefs";
    /// Object: ZAP of the dedup tables' histograms.
    pub const DDT_STATS: &str = "DDT-statistics";
    /// Pool version at creation.
    pub const CREATION_VERSION: &str = "creation_version";
    /// 24 words: the state of scrub and resilver ([`crate::scan`]).
    pub const SCAN: &str = "scan";
    /// Words: the state of an error scrub.
    pub const ERRORSCRUB: &str = "error_scrub";
    /// Txg up to which the last scrub got.
    pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
    /// Object: block pointers of destroyed datasets, freed in the background.
    pub const FREE_BPOBJ: &str = "free_bpobj";
    /// Object: trees of destroyed datasets, freed in the background.
    pub const BPTREE_OBJ: &str = "bptree_obj";
    /// Object: the empty bpobj that snapshots share.
    pub const EMPTY_BPOBJ: &str = "empty_bpobj";
    /// 32 bytes: the salt for skein, edonr and blake3.
    pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
    /// Object: ZAP of the per-vdev ZAPs.
    pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
    /// Words: the removal of a vdev, in progress or finished ([`crate::removal`]).
    pub const REMOVING: &str = "com.delphix:removing";
    /// Object: freed blocks of removed vdevs.
    pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
    /// Words: an indirect mapping being condensed ([`crate::removal`]).
    pub const CONDENSING_INDIRECT: &str = "com.delphix:condensing_indirect";
    /// Words: the uberblock of the checkpoint.
    pub const ZPOOL_CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
    /// Object: ZAP of log space maps, by txg.
    pub const LOG_SPACEMAP_ZAP: &str = "com.delphix:log_spacemap_zap";
    /// Object: ZAP of livelists to be deleted.
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
    /// Object: txgs by time, for recent hours.
    pub const TXG_LOG_TIME_MINUTES: &str = "com.klarasystems:txg_log_time:minutes";
    /// Object: txgs by time, for recent months.
    pub const TXG_LOG_TIME_DAYS: &str = "com.klarasystems:txg_log_time:days";
    /// Object: txgs by time, for the whole history.
    pub const TXG_LOG_TIME_MONTHS: &str = "com.klarasystems:txg_log_time:months";
}

/// Names in configurations, in labels and in the MOS (`ZPOOL_CONFIG_`).
pub mod config {
    pub const VERSION: &str = "version";
    /// Name of the pool.
    pub const POOL_NAME: &str = "name";
    /// State of the pool, a [`PoolState`](super::PoolState).
    pub const POOL_STATE: &str = "state";
    /// Txg in which the configuration was written.
    pub const POOL_TXG: &str = "txg";
    /// GUID of the pool.
    pub const POOL_GUID: &str = "pool_guid";
    /// Txg in which the vdev was added.
    pub const CREATE_TXG: &str = "create_txg";
    /// GUID of the top-level vdev that this one belongs to.
    pub const TOP_GUID: &str = "top_guid";
    /// The top-level vdev (in labels) or the root vdev (in the MOS).
    pub const VDEV_TREE: &str = "vdev_tree";
    /// Type of the vdev ([`vdev_type`](super::vdev_type)).
    pub const TYPE: &str = "type";
    /// Array of nvlists: the child vdevs in the order of their IDs.
    pub const CHILDREN: &str = "children";
    /// Index among its siblings.
    pub const ID: &str = "id";
    /// GUID of the vdev.
    pub const GUID: &str = "guid";
    /// Object: mapping of a removed vdev.
    pub const INDIRECT_OBJECT: &str = "com.delphix:indirect_object";
    /// Object: births of a removed vdev.
    pub const INDIRECT_BIRTHS: &str = "com.delphix:indirect_births";
    /// The vdev that was removed before this one.
    pub const PREV_INDIRECT_VDEV: &str = "com.delphix:prev_indirect_vdev";
    /// Path at which the device was last seen.
    pub const PATH: &str = "path";
    /// Device ID assigned by the operating system.
    pub const DEVID: &str = "devid";
    /// dRAID spare: its index.
    pub const SPARE_ID: &str = "spareid";
    /// Object: array of the metaslabs' space map objects.
    pub const METASLAB_ARRAY: &str = "metaslab_array";
    /// log2 of the metaslab size in bytes.
    pub const METASLAB_SHIFT: &str = "metaslab_shift";
    /// log2 of the sector size in bytes.
    pub const ASHIFT: &str = "ashift";
    /// Allocatable space in bytes.
    pub const ASIZE: &str = "asize";
    /// Smallest allocation in bytes.
    pub const MIN_ALLOC: &str = "min_alloc";
    /// Largest allocation in bytes.
    pub const MAX_ALLOC: &str = "max_alloc";
    /// Object: dirty time log, a space map of the txgs that the device missed.
    pub const DTL: &str = "DTL";
    /// 1: ZFS created the partition table.
    pub const WHOLE_DISK: &str = "whole_disk";
    /// 1: the device was missing when the configuration was written.
    pub const NOT_PRESENT: &str = "not_present";
    /// Array of nvlists: hot spares.
    pub const SPARES: &str = "spares";
    /// 1: a spare that is in use.
    pub const IS_SPARE: &str = "is_spare";
    /// Parity level of RAID-Z and dRAID.
    pub const NPARITY: &str = "nparity";
    /// 1: the vdev is being expanded.
    pub const RAIDZ_EXPANDING: &str = "raidz_expanding";
    /// Txgs in which the vdev was expanded.
    pub const RAIDZ_EXPAND_TXGS: &str = "raidz_expand_txgs";
    /// ID of the host that last used the pool.
    pub const HOSTID: &str = "hostid";
    /// Name of that host.
    pub const HOSTNAME: &str = "hostname";
    /// 1: detach the spare when the original disk is back.
    pub const UNSPARE: &str = "unspare";
    /// Physical location of the device.
    pub const PHYS_PATH: &str = "phys_path";
    /// 1: the vdev is a log device.
    pub const IS_LOG: &str = "is_log";
    /// Array of nvlists: cache devices.
    pub const L2CACHE: &str = "l2cache";
    /// Indices of top-level vdevs that no longer exist.
    pub const HOLE_ARRAY: &str = "hole_array";
    /// Number of top-level vdevs.
    pub const VDEV_CHILDREN: &str = "vdev_children";
    /// 1: a removed log device.
    pub const IS_HOLE: &str = "is_hole";
    /// Description of the split that created the pool.
    pub const SPLIT: &str = "splitcfg";
    /// GUID before a split.
    pub const ORIG_GUID: &str = "orig_guid";
    /// GUID of the pool that it was split from.
    pub const SPLIT_GUID: &str = "split_guid";
    /// GUIDs of the split-off devices.
    pub const SPLIT_LIST: &str = "guid_list";
    /// 1: no new allocations on this vdev.
    pub const NONALLOCATING: &str = "non_allocating";
    /// 1: the vdev is being removed.
    pub const REMOVING: &str = "removing";
    /// Txg up to which the device needs a resilver.
    pub const RESILVER_TXG: &str = "resilver_txg";
    /// Txg up to which the device needs a rebuild.
    pub const REBUILD_TXG: &str = "rebuild_txg";
    pub const COMMENT: &str = "comment";
    /// Active features required to read the MOS, booleans by GUID.
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    /// Number of a known on-disk erratum of older versions.
    pub const ERRATA: &str = "errata";
    /// ZAP of the root vdev.
    pub const VDEV_ROOT_ZAP: &str = "com.klarasystems:vdev_zap_root";
    /// ZAP of a top-level vdev.
    pub const VDEV_TOP_ZAP: &str = "com.delphix:vdev_zap_top";
    /// ZAP of a leaf vdev.
    pub const VDEV_LEAF_ZAP: &str = "com.delphix:vdev_zap_leaf";
    /// Boolean: vdevs have ZAPs.
    pub const HAS_PER_VDEV_ZAPS: &str = "com.delphix:has_per_vdev_zaps";
    /// Boolean: waits for the next resilver.
    pub const RESILVER_DEFER: &str = "com.datto:resilver_defer";
    /// Allocation class ([`allocation_bias`](super::allocation_bias)).
    pub const ALLOCATION_BIAS: &str = "alloc_bias";
    /// Time of the last expansion.
    pub const EXPANSION_TIME: &str = "expansion_time";
    /// Statistics of the last rebuild.
    pub const REBUILD_STATS: &str = "org.openzfs:rebuild_stats";
    /// Compatibility feature sets of the pool.
    pub const COMPATIBILITY: &str = "compatibility";
    /// 1: taken offline by the administrator.
    pub const OFFLINE: &str = "offline";
    /// 1: the device is faulted.
    pub const FAULTED: &str = "faulted";
    /// 1: the device is degraded.
    pub const DEGRADED: &str = "degraded";
    /// 1: the device was physically removed.
    pub const REMOVED: &str = "removed";
    /// Field-replaceable unit number.
    pub const FRU: &str = "fru";
    /// Reason for the faulted state.
    pub const AUX_STATE: &str = "aux_state";
    /// Value of [`AUX_STATE`]: faulted by the administrator, persistently.
    pub const AUX_EXTERNAL: &str = "external";
    /// Time at which the loaded txg was written.
    pub const LOAD_TIME: &str = "rewind_txg_ts";
    /// Metadata errors found while loading.
    pub const LOAD_META_ERRORS: &str = "verify_meta_errors";
    /// Data errors found while loading.
    pub const LOAD_DATA_ERRORS: &str = "verify_data_errors";
    /// Seconds of changes discarded by a rewind.
    pub const REWIND_TIME: &str = "seconds_of_rewind";
    /// Data devices in a dRAID group.
    pub const DRAID_NDATA: &str = "draid_ndata";
    /// Number of distributed spares.
    pub const DRAID_NSPARES: &str = "draid_nspares";
    /// Number of dRAID groups.
    pub const DRAID_NGROUPS: &str = "draid_ngroups";
    /// Number of devices in a dRAID failure group.
    pub const DRAID_NCHILDREN: &str = "draid_nchildren";
}

/// Values of [`config::TYPE`].
pub mod vdev_type {
    /// The root of the vdev tree.
    pub const ROOT: &str = "root";
    /// All children hold the same data.
    pub const MIRROR: &str = "mirror";
    /// A mirror of the old and the new device during a replacement.
    pub const REPLACING: &str = "replacing";
    pub const RAIDZ: &str = "raidz";
    pub const DRAID: &str = "draid";
    /// Distributed spare of a dRAID vdev.
    pub const DRAID_SPARE: &str = "dspare";
    pub const DISK: &str = "disk";
    pub const FILE: &str = "file";
    /// Missing when the configuration was written.
    pub const MISSING: &str = "missing";
    /// A log device that was removed.
    pub const HOLE: &str = "hole";
    /// A mirror of a device and the spare in use for it.
    pub const SPARE: &str = "spare";
    /// Never stored on disk.
    pub const LOG: &str = "log";
    pub const L2CACHE: &str = "l2cache";
    /// A removed top-level vdev.
    pub const INDIRECT: &str = "indirect";
}

/// Values of `alloc_bias`.
pub mod allocation_bias {
    /// Intent log blocks.
    pub const LOG: &str = "log";
    /// Metadata and small blocks.
    pub const SPECIAL: &str = "special";
    /// Dedup tables.
    pub const DEDUP: &str = "dedup";
}

/// Names in the ZAP of a top-level vdev (`VDEV_TOP_ZAP_`).
pub mod vdev_top {
    /// Object: space map of obsolete ranges of a removed vdev.
    pub const INDIRECT_OBSOLETE_SM: &str = "com.delphix:indirect_obsolete_sm";
    /// 1: the obsolete counts are exact.
    pub const OBSOLETE_COUNTS_ARE_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    /// Object: space map of the blocks that the checkpoint keeps from being freed.
    pub const POOL_CHECKPOINT_SM: &str = "com.delphix:pool_checkpoint_sm";
    /// Object: for each metaslab, the txg from which log space maps apply.
    pub const MS_UNFLUSHED_PHYS_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    /// Words: state of a sequential rebuild ([`crate::removal::Rebuild`]).
    pub const VDEV_REBUILD_PHYS: &str = "org.openzfs:vdev_rebuild";
    /// Allocation class of the vdev.
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    /// State of the last RAID-Z expansion.
    pub const RAIDZ_EXPAND_STATE: &str = "org.openzfs:raidz_expand_state";
    /// When the expansion began.
    pub const RAIDZ_EXPAND_START_TIME: &str = "org.openzfs:raidz_expand_start_time";
    /// When the expansion ended.
    pub const RAIDZ_EXPAND_END_TIME: &str = "org.openzfs:raidz_expand_end_time";
    /// Bytes copied by the expansion.
    pub const RAIDZ_EXPAND_BYTES_COPIED: &str = "org.openzfs:raidz_expand_bytes_copied";
}

/// Names in the ZAP of a leaf vdev (`VDEV_LEAF_ZAP_`).
pub mod vdev_leaf {
    /// Offset up to which the device is initialized.
    pub const INITIALIZE_LAST_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    /// 0 none, 1 active, 2 canceled, 3 suspended, 4 complete (`vdev_initializing_state_t`).
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    /// When that state was entered.
    pub const INITIALIZE_ACTION_TIME: &str = "com.delphix:vdev_initialize_action_time";
    /// Value written by initialization.
    pub const INITIALIZE_VALUE: &str = "org.openzfs:vdev_initialize_value";
    /// Offset up to which the device is trimmed.
    pub const TRIM_LAST_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    /// State of the trim.
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    /// When that state was entered.
    pub const TRIM_ACTION_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    /// Trim rate in bytes per second.
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    /// 1: trim only space that was in use.
    pub const TRIM_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    /// 1: secure erase.
    pub const TRIM_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}
