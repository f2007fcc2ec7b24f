//! Encrypts new blocks and computes their MACs.
//!
//! Invariants:
//!   * every encryption uses a new random IV, except for blocks to be deduplicated, where equal
//!     blocks have equal IVs; a salt, and with it a block key, seals a bounded number of blocks
//!   * blocks sealed here open with `DatasetKeys::open_block`, `verify_objset` and
//!     `verify_indirect`

use super::{DatasetKeys, auth, layout, objset};
use errors::{Error, Result};
use ondisk::{BlkPtr, Endian, ObjectType};
use transform::crypt::{IV_BYTES, SALT_BYTES};

/// Blocks sealed under one salt: with random 96-bit IVs, the odds of using one IV twice stay below
/// 1 in a trillion. The value is OpenZFS's (`ZFS_CURRENT_MAX_SALT_USES`).
const SALT_USES_MAX: u64 = 400_000_000;

impl DatasetKeys {
    /// The salt for the next block to be sealed.
    pub fn salt_for_writing(&self) -> [u8; SALT_BYTES] {
        let mut current = self.writing_salt.lock();
        if current.1 == 0 {
            *current = (host::random::bytes(), SALT_USES_MAX);
        }
        current.1 -= 1;
        current.0
    }

    /// Encrypts a level 0 block of an encrypted type in place (intent log blocks excepted), and
    /// stores salt, IV and MAC in its pointer. `stored` are the bytes that go to the device:
    /// compressed and padded.
    pub fn seal_block(&self, bp: &mut BlkPtr, stored: &mut [u8]) -> Result<()> {
        self.seal_with(bp, &self.salt_for_writing(), &host::random::bytes(), stored)
    }

    /// As [`DatasetKeys::seal_block`], with a salt and an IV derived from the contents, so that
    /// equal contents become equal bytes for dedup. As in OpenZFS
    /// (`zio_crypt_generate_iv_salt_dedup`), they are the first bytes of an HMAC of the contents.
    pub fn seal_block_once(&self, bp: &mut BlkPtr, stored: &mut [u8]) -> Result<()> {
        let digest: [u8; SALT_BYTES + IV_BYTES] = self.hmac.mac(stored);
        let (mut salt, mut iv) = ([0; SALT_BYTES], [0; IV_BYTES]);
        salt.copy_from_slice(&digest[..SALT_BYTES]);
        iv.copy_from_slice(&digest[SALT_BYTES..]);
        self.seal_with(bp, &salt, &iv, stored)
    }

    /// Encrypts a block of `bp` as it was when the pointer was made. Returns false if the result
    /// does not match: these were not its contents.
    pub(crate) fn seal_again(&self, bp: &BlkPtr, stored: &mut [u8]) -> Result<bool> {
        if !bp.is_encrypted() {
            return Ok(self.hmac.mac(stored) == bp.crypt_mac());
        }
        let mut made = *bp;
        self.seal_with(&mut made, &bp.crypt_salt(), &bp.crypt_iv(), stored)?;
        Ok(made.crypt_mac() == bp.crypt_mac())
    }

    pub(super) fn seal_with(
        &self,
        bp: &mut BlkPtr,
        salt: &[u8; SALT_BYTES],
        iv: &[u8; IV_BYTES],
        stored: &mut [u8],
    ) -> Result<()> {
        debug_assert!(bp.is_encrypted() && bp.object_type() != ObjectType::INTENT_LOG);
        let cipher = self.cipher(salt);
        let mac = match bp.object_type() {
            ObjectType::DNODE => layout::dnode_block(stored, bp.endian(), self.version)?.seal(&cipher, iv, stored),
            _ => cipher.seal(iv, &[], stored),
        };
        bp.set_crypt_params(salt, iv);
        bp.set_crypt_mac(&mac.ok_or_else(too_large)?);
        Ok(())
    }

    /// Stores the MAC of a block that is authenticated but not encrypted in its pointer.
    pub fn authenticate(&self, bp: &mut BlkPtr, stored: &[u8]) {
        bp.set_crypt_mac(&self.hmac.mac(stored));
    }

    /// Stores the checksum of the MACs below an indirect block in its pointer. `contents` are the
    /// bytes before compression.
    pub fn seal_indirect(&self, bp: &mut BlkPtr, contents: &[u8]) {
        bp.set_crypt_mac(&auth::digest(contents, bp.endian(), self.version));
    }

    /// Stores both MACs in an object set's root block, which must be little-endian and otherwise
    /// complete.
    pub fn seal_objset(&self, block: &mut [u8]) -> Result<()> {
        objset::seal(&self.hmac, self.version, block, Endian::Little)
    }

    /// Encrypts an intent log block in place with the salt and IV of its pointer, and stores the
    /// MAC in the block.
    ///
    /// The chain header must be complete except for its checksum. A block may be sealed only once,
    /// because it has one IV.
    pub fn seal_log_block(&self, bp: &BlkPtr, block: &mut [u8]) -> Result<()> {
        let (layout, _) = layout::log_block(block, bp.endian())?;
        let mac = layout.seal(&self.cipher(&bp.crypt_salt()), &bp.crypt_iv(), block).ok_or_else(too_large)?;
        layout::put_log_mac(block, &mac);
        Ok(())
    }
}

/// As [`DatasetKeys::seal_indirect`], without keys, for key objects of version 1: used for raw
/// receives.
pub fn seal_indirect(bp: &mut BlkPtr, contents: &[u8]) {
    bp.set_crypt_mac(&auth::digest(contents, bp.endian(), 1));
}

fn too_large() -> Error {
    Error::unsupported("", "a block of 16 MiB under CCM")
}
