//! Newtypes, and the enumerations shared by block pointers and dnodes.

use crate::error::{Error, Result};

/// Transaction group number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Txg(pub u64);

impl std::fmt::Display for Txg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Type of an object or of the blocks of one (`dmu_object_type_t`, sys/dmu.h).
///
/// Values below 0x80 are listed in [`ObjectType::NAMES`]; from 0x80 on the value describes itself:
/// 0x40 metadata, 0x20 encrypted, low 5 bits the byte-swap class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectType(pub u8);

#[allow(missing_docs)] // Named as in the format; each is the DMU_OT_ constant of sys/dmu.h.
impl ObjectType {
    pub const NONE: Self = Self(0);
    pub const OBJECT_DIRECTORY: Self = Self(1);
    pub const OBJECT_ARRAY: Self = Self(2);
    pub const PACKED_NVLIST: Self = Self(3);
    pub const PACKED_NVLIST_SIZE: Self = Self(4);
    pub const BPOBJ: Self = Self(5);
    pub const BPOBJ_HDR: Self = Self(6);
    pub const SPACE_MAP_HEADER: Self = Self(7);
    pub const SPACE_MAP: Self = Self(8);
    pub const INTENT_LOG: Self = Self(9);
    pub const DNODE: Self = Self(10);
    pub const OBJSET: Self = Self(11);
    pub const DSL_DIR: Self = Self(12);
    pub const DSL_DIR_CHILD_MAP: Self = Self(13);
    pub const DSL_DS_SNAP_MAP: Self = Self(14);
    pub const DSL_PROPS: Self = Self(15);
    pub const DSL_DATASET: Self = Self(16);
    pub const ZNODE: Self = Self(17);
    pub const OLDACL: Self = Self(18);
    pub const PLAIN_FILE_CONTENTS: Self = Self(19);
    pub const DIRECTORY_CONTENTS: Self = Self(20);
    pub const MASTER_NODE: Self = Self(21);
    pub const UNLINKED_SET: Self = Self(22);
    pub const ZVOL: Self = Self(23);
    pub const ZVOL_PROP: Self = Self(24);
    pub const PLAIN_OTHER: Self = Self(25);
    pub const UINT64_OTHER: Self = Self(26);
    pub const ZAP_OTHER: Self = Self(27);
    pub const ERROR_LOG: Self = Self(28);
    pub const SPA_HISTORY: Self = Self(29);
    pub const SPA_HISTORY_OFFSETS: Self = Self(30);
    pub const POOL_PROPS: Self = Self(31);
    pub const DSL_PERMS: Self = Self(32);
    pub const ACL: Self = Self(33);
    pub const SYSACL: Self = Self(34);
    pub const FUID: Self = Self(35);
    pub const FUID_SIZE: Self = Self(36);
    pub const NEXT_CLONES: Self = Self(37);
    pub const SCAN_QUEUE: Self = Self(38);
    pub const USERGROUP_USED: Self = Self(39);
    pub const USERGROUP_QUOTA: Self = Self(40);
    pub const USERREFS: Self = Self(41);
    pub const DDT_ZAP: Self = Self(42);
    pub const DDT_STATS: Self = Self(43);
    pub const SA: Self = Self(44);
    pub const SA_MASTER_NODE: Self = Self(45);
    pub const SA_ATTR_REGISTRATION: Self = Self(46);
    pub const SA_ATTR_LAYOUTS: Self = Self(47);
    pub const SCAN_XLATE: Self = Self(48);
    pub const DEDUP: Self = Self(49);
    pub const DEADLIST: Self = Self(50);
    pub const DEADLIST_HDR: Self = Self(51);
    pub const DSL_CLONES: Self = Self(52);
    pub const BPOBJ_SUBOBJ: Self = Self(53);
    /// Number of types in the table.
    pub const COUNT: u8 = 54;

    pub const OTN_UINT8_DATA: Self = Self(0x80);
    pub const OTN_UINT8_METADATA: Self = Self(0xc0);
    pub const OTN_UINT32_METADATA: Self = Self(0xc2);
    pub const OTN_UINT64_DATA: Self = Self(0x83);
    pub const OTN_UINT64_METADATA: Self = Self(0xc3);
    pub const OTN_ZAP_DATA: Self = Self(0x84);
    pub const OTN_ZAP_METADATA: Self = Self(0xc4);
}

impl ObjectType {
    /// `(name, is metadata, is encrypted in an encrypted dataset)` of each type below 0x80, with
    /// the names that `zdb` prints.
    pub const NAMES: [(&'static str, bool, bool); Self::COUNT as usize] = [
        ("unallocated", true, false),
        ("object directory", true, false),
        ("object array", true, false),
        ("packed nvlist", true, false),
        ("packed nvlist size", true, false),
        ("bpobj", true, false),
        ("bpobj header", true, false),
        ("SPA space map header", true, false),
        ("SPA space map", true, false),
        ("ZIL intent log", true, true),
        ("DMU dnode", true, true),
        ("DMU objset", true, false),
        ("DSL directory", true, false),
        ("DSL directory child map", true, false),
        ("DSL dataset snap map", true, false),
        ("DSL props", true, false),
        ("DSL dataset", true, false),
        ("ZFS znode", true, false),
        ("ZFS V0 ACL", true, true),
        ("ZFS plain file", false, true),
        ("ZFS directory", true, true),
        ("ZFS master node", true, false),
        ("ZFS delete queue", true, true),
        ("zvol object", false, true),
        ("zvol prop", true, false),
        ("other uint8[]", false, true),
        ("other uint64[]", false, true),
        ("other ZAP", true, false),
        ("persistent error log", true, false),
        ("SPA history", true, false),
        ("SPA history offsets", true, false),
        ("Pool properties", true, false),
        ("DSL permissions", true, false),
        ("ZFS ACL", true, true),
        ("ZFS SYSACL", true, true),
        ("FUID table", true, true),
        ("FUID table size", true, false),
        ("DSL dataset next clones", true, false),
        ("scan work queue", true, false),
        ("ZFS user/group/project used", true, true),
        ("ZFS user/group/project quota", true, true),
        ("snapshot refcount tags", true, false),
        ("DDT ZAP algorithm", true, false),
        ("DDT statistics", true, false),
        ("System attributes", true, true),
        ("SA master node", true, true),
        ("SA attr registration", true, true),
        ("SA attr layouts", true, true),
        ("scan translations", true, false),
        ("deduplicated block", false, true),
        ("DSL deadlist map", true, false),
        ("DSL deadlist map hdr", true, false),
        ("DSL dir clones", true, false),
        ("bpobj subobj", true, false),
    ];

    /// Whether OpenZFS accepts the value (`DMU_OT_IS_VALID`).
    pub fn is_valid(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x1f < 10 } else { self.0 < Self::COUNT }
    }

    /// Whether blocks of this type are metadata: they get more copies and are always compressed
    /// with LZ4.
    pub fn is_metadata(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x40 != 0 } else { Self::NAMES.get(self.0 as usize).is_none_or(|n| n.1) }
    }

    /// Whether blocks of this type are encrypted in an encrypted dataset. Others are only
    /// authenticated.
    pub fn is_encrypted(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x20 != 0 } else { Self::NAMES.get(self.0 as usize).is_some_and(|n| n.2) }
    }

    /// Whether the block pointer's fill count is a number of objects instead of 1
    /// (`DMU_OT_HAS_FILL`).
    pub fn has_fill(self) -> bool {
        self == Self::DNODE || self == Self::OBJSET
    }

    /// The name that `zdb` prints.
    pub fn name(self) -> &'static str {
        match self.0 {
            n if n < Self::COUNT => Self::NAMES[n as usize].0,
            0x80 | 0xa0 => "uint8 data",
            0xc0 | 0xe0 => "uint8 metadata",
            0x83 | 0xa3 => "uint64 data",
            0xc3 | 0xe3 => "uint64 metadata",
            0x84 | 0xa4 => "zap data",
            0xc4 | 0xe4 => "zap metadata",
            _ => "other",
        }
    }
}

/// Checksum algorithm of a block (`enum zio_checksum`, sys/zio.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // Named like the property values.
pub enum Checksum {
    Inherit = 0,
    On = 1,
    Off = 2,
    Label = 3,
    GangHeader = 4,
    Zilog = 5,
    Fletcher2 = 6,
    Fletcher4 = 7,
    Sha256 = 8,
    Zilog2 = 9,
    NoParity = 10,
    Sha512 = 11,
    Skein = 12,
    EdonR = 13,
    Blake3 = 14,
}

impl Checksum {
    /// Decodes the byte in a block pointer or dnode.
    pub fn from_raw(raw: u8) -> Result<Self> {
        use Checksum::*;
        Ok(match raw {
            0 => Inherit,
            1 => On,
            2 => Off,
            3 => Label,
            4 => GangHeader,
            5 => Zilog,
            6 => Fletcher2,
            7 => Fletcher4,
            8 => Sha256,
            9 => Zilog2,
            10 => NoParity,
            11 => Sha512,
            12 => Skein,
            13 => EdonR,
            14 => Blake3,
            _ => return Err(Error::corrupt("blkptr", "checksum", raw, "0 to 14")),
        })
    }

    /// The name that `zdb` prints.
    pub fn name(self) -> &'static str {
        use Checksum::*;
        match self {
            Inherit => "inherit",
            On => "on",
            Off => "off",
            Label => "label",
            GangHeader => "gang_header",
            Zilog => "zilog",
            Fletcher2 => "fletcher2",
            Fletcher4 => "fletcher4",
            Sha256 => "sha256",
            Zilog2 => "zilog2",
            NoParity => "noparity",
            Sha512 => "sha512",
            Skein => "skein",
            EdonR => "edonr",
            Blake3 => "blake3",
        }
    }

    /// Whether the checksum is stored inside the block it covers, in its last 40 bytes or its ZIL
    /// header.
    pub fn is_embedded(self) -> bool {
        matches!(self, Self::Label | Self::GangHeader | Self::Zilog | Self::Zilog2)
    }
}

/// Compression algorithm of a block (`enum zio_compress`, sys/zio_compress.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named like the property values.
pub enum Compression {
    Inherit,
    On,
    Off,
    Lzjb,
    Empty,
    /// Level 1 to 9.
    Gzip(u8),
    Zle,
    Lz4,
    /// The level is in the block's own header.
    Zstd,
}

impl Compression {
    /// Decodes the 7 bits in a block pointer or the byte in a dnode.
    pub fn from_raw(raw: u8) -> Result<Self> {
        Ok(match raw {
            0 => Self::Inherit,
            1 => Self::On,
            2 => Self::Off,
            3 => Self::Lzjb,
            4 => Self::Empty,
            5..=13 => Self::Gzip(raw - 4),
            14 => Self::Zle,
            15 => Self::Lz4,
            16 => Self::Zstd,
            _ => return Err(Error::corrupt("blkptr", "compress", raw, "0 to 16")),
        })
    }

    /// The value on disk.
    pub fn to_raw(self) -> u8 {
        match self {
            Self::Inherit => 0,
            Self::On => 1,
            Self::Off => 2,
            Self::Lzjb => 3,
            Self::Empty => 4,
            Self::Gzip(level) => 4 + level,
            Self::Zle => 14,
            Self::Lz4 => 15,
            Self::Zstd => 16,
        }
    }

    /// The name that `zdb` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::On => "on",
            Self::Off => "uncompressed",
            Self::Lzjb => "lzjb",
            Self::Empty => "empty",
            Self::Gzip(1) => "gzip-1",
            Self::Gzip(2) => "gzip-2",
            Self::Gzip(3) => "gzip-3",
            Self::Gzip(4) => "gzip-4",
            Self::Gzip(5) => "gzip-5",
            Self::Gzip(6) => "gzip-6",
            Self::Gzip(7) => "gzip-7",
            Self::Gzip(8) => "gzip-8",
            Self::Gzip(_) => "gzip-9",
            Self::Zle => "zle",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}
