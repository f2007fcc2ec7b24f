//! AES-CCM and AES-GCM with a 96-bit IV and a 128-bit MAC, in place.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{AesGcm, aead::consts::U12, aead::consts::U16};
use ccm::Ccm;

use super::{AuthenticationFailed, IV_BYTES, MAC_BYTES, Suite};

/// An expanded key: round keys and, for GCM, the hash key. Created once for each salt and shared by
/// all of its blocks.
///
/// Round keys are wiped on drop. GCM makes two passes over a large block (hash, then keystream),
/// both with AES-NI and carry-less multiplication if the processor supports them. CCM is inherently
/// sequential and several times slower.
// Boxing the largest variant would only add an indirection: a cipher is held in an `Arc` anyway.
#[allow(clippy::large_enum_variant)]
pub enum Cipher {
    Aes128Ccm(Ccm<Aes128, U16, U12>),
    Aes192Ccm(Ccm<Aes192, U16, U12>),
    Aes256Ccm(Ccm<Aes256, U16, U12>),
    Aes128Gcm(AesGcm<Aes128, U12>),
    Aes192Gcm(AesGcm<Aes192, U12>),
    Aes256Gcm(AesGcm<Aes256, U12>),
}

/// Runs `$body` with `$cipher` bound to the concrete cipher.
macro_rules! each {
    ($self:expr, $cipher:ident => $body:expr) => {
        match $self {
            Cipher::Aes128Ccm($cipher) => $body,
            Cipher::Aes192Ccm($cipher) => $body,
            Cipher::Aes256Ccm($cipher) => $body,
            Cipher::Aes128Gcm($cipher) => $body,
            Cipher::Aes192Gcm($cipher) => $body,
            Cipher::Aes256Gcm($cipher) => $body,
        }
    };
}

impl Cipher {
    /// Expands `key`, of which the first [`Suite::key_bytes`] bytes are used.
    ///
    /// # Panics
    /// If `key` is shorter than that: keys come from derivation, not from disk.
    pub fn new(suite: Suite, key: &[u8]) -> Self {
        let key = &key[..suite.key_bytes()];
        let long_enough = "key_bytes() is this cipher's key length";
        match suite {
            Suite::Aes128Ccm => Self::Aes128Ccm(Ccm::new_from_slice(key).expect(long_enough)),
            Suite::Aes192Ccm => Self::Aes192Ccm(Ccm::new_from_slice(key).expect(long_enough)),
            Suite::Aes256Ccm => Self::Aes256Ccm(Ccm::new_from_slice(key).expect(long_enough)),
            Suite::Aes128Gcm => Self::Aes128Gcm(AesGcm::new_from_slice(key).expect(long_enough)),
            Suite::Aes192Gcm => Self::Aes192Gcm(AesGcm::new_from_slice(key).expect(long_enough)),
            Suite::Aes256Gcm => Self::Aes256Gcm(AesGcm::new_from_slice(key).expect(long_enough)),
        }
    }

    /// Verifies that `mac` is the MAC of `aad` and `data`, then decrypts `data` in place.
    ///
    /// After an error `data` is not plaintext: GCM leaves it unchanged, CCM fills it with zeros.
    /// CCM accepts less than 16 MiB, because a 12-byte IV leaves 3 bytes for the length.
    pub fn open(
        &self,
        iv: &[u8; IV_BYTES],
        aad: &[u8],
        data: &mut [u8],
        mac: &[u8; MAC_BYTES],
    ) -> Result<(), AuthenticationFailed> {
        each!(self, c => c.decrypt_inout_detached(iv.into(), aad, data.into(), mac.into()))
            .map_err(|_| AuthenticationFailed)
    }

    /// Encrypts `data` in place and returns the MAC of `aad` and the result. `None` if CCM is given
    /// 16 MiB or more.
    ///
    /// An IV must never be reused with the same key.
    pub fn seal(&self, iv: &[u8; IV_BYTES], aad: &[u8], data: &mut [u8]) -> Option<[u8; MAC_BYTES]> {
        each!(self, c => c.encrypt_inout_detached(iv.into(), aad, data.into())).ok().map(Into::into)
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher(..)")
    }
}
