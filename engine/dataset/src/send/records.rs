//! Turns steps of the walk into records. Adjacent holes and adjacent free object numbers are merged
//! into one record.
//!
//! Facts: `do_dump`, `dump_free`, `dump_dnode` and their neighbours in module/zfs/dmu_send.c.

use super::ahead::{Form, form};
use super::outgoing::{OLD_BLOCK_BYTES_MAX, Outgoing};
use super::walk::{DataStep, SPILL, SentDnode, Step};
use crate::stream::Writer;
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::ddt::Key;
use ondisk::dnode::SLOTS_PER_BLOCK;
use ondisk::send_record::{Body, Crypt, Features, ObjectRecord, Spill, WriteEmbedded, WriteRecord};
use ondisk::{BlkPtr, Checksum, Endian};
use std::io::Write;

/// A length that reaches to the end, wherever that is (`DMU_OBJECT_END`).
const TO_THE_END: u64 = u64::MAX;
/// The block's checksum is strong enough for deduplication (`DRR_CHECKSUM_DEDUP`).
const CHECKSUM_DEDUP: u8 = 1;
/// The payload of a raw record is in the other byte order (`DRR_RAW_BYTESWAP`).
const RAW_BYTESWAP: u8 = 2;
/// OBJECT: the object has a spill block. SPILL: the block did not change.
const SPILL_FLAG: u8 = 4;

/// A record that may still be merged with the next one.
enum Pending {
    Nothing,
    Free { object: u64, offset: u64, length: u64 },
    FreeObjects { first: u64, count: u64 },
    Redact { object: u64, offset: u64, length: u64 },
}

pub(super) struct Records<'a, W> {
    send: &'a Outgoing,
    out: &'a mut Writer<W>,
    pending: Pending,
    /// First object number that no receiver can use.
    objects_end: u64,
}

impl<'a, W: Write> Records<'a, W> {
    pub(super) fn new(send: &'a Outgoing, out: &'a mut Writer<W>) -> Self {
        let objects_end = send.set.meta().max_block_id().saturating_add(1).saturating_mul(SLOTS_PER_BLOCK);
        Self { send, out, pending: Pending::Nothing, objects_end }
    }

    /// Adds a step; `data`: the contents of its block.
    pub(super) fn step(&mut self, step: Step, data: Option<Bytes>) -> Result<()> {
        match step {
            Step::Range { first, bp } if self.is_raw() => self.object_range(first, &bp),
            Step::Range { .. } => Ok(()),
            Step::Object { id, dnode: None, .. } => self.free_objects(id, 1),
            Step::Object { id, dnode: Some(dnode), endian } => self.object(id, &dnode, endian),
            Step::Data(block) => self.data(&block, data.as_deref()),
            Step::Hole { object: 0, start, end, .. } => {
                let first = start.wrapping_mul(SLOTS_PER_BLOCK);
                self.free_objects(first, end.wrapping_mul(SLOTS_PER_BLOCK).wrapping_sub(first))
            }
            Step::Hole { object, start, end, block_bytes } => {
                // The offset does not fit in 64 bits, so this can only ever have been a hole.
                let Some(offset) = start.checked_mul(block_bytes) else { return Ok(()) };
                let end = end.saturating_mul(block_bytes);
                self.free(object, offset, end.wrapping_sub(offset))
            }
            Step::Redact { object, start, end, block_bytes } => {
                let Some(offset) = start.checked_mul(block_bytes) else { return Ok(()) };
                self.redact(object, offset, end.saturating_mul(block_bytes).wrapping_sub(offset))
            }
        }
    }

    /// Writes the pending record.
    pub(super) fn finish(&mut self) -> Result<()> {
        let to_guid = self.to_guid();
        let body = match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => return Ok(()),
            Pending::Free { object, offset, length } => Body::Free { object, offset, length, to_guid },
            Pending::FreeObjects { first, count } => Body::FreeObjects { first, count, to_guid },
            Pending::Redact { object, offset, length } => Body::Redact { object, offset, length, to_guid },
        };
        self.out.record(body, &[])
    }

    fn to_guid(&self) -> u64 {
        self.send.to.phys().guid
    }

    fn is_raw(&self) -> bool {
        self.send.begin.features.contains(Features::RAW)
    }

    /// Writes a record that is not merged with others.
    fn put(&mut self, body: Body, payload: &[u8]) -> Result<()> {
        self.finish()?;
        self.out.record(body, payload)
    }

    fn swapped(&self, endian: Endian) -> u8 {
        if endian == self.send.endian { 0 } else { RAW_BYTESWAP }
    }

    fn free(&mut self, object: u64, offset: u64, length: u64) -> Result<()> {
        let beyond = offset.checked_add(length).is_none();
        if let Pending::Free { object: at, offset: from, length: so_far } = &mut self.pending
            && *at == object
            && from.wrapping_add(*so_far) == offset
        {
            *so_far = if beyond { TO_THE_END } else { so_far.wrapping_add(length) };
            return Ok(());
        }
        self.finish()?;
        let recorded = if beyond { TO_THE_END } else { length };
        self.pending = Pending::Free { object, offset, length: recorded };
        // A hole that reaches to the end cannot be merged with a later one.
        if length == TO_THE_END { self.finish() } else { Ok(()) }
    }

    fn redact(&mut self, object: u64, offset: u64, length: u64) -> Result<()> {
        match &mut self.pending {
            Pending::Redact { object: at, offset: from, length: so_far }
                if *at == object && from.checked_add(*so_far) == Some(offset) =>
            {
                *so_far = so_far.saturating_add(length);
            }
            _ => {
                self.finish()?;
                self.pending = Pending::Redact { object, offset, length };
            }
        }
        Ok(())
    }

    fn free_objects(&mut self, first: u64, count: u64) -> Result<()> {
        if first >= self.objects_end {
            return Ok(());
        }
        let count = count.min(self.objects_end - first);
        match &mut self.pending {
            Pending::FreeObjects { first: from, count: so_far } if *from + *so_far == first => *so_far += count,
            _ => {
                self.finish()?;
                self.pending = Pending::FreeObjects { first, count };
            }
        }
        Ok(())
    }

    fn object_range(&mut self, first: u64, bp: &BlkPtr) -> Result<()> {
        let (slots, to_guid) = (SLOTS_PER_BLOCK, self.to_guid());
        let flags = self.swapped(bp.endian());
        self.put(Body::ObjectRange { first, slots, to_guid, crypt: crypt(bp), flags }, &[])
    }

    fn object(&mut self, id: u64, sent: &SentDnode, endian: Endian) -> Result<()> {
        let (dnode, raw) = (&sent.dnode, self.is_raw());
        let large = self.send.begin.features.contains(Features::LARGE_BLOCKS);
        let block_bytes = dnode.data_block_bytes;
        let has_spill = dnode.flags & ondisk::Dnode::FLAG_SPILL_BLKPTR != 0;
        let mut record = ObjectRecord {
            object: id,
            object_type: dnode.object_type.0.into(),
            bonus_type: dnode.bonus_type.0.into(),
            block_bytes: if large { block_bytes } else { block_bytes.min(OLD_BLOCK_BYTES_MAX as u32) },
            bonus_bytes: dnode.bonus.len() as u32,
            checksum: dnode.checksum,
            compression: dnode.compression,
            slots: dnode.slots,
            flags: if has_spill { SPILL_FLAG } else { 0 },
            raw_bonus_bytes: 0,
            to_guid: self.to_guid(),
            indirect_shift: 0,
            levels: 0,
            blkptrs: 0,
            max_block_id: 0,
        };
        if raw {
            record.flags |= self.swapped(endian);
            record.raw_bonus_bytes = sent.bonus.len() as u32;
            record.indirect_shift = dnode.indirect_shift;
            record.levels = dnode.levels;
            record.blkptrs = dnode.blkptrs.len() as u8;
            record.max_block_id = dnode.max_block_id;
        }
        self.put(Body::Object(record), &sent.bonus)?;
        let end = dnode.max_block_id.wrapping_add(1).wrapping_mul(block_bytes.into());
        self.free(id, end, TO_THE_END)
    }

    fn data(&mut self, block: &DataStep, data: Option<&[u8]>) -> Result<()> {
        let features = self.send.begin.features;
        let form = form(block, features, self.send.endian)?;
        let Some(data) = data else { return self.embedded(block) };
        if block.block == SPILL {
            return self.spill(block, data);
        }
        let offset = block.block.wrapping_mul(block.bytes);
        if form == Form::Contents && block.bytes > OLD_BLOCK_BYTES_MAX && !features.contains(Features::LARGE_BLOCKS) {
            for (i, piece) in data.chunks(OLD_BLOCK_BYTES_MAX as usize).enumerate() {
                let record = self.write(block, offset + i as u64 * OLD_BLOCK_BYTES_MAX, piece.len() as u64);
                self.put(Body::Write(record), piece)?;
            }
            return Ok(());
        }
        let (bp, raw) = (&block.bp, self.is_raw());
        let mut record = self.write(block, offset, block.bytes);
        let compression = bp.compression()?.to_raw();
        if raw || (form == Form::Stored && compression != ondisk::Compression::Off.to_raw()) {
            record.compression = compression;
            record.compressed_bytes = data.len() as u64;
        }
        if raw {
            record.flags |= self.swapped(bp.endian());
            record.crypt = crypt(bp);
        }
        if !bp.is_embedded() && (raw || !bp.uses_crypt()) {
            let kind = bp.checksum_kind()?;
            record.checksum_type = kind as u8;
            if is_for_dedup(kind) {
                record.flags |= CHECKSUM_DEDUP;
            }
            record.key = key(bp);
        }
        if raw && data.len() as u64 != bp.psize_bytes() {
            let what = format!("a block of {} bytes was read as {}", bp.psize_bytes(), data.len());
            return Err(Error::corrupt(format!("object {}", block.object), what));
        }
        self.put(Body::Write(record), data)
    }

    /// Builds a WRITE record of plain bytes.
    fn write(&self, block: &DataStep, offset: u64, logical_bytes: u64) -> WriteRecord {
        WriteRecord {
            object: block.object,
            object_type: block.object_type.0.into(),
            offset,
            logical_bytes,
            to_guid: self.to_guid(),
            checksum_type: Checksum::Off as u8,
            flags: 0,
            compression: 0,
            key: Key { checksum: [0; 4], prop: 0 },
            compressed_bytes: 0,
            crypt: Crypt::default(),
        }
    }

    fn embedded(&mut self, block: &DataStep) -> Result<()> {
        let mut payload = block.bp.embedded_payload()?;
        let record = WriteEmbedded {
            object: block.object,
            offset: block.block.wrapping_mul(block.bytes),
            length: block.bytes,
            to_guid: self.to_guid(),
            compression: block.bp.compression()?.to_raw(),
            embedded_type: 0,
            logical_bytes: block.bp.lsize_bytes() as u32,
            physical_bytes: payload.len() as u32,
        };
        payload.resize(payload.len().next_multiple_of(8), 0);
        self.put(Body::WriteEmbedded(record), &payload)
    }

    fn spill(&mut self, block: &DataStep, data: &[u8]) -> Result<()> {
        let bp = &block.bp;
        let is_old = bp.logical_birth().0 <= self.send.from_txg;
        let mut record = Spill {
            object: block.object,
            length: bp.lsize_bytes(),
            to_guid: self.to_guid(),
            flags: if is_old { SPILL_FLAG } else { 0 },
            compression: 0,
            compressed_bytes: 0,
            crypt: Crypt::default(),
            object_type: 0,
        };
        if self.is_raw() {
            record.flags |= self.swapped(bp.endian());
            record.compression = bp.compression()?.to_raw();
            record.compressed_bytes = data.len() as u64;
            record.crypt = crypt(bp);
        }
        self.put(Body::Spill(record), data)
    }
}

fn crypt(bp: &BlkPtr) -> Crypt {
    // A block that is only authenticated has no salt and no IV: its third address is a real one.
    let (salt, iv) = if bp.is_encrypted() { (bp.crypt_salt(), bp.crypt_iv()) } else { Default::default() };
    Crypt { salt, iv, mac: bp.crypt_mac() }
}

/// The block's key in a deduplication table.
fn key(bp: &BlkPtr) -> Key {
    // Sizes and compression as in the pointer; the bit for "embedded" in the pointer means
    // "encrypted" in the key.
    let prop = (bp.words()[6] & 0x7f_ffff_ffff) | u64::from(bp.uses_crypt()) << 39;
    Key { checksum: bp.checksum(), prop }
}

/// Whether equal checksums are assumed to mean equal contents (`ZCHECKSUM_FLAG_DEDUP`).
fn is_for_dedup(kind: Checksum) -> bool {
    matches!(kind, Checksum::Sha256 | Checksum::Sha512 | Checksum::Skein | Checksum::Blake3)
}
