//! For tests only (feature `tamper`): changes what blocks hold after their checksum was found right.
//!
//! Checksums keep accidents from the layers above, but not people: whoever writes an image computes them anew. A test that
//! wants to know what hostile contents do would have to recompute a chain of checksums for each change; this hook sits
//! behind the check instead. Without a hook set, the feature changes nothing.

use ondisk::BlkPtr;
use std::sync::OnceLock;

/// Gets the pointer and the contents of each block that is read, decompressed; gives back what the reader is to see.
pub type Hook = fn(&BlkPtr, Vec<u8>) -> Vec<u8>;

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Sets the hook of this process. It stays; a second one is ignored.
pub fn set(hook: Hook) {
    let _ = HOOK.set(hook);
}

pub(crate) fn apply(bp: &BlkPtr, data: Vec<u8>) -> Vec<u8> {
    match HOOK.get() {
        Some(hook) => hook(bp, data),
        None => data,
    }
}
