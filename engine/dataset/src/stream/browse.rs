//! Presents a saved stream as an object set: what it would be received as, readable without a pool.
//!
//! One pass over the stream records where in the file each block is. Dnodes and indirect blocks
//! that point to those places are then built in memory, as if the places were on a device, and all
//! code above reads them like a pool.
//!
//! ```text
//!   addresses:   [ dnodes, indirect blocks, root: in memory ][ blocks: in the stream files ]
//! ```
//!
//! Below: `object`. Above: `weir stream ls`, `cp`, `cat`.
//!
//! Invariants:
//!   * all checksums of the stream are verified before any of it is shown
//!   * memory use grows with the number of blocks (about 200 bytes each), not with their contents

use super::{Packet, Reader};
use block::Store;
use errors::{Error, Place, Result};
use host::device::Device;
use object::ObjectSet;
use ondisk::blkptr::{self, MAX_BLOCK_BYTES};
use ondisk::dnode::{BLOCK_BYTES, SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::objset::ZilHeader;
use ondisk::send_record::{Begin, Body, Features, ObjectRecord, RECORD_BYTES};
use ondisk::{BlkPtr, Checksum, Compression, Dnode, Dva, Endian, NewBlock, ObjectType, Objset, ObjsetKind, Txg};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Bytes before the first block of a device: labels and boot block (`VDEV_LABEL_START_SIZE`).
const LABELS_BYTES: u64 = ondisk::label::START_BYTES;
/// First address in the files. Lower addresses are in memory.
const FILES_AT: u64 = 1 << 40;
/// Largest object number of the format (`DN_MAX_OBJECT`).
const OBJECT_MAX: u64 = 1 << 48;
/// Bytes of the root block (`OBJSET_PHYS_SIZE_V2`).
const ROOT_BYTES: usize = 2048;
/// Cache size for data that was read.
const CACHE_BYTES: u64 = 64 << 20;
/// OBJECT: the object has a spill block. SPILL: the block did not change. BEGIN: the other two are
/// meaningful.
const SPILL_FLAG: u8 = 4;
const SPILL_FLAGS_COUNT: u32 = 8;
const READ_BYTES: usize = 1 << 20;

/// A snapshot in a stream.
pub struct Saved {
    /// The BEGIN record of its stream.
    pub begin: Begin,
    pub set: Arc<ObjectSet>,
}

/// The location of a block.
#[derive(Clone)]
enum At {
    /// In file `file`, possibly compressed.
    File { file: usize, offset: u64, bytes: u64, compression: Compression },
    /// In the stream's record, as in an embedded block pointer.
    Embedded { payload: Vec<u8>, compression: Compression },
}

#[derive(Clone)]
struct Piece {
    at: At,
    logical_bytes: u64,
}

#[derive(Clone)]
struct SavedObject {
    record: ObjectRecord,
    bonus: Vec<u8>,
    /// Keyed by block number.
    blocks: BTreeMap<u64, Piece>,
    spill: Option<Piece>,
}

/// The contents of one dataset read so far.
#[derive(Clone)]
struct State {
    begin: Begin,
    endian: Endian,
    objects: BTreeMap<u64, SavedObject>,
}

/// Opens snapshot `wanted` (`pool/dataset@snapshot`, or the part after the `@`) of saved streams,
/// each of which continues from the end of an earlier one; `None`: the last snapshot of the first
/// dataset.
pub fn open(files: &[Arc<dyn Device>], wanted: Option<&str>) -> Result<Saved> {
    let mut states: Vec<State> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        if let Some(found) = read_all(&mut states, number, file, wanted).at(file.name())? {
            return build(files, &states[found]).at(file.name());
        }
    }
    let place = || files.first().map_or_else(String::new, |file| file.name().to_owned());
    if let Some(wanted) = wanted {
        return Err(Error::not_found(place(), format!("snapshot {wanted}")));
    }
    let state = states.first().ok_or_else(|| Error::invalid(place(), "no stream is in it"))?;
    build(files, state).at_with(place)
}

/// Reads a file to its end, or to the end of the wanted snapshot.
fn read_all(
    states: &mut Vec<State>,
    number: usize,
    file: &Arc<dyn Device>,
    wanted: Option<&str>,
) -> Result<Option<usize>> {
    let mut reader = Reader::new(BufReader::with_capacity(READ_BYTES, Sequence { device: file.clone(), offset: 0 }));
    let mut at: Option<usize> = None;
    while let Some(packet) = reader.next_record()? {
        let offset = packet.offset;
        match &packet.record.body {
            // The list of a package is not needed: its streams contain everything.
            Body::Begin(begin) if begin.header_type == Begin::PACKAGE => {}
            Body::Begin(begin) => {
                at = Some(follow(states, begin).at_with(|| format!("stream at byte {offset}"))?);
            }
            Body::End { .. } => {
                if let Some(at) = at.take()
                    && wanted.is_some_and(|wanted| is_wanted(&states[at].begin, wanted))
                {
                    return Ok(Some(at));
                }
            }
            _ => {
                let at =
                    at.ok_or_else(|| Error::corrupt(format!("record at byte {offset}"), "no BEGIN is before it"))?;
                states[at].apply(&packet, number).at_with(|| format!("record at byte {offset}"))?;
            }
        }
        if let (Some(at), Some(endian)) = (at, reader.endian()) {
            states[at].endian = endian;
        }
    }
    if !reader.is_whole() {
        return Err(Error::corrupt("", "the stream ends without an END record"));
    }
    Ok(None)
}

fn dataset_of(begin: &Begin) -> &[u8] {
    begin.to_name.split(|b| *b == b'@').next().unwrap_or_default()
}

fn is_wanted(begin: &Begin, wanted: &str) -> bool {
    let short = begin.to_name.iter().position(|b| *b == b'@').map(|at| &begin.to_name[at + 1..]);
    begin.to_name == wanted.as_bytes() || short == Some(wanted.trim_start_matches('@').as_bytes())
}

/// Returns the index of the state that a stream changes: an existing one, or a copy for a clone.
fn follow(states: &mut Vec<State>, begin: &Begin) -> Result<usize> {
    if begin.features.intersects(Features::RAW | Features::DEDUP | Features::REDACTED | Features::RESUMING) {
        return Err(Error::unsupported("", "looking into raw, deduplicated, redacted and resumed streams"));
    }
    let new = |objects| State { begin: begin.clone(), endian: Endian::Little, objects };
    if begin.from_guid == 0 {
        states.push(new(BTreeMap::new()));
        return Ok(states.len() - 1);
    }
    let Some(at) = states.iter().position(|state| state.begin.to_guid == begin.from_guid) else {
        let what =
            format!("it is based on a snapshot (guid {:#x}) that is not in the preceding streams", begin.from_guid);
        return Err(Error::invalid("", what));
    };
    if dataset_of(&states[at].begin) == dataset_of(begin) {
        states[at].begin = begin.clone();
        return Ok(at);
    }
    // A clone: others may still need the state of its origin.
    let objects = states[at].objects.clone();
    states.push(new(objects));
    Ok(states.len() - 1)
}

impl State {
    fn apply(&mut self, packet: &Packet<'_>, file: usize) -> Result<()> {
        let offset = packet.offset + RECORD_BYTES as u64;
        let bytes = packet.payload.len() as u64;
        match &packet.record.body {
            Body::Object(record) => self.object(*record, packet.payload),
            Body::FreeObjects { first, count, .. } => {
                let end = first.saturating_add(*count);
                let gone: Vec<u64> = self.objects.range(*first..end).map(|(id, _)| *id).collect();
                gone.iter().for_each(|id| drop(self.objects.remove(id)));
                Ok(())
            }
            Body::Write(write) => {
                let compression = match write.compression {
                    0 => Compression::Off,
                    raw => Compression::from_raw(raw)?,
                };
                let at = At::File { file, offset, bytes, compression };
                self.block(write.object, write.offset, Piece { at, logical_bytes: write.logical_bytes })
            }
            Body::WriteEmbedded(write) => {
                let payload = packet.payload.get(..write.physical_bytes as usize).unwrap_or_default().to_vec();
                let at = At::Embedded { payload, compression: Compression::from_raw(write.compression)? };
                // OpenZFS 2.3 sends an embedded spill block as data, at the offset of a block
                // numbered -2.
                let object = self.known(write.object)?;
                let sizes = [u64::from(write.logical_bytes), object.record.block_bytes.into()];
                let is_spill = sizes.iter().any(|size| write.offset == size.wrapping_mul(2).wrapping_neg());
                if is_spill && object.record.flags & SPILL_FLAG != 0 {
                    object.spill = Some(Piece { at, logical_bytes: write.logical_bytes.into() });
                    return Ok(());
                }
                self.block(write.object, write.offset, Piece { at, logical_bytes: write.length })
            }
            Body::Free { object, offset, length, .. } => {
                if let Some(object) = self.objects.get_mut(object) {
                    let size = u64::from(object.record.block_bytes).max(1);
                    let end = offset.saturating_add(*length).div_ceil(size);
                    let gone: Vec<u64> = object.blocks.range(offset / size..end).map(|(id, _)| *id).collect();
                    gone.iter().for_each(|id| drop(object.blocks.remove(id)));
                }
                Ok(())
            }
            Body::Spill(spill) => {
                let is_old = self.begin.flags & SPILL_FLAGS_COUNT != 0 && spill.flags & SPILL_FLAG != 0;
                let at = At::File { file, offset, bytes, compression: Compression::Off };
                let piece = Piece { at, logical_bytes: spill.length };
                check_size(piece.logical_bytes, bytes)?;
                let object = self.known(spill.object)?;
                // The block did not change; if the stream before omitted it, it is still needed.
                if !is_old || object.spill.is_none() {
                    object.spill = Some(piece);
                }
                Ok(())
            }
            Body::WriteByRef(_) | Body::ObjectRange { .. } | Body::Redact { .. } => {
                Err(Error::unsupported("", "records of raw, deduplicated or redacted streams"))
            }
            Body::Begin(_) | Body::End { .. } => Ok(()),
        }
    }

    fn known(&mut self, object: u64) -> Result<&mut SavedObject> {
        self.objects.get_mut(&object).ok_or_else(|| Error::corrupt("", format!("object {object} did not exist before")))
    }

    fn object(&mut self, record: ObjectRecord, bonus: &[u8]) -> Result<()> {
        let slots = u64::from(record.slots.max(1));
        let fits = record.object % SLOTS_PER_BLOCK + slots <= SLOTS_PER_BLOCK;
        if record.object == 0 || record.object >= OBJECT_MAX || !fits {
            return Err(Error::corrupt("", format!("object {} of {slots} slots", record.object)));
        }
        check_size(record.block_bytes.into(), record.block_bytes.into())?;
        let bonus = bonus.get(..record.bonus_bytes as usize).unwrap_or_default().to_vec();
        let mut object = SavedObject { record, bonus, blocks: BTreeMap::new(), spill: None };
        if let Some(before) = self.objects.remove(&record.object)
            && before.record.object_type == record.object_type
            && before.record.block_bytes == record.block_bytes
        {
            object.blocks = before.blocks;
            let keeps = self.begin.flags & SPILL_FLAGS_COUNT == 0 || record.flags & SPILL_FLAG != 0;
            object.spill = before.spill.filter(|_| keeps);
        }
        self.objects.insert(record.object, object);
        Ok(())
    }

    fn block(&mut self, object: u64, offset: u64, piece: Piece) -> Result<()> {
        if let At::File { bytes, .. } = &piece.at {
            check_size(piece.logical_bytes, *bytes)?;
        }
        let object = self.known(object)?;
        let size = u64::from(object.record.block_bytes);
        // A large block that was split ends with a shorter piece.
        let is_cut = piece.logical_bytes < size && piece.is_plain();
        if (piece.logical_bytes != size && !is_cut) || !offset.is_multiple_of(size) {
            let what = format!("inspecting streams whose block sizes changed ({} in {size})", piece.logical_bytes);
            return Err(Error::unsupported("", what));
        }
        object.blocks.insert(offset / size, piece);
        Ok(())
    }
}

/// Checks that sizes are valid for blocks: whole sectors, at most 16 MiB.
fn check_size(logical_bytes: u64, bytes: u64) -> Result<()> {
    let good = |n: u64| n > 0 && n <= MAX_BLOCK_BYTES && n.is_multiple_of(512);
    match good(logical_bytes) && good(bytes) {
        true => Ok(()),
        false => Err(Error::corrupt("", format!("a block of {bytes} bytes for {logical_bytes}"))),
    }
}

/// Builds blocks in memory and assigns addresses to blocks in the files.
struct Places<'a> {
    files: &'a [Arc<dyn Device>],
    endian: Endian,
    memory: Vec<u8>,
    /// Address, file, offset, bytes; sorted by address.
    extents: Vec<(u64, usize, u64, u64)>,
    next: u64,
}

impl Places<'_> {
    fn pointer(
        &self,
        kind: ObjectType,
        level: u8,
        logical: u64,
        stored: u64,
        compression: Compression,
        at: u64,
    ) -> BlkPtr {
        let mut bp = BlkPtr::new_block(&NewBlock {
            object_type: kind,
            level,
            lsize_bytes: logical,
            psize_bytes: stored,
            compression,
            // The stream's own checksums were already verified.
            checksum: Checksum::Off,
        });
        bp.set_dva(0, Dva { vdev: 0, offset_bytes: at, asize_bytes: stored, is_gang: false });
        bp.set_birth(Txg(1), Txg(1));
        bp.set_fill(1);
        self.in_order(bp)
    }

    /// Converts the pointer of a block whose numbers are in the stream's byte order.
    fn in_order(&self, bp: BlkPtr) -> BlkPtr {
        let mut words = *bp.words();
        if self.endian == Endian::Big {
            words[6] &= !(1 << 63);
        }
        BlkPtr::from_words(words)
    }

    /// Adds a block built in memory.
    fn made(&mut self, kind: ObjectType, level: u8, block: &[u8]) -> BlkPtr {
        let at = self.memory.len() as u64;
        self.memory.extend_from_slice(block);
        let bytes = block.len() as u64;
        self.pointer(kind, level, bytes, bytes, Compression::Off, at)
    }

    /// Adds a block of the stream, `bytes` long.
    fn of(&mut self, kind: ObjectType, piece: &Piece, bytes: u64) -> Result<BlkPtr> {
        Ok(match &piece.at {
            At::File { file, offset, .. } if piece.logical_bytes < bytes => {
                let mut block = vec![0; bytes as usize];
                let device = &self.files[*file];
                let read = device.read_at(*offset, &mut block[..piece.logical_bytes as usize]);
                read.map_err(|e| Error::io(device.name(), e))?;
                self.made(kind, 0, &block)
            }
            At::Embedded { payload, compression } => {
                let bp = BlkPtr::new_embedded(kind, 0, *compression, piece.logical_bytes, payload, Txg(1));
                self.in_order(bp)
            }
            At::File { file, offset, bytes, compression } => {
                let at = self.next;
                self.extents.push((at, *file, *offset, *bytes));
                self.next += bytes;
                self.pointer(kind, 0, piece.logical_bytes, *bytes, *compression, at)
            }
        })
    }

    /// Builds a tree over blocks by number. Returns its top, its levels, and log2 of the size of
    /// its indirect blocks.
    fn tree(&mut self, kind: ObjectType, mut level: Vec<(u64, BlkPtr)>) -> (BlkPtr, u8, u8) {
        let last = level.last().map_or(0, |(number, _)| *number);
        // Small objects use small indirect blocks.
        let shift = (u64::BITS - last.leading_zeros() + blkptr::SIZE_BYTES.ilog2()).clamp(10, 17) as u8;
        let per_block = 1u64 << (u32::from(shift) - blkptr::SIZE_BYTES.ilog2());
        let (mut levels, mut reach) = (1u8, 1u64);
        while reach <= last {
            let mut above = Vec::new();
            let mut rest = level.as_slice();
            while let Some((number, _)) = rest.first() {
                let parent = number / per_block;
                let count = rest.iter().take_while(|(n, _)| n / per_block == parent).count();
                let mut block = vec![0; 1 << shift];
                for (n, bp) in &rest[..count] {
                    let at = (n % per_block) as usize * blkptr::SIZE_BYTES;
                    block[at..at + blkptr::SIZE_BYTES].copy_from_slice(&bp.to_bytes(self.endian));
                }
                above.push((parent, self.made(kind, levels, &block)));
                rest = &rest[count..];
            }
            level = above;
            levels += 1;
            reach = reach.saturating_mul(per_block);
        }
        (level.first().map_or(BlkPtr::HOLE, |(_, bp)| *bp), levels, shift)
    }
}

fn build(files: &[Arc<dyn Device>], state: &State) -> Result<Saved> {
    let endian = state.endian;
    let mut places = Places { files, endian, memory: Vec::new(), extents: Vec::new(), next: FILES_AT };
    let mut dnode_blocks: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (id, object) in &state.objects {
        let dnode = object.dnode(&mut places).and_then(|dnode| Ok(dnode.to_bytes()?));
        let dnode = dnode.at_with(|| format!("object {id}"))?;
        let block = dnode_blocks.entry(id / SLOTS_PER_BLOCK).or_insert_with(|| vec![0; BLOCK_BYTES]);
        let at = (id % SLOTS_PER_BLOCK) as usize * SLOT_BYTES;
        block[at..at + dnode.len()].copy_from_slice(&dnode);
    }
    let pointers = dnode_blocks.iter().map(|(number, block)| (*number, places.made(ObjectType::DNODE, 0, block)));
    let pointers: Vec<_> = pointers.collect();
    let max_block_id = pointers.last().map_or(0, |(number, _)| *number);
    let (top, levels, indirect_shift) = places.tree(ObjectType::DNODE, pointers);
    let meta_dnode = Dnode {
        object_type: ObjectType::DNODE,
        indirect_shift,
        levels,
        blkptrs: vec![top],
        bonus_type: ObjectType::NONE,
        checksum: 0,
        compression: 0,
        flags: 0,
        data_block_bytes: BLOCK_BYTES as u32,
        slots: 1,
        max_block_id,
        used_bytes: 0,
        bonus: Vec::new(),
        bonus_rest: Vec::new(),
        spill: None,
        endian,
    };
    let kind = match state.begin.objset_type {
        2 => ObjsetKind::FileSystem,
        3 => ObjsetKind::Volume,
        other => return Err(Error::unsupported("", format!("looking into object sets of type {other}"))),
    };
    let root = Objset {
        meta_dnode,
        zil: ZilHeader::EMPTY,
        kind,
        flags: 0,
        portable_mac: [0; 32],
        local_mac: [0; 32],
        user_used: None,
        group_used: None,
        project_used: None,
        endian,
    };
    let root = places.made(ObjectType::OBJSET, 0, &root.to_bytes(ROOT_BYTES)?);
    let name = files.first().map_or_else(String::new, |file| file.name().to_owned());
    let Places { memory, extents, next, .. } = places;
    let device = Synthetic { name: name.clone(), files: files.to_vec(), memory, extents, end: next };
    let store = Store::over(name, Arc::new(device), CACHE_BYTES);
    // Any number except that of a pool's own objects.
    let set = ObjectSet::open(store, &root, 1, None)?;
    Ok(Saved { begin: state.begin.clone(), set })
}

impl SavedObject {
    fn dnode(&self, places: &mut Places) -> Result<Dnode> {
        let record = &self.record;
        let kind = u8::try_from(record.object_type).map(ObjectType).unwrap_or(ObjectType::NONE);
        let bonus_type = u8::try_from(record.bonus_type).map(ObjectType).unwrap_or(ObjectType::NONE);
        if !kind.is_valid() || kind == ObjectType::NONE {
            return Err(Error::corrupt("", format!("it is of type {}", record.object_type)));
        }
        let size = record.block_bytes.into();
        let pointers: Vec<_> = self
            .blocks
            .iter()
            .map(|(number, piece)| Ok((*number, places.of(kind, piece, size)?)))
            .collect::<Result<_>>()?;
        let max_block_id = pointers.last().map_or(0, |(number, _)| *number);
        let (top, levels, indirect_shift) = places.tree(kind, pointers);
        Ok(Dnode {
            object_type: kind,
            indirect_shift,
            levels,
            blkptrs: vec![top],
            bonus_type,
            checksum: record.checksum,
            compression: record.compression,
            flags: 0,
            data_block_bytes: record.block_bytes,
            slots: record.slots.max(1),
            max_block_id,
            used_bytes: self.blocks.values().chain(&self.spill).map(Piece::stored_bytes).sum(),
            bonus: self.bonus.clone(),
            bonus_rest: Vec::new(),
            spill: self.spill.as_ref().map(|p| places.of(ObjectType::SA, p, p.logical_bytes)).transpose()?,
            endian: places.endian,
        })
    }
}

impl Piece {
    fn is_plain(&self) -> bool {
        matches!(&self.at, At::File { compression: Compression::Off, .. })
    }

    fn stored_bytes(&self) -> u64 {
        match &self.at {
            At::File { bytes, .. } => *bytes,
            At::Embedded { .. } => 0,
        }
    }
}

/// The synthetic device that the block pointers refer to.
struct Synthetic {
    name: String,
    files: Vec<Arc<dyn Device>>,
    memory: Vec<u8>,
    extents: Vec<(u64, usize, u64, u64)>,
    end: u64,
}

impl Device for Synthetic {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let at = offset.checked_sub(LABELS_BYTES).ok_or_else(missing)?;
        if at < FILES_AT {
            let start = usize::try_from(at).map_err(|_| missing())?;
            let end = start.checked_add(buf.len()).ok_or_else(missing)?;
            buf.copy_from_slice(self.memory.get(start..end).ok_or_else(missing)?);
            return Ok(());
        }
        let i = self.extents.partition_point(|extent| extent.0 <= at).checked_sub(1).ok_or_else(missing)?;
        let (first, file, begin, bytes) = self.extents[i];
        let within = at - first;
        if within + buf.len() as u64 > bytes {
            return Err(missing());
        }
        self.files[file].read_at(begin + within, buf)
    }

    fn size_bytes(&self) -> u64 {
        // Round up to a whole label, plus two labels after the end.
        (LABELS_BYTES + self.end).next_multiple_of(1 << 20) + (1 << 20)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Reads a file sequentially from its start.
struct Sequence {
    device: Arc<dyn Device>,
    offset: u64,
}

impl Read for Sequence {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.device.size_bytes().saturating_sub(self.offset);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.device.read_at(self.offset, &mut buf[..n])?;
        self.offset += n as u64;
        Ok(n)
    }
}
