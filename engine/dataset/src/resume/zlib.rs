//! Zlib at level 6, bit for bit as the kernel compresses a few hundred bytes.
//!
//! Any zlib stream would work for `zfs send -t`, but people and scripts compare tokens, and the
//! Rust libraries find different matches. This follows deflate's lazy matching (facts:
//! `deflate_slow` and `longest_match` in zlib's deflate.c) and writes one block with the fixed
//! codes of RFC 1951, which zlib also prefers for so little data.
//!
//! Invariant: a position is inserted into the chains before any later one looks for a match, as in
//! zlib; the order decides which of several equal matches is chosen.

use std::collections::HashMap;

const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 258;
const DISTANCE_MAX: usize = 32768 - 262;
/// Level 6: chains are searched to this depth, or a quarter of it once there is a match of
/// [`GOOD`].
const CHAIN: usize = 128;
const GOOD: usize = 8;
const LAZY: usize = 16;
const NICE: usize = 128;
/// A match of three bytes from further back costs more than the literal bytes.
const TOO_FAR: usize = 4096;

/// Compresses `data`, of at most 32 KiB.
pub fn compress(data: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0b011, 3); // The last block, with fixed codes.
    for symbol in symbols(data) {
        bits.symbol(symbol);
    }
    bits.code(256);
    let mut out = vec![0x78, 0x9c];
    out.extend(bits.finish());
    out.extend(adler32(data).to_be_bytes());
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
}

/// Positions that began with the same three bytes, latest first.
struct Chains<'d> {
    data: &'d [u8],
    head: HashMap<[u8; 3], usize>,
    previous: Vec<usize>,
}

impl Chains<'_> {
    /// Inserts position `at` and returns the previous one with the same bytes; 0: none. Therefore
    /// position 0 is never found.
    fn insert(&mut self, at: usize) -> usize {
        let Some(&key) = self.data.get(at..).and_then(<[u8]>::first_chunk) else { return 0 };
        let before = self.head.insert(key, at).unwrap_or(0);
        self.previous[at] = before;
        before
    }

    /// The longest match for position `at`, if longer than `best`, along the chain from
    /// `candidate`: `(length, position)`.
    fn longest(&self, at: usize, mut candidate: usize, mut best: usize) -> Option<(usize, usize)> {
        let left = self.data.len() - at;
        let mut chain = if best >= GOOD { CHAIN / 4 } else { CHAIN };
        let mut found = None;
        let limit = at.saturating_sub(DISTANCE_MAX);
        loop {
            let same = self.data[candidate..].iter().zip(&self.data[at..]).take(MATCH_MAX);
            let length = same.take_while(|(a, b)| a == b).count();
            if length > best {
                (best, found) = (length, Some((length, candidate)));
                if length >= NICE.min(left) {
                    break;
                }
            }
            candidate = self.previous[candidate];
            chain -= 1;
            if candidate <= limit || chain == 0 {
                break;
            }
        }
        found
    }
}

fn symbols(data: &[u8]) -> Vec<Symbol> {
    let mut chains = Chains { data, head: HashMap::new(), previous: vec![0; data.len()] };
    let mut out = Vec::new();
    let (mut at, mut pending) = (0, false);
    let (mut length, mut start) = (MATCH_MIN - 1, 0);
    while at < data.len() {
        let candidate = chains.insert(at);
        let (previous_length, previous_start) = (length, start);
        length = MATCH_MIN - 1;
        if candidate != 0 && previous_length < LAZY && at - candidate <= DISTANCE_MAX {
            if let Some(found) = chains.longest(at, candidate, previous_length) {
                (length, start) = found;
            } else {
                length = previous_length.min(data.len() - at);
            }
            if length == MATCH_MIN && at - start > TOO_FAR {
                length = MATCH_MIN - 1;
            }
        }
        if previous_length >= MATCH_MIN && length <= previous_length {
            // The match that began one byte earlier is at least as good.
            out.push(Symbol::Match { length: previous_length, distance: at - 1 - previous_start });
            for position in at + 1..at + previous_length - 1 {
                chains.insert(position);
            }
            at += previous_length - 1;
            (pending, length) = (false, MATCH_MIN - 1);
        } else {
            if pending {
                out.push(Symbol::Literal(data[at - 1]));
            }
            pending = true;
            at += 1;
        }
    }
    if pending {
        out.push(Symbol::Literal(data[at - 1]));
    }
    out
}

/// Bits, least significant first.
#[derive(Default)]
struct Bits {
    out: Vec<u8>,
    word: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        self.word |= u64::from(value) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.word as u8);
            self.word >>= 8;
            self.count -= 8;
        }
    }

    /// A code, most significant bit first.
    fn reversed(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    /// The fixed code of a literal or length.
    fn code(&mut self, symbol: u32) {
        match symbol {
            0..144 => self.reversed(0x30 + symbol, 8),
            144..256 => self.reversed(0x190 + symbol - 144, 9),
            256..280 => self.reversed(symbol - 256, 7),
            _ => self.reversed(0xc0 + symbol - 280, 8),
        }
    }

    fn symbol(&mut self, symbol: Symbol) {
        let (length, distance) = match symbol {
            Symbol::Literal(byte) => return self.code(u32::from(byte)),
            Symbol::Match { length, distance } => (length as u32 - MATCH_MIN as u32, distance as u32 - 1),
        };
        // Both use groups of codes, each with twice the range of the previous one: 4 groups per
        // power of two for lengths, 2 for distances. 258, the maximum length, has a code of its
        // own.
        let (base, extra) = match length {
            255 => (28, 0),
            0..8 => (length, 0),
            _ => {
                let extra = length.ilog2() - 2;
                (extra * 4 + (length >> extra), extra)
            }
        };
        self.code(257 + base);
        self.put(length & ((1 << extra) - 1), extra);
        let (base, extra) = match distance {
            0..4 => (distance, 0),
            _ => {
                let extra = distance.ilog2() - 1;
                (extra * 2 + (distance >> extra), extra)
            }
        };
        self.reversed(base, 5);
        self.put(distance & ((1 << extra) - 1), extra);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.out.push(self.word as u8);
        }
        self.out
    }
}

fn adler32(data: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (a, b) = data.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;
    use transform::compress::{Algorithm, decompress};

    #[test]
    fn compressed_tokens_are_decompressed() {
        let mut noise = 12345u32;
        let mut samples: Vec<Vec<u8>> = vec![vec![], b"a".to_vec(), vec![0; 700], (0..=255).collect()];
        for size in 1..200usize {
            let mut byte = || {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8 % 5
            };
            samples.push((0..size * 7).map(|_| byte()).collect());
        }
        for data in samples {
            let packed = compress(&data);
            let mut back = vec![0; data.len()];
            decompress(Algorithm::Gzip(6), &packed, &mut back).unwrap();
            assert_eq!(back, data);
        }
    }
}
