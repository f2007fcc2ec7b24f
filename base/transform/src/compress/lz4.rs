//! LZ4: length as 4 bytes big-endian, then one raw LZ4 block (no frame).
//!
//! The decoder is the safe one of `lz4_flex`: images may be hostile, and a checksum only proves
//! that they are as written. Measured on 128 KiB blocks (2 cores Zen 5, GB/s, medians of 5): C
//! source 5.0, Markdown 5.4, a library 4.8, repeating text 11.5; its unsafe decoder 5.4, 6.4, 5.6,
//! 15.8. A safe decoder of our own was no faster than the safe one here.

use std::cell::RefCell;

use lz4_flex::block::{CompressTable, compress_into_with_table};

use super::error::Error;
use super::frame::framed;

const NAME: &str = "lz4";
const HEADER_BYTES: usize = 4;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let block = framed(NAME, src, HEADER_BYTES)?;
    let want = dst.len();
    let have = lz4_flex::block::decompress_into(block, dst)
        .map_err(|error| Error::Malformed { algorithm: NAME, what: error.to_string() })?;
    if have == want { Ok(()) } else { Err(Error::Short { algorithm: NAME, have, want }) }
}

/// Maximum size of the encoder's output: it requires space for the worst case.
pub(super) fn room_bytes(src_bytes: usize) -> usize {
    HEADER_BYTES + lz4_flex::block::get_maximum_output_size(src_bytes)
}

/// `out` must hold at least [`room_bytes`].
pub(super) fn compress(src: &[u8], limit: usize, out: &mut [u8]) -> Option<usize> {
    // The hash table is 16 KiB of heap memory; each thread caches its own. Always the large one:
    // the output must not depend on what the thread compressed before.
    thread_local!(static TABLE: RefCell<CompressTable> = RefCell::new(CompressTable::large()));
    let (header, body) = out.split_at_mut(HEADER_BYTES);
    let length = TABLE.with_borrow_mut(|table| compress_into_with_table(src, body, table)).ok()?;
    header.copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    Some(HEADER_BYTES + length).filter(|length| *length <= limit)
}
