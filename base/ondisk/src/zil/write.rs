//! Encodes records and blocks of the intent log. Meaning and layout: [`super`], [`super::record`].
//!
//! Invariants:
//!   * a record is a multiple of 8 bytes, padded with zeros
//!   * [`Record::parse`] and [`LogBlock::parse`] read back what is encoded here
//!
//! Source: module/zfs/zfs_log.c, zil_itx_create.

use super::record::{Acl, Attributes, Create, OBJECT_MASK, Whiteout};
use super::{Body, CHAIN_BYTES, MIN_BLOCK_BYTES, RECORD_HEADER_BYTES, RecordType};
use crate::blkptr::{self, BlkPtr};
use crate::endian::Endian;

/// Offset of the sequence number in a record.
const SEQUENCE_AT: usize = 24;
/// Offset of the number of used bytes in a chain header.
const USED_AT: usize = 0x88;
/// First word of a block's trailer (`ZEC_MAGIC`).
const TRAILER_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Bytes of a write record before its data (`sizeof (lr_write_t)`).
pub const WRITE_BYTES: usize = 192;

/// Sets the sequence number of a record encoded by [`Body::encode`] or [`encode_write`], once its
/// place in the log is known.
pub fn set_sequence(record: &mut [u8], sequence: u64) {
    Endian::Little.put_u64(&mut record[SEQUENCE_AT..], sequence);
}

/// Size in bytes of a write record with `data_bytes` of data.
pub fn write_record_bytes(data_bytes: usize) -> usize {
    WRITE_BYTES + data_bytes.next_multiple_of(8)
}

/// Encodes a write record with its data.
pub fn encode_write(object: u64, offset: u64, data: &[u8], txg: u64) -> Vec<u8> {
    let body = Body::Write { object, offset, length: data.len() as u64, pointer: BlkPtr::HOLE, data };
    body.encode(RecordType::WRITE, txg)
}

/// Encodes a log block of `block_bytes` for pools from version 23 on (`zilog2`), before encryption:
/// chain header with a pointer to the `next` block, then the records. The trailer carries the
/// checksum of the block's own pointer.
///
/// Panics if the records do not fit.
pub fn encode_block(block_bytes: usize, own: &BlkPtr, next: &BlkPtr, records: &[u8]) -> Vec<u8> {
    let used = CHAIN_BYTES + records.len();
    assert!(used <= block_bytes, "the caller packs records by the size of the block");
    let e = Endian::Little;
    let mut out = vec![0; block_bytes];
    out[8..8 + blkptr::SIZE_BYTES].copy_from_slice(&next.to_bytes(e));
    e.put_u64(&mut out[USED_AT..], used as u64);
    e.put_u64(&mut out[0x90..], TRAILER_MAGIC);
    for (i, word) in own.checksum().into_iter().enumerate() {
        e.put_u64(&mut out[0x98 + i * 8..], word);
    }
    out[CHAIN_BYTES..used].copy_from_slice(records);
    out
}

/// Bytes of a block that must be written for `record_bytes` of records: nothing ever reads the
/// rest.
pub fn written_bytes(record_bytes: usize) -> usize {
    (CHAIN_BYTES + record_bytes).next_multiple_of(MIN_BLOCK_BYTES as usize)
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn words<const N: usize>(&mut self, values: [u64; N]) {
        values.into_iter().for_each(|v| self.word(v));
    }

    fn name(&mut self, name: &[u8]) {
        self.0.extend_from_slice(name);
        self.0.push(0);
    }

    fn attributes(&mut self, attributes: &Attributes) {
        self.0.extend_from_slice(&(attributes.mask.len() as u32).to_le_bytes());
        for word in &attributes.mask {
            self.0.extend_from_slice(&word.to_le_bytes());
        }
        self.word(attributes.flags);
        self.words(attributes.created);
        self.0.extend_from_slice(&attributes.scan_stamp);
    }

    fn acl_header(&mut self, acl: &Acl<'_>) {
        let (domains, fuids) = (acl.domains.len() as u64, acl.fuids.len() as u64);
        self.words([acl.count, domains, fuids, acl.entries.len() as u64, acl.flags]);
    }

    fn acl(&mut self, acl: &Acl<'_>) {
        self.0.extend_from_slice(acl.entries);
        self.0.resize(self.0.len() + acl.entries.len().next_multiple_of(8) - acl.entries.len(), 0);
        acl.fuids.iter().for_each(|f| self.word(*f));
        acl.domains.iter().for_each(|d| self.name(d));
    }

    fn create(&mut self, c: &Create<'_>) {
        self.words([c.directory, foid(c.object, c.slots), c.mode, c.uid, c.gid, c.generation]);
        self.words(c.created);
        self.word(c.rdev);
        if let Some(acl) = &c.acl {
            self.acl_header(acl);
        }
        if let Some(attributes) = &c.attributes {
            self.attributes(attributes);
        }
        match &c.acl {
            Some(acl) => self.acl(acl),
            None => c.domains.iter().for_each(|d| self.name(d)),
        }
        self.name(c.name);
        if let Some(target) = c.target {
            self.name(target);
        }
    }

    fn whiteout(&mut self, w: &Whiteout) {
        self.words([foid(w.object, w.slots), w.mode, w.uid, w.gid, w.generation]);
        self.words(w.created);
        self.word(w.rdev);
    }
}

fn foid(object: u64, slots: u8) -> u64 {
    (object & OBJECT_MASK) | (u64::from(slots.saturating_sub(1)) << 56)
}

impl Body<'_> {
    /// Encodes the record with sequence number 0 (see [`set_sequence`]). `kind` supplies what the
    /// body does not contain: file or directory, and case-insensitive names (bit 63). Create types
    /// are changed to the variant with ACL or attributes if the body has them.
    pub fn encode(&self, kind: RecordType, txg: u64) -> Vec<u8> {
        let mut w = Writer(Vec::with_capacity(256));
        w.words([self.kind_of(kind).0, 0, txg, 0]);
        match self {
            Self::Create(c) => w.create(c),
            Self::Remove { directory, name } => {
                w.word(*directory);
                w.name(name);
            }
            Self::Link { directory, object, name } => {
                w.words([*directory, *object]);
                w.name(name);
            }
            Self::Rename { from_directory, to_directory, from, to, whiteout } => {
                w.words([*from_directory, *to_directory]);
                if let Some(whiteout) = whiteout {
                    w.whiteout(whiteout);
                }
                w.name(from);
                w.name(to);
            }
            Self::Write { object, offset, length, pointer, data } => {
                w.words([*object, *offset, *length, 0]);
                w.0.extend_from_slice(&pointer.to_bytes(Endian::Little));
                w.0.extend_from_slice(data);
            }
            Self::Truncate { object, offset, length } => w.words([*object, *offset, *length]),
            Self::SetAttr { object, mask, mode, uid, gid, size, atime, mtime, attributes } => {
                w.words([*object, *mask, *mode, *uid, *gid, *size]);
                w.words(*atime);
                w.words(*mtime);
                if let Some(attributes) = attributes {
                    w.attributes(attributes);
                }
            }
            Self::Acl { object, acl } if kind == RecordType::ACL_V0 => {
                w.words([*object, acl.count]);
                w.0.extend_from_slice(acl.entries);
            }
            Self::Acl { object, acl } => {
                w.word(*object);
                w.acl_header(acl);
                w.acl(acl);
            }
            Self::SetSaXattr { object, name, value } => {
                w.words([*object, value.map_or(0, |v| v.len() as u64)]);
                w.name(name);
                w.0.extend_from_slice(value.unwrap_or_default());
            }
            Self::CloneRange { object, offset, length, block_bytes, pointers } => {
                w.words([*object, *offset, *length, *block_bytes, pointers.len() as u64]);
                for pointer in pointers {
                    w.0.extend_from_slice(&pointer.to_bytes(Endian::Little));
                }
            }
            Self::Commit => {}
        }
        let mut out = w.0;
        out.resize(out.len().next_multiple_of(8), 0);
        let length = out.len() as u64;
        debug_assert!(out.len() >= RECORD_HEADER_BYTES);
        Endian::Little.put_u64(&mut out[8..], length);
        out
    }

    /// The variant of `kind` that matches the contents of the body.
    fn kind_of(&self, kind: RecordType) -> RecordType {
        let case = kind.0 & (1 << 63);
        let plain = RecordType(kind.0 & !(1 << 63));
        let fit = match self {
            Self::Create(c) => match (plain, c.acl.is_some(), c.attributes.is_some()) {
                (RecordType::CREATE, true, false) => RecordType::CREATE_ACL,
                (RecordType::CREATE, false, true) => RecordType::CREATE_ATTR,
                (RecordType::CREATE, true, true) => RecordType::CREATE_ACL_ATTR,
                (RecordType::MKDIR, true, false) => RecordType::MKDIR_ACL,
                (RecordType::MKDIR, false, true) => RecordType::MKDIR_ATTR,
                (RecordType::MKDIR, true, true) => RecordType::MKDIR_ACL_ATTR,
                _ => plain,
            },
            Self::Rename { whiteout: Some(_), .. } => RecordType::RENAME_WHITEOUT,
            _ => plain,
        };
        RecordType(fit.0 | case)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogBlock, Record};
    use super::*;
    use crate::testing::golden;

    /// Records written by OpenZFS, parsed and encoded again, are unchanged.
    #[test]
    fn records_of_a_real_log_are_written_back_unchanged() {
        let mut rest: &[u8] = golden!("zil_blocks.bin");
        let mut count = 0;
        while !rest.is_empty() {
            let used = Endian::Little.u64(&rest[USED_AT..]) as usize;
            let block = LogBlock::parse_slim(&rest[..used], Endian::Little).unwrap();
            let mut at = CHAIN_BYTES;
            for record in block.records() {
                let record = record.unwrap();
                let original = &rest[at..at + record.size_bytes()];
                let mut again = record.parse_body().unwrap().encode(record.kind, record.txg.0);
                set_sequence(&mut again, record.sequence);
                // The padding of a record is leftover memory of the writer; ours is zeros.
                assert_eq!(again.len(), original.len(), "{}", record.kind.name());
                let same = again.iter().zip(original).take_while(|(a, b)| a == b).count();
                assert!(original.len() - same < 8, "{} differs at {same}", record.kind.name());
                at += record.size_bytes();
                count += 1;
            }
            rest = &rest[used..];
        }
        assert_eq!(count, 12);
    }

    #[test]
    fn a_block_of_a_real_log_is_written_back_unchanged() {
        let bytes = golden!("zil_blocks.bin");
        let used = Endian::Little.u64(&bytes[USED_AT..]) as usize;
        let block = LogBlock::parse_slim(&bytes[..used], Endian::Little).unwrap();
        let [a, b, c, d] = block.next.checksum();
        let mut words = [0; 16];
        words[12..].copy_from_slice(&[a, b, c, d - 1]);
        let again = encode_block(4096, &BlkPtr::from_words(words), &block.next, block.records);
        // After the magic comes the checksum, which replaces the seed over which it was computed.
        assert_eq!(again[..0x98], bytes[..0x98]);
        assert_eq!(again[CHAIN_BYTES..used], bytes[CHAIN_BYTES..used]);
        assert!(again[used..].iter().all(|b| *b == 0));
    }

    fn back(body: &Body<'_>, kind: RecordType) -> RecordType {
        let bytes = body.encode(kind, 7);
        assert_eq!(bytes.len() % 8, 0);
        let record = Record::parse(&bytes, Endian::Little).unwrap();
        assert_eq!((record.size_bytes(), record.txg.0), (bytes.len(), 7));
        assert_eq!(&record.parse_body().unwrap(), body);
        record.kind
    }

    #[test]
    fn every_kind_reads_back_as_it_was_written() {
        let acl = || Acl { count: 1, flags: 2, entries: &[7; 12], fuids: vec![5], domains: vec![b"S-1-5"] };
        let attributes = || Attributes { mask: vec![1, 2, 3], flags: 4, created: [5, 6], scan_stamp: [9; 32] };
        let plain = Create {
            directory: 34,
            object: 9,
            slots: 2,
            mode: 0o100644,
            uid: 1,
            gid: 2,
            generation: 7,
            created: [3, 4],
            rdev: 0,
            attributes: None,
            acl: None,
            domains: Vec::new(),
            name: b"name",
            target: None,
        };
        for (kind, expected) in [(RecordType::CREATE, [1, 14, 15, 16]), (RecordType::MKDIR, [2, 17, 18, 19])] {
            let found =
                [(false, false), (true, false), (false, true), (true, true)].map(|(has_acl, has_attributes)| {
                    let create =
                        Create { acl: has_acl.then(acl), attributes: has_attributes.then(attributes), ..plain.clone() };
                    back(&Body::Create(create), kind).0
                });
            assert_eq!(found, expected);
        }
        let link = Create { target: Some(b"to"), ..plain.clone() };
        assert_eq!(back(&Body::Create(link), RecordType::SYMLINK), RecordType::SYMLINK);
        let foreign = Create { uid: 1 << 32, domains: vec![b"S-1-5"], ..plain };
        back(&Body::Create(foreign), RecordType::MKXATTR);
        back(&Body::Remove { directory: 3, name: b"gone" }, RecordType::RMDIR);
        back(&Body::Link { directory: 3, object: 4, name: b"again" }, RecordType::LINK);
        let rename = |whiteout| Body::Rename { from_directory: 3, to_directory: 4, from: b"a", to: b"bc", whiteout };
        back(&rename(None), RecordType::RENAME_EXCHANGE);
        let w = Whiteout { object: 9, slots: 3, mode: 1, uid: 2, gid: 3, generation: 4, created: [5, 6], rdev: 7 };
        assert_eq!(back(&rename(Some(w)), RecordType::RENAME), RecordType::RENAME_WHITEOUT);
        let write = Body::Write { object: 9, offset: 10, length: 3, pointer: BlkPtr::HOLE, data: b"abc" };
        back(&write, RecordType::WRITE);
        assert_eq!(write.encode(RecordType::WRITE, 7), encode_write(9, 10, b"abc", 7));
        assert_eq!(write_record_bytes(3), encode_write(9, 10, b"abc", 7).len());
        back(&Body::Truncate { object: 9, offset: 10, length: 11 }, RecordType::TRUNCATE);
        let setattr = |mask, attributes| Body::SetAttr {
            object: 9,
            mask,
            mode: 1,
            uid: 2,
            gid: 3,
            size: 4,
            atime: [5, 6],
            mtime: [7, 8],
            attributes,
        };
        back(&setattr(0x2068, None), RecordType::SETATTR);
        back(&setattr(1 << 31, Some(attributes())), RecordType::SETATTR);
        back(&Body::Acl { object: 9, acl: acl() }, RecordType::ACL);
        let old = Acl { count: 1, flags: 0, entries: &[7; 16], fuids: Vec::new(), domains: Vec::new() };
        back(&Body::Acl { object: 9, acl: old }, RecordType::ACL_V0);
        back(&Body::SetSaXattr { object: 9, name: b"user.x", value: Some(b"v") }, RecordType::SETSAXATTR);
        back(&Body::SetSaXattr { object: 9, name: b"user.x", value: None }, RecordType::SETSAXATTR);
        let pointers = vec![BlkPtr::from_words([3; 16]); 2];
        let clone = Body::CloneRange { object: 9, offset: 0, length: 1 << 18, block_bytes: 1 << 17, pointers };
        back(&clone, RecordType::CLONE_RANGE);
        let cased = Body::Remove { directory: 3, name: b"X" }.encode(RecordType(5 | 1 << 63), 7);
        assert!(Record::parse(&cased, Endian::Little).unwrap().ignores_case);
    }
}
