//! Key derivation: block keys from a master key and a salt, wrapping keys from a passphrase.

use hkdf::Hkdf;
use sha1::Sha1;
use sha2::Sha512;
use zeroize::Zeroizing;

use super::{MASTER_KEY_BYTES_MAX, SALT_BYTES, Suite, WRAPPING_KEY_BYTES};

/// HKDF-SHA512 of a master key, extracted once; each salt then costs one expansion.
///
/// ZFS's salt is used as HKDF's `info`; HKDF's own salt is empty.
#[derive(Clone)]
pub struct KeyDerivation {
    suite: Suite,
    extracted: Hkdf<Sha512>,
}

impl KeyDerivation {
    /// For a master key, of which the first [`Suite::key_bytes`] bytes are used.
    ///
    /// # Panics
    /// If `master_key` is shorter than that.
    pub fn new(suite: Suite, master_key: &[u8]) -> Self {
        Self { suite, extracted: Hkdf::new(None, &master_key[..suite.key_bytes()]) }
    }

    /// The block key for `salt`, in the first [`Suite::key_bytes`] bytes.
    pub fn block_key(&self, salt: &[u8; SALT_BYTES]) -> Zeroizing<[u8; MASTER_KEY_BYTES_MAX]> {
        let mut key = Zeroizing::new([0; MASTER_KEY_BYTES_MAX]);
        self.extracted
            .expand(salt, &mut key[..self.suite.key_bytes()])
            .expect("HKDF-SHA512 gives up to 16320 bytes, and a key has 32");
        key
    }
}

impl std::fmt::Debug for KeyDerivation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyDerivation({})", self.suite.name())
    }
}

/// PBKDF2-HMAC-SHA1 of a passphrase, with the properties `pbkdf2salt` (as 8 little-endian bytes)
/// and `pbkdf2iters`.
///
/// Takes a large fraction of a second with the default of 350,000 rounds, by design.
pub fn wrapping_key_from_passphrase(passphrase: &[u8], salt: u64, rounds: u32) -> Zeroizing<[u8; WRAPPING_KEY_BYTES]> {
    let mut key = Zeroizing::new([0; WRAPPING_KEY_BYTES]);
    pbkdf2::pbkdf2_hmac::<Sha1>(passphrase, &salt.to_le_bytes(), rounds, key.as_mut_slice());
    key
}
