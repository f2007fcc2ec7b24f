//! The length that precedes the streams of lz4 and zstd.

use super::error::Error;

/// Parses the big-endian length at the start of lz4 and zstd streams. Returns the `length` bytes at
/// offset `header_bytes`.
pub fn framed<'a>(algorithm: &'static str, src: &'a [u8], header_bytes: usize) -> Result<&'a [u8], Error> {
    let short = Error::Short { algorithm, have: src.len(), want: header_bytes };
    let length = u32::from_be_bytes(*src.first_chunk().ok_or(short.clone())?);
    let body = src.get(header_bytes..).ok_or(short)?;
    body.get(..length as usize).ok_or(Error::Length { algorithm, length, limit: body.len() })
}
