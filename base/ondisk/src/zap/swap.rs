//! Byte-swaps a whole ZAP block: a block from a big-endian host is converted to little-endian
//! before it is modified.
//!
//! Above: `object::zap`. Unlike most objects of 64-bit words, micro ZAPs and leaves have fields of
//! several sizes, and strings.

use super::block::BlockKind;
use super::leaf::{CHUNK_BYTES, ENTRY, HEADER_BYTES};
use super::micro;
use crate::endian::Endian;
use crate::error::Result;

/// Converts a big-endian ZAP block to little-endian.
pub fn to_little(bytes: &mut [u8]) -> Result<()> {
    turn(bytes, Endian::Big)
}

/// Swaps the byte order of a ZAP block that is in the order `from`.
pub fn turn(bytes: &mut [u8], from: Endian) -> Result<()> {
    match BlockKind::of(bytes, from)? {
        BlockKind::Micro => micro_block(bytes),
        BlockKind::Leaf => leaf(bytes),
        BlockKind::Header | BlockKind::Table => bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse),
    }
    Ok(())
}

fn micro_block(bytes: &mut [u8]) {
    let (header, entries) = bytes.split_at_mut(micro::ENTRY_BYTES.min(bytes.len()));
    header.chunks_exact_mut(8).for_each(<[u8]>::reverse);
    for entry in entries.chunks_exact_mut(micro::ENTRY_BYTES) {
        swap(entry, &[0..8, 8..12, 12..14]);
    }
}

fn leaf(bytes: &mut [u8]) {
    let hash_bytes = bytes.len() / 16;
    if bytes.len() < HEADER_BYTES + hash_bytes {
        return;
    }
    let (header, rest) = bytes.split_at_mut(HEADER_BYTES);
    swap(header, &[0..8, 8..16, 16..24, 24..28, 28..30, 30..32, 32..34, 34..36]);
    let (hashes, chunks) = rest.split_at_mut(hash_bytes);
    hashes.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    for chunk in chunks.chunks_exact_mut(CHUNK_BYTES) {
        match chunk[0] {
            ENTRY => swap(chunk, &[2..4, 4..6, 6..8, 8..10, 10..12, 12..16, 16..24]),
            // Array and free chunks. The contents of arrays are always big-endian.
            _ => chunk[22..24].reverse(),
        }
    }
}

fn swap(bytes: &mut [u8], fields: &[std::ops::Range<usize>]) {
    for field in fields {
        bytes[field.clone()].reverse();
    }
}
