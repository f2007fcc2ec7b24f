//! Leaf of a fat ZAP: the entries whose hashes share a prefix, in chains of 24-byte chunks.
//!
//! | offset  | bytes | field         | since | meaning                                        |
//! |---------|-------|---------------|-------|------------------------------------------------|
//! | 0x00    | 8     | lh_block_type | v1    | 0x8000000000000000                             |
//! | 0x08    | 8     | lh_pad1       | v1    |                                                |
//! | 0x10    | 8     | lh_prefix     | v1    | top bits shared by all hashes                  |
//! | 0x18    | 4     | lh_magic      | v1    | 0x02ab1eaf                                     |
//! | 0x1c    | 2     | lh_nfree      | v1    | free chunks                                    |
//! | 0x1e    | 2     | lh_nentries   | v1    | entries                                        |
//! | 0x20    | 2     | lh_prefix_len | v1    | number of bits in the prefix                   |
//! | 0x22    | 2     | lh_freelist   | v1    | first free chunk                               |
//! | 0x24    | 1     | lh_flags      | v9    | 1: chains are sorted by cd                     |
//! | 0x25    | 11    | lh_pad2       | v1    |                                                |
//! | 0x30    | 2 h   | l_hash        | v1    | first entry of each chain, h = block size / 32 |
//! | 0x30+2h | 24 n  | chunks        | v1    | 252 entry, 251 array, 253 free                 |
//!
//! Entry chunk: 0 type (1), 1 le_value_intlen (1), 2 le_next (2), 4 le_name_chunk (2), 6
//! le_name_numints (2), 8 le_value_chunk (2), 10 le_value_numints (2), 12 le_cd (4), 16 le_hash
//! (8). Array chunk: 0 type (1), 1 bytes (21), 22 la_next (2). 0xffff ends a chain. Integers in
//! arrays are always big-endian.
//!
//! Invariant: no chain is followed for more steps than the block has chunks, so that a loop is an
//! error.
//!
//! A leaf: no prefix, 0x267 chunks free, 6 entries; then its first chunks, the entry `2` (name in
//! chunk 1, value of 15 integers of 2 bytes in chunk 2) and its name:
//!
//! ```text
//! 00000000  00 00 00 00 00 00 00 80  00 00 00 00 00 00 00 00  |................|
//! 00000010  00 00 00 00 00 00 00 00  af 1e ab 02 67 02 06 00  |............g...|
//! 00000020  00 00 17 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ...
//! 00000430  fc 02 ff ff 01 00 02 00  02 00 0f 00 00 00 00 00  |................|
//! 00000440  00 00 00 00 30 49 cb ff  fb 32 00 00 00 00 00 00  |....0I...2......|
//! 00000450  00 00 00 00 00 00 00 00  00 00 00 00 00 00 ff ff  |................|
//! ```

pub mod edit;

use super::block::{BlockKind, block_shift};
use super::fat::top_bits;
use super::flags::Flags;
use super::value::Value;
use crate::endian::Endian;
use crate::error::{Error, Result};

pub(super) const HEADER_BYTES: usize = 48;
pub(super) const CHUNK_BYTES: usize = 24;
const ARRAY_BYTES: usize = 21;
const CHAIN_END: u16 = 0xffff;
pub(super) const ENTRY: u8 = 252;
const ARRAY: u8 = 251;

/// A leaf block of a fat ZAP (`zap_leaf_phys_t`).
#[derive(Debug, Clone, Copy)]
pub struct Leaf<'a> {
    /// Top hash bits shared by all entries.
    pub prefix: u64,
    /// Number of bits in the prefix.
    pub prefix_bits: u32,
    /// Number of entries according to the header.
    pub entries: u16,
    hashes: &'a [u8],
    chunks: &'a [u8],
    endian: Endian,
}

/// An entry chunk. Its name and value are read through the [`Leaf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafEntry {
    /// Size of each integer of the value, in bytes.
    pub value_int_bytes: u8,
    /// Number of integers in the value.
    pub value_ints: u16,
    /// Number of integers in the key: bytes including the NUL, or 64-bit numbers.
    pub name_ints: u16,
    /// Collision differentiator: distinguishes entries with the same hash.
    pub cd: u32,
    /// Hash of the normalized name.
    pub hash: u64,
    name_chunk: u16,
    value_chunk: u16,
    next: u16,
}

impl<'a> Leaf<'a> {
    /// Value of `lh_magic`.
    pub const MAGIC: u32 = 0x02ab_1eaf;

    /// Parses a leaf block.
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<Self> {
        let shift = block_shift("zap leaf", bytes)?;
        if endian.u64(bytes) != BlockKind::LEAF {
            return Err(Error::corrupt(
                "zap leaf",
                "lh_block_type",
                format_args!("{:#x}", endian.u64(bytes)),
                format_args!("{:#x}", BlockKind::LEAF),
            ));
        }
        let magic = endian.u32(&bytes[0x18..]);
        if magic != Self::MAGIC {
            return Err(Error::corrupt("zap leaf", "lh_magic", format_args!("{magic:#x}"), "0x2ab1eaf"));
        }
        let (prefix, prefix_bits) = (endian.u64(&bytes[0x10..]), u32::from(endian.u16(&bytes[0x20..])));
        if prefix_bits > 48 || prefix >> prefix_bits != 0 {
            return Err(Error::corrupt(
                "zap leaf",
                "lh_prefix",
                format_args!("{prefix:#x} of {prefix_bits} bits"),
                "at most 48 bits",
            ));
        }
        let hash_bytes = 2usize << (shift - 5);
        let (hashes, chunks) = bytes[HEADER_BYTES..].split_at(hash_bytes);
        Ok(Self {
            prefix,
            prefix_bits,
            entries: endian.u16(&bytes[0x1e..]),
            hashes,
            // Chunk 65,535 would be CHAIN_END: blocks larger than those of OpenZFS have chunks that
            // cannot be referenced.
            chunks: &chunks[..chunks.len().min(CHUNK_BYTES * usize::from(CHAIN_END))],
            endian,
        })
    }

    /// Whether entries with `hash` belong to this leaf.
    pub fn covers(&self, hash: u64) -> bool {
        top_bits(hash, self.prefix_bits) == self.prefix
    }

    /// The smallest hash beyond this leaf; `None` for the last leaf.
    pub fn next_hash(&self) -> Option<u64> {
        let next = self.prefix + 1;
        if self.prefix_bits == 0 || next >> self.prefix_bits != 0 {
            return None;
        }
        Some(next << (64 - self.prefix_bits))
    }

    /// The entries of one chain: all those with `hash`, and others in the same bucket.
    pub fn chain(&self, hash: u64) -> Chain<'_, 'a> {
        self.bucket(self.bucket_of(hash))
    }

    fn bucket_of(&self, hash: u64) -> usize {
        let bits = (self.hashes.len() / 2).trailing_zeros();
        // The bits of the hash after the prefix select the bucket.
        top_bits(hash << self.prefix_bits, bits) as usize
    }

    /// All entries, in the order of the chains. Fails if there are more than the block has chunks.
    pub fn entries(&self) -> Result<Vec<LeafEntry>> {
        let mut all = Vec::with_capacity(usize::from(self.entries).min(self.chunk_count()));
        for bucket in 0..self.hashes.len() / 2 {
            for entry in self.bucket(bucket) {
                all.push(entry?);
                if all.len() > self.chunk_count() {
                    return Err(loops("l_hash"));
                }
            }
        }
        Ok(all)
    }

    /// Name of an entry, without its NUL.
    pub fn name(&self, entry: &LeafEntry) -> Result<Vec<u8>> {
        let mut name = self.array(entry.name_chunk, usize::from(entry.name_ints))?;
        if let Some(end) = name.iter().position(|&b| b == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    /// Whether an entry's name is `name`, without copying it.
    pub fn name_is(&self, entry: &LeafEntry, name: &[u8]) -> Result<bool> {
        if usize::from(entry.name_ints) != name.len() + 1 {
            return Ok(false);
        }
        let (mut chunk, mut rest) = (entry.name_chunk, name);
        while !rest.is_empty() {
            let (bytes, next) = self.array_chunk(chunk)?;
            let (head, tail) = rest.split_at(rest.len().min(ARRAY_BYTES));
            if bytes[..head.len()] != *head {
                return Ok(false);
            }
            (chunk, rest) = (next, tail);
        }
        Ok(true)
    }

    /// Key of an entry in a ZAP with number keys.
    pub fn key(&self, entry: &LeafEntry) -> Result<Vec<u64>> {
        let bytes = self.array(entry.name_chunk, usize::from(entry.name_ints) * 8)?;
        Ok(bytes.chunks_exact(8).map(|b| Endian::Big.u64(b)).collect())
    }

    /// Name or key of an entry, depending on `flags`; the other one is empty.
    pub fn name_or_key(&self, entry: &LeafEntry, flags: Flags) -> Result<(Vec<u8>, Vec<u64>)> {
        if flags.contains(Flags::UINT64_KEY) {
            Ok((Vec::new(), self.key(entry)?))
        } else {
            Ok((self.name(entry)?, Vec::new()))
        }
    }

    /// Value of an entry.
    pub fn value(&self, entry: &LeafEntry) -> Result<Value> {
        let size = usize::from(entry.value_int_bytes);
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(Error::corrupt("zap leaf", "le_value_intlen", size, "1, 2, 4 or 8"));
        }
        let bytes = self.array(entry.value_chunk, usize::from(entry.value_ints) * size)?;
        let number = |b: &[u8]| b.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        Ok(Value { int_bytes: entry.value_int_bytes, ints: bytes.chunks_exact(size).map(number).collect() })
    }

    fn chunk_count(&self) -> usize {
        self.chunks.len() / CHUNK_BYTES
    }

    fn chunk(&self, index: u16) -> Result<&'a [u8]> {
        let start = usize::from(index) * CHUNK_BYTES;
        self.chunks
            .get(start..start + CHUNK_BYTES)
            .ok_or_else(|| Error::corrupt("zap leaf", "chunk", index, format_args!("below {}", self.chunk_count())))
    }

    fn bucket(&self, bucket: usize) -> Chain<'_, 'a> {
        Chain { leaf: self, next: self.endian.u16(&self.hashes[bucket * 2..]), steps_left: self.chunk_count() }
    }

    fn entry(&self, index: u16) -> Result<LeafEntry> {
        let bytes = self.chunk(index)?;
        if bytes[0] != ENTRY {
            return Err(Error::corrupt("zap leaf", "le_type", bytes[0], ENTRY));
        }
        let short = |at: usize| self.endian.u16(&bytes[at..]);
        Ok(LeafEntry {
            value_int_bytes: bytes[1],
            next: short(2),
            name_chunk: short(4),
            name_ints: short(6),
            value_chunk: short(8),
            value_ints: short(10),
            cd: self.endian.u32(&bytes[12..]),
            hash: self.endian.u64(&bytes[16..]),
        })
    }

    fn array_chunk(&self, index: u16) -> Result<(&'a [u8], u16)> {
        let bytes = self.chunk(index)?;
        if bytes[0] != ARRAY {
            return Err(Error::corrupt("zap leaf", "la_type", bytes[0], ARRAY));
        }
        Ok((&bytes[1..22], self.endian.u16(&bytes[22..])))
    }

    /// `len` bytes from the chain of array chunks that starts at `chunk`.
    fn array(&self, mut chunk: u16, len: usize) -> Result<Vec<u8>> {
        // Without this bound, a looping chain would be followed for half a megabyte.
        let most = self.chunk_count() * ARRAY_BYTES;
        if len > most {
            return Err(Error::corrupt("zap leaf", "array length", len, format_args!("at most {most}")));
        }
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            let (bytes, next) = self.array_chunk(chunk)?;
            out.extend_from_slice(&bytes[..ARRAY_BYTES.min(len - out.len())]);
            chunk = next;
        }
        Ok(out)
    }
}

/// Iterator over a chain of entries. Ends after an error.
pub struct Chain<'l, 'a> {
    leaf: &'l Leaf<'a>,
    next: u16,
    steps_left: usize,
}

impl Iterator for Chain<'_, '_> {
    type Item = Result<LeafEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == CHAIN_END {
            return None;
        }
        let found = if self.steps_left == 0 { Err(loops("le_next")) } else { self.leaf.entry(self.next) };
        self.steps_left = self.steps_left.saturating_sub(1);
        self.next = found.as_ref().map_or(CHAIN_END, |e| e.next);
        Some(found)
    }
}

fn loops(field: &'static str) -> Error {
    Error::corrupt("zap leaf", field, "a chain that loops", "one that ends")
}
