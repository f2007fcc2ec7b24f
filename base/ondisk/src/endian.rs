//! Byte order: every multi-byte value on disk is in the byte order of the host that wrote it.

use crate::error::{Error, Result};

/// Byte order of the writer of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endian {
    /// x86, ARM and nearly all hosts since 2010.
    Little,
    /// SPARC, big-endian PowerPC, s390x.
    Big,
}

impl Endian {
    /// The host's byte order.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };

    /// The opposite byte order.
    pub fn swapped(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// The first 2 bytes of `bytes`. Panics if there are fewer: callers check lengths first.
    pub fn u16(self, bytes: &[u8]) -> u16 {
        let b = bytes[..2].try_into().expect("two bytes");
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    /// The first 4 bytes of `bytes`. Panics if there are fewer.
    pub fn u32(self, bytes: &[u8]) -> u32 {
        let b = bytes[..4].try_into().expect("four bytes");
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    /// The first 8 bytes of `bytes`. Panics if there are fewer.
    pub fn u64(self, bytes: &[u8]) -> u64 {
        let b = bytes[..8].try_into().expect("eight bytes");
        match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        }
    }

    /// The 64-bit word at position `index` of `bytes`. Panics if `bytes` is too short.
    pub fn word(self, bytes: &[u8], index: usize) -> u64 {
        self.u64(&bytes[index * 8..])
    }

    /// Writes `value` into the first 8 bytes of `out`.
    pub fn put_u64(self, out: &mut [u8], value: u64) {
        out[..8].copy_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }

    /// Writes `value` into the first 4 bytes of `out`.
    pub fn put_u32(self, out: &mut [u8], value: u32) {
        out[..4].copy_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }

    /// Writes `value` into the first 2 bytes of `out`.
    pub fn put_u16(self, out: &mut [u8], value: u16) {
        out[..2].copy_from_slice(&match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        });
    }
}

/// Returns [`Error::Corrupt`] if `bytes` is shorter than `needed`.
pub fn need(structure: &'static str, bytes: &[u8], needed: usize) -> Result<()> {
    if bytes.len() < needed {
        return Err(Error::short(structure, bytes.len(), needed));
    }
    Ok(())
}

/// The first `N` 64-bit words of `bytes`. Many structures of the format are arrays of words.
pub fn words<const N: usize>(structure: &'static str, bytes: &[u8], endian: Endian) -> Result<[u64; N]> {
    need(structure, bytes, N * 8)?;
    Ok(std::array::from_fn(|i| endian.word(bytes, i)))
}
