//! ZAP ("ZFS attribute processor"): a hash table stored in an object. Directories, properties and
//! nearly all indexes are ZAPs.
//!
//! ```text
//! micro: one block             fat: block 0         table blocks       leaf blocks
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! | header | entry | ...  |    | header | table |-->| block nos. |---> | header | hash | chunks |
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! ```
//!
//! The first word of a block identifies its kind. A small ZAP, whose names have at most 49 bytes
//! and whose values are one 64-bit number, is a [`micro`] ZAP. Others are [`fat`]: the top bits of
//! a name's [`hash`] index a table of block numbers, which leads to a [`leaf`].
//!
//! Sources: include/sys/zap_impl.h, zap_leaf.h, zap.h; module/zfs/zap*.c.

pub mod fat;
pub mod hash;
pub mod leaf;
pub mod micro;
pub mod swap;

pub use fat::Header;
pub use leaf::edit::{Key, LeafMut};
pub use leaf::{Leaf, LeafEntry};
pub use micro::{Micro, MicroEntry};

use crate::endian::Endian;
use crate::error::{Error, Result};

bitflags::bitflags! {
    /// `zap_flags_t`: how the keys of a fat ZAP are formed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u64 {
        /// The hash has 48 significant bits instead of 28.
        const HASH64 = 1;
        /// Keys are arrays of 64-bit numbers, not strings.
        const UINT64_KEY = 2;
        /// The first word of the key is the hash.
        const PRE_HASHED_KEY = 4;
    }
}

impl Flags {
    /// Number of significant top bits of a hash (`zap_hashbits`).
    pub fn hash_bits(self) -> u32 {
        if self.contains(Self::HASH64) { 48 } else { 28 }
    }

    /// Exclusive upper bound of collision differentiators (`zap_maxcd`).
    pub fn max_cd(self) -> u32 {
        if self.contains(Self::HASH64) { 0xffff } else { u32::MAX }
    }
}

bitflags::bitflags! {
    /// How names are normalized before they are hashed and compared (`mz_normflags`,
    /// `zap_normflags`; u8_textprep.h).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NormFlags: u64 {
        /// Convert letters to upper case.
        const TO_UPPER = 0x02;
        /// Canonical decomposition.
        const CANON_DECOMP = 0x10;
        /// Compatibility decomposition.
        const COMPAT_DECOMP = 0x20;
        /// Canonical composition after decomposition.
        const CANON_COMP = 0x40;
        /// Normalization form D.
        const NFD = 0x10;
        /// Normalization form C.
        const NFC = 0x50;
        /// Normalization form KD.
        const NFKD = 0x20;
        /// Normalization form KC.
        const NFKC = 0x60;
    }
}

/// The kind of a ZAP block, from its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Block 0 of a small ZAP.
    Micro,
    /// Block 0 of a fat ZAP.
    Header,
    /// A leaf of a fat ZAP.
    Leaf,
    /// Anything else: in a fat ZAP, a block of the pointer table.
    Table,
}

impl BlockKind {
    /// `ZBT_LEAF`.
    pub const LEAF: u64 = 1 << 63;
    /// `ZBT_HEADER`.
    pub const HEADER: u64 = (1 << 63) + 1;
    /// `ZBT_MICRO`.
    pub const MICRO: u64 = (1 << 63) + 3;

    /// Determines the kind from the first word.
    pub fn of(bytes: &[u8], endian: Endian) -> Result<Self> {
        crate::endian::need("zap", bytes, 8)?;
        Ok(match endian.u64(bytes) {
            Self::LEAF => Self::Leaf,
            Self::HEADER => Self::Header,
            Self::MICRO => Self::Micro,
            _ => Self::Table,
        })
    }
}

/// A value: an array of integers of 1, 2, 4 or 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value {
    /// Size of each integer on disk, in bytes.
    pub int_bytes: u8,
    pub ints: Vec<u64>,
}

impl Value {
    /// A value of one 64-bit number, like all values of a micro ZAP.
    pub fn one(value: u64) -> Self {
        Self { int_bytes: 8, ints: vec![value] }
    }

    /// A value of bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { int_bytes: 1, ints: bytes.iter().map(|b| u64::from(*b)).collect() }
    }

    /// A value of 64-bit numbers.
    pub fn words(words: &[u64]) -> Self {
        Self { int_bytes: 8, ints: words.to_vec() }
    }

    /// A string, with the NUL that terminates it on disk.
    pub fn string(text: &str) -> Self {
        Self { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() }
    }

    /// Total size of the integers in bytes.
    pub fn len_bytes(&self) -> usize {
        self.ints.len() * usize::from(self.int_bytes)
    }

    /// The integers as stored in a leaf's arrays: always big-endian.
    pub fn to_array(&self) -> Vec<u8> {
        let skip = 8 - usize::from(self.int_bytes.min(8));
        let mut out = Vec::with_capacity(self.len_bytes());
        for n in &self.ints {
            out.extend_from_slice(&n.to_be_bytes()[skip..]);
        }
        out
    }

    /// The number, if there is exactly one.
    pub fn as_u64(&self) -> Option<u64> {
        match self.ints[..] {
            [n] => Some(n),
            _ => None,
        }
    }

    /// The bytes, if the integers are bytes.
    pub fn as_bytes(&self) -> Option<Vec<u8>> {
        (self.int_bytes == 1).then(|| self.ints.iter().map(|&n| n as u8).collect())
    }

    /// The text before the first NUL, if the integers are bytes and the text is UTF-8.
    pub fn as_string(&self) -> Option<String> {
        let mut bytes = self.as_bytes()?;
        if let Some(end) = bytes.iter().position(|&b| b == 0) {
            bytes.truncate(end);
        }
        String::from_utf8(bytes).ok()
    }
}

/// log2 of the block size. Only powers of two from 512 bytes to 16 MiB are accepted, although the
/// format allows micro ZAPs of any multiple of 512 bytes.
fn block_shift(structure: &'static str, bytes: &[u8]) -> Result<u32> {
    if !bytes.len().is_power_of_two() || !(512..=1 << 24).contains(&bytes.len()) {
        return Err(Error::corrupt(structure, "block size", bytes.len(), "a power of two from 512 to 16777216"));
    }
    Ok(bytes.len().trailing_zeros())
}

#[cfg(test)]
mod tests;
