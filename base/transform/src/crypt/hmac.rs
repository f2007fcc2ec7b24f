//! HMAC-SHA512, and the plain SHA-512 over MACs, both cut to the length that the format stores.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha512};

use super::{AuthenticationFailed, HMAC_KEY_BYTES};

/// A key of HMAC-SHA512 with both pads already hashed: a MAC of a short input costs two compressions less.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha512>);

impl HmacKey {
    /// Prepares `key`.
    pub fn new(key: &[u8; HMAC_KEY_BYTES]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// Begins a MAC over several pieces.
    pub fn start(&self) -> HmacState {
        HmacState(self.0.clone())
    }

    /// MAC of `data`, cut to its first `N` bytes (at most 64).
    pub fn mac<const N: usize>(&self, data: &[u8]) -> [u8; N] {
        let mut state = self.start();
        state.update(data);
        state.finish()
    }

    /// Whether `expected` is the cut MAC of `data`.
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
    /// Takes the next piece.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The MAC of all pieces, cut to its first `N` bytes (at most 64).
    pub fn finish<const N: usize>(self) -> [u8; N] {
        cut(&self.0.finalize().into_bytes())
    }
}

impl std::fmt::Debug for HmacState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HmacState(..)")
    }
}

/// SHA-512 of all `pieces`, one behind the other, cut to its first `N` bytes (at most 64). It needs no key.
pub fn sha512_of<const N: usize>(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> [u8; N] {
    let mut hash = Sha512::new();
    for piece in pieces {
        hash.update(piece.as_ref());
    }
    cut(&hash.finalize())
}

/// Whether two MACs are equal, in a time that does not tell where they differ.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y))) == 0
}

fn cut<const N: usize>(digest: &[u8]) -> [u8; N] {
    const { assert!(N <= 64, "SHA-512 has 64 bytes") };
    digest[..N].try_into().expect("N bytes")
}
