//! HMAC-SHA512, and plain SHA-512 over MACs, both truncated to the length that the format stores.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha512};

use super::{AuthenticationFailed, HMAC_KEY_BYTES};

/// An HMAC-SHA512 key with both pads already hashed, which saves two compressions for each MAC.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha512>);

impl HmacKey {
    /// Hashes the pads of `key`.
    pub fn new(key: &[u8; HMAC_KEY_BYTES]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// Starts a MAC over several pieces.
    pub fn start(&self) -> HmacState {
        HmacState(self.0.clone())
    }

    /// MAC of `data`, truncated to its first `N` bytes (at most 64).
    pub fn mac<const N: usize>(&self, data: &[u8]) -> [u8; N] {
        let mut state = self.start();
        state.update(data);
        state.finish()
    }

    /// Whether `expected` is the truncated MAC of `data`.
    pub fn verify<const N: usize>(&self, data: &[u8], expected: &[u8; N]) -> Result<(), AuthenticationFailed> {
        if equal(&self.mac::<N>(data), expected) { Ok(()) } else { Err(AuthenticationFailed) }
    }
}

impl std::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HmacKey(..)")
    }
}

/// A MAC being computed.
pub struct HmacState(Hmac<Sha512>);

impl HmacState {
    /// Adds the next piece.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The MAC of all pieces, truncated to its first `N` bytes (at most 64).
    pub fn finish<const N: usize>(self) -> [u8; N] {
        cut(&self.0.finalize().into_bytes())
    }
}

impl std::fmt::Debug for HmacState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HmacState(..)")
    }
}

/// SHA-512 of the concatenated `pieces`, truncated to its first `N` bytes (at most 64). Not keyed.
pub fn sha512_of<const N: usize>(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> [u8; N] {
    let mut hash = Sha512::new();
    for piece in pieces {
        hash.update(piece.as_ref());
    }
    cut(&hash.finalize())
}

/// Compares two MACs in constant time.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y))) == 0
}

fn cut<const N: usize>(digest: &[u8]) -> [u8; N] {
    const { assert!(N <= 64, "SHA-512 has 64 bytes") };
    digest[..N].try_into().expect("N bytes")
}
