//! Applies stream records to the objects of a dataset.
//!
//! | record          | effect                                                                    |
//! |-----------------|---------------------------------------------------------------------------|
//! | OBJECT          | creates the object; an existing one gets the new dnode, keeps its contents|
//! |                 | if they can still be valid                                                |
//! | FREEOBJECTS     | frees existing objects                                                    |
//! | WRITE           | writes data; reassembles a block that the stream split                    |
//! | WRITE_EMBEDDED  | writes a block that was embedded in its block pointer                     |
//! | FREE            | punches holes; without an end, truncates the object there                 |
//! | REDACT          | punches holes: redaction is recorded for the dataset as a whole           |
//! | SPILL           | sets the spill block                                                      |
//!
//! An object that was freed and recreated since the base snapshot is sent in full, so keeping
//! contents is always correct. They are discarded if the shape of the dnode does not allow keeping
//! them. Facts: `receive_object`, `receive_handle_existing_object` and the functions after them in
//! module/zfs/dmu_recv.c.
//!
//! **OpenZFS 2.3 sends embedded spill blocks as file data** at the offset that a block numbered -2
//! would have. Its receiver writes them there, and the attributes are lost. Here they are restored
//! as spill blocks.

use super::byteswap;
use super::incoming::{FLAG_SPILL_BLOCK, Incoming};
use super::verifying_reader::{VerifiedRecord, bad};
use block::RawBlock;
use bytes::Bytes;
use errors::{Error, Result};
use object::{NewObject, Object, ObjectSet, Tx};
use ondisk::blkptr::MAX_BLOCK_BYTES;
use ondisk::dnode::{SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::send_record::{Body, Features, ObjectRecord, Spill, WriteEmbedded, WriteRecord};
use ondisk::{BlkPtr, Compression, Endian, ObjectType, Txg};
use std::sync::Arc;
use transform::compress::{Algorithm, decompress};

/// Largest object number of the format (`DN_MAX_OBJECT`).
pub(super) const OBJECT_MAX: u64 = 1 << 48;
/// Largest block in a stream without large blocks, and the largest spill block.
const OLD_MAX_BLOCK_BYTES: u64 = 128 << 10;
/// OBJECT: the object has a spill block. SPILL: the block did not change.
pub(super) const SPILL: u8 = 4;
/// One past the largest checksum or compression number that file contents may use.
const FUNCTIONS_MAX: u8 = 64;

/// Applies records to an object set.
pub(super) struct Applier {
    pub(super) set: Arc<ObjectSet>,
    features: Features,
    pub(super) endian: Endian,
    is_raw: bool,
    /// Blocks may be embedded in their block pointers.
    embeds: bool,
    /// In a raw stream, the first object of the most recent OBJECT_RANGE.
    pub(super) range: Option<u64>,
    /// Either every OBJECT in the stream says whether it has a spill block, or none does.
    spills_are_marked: bool,
    is_full: bool,
    /// The object of the most recent OBJECT, and whether it has a spill block.
    current: (u64, bool),
}

impl Applier {
    pub(super) fn new(set: Arc<ObjectSet>, incoming: &Incoming, embeds: bool) -> Self {
        Self {
            set,
            features: incoming.begin.features,
            endian: incoming.endian,
            is_raw: incoming.is_raw(),
            embeds,
            range: None,
            spills_are_marked: incoming.has_flag(FLAG_SPILL_BLOCK),
            is_full: incoming.begin.from_guid == 0,
            current: (0, false),
        }
    }

    /// Applies one record. Fails if a stream of this kind, raw or not, must not have it.
    pub(super) fn apply(&mut self, tx: &Tx, packet: VerifiedRecord) -> Result<()> {
        let payload = packet.payload;
        match &packet.record.body {
            Body::ObjectRange { first, slots, crypt, flags, .. } if self.is_raw => {
                self.object_range(*first, *slots, crypt, *flags)
            }
            Body::Object(record) if self.is_raw => self.raw_object(tx, record, payload),
            Body::Write(write) if self.is_raw => self.raw_write(tx, write, payload),
            Body::WriteEmbedded(_) if self.is_raw => Err(bad("an embedded block in a raw stream")),
            Body::Object(record) => self.object(tx, record, payload),
            Body::FreeObjects { first, count, .. } => self.free_objects(tx, *first, *count),
            Body::Write(write) => self.write(tx, write, payload),
            Body::WriteEmbedded(write) => self.write_embedded(tx, write, &payload),
            Body::Free { object, offset, length, .. } | Body::Redact { object, offset, length, .. } => {
                if *length != u64::MAX && offset.checked_add(*length).is_none() {
                    return Err(bad(format!("{length} bytes from {offset} on")));
                }
                let object = self.known(*object)?;
                let (bytes, last) = (object.block_bytes(), object.dnode_now().max_block_id);
                object.punch(tx, *offset, *length)?;
                // Only a FREE without an end sets the end of an object, and it also does so inside
                // a hole.
                match *length == u64::MAX && bytes.is_power_of_two() && !self.is_raw {
                    true => object.set_last_block(tx, offset.div_ceil(bytes).saturating_sub(1)),
                    false => object.set_last_block(tx, last),
                }
            }
            Body::Spill(spill) => self.spill(tx, spill, payload),
            Body::Begin(_) | Body::End { .. } => Err(bad("a stream within a stream")),
            Body::WriteByRef(_) | Body::ObjectRange { .. } => {
                Err(bad("a record that only raw or deduplicated streams have"))
            }
        }
    }

    pub(super) fn known(&self, id: u64) -> Result<Object> {
        if id == 0 || id >= OBJECT_MAX {
            return Err(bad(format!("object {id}")));
        }
        match self.set.object(id) {
            Err(Error::NotFound { .. }) => Err(bad(format!("object {id} does not exist"))),
            found => found,
        }
    }

    fn object(&mut self, tx: &Tx, record: &ObjectRecord, mut bonus: Vec<u8>) -> Result<()> {
        let new = self.check(record)?;
        bonus.truncate(record.bonus_bytes as usize);
        let new = NewObject { bonus: self.native("a bonus", new.bonus_type, bonus)?, ..new };
        let has_spill = record.flags & SPILL != 0;
        self.current = (record.object, has_spill);
        let found = match self.set.object(record.object) {
            Ok(object) => Some(object),
            Err(Error::NotFound { .. }) => None,
            Err(e) => return Err(e),
        };
        self.make_room(tx, record.object, new.slots)?;
        let Some(object) = found else { return self.set.create_object(tx, &new).map(drop) };
        let dnode = object.dnode_now();
        if new.slots != dnode.slots || new.pointers() < dnode.blkptrs.len() {
            self.set.free_object(tx, record.object)?;
            return self.set.create_object(tx, &new).map(drop);
        }
        if new.block_bytes != dnode.data_block_bytes {
            self.resize(tx, &object, &new)?;
        }
        if dnode.spill.is_some() && self.spills_are_marked && !has_spill {
            object.set_spill(tx, None)?;
        }
        object.remake(tx, &new)
    }

    /// Frees the other slots of a large dnode: the stream does not send objects as freed when a
    /// dnode grew over them.
    pub(super) fn make_room(&self, tx: &Tx, object: u64, slots: u8) -> Result<()> {
        for id in object + 1..object + u64::from(slots) {
            if self.set.next_object(id - 1)? == Some(id) {
                self.set.free_object(tx, id)?;
            }
        }
        Ok(())
    }

    /// Sets an object's block size to the one in the stream, unless the object may have to keep its
    /// blocks.
    fn resize(&self, tx: &Tx, object: &Object, new: &NewObject) -> Result<()> {
        let is_file = |kind: ObjectType| kind == ObjectType::PLAIN_FILE_CONTENTS;
        let both_files = is_file(new.object_type) && is_file(object.dnode_now().object_type);
        let (old, requested) = (object.block_bytes(), u64::from(new.block_bytes));
        if object.max_block_id() > 0 {
            // For the previous receive, a stream without large blocks split them: these blocks may
            // still belong to the file.
            if both_files && !self.is_full && old == OLD_MAX_BLOCK_BYTES && requested > old {
                return Ok(());
            }
            object.punch(tx, 0, u64::MAX)?;
        }
        self.set.object(object.id())?.set_block_bytes(tx, new.block_bytes)
    }

    /// Returns the dnode that a record describes, without its bonus. Rejects an invalid record.
    pub(super) fn check(&self, record: &ObjectRecord) -> Result<NewObject> {
        let slots = record.slots.max(1);
        let kinds = (u8::try_from(record.object_type), u8::try_from(record.bonus_type));
        let (Ok(object_type), Ok(bonus_type)) = kinds else { return Err(bad("a type above 255")) };
        let (object_type, bonus_type) = (ObjectType(object_type), ObjectType(bonus_type));
        let most = if self.features.contains(Features::LARGE_BLOCKS) { MAX_BLOCK_BYTES } else { OLD_MAX_BLOCK_BYTES };
        let bytes = u64::from(record.block_bytes);
        let in_block = record.object % SLOTS_PER_BLOCK + u64::from(slots) <= SLOTS_PER_BLOCK;
        let good = (1..OBJECT_MAX).contains(&record.object)
            && in_block
            && (slots == 1 || self.features.contains(Features::LARGE_DNODE))
            && object_type != ObjectType::NONE
            && object_type.is_valid()
            && bonus_type.is_valid()
            && record.checksum < FUNCTIONS_MAX
            && record.compression < FUNCTIONS_MAX
            && (512..=most).contains(&bytes)
            && bytes.is_multiple_of(512)
            && (self.is_raw
                || (record.raw_bonus_bytes, record.indirect_shift, record.levels, record.blkptrs) == (0, 0, 0, 0));
        let room = (u64::from(slots) * SLOT_BYTES as u64) - ondisk::dnode::CORE_BYTES as u64 - 128;
        let spill_room = if record.flags & SPILL != 0 { 128 } else { 0 };
        if !good || u64::from(record.bonus_bytes.max(record.raw_bonus_bytes)) + spill_room > room {
            return Err(bad(format!("a dnode that cannot be: {record:?}")));
        }
        Ok(NewObject {
            id: Some(record.object),
            bonus_type,
            slots,
            checksum: record.checksum,
            compression: record.compression,
            ..NewObject::new(object_type, record.block_bytes)
        })
    }

    fn free_objects(&mut self, tx: &Tx, first: u64, count: u64) -> Result<()> {
        let end = first.checked_add(count).ok_or_else(|| bad(format!("{count} objects from {first} on")))?;
        let mut at = first.saturating_sub(1);
        while let Some(id) = self.set.next_object(at)?.filter(|id| *id < end) {
            self.set.free_object(tx, id)?;
            at = id;
        }
        Ok(())
    }

    fn write(&mut self, tx: &Tx, write: &WriteRecord, payload: Vec<u8>) -> Result<()> {
        let object = self.known(write.object)?;
        self.check_block(write.offset, write.logical_bytes)?;
        let size = object.block_bytes();
        let is_whole = write.logical_bytes == size && write.offset.is_multiple_of(size);
        if !is_whole || !is_packed(write.compression) {
            let data = unpacked(write.compression, payload, write.logical_bytes)?;
            return object.write_at(tx, write.offset, &self.native("a block", object.dnode_now().object_type, data)?);
        }
        // Stored as received, but first checked to decompress, so that no later read fails.
        let bytes = Bytes::from(payload);
        unpacked(write.compression, bytes.clone(), write.logical_bytes)?;
        let compression = Compression::from_raw(write.compression)?;
        let (lsize_bytes, endian) = (write.logical_bytes, self.endian);
        object.put_raw(tx, write.offset / size, RawBlock { bytes, lsize_bytes, compression, endian, sealed: None })
    }

    fn write_embedded(&mut self, tx: &Tx, write: &WriteEmbedded, payload: &[u8]) -> Result<()> {
        let object = self.known(write.object)?;
        if write.embedded_type != 0 || write.physical_bytes > 112 || u64::from(write.logical_bytes) > write.length {
            return Err(bad("an embedded block that cannot be"));
        }
        let payload = payload.get(..write.physical_bytes as usize).unwrap_or_default();
        let data = unpacked(write.compression, payload.to_vec(), write.logical_bytes.into())?;
        // A spill block has the number -2 (DMU_SPILL_BLKID); this is the offset of a file block
        // with that number.
        let beginning = |bytes: u64| bytes.wrapping_mul(2).wrapping_neg();
        let is_spill = [u64::from(write.logical_bytes), object.block_bytes()].map(beginning).contains(&write.offset);
        if is_spill && self.current == (write.object, true) {
            return object.set_spill(tx, Some(data));
        }
        self.check_block(write.offset, write.length)?;
        let size = object.block_bytes();
        let is_whole = u64::from(write.logical_bytes) == size && write.offset.is_multiple_of(size);
        if !is_whole || !self.embeds || payload.is_empty() || self.endian == Endian::Big {
            return object.write_at(tx, write.offset, &self.native("a block", object.dnode_now().object_type, data)?);
        }
        let compression =
            if write.compression == 0 { Compression::Off } else { Compression::from_raw(write.compression)? };
        let (kind, birth) = (object.dnode_now().object_type, Txg(tx.txg()));
        let bp = BlkPtr::new_embedded(kind, 0, compression, size, payload, birth);
        object.put_pointer(tx, write.offset / size, bp)
    }

    fn spill(&mut self, tx: &Tx, spill: &Spill, payload: Vec<u8>) -> Result<()> {
        let object = self.known(spill.object)?;
        let is_unchanged = self.spills_are_marked && spill.flags & SPILL != 0;
        if is_unchanged && object.dnode_now().spill.is_some() {
            return Ok(());
        }
        if self.is_raw {
            return self.raw_spill(tx, spill, payload);
        }
        if !(512..=OLD_MAX_BLOCK_BYTES).contains(&spill.length) || !spill.length.is_multiple_of(512) {
            return Err(bad(format!("a spill block of {} bytes", spill.length)));
        }
        let compression = if spill.compressed_bytes == 0 { 0 } else { spill.compression };
        let data = unpacked(compression, payload, spill.length)?;
        object.set_spill(tx, Some(data))
    }

    /// Converts stream contents to the on-disk form, where dnodes and pointers say little-endian.
    fn native(&self, what: &str, of: ObjectType, mut data: Vec<u8>) -> Result<Vec<u8>> {
        if self.endian == Endian::Big {
            byteswap::byteswap(what, of, &mut data)?;
        }
        Ok(data)
    }

    fn check_block(&self, offset: u64, bytes: u64) -> Result<()> {
        let most = if self.features.contains(Features::LARGE_BLOCKS) { MAX_BLOCK_BYTES } else { OLD_MAX_BLOCK_BYTES };
        match (1..=most).contains(&bytes) && offset.checked_add(bytes).is_some() {
            true => Ok(()),
            false => Err(bad(format!("{bytes} bytes at {offset}"))),
        }
    }
}

pub(super) fn is_packed(compression: u8) -> bool {
    compression != 0 && compression != Compression::Off.to_raw()
}

/// Decompresses a block. Rejects one that does not decompress to its size, so that no later read
/// fails.
pub(super) fn unpacked<P: AsRef<[u8]> + Into<Vec<u8>>>(compression: u8, payload: P, bytes: u64) -> Result<Vec<u8>> {
    let length = payload.as_ref().len();
    if !is_packed(compression) {
        return match length as u64 == bytes {
            true => Ok(payload.into()),
            false => Err(bad(format!("{length} bytes for a block of {bytes}"))),
        };
    }
    if bytes > MAX_BLOCK_BYTES {
        return Err(bad(format!("a block of {bytes} bytes")));
    }
    let kind = Compression::from_raw(compression)?;
    let algorithm = Algorithm::from_number(kind.to_raw())
        .ok_or_else(|| Error::unsupported("", format!("compression {}", kind.name())))?;
    let mut data = vec![0; bytes as usize];
    decompress(algorithm, payload.as_ref(), &mut data)
        .map_err(|e| bad(format!("{} block does not unpack: {e}", kind.name())))?;
    Ok(data)
}
