//! Converts what a big-endian host wrote to little-endian, by object type.
//!
//! Blocks of a pool have the byte order of the host that wrote them. A block that is changed is
//! converted as a whole first, because its pointer records one byte order.
//!
//! Facts: `dmu_ot` and `dmu_ot_byteswap` in module/zfs/dmu.c, zfs_byteswap.c, `dnode_byteswap` in
//! dnode.c.
//!
//! Invariants:
//!   * contents are converted completely, or, with an error, are not used

use crate::dnode::{Dnode, SLOT_BYTES};
use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::objset::Objset;
use crate::types::ObjectType;
use crate::zap::swap;
use crate::znode::LEGACY_BYTES;

/// How contents of a type are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Bytes, or structures that record their own byte order.
    Bytes,
    /// Numbers of this many bytes each.
    Numbers(usize),
    /// A block of a ZAP.
    Zap,
    /// A block of dnodes.
    Dnodes,
    /// The root block of an object set.
    Objset,
    /// Attributes of a file before ZPL version 5.
    Znode,
    /// Entries of an access list of version 0.
    OldAcl,
    /// Entries of an access list of version 1.
    Acl,
}

impl Layout {
    /// The layout of blocks, or of a bonus, of type `of`; `None` if the type is unknown.
    pub fn of(of: ObjectType) -> Option<Self> {
        Some(match of {
            t if t.0 & 0x80 != 0 => match t.0 & 0x1f {
                0 => Self::Bytes,
                1 => Self::Numbers(2),
                2 => Self::Numbers(4),
                3 => Self::Numbers(8),
                4 => Self::Zap,
                5 => Self::Dnodes,
                6 => Self::Objset,
                7 => Self::Znode,
                8 => Self::OldAcl,
                9 => Self::Acl,
                _ => return None,
            },
            ObjectType::NONE
            | ObjectType::PACKED_NVLIST
            | ObjectType::PLAIN_FILE_CONTENTS
            | ObjectType::ZVOL
            | ObjectType::PLAIN_OTHER
            | ObjectType::SPA_HISTORY
            | ObjectType::FUID
            | ObjectType::SA
            | ObjectType::DEDUP => Self::Bytes,
            ObjectType::OBJECT_ARRAY
            | ObjectType::PACKED_NVLIST_SIZE
            | ObjectType::BPOBJ
            | ObjectType::BPOBJ_HDR
            | ObjectType::SPACE_MAP_HEADER
            | ObjectType::SPACE_MAP
            | ObjectType::INTENT_LOG
            | ObjectType::DSL_DIR
            | ObjectType::DSL_DATASET
            | ObjectType::UINT64_OTHER
            | ObjectType::SPA_HISTORY_OFFSETS
            | ObjectType::FUID_SIZE
            | ObjectType::DEADLIST_HDR
            | ObjectType::BPOBJ_SUBOBJ => Self::Numbers(8),
            ObjectType::DNODE => Self::Dnodes,
            ObjectType::OBJSET => Self::Objset,
            ObjectType::ZNODE => Self::Znode,
            ObjectType::OLDACL => Self::OldAcl,
            ObjectType::ACL | ObjectType::SYSACL => Self::Acl,
            t if t.0 < ObjectType::COUNT => Self::Zap,
            _ => return None,
        })
    }
}

/// Converts big-endian contents of type `of` in place.
pub fn to_little(of: ObjectType, bytes: &mut [u8]) -> Result<()> {
    let unknown = || Error::corrupt("object", "type", of.0, "a known type");
    match Layout::of(of).ok_or_else(unknown)? {
        Layout::Bytes => {}
        Layout::Numbers(size) => numbers(bytes, size),
        // Contents that were never written have no type.
        _ if bytes.iter().all(|&b| b == 0) => {}
        Layout::Zap => swap::to_little(bytes)?,
        Layout::Dnodes => dnodes(bytes)?,
        Layout::Objset => {
            let mut set = Objset::parse(bytes, Endian::Big)?;
            set.make_little();
            bytes.copy_from_slice(&set.to_bytes(bytes.len())?);
        }
        Layout::Znode => znode(bytes)?,
        Layout::OldAcl => old_entries(bytes),
        Layout::Acl => entries(bytes),
    }
    Ok(())
}

fn numbers(bytes: &mut [u8], size: usize) {
    bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
}

fn dnodes(bytes: &mut [u8]) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        let slots = Dnode::slots_at(&bytes[at..]);
        if bytes[at] != 0 {
            let mut dnode = Dnode::parse_whole(&bytes[at..], Endian::Big)?;
            to_little(dnode.bonus_type, &mut dnode.bonus)?;
            dnode.endian = Endian::Little;
            let packed = dnode.to_bytes()?;
            bytes[at..at + packed.len()].copy_from_slice(&packed);
        }
        at += slots * SLOT_BYTES;
    }
    Ok(())
}

/// What follows the znode is the target of a symbolic link, or a scan stamp: bytes.
fn znode(bytes: &mut [u8]) -> Result<()> {
    /// Offset of `zp_acl`, of its entries, and their version.
    const ACL: usize = 0xb0;
    const VERSION: std::ops::Range<usize> = ACL + 12..ACL + 14;
    need("znode", bytes, LEGACY_BYTES)?;
    numbers(&mut bytes[..ACL + 8], 8);
    bytes[ACL + 8..ACL + 12].reverse();
    bytes[VERSION].reverse();
    bytes[ACL + 14..ACL + 16].reverse();
    let version = Endian::Little.u16(&bytes[VERSION]);
    let list = &mut bytes[ACL + 16..LEGACY_BYTES];
    if version == 0 {
        old_entries(list)
    } else {
        entries(list)
    }
    Ok(())
}

/// Entries of version 0. Their number is not known, but what follows them is zeros.
fn old_entries(bytes: &mut [u8]) {
    for entry in bytes.chunks_exact_mut(12) {
        for field in [0..4, 4..8, 8..10, 10..12] {
            entry[field].reverse();
        }
    }
}

/// Entries of version 1, up to the first one that does not fit. What follows the last one is zeros.
fn entries(mut bytes: &mut [u8]) {
    /// Bits that say whom an entry is about: owner, owning group, everyone, group.
    const WHO: u16 = 0x7040;
    while bytes.len() >= 8 {
        for field in [0..2, 2..4, 4..8] {
            bytes[field].reverse();
        }
        let (kind, who) = (Endian::Little.u16(bytes), Endian::Little.u16(&bytes[2..]) & WHO);
        let size = match (kind, who) {
            (5..=8, _) => 48,
            // Owner, everyone and the owning group need no number.
            (0 | 1, 0x1000 | 0x4000 | 0x2040) => 8,
            _ => 16,
        };
        if size > 8
            && let Some(number) = bytes.get_mut(8..16)
        {
            number.reverse();
        }
        let Some((_, rest)) = bytes.split_at_mut_checked(size) else { return };
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::AclPhys;
    use crate::blkptr::BlkPtr;
    use crate::dnode::BLOCK_BYTES;

    fn dnode(endian: Endian, bonus_type: ObjectType, bonus: Vec<u8>) -> Dnode {
        let mut dnode = Dnode::parse(&[0; SLOT_BYTES], endian).unwrap();
        dnode.object_type = ObjectType::DSL_DIR;
        (dnode.levels, dnode.blkptrs) = (1, vec![BlkPtr::HOLE]);
        (dnode.data_block_bytes, dnode.used_bytes) = (512, 4096);
        (dnode.bonus_type, dnode.bonus) = (bonus_type, bonus);
        dnode
    }

    #[test]
    fn a_block_of_dnodes_is_converted_with_each_bonus() {
        let mut block = vec![0; BLOCK_BYTES];
        let words = |endian: Endian| {
            let mut bonus = vec![0; 16];
            endian.put_u64(&mut bonus, 7);
            endian.put_u64(&mut bonus[8..], 0x0102_0304);
            bonus
        };
        let big = dnode(Endian::Big, ObjectType::DSL_DIR, words(Endian::Big));
        block[2 * SLOT_BYTES..3 * SLOT_BYTES].copy_from_slice(&big.to_bytes().unwrap());
        to_little(ObjectType::DNODE, &mut block).unwrap();
        let found = Dnode::parse(&block[2 * SLOT_BYTES..], Endian::Little).unwrap();
        assert_eq!(found.bonus, words(Endian::Little));
        assert_eq!((found.data_block_bytes, found.used_bytes), (512, 4096));
        assert!(block[..2 * SLOT_BYTES].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_znode_keeps_its_attributes_its_acl_and_the_target_of_its_link() {
        for version in [0u16, 1] {
            let build = |endian: Endian| {
                let mut bonus = vec![0; LEGACY_BYTES];
                endian.put_u64(&mut bonus[0x48..], 0o100_644);
                endian.put_u32(&mut bonus[0xb8..], if version == 0 { 1 } else { 16 });
                endian.put_u16(&mut bonus[0xbc..], version);
                endian.put_u16(&mut bonus[0xbe..], 1);
                let entry = &mut bonus[0xc0..];
                if version == 0 {
                    endian.put_u32(entry, 1000);
                    endian.put_u32(&mut entry[4..], 0x1f);
                    endian.put_u16(&mut entry[8..], 0);
                    endian.put_u16(&mut entry[10..], 1);
                } else {
                    endian.put_u16(entry, 1);
                    endian.put_u32(&mut entry[4..], 0x1f);
                    endian.put_u64(&mut entry[8..], 1000);
                }
                bonus.extend_from_slice(b"../target");
                bonus
            };
            let mut bonus = build(Endian::Big);
            to_little(ObjectType::ZNODE, &mut bonus).unwrap();
            assert_eq!(bonus, build(Endian::Little), "version {version}");
            let acl = AclPhys::parse(&bonus[0xb0..], Endian::Little).unwrap();
            assert_eq!(acl.entries(None).unwrap()[0].kind, 1);
        }
    }

    #[test]
    fn numbers_are_converted_and_bytes_are_not() {
        let mut array = [0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8];
        to_little(ObjectType::OBJECT_ARRAY, &mut array).unwrap();
        assert_eq!(array, [9, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        let mut text = *b"contents of file";
        to_little(ObjectType::PLAIN_FILE_CONTENTS, &mut text).unwrap();
        assert_eq!(&text, b"contents of file");
    }
}
