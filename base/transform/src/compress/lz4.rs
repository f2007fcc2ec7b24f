//! LZ4: length as 4 bytes big-endian, then one raw LZ4 block (no frame).

use super::{Error, framed};

const NAME: &str = "lz4";
const HEADER_BYTES: usize = 4;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let block = framed(NAME, src, HEADER_BYTES)?;
    let want = dst.len();
    let have = lz4_flex::block::decompress_into(block, dst)
        .map_err(|error| Error::Malformed { algorithm: NAME, what: error.to_string() })?;
    if have == want { Ok(()) } else { Err(Error::Short { algorithm: NAME, have, want }) }
}
