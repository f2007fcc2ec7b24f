//! ZAP ("ZFS attribute processor"): a hash table in an object. Directories, properties and nearly all indexes are ZAPs.
//!
//! ```text
//! micro: one block             fat: block 0         table blocks       leaf blocks
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! | header | entry | ...  |    | header | table |-->| block nos. |---> | header | hash | chunks |
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! ```
//! The first word of a block says which it is. A small ZAP whose names have at most 49 bytes and whose values are one
//! 64-bit number is [`micro`]; others are [`fat`]: the top bits of a name's [`hash`] index a table of block numbers, and the
//! block found is a [`leaf`].
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
    /// `zap_flags_t`: how the keys of a fat ZAP are made.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u64 {
        /// 48 bits of the hash count, not 28.
        const HASH64 = 1;
        /// Keys are arrays of 64-bit numbers, not strings.
        const UINT64_KEY = 2;
        /// The first word of the key is the hash.
        const PRE_HASHED_KEY = 4;
    }
}

impl Flags {
    /// How many of the top bits of a hash count (`zap_hashbits`).
    pub fn hash_bits(self) -> u32 {
        if self.contains(Self::HASH64) { 48 } else { 28 }
    }

    /// Collision numbers stay below this (`zap_maxcd`).
    pub fn max_cd(self) -> u32 {
        if self.contains(Self::HASH64) { 0xffff } else { u32::MAX }
    }
}

bitflags::bitflags! {
    /// How names are made equal before they are hashed and compared (`mz_normflags`, `zap_normflags`; u8_textprep.h).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NormFlags: u64 {
        /// Letters in upper case.
        const TO_UPPER = 0x02;
        /// Canonical decomposition.
        const CANON_DECOMP = 0x10;
        /// Compatibility decomposition.
        const COMPAT_DECOMP = 0x20;
        /// Canonical composition afterwards.
        const CANON_COMP = 0x40;
        /// Form D.
        const NFD = 0x10;
        /// Form C.
        const NFC = 0x50;
        /// Form KD.
        const NFKD = 0x20;
        /// Form KC.
        const NFKC = 0x60;
    }
}

/// What the first word of a block says it is.
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

    /// Looks at the first word.
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
    /// Bytes of each integer on disk.
    pub int_bytes: u8,
    /// The integers.
    pub ints: Vec<u64>,
}

impl Value {
    /// A value of one 64-bit number, as all those of a micro ZAP are.
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

    /// A text with the NUL that ends it on disk.
    pub fn string(text: &str) -> Self {
        Self { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() }
    }

    /// Bytes that the integers take.
    pub fn len_bytes(&self) -> usize {
        self.ints.len() * usize::from(self.int_bytes)
    }

    /// The integers as arrays of a leaf hold them: big-endian, whoever writes.
    pub fn to_array(&self) -> Vec<u8> {
        let skip = 8 - usize::from(self.int_bytes.min(8));
        let mut out = Vec::with_capacity(self.len_bytes());
        for n in &self.ints {
            out.extend_from_slice(&n.to_be_bytes()[skip..]);
        }
        out
    }

    /// The number, when there is exactly one.
    pub fn as_u64(&self) -> Option<u64> {
        match self.ints[..] {
            [n] => Some(n),
            _ => None,
        }
    }

    /// The bytes, when the integers are bytes.
    pub fn as_bytes(&self) -> Option<Vec<u8>> {
        (self.int_bytes == 1).then(|| self.ints.iter().map(|&n| n as u8).collect())
    }

    /// The text before the first NUL, when the integers are bytes and the text is UTF-8.
    pub fn as_string(&self) -> Option<String> {
        let mut bytes = self.as_bytes()?;
        if let Some(end) = bytes.iter().position(|&b| b == 0) {
            bytes.truncate(end);
        }
        String::from_utf8(bytes).ok()
    }
}

/// Block size as a power of two. ZAP blocks have no other sizes, but the format allows micro ones of any 512.
fn block_shift(structure: &'static str, bytes: &[u8]) -> Result<u32> {
    if !bytes.len().is_power_of_two() || !(512..=1 << 24).contains(&bytes.len()) {
        return Err(Error::corrupt(structure, "block size", bytes.len(), "a power of two from 512 to 16777216"));
    }
    Ok(bytes.len().trailing_zeros())
}

#[cfg(test)]
mod tests;
