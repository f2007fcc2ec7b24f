//! The block layer: turns a block pointer into verified bytes, and bytes plus a policy into a block
//! pointer.
//!
//! **Invariant: the bytes that [`Store::read`] returns have passed their checksum (and their MAC,
//! when encrypted). A block that no copy and no parity combination can produce is an error, never
//! zeros. What [`WriteStore::write`] returns can be read, and survives a power cut once
//! [`WriteStore::flush`] has succeeded.**
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod allocate;
pub mod arc;
pub mod crypt;
mod duplicates;
pub mod inject;
pub mod l2;
pub mod label;
mod policy;
mod references;
mod store;
#[cfg(feature = "tamper")]
pub mod tamper;
pub mod vdev;
pub mod zevent;
mod zio;

pub use allocate::{Allocate, Class, Gang, Want};
pub use duplicates::{Duplicates, Found, Stored};
pub use policy::{Compress, Dedup, WritePolicy};
pub use references::References;
pub use store::{OnWriteFailure, Store, Watch, WriteStore};
pub use vdev::{Task, doing};
pub use zio::{CryptParams, RawBlock, compress, decompress, gang_members};

use bytes::Bytes;
use ondisk::Endian;

/// Position of a block in the pool's tree: the place where a block pointer was found
/// (`zbookmark_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bookmark {
    /// Object set: 0 for the MOS, else the dataset's object number in the MOS.
    pub objset: u64,
    /// Object number; 0 is the meta dnode, whose data is the dnodes.
    pub object: u64,
    /// 0 for data, 1 and up for indirect blocks, -1 for the object set's root, -2 for an intent log
    /// block.
    pub level: i64,
    /// Number of the block at that level.
    pub blkid: u64,
}

impl std::fmt::Display for Bookmark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}:{}:{}:{}>", self.objset, self.object, self.level, self.blkid)
    }
}

/// The contents of a block: verified, decrypted and decompressed.
#[derive(Debug, Clone)]
pub struct Block {
    /// `lsize` bytes, as the writer held them in memory.
    pub data: Bytes,
    /// Byte order of the writer.
    pub endian: Endian,
}
