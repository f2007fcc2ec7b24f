//! Walks everything born since the base: dnodes, and the blocks and holes of each object, in stream
//! order.
//!
//! Facts: module/zfs/dmu_traverse.c, `send_cb` in module/zfs/dmu_send.c.
//!
//! Holes without a birth txg are always sent, because it is unknown when they were made
//! (`send_holes_without_birth_time`, OpenZFS's default).

use super::Resume;
use block::Block;
use block::Bookmark;
use block::crypt::DatasetKeys;
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::dnode::{CORE_BYTES, SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, blkptr};

/// Block number of the spill block (`DMU_SPILL_BLKID`).
pub(crate) const SPILL: u64 = u64::MAX - 1;
/// Indirect blocks and blocks of dnodes to prefetch. OpenZFS: 32.
const METADATA_AHEAD: u64 = 32;

/// A step of the walk.
pub(crate) enum Step {
    /// A block of dnodes.
    Range { first: u64, bp: BlkPtr },
    /// An object; `None`: its number is free.
    Object { id: u64, dnode: Option<Box<SentDnode>>, endian: Endian },
    /// A block of an object, or its spill block.
    Data(DataStep),
    /// Missing blocks `start` to `end`; for object 0, blocks of dnodes.
    Hole { object: u64, start: u64, end: u64, block_bytes: u64 },
    /// Blocks `start` to `end` that are left out of a redacted stream.
    Redact { object: u64, start: u64, end: u64, block_bytes: u64 },
}

#[derive(Clone, Copy)]
pub(crate) struct DataStep {
    pub object: u64,
    pub object_type: ObjectType,
    /// The block number, or [`SPILL`].
    pub block: u64,
    pub bytes: u64,
    pub bp: BlkPtr,
}

/// The parts of a dnode that a stream contains.
pub(crate) struct SentDnode {
    pub dnode: Dnode,
    /// The record's payload; `dn_bonuslen`, `dn_flags` and the like are in `dnode`.
    pub bonus: Vec<u8>,
}

/// The properties of an object that describe its blocks.
#[derive(Clone, Copy)]
struct Shape {
    id: u64,
    object_type: ObjectType,
    indirect_shift: u8,
    max_block: u64,
    block_bytes: u64,
}

impl Shape {
    fn of(id: u64, dnode: &Dnode) -> Self {
        Self {
            id,
            object_type: dnode.object_type,
            indirect_shift: dnode.indirect_shift,
            max_block: dnode.max_block_id,
            block_bytes: dnode.data_block_bytes.into(),
        }
    }

    /// Number of blocks under a block of `level`; `None` if it exceeds the largest block number.
    fn span(&self, level: u8) -> Option<u64> {
        let bits = u32::from(self.indirect_shift).saturating_sub(blkptr::SIZE_BYTES.ilog2()) * u32::from(level);
        1u64.checked_shl(bits)
    }
}

pub(crate) struct Walk<'a> {
    pub set: &'a ObjectSet,
    pub root: &'a BlkPtr,
    pub from_txg: u64,
    pub is_raw: bool,
    pub is_encrypted: bool,
    pub endian: Endian,
    pub resume: Option<Resume>,
    /// Visits holes past the end of an object too: truncation makes them.
    pub holes_past_end: bool,
    pub sink: &'a mut dyn FnMut(Step) -> Result<()>,
}

impl Walk<'_> {
    pub(crate) fn run(&mut self) -> Result<()> {
        if self.root.logical_birth().0 <= self.from_txg {
            return Ok(());
        }
        let meta = self.set.meta().dnode().clone();
        let shape = Shape::of(0, &meta);
        let top = meta.levels.saturating_sub(1);
        for (i, bp) in meta.blkptrs.iter().enumerate() {
            self.visit(&shape, bp, top, i as u64)?;
        }
        Ok(())
    }

    fn bookmark(&self, shape: &Shape, level: u8, block: u64) -> Bookmark {
        Bookmark { objset: self.set.id(), object: shape.id, level: level.into(), blkid: block }
    }

    fn keys(&self) -> Option<&DatasetKeys> {
        self.set.keys().map(|keys| &**keys)
    }

    fn is_new(&self, bp: &BlkPtr) -> bool {
        let birth = bp.logical_birth().0;
        birth == 0 || birth > self.from_txg
    }

    /// Whether everything below was sent before the stream was interrupted.
    fn is_sent(&self, shape: &Shape, level: u8, block: u64) -> bool {
        let Some(resume) = self.resume else { return false };
        let end = shape.span(level).and_then(|span| block.checked_add(1)?.checked_mul(span));
        if shape.id == 0 {
            return end.and_then(|end| end.checked_mul(SLOTS_PER_BLOCK)).is_some_and(|end| end <= resume.object);
        }
        shape.id < resume.object
            || (shape.id == resume.object
                && block != SPILL
                && end.is_some_and(|end| end <= resume.offset / shape.block_bytes.max(1)))
    }

    fn visit(&mut self, shape: &Shape, bp: &BlkPtr, level: u8, block: u64) -> Result<()> {
        if self.is_sent(shape, level, block) || !self.is_new(bp) {
            return Ok(());
        }
        if bp.is_redacted() {
            return self.absent(shape, level, block, true);
        }
        if bp.is_hole() {
            return self.absent(shape, level, block, false);
        }
        let at = self.bookmark(shape, level, block);
        if self.is_encrypted && !bp.uses_crypt() {
            return Err(Error::corrupt(format!("block {at}"), "it is not encrypted, in an encrypted dataset"));
        }
        if bp.level() != level {
            let what = format!("block pointer of level {} where level {level} was expected", bp.level());
            return Err(Error::corrupt(format!("block {at}"), what));
        }
        if level > 0 {
            return self.indirect(shape, bp, level, block);
        }
        if shape.id == 0 {
            return self.dnodes(bp, block);
        }
        let spill = block == SPILL;
        let bytes = if spill { bp.lsize_bytes() } else { shape.block_bytes };
        if bytes != bp.lsize_bytes() {
            let what = format!("it holds {} bytes, expected {bytes}", bp.lsize_bytes());
            return Err(Error::corrupt(format!("block {at}"), what));
        }
        if !spill && !shape.object_type.is_metadata() && block > shape.max_block {
            return Err(Error::corrupt(format!("block {at}"), format!("it is beyond the last, {}", shape.max_block)));
        }
        let is_metadata = spill || shape.object_type.is_metadata();
        if is_metadata && !self.is_raw && bp.endian() != self.endian {
            return Err(self.mixed(&at));
        }
        (self.sink)(Step::Data(DataStep { object: shape.id, object_type: shape.object_type, block, bytes, bp: *bp }))
    }

    fn mixed(&self, at: &Bookmark) -> Error {
        Error::unsupported(format!("block {at}"), "sending a dataset with metadata of both byte orders")
    }

    /// A hole, or a redacted part.
    fn absent(&mut self, shape: &Shape, level: u8, block: u64, is_redacted: bool) -> Result<()> {
        // Past the largest block number there can only be holes.
        let Some(span) = shape.span(level) else { return Ok(()) };
        let Some(start) = span.checked_mul(block).filter(|_| block != SPILL) else { return Ok(()) };
        let is_past_end = shape.id != 0 && !shape.object_type.is_metadata() && start > shape.max_block;
        if is_past_end && !self.holes_past_end {
            return Ok(());
        }
        let end = start.checked_add(span).unwrap_or(0);
        let (object, block_bytes) = (shape.id, shape.block_bytes);
        (self.sink)(match is_redacted {
            true => Step::Redact { object, start, end, block_bytes },
            false => Step::Hole { object, start, end, block_bytes },
        })
    }

    fn indirect(&mut self, shape: &Shape, bp: &BlkPtr, level: u8, block: u64) -> Result<()> {
        let at = self.bookmark(shape, level, block);
        let pointers = self.set.store().read(bp, &at, self.keys())?;
        let count = (pointers.data.len() / blkptr::SIZE_BYTES) as u64;
        if Some(count) != shape.span(1) {
            return Err(Error::corrupt(format!("block {at}"), format!("an indirect block of {count} pointers")));
        }
        let child = |i: u64| -> Result<BlkPtr> {
            BlkPtr::parse(&pointers.data[i as usize * blkptr::SIZE_BYTES..], pointers.endian)
                .at_with(|| format!("block {at}"))
        };
        // Prefetches only blocks that the walk itself reads: the readers read data, and the dnodes
        // of a raw stream bypass the cache.
        let walks_on = level > 1 || (shape.id == 0 && !self.is_raw);
        let mut prefetched = 0;
        for i in 0..count {
            while walks_on && prefetched < count.min(i + METADATA_AHEAD) {
                let ahead = child(prefetched)?;
                if !ahead.is_hole() && self.is_new(&ahead) {
                    let at = self.bookmark(shape, level - 1, block.saturating_mul(count).saturating_add(prefetched));
                    self.set.store().prefetch(&ahead, &at, self.set.keys());
                }
                prefetched += 1;
            }
            let Some(number) = block.checked_mul(count).and_then(|first| first.checked_add(i)) else { return Ok(()) };
            self.visit(shape, &child(i)?, level - 1, number)?;
        }
        Ok(())
    }

    fn dnodes(&mut self, bp: &BlkPtr, block: u64) -> Result<()> {
        let at = Bookmark { objset: self.set.id(), object: 0, level: 0, blkid: block };
        let first = block.saturating_mul(SLOTS_PER_BLOCK);
        (self.sink)(Step::Range { first, bp: *bp })?;
        let store = self.set.store();
        let dnodes = match self.is_raw {
            true => store.read_unopened(bp, &at)?,
            false => store.read(bp, &at, self.keys())?,
        };
        if !self.is_raw && dnodes.endian != self.endian {
            return Err(self.mixed(&at));
        }
        let mut slot = 0;
        while slot < SLOTS_PER_BLOCK {
            let id = first.saturating_add(slot);
            let bytes = dnodes.data.get(slot as usize * SLOT_BYTES..).unwrap_or_default();
            slot += Dnode::slots_at(bytes) as u64;
            if id != 0 && self.resume.is_none_or(|resume| id >= resume.object) {
                self.dnode(id, bytes, &dnodes).at_with(|| format!("object {id}"))?;
            }
        }
        Ok(())
    }

    fn dnode(&mut self, id: u64, bytes: &[u8], block: &Block) -> Result<()> {
        let endian = block.endian;
        let dnode = Dnode::parse(bytes, endian)?;
        if dnode.object_type == ObjectType::NONE {
            return (self.sink)(Step::Object { id, dnode: None, endian });
        }
        let shape = Shape::of(id, &dnode);
        let (top, blkptrs, spill) = (dnode.levels - 1, dnode.blkptrs.clone(), dnode.spill);
        let len = match (dnode.bonus.len(), self.is_raw) {
            (0, _) => 0,
            // The whole bonus area is encrypted, including unused bytes.
            (_, true) => dnode.bonus_bytes_max(),
            (used, false) => used.next_multiple_of(8),
        };
        let bonus_at = CORE_BYTES + blkptrs.len() * blkptr::SIZE_BYTES;
        let bonus = bytes.get(bonus_at..bonus_at + len).unwrap_or_default().to_vec();
        if bonus.len() != len {
            return Err(Error::corrupt("", "its bonus reaches beyond the block"));
        }
        (self.sink)(Step::Object { id, dnode: Some(Box::new(SentDnode { dnode, bonus })), endian })?;
        if let Some(bp) = spill
            && !bp.is_hole()
            && !self.is_new(&bp)
        {
            // Receivers from before 2019 lost the spill blocks of objects that changed, so an
            // unchanged one is sent too.
            (self.sink)(Step::Data(DataStep {
                object: id,
                object_type: shape.object_type,
                block: SPILL,
                bytes: bp.lsize_bytes(),
                bp,
            }))?;
        }
        for (i, bp) in blkptrs.iter().enumerate() {
            self.visit(&shape, bp, top, i as u64)?;
        }
        match spill {
            Some(bp) if !bp.is_hole() => self.visit(&shape, &bp, 0, SPILL),
            _ => Ok(()),
        }
    }
}
