//! fletcher4: sums of 32-bit words up to the fourth order. The checksum of nearly every block; its
//! speed limits that of verification.
//!
//! ```text
//!   for each word w:   a += w   b += a   c += b   d += c        (all wrap at 64 bits)
//! ```
//!
//! With m counting the words from the end of the block, starting at 1: a = Σ w, b = Σ m w, c = Σ
//! m(m+1)/2 w, d = Σ m(m+1)(m+2)/6 w.
//!
//! A single stream of additions is limited by its chain of dependent sums. The vector
//! implementations run L streams side by side, with lane j taking the words j, j+L, j+2L …. The
//! word with count t from the end of lane j has m = tL - j, a polynomial of t, so that the lanes'
//! sums A, B, C, D yield those of the block ([`lanes::combine_lanes`]). Likewise, the sums of two
//! adjacent pieces yield those of the whole ([`join`]).
//!
//! Invariant: every implementation returns the same as [`scalar`]; a property test compares them.

use std::sync::OnceLock;

use super::order::Order;

mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use lanes::Twin;

/// Checksum of `data` in one call; a tail shorter than 4 bytes is ignored.
pub fn checksum(data: &[u8], order: Order) -> [u64; 4] {
    let mut state = Fletcher4::new(order);
    state.update(data);
    state.words()
}

#[derive(Debug, Clone)]
pub struct Fletcher4 {
    order: Order,
    words: [u64; 4],
}

impl Fletcher4 {
    /// The sums of no data.
    pub fn new(order: Order) -> Self {
        Self::resume(order, [0; 4])
    }

    /// Continues from earlier sums: send streams carry a running checksum.
    pub fn resume(order: Order, words: [u64; 4]) -> Self {
        Self { order, words }
    }

    /// Appends `data`, a multiple of 4 bytes; a shorter tail is ignored.
    pub fn update(&mut self, data: &[u8]) {
        if data.len() < SMALL_BYTES {
            self.words = scalar(data, self.order, self.words);
            return;
        }
        let twin = fastest();
        for piece in data.chunks(PIECE_BYTES) {
            let bulk = piece.len() / twin.step_bytes * twin.step_bytes;
            let sums = (twin.sum)(&piece[..bulk], self.order);
            self.words = join(self.words, (bulk / 4) as u64, sums);
            self.words = scalar(&piece[bulk..], self.order, self.words);
        }
    }

    /// `[A, B, C, D]`, the order in which they are stored.
    pub fn words(&self) -> [u64; 4] {
        self.words
    }
}

/// For shorter input, set-up and combining cost more than vectors save. Guessed: a few steps of the
/// widest implementation.
const SMALL_BYTES: usize = 256;

/// Longest piece passed to an implementation: keeps the products in `join` within 128 bits, and is
/// far larger than the largest block.
const PIECE_BYTES: usize = 1 << 30;

/// All implementations that this machine can run, slowest first.
pub fn twins() -> &'static [Twin] {
    static TWINS: OnceLock<Vec<Twin>> = OnceLock::new();
    TWINS.get_or_init(|| {
        #[allow(unused_mut)]
        let mut twins = vec![Twin { name: "scalar", step_bytes: 4, sum: |data, order| scalar(data, order, [0; 4]) }];
        #[cfg(target_arch = "x86_64")]
        twins.extend(x86::twins());
        #[cfg(target_arch = "aarch64")]
        twins.extend(neon::twins());
        twins
    })
}

fn fastest() -> Twin {
    *twins().last().expect("scalar is always there")
}

/// The definition, continuing from the sums in `from`.
pub fn scalar(data: &[u8], order: Order, from: [u64; 4]) -> [u64; 4] {
    #[inline(always)]
    fn sum(data: &[u8], [mut a, mut b, mut c, mut d]: [u64; 4], word: impl Fn([u8; 4]) -> u32) -> [u64; 4] {
        for bytes in data.as_chunks::<4>().0 {
            a = a.wrapping_add(u64::from(word(*bytes)));
            b = b.wrapping_add(a);
            c = c.wrapping_add(b);
            d = d.wrapping_add(c);
        }
        [a, b, c, d]
    }
    match order {
        Order::Little => sum(data, from, u32::from_le_bytes),
        Order::Big => sum(data, from, u32::from_be_bytes),
    }
}

/// The sums of a piece with sums `head` followed by `count` words with sums `tail`.
fn join(head: [u64; 4], count: u64, tail: [u64; 4]) -> [u64; 4] {
    let n = u128::from(count);
    let (n1, n2, n3) = (count, (n * (n + 1) / 2) as u64, (n * (n + 1) * (n + 2) / 6) as u64);
    let [a, b, c, d] = head;
    let mul = u64::wrapping_mul;
    [
        a.wrapping_add(tail[0]),
        b.wrapping_add(mul(n1, a)).wrapping_add(tail[1]),
        c.wrapping_add(mul(n1, b)).wrapping_add(mul(n2, a)).wrapping_add(tail[2]),
        d.wrapping_add(mul(n1, c)).wrapping_add(mul(n2, b)).wrapping_add(mul(n3, a)).wrapping_add(tail[3]),
    ]
}
