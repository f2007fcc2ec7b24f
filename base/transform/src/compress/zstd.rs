//! Zstandard: a header of 8 bytes, then a frame without magic number, checksum and content size.
//!
//! ```text
//! 0        4       5                     8
//! | length | level | version, big-endian |  frame ...   current layout
//! | length | version, big-endian | level |  frame ...   big-endian hosts before OpenZFS 2.0.6
//! ```
//!
//! Contexts are cached even after failures: the library discards an unfinished frame when the next
//! one begins (`ZSTD_compress2`, `ZSTD_decompressDCtx`), and the tests in `reuse` compare cached
//! contexts with new ones at every level.
//!
//! The length is big-endian. The version is the library's (10405 for 1.4.5); its top byte is zero,
//! which distinguishes the layouts.

use std::cell::RefCell;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat, get_error_name};

use super::error::Error;
use super::frame::framed;

const NAME: &str = "zstd";

/// The header before the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of the frame in bytes.
    pub length_bytes: u32,
    /// Version of the library that compressed the frame: major * 10000 + minor * 100 + patch.
    pub version: u32,
    /// Compression level; `None` if the number is unknown.
    pub level: Option<Level>,
}

impl Header {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 8;

    /// Parses both layouts.
    pub fn parse(bytes: &[u8; Self::SIZE_BYTES]) -> Self {
        let [l0, l1, l2, l3, b0, b1, b2, b3] = *bytes;
        let number = |high: u8, middle: u8, low: u8| u32::from_be_bytes([0, high, middle, low]);
        // OpenZFS searches for the zero byte from the end and accepts all four positions, although
        // only b1 and b0 were ever seen.
        let (level, version) = match [b0, b1, b2, b3] {
            [.., 0] => (b0, number(0, b2, b1)),
            [.., 0, _] => (b3, number(0, b1, b0)),
            [_, 0, ..] => (b0, number(0, b2, b3)),
            [0, ..] => (b3, number(0, b1, b2)),
            _ => (0, 0),
        };
        Self { length_bytes: u32::from_be_bytes([l0, l1, l2, l3]), version, level: Level::from_number(level) }
    }

    /// Encodes the current layout. An unknown level is written as 0.
    pub fn to_bytes(self) -> [u8; Self::SIZE_BYTES] {
        let [l0, l1, l2, l3] = self.length_bytes.to_be_bytes();
        let [_, high, middle, low] = self.version.to_be_bytes();
        [l0, l1, l2, l3, self.level.map_or(0, Level::number), high, middle, low]
    }
}

/// Compression level on Zstandard's scale: 1 to 19, or negative for the fast levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level(i16);

impl Level {
    /// The level of `compression=zstd`.
    pub const DEFAULT: Self = Self(3);

    /// Number of the first fast level in headers and properties.
    const FAST_1: u8 = 103;
    /// The existing fast levels, in the order of their numbers.
    const FAST: [i16; 21] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000];

    /// The level for a number in a header or a property (`enum zio_zstd_levels`).
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1..=19 => Some(Self(i16::from(number))),
            _ => Self::FAST.get(usize::from(number.checked_sub(Self::FAST_1)?)).map(|fast| Self(-fast)),
        }
    }

    /// The level for a number on Zstandard's scale; `None` for levels without a number in ZFS.
    pub fn from_level(level: i32) -> Option<Self> {
        let level = i16::try_from(level).ok()?;
        ((1..=19).contains(&level) || Self::FAST.contains(&level.checked_neg()?)).then_some(Self(level))
    }

    /// The number in a header or a property.
    pub fn number(self) -> u8 {
        match Self::FAST.iter().position(|fast| *fast == -self.0) {
            Some(index) => Self::FAST_1 + index as u8,
            None => self.0 as u8,
        }
    }

    /// The number on Zstandard's scale.
    pub fn level(self) -> i32 {
        self.0.into()
    }
}

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    // A context is 150 KiB of heap memory; each thread caches its own.
    thread_local!(static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) });
    let frame = framed(NAME, src, Header::SIZE_BYTES)?;
    let header = Header::parse(src.first_chunk().expect("framed() found it"));
    if header.level.is_none() {
        // OpenZFS rejects them too.
        return Err(Error::Malformed { algorithm: NAME, what: "header has no known compression level".into() });
    }
    let want = dst.len();
    let malformed = |code| Error::Malformed { algorithm: NAME, what: get_error_name(code).into() };
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => {
                let mut fresh = DCtx::create();
                fresh.set_parameter(DParameter::Format(FrameFormat::Magicless)).map_err(malformed)?;
                context.insert(fresh)
            }
        };
        let have = context.decompress(dst, frame).map_err(malformed)?;
        if have == want { Ok(()) } else { Err(Error::Short { algorithm: NAME, have, want }) }
    })
}

/// For blocks at least this large, faster algorithms are tried first if the level is at least
/// [`ABORT_LEVEL_MIN`].
const ABORT_BLOCK_BYTES_MIN: usize = 128 << 10;
const ABORT_LEVEL_MIN: Level = Level::DEFAULT;

/// Like OpenZFS, gives up early on large blocks that neither LZ4 nor level 1 compress to `limit`,
/// so that incompressible data is cheap at high levels, too.
///
/// `out` must hold `limit` bytes and the maximum output of LZ4.
pub(super) fn compress(src: &[u8], limit: usize, level: Level, out: &mut [u8]) -> Option<usize> {
    let hopeless = level.0 >= ABORT_LEVEL_MIN.0
        && src.len() >= ABORT_BLOCK_BYTES_MIN
        && super::lz4::compress(src, limit, out).is_none()
        && compress_at(src, limit, Level(1), out).is_none();
    if hopeless { None } else { compress_at(src, limit, level, out) }
}

fn compress_at(src: &[u8], limit: usize, level: Level, out: &mut [u8]) -> Option<usize> {
    // A context is megabytes of heap memory at the higher levels; each thread caches its own.
    thread_local!(static CONTEXT: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) });
    CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => {
                let mut fresh = CCtx::create();
                for parameter in [
                    CParameter::Format(FrameFormat::Magicless),
                    CParameter::ChecksumFlag(false),
                    CParameter::ContentSizeFlag(false),
                ] {
                    fresh.set_parameter(parameter).ok()?;
                }
                context.insert(fresh)
            }
        };
        context.set_parameter(CParameter::CompressionLevel(level.level())).ok()?;
        let (head, body) = out.get_mut(..limit)?.split_at_mut_checked(Header::SIZE_BYTES)?;
        let length = context.compress2(body, src).ok()?;
        let header = Header {
            length_bytes: u32::try_from(length).ok()?,
            version: zstd_safe::version_number(),
            level: Some(level),
        };
        head.copy_from_slice(&header.to_bytes());
        Some(Header::SIZE_BYTES + length)
    })
}
