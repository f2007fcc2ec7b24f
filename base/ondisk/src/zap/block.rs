//! What all blocks of a ZAP have in common: the first word, which is their kind, and their sizes.

use crate::endian::Endian;
use crate::error::{Error, Result};

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

/// log2 of the block size. Only powers of two from 512 bytes to 16 MiB are accepted, although the
/// format allows micro ZAPs of any multiple of 512 bytes.
pub(super) fn block_shift(structure: &'static str, bytes: &[u8]) -> Result<u32> {
    if !bytes.len().is_power_of_two() || !(512..=1 << 24).contains(&bytes.len()) {
        return Err(Error::corrupt(structure, "block size", bytes.len(), "a power of two from 512 to 16777216"));
    }
    Ok(bytes.len().trailing_zeros())
}
