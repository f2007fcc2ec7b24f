//! Writes lists of block pointers: creates, appends to, joins, drains and frees them.
//!
//! Below: `Object`, `ondisk::bpobj`. Above: deadlists, deferred frees. Everything runs in syncing
//! context, as for the whole MOS. ZFS names: bpobj_enqueue, bpobj_enqueue_subobj, bpobj_iterate,
//! bpobj_free.
//!
//! A list can take over another list as a whole: a small one is copied and freed, a large one
//! becomes a sub-list.
//!
//! The feature `empty_bpobj` lets everything that needs an empty list share one object. A caller
//! that stores its number counts the reference in the feature, never appends to it, and creates a
//! list of its own for the first entry. [`Bpobj`] does not know which object it is.
//!   * after each function here, the header counts what the list and its sub-lists hold
//!   * entries are stored without what freeing does not need (payload, checksum, fill count), so
//!     that lists compress well

use crate::{Bpobj, BpobjEntry, NewObject, Object, ObjectSet, Tx};
use errors::{Error, Place, Refusal, Result};
use ondisk::bpobj::{self, Header, Logical, Subobjects};
use ondisk::{BlkPtr, Endian, ObjectType, blkptr};
use std::collections::HashSet;
use std::sync::Arc;

/// Block size of lists (`SPA_OLD_MAXBLOCKSIZE`).
pub const BLOCK_BYTES: u32 = 128 << 10;
/// Entries gathered before they are written: one block. Guessed.
const BATCH: usize = BLOCK_BYTES as usize / blkptr::SIZE_BYTES;
/// Pool versions from which on headers have logical sizes, and sub-lists.
const VERSION_LOGICAL: u64 = 3;
const VERSION_SUBOBJECTS: u64 = 26;

/// An entry to append.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry {
    pub bp: BlkPtr,
    /// For a livelist: the block was freed, not born.
    pub freed: bool,
    /// Space that the block counts for, in bytes.
    pub space_bytes: u64,
}

/// The header of a new list in a pool of `version` (5000: with feature flags). With `livelists`, it
/// counts frees.
pub fn new_header(version: u64, livelists: bool) -> Header {
    Header {
        entries: 0,
        used_bytes: 0,
        logical: (version >= VERSION_LOGICAL).then(Logical::default),
        subobjects: (version >= VERSION_SUBOBJECTS).then(Subobjects::default),
        freed: livelists.then_some(0),
    }
}

/// The stored form of a pointer.
fn stored(entry: &NewEntry) -> BlkPtr {
    let mut words = *entry.bp.words();
    if entry.bp.is_embedded() {
        // Only its sizes and its birth matter.
        let (prop, birth) = (words[6], words[10]);
        words = [0; 16];
        (words[6], words[10]) = (prop, birth);
    } else if !entry.bp.is_dedup() {
        words[12..].fill(0);
    }
    words[11] = u64::from(entry.freed);
    BlkPtr::from_words(words)
}

/// Size of a block after compression; 0 if it is embedded in its pointer.
fn compressed_bytes(bp: &BlkPtr) -> u64 {
    if bp.is_embedded() { 0 } else { bp.psize_bytes() }
}

/// Size before compression. Metadata counts as if it were not compressed (`BP_GET_UCSIZE`).
fn uncompressed_bytes(bp: &BlkPtr) -> u64 {
    let is_metadata = bp.level() > 0 || bp.object_type().is_metadata();
    if is_metadata { compressed_bytes(bp) } else { bp.lsize_bytes() }
}

/// Adds (or with `sign` -1 subtracts) a block's sizes. Returns `None` on overflow.
fn count(header: &mut Header, entry: &NewEntry, sign: i64) -> Option<()> {
    let sign = if entry.freed { -sign } else { sign };
    let add = |sum: &mut u64, n: u64| {
        *sum = sum.checked_add_signed(sign * i64::try_from(n).ok()?)?;
        Some(())
    };
    add(&mut header.used_bytes, entry.space_bytes)?;
    if let Some(logical) = &mut header.logical {
        add(&mut logical.compressed_bytes, compressed_bytes(&entry.bp))?;
        add(&mut logical.uncompressed_bytes, uncompressed_bytes(&entry.bp))?;
    }
    Some(())
}

impl Bpobj {
    /// Creates an empty list for a pool with feature flags, without livelists. Returns its object
    /// number.
    pub fn create(mos: &Arc<ObjectSet>, tx: &Tx, block_bytes: u32) -> Result<u64> {
        Self::create_with(mos, tx, block_bytes, &new_header(5000, false))
    }

    /// Creates an empty list with a header from [`new_header`]. Returns its object number.
    pub fn create_with(mos: &Arc<ObjectSet>, tx: &Tx, block_bytes: u32, header: &Header) -> Result<u64> {
        let new = NewObject::new(ObjectType::BPOBJ, block_bytes)
            .with_bonus(ObjectType::BPOBJ_HDR, header.to_bytes(Endian::Little));
        Ok(mos.create_object(tx, &new)?.id())
    }

    /// Whether it has neither entries nor sub-lists.
    pub fn is_empty(&self) -> Result<bool> {
        let header = self.newest()?;
        Ok(header.entries == 0 && header.subobjects.is_none_or(|s| s.count == 0))
    }

    /// The current header; [`Bpobj::header`] is the one from when the list was opened.
    pub fn newest(&self) -> Result<Header> {
        let object = self.object().renewed()?;
        Header::parse(object.bonus(), object.endian()).at_with(|| object.place())
    }

    fn set_header(&self, tx: &Tx, header: &Header) -> Result<()> {
        self.object().set_bonus(tx, header.to_bytes(Endian::Little))
    }

    /// Sums on disk may be anything.
    fn sum(&self, sum: u64, more: u64) -> Result<u64> {
        // As many entries as fit into an object.
        sum.checked_add(more).filter(|n| *n <= u64::MAX / blkptr::SIZE_BYTES as u64).ok_or_else(|| self.miscounted())
    }

    fn miscounted(&self) -> Error {
        Error::corrupt(self.object().place(), "bpobj: its sums are not those of what it holds")
    }

    /// Appends a block that counts for `space_bytes`.
    pub fn append(&self, tx: &Tx, bp: &BlkPtr, freed: bool, space_bytes: u64) -> Result<()> {
        self.append_all(tx, [NewEntry { bp: *bp, freed, space_bytes }])
    }

    /// Appends blocks, and updates the header once. Holes are refused, as are frees in a list that
    /// does not count them.
    pub fn append_all(&self, tx: &Tx, entries: impl IntoIterator<Item = NewEntry>) -> Result<()> {
        let _alone = self.object().lock_contents()?;
        let mut header = self.newest()?;
        let before = header;
        let (mut batch, mut begun) = (Vec::new(), header.entries);
        for entry in entries {
            if entry.bp.is_hole() {
                return Err(Error::invalid(self.object().place(), "bpobj: a hole is appended"));
            }
            if entry.freed && header.freed.is_none() {
                return Err(Error::invalid(self.object().place(), "bpobj: a free is appended to a list without frees"));
            }
            count(&mut header, &entry, 1).ok_or_else(|| self.miscounted())?;
            header.entries = self.sum(header.entries, 1)?;
            header.freed = header.freed.map(|n| self.sum(n, entry.freed.into())).transpose()?;
            batch.extend_from_slice(&stored(&entry).to_bytes(Endian::Little));
            if batch.len() == BATCH * blkptr::SIZE_BYTES {
                put_words(self.object(), tx, begun * blkptr::SIZE_BYTES as u64, &batch)?;
                (begun, batch) = (header.entries, Vec::new());
            }
        }
        put_words(self.object(), tx, begun * blkptr::SIZE_BYTES as u64, &batch)?;
        if header == before { Ok(()) } else { self.set_header(tx, &header) }
    }

    /// Takes over everything in list `id`, which the caller no longer owns: it becomes a sub-list,
    /// or is freed.
    ///
    /// `id` must not be the shared empty list.
    pub fn append_sub(&self, mos: &Arc<ObjectSet>, tx: &Tx, id: u64) -> Result<()> {
        if id == self.object().id() {
            return Err(Error::invalid(self.object().place(), "bpobj: a list is added to itself"));
        }
        let other = Self::open(mos, id)?;
        if other.is_empty()? {
            return Self::free(mos, tx, id);
        }
        let mut header = self.newest()?;
        let (Some(_), Some(mut subs)) = (header.logical, header.subobjects) else {
            return Err(Error::unsupported(self.object().place(), "sub-lists in a pool older than version 26"));
        };
        let added = *other.header();
        // A list with one block of sub-lists or entries is copied, so that lists do not nest ever
        // deeper.
        let below = added.subobjects.filter(|s| s.object != 0);
        let below = below.map(|s| Ok::<_, Error>((s, mos.object(s.object)?))).transpose()?;
        let copies_subs = below.as_ref().is_none_or(|(_, list)| list.max_block_id() == 0);
        let copies_entries = copies_subs && other.object().max_block_id() == 0;
        let mut ids = if copies_subs { other.sub_lists(mos)? } else { Vec::new() };
        let entries = if copies_entries { other.stored_entries()? } else { Vec::new() };

        let _alone = self.object().lock_contents()?;
        if copies_subs && let Some((_, list)) = &below {
            let kept = Header { subobjects: Some(Subobjects::default()), ..added };
            other.set_header(tx, &kept)?;
            mos.free_object(tx, list.id())?;
        }
        if copies_entries {
            put_words(self.object(), tx, header.entries * blkptr::SIZE_BYTES as u64, &entries)?;
            header.entries = self.sum(header.entries, added.entries)?;
            header.freed = header.freed.map(|n| self.sum(n, added.freed.unwrap_or(0))).transpose()?;
            mos.free_object(tx, id)?;
        } else {
            ids.push(id);
        }
        if !ids.is_empty() {
            if subs.object == 0 {
                subs.object = mos.create_object(tx, &NewObject::new(ObjectType::BPOBJ_SUBOBJ, BLOCK_BYTES))?.id();
            }
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            put_words(&mos.object(subs.object)?, tx, subs.count * 8, &bytes)?;
            subs.count = self.sum(subs.count, ids.len() as u64)?;
        }
        header.subobjects = Some(subs);
        header.used_bytes = header.used_bytes.checked_add(added.used_bytes).ok_or_else(|| self.miscounted())?;
        header.logical = header.logical.map(|l| Logical {
            compressed_bytes: l.compressed_bytes.wrapping_add(added.logical.map_or(0, |a| a.compressed_bytes)),
            uncompressed_bytes: l.uncompressed_bytes.wrapping_add(added.logical.map_or(0, |a| a.uncompressed_bytes)),
        });
        self.set_header(tx, &header)
    }

    /// The bytes of the list's own entries, which must all be in its first block.
    fn stored_entries(&self) -> Result<Vec<u8>> {
        let len = self.header().entries.saturating_mul(blkptr::SIZE_BYTES as u64);
        if len > self.object().block_bytes() {
            let what = format!("bpobj: {} entries in one block", self.header().entries);
            return Err(Error::corrupt(self.object().place(), what));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        if let Some(block) = self.object().block(0)? {
            for word in block.data[..len as usize].chunks_exact(8) {
                bytes.extend_from_slice(&block.endian.u64(word).to_le_bytes());
            }
        }
        bytes.resize(len as usize, 0);
        Ok(bytes)
    }

    /// Frees a list and all its sub-lists, but not the blocks in them.
    pub fn free(mos: &Arc<ObjectSet>, tx: &Tx, id: u64) -> Result<()> {
        // All sub-lists are collected before the first is freed, so that a damaged list stays
        // intact.
        let (mut queue, mut lists, mut objects) = (vec![id], HashSet::from([id]), vec![id]);
        while let Some(id) = queue.pop() {
            let list = Self::open(mos, id)?;
            for sub in list.sub_lists(mos)? {
                if !lists.insert(sub) {
                    let what = format!("bpobj: sub-list {sub} is listed twice");
                    return Err(Error::corrupt(list.object().place(), what));
                }
                queue.push(sub);
                objects.push(sub);
            }
            objects.extend(list.header().subobjects.map(|s| s.object).filter(|o| *o != 0));
        }
        objects.iter().try_for_each(|id| mos.free_object(tx, *id))
    }

    /// Removes entries from the end while `take` returns true; the entry for which it returns false
    /// stays. Sub-lists that become empty are freed. `take` must not change the lists drained here.
    /// `space_bytes` returns the space that a block counts for. Returns whether the list is empty
    /// now.
    pub fn drain(
        &self,
        mos: &Arc<ObjectSet>,
        tx: &Tx,
        space_bytes: &dyn Fn(&BlkPtr) -> u64,
        take: &mut dyn FnMut(BpobjEntry) -> Result<bool>,
    ) -> Result<bool> {
        // The lists from this one down to the one being drained: each is the last sub-list of the
        // one before.
        let mut path = vec![self.clone()];
        let mut seen = HashSet::from([self.object().id()]);
        while let Some(list) = path.last().cloned() {
            let mut gone =
                Header { entries: 0, used_bytes: 0, logical: Some(Logical::default()), ..new_header(0, false) };
            let result = list.drain_own(tx, space_bytes, take, &mut gone);
            for holder in &path {
                let mut header = holder.newest()?;
                header.used_bytes = header.used_bytes.wrapping_sub(gone.used_bytes);
                if let (Some(logical), Some(gone)) = (&mut header.logical, gone.logical) {
                    logical.compressed_bytes = logical.compressed_bytes.wrapping_sub(gone.compressed_bytes);
                    logical.uncompressed_bytes = logical.uncompressed_bytes.wrapping_sub(gone.uncompressed_bytes);
                }
                holder.set_header(tx, &header)?;
            }
            if !result? {
                return Ok(false);
            }
            let header = list.newest()?;
            match header.subobjects.filter(|s| s.count > 0) {
                Some(subs) => {
                    let last = mos.object(subs.object)?.read_words(subs.count)?.last().copied().unwrap_or(0);
                    if !seen.insert(last) {
                        let what = format!("bpobj: sub-list {last} is listed twice");
                        return Err(Error::corrupt(list.object().place(), what));
                    }
                    path.push(Self::open(mos, last)?);
                }
                None => {
                    path.pop();
                    if let Some(empty) = header.subobjects.filter(|s| s.object != 0) {
                        mos.free_object(tx, empty.object)?;
                        list.set_header(tx, &Header { subobjects: Some(Subobjects::default()), ..header })?;
                    }
                    let Some(holder) = path.last() else { break };
                    let mut header = holder.newest()?;
                    let Some(subs) = &mut header.subobjects else { break };
                    subs.count -= 1;
                    mos.object(subs.object)?.punch(tx, subs.count * 8, 8)?;
                    holder.set_header(tx, &header)?;
                    mos.free_object(tx, list.object().id())?;
                }
            }
        }
        Ok(true)
    }

    /// Removes this list's own entries, and adds what they counted for to `gone`.
    fn drain_own(
        &self,
        tx: &Tx,
        space_bytes: &dyn Fn(&BlkPtr) -> u64,
        take: &mut dyn FnMut(BpobjEntry) -> Result<bool>,
        gone: &mut Header,
    ) -> Result<bool> {
        let _alone = self.object().lock_contents()?;
        let mut header = self.newest()?;
        let per_block = (self.object().block_bytes() / blkptr::SIZE_BYTES as u64).max(1);
        let mut result = Ok(true);
        let before = header.entries;
        'blocks: while header.entries > 0 {
            let (blkid, within) = ((header.entries - 1) / per_block, (header.entries - 1) % per_block);
            let Some(block) = self.object().block(blkid)? else {
                result = Err(Error::corrupt(self.object().place(), format!("bpobj: block {blkid} is a hole")));
                break;
            };
            let entries: Vec<BlkPtr> = bpobj::entries(&block.data, block.endian).take(within as usize + 1).collect();
            for bp in entries.into_iter().rev() {
                let freed = header.freed.is_some() && bpobj::is_freed(&bp);
                match take(BpobjEntry { bp, freed }) {
                    Ok(true) => {}
                    other => {
                        result = other;
                        break 'blocks;
                    }
                }
                header.entries -= 1;
                header.freed = header.freed.map(|n| n.saturating_sub(u64::from(freed)));
                // Frees count negatively, so `gone` may become negative.
                let (sign, space) = (if freed { -1i64 } else { 1 }, space_bytes(&bp));
                let add = |sum: u64, n: u64| sum.wrapping_add_signed(sign.wrapping_mul(n as i64));
                gone.used_bytes = add(gone.used_bytes, space);
                gone.logical = gone.logical.map(|l| Logical {
                    compressed_bytes: add(l.compressed_bytes, compressed_bytes(&bp)),
                    uncompressed_bytes: add(l.uncompressed_bytes, uncompressed_bytes(&bp)),
                });
            }
        }
        if header.entries != before {
            self.set_header(tx, &header)?;
            self.object().punch(tx, header.entries * blkptr::SIZE_BYTES as u64, u64::MAX)?;
        }
        result
    }
}

/// Writes words, little-endian, into an object that is an array of them.
fn put_words(object: &Object, tx: &Tx, offset: u64, bytes: &[u8]) -> Result<()> {
    let size = object.block_bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    if size == 0 {
        return Err(Refusal::TooLarge.at(object.place()));
    }
    // A block started by a big-endian host is converted as a whole: a block has one byte order.
    if !offset.is_multiple_of(size)
        && let Some(block) = object.block(offset / size)?
        && block.endian == Endian::Big
    {
        let turned = block.data.chunks_exact(8).flat_map(|w| Endian::Big.u64(w).to_le_bytes()).collect();
        object.write_block(tx, offset / size, turned)?;
    }
    object.write_at(tx, offset, bytes)
}
