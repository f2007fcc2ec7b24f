//! fletcher2: two interleaved Fletcher sums of 64-bit words.
//!
//! The even words of the data go into (a0, b0), the odd ones into (a1, b1); a is the sum, b the sum
//! of the sums. The sums wrap at 64 bits, so the top bits of a block's first words affect only b:
//! weak, and kept for old pools. The result is (a0, a1, b0, b1).

use super::order::Order;

/// Checksum of `data` in one call.
pub fn checksum(data: &[u8], order: Order) -> [u64; 4] {
    let mut state = Fletcher2::new(order);
    state.update(data);
    state.words()
}

#[derive(Debug, Clone)]
pub struct Fletcher2 {
    order: Order,
    words: [u64; 4],
}

impl Fletcher2 {
    /// The sums of no data.
    pub fn new(order: Order) -> Self {
        Self { order, words: [0; 4] }
    }

    /// Appends `data`, a multiple of 16 bytes; a shorter tail is ignored.
    pub fn update(&mut self, data: &[u8]) {
        match self.order {
            Order::Little => self.sum(data, u64::from_le_bytes),
            Order::Big => self.sum(data, u64::from_be_bytes),
        }
    }

    #[inline(always)]
    fn sum(&mut self, data: &[u8], word: impl Fn([u8; 8]) -> u64) {
        let [mut a0, mut a1, mut b0, mut b1] = self.words;
        for pair in data.as_chunks::<16>().0 {
            let [even, odd] = [&pair[..8], &pair[8..]].map(|half| word(half.try_into().expect("half of 16 bytes")));
            a0 = a0.wrapping_add(even);
            a1 = a1.wrapping_add(odd);
            b0 = b0.wrapping_add(a0);
            b1 = b1.wrapping_add(a1);
        }
        self.words = [a0, a1, b0, b1];
    }

    /// `[a0, a1, b0, b1]`, the order in which they are stored.
    pub fn words(&self) -> [u64; 4] {
        self.words
    }
}
