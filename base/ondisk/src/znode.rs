//! What files are made of besides attributes: old znodes, flags, directory entries, the table of identity domains.
//!
//! A znode before ZPL version 5 is the bonus itself (object type 17):
//!
//! | offset | bytes | field     | since | meaning                                                     |
//! |--------|-------|-----------|-------|-------------------------------------------------------------|
//! | 0x00   | 16    | zp_atime  | v1    | seconds, nanoseconds                                        |
//! | 0x10   | 16    | zp_mtime  | v1    |                                                             |
//! | 0x20   | 16    | zp_ctime  | v1    |                                                             |
//! | 0x30   | 16    | zp_crtime | v1    | birth                                                       |
//! | 0x40   | 8     | zp_gen    | v1    | txg of birth                                                |
//! | 0x48   | 8     | zp_mode   | v1    | type and permissions                                        |
//! | 0x50   | 8     | zp_size   | v1    | bytes; of a directory, entries + 2                          |
//! | 0x58   | 8     | zp_parent | v1    | directory                                                   |
//! | 0x60   | 8     | zp_links  | v1    | links                                                       |
//! | 0x68   | 8     | zp_xattr  | v1    | directory of extended attributes                            |
//! | 0x70   | 8     | zp_rdev   | v1    | device number, in the encoding of the system that made it   |
//! | 0x78   | 8     | zp_flags  | v1    | [`Flags`]                                                   |
//! | 0x80   | 8     | zp_uid    | v1    | owner; a FUID from ZPL version 3 on                         |
//! | 0x88   | 8     | zp_gid    | v1    | group                                                       |
//! | 0x90   | 32    | zp_pad    | v1    |                                                             |
//! | 0xb0   | 88    | zp_acl    | v1    | [`crate::acl::AclPhys`]                                     |
//! | 0x108  |       |           | v1    | target of a short symbolic link, or a scan stamp            |
//!
//! From version 5 on the same fields are system attributes ([`crate::sa`]).
//!
//! A directory of version 1 made on SPARC in 2006: access time .., generation 5, mode 040755, size 2:
//!
//! ```text
//! 00000000  00 00 00 00 45 41 cd cb  00 00 00 00 39 2b 10 28  |....EA......9+.(|
//! 00000010  00 00 00 00 45 41 cd cd  00 00 00 00 2b e0 a3 70  |....EA......+..p|
//! 00000020  00 00 00 00 45 41 cd cd  00 00 00 00 2b e0 a3 70  |....EA......+..p|
//! 00000030  00 00 00 00 45 41 cd cb  00 00 00 00 39 2b 10 28  |....EA......9+.(|
//! 00000040  00 00 00 00 00 00 00 05  00 00 00 00 00 00 41 ed  |..............A.|
//! 00000050  00 00 00 00 00 00 00 02  00 00 00 00 00 00 00 03  |................|
//! ```
//!
//! Sources: include/sys/zfs_znode.h, zfs_sa.h, zfs_fuid.h.

use crate::endian::Endian;
use crate::error::{Error, Result};
use crate::nvlist::Nvlist;

/// Bytes of an old znode.
pub const LEGACY_BYTES: usize = 0x108;

bitflags::bitflags! {
    /// `zp_flags`, `ZPL_FLAGS`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u64 {
        /// It is an extended attribute, or their directory.
        const XATTR = 0x1;
        /// Some of its ACL passes to what is made in it.
        const INHERIT_ACE = 0x2;
        /// The ACL says no more than the mode.
        const ACL_TRIVIAL = 0x4;
        /// The ACL has entries for object types.
        const ACL_OBJ_ACE = 0x8;
        /// The ACL inherits nothing.
        const ACL_PROTECTED = 0x10;
        /// The ACL came by default.
        const ACL_DEFAULTED = 0x20;
        /// The ACL follows its parent.
        const ACL_AUTO_INHERIT = 0x40;
        /// An old znode is followed by a scan stamp.
        const BONUS_SCANSTAMP = 0x80;
        /// Nobody is denied to execute.
        const NO_EXECS_DENIED = 0x100;
        /// DOS attribute.
        const READONLY = 1 << 32;
        /// DOS attribute.
        const HIDDEN = 1 << 33;
        /// DOS attribute.
        const SYSTEM = 1 << 34;
        /// DOS attribute.
        const ARCHIVE = 1 << 35;
        /// May not change.
        const IMMUTABLE = 1 << 36;
        /// May not be removed.
        const NOUNLINK = 1 << 37;
        /// May only grow.
        const APPENDONLY = 1 << 38;
        /// Not to be backed up.
        const NODUMP = 1 << 39;
        /// Hides what lies below, in unions.
        const OPAQUE = 1 << 40;
        /// A virus scanner locked it.
        const AV_QUARANTINED = 1 << 41;
        /// Changed since a virus scanner looked.
        const AV_MODIFIED = 1 << 42;
        /// A reparse point of SMB.
        const REPARSE = 1 << 43;
        /// Its data is elsewhere.
        const OFFLINE = 1 << 44;
        /// Sparse, to SMB.
        const SPARSE = 1 << 45;
        /// What is made in this directory gets its project.
        const PROJINHERIT = 1 << 46;
        /// There is an attribute with the project.
        const PROJID = 1 << 47;
    }
}

/// Value of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntryValue {
    /// The object; low 48 bits.
    pub object: u64,
    /// `DT_` number of its type; top 4 bits; 0 in entries made before ZPL version 2.
    pub kind: u8,
}

impl DirEntryValue {
    /// Takes the number apart; bits 48 to 59 mean nothing.
    pub fn unpack(value: u64) -> Self {
        Self { object: value & 0xffff_ffff_ffff, kind: (value >> 60) as u8 }
    }
}

/// A user or group: in the low half the number, in the high half which domain it belongs to (0: POSIX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fuid(pub u64);

impl Fuid {
    /// Domain: an index into the [`domains`] of the dataset; 0: none.
    pub fn domain(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Number within the domain; without one, the user or group id. It is what Linux shows in either case.
    pub fn id(self) -> u32 {
        self.0 as u32
    }
}

/// `(index, domain)` of each identity domain: the packed list in the dataset's `FUID` object.
pub fn domains(packed: &[u8]) -> Result<Vec<(u32, String)>> {
    let list = Nvlist::parse(packed)?;
    let entry = |e: &Nvlist| -> Result<(u32, String)> {
        let index = e.need_u64("fuid_idx")?;
        let index =
            u32::try_from(index).map_err(|_| Error::corrupt("fuid table", "fuid_idx", index, "a number of 32 bits"))?;
        Ok((index, String::from_utf8_lossy(e.get_string("fuid_domain").unwrap_or_default()).into_owned()))
    };
    list.get_nvlist_array("fuid_nvlist").iter().map(entry).collect()
}

/// Seconds (signed: files may be older than 1970) and nanoseconds of a time of 16 bytes.
pub fn time(bytes: &[u8], endian: Endian) -> Option<(i64, u32)> {
    if bytes.len() < 16 {
        return None;
    }
    Some((endian.u64(bytes) as i64, endian.word(bytes, 1).min(999_999_999) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{AclPhys, Who};
    use crate::testing::golden;
    use proptest::prelude::*;

    #[test]
    fn directory_entries_ignore_the_middle_bits() {
        let value = DirEntryValue::unpack(0x4ab0_0000_0000_0022);
        assert_eq!(value, DirEntryValue { object: 0x22, kind: 4 });
    }

    #[test]
    fn times_before_1970_are_negative() {
        let mut bytes = [0u8; 16];
        Endian::Big.put_u64(&mut bytes, -3600i64 as u64);
        assert_eq!(time(&bytes, Endian::Big), Some((-3600, 0)));
        assert_eq!(time(&bytes[..15], Endian::Big), None);
    }

    #[test]
    fn domains_are_read_from_their_list() {
        let mut entry = Nvlist::new();
        entry.put("fuid_idx", 1u64);
        entry.put("fuid_offset", 0u64);
        entry.put("fuid_domain", "S-1-5-21-1-2-3");
        let mut table = Nvlist::new();
        table.put("fuid_nvlist", vec![entry]);
        assert_eq!(domains(&table.to_xdr(Endian::Little)).unwrap(), [(1, "S-1-5-21-1-2-3".to_owned())]);
    }

    #[test]
    fn a_znode_that_sparc_wrote_reads_right() {
        let bytes = golden!("znode_sparc.bin");
        assert_eq!(bytes.len(), LEGACY_BYTES);
        assert_eq!(time(&bytes[0x10..], Endian::Big), Some((1_161_940_429, 736_142_192)));
        assert_eq!(Endian::Big.u64(&bytes[0x48..]), 0o40755);
        let acl = AclPhys::parse(&bytes[0xb0..], Endian::Big).unwrap();
        let aces = acl.entries(None).unwrap();
        assert_eq!((acl.version, aces.len()), (0, 6));
        let who = [Who::Owner, Who::Owner, Who::OwningGroup, Who::OwningGroup, Who::Everyone, Who::Everyone];
        assert_eq!(aces.iter().map(|a| a.who).collect::<Vec<_>>(), who);
        assert_eq!(aces.iter().map(|a| a.kind).collect::<Vec<_>>(), [1, 0, 1, 0, 1, 0], "deny, then allow");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), value: u64) {
            let _ = (domains(&bytes), time(&bytes, Endian::Big), DirEntryValue::unpack(value), Fuid(value).domain());
        }
    }
}
