//! Encrypted datasets: their keys, and which parts of their blocks are secret, authenticated, or
//! neither.
//!
//! Below: `transform::crypt` (the algorithms). Above: `zio`, which calls this between checksum and
//! decompression, and `dataset`, which finds key objects and loads keys. Format:
//! docs/format/encryption.md. ZFS names: zio_crypt, dsl_crypt.
//!
//! A dataset's key object in the MOS ([`KeyObject`]) holds its master and HMAC key, wrapped with a
//! wrapping key that is never stored. Clones share the key object. What happens to a block depends
//! on its type:
//!
//! ```text
//! object set ──── two HMACs inside it: one over meta dnode, one over the accounting dnodes
//!   │ indirect ── MAC words of the pointer: SHA-512 over the MACs below; checked after
//!   │             decompression, needs no key
//!   ├ dnodes ──── AEAD; bonuses of secret types are secret, the rest (masked) is additional data
//!   ├ data ────── AEAD over the stored (compressed) bytes, when the object type is secret
//!   │         └── HMAC over the stored bytes, when it is not (master node, volume properties)
//!   └ log block ─ AEAD; record bodies are secret, headers and block pointers are
//!                 additional data; MAC in its header
//! ```
//!
//! A MAC covers only the portable part of pointers (`auth`), so that the destination of a raw send
//! stream, which carries neither addresses nor indirect blocks, can verify the same MACs.
//!
//! Everything is computed in the byte order of the block, except for object sets, whose MACs are
//! always little-endian.
//!
//! Invariants:
//!   * bytes that a MAC covers are not returned if the MAC is wrong
//!   * lengths in dnodes and log records are not trusted, since only a checksum covers them so far

mod auth;
mod create;
mod key_object;
mod layout;
mod objset;
mod seal;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host::sync::{Mutex, RwLock};
use ondisk::{BlkPtr, Endian, ObjectType};
use transform::crypt::{
    self, Cipher, HMAC_KEY_BYTES, HmacKey, KeyDerivation, MASTER_KEY_BYTES_MAX, SALT_BYTES, Suite, WrapContext,
};
use zeroize::Zeroizing;

use auth::mismatch;
pub use auth::verify_indirect;
pub use create::{PBKDF2_ITERATIONS_DEFAULT, PBKDF2_ITERATIONS_MIN, WrappingKey};
use errors::{Error, Refusal, Result};
pub use key_object::{Attribute, CURRENT_VERSION, KeyObject, WrappedKeyParams, attribute};
pub(crate) use seal::seal_indirect;

/// Block keys cached per dataset. A dataset has one salt for each time that its key was loaded and
/// used for writing, so few. Only deduplicated blocks have salts of their own, and for them a miss
/// costs microseconds. Guessed.
const SALTS_MAX: usize = 64;

/// The unwrapped keys of a key object, shared by a dataset and its clones.
pub struct DatasetKeys {
    suite: Suite,
    guid: u64,
    version: u64,
    derivation: KeyDerivation,
    hmac: HmacKey,
    /// Both keys in the clear, to be wrapped again when the wrapping key changes.
    master_key: Zeroizing<[u8; MASTER_KEY_BYTES_MAX]>,
    hmac_key: Zeroizing<[u8; HMAC_KEY_BYTES]>,
    ciphers: RwLock<Ciphers>,
    /// The salt of new blocks, and how many more may use it.
    writing_salt: Mutex<([u8; SALT_BYTES], u64)>,
}

#[derive(Default)]
struct Ciphers {
    by_salt: HashMap<[u8; SALT_BYTES], Arc<Cipher>>,
    oldest_first: VecDeque<[u8; SALT_BYTES]>,
}

impl DatasetKeys {
    /// Unwraps the keys of a key object. A wrong key is
    /// [`Refusal::IncorrectKey`]; a key object version above 1 is unsupported.
    pub fn unwrap(params: &WrappedKeyParams, wrapping_key: &[u8; 32]) -> Result<Arc<Self>> {
        let suite = params.known_suite()?;
        if params.version > 1 {
            return Err(Error::unsupported("", format!("key object version {}", params.version)));
        }
        let context = WrapContext { suite, guid: params.guid, version: params.version, iv: params.iv };
        let (master_key, hmac_key) = crypt::unwrap_keys(
            wrapping_key,
            &context,
            &params.mac,
            &params.wrapped_master_key,
            &params.wrapped_hmac_key,
        )
        .map_err(|_| Refusal::IncorrectKey.at(""))?;
        Ok(Self::new(suite, params.guid, params.version, master_key, hmac_key))
    }

    fn new(
        suite: Suite,
        guid: u64,
        version: u64,
        master_key: Zeroizing<[u8; MASTER_KEY_BYTES_MAX]>,
        hmac_key: Zeroizing<[u8; HMAC_KEY_BYTES]>,
    ) -> Arc<Self> {
        Arc::new(Self {
            suite,
            guid,
            version,
            derivation: KeyDerivation::new(suite, &master_key[..]),
            hmac: HmacKey::new(&hmac_key),
            master_key,
            hmac_key,
            ciphers: RwLock::default(),
            writing_salt: Mutex::new(([0; SALT_BYTES], 0)),
        })
    }

    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Guid of the master key: datasets with the same guid can read each other's blocks.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Verifies the MAC of a block's `stored` bytes (still compressed), and decrypts the secret
    /// parts in place.
    ///
    /// Two types are verified later: an indirect block, whose MACs are accessible only after
    /// decompression ([`verify_indirect`]), and an object set's root block, which holds its MACs
    /// itself ([`DatasetKeys::verify_objset`]).
    pub fn open_block(&self, bp: &BlkPtr, stored: &mut [u8]) -> Result<()> {
        if bp.is_authenticated() && bp.object_type() != ObjectType::OBJSET {
            return self.hmac.verify(stored, &bp.crypt_mac()).map_err(mismatch);
        }
        if !bp.is_encrypted() {
            return Ok(());
        }
        let (cipher, iv) = (self.cipher(&bp.crypt_salt()), bp.crypt_iv());
        match bp.object_type() {
            ObjectType::INTENT_LOG => {
                let (layout, mac) = layout::log_block(stored, bp.endian())?;
                layout.open(&cipher, &iv, stored, &mac)
            }
            ObjectType::DNODE => {
                let layout = layout::dnode_block(stored, bp.endian(), self.version)?;
                layout.open(&cipher, &iv, stored, &bp.crypt_mac())
            }
            _ => cipher.open(&iv, &[], stored, &bp.crypt_mac()).map_err(mismatch),
        }
    }

    /// Verifies the two MACs inside an object set's root block, written in `endian`.
    pub fn verify_objset(&self, block: &[u8], endian: Endian) -> Result<()> {
        objset::verify(&self.hmac, self.version, block, endian)
    }

    /// The cipher with the block key of `salt`.
    fn cipher(&self, salt: &[u8; SALT_BYTES]) -> Arc<Cipher> {
        if let Some(cipher) = self.ciphers.read().by_salt.get(salt) {
            return cipher.clone();
        }
        let cipher = Arc::new(Cipher::new(self.suite, &self.derivation.block_key(salt)[..]));
        let mut ciphers = self.ciphers.write();
        // Another thread may have been faster; its cipher is the same.
        if ciphers.by_salt.insert(*salt, cipher.clone()).is_none() {
            ciphers.oldest_first.push_back(*salt);
        }
        if ciphers.by_salt.len() > SALTS_MAX
            && let Some(oldest) = ciphers.oldest_first.pop_front()
        {
            ciphers.by_salt.remove(&oldest);
        }
        cipher
    }
}

impl std::fmt::Debug for DatasetKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatasetKeys({}, guid {})", self.suite.name(), self.guid)
    }
}
