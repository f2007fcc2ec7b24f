//! Compression of blocks.
//!
//! Above: `block::zio`, send streams. ZFS name: zio_compress. Format: docs/format/compression.md.
//!
//! A block's logical size is known from its pointer, so [`decompress`] is given exactly that much
//! space and must fill it. The compressed bytes may be followed by padding up to whole sectors.
//!
//! | algorithm       | stream                                                                     |
//! |-----------------|----------------------------------------------------------------------------|
//! | lzjb            | Sun's LZ variant, no header: ends when the block is full                   |
//! | gzip-1 … gzip-9 | zlib stream (not gzip's own format), self-terminating                      |
//! | zle             | runs of zeros, parameter 64                                                |
//! | lz4             | length as 4 bytes big-endian, then a raw LZ4 block                         |
//! | zstd            | 8-byte header ([`zstd::Header`]), then a Zstandard frame without its magic |
//! |                 | number                                                                     |
//!
//! Invariants, on any input:
//!   * no panic, and no access outside the two slices
//!   * after success every byte of the destination comes from the stream; after an error all are
//!     zero
//!   * no allocation depends on lengths in the stream

mod error;
mod frame;
mod gzip;
mod lz4;
mod lzjb;
mod zle;
pub mod zstd;

pub use error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Sun's fast LZ variant, the default of old pools.
    Lzjb,
    /// Deflate at level 1 to 9; decompression does not depend on the level.
    Gzip(u8),
    /// Zero-length encoding: runs of zeros only.
    Zle,
    /// LZ4, the default.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Algorithm {
    /// The algorithm for a number of the format (`enum zio_compress`). `None` for `inherit`, `on`,
    /// `off`, `empty` and unknown numbers.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            3 => Self::Lzjb,
            5..=13 => Self::Gzip(number - 4),
            14 => Self::Zle,
            15 => Self::Lz4,
            16 => Self::Zstd,
            _ => return None,
        })
    }

    /// The number of the algorithm in the format.
    pub fn number(self) -> u8 {
        match self {
            Self::Lzjb => 3,
            Self::Gzip(level) => 4 + level.clamp(1, 9),
            Self::Zle => 14,
            Self::Lz4 => 15,
            Self::Zstd => 16,
        }
    }
}

/// Decompresses `src` into `dst`, whose length is the block's logical size.
pub fn decompress(algorithm: Algorithm, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let result = match algorithm {
        Algorithm::Lzjb => lzjb::decompress(src, dst),
        Algorithm::Gzip(_) => gzip::decompress(src, dst),
        Algorithm::Zle => zle::decompress(src, dst),
        Algorithm::Lz4 => lz4::decompress(src, dst),
        Algorithm::Zstd => zstd::decompress(src, dst),
    };
    if result.is_err() {
        // A partial result, or the previous contents of the buffer, must not be mistaken for the
        // block.
        dst.fill(0);
    }
    result
}

/// Compresses a block. Returns `None` if the result exceeds `limit` bytes. The caller rounds up to
/// sectors and pads with zeros.
///
/// OpenZFS's limit is 7/8 of the block, rounded down to whole sectors. `level` applies to zstd
/// only; gzip's level is part of `algorithm`.
pub fn compress(algorithm: Algorithm, level: zstd::Level, src: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let length = compress_into(algorithm, level, src, limit, &mut out)?;
    out.truncate(length);
    Some(out)
}

/// Like [`compress`], but writes to the start of `out` and returns the length. `out` only grows, up
/// to the algorithm's maximum, and its contents after the length are unspecified. A thread that
/// reuses its buffer therefore neither allocates nor clears one for each block.
pub fn compress_into(
    algorithm: Algorithm,
    level: zstd::Level,
    src: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    match algorithm {
        Algorithm::Lzjb => lzjb::compress(src, limit, room(out, limit)),
        Algorithm::Gzip(level) => gzip::compress(src, limit, level, room(out, limit)),
        Algorithm::Zle => zle::compress(src, limit, room(out, limit)),
        Algorithm::Lz4 => lz4::compress(src, limit, room(out, lz4::room_bytes(src.len()))),
        Algorithm::Zstd => zstd::compress(src, limit, level, room(out, limit.max(lz4::room_bytes(src.len())))),
    }
}

fn room(out: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if out.len() < bytes {
        out.resize(bytes, 0);
    }
    &mut out[..bytes]
}

#[cfg(test)]
mod reuse;
#[cfg(test)]
mod tests;
