//! Zstandard: a header of 8 bytes, then a frame without its magic number, checksum and content size.
//!
//! ```text
//!   0        4       5                     8
//!   | length | level | version, big-endian |  frame ...      as written by everyone now
//!   | length | version, big-endian | level |  frame ...      as written by big-endian hosts before OpenZFS 2.0.6
//! ```
//! Contexts are kept after failures, too: the library forgets an unfinished frame when the next one begins (`ZSTD_compress2`,
//! `ZSTD_decompressDCtx`), and the tests in `reuse` hold kept contexts against fresh ones at every level.
//!
//! The length is big-endian. The version is the library's (10405 for 1.4.5): its top byte is zero, and tells which layout it is.

use std::cell::RefCell;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat, get_error_name};

use super::{Error, framed};

const NAME: &str = "zstd";

/// What stands before the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of the frame.
    pub length_bytes: u32,
    /// Version of the library that compressed, as major * 10000 + minor * 100 + patch.
    pub version: u32,
    /// Level it compressed with; `None` if the number is not one.
    pub level: Option<Level>,
}

impl Header {
    /// Size on disk.
    pub const SIZE_BYTES: usize = 8;

    /// Reads both layouts.
    pub fn parse(bytes: &[u8; Self::SIZE_BYTES]) -> Self {
        let [l0, l1, l2, l3, b0, b1, b2, b3] = *bytes;
        let number = |high: u8, middle: u8, low: u8| u32::from_be_bytes([0, high, middle, low]);
        // OpenZFS looks for the zero byte from the end, and knows all four places, though only b1 and b0 were ever seen.
        let (level, version) = match [b0, b1, b2, b3] {
            [.., 0] => (b0, number(0, b2, b1)),
            [.., 0, _] => (b3, number(0, b1, b0)),
            [_, 0, ..] => (b0, number(0, b2, b3)),
            [0, ..] => (b3, number(0, b1, b2)),
            _ => (0, 0),
        };
        Self { length_bytes: u32::from_be_bytes([l0, l1, l2, l3]), version, level: Level::from_number(level) }
    }

    /// The bytes that everyone writes now. A level that is not one is written as 0.
    pub fn to_bytes(self) -> [u8; Self::SIZE_BYTES] {
        let [l0, l1, l2, l3] = self.length_bytes.to_be_bytes();
        let [_, high, middle, low] = self.version.to_be_bytes();
        [l0, l1, l2, l3, self.level.map_or(0, Level::number), high, middle, low]
    }
}

/// Compression level as Zstandard counts: 1 to 19, or negative for the fast ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level(i16);

impl Level {
    /// What `compression=zstd` means.
    pub const DEFAULT: Self = Self(3);

    /// Number of the first fast level in headers and properties.
    const FAST_1: u8 = 103;
    /// The fast levels there are, in the order of their numbers.
    const FAST: [i16; 21] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1000];

    /// From the number in a header or a property (`enum zio_zstd_levels`).
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1..=19 => Some(Self(i16::from(number))),
            _ => Self::FAST.get(usize::from(number.checked_sub(Self::FAST_1)?)).map(|fast| Self(-fast)),
        }
    }

    /// From Zstandard's own count; `None` for levels that ZFS has no number for.
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

    /// Zstandard's own count.
    pub fn level(self) -> i32 {
        self.0.into()
    }
}

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    // A context is 150 KiB of heap; a thread keeps its own from block to block.
    thread_local!(static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) });
    let frame = framed(NAME, src, Header::SIZE_BYTES)?;
    let header = Header::parse(src.first_chunk().expect("framed() found it"));
    if header.level.is_none() {
        // OpenZFS refuses them too.
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

/// Blocks at least this large are tried with faster means first, when the level is at least [`ABORT_LEVEL_MIN`].
const ABORT_BLOCK_BYTES_MIN: usize = 128 << 10;
const ABORT_LEVEL_MIN: Level = Level::DEFAULT;

/// As OpenZFS does, gives up early on large blocks that neither LZ4 nor level 1 get down to `limit`: data that do not compress
/// then cost little at high levels, too.
///
/// `out` has room for `limit` bytes and for what LZ4 may write.
pub(super) fn compress(src: &[u8], limit: usize, level: Level, out: &mut [u8]) -> Option<usize> {
    let hopeless = level.0 >= ABORT_LEVEL_MIN.0
        && src.len() >= ABORT_BLOCK_BYTES_MIN
        && super::lz4::compress(src, limit, out).is_none()
        && compress_at(src, limit, Level(1), out).is_none();
    if hopeless { None } else { compress_at(src, limit, level, out) }
}

fn compress_at(src: &[u8], limit: usize, level: Level, out: &mut [u8]) -> Option<usize> {
    // A context is megabytes of heap at the higher levels; a thread keeps its own from block to block.
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
