//! Bookmark: the record of a snapshot that allows an incremental stream to start from it.
//!
//! A value in the ZAP that a head dataset refers to as `com.delphix:bookmarks`: 8-byte integers in
//! the byte order of the ZAP.
//!
//! | offset | bytes | field                                   | meaning                          |
//! |--------|-------|-----------------------------------------|----------------------------------|
//! | 0x00   | 8     | zbm_guid                                | GUID of the snapshot             |
//! | 0x08   | 8     | zbm_creation_txg                        | txg of the snapshot              |
//! | 0x10   | 8     | zbm_creation_time                       | seconds since 1970               |
//! | 0x18   | 8     | zbm_redaction_obj                       | list of redacted blocks          |
//! |        |       |                                         | ([`crate::RedactionList`]); 0:   |
//! |        |       |                                         | none                             |
//! | 0x20   | 8     | zbm_flags                               | 1 freed sizes are recorded,      |
//! |        |       |                                         | 2 the snapshot still exists      |
//! | 0x28   | 8     | zbm_referenced_bytes_refd               | referenced by the snapshot       |
//! | 0x30   | 8     | zbm_compressed_bytes_refd               | the same without parity and      |
//! |        |       |                                         | copies                           |
//! | 0x38   | 8     | zbm_uncompressed_bytes_refd             | the same before compression      |
//! | 0x40   | 8     | zbm_referenced_freed_before_next_snap   | of these, freed before the next  |
//! |        |       |                                         | snapshot                         |
//! | 0x48   | 8     | zbm_compressed_freed_before_next_snap   |                                  |
//! | 0x50   | 8     | zbm_uncompressed_freed_before_next_snap |                                  |
//! | 0x58   | 8     | zbm_ivset_guid                          | GUID of the IV set, for raw      |
//! |        |       |                                         | streams                          |
//!
//! Since: `bookmarks` up to 0x17; `bookmark_v2` for 0x18, 0x20 and 0x58; `bookmark_written` for the
//! others.
//!
//! A value of 3 integers is the first version, one of 12 the second. Lengths in between end after
//! the last field that the writer knew. Missing fields are zero.
//!
//! A bookmark of txg 17, as stored by a little-endian host: freed sizes recorded, snapshot still
//! exists:
//!
//! ```text
//! 00000000  71 ed 3a a3 06 c5 b3 5e  11 00 00 00 00 00 00 00  |q.:....^........|
//! 00000010  02 70 01 6b 00 00 00 00  00 00 00 00 00 00 00 00  |.p.k............|
//! 00000020  03 00 00 00 00 00 00 00  00 b6 0f 00 00 00 00 00  |................|
//! 00000030  00 36 0f 00 00 00 00 00  00 48 22 00 00 00 00 00  |.6.......H".....|
//! 00000040  00 c0 00 00 00 00 00 00  00 60 00 00 00 00 00 00  |.........`......|
//! 00000050  00 76 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |.v..............|
//! ```
//!
//! Source: include/sys/dsl_bookmark.h.

use crate::error::{Error, Result};
use crate::types::Txg;

/// Three sizes of the same set of blocks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceTriple {
    /// Allocated space, including parity and copies.
    pub used: u64,
    /// Stored size, without parity and copies.
    pub compressed: u64,
    /// Logical size, before compression.
    pub uncompressed: u64,
}

/// A bookmark of a snapshot (`zfs_bookmark_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DslBookmark {
    /// GUID of the snapshot.
    pub guid: u64,
    /// Txg in which the snapshot was taken.
    pub creation_txg: Txg,
    /// Time of the snapshot in seconds since 1970.
    pub creation_time: u64,
    /// Object of the redaction list; 0: none.
    pub redaction_obj: u64,
    /// A combination of `FLAG_*`.
    pub flags: u64,
    /// Space referenced by the snapshot.
    pub referenced: SpaceTriple,
    /// The part of it that was freed before the next snapshot.
    pub freed_before_next_snap: SpaceTriple,
    /// GUID of the IV set; 0: not encrypted.
    pub ivset_guid: u64,
}

impl DslBookmark {
    /// Number of integers in the first version.
    pub const WORDS_V1: usize = 3;
    /// Number of integers in the second version.
    pub const WORDS_V2: usize = 12;
    /// [`Self::freed_before_next_snap`] is recorded.
    pub const FLAG_HAS_FBN: u64 = 1;
    /// The snapshot still exists.
    pub const FLAG_SNAPSHOT_EXISTS: u64 = 2;

    /// Decodes the integers of the ZAP value. Fewer than 3 are an error.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        if words.len() < Self::WORDS_V1 {
            return Err(Error::short("dsl_bookmark", words.len() * 8, Self::WORDS_V1 * 8));
        }
        let w = |index: usize| words.get(index).copied().unwrap_or(0);
        Ok(Self {
            guid: w(0),
            creation_txg: Txg(w(1)),
            creation_time: w(2),
            redaction_obj: w(3),
            flags: w(4),
            referenced: SpaceTriple { used: w(5), compressed: w(6), uncompressed: w(7) },
            freed_before_next_snap: SpaceTriple { used: w(8), compressed: w(9), uncompressed: w(10) },
            ivset_guid: w(11),
        })
    }

    /// Encodes the integers of the second version.
    pub fn to_words(&self) -> [u64; Self::WORDS_V2] {
        let (r, f) = (self.referenced, self.freed_before_next_snap);
        [
            self.guid,
            self.creation_txg.0,
            self.creation_time,
            self.redaction_obj,
            self.flags,
            r.used,
            r.compressed,
            r.uncompressed,
            f.used,
            f.compressed,
            f.uncompressed,
            self.ivset_guid,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `th/fs#mark` in the image `history`, as `zdb -dddd` prints it.
    const MARK: [u64; 12] =
        [6824014492695457137, 17, 1795256322, 0, 3, 1029632, 996864, 2246656, 49152, 24576, 30208, 0];

    #[test]
    fn a_bookmark_written_by_openzfs_is_read_and_written_back() {
        let mark = DslBookmark::from_words(&MARK).unwrap();
        assert_eq!((mark.creation_txg, mark.creation_time), (Txg(17), 1_795_256_322));
        assert_eq!(mark.flags, DslBookmark::FLAG_HAS_FBN | DslBookmark::FLAG_SNAPSHOT_EXISTS);
        assert_eq!(mark.referenced, SpaceTriple { used: 1_029_632, compressed: 996_864, uncompressed: 2_246_656 });
        assert_eq!(mark.freed_before_next_snap.used, 49_152);
        assert_eq!(mark.to_words(), MARK);
    }

    #[test]
    fn a_bookmark_of_the_first_version_has_zeros_for_the_rest() {
        let mark = DslBookmark::from_words(&MARK[..3]).unwrap();
        assert_eq!((mark.guid, mark.flags, mark.referenced), (MARK[0], 0, SpaceTriple::default()));
        assert!(DslBookmark::from_words(&MARK[..2]).is_err());
    }
}
