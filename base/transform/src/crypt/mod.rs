//! Encryption: the algorithms of an encrypted dataset, over bytes that the caller has already picked apart.
//!
//! Below: nothing. Above: `block::crypt`, which knows which bytes of a block are secret and which only authenticated.
//! Format: docs/format/encryption.md. ZFS names: zio_crypt, hkdf, libzfs_crypto.
//!
//! From what a person types to a block's plaintext it takes three keys:
//!
//! ```text
//! passphrase ──PBKDF2──┐
//! hex, raw file ───────┴─> wrapping key ──AEAD──> master key ──HKDF(salt)──> block key ──AEAD──> plaintext
//!                          (32 bytes)       └───> HMAC key ──HMAC-SHA512──> MACs of what stays readable
//! ```
//!
//! The wrapping key is never stored; master and HMAC key stand, sealed with it, in the pool. A block names its salt, so
//! that no block key seals more blocks than is safe.
//!
//! Invariants:
//!   * plaintext comes out only when its MAC is right; a MAC is compared in constant time
//!   * keys are wiped when they are dropped, and are never printed

mod aead;
mod derive;
mod hmac;
#[cfg(test)]
mod tests;
mod user_key;
mod wrap;

pub use self::hmac::{HmacKey, HmacState, equal, sha512_of};
pub use aead::Cipher;
pub use derive::{KeyDerivation, wrapping_key_from_passphrase};
pub use user_key::{KeyFormat, UserKeyError, wrapping_key};
pub use wrap::{WrapContext, unwrap_keys, wrap_keys};

/// Bytes of the initialisation vector of blocks and wrapped keys.
pub const IV_BYTES: usize = 12;
/// Bytes of the MAC of blocks and wrapped keys.
pub const MAC_BYTES: usize = 16;
/// Bytes of the salt that a block key is derived with.
pub const SALT_BYTES: usize = 8;
/// Bytes of a wrapping key, whatever the suite.
pub const WRAPPING_KEY_BYTES: usize = 32;
/// Bytes that a master key takes at most.
pub const MASTER_KEY_BYTES_MAX: usize = 32;
/// Bytes of the key of HMAC-SHA512.
pub const HMAC_KEY_BYTES: usize = 64;

/// The MAC is not that of these bytes under this key: they were altered, or the key is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the MAC does not match")]
pub struct AuthenticationFailed;

/// Cipher, mode and key length of a dataset: the property `encryption` (`enum zio_encrypt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as the property values are.
pub enum Suite {
    Aes128Ccm,
    Aes192Ccm,
    Aes256Ccm,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
}

impl Suite {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Aes128Ccm, Self::Aes192Ccm, Self::Aes256Ccm, Self::Aes128Gcm, Self::Aes192Gcm, Self::Aes256Gcm];

    /// The suite with this number. 0 (inherit), 1 (on), 2 (off) and numbers from 9 on name none.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw.checked_sub(3)?).ok()?).copied()
    }

    /// The number on disk.
    pub fn to_raw(self) -> u64 {
        self as u64 + 3
    }

    /// Bytes of master key and block keys.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes192Ccm | Self::Aes192Gcm => 24,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// The same mode with a 256-bit key: what wraps keys, since wrapping keys always have 256 bits.
    fn with_256_bits(self) -> Self {
        match self {
            Self::Aes128Ccm | Self::Aes192Ccm | Self::Aes256Ccm => Self::Aes256Ccm,
            Self::Aes128Gcm | Self::Aes192Gcm | Self::Aes256Gcm => Self::Aes256Gcm,
        }
    }

    /// Name as the property `encryption` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Ccm => "aes-128-ccm",
            Self::Aes192Ccm => "aes-192-ccm",
            Self::Aes256Ccm => "aes-256-ccm",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes192Gcm => "aes-192-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
        }
    }
}
