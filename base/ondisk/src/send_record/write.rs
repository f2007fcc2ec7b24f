//! Encodes records.

use super::{Body, CHECKSUM_OFFSET, Crypt, MAGIC, RECORD_BYTES, Record};
use crate::endian::Endian;

impl Record {
    /// Encodes the record without its payload. BEGIN has no checksum.
    pub fn to_bytes(&self, endian: Endian) -> [u8; RECORD_BYTES] {
        let mut w = Writer { out: [0; RECORD_BYTES], endian };
        w.u32(0, self.body.kind().into());
        write_body(&mut w, &self.body);
        w.u32(4, self.payload_len);
        if !matches!(self.body, Body::Begin(_)) {
            w.words(CHECKSUM_OFFSET, &self.checksum);
        }
        w.out
    }
}

struct Writer {
    out: [u8; RECORD_BYTES],
    endian: Endian,
}

impl Writer {
    fn u32(&mut self, at: usize, value: u32) {
        self.endian.put_u32(&mut self.out[at..], value);
    }

    fn words(&mut self, at: usize, values: &[u64]) {
        for (i, value) in values.iter().enumerate() {
            self.endian.put_u64(&mut self.out[at + i * 8..], *value);
        }
    }

    fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.out[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn crypt(&mut self, at: usize, crypt: &Crypt) {
        self.bytes(at, &crypt.salt);
        self.bytes(at + 8, &crypt.iv);
        self.bytes(at + 20, &crypt.mac);
    }
}

fn write_body(w: &mut Writer, body: &Body) {
    match body {
        Body::Begin(b) => {
            let info = u64::from(b.header_type & 3) | (b.features.bits() << 2);
            w.words(8, &[MAGIC, info, b.creation_time]);
            w.u32(32, b.objset_type);
            w.u32(36, b.flags);
            w.words(40, &[b.to_guid, b.from_guid]);
            w.bytes(56, &b.to_name[..b.to_name.len().min(255)]);
        }
        Body::Object(o) => {
            w.words(8, &[o.object]);
            for (i, v) in [o.object_type, o.bonus_type, o.block_bytes, o.bonus_bytes].into_iter().enumerate() {
                w.u32(16 + i * 4, v);
            }
            w.bytes(32, &[o.checksum, o.compression, o.slots, o.flags]);
            w.u32(36, o.raw_bonus_bytes);
            w.words(40, &[o.to_guid]);
            w.bytes(48, &[o.indirect_shift, o.levels, o.blkptrs]);
            w.words(56, &[o.max_block_id]);
        }
        Body::FreeObjects { first, count, to_guid } => {
            w.words(8, &[*first, *count, *to_guid]);
        }
        Body::Write(r) => {
            w.words(8, &[r.object]);
            w.u32(16, r.object_type);
            w.words(24, &[r.offset, r.logical_bytes, r.to_guid]);
            w.bytes(48, &[r.checksum_type, r.flags, r.compression]);
            w.words(56, &r.key.to_words());
            w.words(96, &[r.compressed_bytes]);
            w.crypt(104, &r.crypt);
        }
        Body::Free { object, offset, length, to_guid } => {
            w.words(8, &[*object, *offset, *length, *to_guid]);
        }
        Body::End { checksum, to_guid } => {
            w.words(8, checksum);
            w.words(40, &[*to_guid]);
        }
        Body::WriteByRef(r) => {
            w.words(8, &[r.object, r.offset, r.length, r.to_guid, r.ref_guid, r.ref_object, r.ref_offset]);
            w.bytes(64, &[r.checksum_type, r.flags]);
            w.words(72, &r.key.to_words());
        }
        Body::Spill(s) => {
            w.words(8, &[s.object, s.length, s.to_guid]);
            w.bytes(32, &[s.flags, s.compression]);
            w.words(40, &[s.compressed_bytes]);
            w.crypt(48, &s.crypt);
            w.u32(84, s.object_type);
        }
        Body::WriteEmbedded(e) => {
            w.words(8, &[e.object, e.offset, e.length, e.to_guid]);
            w.bytes(40, &[e.compression, e.embedded_type]);
            w.u32(48, e.logical_bytes);
            w.u32(52, e.physical_bytes);
        }
        Body::ObjectRange { first, slots, to_guid, crypt, flags } => {
            w.words(8, &[*first, *slots, *to_guid]);
            w.crypt(32, crypt);
            w.bytes(68, &[*flags]);
        }
        Body::Redact { object, offset, length, to_guid } => {
            w.words(8, &[*object, *offset, *length, *to_guid]);
        }
    }
}
