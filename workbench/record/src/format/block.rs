//! The values of one column in one frame of rows, in the shortest of three encodings.
//!
//! | tag | encoding                                           | used if                     |
//! |-----|----------------------------------------------------|-----------------------------|
//! | 0   | one f64                                            | all rows have this value    |
//! | 1   | zigzag varints: the first number, then differences | all are integers below 2^53 |
//! | 2   | an f64 for each row; NaN: not measured             | otherwise                   |

/// Limit of the integers that an f64 represents exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn varint(out: &mut Vec<u8>, n: i64) {
    let mut n = ((n << 1) ^ (n >> 63)) as u64;
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn unvarint(bytes: &mut &[u8]) -> Option<i64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((n >> 1) as i64 ^ -((n & 1) as i64));
        }
    }
    None
}

/// Encodes times as differences.
pub(super) fn pack_times(times: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before = 0i64;
    for time in times {
        varint(&mut out, time.wrapping_sub(before));
        before = *time;
    }
    out
}

/// Decodes `rows` times. `None` if the bytes do not contain exactly that many.
pub(super) fn unpack_times(mut bytes: &[u8], rows: usize) -> Option<Vec<i64>> {
    let mut out = Vec::with_capacity(rows.min(bytes.len()));
    let mut before = 0i64;
    for _ in 0..rows {
        before = before.wrapping_add(unvarint(&mut bytes)?);
        out.push(before);
    }
    bytes.is_empty().then_some(out)
}

/// Encodes the values of a column.
pub(super) fn pack(values: &[f64]) -> Vec<u8> {
    let first = values.first().copied().unwrap_or(f64::NAN);
    if values.iter().all(|v| v.to_bits() == first.to_bits()) {
        let mut out = vec![0];
        out.extend(first.to_le_bytes());
        return out;
    }
    let is_whole = |v: &f64| v.fract() == 0.0 && v.abs() < EXACT && !(*v == 0.0 && v.is_sign_negative());
    if values.iter().all(is_whole) {
        let mut out = vec![1];
        let mut before = 0i64;
        for value in values {
            let value = *value as i64;
            varint(&mut out, value - before);
            before = value;
        }
        return out;
    }
    let mut out = vec![2];
    values.iter().for_each(|v| out.extend(v.to_le_bytes()));
    out
}

/// Decodes the values of a column; `None` if they are malformed.
pub(super) fn unpack(bytes: &[u8], rows: usize, out: &mut Vec<f64>) -> Option<()> {
    let (tag, mut rest) = bytes.split_first()?;
    match tag {
        0 => {
            let value = f64::from_le_bytes(rest.try_into().ok()?);
            out.extend(std::iter::repeat_n(value, rows));
        }
        1 => {
            let mut before = 0i64;
            for _ in 0..rows {
                before = before.wrapping_add(unvarint(&mut rest)?);
                out.push(before as f64);
            }
            if !rest.is_empty() {
                return None;
            }
        }
        2 if rest.len() == rows * 8 => {
            out.extend(rest.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap_or_default())));
        }
        _ => return None,
    }
    Some(())
}
