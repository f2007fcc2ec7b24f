//! From block pointer to verified bytes, and from bytes and a policy to a block pointer.
//!
//! **Invariant: what [`Store::read`] returns has passed its checksum (and its MAC, when encrypted); a block that
//! no copy and no parity combination can produce is an error, never zeros. What [`Store::write`] returns can be read, and
//! survives a power cut once [`Store::flush`] has succeeded.**

mod allocate;
pub mod arc;
pub mod crypt;
mod duplicates;
pub mod error;
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
pub use error::{Error, Place, Refusal, Result};
pub use policy::{Compress, Dedup, WritePolicy};
pub use references::References;
pub use store::{OnWriteFailure, Store, Watch};
pub use zio::{Sealed, TakenBlock, compress, decompress, gang_members};

pub use host::clock::{Stopwatch, nanoseconds};
pub use host::device::Device;
pub use host::{processors, random};

use bytes::Bytes;
use ondisk::Endian;

/// Which block of which object: where a block pointer was found (`zbookmark_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bookmark {
    /// Object set: 0 for the MOS, else the dataset's object number in the MOS.
    pub objset: u64,
    /// Object number; 0 is the dnode of all dnodes.
    pub object: u64,
    /// 0 data, above it indirect blocks, -1 the object set's root, -2 a block of the intent log.
    pub level: i64,
    /// Number of the block at that level.
    pub blkid: u64,
}

impl std::fmt::Display for Bookmark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}:{}:{}:{}>", self.objset, self.object, self.level, self.blkid)
    }
}

/// The contents of a block: checked, decrypted, decompressed.
#[derive(Debug, Clone)]
pub struct Block {
    /// `lsize` bytes as the writer had them in memory.
    pub data: Bytes,
    /// Byte order of the writer.
    pub endian: Endian,
}
