//! Names: of what the MOS keeps, of what a configuration says, of what devices note about themselves.
//!
//! Object 1 of the MOS is a ZAP, the object directory; everything that belongs to the pool as a whole is found there
//! ([`directory`]). The configuration is an nvlist, whole in the MOS and cut to one top-level device in each label
//! ([`config`]). Devices have a ZAP each for what changes often ([`vdev_top`], [`vdev_leaf`]).
//!
//! Label of a raidz1 pool: the name `state`, type uint64, one value, 1, exported.
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

/// Number of the object directory in the MOS.
pub const DIRECTORY_OBJECT: u64 = 1;

/// Value of [`config::POOL_STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolState {
    /// In use, or not cleanly exported.
    Active,
    /// Exported.
    Exported,
    /// Destroyed; it can still be imported.
    Destroyed,
    /// The device is a hot spare.
    Spare,
    /// The device is a cache.
    L2Cache,
}

impl PoolState {
    /// Value on disk.
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

/// Name in the object directory of a dedup table of that checksum.
pub fn ddt_directory(checksum: &str) -> String {
    format!("DDT-{checksum}")
}

/// Name of a dedup table: by checksum, `zap`, and class (`ditto`, `duplicate`, `unique`).
pub fn ddt_object(checksum: &str, store: &str, class: &str) -> String {
    format!("DDT-{checksum}-{store}-{class}")
}

/// Name of log 0 or 1 of a dedup table.
pub fn ddt_log(checksum: &str, index: u32) -> String {
    format!("DDT-log-{checksum}-{index}")
}

/// Name of the block reference table of a top-level device.
pub fn brt(vdev: u64) -> String {
    format!("com.fudosecurity:brt:vdev:{vdev}")
}

/// Names in the object directory, object 1 of the MOS (`DMU_POOL_`).
pub mod directory {
    /// Object: the configuration, a packed nvlist (XDR); its length is in the bonus.
    pub const CONFIG: &str = "config";
    /// Object: ZAP of features needed only for writing, by guid, with the number of users.
    pub const FEATURES_FOR_WRITE: &str = "features_for_write";
    /// Object: ZAP of features needed for reading.
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    /// Object: ZAP of what the features are, in words.
    pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
    /// Object: ZAP of the round in which each feature was enabled.
    pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
    /// Object: the DSL directory of the pool's root dataset.
    pub const ROOT_DATASET: &str = "root_dataset";
    /// Object: block pointers to free in the next round.
    pub const SYNC_BPOBJ: &str = "sync_bplist";
    /// Object: errors found by the running scrub.
    pub const ERRLOG_SCRUB: &str = "errlog_scrub";
    /// Object: errors found until the last scrub.
    pub const ERRLOG_LAST: &str = "errlog_last";
    /// Object: the hot spares, a packed nvlist.
    pub const SPARES: &str = "spares";
    /// 1: used space is counted without RAID-Z's parity.
    pub const DEFLATE: &str = "deflate";
    /// Object: the history of commands ([`crate::history`]).
    pub const HISTORY: &str = "history";
    /// Object: ZAP of pool properties.
    pub const PROPS: &str = "pool_props";
    /// Object: the cache devices, a packed nvlist.
    pub const L2CACHE: &str = "l2cache";
    /// Object: ZAP of holds that end with the process that made them.
    pub const TMP_USERREFS: &str = "tmp_userrefs";
    /// Object: ZAP of histograms of the dedup tables.
    pub const DDT_STATS: &str = "DDT-statistics";
    /// Version with which the pool was made.
    pub const CREATION_VERSION: &str = "creation_version";
    /// 24 words: the state of scrub and resilver ([`crate::scan`]).
    pub const SCAN: &str = "scan";
    /// Words: the state of an error scrub.
    pub const ERRORSCRUB: &str = "error_scrub";
    /// Round up to which the last scrub got.
    pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
    /// Object: block pointers of destroyed datasets, freed in the background.
    pub const FREE_BPOBJ: &str = "free_bpobj";
    /// Object: trees of destroyed datasets, freed in the background.
    pub const BPTREE_OBJ: &str = "bptree_obj";
    /// Object: the empty list that snapshots share.
    pub const EMPTY_BPOBJ: &str = "empty_bpobj";
    /// 32 bytes: the salt of skein, edonr and blake3.
    pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
    /// Object: ZAP of the ZAPs of all devices.
    pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
    /// Words: the removal of a device under way or done ([`crate::removal`]).
    pub const REMOVING: &str = "com.delphix:removing";
    /// Object: blocks of removed devices that were freed.
    pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
    /// Words: a mapping being condensed ([`crate::removal`]).
    pub const CONDENSING_INDIRECT: &str = "com.delphix:condensing_indirect";
    /// Words: the uberblock of the checkpoint.
    pub const ZPOOL_CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
    /// Object: ZAP of log space maps, by round.
    pub const LOG_SPACEMAP_ZAP: &str = "com.delphix:log_spacemap_zap";
    /// Object: ZAP of livelists to be freed.
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
    /// Object: rounds by time, the last hours.
    pub const TXG_LOG_TIME_MINUTES: &str = "com.klarasystems:txg_log_time:minutes";
    /// Object: rounds by time, the last months.
    pub const TXG_LOG_TIME_DAYS: &str = "com.klarasystems:txg_log_time:days";
    /// Object: rounds by time, all.
    pub const TXG_LOG_TIME_MONTHS: &str = "com.klarasystems:txg_log_time:months";
}

/// Names in configurations, of labels and of the MOS (`ZPOOL_CONFIG_`).
pub mod config {
    /// Pool version.
    pub const VERSION: &str = "version";
    /// Name of the pool.
    pub const POOL_NAME: &str = "name";
    /// [`PoolState`](super::PoolState).
    pub const POOL_STATE: &str = "state";
    /// Round in which the configuration was written.
    pub const POOL_TXG: &str = "txg";
    /// Guid of the pool.
    pub const POOL_GUID: &str = "pool_guid";
    /// Round in which the device was added.
    pub const CREATE_TXG: &str = "create_txg";
    /// Guid of the top-level device that this one is part of.
    pub const TOP_GUID: &str = "top_guid";
    /// The top-level device (in labels) or the root (in the MOS).
    pub const VDEV_TREE: &str = "vdev_tree";
    /// Kind of the device ([`vdev_type`](super::vdev_type)).
    pub const TYPE: &str = "type";
    /// Devices that it is made of.
    pub const CHILDREN: &str = "children";
    /// Number among its siblings.
    pub const ID: &str = "id";
    /// Guid of the device.
    pub const GUID: &str = "guid";
    /// Mapping of a removed device.
    pub const INDIRECT_OBJECT: &str = "com.delphix:indirect_object";
    /// Births of a removed device.
    pub const INDIRECT_BIRTHS: &str = "com.delphix:indirect_births";
    /// Device that was removed before it.
    pub const PREV_INDIRECT_VDEV: &str = "com.delphix:prev_indirect_vdev";
    /// Where it was last seen.
    pub const PATH: &str = "path";
    /// Identity by the system's words.
    pub const DEVID: &str = "devid";
    /// dRAID spare: number of the spare.
    pub const SPARE_ID: &str = "spareid";
    /// Object: numbers of the space maps.
    pub const METASLAB_ARRAY: &str = "metaslab_array";
    /// log2 of a metaslab's bytes.
    pub const METASLAB_SHIFT: &str = "metaslab_shift";
    /// log2 of a sector's bytes.
    pub const ASHIFT: &str = "ashift";
    /// Allocatable bytes.
    pub const ASIZE: &str = "asize";
    /// Smallest allocation.
    pub const MIN_ALLOC: &str = "min_alloc";
    /// Largest allocation.
    pub const MAX_ALLOC: &str = "max_alloc";
    /// Object: space map of the rounds that the device missed.
    pub const DTL: &str = "DTL";
    /// 1: ZFS made the partition table.
    pub const WHOLE_DISK: &str = "whole_disk";
    /// 1: was not there when the configuration was written.
    pub const NOT_PRESENT: &str = "not_present";
    /// Hot spares.
    pub const SPARES: &str = "spares";
    /// 1: a spare that stands in.
    pub const IS_SPARE: &str = "is_spare";
    /// Parity of RAID-Z and dRAID.
    pub const NPARITY: &str = "nparity";
    /// 1: being widened.
    pub const RAIDZ_EXPANDING: &str = "raidz_expanding";
    /// Rounds in which it was widened.
    pub const RAIDZ_EXPAND_TXGS: &str = "raidz_expand_txgs";
    /// Host that had the pool.
    pub const HOSTID: &str = "hostid";
    /// Name of that host.
    pub const HOSTNAME: &str = "hostname";
    /// 1: the spare leaves when its disk is back.
    pub const UNSPARE: &str = "unspare";
    /// Where it is plugged in.
    pub const PHYS_PATH: &str = "phys_path";
    /// 1: holds only the intent log.
    pub const IS_LOG: &str = "is_log";
    /// Cache devices.
    pub const L2CACHE: &str = "l2cache";
    /// Numbers of top-level devices that are gone.
    pub const HOLE_ARRAY: &str = "hole_array";
    /// Number of top-level devices.
    pub const VDEV_CHILDREN: &str = "vdev_children";
    /// 1: a removed log device.
    pub const IS_HOLE: &str = "is_hole";
    /// How the pool was split off.
    pub const SPLIT: &str = "splitcfg";
    /// Guid before a split.
    pub const ORIG_GUID: &str = "orig_guid";
    /// Guid of the pool it was split from.
    pub const SPLIT_GUID: &str = "split_guid";
    /// Guids of the devices that went.
    pub const SPLIT_LIST: &str = "guid_list";
    /// 1: nothing new goes there.
    pub const NONALLOCATING: &str = "non_allocating";
    /// 1: being removed.
    pub const REMOVING: &str = "removing";
    /// Round up to which it must be resilvered.
    pub const RESILVER_TXG: &str = "resilver_txg";
    /// Round up to which it must be rebuilt.
    pub const REBUILD_TXG: &str = "rebuild_txg";
    /// The pool's comment.
    pub const COMMENT: &str = "comment";
    /// Active features needed to read the MOS, booleans by guid.
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    /// Number of a known damage of old versions.
    pub const ERRATA: &str = "errata";
    /// ZAP of the root.
    pub const VDEV_ROOT_ZAP: &str = "com.klarasystems:vdev_zap_root";
    /// ZAP of a top-level device.
    pub const VDEV_TOP_ZAP: &str = "com.delphix:vdev_zap_top";
    /// ZAP of a leaf.
    pub const VDEV_LEAF_ZAP: &str = "com.delphix:vdev_zap_leaf";
    /// Boolean: devices have ZAPs.
    pub const HAS_PER_VDEV_ZAPS: &str = "com.delphix:has_per_vdev_zaps";
    /// Boolean: waits for the next resilver.
    pub const RESILVER_DEFER: &str = "com.datto:resilver_defer";
    /// What it is for ([`allocation_bias`](super::allocation_bias)).
    pub const ALLOCATION_BIAS: &str = "alloc_bias";
    /// When it was last widened.
    pub const EXPANSION_TIME: &str = "expansion_time";
    /// How the last rebuild went.
    pub const REBUILD_STATS: &str = "org.openzfs:rebuild_stats";
    /// Set of features that the pool keeps to.
    pub const COMPATIBILITY: &str = "compatibility";
    /// 1: taken offline by hand.
    pub const OFFLINE: &str = "offline";
    /// 1: faulted.
    pub const FAULTED: &str = "faulted";
    /// 1: degraded.
    pub const DEGRADED: &str = "degraded";
    /// 1: pulled out.
    pub const REMOVED: &str = "removed";
    /// Part number.
    pub const FRU: &str = "fru";
    /// Why it is faulted.
    pub const AUX_STATE: &str = "aux_state";
    /// Value of [`AUX_STATE`]: somebody said so, and it lasts.
    pub const AUX_EXTERNAL: &str = "external";
    /// When the round that was loaded was written.
    pub const LOAD_TIME: &str = "rewind_txg_ts";
    /// Metadata errors found while loading.
    pub const LOAD_META_ERRORS: &str = "verify_meta_errors";
    /// Data errors found while loading.
    pub const LOAD_DATA_ERRORS: &str = "verify_data_errors";
    /// Seconds lost by winding back.
    pub const REWIND_TIME: &str = "seconds_of_rewind";
    /// Data devices in a group.
    pub const DRAID_NDATA: &str = "draid_ndata";
    /// Distributed spares.
    pub const DRAID_NSPARES: &str = "draid_nspares";
    /// Groups.
    pub const DRAID_NGROUPS: &str = "draid_ngroups";
    /// Devices of a failure group.
    pub const DRAID_NCHILDREN: &str = "draid_nchildren";
}

/// Values of [`config::TYPE`].
pub mod vdev_type {
    /// The pool.
    pub const ROOT: &str = "root";
    /// Same on each.
    pub const MIRROR: &str = "mirror";
    /// A mirror of the old and the new device.
    pub const REPLACING: &str = "replacing";
    /// RAID-Z.
    pub const RAIDZ: &str = "raidz";
    /// dRAID.
    pub const DRAID: &str = "draid";
    /// Distributed spare of a dRAID.
    pub const DRAID_SPARE: &str = "dspare";
    /// A disk.
    pub const DISK: &str = "disk";
    /// A file.
    pub const FILE: &str = "file";
    /// Was missing when the configuration was written.
    pub const MISSING: &str = "missing";
    /// A log device that is gone.
    pub const HOLE: &str = "hole";
    /// A mirror of a device and the spare that stands in.
    pub const SPARE: &str = "spare";
    /// Not on disk.
    pub const LOG: &str = "log";
    /// A cache device.
    pub const L2CACHE: &str = "l2cache";
    /// A removed device.
    pub const INDIRECT: &str = "indirect";
}

/// Values of `alloc_bias`.
pub mod allocation_bias {
    /// Intent log.
    pub const LOG: &str = "log";
    /// Metadata and small blocks.
    pub const SPECIAL: &str = "special";
    /// Dedup tables.
    pub const DEDUP: &str = "dedup";
}

/// Names in the ZAP of a top-level device (`VDEV_TOP_ZAP_`).
pub mod vdev_top {
    /// Object: space map of obsolete ranges of a removed device.
    pub const INDIRECT_OBSOLETE_SM: &str = "com.delphix:indirect_obsolete_sm";
    /// 1: the obsolete counts are exact.
    pub const OBSOLETE_COUNTS_ARE_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    /// Object: space map of what the checkpoint keeps from being freed.
    pub const POOL_CHECKPOINT_SM: &str = "com.delphix:pool_checkpoint_sm";
    /// Object: for each metaslab, the round from which log space maps count.
    pub const MS_UNFLUSHED_PHYS_TXGS: &str = "com.delphix:ms_unflushed_phys_txgs";
    /// Words: state of a sequential rebuild.
    pub const VDEV_REBUILD_PHYS: &str = "org.openzfs:vdev_rebuild";
    /// What the device is for.
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    /// State of the last expansion.
    pub const RAIDZ_EXPAND_STATE: &str = "org.openzfs:raidz_expand_state";
    /// When it began.
    pub const RAIDZ_EXPAND_START_TIME: &str = "org.openzfs:raidz_expand_start_time";
    /// When it ended.
    pub const RAIDZ_EXPAND_END_TIME: &str = "org.openzfs:raidz_expand_end_time";
    /// How far it got.
    pub const RAIDZ_EXPAND_BYTES_COPIED: &str = "org.openzfs:raidz_expand_bytes_copied";
}

/// Names in the ZAP of a leaf (`VDEV_LEAF_ZAP_`).
pub mod vdev_leaf {
    /// How far initializing got.
    pub const INITIALIZE_LAST_OFFSET: &str = "com.delphix:next_offset_to_initialize";
    /// State of initializing.
    pub const INITIALIZE_STATE: &str = "com.delphix:vdev_initialize_state";
    /// When that state was entered.
    pub const INITIALIZE_ACTION_TIME: &str = "com.delphix:vdev_initialize_action_time";
    /// What is written.
    pub const INITIALIZE_VALUE: &str = "org.openzfs:vdev_initialize_value";
    /// How far trimming got.
    pub const TRIM_LAST_OFFSET: &str = "org.zfsonlinux:next_offset_to_trim";
    /// State of trimming.
    pub const TRIM_STATE: &str = "org.zfsonlinux:vdev_trim_state";
    /// When that state was entered.
    pub const TRIM_ACTION_TIME: &str = "org.zfsonlinux:vdev_trim_action_time";
    /// Bytes a second.
    pub const TRIM_RATE: &str = "org.zfsonlinux:vdev_trim_rate";
    /// 1: only what was in use.
    pub const TRIM_PARTIAL: &str = "org.zfsonlinux:vdev_trim_partial";
    /// 1: secure erase.
    pub const TRIM_SECURE: &str = "org.zfsonlinux:vdev_trim_secure";
}
