//! DSL dataset: a version of a file system or volume, either the writable head or a snapshot.
//!
//! The bonus of a MOS object (type 16, or a ZAP once features have added named fields).
//!
//! | offset | bytes | field                 | since | meaning                                  |
//! |--------|-------|-----------------------|-------|------------------------------------------|
//! | 0x00   | 8     | ds_dir_obj            | v1    | DSL directory                            |
//! | 0x08   | 8     | ds_prev_snap_obj      | v1    | previous snapshot                        |
//! | 0x10   | 8     | ds_prev_snap_txg      | v1    | txg of the previous snapshot             |
//! | 0x18   | 8     | ds_next_snap_obj      | v1    | snapshot: next snapshot or head; head: 0 |
//! | 0x20   | 8     | ds_snapnames_zapobj   | v1    | head: ZAP, name -> snapshot; snapshot: 0 |
//! | 0x28   | 8     | ds_num_children       | v1    | next dataset and clones; head: 0         |
//! | 0x30   | 8     | ds_creation_time      | v1    | seconds since 1970                       |
//! | 0x38   | 8     | ds_creation_txg       | v1    | txg of creation                          |
//! | 0x40   | 8     | ds_deadlist_obj       | v1    | previous snapshot's blocks freed since   |
//! | 0x48   | 8     | ds_referenced_bytes   | v1    | space of all referenced blocks           |
//! | 0x50   | 8     | ds_compressed_bytes   | v1    | the same without parity and copies       |
//! | 0x58   | 8     | ds_uncompressed_bytes | v1    | the same before compression              |
//! | 0x60   | 8     | ds_unique_bytes       | v1    | referenced by this dataset only          |
//! | 0x68   | 8     | ds_fsid_guid          | v1    | 56-bit ID for fsid; changes on collision |
//! | 0x70   | 8     | ds_guid               | v1    | permanent GUID                           |
//! | 0x78   | 8     | ds_flags              | v1    | 1 inconsistent, 2 no promote, 4 unique   |
//! |        |       |                       |       | accurate, 8 deferred destroy, 0x10000    |
//! |        |       |                       |       | case-insensitive                         |
//! | 0x80   | 128   | ds_bp                 | v1    | the object set                           |
//! | 0x100  | 8     | ds_next_clones_obj    | v11   | ZAP of the clones of a snapshot          |
//! | 0x108  | 8     | ds_props_obj          | v12   | ZAP of properties of a snapshot          |
//! | 0x110  | 8     | ds_userrefs_obj       | v18   | ZAP: tag of a hold -> creation time      |
//! | 0x118  | 40    | ds_pad                |       |                                          |
//!
//! Named fields if the object is a ZAP: `com.delphix:bookmarks`, `com.datto:ivset_guid`,
//! `com.delphix:resume_*`, `com.delphix:remap_deadlist`, and the GUID of each feature that the
//! dataset uses.
//!
//! A snapshot: directory 0x6c, previous snapshot 0x83, next 0x5a, created in txg 13, 0xb7600 bytes:
//!
//! ```text
//! 00000000  6c 00 00 00 00 00 00 00  83 00 00 00 00 00 00 00  |l...............|
//! 00000010  0c 00 00 00 00 00 00 00  5a 00 00 00 00 00 00 00  |........Z.......|
//! 00000020  00 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  |................|
//! 00000030  fc 6f 01 6b 00 00 00 00  0d 00 00 00 00 00 00 00  |.o.k............|
//! 00000040  84 00 00 00 00 00 00 00  00 76 0b 00 00 00 00 00  |.........v......|
//! 00000050  00 de 0a 00 00 00 00 00  00 38 1d 00 00 00 00 00  |.........8......|
//! 00000060  00 cc 00 00 00 00 00 00  ed 7b 0b 61 79 01 c0 00  |.........{.ay...|
//! 00000070  0f 87 d7 c2 3d 70 af 84  04 00 00 00 00 00 00 00  |....=p..........|
//! ```
//!
//! Source: include/sys/dsl_dataset.h.

use crate::blkptr::BlkPtr;
use crate::endian::{Endian, need};
use crate::error::Result;
use crate::types::Txg;

/// ZAP of a head's bookmarks.
pub const FIELD_BOOKMARKS: &str = "com.delphix:bookmarks";
/// GUID of the IV set of an encrypted snapshot.
pub const FIELD_IVSET_GUID: &str = "com.datto:ivset_guid";
/// GUIDs of the snapshots that a received dataset is redacted with respect to.
pub const FIELD_REDACTED_DATASETS: &str = "com.delphix:redacted_datasets";
/// Deadlist of remapped blocks on removed vdevs.
pub const FIELD_REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
/// Interrupted receive: GUID of the snapshot that the stream starts from.
pub const FIELD_RESUME_FROMGUID: &str = "com.delphix:resume_fromguid";
/// Interrupted receive: name of the sent snapshot.
pub const FIELD_RESUME_TONAME: &str = "com.delphix:resume_toname";
/// Interrupted receive: GUID of the sent snapshot.
pub const FIELD_RESUME_TOGUID: &str = "com.delphix:resume_toguid";
/// Interrupted receive: object to resume with.
pub const FIELD_RESUME_OBJECT: &str = "com.delphix:resume_object";
/// Interrupted receive: offset in that object.
pub const FIELD_RESUME_OFFSET: &str = "com.delphix:resume_offset";
/// Interrupted receive: bytes received.
pub const FIELD_RESUME_BYTES: &str = "com.delphix:resume_bytes";
/// Interrupted receive: the stream has large blocks.
pub const FIELD_RESUME_LARGEBLOCK: &str = "com.delphix:resume_largeblockok";
/// Interrupted receive: the stream has embedded blocks.
pub const FIELD_RESUME_EMBEDOK: &str = "com.delphix:resume_embedok";
/// Interrupted receive: the stream has compressed blocks.
pub const FIELD_RESUME_COMPRESSOK: &str = "com.delphix:resume_compressok";
/// Interrupted receive: the stream is raw.
pub const FIELD_RESUME_RAWOK: &str = "com.datto:resume_rawok";
/// Interrupted receive from a redaction bookmark: GUIDs of its snapshots.
pub const FIELD_RESUME_REDACT_BOOKMARK_SNAPS: &str = "com.delphix:resume_redact_book_snaps";

/// A head or a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DslDataset {
    /// Object of its DSL directory.
    pub dir: u64,
    /// Object of the previous snapshot.
    pub prev_snap: u64,
    /// Txg of the previous snapshot.
    pub prev_snap_txg: Txg,
    /// Object of the next snapshot or the head; 0 for a head.
    pub next_snap: u64,
    /// ZAP of a head's snapshots; 0 for a snapshot.
    pub snapnames_zap: u64,
    /// Number of datasets based on this one: the next one and clones; 0 for a head.
    pub num_children: u64,
    /// Seconds since 1970.
    pub creation_time: u64,
    /// Txg in which it was created.
    pub creation_txg: Txg,
    /// Object of the deadlist.
    pub deadlist: u64,
    /// Space of all referenced blocks, in bytes.
    pub referenced_bytes: u64,
    /// Referenced bytes without parity and copies.
    pub compressed_bytes: u64,
    /// Referenced bytes before compression.
    pub uncompressed_bytes: u64,
    /// Space referenced by this dataset only, in bytes.
    pub unique_bytes: u64,
    /// 56-bit ID for the file system ID (fsid).
    pub fsid_guid: u64,
    /// Never changes. A received snapshot has the GUID of the one that was sent.
    pub guid: u64,
    /// A combination of `FLAG_*`.
    pub flags: u64,
    /// Pointer to the object set; a hole if nothing was ever written.
    pub bp: BlkPtr,
    /// ZAP of a snapshot's clones; 0: none.
    pub next_clones_zap: u64,
    /// ZAP of a snapshot's properties; 0: none.
    pub props_zap: u64,
    /// ZAP of a snapshot's holds; 0: none.
    pub userrefs_zap: u64,
}

impl DslDataset {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 320;
    /// A receive is in progress or was interrupted.
    pub const FLAG_INCONSISTENT: u64 = 1;
    /// Must not be promoted.
    pub const FLAG_NOPROMOTE: u64 = 2;
    /// [`DslDataset::unique_bytes`] of a head is accurate.
    pub const FLAG_UNIQUE_ACCURATE: u64 = 4;
    /// Destroyed when the last hold or clone is gone.
    pub const FLAG_DEFER_DESTROY: u64 = 8;
    /// File and snapshot names are looked up case-insensitively.
    pub const FLAG_CI_DATASET: u64 = 1 << 16;

    /// Parses the bonus of a dataset object.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("dsl_dataset", bonus, Self::SIZE_BYTES)?;
        let w = |index| endian.word(bonus, index);
        Ok(Self {
            dir: w(0),
            prev_snap: w(1),
            prev_snap_txg: Txg(w(2)),
            next_snap: w(3),
            snapnames_zap: w(4),
            num_children: w(5),
            creation_time: w(6),
            creation_txg: Txg(w(7)),
            deadlist: w(8),
            referenced_bytes: w(9),
            compressed_bytes: w(10),
            uncompressed_bytes: w(11),
            unique_bytes: w(12),
            fsid_guid: w(13),
            guid: w(14),
            flags: w(15),
            bp: BlkPtr::parse(&bonus[0x80..], endian)?,
            next_clones_zap: w(32),
            props_zap: w(33),
            userrefs_zap: w(34),
        })
    }

    /// Writes the fields to `bonus`, leaving the padding unchanged.
    pub fn write(&self, bonus: &mut [u8], endian: Endian) -> Result<()> {
        need("dsl_dataset", bonus, Self::SIZE_BYTES)?;
        let head = [
            self.dir,
            self.prev_snap,
            self.prev_snap_txg.0,
            self.next_snap,
            self.snapnames_zap,
            self.num_children,
            self.creation_time,
            self.creation_txg.0,
            self.deadlist,
            self.referenced_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
            self.unique_bytes,
            self.fsid_guid,
            self.guid,
            self.flags,
        ];
        for (index, word) in head.into_iter().enumerate() {
            endian.put_u64(&mut bonus[index * 8..], word);
        }
        bonus[0x80..0x100].copy_from_slice(&self.bp.to_bytes(endian));
        for (index, word) in [self.next_clones_zap, self.props_zap, self.userrefs_zap].into_iter().enumerate() {
            endian.put_u64(&mut bonus[0x100 + index * 8..], word);
        }
        Ok(())
    }

    /// Whether this is a snapshot rather than a head.
    pub fn is_snapshot(&self) -> bool {
        self.num_children != 0
    }

    /// Whether all bits of `flag` are set.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag == flag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bonus of `th/prom@s2` in the image `history`, written by OpenZFS 2.3.2.
    const S2: &[u8] = include_bytes!("../testdata/dsl_dataset.th-prom-s2.bin");

    #[test]
    fn a_snapshot_written_by_openzfs_is_read() {
        let s2 = DslDataset::parse(S2, Endian::Little).unwrap();
        assert_eq!((s2.dir, s2.prev_snap, s2.prev_snap_txg, s2.next_snap), (108, 131, Txg(12), 90));
        assert!(s2.is_snapshot());
        assert_eq!((s2.num_children, s2.creation_time, s2.creation_txg), (2, 1_795_256_316, Txg(13)));
        assert_eq!((s2.referenced_bytes, s2.uncompressed_bytes, s2.unique_bytes), (751_104, 1_914_880, 52_224));
        assert_eq!(s2.guid, 9_560_983_944_495_073_039);
        assert!(s2.has(DslDataset::FLAG_UNIQUE_ACCURATE) && !s2.has(DslDataset::FLAG_INCONSISTENT));
        assert_eq!(s2.bp.logical_birth(), Txg(13));
        // A send held the snapshot for a while; the empty ZAP remained.
        assert_eq!((s2.props_zap, s2.userrefs_zap), (0, 277));
    }

    #[test]
    fn a_snapshot_is_encoded_to_its_original_bytes() {
        let mut out = S2.to_vec();
        out[..0x118].fill(0xee);
        DslDataset::parse(S2, Endian::Little).unwrap().write(&mut out, Endian::Little).unwrap();
        assert_eq!(out, S2);
    }

    #[test]
    fn a_short_bonus_is_refused() {
        assert!(DslDataset::parse(&S2[..319], Endian::Little).is_err());
    }
}
