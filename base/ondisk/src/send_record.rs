//! Send streams: a dataset, or the changes between two snapshots, as records of 312 bytes with
//! payloads.
//!
//! `zfs send` writes BEGIN, records, END; with `-R`, `-I` or `-p` a package around several such
//! streams, whose BEGIN carries a list of datasets and properties. The whole stream is in the byte
//! order of its writer, which the magic in BEGIN reveals.
//!
//! | offset | bytes | field          | meaning                                               |
//! |--------|-------|----------------|-------------------------------------------------------|
//! | 0x00   | 4     | drr_type       | kind of record                                        |
//! | 0x04   | 4     | drr_payloadlen | BEGIN: bytes of payload; others have their own fields |
//! | 0x08   | 304   | drr_u          | body, see [`Body`]                                    |
//! | 0x118  | 32    | drr_checksum   | fletcher4 of the stream up to here; BEGIN has none    |
//!
//! | BEGIN | bytes | field             | meaning                                              |
//! |-------|-------|-------------------|------------------------------------------------------|
//! | 0x08  | 8     | drr_magic         | 0x2f5bacbac                                          |
//! | 0x10  | 8     | drr_versioninfo   | bits 0-1: 1 stream, 2 package; bits 2-: features     |
//! |       |       |                   | ([`Features`])                                       |
//! | 0x18  | 8     | drr_creation_time | creation of the snapshot, seconds since 1970         |
//! | 0x20  | 4     | drr_type          | kind of object set                                   |
//! | 0x24  | 4     | drr_flags         | 1 clone, 2 case-insensitive, 4 frees, 8 spill marked |
//! | 0x28  | 8     | drr_toguid        | the snapshot                                         |
//! | 0x30  | 8     | drr_fromguid      | the base snapshot; 0: full stream                    |
//! | 0x38  | 256   | drr_toname        | the snapshot's name                                  |
//!
//! BEGIN of a full stream with large, embedded and compressed blocks:
//!
//! ```text
//! 00000000  00 00 00 00 00 00 00 00  ac cb ba f5 02 00 00 00  |................|
//! 00000010  11 00 0c 01 00 00 00 00  fb 6f 01 6b 00 00 00 00  |.........o.k....|
//! 00000020  02 00 00 00 0c 00 00 00  ce a6 b2 3a 4d d6 97 99  |...........:M...|
//! 00000030  00 00 00 00 00 00 00 00  74 68 2f 70 72 6f 6d 40  |........th/prom@|
//! 00000040  73 31 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |s1..............|
//! ```
//!
//! Source: include/sys/zfs_ioctl.h.

mod write;

use crate::ddt::Key;
use crate::endian::{Endian, need};
use crate::error::{Error, Result};

/// Size of a record without its payload, in bytes.
pub const RECORD_BYTES: usize = 312;
/// Magic number in BEGIN.
pub const MAGIC: u64 = 0x2_f5ba_cbac;
/// Offset of the checksum in a record.
pub const CHECKSUM_OFFSET: usize = 280;

bitflags::bitflags! {
    /// Features that the receiver must support (`DMU_BACKUP_FEATURE_`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Features: u64 {
        /// Deduplicated stream: blocks are sent once, then referenced.
        const DEDUP = 1 << 0;
        /// The same, with block properties.
        const DEDUP_PROPS = 1 << 1;
        /// Spill blocks of system attributes.
        const SA_SPILL = 1 << 2;
        /// May have `DRR_WRITE_EMBEDDED` records.
        const EMBED_DATA = 1 << 16;
        /// LZ4 inside embedded blocks.
        const LZ4 = 1 << 17;
        /// Blocks larger than 128 KiB.
        const LARGE_BLOCKS = 1 << 19;
        /// Resumes an interrupted stream.
        const RESUMING = 1 << 20;
        /// Some blocks are omitted.
        const REDACTED = 1 << 21;
        /// Blocks compressed as on disk.
        const COMPRESSED = 1 << 22;
        /// Dnodes larger than 512 bytes.
        const LARGE_DNODE = 1 << 23;
        /// Blocks encrypted as on disk.
        const RAW = 1 << 24;
        /// Compressed blocks may use Zstandard.
        const ZSTD = 1 << 25;
        /// Holds on snapshots, in packages.
        const HOLDS = 1 << 26;
        /// The base stream had no large blocks.
        const SWITCH_TO_LARGE_BLOCKS = 1 << 27;
        /// Names longer than 255 bytes.
        const LONGNAME = 1 << 28;
        /// Micro ZAPs larger than 128 KiB.
        const LARGE_MICROZAP = 1 << 29;
        const _ = !0;
    }
}

/// Salt, IV and MAC of an encrypted block; zeros in streams that are not raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crypt {
    /// Salt from which the key is derived.
    pub salt: [u8; 8],
    pub iv: [u8; 12],
    pub mac: [u8; 16],
}

/// The first record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Bits 0-1 of `drr_versioninfo`: [`Begin::STREAM`] or [`Begin::PACKAGE`].
    pub header_type: u8,
    /// Features that the receiver must support.
    pub features: Features,
    /// Creation time of the snapshot in seconds since 1970.
    pub creation_time: u64,
    /// Kind of object set, see [`crate::ObjsetKind`].
    pub objset_type: u32,
    /// Bits of `DRR_FLAG_`.
    pub flags: u32,
    /// GUID of the snapshot.
    pub to_guid: u64,
    /// GUID of the base snapshot; 0: full stream.
    pub from_guid: u64,
    /// Name of the snapshot.
    pub to_name: Vec<u8>,
}

/// An object; its bonus follows as the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named like the fields of the dnode.
pub struct ObjectRecord {
    pub object: u64,
    pub object_type: u32,
    pub bonus_type: u32,
    pub block_bytes: u32,
    pub bonus_bytes: u32,
    pub checksum: u8,
    pub compression: u8,
    pub slots: u8,
    pub flags: u8,
    pub raw_bonus_bytes: u32,
    pub to_guid: u64,
    pub indirect_shift: u8,
    pub levels: u8,
    pub blkptrs: u8,
    pub max_block_id: u64,
}

/// A data block; its contents follow as the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub struct WriteRecord {
    pub object: u64,
    pub object_type: u32,
    pub offset: u64,
    pub logical_bytes: u64,
    pub to_guid: u64,
    pub checksum_type: u8,
    pub flags: u8,
    /// 0: not compressed.
    pub compression: u8,
    pub key: Key,
    pub compressed_bytes: u64,
    pub crypt: Crypt,
}

/// A block whose contents an earlier record of the stream carried (old streams).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub struct WriteByRef {
    pub object: u64,
    pub offset: u64,
    pub length: u64,
    pub to_guid: u64,
    pub ref_guid: u64,
    pub ref_object: u64,
    pub ref_offset: u64,
    pub checksum_type: u8,
    pub flags: u8,
    pub key: Key,
}

/// An object's spill block; its contents follow as the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub struct Spill {
    pub object: u64,
    pub length: u64,
    pub to_guid: u64,
    pub flags: u8,
    pub compression: u8,
    pub compressed_bytes: u64,
    pub crypt: Crypt,
    pub object_type: u32,
}

/// An embedded block; its packed data follows as the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub struct WriteEmbedded {
    pub object: u64,
    pub offset: u64,
    pub length: u64,
    pub to_guid: u64,
    pub compression: u8,
    pub embedded_type: u8,
    pub logical_bytes: u32,
    pub physical_bytes: u32,
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Named as in the format.
pub enum Body {
    Begin(Begin),
    Object(ObjectRecord),
    /// Objects that do not exist.
    FreeObjects {
        first: u64,
        count: u64,
        to_guid: u64,
    },
    Write(WriteRecord),
    /// A range of an object that is a hole.
    Free {
        object: u64,
        offset: u64,
        length: u64,
        to_guid: u64,
    },
    /// End of the stream; `checksum` covers all records before.
    End {
        checksum: [u64; 4],
        to_guid: u64,
    },
    WriteByRef(WriteByRef),
    Spill(Spill),
    WriteEmbedded(WriteEmbedded),
    /// Raw streams: encryption parameters of a block of dnodes.
    ObjectRange {
        first: u64,
        slots: u64,
        to_guid: u64,
        crypt: Crypt,
        flags: u8,
    },
    /// A range that a redacted stream omits.
    Redact {
        object: u64,
        offset: u64,
        length: u64,
        to_guid: u64,
    },
}

impl Begin {
    /// Header type of a stream (`DMU_SUBSTREAM`).
    pub const STREAM: u8 = 1;
    /// Header type of a package of streams (`DMU_COMPOUNDSTREAM`).
    pub const PACKAGE: u8 = 2;
}

impl Body {
    /// The type of the record: `drr_type`.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Begin(_) => 0,
            Self::Object(_) => 1,
            Self::FreeObjects { .. } => 2,
            Self::Write(_) => 3,
            Self::Free { .. } => 4,
            Self::End { .. } => 5,
            Self::WriteByRef(_) => 6,
            Self::Spill(_) => 7,
            Self::WriteEmbedded(_) => 8,
            Self::ObjectRange { .. } => 9,
            Self::Redact { .. } => 10,
        }
    }
}

/// A record without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `drr_payloadlen`, used in BEGIN only.
    pub payload_len: u32,
    pub body: Body,
    /// Checksum of the stream up to here; zeros: none, as in BEGIN.
    pub checksum: [u64; 4],
}

/// Accessors for the fields of a record by offset.
struct Fields<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl Fields<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    fn u32(&self, at: usize) -> u32 {
        self.endian.u32(&self.bytes[at..])
    }

    fn u64(&self, at: usize) -> u64 {
        self.endian.u64(&self.bytes[at..])
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N].try_into().expect("a record has 312 bytes")
    }

    fn checksum(&self, at: usize) -> [u64; 4] {
        std::array::from_fn(|i| self.u64(at + i * 8))
    }

    fn key(&self, at: usize) -> Key {
        Key { checksum: self.checksum(at), prop: self.u64(at + 32) }
    }

    fn crypt(&self, at: usize) -> Crypt {
        Crypt { salt: self.array(at), iv: self.array(at + 8), mac: self.array(at + 20) }
    }
}

/// The byte order of a stream, from its first record.
pub fn stream_endian(begin: &[u8]) -> Result<Endian> {
    need("dmu_replay_record", begin, 16)?;
    [Endian::Little, Endian::Big].into_iter().find(|e| e.u64(&begin[8..]) == MAGIC).ok_or_else(|| {
        let found = format!("{:#x}", Endian::Little.u64(&begin[8..]));
        Error::corrupt("dmu_replay_record", "drr_magic", found, format_args!("{MAGIC:#x}"))
    })
}

impl Record {
    /// Parses the first 312 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("dmu_replay_record", bytes, RECORD_BYTES)?;
        let f = Fields { bytes: &bytes[..RECORD_BYTES], endian };
        let body = match f.u32(0) {
            0 => Body::Begin(begin(&f)?),
            1 => Body::Object(ObjectRecord {
                object: f.u64(8),
                object_type: f.u32(16),
                bonus_type: f.u32(20),
                block_bytes: f.u32(24),
                bonus_bytes: f.u32(28),
                checksum: f.u8(32),
                compression: f.u8(33),
                slots: f.u8(34),
                flags: f.u8(35),
                raw_bonus_bytes: f.u32(36),
                to_guid: f.u64(40),
                indirect_shift: f.u8(48),
                levels: f.u8(49),
                blkptrs: f.u8(50),
                max_block_id: f.u64(56),
            }),
            2 => Body::FreeObjects { first: f.u64(8), count: f.u64(16), to_guid: f.u64(24) },
            3 => Body::Write(WriteRecord {
                object: f.u64(8),
                object_type: f.u32(16),
                offset: f.u64(24),
                logical_bytes: f.u64(32),
                to_guid: f.u64(40),
                checksum_type: f.u8(48),
                flags: f.u8(49),
                compression: f.u8(50),
                key: f.key(56),
                compressed_bytes: f.u64(96),
                crypt: f.crypt(104),
            }),
            4 => Body::Free { object: f.u64(8), offset: f.u64(16), length: f.u64(24), to_guid: f.u64(32) },
            5 => Body::End { checksum: f.checksum(8), to_guid: f.u64(40) },
            6 => Body::WriteByRef(WriteByRef {
                object: f.u64(8),
                offset: f.u64(16),
                length: f.u64(24),
                to_guid: f.u64(32),
                ref_guid: f.u64(40),
                ref_object: f.u64(48),
                ref_offset: f.u64(56),
                checksum_type: f.u8(64),
                flags: f.u8(65),
                key: f.key(72),
            }),
            7 => Body::Spill(Spill {
                object: f.u64(8),
                length: f.u64(16),
                to_guid: f.u64(24),
                flags: f.u8(32),
                compression: f.u8(33),
                compressed_bytes: f.u64(40),
                crypt: f.crypt(48),
                object_type: f.u32(84),
            }),
            8 => Body::WriteEmbedded(WriteEmbedded {
                object: f.u64(8),
                offset: f.u64(16),
                length: f.u64(24),
                to_guid: f.u64(32),
                compression: f.u8(40),
                embedded_type: f.u8(41),
                logical_bytes: f.u32(48),
                physical_bytes: f.u32(52),
            }),
            9 => Body::ObjectRange {
                first: f.u64(8),
                slots: f.u64(16),
                to_guid: f.u64(24),
                crypt: f.crypt(32),
                flags: f.u8(68),
            },
            10 => Body::Redact { object: f.u64(8), offset: f.u64(16), length: f.u64(24), to_guid: f.u64(32) },
            other => return Err(Error::corrupt("dmu_replay_record", "drr_type", other, "0 to 10")),
        };
        let checksum = if matches!(body, Body::Begin(_)) { [0; 4] } else { f.checksum(CHECKSUM_OFFSET) };
        Ok(Self { payload_len: f.u32(4), body, checksum })
    }

    /// Size in bytes of the payload that follows the record.
    pub fn payload_bytes(&self) -> u64 {
        match &self.body {
            Body::Begin(_) => self.payload_len.into(),
            Body::Object(o) if o.raw_bonus_bytes != 0 => o.raw_bonus_bytes.into(),
            Body::Object(o) => u64::from(o.bonus_bytes).next_multiple_of(8),
            Body::Write(w) if w.compression != 0 => w.compressed_bytes,
            Body::Write(w) => w.logical_bytes,
            Body::Spill(s) if s.compressed_bytes != 0 => s.compressed_bytes,
            Body::Spill(s) => s.length,
            Body::WriteEmbedded(w) => u64::from(w.physical_bytes).next_multiple_of(8),
            _ => 0,
        }
    }
}

fn begin(f: &Fields<'_>) -> Result<Begin> {
    if f.u64(8) != MAGIC {
        let found = format!("{:#x}", f.u64(8));
        return Err(Error::corrupt("dmu_replay_record", "drr_magic", found, format_args!("{MAGIC:#x}")));
    }
    let info = f.u64(16);
    let name = &f.bytes[56..];
    let end = name.iter().position(|b| *b == 0);
    let end = end.ok_or_else(|| Error::corrupt("dmu_replay_record", "drr_toname", "without end", "a NUL"))?;
    let to_name = name[..end].to_vec();
    Ok(Begin {
        header_type: (info & 3) as u8,
        features: Features::from_bits_retain(info >> 2),
        creation_time: f.u64(24),
        objset_type: f.u32(32),
        flags: f.u32(36),
        to_guid: f.u64(40),
        from_guid: f.u64(48),
        to_name,
    })
}

#[cfg(test)]
mod tests;
