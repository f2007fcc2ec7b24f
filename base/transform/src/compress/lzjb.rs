//! LZJB: the LZ variant that ZFS began with.
//!
//! ```text
//!   map byte | item | item | ... 8 items, the map's lowest bit first
//!   bit 0: item is a literal byte      bit 1: item is 2 bytes, big-endian: length - 3 (6 bits), distance back (10 bits)
//! ```

use super::Error;

const NAME: &str = "lzjb";
const MATCH_MIN: usize = 3;
const DISTANCE_MASK: u16 = 0x3ff;
const DISTANCE_BITS: u32 = 10;

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
            // OpenZFS leaves the buffer's old bytes in place for distance 0, which its compressor never writes.
            if distance == 0 || distance > at {
                let what = format!("match reaches {distance} bytes back at byte {at}");
                return Err(Error::Malformed { algorithm: NAME, what });
            }
            // The last match may be longer than what is left: it is cut, as OpenZFS does.
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
