//! Lists of block pointers, written: made, appended to, joined, emptied from the end, freed.
//!
//! Below: `Object`, `ondisk::bpobj`. Above: deadlists, what is to be freed. All in syncing context, as the MOS is. ZFS name:
//! bpobj_enqueue, bpobj_enqueue_subobj, bpobj_iterate, bpobj_free.
//!
//! What one list holds another can take over whole: a small one is copied and freed, a large one becomes a sub-list.
//!
//! The feature `empty_bpobj` lets all that need an empty list name one object. Whoever holds such a number counts it in the
//! feature, never appends to it, and makes a list of its own for the first entry: [`Bpobj`] does not know which object it is.
//!
//! Invariants:
//!   * the head counts what the list and its sub-lists hold, after each function here
//!   * entries are stored without what freeing them does not need (payload, checksum, fill count), so that lists compress well

use crate::{Bpobj, BpobjEntry, Error, NewObject, Object, ObjectSet, Place, Refusal, Result, Tx};
use ondisk::bpobj::{self, Header, Logical, Subobjects};
use ondisk::{BlkPtr, Endian, ObjectType, blkptr};
use std::collections::HashSet;
use std::sync::Arc;

/// Blocks of lists (`SPA_OLD_MAXBLOCKSIZE`).
pub const BLOCK_BYTES: u32 = 128 << 10;
/// Entries gathered before they are written: one block of them. Guessed.
const BATCH: usize = BLOCK_BYTES as usize / blkptr::SIZE_BYTES;
/// Pool versions from which on heads have sizes before compression, and sub-lists.
const VERSION_LOGICAL: u64 = 3;
const VERSION_SUBOBJECTS: u64 = 26;

/// An entry to append.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry {
    /// The block.
    pub bp: BlkPtr,
    /// In a livelist: the block was freed, not born.
    pub freed: bool,
    /// Space that the block counts for.
    pub space_bytes: u64,
}

/// The head of a new list, in a pool of `version` (5000: one with features). With `livelists`, it counts frees.
pub fn new_header(version: u64, livelists: bool) -> Header {
    Header {
        entries: 0,
        used_bytes: 0,
        logical: (version >= VERSION_LOGICAL).then(Logical::default),
        subobjects: (version >= VERSION_SUBOBJECTS).then(Subobjects::default),
        freed: livelists.then_some(0),
    }
}

/// What a list keeps of a pointer.
fn stored(entry: &NewEntry) -> BlkPtr {
    let mut words = *entry.bp.words();
    if entry.bp.is_embedded() {
        // Its sizes and its birth are all that counts.
        let (prop, birth) = (words[6], words[10]);
        words = [0; 16];
        (words[6], words[10]) = (prop, birth);
    } else if !entry.bp.is_dedup() {
        words[12..].fill(0);
    }
    words[11] = u64::from(entry.freed);
    BlkPtr::from_words(words)
}

/// Bytes that a block takes after compression; none when its pointer holds it.
fn compressed_bytes(bp: &BlkPtr) -> u64 {
    if bp.is_embedded() { 0 } else { bp.psize_bytes() }
}

/// Bytes before compression. Metadata counts as if it were not compressed (`BP_GET_UCSIZE`).
fn uncompressed_bytes(bp: &BlkPtr) -> u64 {
    let is_metadata = bp.level() > 0 || bp.object_type().is_metadata();
    if is_metadata { compressed_bytes(bp) } else { bp.lsize_bytes() }
}

/// Adds (or with `sign` -1 takes away) a block's sizes.
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
    /// Makes an empty list, as pools with features and without livelists have it.
    pub fn create(mos: &Arc<ObjectSet>, tx: &Tx, block_bytes: u32) -> Result<u64> {
        Self::create_with(mos, tx, block_bytes, &new_header(5000, false))
    }

    /// Makes an empty list with the head that [`new_header`] gave.
    pub fn create_with(mos: &Arc<ObjectSet>, tx: &Tx, block_bytes: u32, header: &Header) -> Result<u64> {
        let new = NewObject::new(ObjectType::BPOBJ, block_bytes)
            .with_bonus(ObjectType::BPOBJ_HDR, header.to_bytes(Endian::Little));
        Ok(mos.create_object(tx, &new)?.id())
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> Result<bool> {
        let header = self.newest()?;
        Ok(header.entries == 0 && header.subobjects.is_none_or(|s| s.count == 0))
    }

    /// The head as it is now; [`Bpobj::header`] is that of when it was opened.
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

    /// Appends a block. `space_bytes` is what it counts for.
    pub fn append(&self, tx: &Tx, bp: &BlkPtr, freed: bool, space_bytes: u64) -> Result<()> {
        self.append_all(tx, [NewEntry { bp: *bp, freed, space_bytes }])
    }

    /// Appends blocks, and counts them once.
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

    /// Takes over all that list `id` holds. The caller does not own `id` any more: it is a sub-list now, or freed.
    ///
    /// `id` must not be the empty list that all share.
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
        // One block of sub-lists, one block of entries: copied, so that lists do not nest ever deeper.
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

    /// The bytes of its own entries, all in its first block.
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

    /// Frees a list and all its sub-lists; not the blocks that they name.
    pub fn free(mos: &Arc<ObjectSet>, tx: &Tx, id: u64) -> Result<()> {
        // All are found before the first is freed: a damaged list stays whole.
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

    /// Takes entries out, from the end, for as long as `take` returns true; the one at which it returns false stays. Sub-lists
    /// that are empty then are freed. `take` must not change lists that are drained here. Returns whether nothing is left. `space_bytes` tells what a block counts for.
    pub fn drain(
        &self,
        mos: &Arc<ObjectSet>,
        tx: &Tx,
        space_bytes: &dyn Fn(&BlkPtr) -> u64,
        take: &mut dyn FnMut(BpobjEntry) -> Result<bool>,
    ) -> Result<bool> {
        // From this list down to the one that is being emptied: each the last sub-list of the one before.
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

    /// Takes out this list's own entries; what they counted for is added up in `gone`.
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
                // Frees count against: what is gone may be less than nothing.
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
    // A block begun by a big-endian host is turned whole: one block has one order.
    if !offset.is_multiple_of(size)
        && let Some(block) = object.block(offset / size)?
        && block.endian == Endian::Big
    {
        let turned = block.data.chunks_exact(8).flat_map(|w| Endian::Big.u64(w).to_le_bytes()).collect();
        object.write_block(tx, offset / size, turned)?;
    }
    object.write_at(tx, offset, bytes)
}
