//! Intent log (ZIL): operations that fsync made durable since the last txg, in a chain of blocks
//! for each dataset.
//!
//! The [header](crate::ZilHeader) is in the object set. It points to the first block, and each
//! block to the next. The checksum field of these pointers does not hold a checksum of the target
//! but a seed, four words (two random ones, the dataset, the block's number), which the chain
//! continues with number + 1. The last pointer leads to a block that was never written: its
//! checksum fails, which ends the chain.
//!
//! A block is a chain header followed by records or, in pools before version 23 (checksum `zilog`
//! instead of `zilog2`), records with the chain header at the end.
//!
//! | offset | bytes | field       | meaning                                            |
//! |--------|-------|-------------|----------------------------------------------------|
//! | 0x00   | 8     | zc_pad      | zero                                               |
//! | 0x08   | 128   | zc_next_blk | pointer to the next block                          |
//! | 0x88   | 8     | zc_nused    | bytes used; includes this header if it comes first |
//! | 0x90   | 40    | zc_eck      | [`Trailer`]                                        |
//!
//! Every record begins with `lr_t`; its body is described at [`record::Body`]. In an encrypted
//! dataset names and data are encrypted, but never the first 32 bytes of a record.
//!
//! | offset | bytes | field      | meaning                                               |
//! |--------|-------|------------|-------------------------------------------------------|
//! | 0x00   | 8     | lrc_txtype | type ([`RecordType`]); bit 63: case-insensitive names |
//! | 0x08   | 8     | lrc_reclen | bytes of the record                                   |
//! | 0x10   | 8     | lrc_txg    | txg that it belongs to                                |
//! | 0x18   | 8     | lrc_seq    | sequence number, ascending                            |
//!
//! End of a chain header (0x128 bytes used), then a record: create (1), 112 bytes, txg 119, number
//! 70845; in directory 34, object 432, mode 100644 (octal) .. name `logged`:
//!
//! ```text
//! 00000080  c1 14 01 00 00 00 00 00  28 01 00 00 00 00 00 00  |........(.......|
//! 00000090  11 7a 0c b1 7a da 10 02  eb f6 7f 88 06 00 00 00  |.z..z...........|
//! 000000a0  6d 74 8a 49 2b 19 00 00  a3 23 80 0c ac 8a 30 00  |mt.I+....#....0.|
//! 000000b0  be 75 ed ab 38 39 7d 3e  01 00 00 00 00 00 00 00  |.u..89}>........|
//! 000000c0  70 00 00 00 00 00 00 00  77 00 00 00 00 00 00 00  |p.......w.......|
//! 000000d0  bd 14 01 00 00 00 00 00  22 00 00 00 00 00 00 00  |........".......|
//! 000000e0  b0 01 00 00 00 00 00 00  a4 81 00 00 00 00 00 00  |................|
//! 000000f0  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000100  77 00 00 00 00 00 00 00  d1 71 01 6b 00 00 00 00  |w........q.k....|
//! 00000110  00 80 84 1e 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000120  6c 6f 67 67 65 64 00 00  00 00 00 00 00 00 00 00  |logged..........|
//! ```
//!
//! Source: include/sys/zil.h, module/zfs/zil.c.

pub mod record;
pub mod write;

use crate::blkptr::BlkPtr;
use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::label::Trailer;
use crate::types::{Checksum, Txg};

pub use record::Body;

/// Size of a chain header in bytes.
pub const CHAIN_BYTES: usize = 184;
/// Bytes before the body of a record.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Offset of the block pointer in the body of a write record.
const POINTER_AT: usize = 32;
/// Smallest log block in bytes.
pub const MIN_BLOCK_BYTES: u64 = 4096;

/// A parsed log block.
#[derive(Debug, Clone)]
pub struct LogBlock<'a> {
    /// Pointer to the next block, which does not exist yet if this is the last.
    pub next: BlkPtr,
    /// Checksum of the block.
    pub trailer: Trailer,
    /// The records, still encoded.
    pub records: &'a [u8],
    /// Byte order of the writer.
    pub endian: Endian,
}

impl<'a> LogBlock<'a> {
    /// Parses the block that `pointer` refers to. Verifies its position in the chain; the caller
    /// verifies the checksum.
    pub fn parse(block: &'a [u8], pointer: &BlkPtr) -> Result<Self> {
        let parsed = match pointer.checksum_kind()? {
            Checksum::Zilog2 => Self::parse_slim(block, pointer.endian())?,
            Checksum::Zilog => Self::parse_old(block, pointer.endian())?,
            other => return Err(Error::corrupt("zil_chain", "checksum", other.name(), "zilog or zilog2")),
        };
        let [w0, w1, w2, number] = pointer.checksum();
        let expected = [w0, w1, w2, number.wrapping_add(1)];
        let found = parsed.next.checksum();
        if found != expected {
            return Err(Error::corrupt(
                "zil_chain",
                "zc_next_blk",
                format_args!("{found:x?}"),
                format_args!("{expected:x?}"),
            ));
        }
        Ok(parsed)
    }

    /// Parses a block whose chain header comes first (`zilog2`).
    pub fn parse_slim(block: &'a [u8], endian: Endian) -> Result<Self> {
        need("zil_chain", block, CHAIN_BYTES)?;
        let (next, used, trailer) = chain(block, endian)?;
        let records = usize::try_from(used).ok().and_then(|used| block.get(CHAIN_BYTES..used)).ok_or_else(|| {
            Error::corrupt("zil_chain", "zc_nused", used, format_args!("{CHAIN_BYTES} to {}", block.len()))
        })?;
        Ok(Self { next, trailer, records, endian })
    }

    /// Parses a block whose chain header comes last (`zilog`).
    pub fn parse_old(block: &'a [u8], endian: Endian) -> Result<Self> {
        need("zil_chain", block, CHAIN_BYTES)?;
        let (body, header) = block.split_at(block.len() - CHAIN_BYTES);
        let (next, used, trailer) = chain(header, endian)?;
        let records = usize::try_from(used)
            .ok()
            .and_then(|used| body.get(..used))
            .ok_or_else(|| Error::corrupt("zil_chain", "zc_nused", used, format_args!("at most {}", body.len())))?;
        Ok(Self { next, trailer, records, endian })
    }

    /// Iterates over the records in order. Ends after the first invalid one.
    pub fn records(&self) -> Records<'a> {
        Records { rest: self.records, endian: self.endian }
    }
}

fn chain(header: &[u8], endian: Endian) -> Result<(BlkPtr, u64, Trailer)> {
    let next = BlkPtr::parse(&header[8..], endian)?;
    Ok((next, endian.u64(&header[0x88..]), Trailer::parse(&header[..CHAIN_BYTES])?))
}

/// Iterator returned by [`LogBlock::records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = Record::parse(self.rest, self.endian);
        self.rest = match &record {
            Ok(r) => &self.rest[RECORD_HEADER_BYTES + r.body.len()..],
            Err(_) => &[],
        };
        Some(record)
    }
}

/// Type of a record (`TX_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordType(pub u64);

#[allow(missing_docs)] // Named as in the format.
impl RecordType {
    pub const COMMIT: Self = Self(0);
    pub const CREATE: Self = Self(1);
    pub const MKDIR: Self = Self(2);
    pub const MKXATTR: Self = Self(3);
    pub const SYMLINK: Self = Self(4);
    pub const REMOVE: Self = Self(5);
    pub const RMDIR: Self = Self(6);
    pub const LINK: Self = Self(7);
    pub const RENAME: Self = Self(8);
    pub const WRITE: Self = Self(9);
    pub const TRUNCATE: Self = Self(10);
    pub const SETATTR: Self = Self(11);
    pub const ACL_V0: Self = Self(12);
    pub const ACL: Self = Self(13);
    pub const CREATE_ACL: Self = Self(14);
    pub const CREATE_ATTR: Self = Self(15);
    pub const CREATE_ACL_ATTR: Self = Self(16);
    pub const MKDIR_ACL: Self = Self(17);
    pub const MKDIR_ATTR: Self = Self(18);
    pub const MKDIR_ACL_ATTR: Self = Self(19);
    pub const WRITE2: Self = Self(20);
    pub const SETSAXATTR: Self = Self(21);
    pub const RENAME_EXCHANGE: Self = Self(22);
    pub const RENAME_WHITEOUT: Self = Self(23);
    pub const CLONE_RANGE: Self = Self(24);

    const NAMES: [&'static str; 25] = [
        "TX_COMMIT",
        "TX_CREATE",
        "TX_MKDIR",
        "TX_MKXATTR",
        "TX_SYMLINK",
        "TX_REMOVE",
        "TX_RMDIR",
        "TX_LINK",
        "TX_RENAME",
        "TX_WRITE",
        "TX_TRUNCATE",
        "TX_SETATTR",
        "TX_ACL_V0",
        "TX_ACL",
        "TX_CREATE_ACL",
        "TX_CREATE_ATTR",
        "TX_CREATE_ACL_ATTR",
        "TX_MKDIR_ACL",
        "TX_MKDIR_ATTR",
        "TX_MKDIR_ACL_ATTR",
        "TX_WRITE2",
        "TX_SETSAXATTR",
        "TX_RENAME_EXCHANGE",
        "TX_RENAME_WHITEOUT",
        "TX_CLONE_RANGE",
    ];

    /// The name that `zdb` prints.
    pub fn name(self) -> &'static str {
        usize::try_from(self.0).ok().and_then(|n| Self::NAMES.get(n).copied()).unwrap_or("unknown")
    }
}

/// A record of the intent log: the fields of its header (`lr_t`), and its encoded body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: RecordType,
    /// Names are compared case-insensitively.
    pub ignores_case: bool,
    /// Txg that the record belongs to.
    pub txg: Txg,
    /// Sequence number, ascending within the log.
    pub sequence: u64,
    /// The record without its first 32 bytes.
    pub body: &'a [u8],
    /// Byte order of the writer.
    pub endian: Endian,
}

impl<'a> Record<'a> {
    /// Parses the record at the start of `bytes`.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self> {
        need("lr", bytes, RECORD_HEADER_BYTES)?;
        let kind = endian.word(bytes, 0);
        let length = endian.word(bytes, 1);
        let body =
            usize::try_from(length).ok().and_then(|end| bytes.get(RECORD_HEADER_BYTES..end)).ok_or_else(|| {
                Error::corrupt("lr", "lrc_reclen", length, format_args!("{RECORD_HEADER_BYTES} to {}", bytes.len()))
            })?;
        Ok(Self {
            kind: RecordType(kind & !(1 << 63)),
            ignores_case: kind >> 63 != 0,
            txg: Txg(endian.word(bytes, 2)),
            sequence: endian.word(bytes, 3),
            body,
            endian,
        })
    }

    /// Size of the whole record in bytes.
    pub fn size_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.body.len()
    }

    /// The block that a write record points to, if any. The pointer is not encrypted, even in
    /// encrypted datasets, where the rest of the record cannot be parsed without a key.
    pub fn written_block(&self) -> Option<BlkPtr> {
        let is_write = self.kind == RecordType::WRITE;
        let raw = self.body.get(POINTER_AT..).filter(|_| is_write)?;
        let bp = BlkPtr::parse(raw, self.endian).ok()?;
        (!bp.is_hole() && !bp.is_embedded()).then_some(bp)
    }
}

#[cfg(test)]
mod tests;
