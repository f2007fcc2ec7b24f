//! DSL directory: the node of the dataset tree that carries name, properties, quota and space
//! accounting.
//!
//! The bonus of a MOS object (type 12, or a ZAP once features have added named fields).
//!
//! | offset | bytes | field                 | since | meaning                                 |
//! |--------|-------|-----------------------|-------|-----------------------------------------|
//! | 0x00   | 8     | dd_creation_time      | v1    | seconds since 1970                      |
//! | 0x08   | 8     | dd_head_dataset_obj   | v1    | head dataset; 0: `$MOS`, `$FREE`        |
//! | 0x10   | 8     | dd_parent_obj         | v1    | parent directory; 0: the pool's root    |
//! | 0x18   | 8     | dd_origin_obj         | v1    | snapshot it was cloned from, else       |
//! |        |       |                       |       | `$ORIGIN@$ORIGIN`                       |
//! | 0x20   | 8     | dd_child_dir_zapobj   | v1    | ZAP: name -> directory                  |
//! | 0x28   | 8     | dd_used_bytes         | v1    | space used, including reservations      |
//! | 0x30   | 8     | dd_compressed_bytes   | v1    | the same without parity and copies      |
//! | 0x38   | 8     | dd_uncompressed_bytes | v1    | the same before compression             |
//! | 0x40   | 8     | dd_quota              | v1    | limit of used; 0: none                  |
//! | 0x48   | 8     | dd_reserved           | v1    | reserved space; 0: none                 |
//! | 0x50   | 8     | dd_props_zapobj       | v1    | ZAP: properties set here                |
//! | 0x58   | 8     | dd_deleg_zapobj       | v3    | ZAP: delegated permissions              |
//! | 0x60   | 8     | dd_flags              | v13   | 1: the breakdown is recorded            |
//! | 0x68   | 40    | dd_used_breakdown     | v13   | used by head, snapshots, children,      |
//! |        |       |                       |       | children's reservations, refreservation |
//! | 0x90   | 8     | dd_clones             | v26   | ZAP: directories cloned from this one   |
//! | 0x98   | 104   | dd_pad                |       |                                         |
//!
//! Named fields if the object is a ZAP: `com.joyent:filesystem_count`, `com.joyent:snapshot_count`,
//! `com.datto:crypto_key_obj`, `com.delphix:livelist`, `com.ixsystems:snapshots_changed`.
//!
//! A volume: head dataset 0x7f, parent 0x20, origin 0x30, 0x1284e00 bytes used:
//!
//! ```text
//! 00000000  05 70 01 6b 00 00 00 00  7f 00 00 00 00 00 00 00  |.p.k............|
//! 00000010  20 00 00 00 00 00 00 00  30 00 00 00 00 00 00 00  | .......0.......|
//! 00000020  7e 00 00 00 00 00 00 00  00 4e 28 01 00 00 00 00  |~........N(.....|
//! 00000030  00 2c 00 00 00 00 00 00  00 e2 01 00 00 00 00 00  |.,..............|
//! 00000040  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000050  7d 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |}...............|
//! ```
//!
//! Source: include/sys/dsl_dir.h.

use crate::endian::{Endian, need};
use crate::error::Result;

/// Number of file systems below, if limits are in use.
pub const FIELD_FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
/// Number of snapshots below, if limits are in use.
pub const FIELD_SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
/// Object that holds the wrapped key of an encrypted dataset.
pub const FIELD_CRYPTO_KEY_OBJ: &str = "com.datto:crypto_key_obj";
/// List of the blocks that a clone wrote, which speeds up destroying it.
pub const FIELD_LIVELIST: &str = "com.delphix:livelist";
/// When a snapshot was last created, renamed or destroyed: seconds and nanoseconds.
pub const FIELD_SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";

/// Breakdown of a directory's space (`dd_used_breakdown`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsedBreakdown {
    /// Space used by the head itself.
    pub head: u64,
    /// Space that destroying all snapshots would free.
    pub snapshots: u64,
    /// Space used by child directories.
    pub children: u64,
    /// Space reserved by child directories beyond what they use.
    pub children_reserved: u64,
    /// Space held by the head's refreservation.
    pub refreservation: u64,
}

/// The bonus of a directory (`dsl_dir_phys_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DslDir {
    /// Creation time in seconds since 1970.
    pub creation_time: u64,
    /// Object of the head dataset; 0: none.
    pub head_dataset: u64,
    /// Object of the parent directory; 0: this is the root.
    pub parent: u64,
    /// Object of the snapshot that it was cloned from.
    pub origin: u64,
    /// ZAP of the child directories.
    pub children_zap: u64,
    /// Space used here and below, in bytes, including reservations.
    pub used_bytes: u64,
    /// Used bytes without parity and copies.
    pub compressed_bytes: u64,
    /// Used bytes before compression.
    pub uncompressed_bytes: u64,
    /// Limit of `used_bytes`; 0: none.
    pub quota_bytes: u64,
    /// Reserved space in bytes; 0: none.
    pub reserved_bytes: u64,
    /// ZAP of the properties set here.
    pub props_zap: u64,
    /// ZAP of delegated permissions; 0: none.
    pub delegation_zap: u64,
    /// `dd_flags`: 0 or [`DslDir::FLAG_USED_BREAKDOWN`].
    pub flags: u64,
    /// Space breakdown; zeros without the flag.
    pub used: UsedBreakdown,
    /// ZAP of the directories cloned from this one's snapshots; 0: none.
    pub clones_zap: u64,
}

impl DslDir {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 256;
    /// [`DslDir::used`] is recorded.
    pub const FLAG_USED_BREAKDOWN: u64 = 1;

    /// Parses the bonus of a directory object.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        need("dsl_dir", bonus, Self::SIZE_BYTES)?;
        let w = |index| endian.word(bonus, index);
        Ok(Self {
            creation_time: w(0),
            head_dataset: w(1),
            parent: w(2),
            origin: w(3),
            children_zap: w(4),
            used_bytes: w(5),
            compressed_bytes: w(6),
            uncompressed_bytes: w(7),
            quota_bytes: w(8),
            reserved_bytes: w(9),
            props_zap: w(10),
            delegation_zap: w(11),
            flags: w(12),
            used: UsedBreakdown {
                head: w(13),
                snapshots: w(14),
                children: w(15),
                children_reserved: w(16),
                refreservation: w(17),
            },
            clones_zap: w(18),
        })
    }

    /// Writes the fields to `bonus`, leaving the padding unchanged.
    pub fn write(&self, bonus: &mut [u8], endian: Endian) -> Result<()> {
        need("dsl_dir", bonus, Self::SIZE_BYTES)?;
        let words = [
            self.creation_time,
            self.head_dataset,
            self.parent,
            self.origin,
            self.children_zap,
            self.used_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
            self.quota_bytes,
            self.reserved_bytes,
            self.props_zap,
            self.delegation_zap,
            self.flags,
            self.used.head,
            self.used.snapshots,
            self.used.children,
            self.used.children_reserved,
            self.used.refreservation,
            self.clones_zap,
        ];
        for (index, word) in words.into_iter().enumerate() {
            endian.put_u64(&mut bonus[index * 8..], word);
        }
        Ok(())
    }

    /// Whether [`DslDir::used`] is recorded (pool version 13 and later).
    pub fn has_breakdown(&self) -> bool {
        self.flags & Self::FLAG_USED_BREAKDOWN != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bonus of the directory of `th/vol` in the image `history`, written by OpenZFS 2.3.2.
    const VOL: &[u8] = include_bytes!("../testdata/dsl_dir.th-vol.bin");

    #[test]
    fn a_directory_written_by_openzfs_is_read() {
        let dir = DslDir::parse(VOL, Endian::Little).unwrap();
        assert_eq!((dir.head_dataset, dir.parent, dir.origin, dir.children_zap), (127, 32, 48, 126));
        assert_eq!((dir.used_bytes, dir.compressed_bytes, dir.uncompressed_bytes), (19_418_624, 11_264, 123_392));
        assert!(dir.has_breakdown());
        assert_eq!(dir.used, UsedBreakdown { head: 19_968, refreservation: 19_398_656, ..Default::default() });
        assert_eq!((dir.props_zap, dir.delegation_zap, dir.clones_zap), (125, 0, 0));
    }

    #[test]
    fn a_directory_is_encoded_to_its_original_bytes() {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = VOL.to_vec();
            bytes[0x98] = 7; // Padding is preserved.
            let dir = DslDir::parse(&bytes, endian).unwrap();
            let mut out = bytes.clone();
            out[..0x98].fill(0xee);
            dir.write(&mut out, endian).unwrap();
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_short_bonus_is_refused() {
        assert!(DslDir::parse(&VOL[..255], Endian::Little).is_err());
    }
}
