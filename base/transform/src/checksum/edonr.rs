//! Edon-R-512 (second-round tweak) with ZFS's salt, truncated to half of the digest.
//!
//! A wide-pipe hash: the state is 16 words, a block 16 words, and a step applies a quasigroup
//! operation `x * y` to vectors of 8 words, eight times. Words are little-endian. The padding is a
//! 1 bit, zeros, and the length in bits as 64 bits. The salt block of 128 bytes, H(salt) followed
//! by H(H(salt)), is hashed before the data.

use std::num::Wrapping;

const BLOCK_BYTES: usize = 128;

type Half = [Wrapping<u64>; 8];

#[derive(Clone)]
pub(super) struct EdonR {
    pipe: [Half; 2],
    chained: u64,
    pending: [u8; BLOCK_BYTES],
    filled: usize,
}

impl EdonR {
    fn new() -> Self {
        // The bytes 0x80 to 0xff, as big-endian words.
        let word = |i: usize| Wrapping(u64::from_be_bytes(std::array::from_fn(|byte| 0x80 + (8 * i + byte) as u8)));
        let pipe = [std::array::from_fn(word), std::array::from_fn(|i| word(8 + i))];
        Self { pipe, chained: 0, pending: [0; BLOCK_BYTES], filled: 0 }
    }

    /// A digest to which the salt block has been added.
    pub(super) fn salted(salt: &[u8; 32]) -> Self {
        let digest = |data: &[u8]| {
            let mut hash = Self::new();
            hash.update(data);
            hash.digest()
        };
        let once = digest(salt);
        let twice = digest(&once);
        let mut hash = Self::new();
        hash.update(&once);
        hash.update(&twice);
        hash
    }

    pub(super) fn update(&mut self, mut data: &[u8]) {
        if self.filled > 0 {
            let taken = data.len().min(BLOCK_BYTES - self.filled);
            self.pending[self.filled..self.filled + taken].copy_from_slice(&data[..taken]);
            self.filled += taken;
            data = &data[taken..];
            if self.filled < BLOCK_BYTES {
                return;
            }
            let block = self.pending;
            self.block(&block);
            self.filled = 0;
        }
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.block(block);
        }
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// All 512 bits.
    fn digest(mut self) -> [u8; 64] {
        let bits = (self.chained + self.filled as u64).wrapping_mul(8);
        let mut block = [0; BLOCK_BYTES];
        block[..self.filled].copy_from_slice(&self.pending[..self.filled]);
        block[self.filled] = 0x80;
        if self.filled >= BLOCK_BYTES - 8 {
            self.block(&block);
            block = [0; BLOCK_BYTES];
        }
        block[BLOCK_BYTES - 8..].copy_from_slice(&bits.to_le_bytes());
        self.block(&block);
        let mut digest = [0; 64];
        for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(self.pipe[1]) {
            *bytes = word.0.to_le_bytes();
        }
        digest
    }

    /// The half of the digest that ZFS keeps.
    pub(super) fn finish(self) -> [u8; 32] {
        let digest = self.digest();
        digest[..32].try_into().expect("32 of 64 bytes")
    }

    #[inline]
    fn block(&mut self, block: &[u8; BLOCK_BYTES]) {
        self.chained += BLOCK_BYTES as u64;
        let words = block.as_chunks::<8>().0;
        let low: Half = std::array::from_fn(|i| Wrapping(u64::from_le_bytes(words[i])));
        let high: Half = std::array::from_fn(|i| Wrapping(u64::from_le_bytes(words[8 + i])));
        let reversed = |half: &Half| -> Half { std::array::from_fn(|i| half[7 - i]) };
        let [pipe_low, pipe_high] = self.pipe;

        let x = quasigroup(&reversed(&high), &low);
        let y = quasigroup(&x, &high);
        let x = quasigroup(&pipe_high, &x);
        let y = quasigroup(&x, &y);
        let x = quasigroup(&x, &pipe_low);
        let y = quasigroup(&y, &x);
        let x = quasigroup(&reversed(&low), &x);
        let y = quasigroup(&x, &y);

        for i in 0..8 {
            self.pipe[0][i] ^= high[i] ^ x[i];
            self.pipe[1][i] ^= low[i] ^ y[i];
        }
    }
}

#[inline(always)]
fn rotate(word: Wrapping<u64>, bits: u32) -> Wrapping<u64> {
    Wrapping(word.0.rotate_left(bits))
}

/// `x * y`: each operand passes through a Latin square of sums and rotations, then three words of
/// each form a word of the result.
#[inline(always)]
fn quasigroup(x: &Half, y: &Half) -> Half {
    const CONSTANT: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let [x0, x1, x2, x3, x4, x5, x6, x7] = *x;
    // Sums shared by several words. Each word adds five words of its operand:
    let (x04, x17, x23, x56) = (x0 + x4, x1 + x7, x2 + x3, x5 + x6);
    let s = [
        x04 + x17 + x2 + Wrapping(CONSTANT),
        rotate(x04 + x17 + x3, 5),
        rotate(x04 + x17 + x6, 15),
        rotate(x23 + x56 + x7, 22),
        rotate(x23 + x56 + x1, 31),
        rotate(x04 + x23 + x5, 40),
        rotate(x17 + x56 + x0, 50),
        rotate(x23 + x56 + x4, 59),
    ];
    let [y0, y1, y2, y3, y4, y5, y6, y7] = *y;
    let (y01, y25, y34, y67) = (y0 + y1, y2 + y5, y3 + y4, y6 + y7);
    let t = [
        y01 + y25 + y7 + Wrapping(!CONSTANT),
        rotate(y01 + y34 + y6, 10),
        rotate(y01 + y25 + y3, 19),
        rotate(y34 + y67 + y2, 29),
        rotate(y01 + y34 + y5, 36),
        rotate(y25 + y67 + y4, 44),
        rotate(y25 + y67 + y1, 48),
        rotate(y34 + y67 + y0, 55),
    ];
    let [s0, s1, s2, s3, s4, s5, s6, s7] = s;
    let [t0, t1, t2, t3, t4, t5, t6, t7] = t;
    [
        (s0 ^ s1 ^ s4) + (t0 ^ t1 ^ t5),
        (s0 ^ s4 ^ s7) + (t2 ^ t6 ^ t7),
        (s1 ^ s6 ^ s7) + (t0 ^ t1 ^ t3),
        (s2 ^ s3 ^ s4) + (t0 ^ t3 ^ t4),
        (s0 ^ s1 ^ s7) + (t1 ^ t2 ^ t5),
        (s3 ^ s5 ^ s6) + (t3 ^ t4 ^ t6),
        (s2 ^ s5 ^ s6) + (t2 ^ t5 ^ t7),
        (s2 ^ s3 ^ s5) + (t4 ^ t6 ^ t7),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of the reference implementation.
    #[test]
    fn unsalted_digests_are_those_of_the_reference() {
        let digest = |data: &[u8]| {
            let mut hash = EdonR::new();
            hash.update(data);
            hash.digest().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(
            digest(b"abc"),
            "1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2\
             de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b"
        );
        let two_blocks = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
                           hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
        assert_eq!(
            digest(two_blocks),
            "5351070dc51c3b2baca5a60d0252ccb4e4921a96fe5a69e76dad48fd21a0845a\
             d57f880b3e4a907bc503151842bb949e1cba7439a6409a34b8436cb46921583c"
        );
    }

    #[test]
    fn digest_is_the_same_however_the_message_is_cut() {
        let data: Vec<u8> = (0..1000_u32).map(|i| (i * 7) as u8).collect();
        let whole = {
            let mut hash = EdonR::new();
            hash.update(&data);
            hash.digest()
        };
        for cut in [0, 1, 119, 120, 127, 128, 129, 999, 1000] {
            let mut hash = EdonR::new();
            hash.update(&data[..cut]);
            hash.update(&data[cut..]);
            assert_eq!(hash.digest(), whole, "cut at {cut}");
        }
    }
}
