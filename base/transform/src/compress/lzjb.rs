//! LZJB: ZFS's original LZ variant.
//!
//! ```text
//! map byte | item | item | ... 8 items, the map's lowest bit first
//! bit 0: item is a literal byte
//! bit 1: item is 2 bytes, big-endian: length - 3 (6 bits), distance back (10 bits)
//! ```

use super::error::Error;

const NAME: &str = "lzjb";
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 66;
const DISTANCE_MASK: u16 = 0x3ff;
const DISTANCE_BITS: u32 = 10;
/// Number of positions remembered, by a hash of the 3 bytes there.
const TABLE_LEN: usize = 1024;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let mut input = src.iter();
    let mut at = 0;
    let want = dst.len();
    'block: while at < want {
        let short = |have| Error::Short { algorithm: NAME, have, want };
        let map = *input.next().ok_or_else(|| short(at))?;
        for bit in 0..8 {
            if at == want {
                break 'block;
            }
            let first = *input.next().ok_or_else(|| short(at))?;
            if map & (1 << bit) == 0 {
                dst[at] = first;
                at += 1;
                continue;
            }
            let second = *input.next().ok_or_else(|| short(at))?;
            let item = u16::from_be_bytes([first, second]);
            let distance = usize::from(item & DISTANCE_MASK);
            // For distance 0, which its compressor never writes, OpenZFS leaves the previous bytes
            // of the buffer in place.
            if distance == 0 || distance > at {
                let what = format!("match reaches {distance} bytes back at byte {at}");
                return Err(Error::Malformed { algorithm: NAME, what });
            }
            // The last match may extend beyond the block: it is truncated, as in OpenZFS.
            let length = (usize::from(item >> DISTANCE_BITS) + MATCH_MIN).min(want - at);
            if distance >= length {
                dst.copy_within(at - distance..at - distance + length, at);
            } else {
                for i in at..at + length {
                    dst[i] = dst[i - distance];
                }
            }
            at += length;
        }
    }
    Ok(())
}

/// Finds the same matches as OpenZFS's compressor, so that equal blocks compress to equal bytes and
/// deduplicate.
pub(super) fn compress(src: &[u8], limit: usize, out: &mut [u8]) -> Option<usize> {
    let mut end = 0;
    // Only the low bits of a position are stored, since distances have no more; 0 if nothing was
    // seen yet.
    let mut table = [0_u16; TABLE_LEN];
    let mut at = 0;
    while at < src.len() {
        // A map and eight items take at most 17 bytes.
        if end + 17 > limit {
            return None;
        }
        let map_at = end;
        out[map_at] = 0;
        end += 1;
        for bit in 0..8 {
            if at == src.len() {
                break;
            }
            match find(src, at, &mut table) {
                Some((distance, length)) => {
                    out[map_at] |= 1 << bit;
                    let item = ((length - MATCH_MIN) << DISTANCE_BITS | distance) as u16;
                    out[end..end + 2].copy_from_slice(&item.to_be_bytes());
                    end += 2;
                    at += length;
                }
                None => {
                    out[end] = src[at];
                    end += 1;
                    at += 1;
                }
            }
        }
    }
    Some(end)
}

/// Distance and length of a match at `at`. Also records the position `at`.
#[inline]
fn find(src: &[u8], at: usize, table: &mut [u16; TABLE_LEN]) -> Option<(usize, usize)> {
    if at + MATCH_MAX > src.len() {
        return None;
    }
    let mut hash = u32::from_be_bytes([0, src[at], src[at + 1], src[at + 2]]);
    hash += hash >> 9;
    hash += hash >> 5;
    let slot = &mut table[hash as usize % TABLE_LEN];
    let distance = usize::from((at as u16).wrapping_sub(*slot) & DISTANCE_MASK);
    *slot = at as u16;
    if distance == 0 || distance > at || src[at..at + MATCH_MIN] != src[at - distance..at - distance + MATCH_MIN] {
        return None;
    }
    let further = src[at + MATCH_MIN..at + MATCH_MAX].iter().zip(&src[at - distance + MATCH_MIN..]);
    Some((distance, MATCH_MIN + further.take_while(|(here, there)| here == there).count()))
}
