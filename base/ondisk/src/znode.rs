//! Structures of files other than system attributes: old znodes, flags, directory entries, the
//! table of identity domains.
//!
//! Before ZPL version 5 a znode is the bonus itself (object type 17):
//!
//! | offset | bytes | field     | since | meaning                                          |
//! |--------|-------|-----------|-------|--------------------------------------------------|
//! | 0x00   | 16    | zp_atime  | v1    | seconds, nanoseconds                             |
//! | 0x10   | 16    | zp_mtime  | v1    |                                                  |
//! | 0x20   | 16    | zp_ctime  | v1    |                                                  |
//! | 0x30   | 16    | zp_crtime | v1    | birth                                            |
//! | 0x40   | 8     | zp_gen    | v1    | txg of birth                                     |
//! | 0x48   | 8     | zp_mode   | v1    | type and permissions                             |
//! | 0x50   | 8     | zp_size   | v1    | bytes; directory: entries + 2                    |
//! | 0x58   | 8     | zp_parent | v1    | directory                                        |
//! | 0x60   | 8     | zp_links  | v1    | links                                            |
//! | 0x68   | 8     | zp_xattr  | v1    | directory of extended attributes                 |
//! | 0x70   | 8     | zp_rdev   | v1    | device number, encoded as on the creating system |
//! | 0x78   | 8     | zp_flags  | v1    | [`Flags`]                                        |
//! | 0x80   | 8     | zp_uid    | v1    | owner; a FUID from ZPL version 3 on              |
//! | 0x88   | 8     | zp_gid    | v1    | group                                            |
//! | 0x90   | 32    | zp_pad    | v1    |                                                  |
//! | 0xb0   | 88    | zp_acl    | v1    | [`crate::acl::AclPhys`]                          |
//! | 0x108  |       |           | v1    | target of a short symbolic link, or a scan stamp |
//!
//! From ZPL version 5 on, the same fields are system attributes ([`crate::sa`]).
//!
//! A version 1 directory created on SPARC in 2006: access time .., generation 5, mode 040755, size
//! 2:
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

/// Size of an old znode in bytes.
pub const LEGACY_BYTES: usize = 0x108;

bitflags::bitflags! {
    /// `zp_flags`, `ZPL_FLAGS`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u64 {
        /// An extended attribute, or a directory of extended attributes.
        const XATTR = 0x1;
        /// New files inherit some entries of the ACL.
        const INHERIT_ACE = 0x2;
        /// The ACL is equivalent to the mode.
        const ACL_TRIVIAL = 0x4;
        /// The ACL has entries for object types.
        const ACL_OBJ_ACE = 0x8;
        /// The ACL does not inherit from the parent.
        const ACL_PROTECTED = 0x10;
        /// The ACL was set by default.
        const ACL_DEFAULTED = 0x20;
        /// The ACL is inherited automatically.
        const ACL_AUTO_INHERIT = 0x40;
        /// An old znode is followed by a scan stamp.
        const BONUS_SCANSTAMP = 0x80;
        /// Execute permission is denied to no user.
        const NO_EXECS_DENIED = 0x100;
        /// DOS attribute read-only.
        const READONLY = 1 << 32;
        /// DOS attribute hidden.
        const HIDDEN = 1 << 33;
        /// DOS attribute system.
        const SYSTEM = 1 << 34;
        /// DOS attribute archive.
        const ARCHIVE = 1 << 35;
        /// Contents and attributes cannot be changed (`chattr +i`).
        const IMMUTABLE = 1 << 36;
        /// Cannot be removed or renamed.
        const NOUNLINK = 1 << 37;
        /// Can only be appended to.
        const APPENDONLY = 1 << 38;
        /// Excluded from backups (nodump).
        const NODUMP = 1 << 39;
        /// Hides lower layers in union mounts.
        const OPAQUE = 1 << 40;
        /// Quarantined by a virus scanner.
        const AV_QUARANTINED = 1 << 41;
        /// Modified since the last virus scan.
        const AV_MODIFIED = 1 << 42;
        /// An SMB reparse point.
        const REPARSE = 1 << 43;
        /// The data is stored offline (SMB).
        const OFFLINE = 1 << 44;
        /// Marked as sparse for SMB.
        const SPARSE = 1 << 45;
        /// New files in this directory inherit its project ID.
        const PROJINHERIT = 1 << 46;
        /// The project ID attribute is present.
        const PROJID = 1 << 47;
    }
}

impl Flags {
    /// The flags that users can see and change on Linux (`ZFS_DOS_FL_USER_VISIBLE`).
    pub const DOS: Self = Self::READONLY
        .union(Self::HIDDEN)
        .union(Self::SYSTEM)
        .union(Self::ARCHIVE)
        .union(Self::IMMUTABLE)
        .union(Self::NOUNLINK)
        .union(Self::APPENDONLY)
        .union(Self::NODUMP)
        .union(Self::REPARSE)
        .union(Self::OFFLINE)
        .union(Self::SPARSE);
}

const _: () = assert!(Flags::DOS.bits() == 0x38ff_0000_0000);

/// Value of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntryValue {
    /// Object number; low 48 bits.
    pub object: u64,
    /// `DT_` number of the type; top 4 bits. 0 in entries created before ZPL version 2.
    pub kind: u8,
}

impl DirEntryValue {
    /// Unpacks the number; bits 48 to 59 are unused.
    pub fn unpack(value: u64) -> Self {
        Self { object: value & 0xffff_ffff_ffff, kind: (value >> 60) as u8 }
    }

    /// Packs it as [`DirEntryValue::unpack`] expects it.
    pub fn pack(self) -> u64 {
        self.object | u64::from(self.kind) << 60
    }
}

/// A user or group: the ID in the low half, its identity domain in the high half (0: POSIX).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fuid(pub u64);

impl Fuid {
    /// Index of the domain in the [`domains`] of the dataset; 0: none.
    pub fn domain(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// ID within the domain; without a domain, the user or group ID. Linux displays this number in
    /// either case.
    pub fn id(self) -> u32 {
        self.0 as u32
    }
}

/// `(index, domain)` of each identity domain, from the packed nvlist in the dataset's `FUID`
/// object.
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

/// Decodes a 16-byte time: seconds (signed, for times before 1970) and nanoseconds.
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
        assert_eq!(value.pack(), 0x4000_0000_0000_0022);
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
