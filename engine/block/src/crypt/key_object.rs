//! The key object: a ZAP in the MOS with a dataset's wrapped keys and the parameters of its
//! wrapping key.
//!
//! A DSL directory refers to it in its own ZAP (`ondisk::dsl_dir::FIELD_CRYPTO_KEY_OBJ`). ZFS name:
//! DSL Crypto Key.

use transform::crypt::{KeyFormat, Suite, wrapping_key};
use zeroize::Zeroizing;

use errors::{Error, Result};

/// Attribute names in the key object's ZAP.
pub mod attribute {
    /// Suite: the numeric value of the property `encryption`.
    pub const SUITE: &str = "DSL_CRYPTO_SUITE";
    /// Guid of the master key.
    pub const GUID: &str = "DSL_CRYPTO_GUID";
    /// IV of the wrapping, 12 bytes.
    pub const IV: &str = "DSL_CRYPTO_IV";
    /// MAC of the wrapping, 16 bytes.
    pub const MAC: &str = "DSL_CRYPTO_MAC";
    /// Wrapped master key, 32 bytes.
    pub const MASTER_KEY: &str = "DSL_CRYPTO_MASTER_KEY_1";
    /// Wrapped HMAC key, 64 bytes.
    pub const HMAC_KEY: &str = "DSL_CRYPTO_HMAC_KEY_1";
    /// DSL directory object of the encryption root.
    pub const ROOT_DIR: &str = "DSL_CRYPTO_ROOT_DDOBJ";
    /// Number of DSL directories that share the key object (clones).
    pub const REFCOUNT: &str = "DSL_CRYPTO_REFCOUNT";
    /// Version; 0 if missing. See [`super::CURRENT_VERSION`].
    pub const VERSION: &str = "DSL_CRYPTO_VERSION";
    /// Format of the key material: the property of this name.
    pub const KEY_FORMAT: &str = "keyformat";
    /// Salt of a passphrase: the property of this name.
    pub const PBKDF2_SALT: &str = "pbkdf2salt";
    /// Rounds for a passphrase: the property of this name.
    pub const PBKDF2_ITERATIONS: &str = "pbkdf2iters";
}

/// Version of key objects in the current format (`ZIO_CRYPT_KEY_CURRENT_VERSION`). Older ones are
/// only read, and are not sent or received raw.
pub const CURRENT_VERSION: u64 = 1;

/// A value of the ZAP: integers of 1, 2, 4 or 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Size of each integer on disk, in bytes.
    pub int_bytes: u8,
    pub ints: Vec<u64>,
}

impl Attribute {
    /// A single 8-byte integer.
    pub fn number(value: u64) -> Self {
        Self { int_bytes: 8, ints: vec![value] }
    }

    pub fn bytes(bytes: &[u8]) -> Self {
        Self { int_bytes: 1, ints: bytes.iter().map(|byte| u64::from(*byte)).collect() }
    }
}

/// The wrapped keys, and everything needed to unwrap them except the wrapping key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKeyParams {
    /// Number of the suite.
    pub suite: u64,
    /// Guid of the master key.
    pub guid: u64,
    /// Version of the key object, 0 or 1.
    pub version: u64,
    /// IV of the wrapping.
    pub iv: [u8; 12],
    /// MAC of the wrapping.
    pub mac: [u8; 16],
    /// Wrapped master key; a shorter key occupies the first bytes.
    pub wrapped_master_key: [u8; 32],
    pub wrapped_hmac_key: [u8; 64],
}

impl WrappedKeyParams {
    /// The suite. Fails with `Corrupt` below 3, and `Unsupported` for an unknown one.
    pub fn known_suite(&self) -> Result<Suite> {
        match self.suite {
            0..3 => Err(Error::corrupt("", format!("{} is {}, expected 3 to 8", attribute::SUITE, self.suite))),
            raw => Suite::from_raw(raw).ok_or_else(|| Error::unsupported("", format!("encryption suite {raw}"))),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyObject {
    pub wrapped: WrappedKeyParams,
    /// DSL directory object of the encryption root, whose wrapping key unwraps the keys.
    pub root_dir: u64,
    /// Format of the key material: the numeric value of the property `keyformat`.
    pub key_format: u64,
    /// `pbkdf2salt`; 0 without a passphrase.
    pub pbkdf2_salt: u64,
    /// `pbkdf2iters`; 0 without a passphrase.
    pub pbkdf2_iterations: u64,
}

impl KeyObject {
    /// Reads the attributes with `lookup`, which returns `None` for a name that does not exist.
    pub fn read(mut lookup: impl FnMut(&'static str) -> Result<Option<Attribute>>) -> Result<Self> {
        let mut optional = |name| match lookup(name)? {
            None => Ok(None),
            Some(Attribute { int_bytes: 8, ints }) if ints.len() == 1 => Ok(ints.first().copied()),
            Some(found) => Err(unexpected(name, &found, 8, 1)),
        };
        let version = optional(attribute::VERSION)?.unwrap_or(0);
        let key_format = optional(attribute::KEY_FORMAT)?.unwrap_or(0);
        let pbkdf2_salt = optional(attribute::PBKDF2_SALT)?.unwrap_or(0);
        let pbkdf2_iterations = optional(attribute::PBKDF2_ITERATIONS)?.unwrap_or(0);
        let root_dir = optional(attribute::ROOT_DIR)?.unwrap_or(0);
        let mut number = |name| optional(name)?.ok_or_else(|| missing(name));
        let (suite, guid) = (number(attribute::SUITE)?, number(attribute::GUID)?);
        Ok(Self {
            wrapped: WrappedKeyParams {
                suite,
                guid,
                version,
                iv: bytes(&mut lookup, attribute::IV)?,
                mac: bytes(&mut lookup, attribute::MAC)?,
                wrapped_master_key: bytes(&mut lookup, attribute::MASTER_KEY)?,
                wrapped_hmac_key: bytes(&mut lookup, attribute::HMAC_KEY)?,
            },
            root_dir,
            key_format,
            pbkdf2_salt,
            pbkdf2_iterations,
        })
    }

    /// The attributes to store in the ZAP, except [`attribute::REFCOUNT`], which starts at 1 and is
    /// maintained separately.
    ///
    /// A key object of version 0 has no [`attribute::VERSION`].
    pub fn attributes(&self) -> Vec<(&'static str, Attribute)> {
        let mut all = vec![
            (attribute::SUITE, Attribute::number(self.wrapped.suite)),
            (attribute::ROOT_DIR, Attribute::number(self.root_dir)),
            (attribute::GUID, Attribute::number(self.wrapped.guid)),
            (attribute::IV, Attribute::bytes(&self.wrapped.iv)),
            (attribute::MAC, Attribute::bytes(&self.wrapped.mac)),
            (attribute::MASTER_KEY, Attribute::bytes(&self.wrapped.wrapped_master_key)),
            (attribute::HMAC_KEY, Attribute::bytes(&self.wrapped.wrapped_hmac_key)),
            (attribute::KEY_FORMAT, Attribute::number(self.key_format)),
            (attribute::PBKDF2_SALT, Attribute::number(self.pbkdf2_salt)),
            (attribute::PBKDF2_ITERATIONS, Attribute::number(self.pbkdf2_iterations)),
        ];
        if self.wrapped.version > 0 {
            all.push((attribute::VERSION, Attribute::number(self.wrapped.version)));
        }
        all
    }

    /// Derives the wrapping key from a user's or a file's material: a passphrase, hex digits or raw
    /// bytes, as `keyformat` requires.
    pub fn wrapping_key(&self, material: &[u8]) -> Result<Zeroizing<[u8; 32]>> {
        let format = KeyFormat::from_raw(self.key_format)
            .ok_or_else(|| Error::corrupt("", format!("keyformat is {}, expected 1 to 3", self.key_format)))?;
        wrapping_key(format, material, self.pbkdf2_salt, self.pbkdf2_iterations)
            .map_err(|e| Error::invalid("", e.to_string()))
    }
}

fn bytes<const N: usize>(
    lookup: &mut impl FnMut(&'static str) -> Result<Option<Attribute>>,
    name: &'static str,
) -> Result<[u8; N]> {
    let found = lookup(name)?.ok_or_else(|| missing(name))?;
    if found.int_bytes != 1 || found.ints.len() != N {
        return Err(unexpected(name, &found, 1, N));
    }
    let mut out = [0; N];
    for (byte, int) in out.iter_mut().zip(&found.ints) {
        *byte = *int as u8;
    }
    Ok(out)
}

fn missing(name: &str) -> Error {
    Error::corrupt("", format!("the key object has no {name}"))
}

fn unexpected(name: &str, found: &Attribute, int_bytes: u8, count: usize) -> Error {
    let Attribute { int_bytes: found_bytes, ints } = found;
    let what = format!("{name} is {} integers of {found_bytes} bytes, expected {count} of {int_bytes}", ints.len());
    Error::corrupt("", what)
}
