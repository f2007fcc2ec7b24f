//! For tests only (feature `tamper`): modifies the contents of blocks after checksum verification.
//!
//! Checksums protect the layers above from accidents, not from attackers: one who crafts an image
//! also recomputes its checksums. A test of hostile contents would have to recompute a chain of
//! checksums for each change. This hook runs after the verification instead. If no hook is set, the
//! feature changes nothing.

use ondisk::BlkPtr;
use std::sync::OnceLock;

/// Takes the pointer and the decompressed contents of each block that is read, and returns the
/// contents that the reader sees.
pub type Hook = fn(&BlkPtr, Vec<u8>) -> Vec<u8>;

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Sets the hook of this process. It cannot be replaced: a second call is ignored.
pub fn set(hook: Hook) {
    let _ = HOOK.set(hook);
}

pub(crate) fn apply(bp: &BlkPtr, data: Vec<u8>) -> Vec<u8> {
    match HOOK.get() {
        Some(hook) => hook(bp, data),
        None => data,
    }
}
