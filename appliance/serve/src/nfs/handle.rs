//! File handles as clients hold them: the identity of the file and a MAC that only this server can
//! compute.
//!
//! ```text
//!   offset  0: version (1)   1: three zeros   4: pool guid   12: file system   20: object
//!          28: generation   36: MAC, 8 bytes
//! ```
//! Numbers are big-endian. The MAC is keyed BLAKE3 with a secret from the state directory, so a
//! handle stays valid across restarts. A handle that was guessed, or modified to leave its share,
//! is rejected before it reaches a file system.

use super::status::{Result, Status};
use files::vfs::FileHandle;

const VERSION: u8 = 1;
const SIGNED_BYTES: usize = 36;

/// Length of a file handle.
pub const HANDLE_BYTES: usize = 44;

/// Contents of a file handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireHandle {
    /// GUID of the pool.
    pub pool_guid: u64,
    /// The file within the pool.
    pub file: FileHandle,
}

/// Signs file handles and verifies them.
#[derive(Clone)]
pub struct HandleKey([u8; 32]);

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey")
    }
}

impl HandleKey {
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn mac(&self, signed: &[u8]) -> [u8; 8] {
        let hash = blake3::keyed_hash(&self.0, signed);
        let mut mac = [0; 8];
        mac.copy_from_slice(&hash.as_bytes()[..8]);
        mac
    }

    /// Encodes and signs a handle.
    pub fn seal(&self, handle: &WireHandle) -> [u8; HANDLE_BYTES] {
        let mut out = [0; HANDLE_BYTES];
        out[0] = VERSION;
        let file = &handle.file;
        for (i, n) in [handle.pool_guid, file.fs_guid, file.object, file.generation].into_iter().enumerate() {
            out[4 + 8 * i..12 + 8 * i].copy_from_slice(&n.to_be_bytes());
        }
        let mac = self.mac(&out[..SIGNED_BYTES]);
        out[SIGNED_BYTES..].copy_from_slice(&mac);
        out
    }

    /// Verifies and decodes a handle. Fails with [`Status::BADHANDLE`] if it does not have the form
    /// of a handle, with [`Status::STALE`] if its MAC is wrong, for example because another secret
    /// made it.
    pub fn open(&self, bytes: &[u8]) -> Result<WireHandle> {
        let bytes: &[u8; HANDLE_BYTES] = bytes.try_into().map_err(|_| Status::BADHANDLE)?;
        if bytes[..4] != [VERSION, 0, 0, 0] {
            return Err(Status::BADHANDLE);
        }
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        #[cfg(test)]
        checks::count();
        if self.mac(&bytes[..SIGNED_BYTES]) != bytes[SIGNED_BYTES..] {
            return Err(Status::STALE);
        }
        let file = FileHandle { fs_guid: word(12), object: word(20), generation: word(28) };
        Ok(WireHandle { pool_guid: word(4), file })
    }
}

/// Counts the MACs that a thread verifies.
#[cfg(test)]
pub(super) mod checks {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The number since the last call.
    pub fn take() -> usize {
        COUNT.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_handles_sealed_with_the_key_are_opened(words in any::<[u64; 4]>(), at in 0..HANDLE_BYTES, flip in 1u8..) {
            let key = HandleKey::new([3; 32]);
            let [pool_guid, fs_guid, object, generation] = words;
            let handle = WireHandle { pool_guid, file: FileHandle { fs_guid, object, generation } };
            let sealed = key.seal(&handle);
            prop_assert_eq!(key.open(&sealed), Ok(handle));
            prop_assert_eq!(HandleKey::new([4; 32]).open(&sealed), Err(Status::STALE));
            let mut forged = sealed;
            forged[at] ^= flip;
            prop_assert_eq!(key.open(&forged), Err(if at < 4 { Status::BADHANDLE } else { Status::STALE }));
            prop_assert_eq!(key.open(&sealed[..at]), Err(Status::BADHANDLE));
        }
    }
}
