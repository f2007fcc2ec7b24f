//! Access control lists: ZFS's own (NFSv4 style), both versions, and POSIX ACLs as Linux stores
//! them in extended attributes.
//!
//! `zfs_acl_phys_t`, in an old znode or in the attribute `ZPL_ZNODE_ACL` (88 bytes):
//!
//! | offset | bytes | field            | since | meaning                                        |
//! |--------|-------|------------------|-------|------------------------------------------------|
//! | 0x00   | 8     | z_acl_extern_obj | v1    | object with the entries; 0: they follow here   |
//! | 0x08   | 4     | z_acl_size       | v1    | version 1: bytes; version 0: number of entries |
//! | 0x0c   | 2     | z_acl_version    | v1    | 0 or 1                                         |
//! | 0x0e   | 2     | z_acl_count      | v9    | version 1: number of entries                   |
//! | 0x10   | 72    | z_ace_data       | v1    | entries                                        |
//!
//! A version 0 entry is 12 bytes: who (4), mask (4), flags (2), type (2). A version 1 entry is type
//! (2), flags (2), mask (4); then, unless it applies to the owner, the owning group or everyone,
//! who as a FUID (8); then, for types 5 to 8, two object types of 16 bytes. From ZPL version 5 on,
//! version 1 entries are stored in the attribute `ZPL_DACL_ACES`.
//!
//! A POSIX ACL, in `system.posix_acl_access` or `_default`: version 2 (4), then entries of tag (2),
//! permissions (2) and id (4), always little-endian.
//!
//! From the znode of a directory created on SPARC, at 0xb0: no external object, 6 version 0
//! entries, the first for the owner (who: all ones, flags 0x1000), denying (type 1) nothing:
//!
//! ```text
//! 000000b0  00 00 00 00 00 00 00 00  00 00 00 06 00 00 00 00  |................|
//! 000000c0  ff ff ff ff 00 00 00 00  10 00 00 01 ff ff ff ff  |................|
//! 000000d0  00 0c 01 37 10 00 00 00  ff ff ff ff 00 00 00 06  |...7............|
//! ```
//!
//! Sources: include/sys/zfs_acl.h, Linux include/uapi/linux/posix_acl_xattr.h.

use crate::endian::{Endian, need};
use crate::error::{Error, Result};

/// The subject that an entry applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Owner,
    OwningGroup,
    /// Everyone, including owner and group.
    Everyone,
    /// A user, identified by FUID.
    User(u64),
    /// A group, identified by FUID.
    Group(u64),
}

/// An entry of a ZFS (NFSv4-style) ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ace {
    /// 0 allow, 1 deny, 2 audit, 3 alarm; 5 to 8 the same for objects.
    pub kind: u16,
    /// Inheritance flags, and bits that identify the subject.
    pub flags: u16,
    /// Permissions allowed or denied.
    pub mask: u32,
    pub who: Who,
}

impl Ace {
    /// `ACE_OWNER`.
    pub const FLAG_OWNER: u16 = 0x1000;
    /// `ACE_GROUP`.
    pub const FLAG_GROUP: u16 = 0x2000;
    /// `ACE_EVERYONE`.
    pub const FLAG_EVERYONE: u16 = 0x4000;
    /// `ACE_IDENTIFIER_GROUP`.
    pub const FLAG_IDENTIFIER_GROUP: u16 = 0x40;
    const WHO_FLAGS: u16 = Self::FLAG_OWNER | Self::FLAG_GROUP | Self::FLAG_EVERYONE | Self::FLAG_IDENTIFIER_GROUP;
    const OWNING_GROUP: u16 = Self::FLAG_GROUP | Self::FLAG_IDENTIFIER_GROUP;

    fn new(kind: u16, flags: u16, mask: u32, fuid: u64) -> Self {
        let who = match flags & Self::WHO_FLAGS {
            Self::FLAG_OWNER => Who::Owner,
            Self::OWNING_GROUP => Who::OwningGroup,
            Self::FLAG_EVERYONE => Who::Everyone,
            f if f & Self::FLAG_IDENTIFIER_GROUP != 0 => Who::Group(fuid),
            _ => Who::User(fuid),
        };
        Self { kind, flags, mask, who }
    }

    /// The same entry, with the flag bits that identify its subject.
    #[must_use]
    pub fn with_who_flags(self) -> Self {
        let who = match self.who {
            Who::Owner => Self::FLAG_OWNER,
            Who::OwningGroup => Self::OWNING_GROUP,
            Who::Everyone => Self::FLAG_EVERYONE,
            Who::User(_) => 0,
            Who::Group(_) => Self::FLAG_IDENTIFIER_GROUP,
        };
        Self { flags: self.flags & !Self::WHO_FLAGS | who, ..self }
    }

    /// Parses version 0 entries. Ignores a partial entry at the end of `bytes`.
    pub fn parse_v0(bytes: &[u8], endian: Endian) -> Vec<Self> {
        let entry = |b: &[u8]| {
            Self::new(endian.u16(&b[10..]), endian.u16(&b[8..]), endian.u32(&b[4..]), u64::from(endian.u32(b)))
        };
        bytes.chunks_exact(12).map(entry).collect()
    }

    /// Parses version 1 entries, which must fill `bytes`.
    pub fn parse_v1(mut bytes: &[u8], endian: Endian) -> Result<Vec<Self>> {
        let mut entries = Vec::with_capacity(bytes.len() / 16);
        while !bytes.is_empty() {
            let size = Self::size_v1(bytes, endian)?;
            let (kind, flags) = (endian.u16(bytes), endian.u16(&bytes[2..]));
            let fuid = if size > 8 { endian.u64(&bytes[8..]) } else { 0 };
            entries.push(Self::new(kind, flags, endian.u32(&bytes[4..]), fuid));
            bytes = &bytes[size..];
        }
        Ok(entries)
    }

    /// Size in bytes of the version 1 entry at the start of `bytes`.
    fn size_v1(bytes: &[u8], endian: Endian) -> Result<usize> {
        need("acl entry", bytes, 8)?;
        let who = endian.u16(&bytes[2..]) & Self::WHO_FLAGS;
        let abstract_who = who == Self::FLAG_OWNER || who == Self::OWNING_GROUP || who == Self::FLAG_EVERYONE;
        let size = match endian.u16(bytes) {
            5..=8 => 48,
            0 | 1 if abstract_who => 8,
            _ => 16,
        };
        need("acl entry", bytes, size)?;
        Ok(size)
    }

    /// Converts version 1 entries in place from byte order `from` to the other one.
    pub fn swap_v1(mut bytes: &mut [u8], from: Endian) -> Result<()> {
        while !bytes.is_empty() {
            let size = Self::size_v1(bytes, from)?;
            let (entry, rest) = bytes.split_at_mut(size);
            // Object types are byte strings.
            for field in [0..2, 2..4, 4..8, 8..16] {
                if let Some(field) = entry.get_mut(field) {
                    field.reverse();
                }
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// `zfs_acl_phys_t`: the ACL header in an old znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclPhys {
    /// Object with the entries; 0: they are in [`Self::data`].
    pub object: u64,
    /// ACL version, 0 or 1.
    pub version: u16,
    /// Number of entries; in version 0, `z_acl_size`.
    pub count: u32,
    /// Size of all entries in bytes.
    pub size_bytes: u32,
    /// The 72 bytes of inline entries.
    pub data: [u8; 72],
    endian: Endian,
}

impl AclPhys {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 88;

    /// Parses the ACL header.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("acl", bytes, Self::SIZE_BYTES)?;
        let (size, version) = (endian.u32(&bytes[8..]), endian.u16(&bytes[12..]));
        let (count, size_bytes) = match version {
            0 => (size, size.saturating_mul(12)),
            1 => (u32::from(endian.u16(&bytes[14..])), size),
            n => return Err(Error::Unsupported { structure: "acl", what: format!("z_acl_version {n}") }),
        };
        let data = bytes[16..88].try_into().expect("72 bytes");
        Ok(Self { object: endian.u64(bytes), version, count, size_bytes, data, endian })
    }

    /// The entries; `external` is the contents of their object if they have one.
    pub fn entries(&self, external: Option<&[u8]>) -> Result<Vec<Ace>> {
        let bytes = external.unwrap_or(&self.data);
        let size = self.size_bytes as usize;
        need("acl", bytes, size)?;
        if self.version == 0 {
            Ok(Ace::parse_v0(&bytes[..size], self.endian))
        } else {
            Ace::parse_v1(&bytes[..size], self.endian)
        }
    }
}

/// An entry of a POSIX ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PosixEntry {
    /// 1 owner, 2 user, 4 owning group, 8 group, 0x10 mask, 0x20 others.
    pub tag: u16,
    /// 4 read, 2 write, 1 execute.
    pub permissions: u16,
    /// User or group ID for tags 2 and 8.
    pub id: u32,
}

/// Parses the value of a POSIX ACL attribute.
pub fn parse_posix(bytes: &[u8]) -> Result<Vec<PosixEntry>> {
    need("posix acl", bytes, 4)?;
    let (version, entries) = (Endian::Little.u32(bytes), &bytes[4..]);
    if version != 2 {
        return Err(Error::corrupt("posix acl", "version", version, 2));
    }
    if !entries.len().is_multiple_of(8) {
        return Err(Error::corrupt("posix acl", "length", bytes.len(), "4 and a multiple of 8"));
    }
    let le = Endian::Little;
    let entry = |b: &[u8]| PosixEntry { tag: le.u16(b), permissions: le.u16(&b[2..]), id: le.u32(&b[4..]) };
    Ok(entries.chunks_exact(8).map(entry).collect())
}

/// Encodes a POSIX ACL attribute: the inverse of [`parse_posix`].
pub fn write_posix(entries: &[PosixEntry]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for e in entries {
        out.extend_from_slice(&e.tag.to_le_bytes());
        out.extend_from_slice(&e.permissions.to_le_bytes());
        out.extend_from_slice(&e.id.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_of_version_1_have_a_length_by_type() {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = vec![0u8; 8 + 16 + 48];
            for (at, kind, flags) in [(0, 0, Ace::FLAG_OWNER), (8, 1, Ace::FLAG_IDENTIFIER_GROUP), (24, 5, 0)] {
                endian.put_u16(&mut bytes[at..], kind);
                endian.put_u16(&mut bytes[at + 2..], flags);
            }
            endian.put_u64(&mut bytes[16..], 77);
            let who: Vec<_> = Ace::parse_v1(&bytes, endian).unwrap().iter().map(|a| a.who).collect();
            assert_eq!(who, [Who::Owner, Who::Group(77), Who::User(0)]);
            assert!(Ace::parse_v1(&bytes[..60], endian).is_err());
        }
    }

    #[test]
    fn both_versions_count_their_entries() {
        let mut bytes = vec![0u8; 88];
        Endian::Big.put_u32(&mut bytes[8..], 6);
        assert_eq!(AclPhys::parse(&bytes, Endian::Big).unwrap().entries(None).unwrap().len(), 6);
        Endian::Big.put_u32(&mut bytes[8..], 7);
        assert!(AclPhys::parse(&bytes, Endian::Big).unwrap().entries(None).is_err());
        Endian::Big.put_u16(&mut bytes[12..], 1);
        Endian::Big.put_u32(&mut bytes[8..], 32);
        assert_eq!(AclPhys::parse(&bytes, Endian::Big).unwrap().entries(None).unwrap().len(), 2);
    }

    #[test]
    fn a_posix_list_is_written_back_unchanged() {
        let bytes = [&[2u8, 0, 0, 0][..], &[1, 0, 6, 0, 255, 255, 255, 255], &[2, 0, 4, 0, 0xd2, 4, 0, 0]].concat();
        let entries = parse_posix(&bytes).unwrap();
        assert_eq!(entries[1], PosixEntry { tag: 2, permissions: 4, id: 1234 });
        assert_eq!(write_posix(&entries), bytes);
        assert!(parse_posix(&bytes[..9]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), big: bool) {
            let endian = if big { Endian::Big } else { Endian::Little };
            let _ = (Ace::parse_v0(&bytes, endian), Ace::parse_v1(&bytes, endian), parse_posix(&bytes));
            if let Ok(acl) = AclPhys::parse(&bytes, endian) {
                let _ = (acl.entries(None), acl.entries(Some(&bytes)));
            }
        }
    }
}
