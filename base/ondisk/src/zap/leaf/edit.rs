//! Modifies a leaf: adds, updates and removes entries, and splits a leaf in two.
//!
//! Above: `object::zap`, which supplies the block in little-endian order and maintains header and
//! table. Layout: [`super`].
//!
//! Invariants:
//!   * the preconditions of an operation are checked before the first byte changes: after an error
//!     the leaf is unchanged
//!   * each chunk is in one chain or in the free list, never in both: a leaf that violates this is
//!     rejected when the violation is encountered
//!   * chains are sorted by cd, as in OpenZFS

use super::{ARRAY, ARRAY_BYTES, CHAIN_END, CHUNK_BYTES, ENTRY, HEADER_BYTES, Leaf, LeafEntry};
use crate::endian::Endian;
use crate::error::{Error, Result};
use crate::zap::block::{BlockKind, block_shift};
use crate::zap::value::Value;

const FREE: u8 = 253;
/// `ZLF_ENTRIES_CDSORTED`.
const SORTED: u8 = 1;

const PREFIX: usize = 0x10;
const FREE_COUNT: usize = 0x1c;
const ENTRY_COUNT: usize = 0x1e;
const PREFIX_BITS: usize = 0x20;
const FREE_LIST: usize = 0x22;
const FLAGS: usize = 0x24;

const LE: Endian = Endian::Little;

/// A key, as passed by callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'k> {
    /// A name without its NUL.
    Name(&'k [u8]),
    /// The words of a `ZAP_FLAG_UINT64_KEY` key.
    Words(&'k [u64]),
}

impl Key<'_> {
    /// Size in bytes when stored in array chunks.
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Name(name) => name.len() + 1,
            Self::Words(words) => words.len() * 8,
        }
    }

    fn ints(&self) -> usize {
        match self {
            Self::Name(name) => name.len() + 1,
            Self::Words(words) => words.len(),
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Name(name) => {
                let mut bytes = Vec::with_capacity(name.len() + 1);
                bytes.extend_from_slice(name);
                bytes.push(0);
                bytes
            }
            Self::Words(words) => words.iter().flat_map(|w| w.to_be_bytes()).collect(),
        }
    }
}

/// An entry and the reference to it. Valid until the leaf changes.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub entry: LeafEntry,
    chunk: u16,
    /// Offset of the two bytes that refer to the entry.
    link: usize,
}

/// Number of chunks that an entry takes.
pub fn chunks_needed(key_bytes: usize, value_bytes: usize) -> usize {
    1 + key_bytes.div_ceil(ARRAY_BYTES) + value_bytes.div_ceil(ARRAY_BYTES)
}

/// Number of chunks in a leaf of `block_bytes`.
pub fn chunks_in(block_bytes: usize) -> usize {
    (block_bytes - block_bytes / 16).saturating_sub(HEADER_BYTES) / CHUNK_BYTES
}

/// A leaf block in little-endian order, open for modification.
#[derive(Debug)]
pub struct LeafMut<'a> {
    bytes: &'a mut [u8],
    buckets: usize,
    chunks: usize,
}

impl<'a> LeafMut<'a> {
    /// Initializes `bytes` as a leaf without entries. `sorted`: chains are sorted by cd (set if
    /// names are normalized).
    pub fn init(bytes: &'a mut [u8], prefix: u64, prefix_bits: u32, sorted: bool) -> Result<Self> {
        block_shift("zap leaf", bytes)?;
        bytes.fill(0);
        let (buckets, chunks) = Self::shape(bytes.len());
        LE.put_u64(bytes, BlockKind::LEAF);
        LE.put_u64(&mut bytes[PREFIX..], prefix);
        LE.put_u32(&mut bytes[0x18..], Leaf::MAGIC);
        LE.put_u16(&mut bytes[FREE_COUNT..], chunks as u16);
        LE.put_u16(&mut bytes[PREFIX_BITS..], prefix_bits as u16);
        bytes[FLAGS] = if sorted { SORTED } else { 0 };
        bytes[HEADER_BYTES..HEADER_BYTES + buckets * 2].fill(0xff);
        let leaf = Self { bytes, buckets, chunks };
        for index in 0..chunks {
            let next = if index + 1 == chunks { CHAIN_END } else { index as u16 + 1 };
            let at = leaf.at(index as u16);
            leaf.bytes[at] = FREE;
            LE.put_u16(&mut leaf.bytes[at + 22..], next);
        }
        Ok(leaf)
    }

    /// Opens an existing leaf.
    pub fn open(bytes: &'a mut [u8]) -> Result<Self> {
        Leaf::parse(bytes, LE)?;
        let (buckets, chunks) = Self::shape(bytes.len());
        Ok(Self { bytes, buckets, chunks })
    }

    fn shape(block_bytes: usize) -> (usize, usize) {
        // Chunks that a 16-bit number other than CHAIN_END can refer to.
        (block_bytes / 32, chunks_in(block_bytes).min(usize::from(CHAIN_END)))
    }

    /// The leaf for reading.
    pub fn view(&self) -> Result<Leaf<'_>> {
        Leaf::parse(self.bytes, LE)
    }

    pub fn entries(&self) -> u16 {
        LE.u16(&self.bytes[ENTRY_COUNT..])
    }

    /// The entry with this key.
    pub fn find(&self, hash: u64, key: Key<'_>) -> Result<Option<Found>> {
        let leaf = self.view()?;
        let mut link = self.bucket(&leaf, hash);
        for entry in leaf.chain(hash) {
            let entry = entry?;
            let is_it = entry.hash == hash
                && match key {
                    Key::Name(name) => leaf.name_is(&entry, name)?,
                    Key::Words(words) => usize::from(entry.name_ints) == words.len() && leaf.key(&entry)? == words,
                };
            let chunk = LE.u16(&self.bytes[link..]);
            if is_it {
                return Ok(Some(Found { entry, chunk, link }));
            }
            link = self.at(chunk) + 2;
        }
        Ok(None)
    }

    /// Adds an entry. Returns false if there is no room and the leaf must be split. Without `cd`,
    /// the entry gets the lowest cd that is unused for its hash.
    pub fn add(&mut self, hash: u64, cd: Option<u32>, key: Key<'_>, value: &Value) -> Result<bool> {
        let (key_bytes, value_bytes) = (key.to_bytes(), value.to_array());
        if key_bytes.is_empty() {
            return Err(Error::corrupt("zap leaf", "le_name_numints", 0, "at least 1"));
        }
        let needed = chunks_needed(key_bytes.len(), value_bytes.len());
        let leaf = self.view()?;
        let (mut taken, mut chain) = (Vec::new(), Vec::new());
        for entry in leaf.chain(hash) {
            let entry = entry?;
            if entry.hash == hash {
                taken.push(entry.cd);
            }
            chain.push(entry.cd);
        }
        let cd = cd.unwrap_or_else(|| {
            taken.sort_unstable();
            taken.dedup();
            taken.iter().zip(0..).find(|(used, free)| **used != *free).map_or(taken.len() as u32, |(_, free)| free)
        });
        let mut link = self.bucket(&leaf, hash);
        let Some(chunks) = self.take_free(needed)? else { return Ok(false) };
        let Some(entries) = self.entries().checked_add(1) else {
            return Err(Error::corrupt("zap leaf", "lh_nentries", self.entries(), "fewer than chunks"));
        };
        for _ in chain.iter().take_while(|other| **other <= cd) {
            link = self.at(LE.u16(&self.bytes[link..])) + 2;
        }

        self.leave_free(&chunks);
        let (name, rest) = (&chunks[1..], key_bytes.len().div_ceil(ARRAY_BYTES));
        self.put_array(&name[..rest], &key_bytes);
        self.put_array(&name[rest..], &value_bytes);
        let at = self.at(chunks[0]);
        let next = LE.u16(&self.bytes[link..]);
        let entry = &mut self.bytes[at..at + CHUNK_BYTES];
        entry[0] = ENTRY;
        entry[1] = value.int_bytes;
        LE.put_u16(&mut entry[2..], next);
        LE.put_u16(&mut entry[4..], name[0]);
        LE.put_u16(&mut entry[6..], key.ints() as u16);
        LE.put_u16(&mut entry[8..], name.get(rest).copied().unwrap_or(CHAIN_END));
        LE.put_u16(&mut entry[10..], value.ints.len() as u16);
        LE.put_u32(&mut entry[12..], cd);
        LE.put_u64(&mut entry[16..], hash);
        LE.put_u16(&mut self.bytes[link..], chunks[0]);
        LE.put_u16(&mut self.bytes[ENTRY_COUNT..], entries);
        Ok(true)
    }

    /// Replaces the value of an entry. Returns false if there is no room.
    pub fn set_value(&mut self, found: &Found, value: &Value) -> Result<bool> {
        let new = value.to_array();
        let old = self.array_chunks(found.entry.value_chunk, self.value_bytes(&found.entry)?)?;
        let needed = new.len().div_ceil(ARRAY_BYTES);
        let chunks = if needed <= old.len() {
            self.free_array(&old[needed..]);
            old[..needed].to_vec()
        } else {
            let Some(more) = self.take_free(needed - old.len())? else { return Ok(false) };
            self.leave_free(&more);
            [old, more].concat()
        };
        self.put_array(&chunks, &new);
        let at = self.at(found.chunk);
        self.bytes[at + 1] = value.int_bytes;
        LE.put_u16(&mut self.bytes[at + 8..], chunks.first().copied().unwrap_or(CHAIN_END));
        LE.put_u16(&mut self.bytes[at + 10..], value.ints.len() as u16);
        Ok(true)
    }

    /// Removes an entry and frees its chunks. `words`: the key consists of 64-bit numbers.
    pub fn remove(&mut self, found: &Found, words: bool) -> Result<()> {
        let key_bytes = usize::from(found.entry.name_ints) * if words { 8 } else { 1 };
        let name = self.array_chunks(found.entry.name_chunk, key_bytes)?;
        let value = self.array_chunks(found.entry.value_chunk, self.value_bytes(&found.entry)?)?;
        let Some(entries) = self.entries().checked_sub(1) else {
            return Err(Error::corrupt("zap leaf", "lh_nentries", 0, "at least 1"));
        };
        LE.put_u16(&mut self.bytes[found.link..], found.entry.next);
        self.free_array(&value);
        self.free_array(&name);
        self.free_array(&[found.chunk]);
        LE.put_u16(&mut self.bytes[ENTRY_COUNT..], entries);
        Ok(())
    }

    /// Shortens the prefix by one bit: for the empty leaf that remains when its empty sibling is
    /// removed.
    pub fn widen(&mut self) {
        let bits = LE.u16(&self.bytes[PREFIX_BITS..]).saturating_sub(1);
        let prefix = LE.u64(&self.bytes[PREFIX..]) >> 1;
        LE.put_u16(&mut self.bytes[PREFIX_BITS..], bits);
        LE.put_u64(&mut self.bytes[PREFIX..], prefix);
    }

    fn at(&self, chunk: u16) -> usize {
        HEADER_BYTES + self.buckets * 2 + usize::from(chunk) * CHUNK_BYTES
    }

    /// Offset of the two bytes that start the chain of `hash`.
    fn bucket(&self, leaf: &Leaf<'_>, hash: u64) -> usize {
        HEADER_BYTES + leaf.bucket_of(hash) * 2
    }

    fn value_bytes(&self, entry: &LeafEntry) -> Result<usize> {
        match entry.value_int_bytes {
            n @ (1 | 2 | 4 | 8) => Ok(usize::from(n) * usize::from(entry.value_ints)),
            n => Err(Error::corrupt("zap leaf", "le_value_intlen", n, "1, 2, 4 or 8")),
        }
    }

    /// The chunks of an array of `len` bytes; their number must match.
    fn array_chunks(&self, mut chunk: u16, len: usize) -> Result<Vec<u16>> {
        let expected = len.div_ceil(ARRAY_BYTES);
        let mut chunks = Vec::with_capacity(expected.min(self.chunks));
        while chunk != CHAIN_END {
            let is_array = usize::from(chunk) < self.chunks && self.bytes[self.at(chunk)] == ARRAY;
            if !is_array || chunks.len() == expected {
                break;
            }
            chunks.push(chunk);
            chunk = LE.u16(&self.bytes[self.at(chunk) + 22..]);
        }
        if chunks.len() != expected || chunk != CHAIN_END {
            return Err(Error::corrupt("zap leaf", "la_next", chunk, format_args!("{expected} chunks of an array")));
        }
        Ok(chunks)
    }

    /// The first `count` free chunks, or `None` if there are fewer. They stay in the free list
    /// until [`Self::leave_free`].
    fn take_free(&self, count: usize) -> Result<Option<Vec<u16>>> {
        if count > usize::from(LE.u16(&self.bytes[FREE_COUNT..])) {
            return Ok(None);
        }
        let mut free = Vec::with_capacity(count);
        let mut chunk = LE.u16(&self.bytes[FREE_LIST..]);
        while free.len() < count {
            let is_free = usize::from(chunk) < self.chunks && self.bytes[self.at(chunk)] == FREE;
            if !is_free || free.contains(&chunk) {
                return Err(Error::corrupt("zap leaf", "lf_next", chunk, "a free chunk"));
            }
            free.push(chunk);
            chunk = LE.u16(&self.bytes[self.at(chunk) + 22..]);
        }
        Ok(Some(free))
    }

    /// Removes the chunks returned by [`Self::take_free`] from the free list.
    fn leave_free(&mut self, taken: &[u16]) {
        let Some(last) = taken.last() else { return };
        let next = LE.u16(&self.bytes[self.at(*last) + 22..]);
        let count = LE.u16(&self.bytes[FREE_COUNT..]) - taken.len() as u16;
        LE.put_u16(&mut self.bytes[FREE_LIST..], next);
        LE.put_u16(&mut self.bytes[FREE_COUNT..], count);
    }

    /// Prepends chunks to the free list in their order, zeroed so that the block compresses well.
    fn free_array(&mut self, chunks: &[u16]) {
        let mut next = LE.u16(&self.bytes[FREE_LIST..]);
        for chunk in chunks.iter().rev() {
            let at = self.at(*chunk);
            self.bytes[at..at + CHUNK_BYTES].fill(0);
            self.bytes[at] = FREE;
            LE.put_u16(&mut self.bytes[at + 22..], next);
            next = *chunk;
        }
        LE.put_u16(&mut self.bytes[FREE_LIST..], next);
        let count = LE.u16(&self.bytes[FREE_COUNT..]).saturating_add(chunks.len() as u16);
        LE.put_u16(&mut self.bytes[FREE_COUNT..], count);
    }

    fn put_array(&mut self, chunks: &[u16], bytes: &[u8]) {
        for (i, (chunk, piece)) in chunks.iter().zip(bytes.chunks(ARRAY_BYTES)).enumerate() {
            let at = self.at(*chunk);
            let out = &mut self.bytes[at..at + CHUNK_BYTES];
            out[0] = ARRAY;
            out[1..1 + piece.len()].copy_from_slice(piece);
            out[1 + piece.len()..1 + ARRAY_BYTES].fill(0);
            LE.put_u16(&mut out[22..], chunks.get(i + 1).copied().unwrap_or(CHAIN_END));
        }
    }
}

/// Splits a full leaf: the entries whose next hash bit is 0, and those where it is 1.
pub fn split(bytes: &[u8], words: bool, sorted: bool) -> Result<[Vec<u8>; 2]> {
    let old = Leaf::parse(bytes, LE)?;
    if old.prefix_bits >= 48 {
        return Err(Error::corrupt("zap leaf", "lh_prefix_len", old.prefix_bits, "below 48 in a leaf to be split"));
    }
    let entries = old.entries()?;
    if entries.len() != usize::from(old.entries) {
        return Err(Error::corrupt("zap leaf", "lh_nentries", old.entries, entries.len()));
    }
    let mut halves = [vec![0; bytes.len()], vec![0; bytes.len()]];
    let [low, high] = &mut halves;
    let (prefix, bits) = (old.prefix << 1, old.prefix_bits + 1);
    let keep_flag = sorted || bytes[FLAGS] & SORTED != 0;
    let mut low = LeafMut::init(low, prefix, bits, keep_flag)?;
    let mut high = LeafMut::init(high, prefix | 1, bits, sorted)?;
    for entry in &entries {
        if !old.covers(entry.hash) {
            return Err(Error::corrupt(
                "zap leaf",
                "le_hash",
                format_args!("{:#x}", entry.hash),
                format_args!("to begin with {} bits {:#x}", old.prefix_bits, old.prefix),
            ));
        }
        let half = if entry.hash & (1 << (64 - bits)) == 0 { &mut low } else { &mut high };
        let value = old.value(entry)?;
        let added = if words {
            half.add(entry.hash, Some(entry.cd), Key::Words(&old.key(entry)?), &value)?
        } else {
            half.add(entry.hash, Some(entry.cd), Key::Name(&old.name(entry)?), &value)?
        };
        if !added {
            return Err(Error::corrupt("zap leaf", "entries", "more than fit a leaf", "chunks that no two share"));
        }
    }
    Ok(halves)
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
