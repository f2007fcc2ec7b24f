//! Skein-512-256 with a key (MAC), based on the block cipher Threefish-512.
//!
//! Specification: "The Skein Hash Function Family", version 1.3. A stage ("UBI") chains 64-byte
//! blocks: the state is the key that encrypts the block, and the result XOR the block is the next
//! state. The tweak holds the number of bytes so far, the type of the stage and whether the block
//! is its first or last. Stages: key, configuration, message, output.

const BLOCK_BYTES: usize = 64;
/// Stage types, at their position in the second word of the tweak.
const KEY: u64 = 0 << 56;
const CONFIGURATION: u64 = 4 << 56;
const MESSAGE: u64 = 48 << 56;
const OUTPUT: u64 = 63 << 56;
const FIRST: u64 = 1 << 62;
const FINAL: u64 = 1 << 63;
/// "SHA3", version 1.
const SCHEMA: u64 = 0x1_3341_4853;
const DIGEST_BITS: u64 = 256;

#[derive(Clone)]
pub(super) struct Skein {
    chain: [u64; 8],
    /// Bytes of the message in blocks that are already chained.
    chained: u64,
    pending: [u8; BLOCK_BYTES],
    /// Bytes used in `pending`. The last block is processed differently, so a full block is held
    /// back until more data follows.
    filled: usize,
}

impl Skein {
    /// A digest keyed with `key`.
    pub(super) fn keyed(key: &[u8; 32]) -> Self {
        let mut chain = [0; 8];
        stage(&mut chain, key, KEY);
        Self::configured(chain)
    }

    fn configured(mut chain: [u64; 8]) -> Self {
        let mut configuration = [0; 32];
        configuration[..8].copy_from_slice(&SCHEMA.to_le_bytes());
        configuration[8..16].copy_from_slice(&DIGEST_BITS.to_le_bytes());
        stage(&mut chain, &configuration, CONFIGURATION);
        Self { chain, chained: 0, pending: [0; BLOCK_BYTES], filled: 0 }
    }

    pub(super) fn update(&mut self, mut data: &[u8]) {
        if data.is_empty() {
            return;
        }
        if self.filled > 0 {
            let taken = data.len().min(BLOCK_BYTES - self.filled);
            self.pending[self.filled..self.filled + taken].copy_from_slice(&data[..taken]);
            self.filled += taken;
            data = &data[taken..];
            if data.is_empty() {
                return;
            }
            let block = self.pending;
            self.block(&block, BLOCK_BYTES as u64, 0);
        }
        // All but the last 1 to 64 bytes.
        let bulk = (data.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
        for block in data[..bulk].as_chunks::<BLOCK_BYTES>().0 {
            self.block(block, BLOCK_BYTES as u64, 0);
        }
        let rest = &data[bulk..];
        self.pending[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    #[inline]
    fn block(&mut self, block: &[u8; BLOCK_BYTES], length: u64, last: u64) {
        let first = if self.chained == 0 { FIRST } else { 0 };
        self.chained += length;
        chain_block(&mut self.chain, block, [self.chained, MESSAGE | first | last]);
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        let mut block = self.pending;
        block[self.filled..].fill(0);
        self.block(&block, self.filled as u64, FINAL);
        stage(&mut self.chain, &0_u64.to_le_bytes(), OUTPUT);
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(self.chain) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// A stage with one block, for inputs of up to 64 bytes.
fn stage(chain: &mut [u64; 8], input: &[u8], kind: u64) {
    let mut block = [0; BLOCK_BYTES];
    block[..input.len()].copy_from_slice(input);
    chain_block(chain, &block, [input.len() as u64, kind | FIRST | FINAL]);
}

#[inline]
fn chain_block(chain: &mut [u64; 8], block: &[u8; BLOCK_BYTES], tweak: [u64; 2]) {
    let words = block.as_chunks::<8>().0;
    let plain = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
    let cipher = threefish(chain, tweak, plain);
    *chain = std::array::from_fn(|i| cipher[i] ^ plain[i]);
}

/// Threefish-512. The `threefish` crate computes all subkeys in advance and does not unroll its
/// rounds, which makes it three times slower; the test compares this implementation with it.
#[inline(always)]
fn threefish(key: &[u64; 8], tweak: [u64; 2], mut v: [u64; 8]) -> [u64; 8] {
    /// The parity word of the key is this constant XOR all words of the key.
    const PARITY: u64 = 0x1bd1_1bda_a9fc_1a22;
    let parity = key.iter().fold(PARITY, |parity, word| parity ^ word);
    let key: [u64; 9] = std::array::from_fn(|i| *key.get(i).unwrap_or(&parity));
    let tweak = [tweak[0], tweak[1], tweak[0] ^ tweak[1]];
    // Instead of permuting words between rounds, each round names the words that it combines.
    macro_rules! rounds {
        ($($a:literal $b:literal $rotation:literal),*) => {
            $(
                v[$a] = v[$a].wrapping_add(v[$b]);
                v[$b] = v[$b].rotate_left($rotation) ^ v[$a];
            )*
        };
    }
    macro_rules! add_subkey {
        ($s:expr) => {
            for i in 0..8 {
                v[i] = v[i].wrapping_add(key[($s + i) % 9]);
            }
            v[5] = v[5].wrapping_add(tweak[$s % 3]);
            v[6] = v[6].wrapping_add(tweak[($s + 1) % 3]);
            v[7] = v[7].wrapping_add($s as u64);
        };
    }
    macro_rules! eight_rounds {
        ($($s:literal)*) => {
            $(
                add_subkey!($s);
                rounds!(0 1 46, 2 3 36, 4 5 19, 6 7 37);
                rounds!(2 1 33, 4 7 27, 6 5 14, 0 3 42);
                rounds!(4 1 17, 6 3 49, 0 5 36, 2 7 39);
                rounds!(6 1 44, 0 7 9, 2 5 54, 4 3 56);
                add_subkey!($s + 1);
                rounds!(0 1 39, 2 3 30, 4 5 34, 6 7 24);
                rounds!(2 1 13, 4 7 50, 6 5 10, 0 3 17);
                rounds!(4 1 25, 6 3 29, 0 5 39, 2 7 43);
                rounds!(6 1 8, 0 7 35, 2 5 56, 4 3 22);
            )*
        };
    }
    eight_rounds!(0 2 4 6 8 10 12 14 16);
    add_subkey!(18_usize);
    v
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn threefish_twins_agree(key: [u64; 8], tweak: [u64; 2], plain: [u64; 8]) {
            let mut cipher = plain;
            ::threefish::Threefish512::new_with_tweak_u64(&key, &tweak).encrypt_block_u64(&mut cipher);
            prop_assert_eq!(threefish(&key, tweak, plain), cipher);
        }
    }

    /// Without a key, the key stage is omitted.
    fn plain(data: &[u8]) -> [u8; 32] {
        let mut skein = Skein::configured([0; 8]);
        skein.update(data);
        skein.finish()
    }

    #[test]
    fn digest_is_the_same_however_the_message_is_cut() {
        let data: Vec<u8> = (0..1000_u32).map(|i| (i * 7) as u8).collect();
        for cut in [0, 1, 63, 64, 65, 127, 128, 129, 999, 1000] {
            let mut skein = Skein::configured([0; 8]);
            skein.update(&data[..cut]);
            skein.update(&data[cut..]);
            assert_eq!(skein.finish(), plain(&data), "cut at {cut}");
        }
    }
}
