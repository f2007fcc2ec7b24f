//! Feature flags: format extensions beyond pool version 28, and whether Weir supports them.
//!
//! A pool of version 5000 has three objects, named by [`crate::pool_dir`]: `features_for_read`,
//! `features_for_write` and `feature_descriptions`. The first two map a feature's GUID to its
//! reference count: 0 is enabled, more is active. Features required to *read* the pool are in the
//! first, the others ([`Flags::is_readonly_compatible`]) in the second. Features required to read
//! even the MOS are, while active, also in the label's `features_for_read`.
//!
//! A pool opens read-only if Weir can read every active feature in `features_for_read`
//! ([`Support::Read`]).
//!
//! From the label of a raidz1 pool, the pair `features_for_read` with its first entry, a boolean
//! (type 1) without a value:
//!
//! ```text
//! 00000570  00 00 00 00 00 00 00 00  00 00 00 c8 00 00 00 40  |...............@|
//! 00000580  00 00 00 11 66 65 61 74  75 72 65 73 5f 66 6f 72  |....features_for|
//! 00000590  5f 72 65 61 64 00 00 00  00 00 00 13 00 00 00 01  |_read...........|
//! 000005a0  00 00 00 00 00 00 00 01  00 00 00 2c 00 00 00 28  |...........,...(|
//! 000005b0  00 00 00 16 63 6f 6d 2e  64 65 6c 70 68 69 78 3a  |....com.delphix:|
//! 000005c0  68 6f 6c 65 5f 62 69 72  74 68 00 00 00 00 00 01  |hole_birth......|
//! 000005d0  00 00 00 00 00 00 00 30  00 00 00 30 00 00 00 19  |.......0...0....|
//! ```
//!
//! Source: module/zcommon/zfeature_common.c.

/// What Weir can do with a pool on which a feature is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Support {
    /// Read the pool. `pool::feature::can_write` says whether Weir can also write it.
    Read,
    /// Nothing: if the feature is required for reading, the pool is refused.
    None,
}

/// Properties of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(u8);

const RO: u8 = 1;
const MOS: u8 = 2;
const ACT: u8 = 4;
const DS: u8 = 8;
const NOUP: u8 = 16;

impl Flags {
    /// The pool can be read without support for the feature.
    pub fn is_readonly_compatible(self) -> bool {
        self.0 & RO != 0
    }

    /// The feature is required to read the MOS; while active, it is listed in the label.
    pub fn is_needed_for_mos(self) -> bool {
        self.0 & MOS != 0
    }

    /// Enabling the feature activates it.
    pub fn is_activated_on_enable(self) -> bool {
        self.0 & ACT != 0
    }

    /// The feature is active for individual datasets; the pool counts them.
    pub fn is_per_dataset(self) -> bool {
        self.0 & DS != 0
    }

    /// Upgrading a pool does not enable the feature.
    pub fn is_excluded_from_upgrade(self) -> bool {
        self.0 & NOUP != 0
    }
}

/// A feature of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Name in the property `feature@name`.
    pub name: &'static str,
    /// GUID, its name on disk.
    pub guid: &'static str,
    pub summary: &'static str,
    pub flags: Flags,
    /// Names of features that must be enabled first.
    pub dependencies: &'static [&'static str],
    /// Level of support in Weir.
    pub support: Support,
}

/// The feature with this GUID.
pub fn by_guid(guid: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|f| f.guid == guid)
}

/// The feature with this name.
pub fn by_name(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|f| f.name == name)
}

/// Whether Weir can read a pool that requires the feature `guid` for reading. False for unknown
/// features.
pub fn can_read(guid: &str) -> bool {
    by_guid(guid).is_some_and(|f| f.support == Support::Read)
}

/// Every feature of OpenZFS up to its master branch of late 2026, in the order of its own table.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "async_destroy",
        guid: "com.delphix:async_destroy",
        summary: "Destroying a dataset frees its blocks in the background.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "empty_bpobj",
        guid: "com.delphix:empty_bpobj",
        summary: "Snapshots that freed nothing share one empty list.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "lz4_compress",
        guid: "org.illumos:lz4_compress",
        summary: "Blocks compressed with LZ4.",
        flags: Flags(ACT),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "multi_vdev_crash_dump",
        guid: "com.joyent:multi_vdev_crash_dump",
        summary: "illumos can dump its memory to a volume on any pool.",
        flags: Flags(0),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "spacemap_histogram",
        guid: "com.delphix:spacemap_histogram",
        summary: "Space maps count their free ranges by size.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "enabled_txg",
        guid: "com.delphix:enabled_txg",
        summary: "The pool knows in which round each feature came.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "hole_birth",
        guid: "com.delphix:hole_birth",
        summary: "Holes know when they were made, so that incremental sends can leave them out.",
        flags: Flags(MOS | ACT),
        dependencies: &["enabled_txg"],
        support: Support::Read,
    },
    Feature {
        name: "zpool_checkpoint",
        guid: "com.delphix:zpool_checkpoint",
        summary: "The whole pool can be wound back to a checkpoint.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "spacemap_v2",
        guid: "com.delphix:spacemap_v2",
        summary: "Space maps have entries of two words for large ranges.",
        flags: Flags(RO | ACT),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "extensible_dataset",
        guid: "com.delphix:extensible_dataset",
        summary: "A dataset can carry entries of its own, among them its features.",
        flags: Flags(0),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "bookmarks",
        guid: "com.delphix:bookmarks",
        summary: "A place in time to send from, without the snapshot.",
        flags: Flags(RO),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "filesystem_limits",
        guid: "com.joyent:filesystem_limits",
        summary: "Limits on how many datasets and snapshots a dataset may have.",
        flags: Flags(RO),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "embedded_data",
        guid: "com.delphix:embedded_data",
        summary: "Blocks that compress to 112 bytes live in their pointer.",
        flags: Flags(MOS | ACT),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "livelist",
        guid: "com.delphix:livelist",
        summary: "Clones list their own blocks, so that destroying one is fast.",
        flags: Flags(RO),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "log_spacemap",
        guid: "com.delphix:log_spacemap",
        summary: "Changes of all space maps of a round go to one log first.",
        flags: Flags(RO),
        dependencies: &["spacemap_v2"],
        support: Support::Read,
    },
    Feature {
        name: "large_blocks",
        guid: "org.open-zfs:large_blocks",
        summary: "Records larger than 128 KiB, up to 16 MiB.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "large_dnode",
        guid: "org.zfsonlinux:large_dnode",
        summary: "Dnodes larger than 512 bytes, with more room for attributes.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "sha512",
        guid: "org.illumos:sha512",
        summary: "Checksum SHA-512/256.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "skein",
        guid: "org.illumos:skein",
        summary: "Checksum Skein.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "edonr",
        guid: "org.illumos:edonr",
        summary: "Checksum Edon-R.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "redaction_bookmarks",
        guid: "com.delphix:redaction_bookmarks",
        summary: "Bookmarks that list what a redacted send leaves out.",
        flags: Flags(0),
        dependencies: &["bookmark_v2", "extensible_dataset", "bookmarks"],
        support: Support::Read,
    },
    Feature {
        name: "redacted_datasets",
        guid: "com.delphix:redacted_datasets",
        summary: "Datasets received from a redacted send: some blocks are not there.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "bookmark_written",
        guid: "com.delphix:bookmark_written",
        summary: "Bookmarks know the space written since.",
        flags: Flags(0),
        dependencies: &["bookmark_v2", "extensible_dataset", "bookmarks"],
        support: Support::Read,
    },
    Feature {
        name: "device_removal",
        guid: "com.delphix:device_removal",
        summary: "A top-level device can be removed; its blocks are found through a mapping.",
        flags: Flags(MOS),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "obsolete_counts",
        guid: "com.delphix:obsolete_counts",
        summary: "The mapping of a removed device shrinks as its blocks are freed.",
        flags: Flags(RO),
        dependencies: &["extensible_dataset", "device_removal"],
        support: Support::Read,
    },
    Feature {
        name: "userobj_accounting",
        guid: "org.zfsonlinux:userobj_accounting",
        summary: "Objects are counted by user and group.",
        flags: Flags(RO | DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "bookmark_v2",
        guid: "com.datto:bookmark_v2",
        summary: "Bookmarks have room for more.",
        flags: Flags(0),
        dependencies: &["extensible_dataset", "bookmarks"],
        support: Support::Read,
    },
    Feature {
        name: "encryption",
        guid: "com.datto:encryption",
        summary: "Datasets can be encrypted.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset", "bookmark_v2"],
        support: Support::Read,
    },
    Feature {
        name: "project_quota",
        guid: "org.zfsonlinux:project_quota",
        summary: "Space and objects are counted by project.",
        flags: Flags(RO | DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "allocation_classes",
        guid: "org.zfsonlinux:allocation_classes",
        summary: "Devices only for metadata, small blocks or deduplication.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "resilver_defer",
        guid: "com.datto:resilver_defer",
        summary: "A new resilver waits for the one that runs.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "device_rebuild",
        guid: "org.openzfs:device_rebuild",
        summary: "Mirrors and dRAID rebuild in the order of the disk.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "zstd_compress",
        guid: "org.freebsd:zstd_compress",
        summary: "Blocks compressed with Zstandard.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "draid",
        guid: "org.openzfs:draid",
        summary: "RAID with distributed spares.",
        flags: Flags(MOS),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "draid_failure_domains",
        guid: "com.seagate:draid_failure_domains",
        summary: "dRAID that spreads a stripe over enclosures.",
        flags: Flags(MOS),
        dependencies: &["draid"],
        support: Support::None,
    },
    Feature {
        name: "zilsaxattr",
        guid: "org.openzfs:zilsaxattr",
        summary: "Extended attributes stored as system attributes are in the intent log.",
        flags: Flags(RO | DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "head_errlog",
        guid: "com.delphix:head_errlog",
        summary: "The error log is by dataset, so that snapshots share entries.",
        flags: Flags(ACT),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "blake3",
        guid: "org.openzfs:blake3",
        summary: "Checksum BLAKE3.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "block_cloning",
        guid: "com.fudosecurity:block_cloning",
        summary: "Files can share blocks (reflinks), counted in a table.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "block_cloning_endian",
        guid: "com.truenas:block_cloning_endian",
        summary: "That table has the same byte order on all hosts.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "vdev_zaps_v2",
        guid: "com.klarasystems:vdev_zaps_v2",
        summary: "The root of the device tree has an object for properties.",
        flags: Flags(MOS),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "redaction_list_spill",
        guid: "com.delphix:redaction_list_spill",
        summary: "Redaction lists of more snapshots than fit a bonus.",
        flags: Flags(0),
        dependencies: &["redaction_bookmarks"],
        support: Support::Read,
    },
    Feature {
        name: "raidz_expansion",
        guid: "org.openzfs:raidz_expansion",
        summary: "A RAID-Z can be widened by a disk.",
        flags: Flags(MOS),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "fast_dedup",
        guid: "com.klarasystems:fast_dedup",
        summary: "Deduplication with a log, a quota and pruning.",
        flags: Flags(RO),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "longname",
        guid: "org.zfsonlinux:longname",
        summary: "File names of up to 1023 bytes.",
        flags: Flags(DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
    Feature {
        name: "large_microzap",
        guid: "com.klarasystems:large_microzap",
        summary: "Small directories stay in the compact form beyond 128 KiB.",
        flags: Flags(RO | DS),
        dependencies: &["extensible_dataset", "large_blocks"],
        support: Support::Read,
    },
    Feature {
        name: "dynamic_gang_header",
        guid: "com.klarasystems:dynamic_gang_header",
        summary: "Gang headers as large as the smallest allocation.",
        flags: Flags(MOS | NOUP),
        dependencies: &[],
        support: Support::Read,
    },
    Feature {
        name: "physical_rewrite",
        guid: "com.truenas:physical_rewrite",
        summary: "Rewriting a block keeps its logical birth.",
        flags: Flags(RO | DS),
        dependencies: &["extensible_dataset"],
        support: Support::Read,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvlist::Nvlist;
    use crate::testing::golden;

    #[test]
    fn names_and_guids_are_unique_and_dependencies_exist() {
        assert_eq!(FEATURES.len(), 48);
        for (i, f) in FEATURES.iter().enumerate() {
            assert!(f.guid.ends_with(&format!(":{}", f.name)), "{}", f.guid);
            assert_eq!(FEATURES.iter().position(|g| g.name == f.name || g.guid == f.guid), Some(i));
            assert!(f.dependencies.iter().all(|d| by_name(d).is_some()), "{}", f.name);
        }
    }

    #[test]
    fn features_of_the_mos_are_required_for_reading() {
        assert!(FEATURES.iter().all(|f| !(f.flags.is_needed_for_mos() && f.flags.is_readonly_compatible())));
        let mos: Vec<_> = FEATURES.iter().filter(|f| f.flags.is_needed_for_mos()).map(|f| f.name).collect();
        assert_eq!(
            mos,
            [
                "hole_birth",
                "embedded_data",
                "device_removal",
                "draid",
                "draid_failure_domains",
                "vdev_zaps_v2",
                "raidz_expansion",
                "dynamic_gang_header"
            ]
        );
    }

    #[test]
    fn features_of_real_labels_are_known() {
        for label in [golden!("label_raidz1_xdr.bin"), golden!("label_draid2_xdr.bin")] {
            let label = Nvlist::parse(label).unwrap();
            for pair in &label.need_nvlist("features_for_read").unwrap().pairs {
                assert!(can_read(&pair.name_lossy()));
            }
        }
        assert!(!can_read("com.example:no_such"));
        assert!(!can_read("com.seagate:draid_failure_domains"));
    }
}
