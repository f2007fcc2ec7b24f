//! Block checksums: the last four words of a block pointer.
//!
//! Above: `block::zio` (every block), import (labels), `dataset::intent_log` (log chain), send
//! streams. ZFS name: zio_checksum. Format: docs/format/checksum.md.
//!
//! A checksum is always four 64-bit words. Algorithms differ in how the words are derived from
//! their digest:
//!
//! | algorithm            | words                        | writer's byte order affects |
//! |----------------------|------------------------------|-----------------------------|
//! | fletcher2, fletcher4 | sums of the data's words     | the data's words            |
//! | sha256               | digest read big-endian       | nothing                     |
//! | sha512 (SHA-512/256) | first 32 bytes of the digest | the words of the result     |
//! | skein, edonr, blake3 | first 32 bytes of the digest | the words of the result     |
//!
//! skein, edonr and blake3 are keyed with the pool's 32-byte salt ([`Salted`]).
//!
//! Invariants:
//!   * a result depends on the bytes, the writer's byte order and the salt, never on the machine or
//!     its instruction set
//!   * a result equals the words of the block pointer, once those are read in the byte order of
//!     their container

mod edonr;
pub mod embedded;
pub mod fletcher2;
pub mod fletcher4;
mod order;
mod skein;

pub use order::Order;

use sha2::Digest;

/// A checksum algorithm: how the bytes of a block become four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Two interleaved sums of 64-bit words. Weak; used by old pools and old intent logs.
    Fletcher2,
    /// Sums of 32-bit words up to the fourth order: the default.
    Fletcher4,
    Sha256,
    /// SHA-512/256.
    Sha512,
    /// Skein-512-256, keyed with the pool's salt.
    Skein,
    /// Edon-R-512, salted; first half of the digest.
    EdonR,
    /// BLAKE3, keyed with the pool's salt.
    Blake3,
}

impl Algorithm {
    /// The algorithm for a number of the format (`enum zio_checksum`). `label` and `gang_header`
    /// are SHA-256, `zilog` fletcher2 and `zilog2` fletcher4, stored in the block itself: see
    /// [`embedded`]. `None` for `inherit`, `on`, `off`, `noparity` and unknown numbers.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            3 | 4 | 8 => Self::Sha256,
            5 | 6 => Self::Fletcher2,
            7 | 9 => Self::Fletcher4,
            11 => Self::Sha512,
            12 => Self::Skein,
            13 => Self::EdonR,
            14 => Self::Blake3,
            _ => return None,
        })
    }

    /// Whether the checksum depends on the pool's salt.
    pub fn is_salted(self) -> bool {
        matches!(self, Self::Skein | Self::EdonR | Self::Blake3)
    }

    /// Whether all words of the result are equally strong (`ZCHECKSUM_FLAG_DEDUP`).
    ///
    /// Encrypted blocks keep only the first two words; the others hold the MAC. For algorithms that
    /// are not strong (including Edon-R, which OpenZFS does not trust for dedup), OpenZFS folds the
    /// words before truncating: [`truncate_for_mac`].
    pub fn is_strong(self) -> bool {
        matches!(self, Self::Sha256 | Self::Sha512 | Self::Skein | Self::Blake3)
    }
}

/// The part of a checksum that is kept next to a MAC: the pointer of an encrypted block holds the
/// checksum in its first two words and the MAC in the last two. Compare the result with the first
/// two words of the pointer.
pub fn truncate_for_mac(algorithm: Algorithm, words: [u64; 4]) -> [u64; 2] {
    if algorithm.is_strong() { [words[0], words[1]] } else { [words[0] ^ words[2], words[1] ^ words[3]] }
}

/// Hash states of the salted algorithms, initialized with the pool's salt. Created once per pool.
#[derive(Clone)]
pub struct Salted {
    skein: skein::Skein,
    edonr: edonr::EdonR,
    blake3: Box<blake3::Hasher>,
}

impl Salted {
    /// Initializes the states with the pool's salt, the value of `org.illumos:checksum_salt` in the
    /// object directory.
    pub fn new(salt: &[u8; 32]) -> Self {
        Self {
            skein: skein::Skein::keyed(salt),
            edonr: edonr::EdonR::salted(salt),
            blake3: Box::new(blake3::Hasher::new_keyed(salt)),
        }
    }
}

impl std::fmt::Debug for Salted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salted(..)") // The salt is a secret of the pool.
    }
}

/// Checksum of `data`, which was written in byte order `order`.
///
/// If `salt` is missing, a salted algorithm uses a salt of zeros, which matches no pool: a pool
/// without a salt has no such blocks.
pub fn checksum(algorithm: Algorithm, data: &[u8], order: Order, salt: Option<&Salted>) -> [u64; 4] {
    match algorithm {
        // The fletcher sums are by far the most frequent; bypass the incremental form.
        Algorithm::Fletcher2 => fletcher2::checksum(data, order),
        Algorithm::Fletcher4 => fletcher4::checksum(data, order),
        _ => {
            let mut hasher = Hasher::new(algorithm, order, salt);
            hasher.update(data);
            hasher.finish()
        }
    }
}

/// Computes the checksum of data that arrives in pieces.
pub struct Hasher {
    order: Order,
    state: State,
}

// The states differ in size by kilobytes, but a hasher is a short-lived local variable: boxing
// would cost an allocation for each block.
#[allow(clippy::large_enum_variant)]
enum State {
    Fletcher2(fletcher2::Fletcher2),
    Fletcher4(fletcher4::Fletcher4),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512_256),
    Skein(skein::Skein),
    EdonR(edonr::EdonR),
    Blake3(blake3::Hasher),
}

impl Hasher {
    /// An empty hasher; for the arguments see [`checksum`].
    pub fn new(algorithm: Algorithm, order: Order, salt: Option<&Salted>) -> Self {
        let zeros;
        let salt = match salt {
            None if algorithm.is_salted() => {
                zeros = Salted::new(&[0; 32]);
                Some(&zeros)
            }
            salt => salt,
        };
        let state = match (algorithm, salt) {
            (Algorithm::Fletcher2, _) => State::Fletcher2(fletcher2::Fletcher2::new(order)),
            (Algorithm::Fletcher4, _) => State::Fletcher4(fletcher4::Fletcher4::new(order)),
            (Algorithm::Sha512, _) => State::Sha512(sha2::Sha512_256::new()),
            (Algorithm::Skein, Some(salt)) => State::Skein(salt.skein.clone()),
            (Algorithm::EdonR, Some(salt)) => State::EdonR(salt.edonr.clone()),
            (Algorithm::Blake3, Some(salt)) => State::Blake3((*salt.blake3).clone()),
            (Algorithm::Sha256 | Algorithm::Skein | Algorithm::EdonR | Algorithm::Blake3, _) => {
                State::Sha256(sha2::Sha256::new())
            }
        };
        Self { order, state }
    }

    /// Appends `data`. The sums use whole words: pieces must be multiples of 4 bytes for fletcher4
    /// and 16 bytes for fletcher2. Excess bytes are ignored, as in OpenZFS.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.state {
            State::Fletcher2(state) => state.update(data),
            State::Fletcher4(state) => state.update(data),
            State::Sha256(state) => state.update(data),
            State::Sha512(state) => state.update(data),
            State::Skein(state) => state.update(data),
            State::EdonR(state) => state.update(data),
            State::Blake3(state) => {
                state.update(data);
            }
        }
    }

    /// The four words of the checksum.
    pub fn finish(self) -> [u64; 4] {
        match self.state {
            State::Fletcher2(state) => state.words(),
            State::Fletcher4(state) => state.words(),
            State::Sha256(state) => Order::Big.words(&state.finalize().into()),
            State::Sha512(state) => self.order.words(&state.finalize().into()),
            State::Skein(state) => self.order.words(&state.finish()),
            State::EdonR(state) => self.order.words(&state.finish()),
            State::Blake3(state) => self.order.words(state.finalize().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests;
