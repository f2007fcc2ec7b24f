//! Creates keys and rewraps existing ones, as `zfs create -o encryption=on` and `zfs change-key`
//! do.
//!
//! ```text
//!   random master and HMAC key (DatasetKeys) --wrap with--> WrappingKey
//!     =  KeyObject, a ZAP in the MOS
//! ```
//! Changing the wrapping key of an encryption root wraps the same keys again, in the key object of
//! every dataset that inherits its key from there. No block is rewritten.

use host::random;
use std::sync::Arc;
use transform::crypt::{self, HMAC_KEY_BYTES, KeyFormat, MASTER_KEY_BYTES_MAX, Suite, WrapContext, wrapping_key};
use zeroize::Zeroizing;

use super::{CURRENT_VERSION, DatasetKeys, KeyObject, WrappedKeyParams};
use errors::{Error, Result};

/// Default of the property `pbkdf2iters`.
pub const PBKDF2_ITERATIONS_DEFAULT: u64 = 350_000;
/// Minimum of the property `pbkdf2iters`.
pub const PBKDF2_ITERATIONS_MIN: u64 = 100_000;
/// Allowed lengths of a passphrase, in bytes.
const PASSPHRASE_BYTES: std::ops::RangeInclusive<usize> = 8..=512;

/// A key that wraps other keys, with the parameters of its derivation.
#[derive(Clone)]
pub struct WrappingKey {
    key: Zeroizing<[u8; 32]>,
    format: KeyFormat,
    pbkdf2_salt: u64,
    pbkdf2_iterations: u64,
}

impl WrappingKey {
    /// From a user's or a file's key material. A passphrase gets a new salt, and `iterations`
    /// rounds or the default. Fails with [`Error::Invalid`] if a passphrase is too short or too
    /// long.
    pub fn new(format: KeyFormat, material: &[u8], iterations: Option<u64>) -> Result<Self> {
        let (mut salt, mut rounds) = (0, 0);
        if format == KeyFormat::Passphrase {
            let line = material.split(|byte| *byte == b'\n' || *byte == 0).next().unwrap_or(material);
            let what = match line.len() {
                length if length < *PASSPHRASE_BYTES.start() => Some("Passphrase too short (min 8)."),
                length if length > *PASSPHRASE_BYTES.end() => Some("Passphrase too long (max 512)."),
                _ => None,
            };
            if let Some(what) = what {
                return Err(Error::invalid("", what));
            }
            salt = random::u64();
            rounds = iterations.unwrap_or(PBKDF2_ITERATIONS_DEFAULT);
            if rounds < PBKDF2_ITERATIONS_MIN {
                return Err(Error::invalid(
                    "",
                    format!("pbkdf2iters is {rounds}, expected {PBKDF2_ITERATIONS_MIN} or more"),
                ));
            }
        }
        Self::known(format, material, salt, rounds)
    }

    /// The wrapping key of an existing key object. Whether the material is right shows only when it
    /// is used.
    pub fn of(object: &KeyObject, material: &[u8]) -> Result<Self> {
        let format = KeyFormat::from_raw(object.key_format)
            .ok_or_else(|| Error::corrupt("", format!("keyformat is {}, expected 1 to 3", object.key_format)))?;
        Self::known(format, material, object.pbkdf2_salt, object.pbkdf2_iterations)
    }

    fn known(format: KeyFormat, material: &[u8], pbkdf2_salt: u64, pbkdf2_iterations: u64) -> Result<Self> {
        let key = wrapping_key(format, material, pbkdf2_salt, pbkdf2_iterations)
            .map_err(|e| Error::invalid("", e.to_string()))?;
        Ok(Self { key, format, pbkdf2_salt, pbkdf2_iterations })
    }

    /// The key itself, for [`DatasetKeys::unwrap`].
    pub fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    /// Format of the key material.
    pub fn format(&self) -> KeyFormat {
        self.format
    }
}

impl std::fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WrappingKey({})", self.format.name())
    }
}

impl DatasetKeys {
    /// Generates random keys with a new guid.
    pub fn generate(suite: Suite) -> Arc<Self> {
        let mut master_key = Zeroizing::new([0; MASTER_KEY_BYTES_MAX]);
        random::fill(&mut master_key[..suite.key_bytes()]);
        let mut hmac_key = Zeroizing::new([0; HMAC_KEY_BYTES]);
        random::fill(&mut hmac_key[..]);
        Self::new(suite, random::u64(), CURRENT_VERSION, master_key, hmac_key)
    }

    /// Wraps the keys, with a new IV.
    pub fn wrap(&self, wrapping_key: &WrappingKey) -> WrappedKeyParams {
        let context = WrapContext { suite: self.suite, guid: self.guid, version: self.version, iv: random::bytes() };
        let (mac, wrapped_master_key, wrapped_hmac_key) =
            crypt::wrap_keys(&wrapping_key.key, &context, &self.master_key, &self.hmac_key);
        WrappedKeyParams {
            suite: self.suite.to_raw(),
            guid: self.guid,
            version: self.version,
            iv: context.iv,
            mac,
            wrapped_master_key,
            wrapped_hmac_key,
        }
    }
}

impl KeyObject {
    /// The key object that holds `keys`, wrapped, for datasets under the encryption root with the
    /// DSL directory `root_dir`: a new one, or the new contents of an existing one when its
    /// wrapping key changes.
    pub fn create(keys: &DatasetKeys, wrapping_key: &WrappingKey, root_dir: u64) -> Self {
        Self {
            wrapped: keys.wrap(wrapping_key),
            root_dir,
            key_format: wrapping_key.format.to_raw(),
            pbkdf2_salt: wrapping_key.pbkdf2_salt,
            pbkdf2_iterations: wrapping_key.pbkdf2_iterations,
        }
    }
}
