//! Encryption: the algorithms of encrypted datasets, on bytes that the caller has already
//! separated.
//!
//! Below: nothing. Above: `block::crypt`, which knows which bytes of a block are encrypted and
//! which are only authenticated. Format: docs/format/encryption.md. ZFS names: zio_crypt, hkdf,
//! libzfs_crypto.
//!
//! Three keys lead from the user's input to the plaintext of a block:
//!
//! ```text
//! passphrase ──PBKDF2──┐
//! hex, raw file ───────┴─> wrapping key ──AEAD──> master key ──HKDF(salt)─> block key ─AEAD─> data
//!                          (32 bytes)       └───> HMAC key ──HMAC-SHA512──> MACs of readable parts
//! ```
//!
//! The wrapping key is never stored. The master key and the HMAC key are stored in the pool,
//! encrypted with it. Each block names its salt, so that no block key encrypts more blocks than is
//! safe.
//!
//! Invariants:
//!   * plaintext is returned only if its MAC matches; MACs are compared in constant time
//!   * keys are wiped when dropped, and are never printed

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

/// Size in bytes of the IV of blocks and wrapped keys.
pub const IV_BYTES: usize = 12;
/// Size in bytes of the MAC of blocks and wrapped keys.
pub const MAC_BYTES: usize = 16;
/// Size in bytes of the salt from which a block key is derived.
pub const SALT_BYTES: usize = 8;
/// Size of a wrapping key in bytes, for all suites.
pub const WRAPPING_KEY_BYTES: usize = 32;
/// Maximum size of a master key in bytes.
pub const MASTER_KEY_BYTES_MAX: usize = 32;
/// Size of the HMAC-SHA512 key in bytes.
pub const HMAC_KEY_BYTES: usize = 64;

/// The MAC does not match these bytes and this key: the bytes were altered, or the key is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the MAC does not match")]
pub struct AuthenticationFailed;

/// Cipher, mode and key length of a dataset: the property `encryption` (`enum zio_encrypt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named like the property values.
pub enum Suite {
    Aes128Ccm,
    Aes192Ccm,
    Aes256Ccm,
    Aes128Gcm,
    Aes192Gcm,
    Aes256Gcm,
}

impl Suite {
    /// All suites, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Aes128Ccm, Self::Aes192Ccm, Self::Aes256Ccm, Self::Aes128Gcm, Self::Aes192Gcm, Self::Aes256Gcm];

    /// The suite with this number. `None` for 0 (inherit), 1 (on), 2 (off) and numbers from 9 up.
    pub fn from_raw(raw: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(raw.checked_sub(3)?).ok()?).copied()
    }

    /// The number on disk.
    pub fn to_raw(self) -> u64 {
        self as u64 + 3
    }

    /// Size in bytes of the master key and the block keys.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes192Ccm | Self::Aes192Gcm => 24,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// Largest number of bytes that can be encrypted at once. CCM with a 96-bit IV has three bytes
    /// for the length (RFC 3610).
    pub fn message_bytes_max(self) -> u64 {
        match self {
            Self::Aes128Ccm | Self::Aes192Ccm | Self::Aes256Ccm => (1 << 24) - 1,
            Self::Aes128Gcm | Self::Aes192Gcm | Self::Aes256Gcm => u64::MAX,
        }
    }

    /// The same mode with a 256-bit key: used to wrap keys, since wrapping keys always have 256
    /// bits.
    fn with_256_bits(self) -> Self {
        match self {
            Self::Aes128Ccm | Self::Aes192Ccm | Self::Aes256Ccm => Self::Aes256Ccm,
            Self::Aes128Gcm | Self::Aes192Gcm | Self::Aes256Gcm => Self::Aes256Gcm,
        }
    }

    /// Value of the property `encryption`.
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
