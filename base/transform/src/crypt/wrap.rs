//! Wrapping of the master key and the HMAC key: both are stored in the pool, encrypted with the
//! wrapping key.
//!
//! Both form one message of AES-256 in the suite's mode (the wrapping key always has 256 bits). The
//! additional authenticated data is little-endian words: the key's GUID and, from key version 1 on,
//! the suite's number and the version.

use zeroize::Zeroizing;

use super::{
    AuthenticationFailed, Cipher, HMAC_KEY_BYTES, IV_BYTES, MAC_BYTES, MASTER_KEY_BYTES_MAX, Suite, WRAPPING_KEY_BYTES,
};

/// Properties stored with the wrapped keys and authenticated with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrapContext {
    /// Suite of the dataset.
    pub suite: Suite,
    /// GUID of the master key.
    pub guid: u64,
    /// Version of the key object: 0 (before the release of OpenZFS 0.8) or 1.
    pub version: u64,
    /// IV of the wrapped keys.
    pub iv: [u8; IV_BYTES],
}

impl WrapContext {
    fn aad(&self) -> ([u8; 24], usize) {
        let mut aad = [0; 24];
        for (out, word) in aad.chunks_exact_mut(8).zip([self.guid, self.suite.to_raw(), self.version]) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        (aad, if self.version == 0 { 8 } else { 24 })
    }
}

/// Master key (in the first [`Suite::key_bytes`] bytes) and HMAC key.
pub type UnwrappedKeys = (Zeroizing<[u8; MASTER_KEY_BYTES_MAX]>, Zeroizing<[u8; HMAC_KEY_BYTES]>);

/// Unwraps the keys. An error nearly always means that the wrapping key is wrong.
pub fn unwrap_keys(
    wrapping_key: &[u8; WRAPPING_KEY_BYTES],
    context: &WrapContext,
    mac: &[u8; MAC_BYTES],
    sealed_master_key: &[u8; MASTER_KEY_BYTES_MAX],
    sealed_hmac_key: &[u8; HMAC_KEY_BYTES],
) -> Result<UnwrappedKeys, AuthenticationFailed> {
    let split = context.suite.key_bytes();
    let mut message = Zeroizing::new([0; MASTER_KEY_BYTES_MAX + HMAC_KEY_BYTES]);
    let message = &mut message[..split + HMAC_KEY_BYTES];
    message[..split].copy_from_slice(&sealed_master_key[..split]);
    message[split..].copy_from_slice(sealed_hmac_key);
    let (aad, aad_len) = context.aad();
    Cipher::new(context.suite.with_256_bits(), wrapping_key).open(&context.iv, &aad[..aad_len], message, mac)?;
    let (mut master_key, mut hmac_key) =
        (Zeroizing::new([0; MASTER_KEY_BYTES_MAX]), Zeroizing::new([0; HMAC_KEY_BYTES]));
    master_key[..split].copy_from_slice(&message[..split]);
    hmac_key.copy_from_slice(&message[split..]);
    Ok((master_key, hmac_key))
}

/// Wraps the keys. Returns the MAC, the wrapped master key (zero-padded) and the wrapped HMAC key.
pub fn wrap_keys(
    wrapping_key: &[u8; WRAPPING_KEY_BYTES],
    context: &WrapContext,
    master_key: &[u8; MASTER_KEY_BYTES_MAX],
    hmac_key: &[u8; HMAC_KEY_BYTES],
) -> ([u8; MAC_BYTES], [u8; MASTER_KEY_BYTES_MAX], [u8; HMAC_KEY_BYTES]) {
    let split = context.suite.key_bytes();
    let mut message = Zeroizing::new([0; MASTER_KEY_BYTES_MAX + HMAC_KEY_BYTES]);
    let message = &mut message[..split + HMAC_KEY_BYTES];
    message[..split].copy_from_slice(&master_key[..split]);
    message[split..].copy_from_slice(hmac_key);
    let (aad, aad_len) = context.aad();
    let mac = Cipher::new(context.suite.with_256_bits(), wrapping_key)
        .seal(&context.iv, &aad[..aad_len], message)
        .expect("96 bytes fit every mode");
    let (mut sealed_master_key, mut sealed_hmac_key) = ([0; MASTER_KEY_BYTES_MAX], [0; HMAC_KEY_BYTES]);
    sealed_master_key[..split].copy_from_slice(&message[..split]);
    sealed_hmac_key.copy_from_slice(&message[split..]);
    (mac, sealed_master_key, sealed_hmac_key)
}
