//! System attributes (SA): the fields of a file, packed after a small header in its bonus and, if
//! they do not fit, in its spill block.
//!
//! | offset | bytes | field          | since | meaning                                          |
//! |--------|-------|----------------|-------|--------------------------------------------------|
//! | 0x00   | 4     | sa_magic       | v24   | 0x002f505a, in the order of the host that packed |
//! |        |       |                |       | the attributes                                   |
//! | 0x04   | 2     | sa_layout_info | v24   | bits 0-9 layout number, 10-15 header bytes / 8   |
//! | 0x06   | 2 n   | sa_lengths     | v24   | lengths of variable attributes, in layout order  |
//! |        |       | attributes     | v24   | each at the next multiple of 8                   |
//!
//! The dataset defines the attributes of each layout: the object `SA_ATTRS` of its master node
//! names two ZAPs. `REGISTRY` maps each attribute's name to a number, a length (0: variable) and a
//! byte-swap class. `LAYOUTS` maps each layout's number to an array of attribute numbers. The
//! numbers differ between datasets.
//!
//! A file: the magic, layout 6 with a header of 16 bytes, one variable length of 0xc4; then mode
//! 0100664, size 708908, generation 0x77 ..:
//!
//! ```text
//! 00000000  5a 50 2f 00 06 08 18 00  c4 00 00 00 00 00 00 00  |ZP/.............|
//! 00000010  b4 81 00 00 00 00 00 00  2c d1 0a 00 00 00 00 00  |........,.......|
//! 00000020  77 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |w...............|
//! 00000030  00 00 00 00 00 00 00 00  22 00 00 00 00 00 00 00  |........".......|
//! ```
//!
//! Sources: include/sys/sa_impl.h, module/zfs/sa.c, zfs_sa.c.

use crate::endian::{Endian, need};
use crate::error::{Error, Result};

/// The attributes that OpenZFS stores for files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Named as in the format, without ZPL_.
pub enum Attr {
    Atime,
    Mtime,
    Ctime,
    Crtime,
    Gen,
    Mode,
    Size,
    Parent,
    Links,
    Xattr,
    Rdev,
    Flags,
    Uid,
    Gid,
    Pad,
    ZnodeAcl,
    DaclCount,
    Symlink,
    Scanstamp,
    DaclAces,
    Dxattr,
    Projid,
    Seq,
}

impl Attr {
    /// Attribute, name, length in bytes (0: variable). The first sixteen are the fields of an old
    /// znode, in its order.
    pub const TABLE: [(Self, &'static str, u16); 23] = [
        (Self::Atime, "ZPL_ATIME", 16),
        (Self::Mtime, "ZPL_MTIME", 16),
        (Self::Ctime, "ZPL_CTIME", 16),
        (Self::Crtime, "ZPL_CRTIME", 16),
        (Self::Gen, "ZPL_GEN", 8),
        (Self::Mode, "ZPL_MODE", 8),
        (Self::Size, "ZPL_SIZE", 8),
        (Self::Parent, "ZPL_PARENT", 8),
        (Self::Links, "ZPL_LINKS", 8),
        (Self::Xattr, "ZPL_XATTR", 8),
        (Self::Rdev, "ZPL_RDEV", 8),
        (Self::Flags, "ZPL_FLAGS", 8),
        (Self::Uid, "ZPL_UID", 8),
        (Self::Gid, "ZPL_GID", 8),
        (Self::Pad, "ZPL_PAD", 32),
        (Self::ZnodeAcl, "ZPL_ZNODE_ACL", 88),
        (Self::DaclCount, "ZPL_DACL_COUNT", 8),
        (Self::Symlink, "ZPL_SYMLINK", 0),
        (Self::Scanstamp, "ZPL_SCANSTAMP", 32),
        (Self::DaclAces, "ZPL_DACL_ACES", 0),
        (Self::Dxattr, "ZPL_DXATTR", 0),
        (Self::Projid, "ZPL_PROJID", 8),
        (Self::Seq, "ZPL_SEQ", 8),
    ];

    /// Number of entries at the start of the table that are fields of an old znode.
    pub const LEGACY_COUNT: usize = 16;

    /// The attribute called `name`.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::TABLE.iter().find(|(_, n, _)| n.as_bytes() == name).map(|(attr, _, _)| *attr)
    }

    /// The attribute's name on disk.
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }
}

/// How an attribute is byte-swapped (`sa_bswap_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub enum ByteSwap {
    Uint64,
    Uint32,
    Uint16,
    Uint8,
    Acl,
}

/// The registration of an attribute in `REGISTRY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Attribute number used in layouts.
    pub number: u16,
    /// Length in bytes; 0: variable, stored in the header.
    pub length: u16,
    pub byte_swap: ByteSwap,
}

impl Registered {
    /// Unpacks the value: bits 0-15 number, 16-23 byte swap, 24-39 length.
    pub fn unpack(value: u64) -> Result<Self> {
        let byte_swap = match value >> 16 & 0xff {
            0 => ByteSwap::Uint64,
            1 => ByteSwap::Uint32,
            2 => ByteSwap::Uint16,
            3 => ByteSwap::Uint8,
            4 => ByteSwap::Acl,
            n => return Err(Error::corrupt("sa registry", "byte swap", n, "0 to 4")),
        };
        Ok(Self { number: value as u16, length: (value >> 24) as u16, byte_swap })
    }

    /// The inverse of [`Registered::unpack`].
    pub fn pack(self) -> u64 {
        u64::from(self.number) | (self.byte_swap as u64) << 16 | u64::from(self.length) << 24
    }
}

/// The header of packed attributes, `sa_hdr_phys_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaHeader {
    /// Number of the layout in the ZAP `LAYOUTS`, 10 bits.
    pub layout: u16,
    /// Size of the header in bytes, from the header itself.
    pub size_bytes: usize,
    /// Byte order of the host that packed the attributes, which may differ from that of the dnode.
    pub endian: Endian,
}

impl SaHeader {
    /// Value of `sa_magic`.
    pub const MAGIC: u32 = 0x2f_505a;

    /// Parses the header of a bonus or spill block. `None`: all zeros, attributes were never
    /// packed.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        need("sa header", bytes, 8)?;
        let endian = match (Endian::Little.u32(bytes), Endian::Big.u32(bytes)) {
            (Self::MAGIC, _) => Endian::Little,
            (_, Self::MAGIC) => Endian::Big,
            (0, _) => return Ok(None),
            (n, _) => return Err(Error::corrupt("sa header", "sa_magic", format_args!("{n:#x}"), "0x2f505a")),
        };
        let info = endian.u16(&bytes[4..]);
        Ok(Some(Self { layout: info & 0x3ff, size_bytes: usize::from(info >> 10) * 8, endian }))
    }

    /// The range in `bytes`, which includes the header, of each attribute of a layout (numbers with
    /// their registered lengths).
    pub fn split(&self, bytes: &[u8], layout: &[(u16, u16)]) -> Result<Vec<(u16, std::ops::Range<usize>)>> {
        let variable = layout.iter().filter(|(_, length)| *length == 0).count();
        need("sa lengths", bytes, 6 + 2 * variable)?;
        let mut lengths = bytes[6..].chunks_exact(2).map(|b| self.endian.u16(b));
        let mut at = (6 + 2 * variable).next_multiple_of(8);
        let mut out = Vec::with_capacity(layout.len());
        for &(number, registered) in layout {
            let length = if registered != 0 { registered } else { lengths.next().unwrap_or(0) };
            let end = at + usize::from(length);
            if end > bytes.len() {
                return Err(Error::corrupt(
                    "sa",
                    "attributes",
                    format_args!("attribute {number} at {at}, {length} bytes"),
                    format_args!("to end within {} bytes", bytes.len()),
                ));
            }
            out.push((number, at..end));
            at = end.next_multiple_of(8);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Ace, Who, parse_posix};
    use crate::nvlist::Nvlist;
    use crate::testing::{golden, never_panics};
    use proptest::prelude::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, (attr, name, _)) in Attr::TABLE.iter().enumerate() {
            assert_eq!((*attr as usize, Attr::from_name(name.as_bytes())), (i, Some(*attr)));
        }
        let legacy: u16 = Attr::TABLE[..Attr::LEGACY_COUNT].iter().map(|a| a.2).sum();
        assert_eq!(usize::from(legacy), crate::znode::LEGACY_BYTES);
    }

    #[test]
    fn registry_values_unpack_and_pack() {
        // ZPL_DACL_ACES as attribute 19: variable length, swapped as an ACL; ZPL_ATIME as 0, 16
        // bytes.
        for value in [19 | 4 << 16, 16 << 24] {
            assert_eq!(Registered::unpack(value).unwrap().pack(), value);
        }
        assert!(Registered::unpack(5 << 16).is_err());
    }

    #[test]
    fn variable_attributes_take_their_length_from_the_header() {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = vec![0u8; 48];
            endian.put_u32(&mut bytes, SaHeader::MAGIC);
            endian.put_u16(&mut bytes[4..], 2 << 10 | 5);
            endian.put_u16(&mut bytes[6..], 3);
            endian.put_u16(&mut bytes[8..], 9);
            bytes[24..27].copy_from_slice(b"abc");
            let header = SaHeader::parse(&bytes).unwrap().unwrap();
            assert_eq!((header.layout, header.size_bytes, header.endian), (5, 16, endian));
            let split = header.split(&bytes, &[(0, 8), (1, 0), (2, 0)]).unwrap();
            assert_eq!(split, [(0, 16..24), (1, 24..27), (2, 32..41)]);
            assert!(header.split(&bytes[..40], &[(0, 8), (1, 0), (2, 0)]).is_err());
        }
    }

    /// Layouts 6 and 7 of the dataset that the golden bytes are from: attribute numbers with
    /// registered lengths.
    const LAYOUT_6: [(u16, u16); 16] = [
        (5, 8),
        (6, 8),
        (4, 8),
        (12, 8),
        (13, 8),
        (7, 8),
        (11, 8),
        (0, 16),
        (1, 16),
        (2, 16),
        (3, 16),
        (8, 8),
        (21, 8),
        (16, 8),
        (19, 0),
        (20, 0),
    ];
    const LAYOUT_7: [(u16, u16); 1] = [(20, 0)];

    #[test]
    fn attributes_that_openzfs_packed_read_right() {
        let bytes = golden!("sa_bonus.bin");
        let header = SaHeader::parse(bytes).unwrap().unwrap();
        assert_eq!(header, SaHeader { layout: 6, size_bytes: 16, endian: Endian::Little });
        let at = |wanted| header.split(bytes, &LAYOUT_6).unwrap().into_iter().find(|a| a.0 == wanted).unwrap().1;
        let number = |n| Endian::Little.u64(&bytes[at(n)]);
        assert_eq!((number(5), number(6), number(8)), (0o100_664, 708_908, 2), "mode, size, links");
        assert_eq!(crate::znode::time(&bytes[at(1)], Endian::Little), Some((1_795_255_450, 732_000_000)));
        let aces = Ace::parse_v1(&bytes[at(19)], Endian::Little).unwrap();
        assert_eq!(aces.iter().map(|a| a.who).collect::<Vec<_>>(), [Who::Owner, Who::OwningGroup, Who::Everyone]);
        let xattrs = Nvlist::parse(&bytes[at(20)]).unwrap();
        assert_eq!(xattrs.get_bytes("user.short"), Some(&b"hello"[..]));
        assert_eq!(parse_posix(xattrs.get_bytes("system.posix_acl_access").unwrap()).unwrap().len(), 6);
        never_panics(bytes, |bytes| {
            if let Ok(Some(header)) = SaHeader::parse(bytes) {
                let _ = (header.split(bytes, &LAYOUT_6), header.split(bytes, &LAYOUT_7));
            }
        });
    }

    #[test]
    fn a_spill_block_contains_what_exceeds_the_bonus() {
        let bytes = golden!("sa_spill.bin");
        let header = SaHeader::parse(bytes).unwrap().unwrap();
        assert_eq!(header.layout, 7);
        let (number, range) = header.split(bytes, &LAYOUT_7).unwrap().remove(0);
        assert_eq!(number, 20);
        assert_eq!(Nvlist::parse(&bytes[range]).unwrap().get_bytes("user.big").map(<[u8]>::len), Some(3000));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), layout in proptest::collection::vec((any::<u16>(), 0u16..90), 0..40), value: u64) {
            let _ = Registered::unpack(value);
            let header = SaHeader { layout: 2, size_bytes: 8, endian: Endian::Big };
            let _ = (SaHeader::parse(&bytes), header.split(&bytes, &layout));
        }
    }
}
