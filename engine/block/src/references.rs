//! Cloned data blocks (block cloning, BRT), whose pointers do not show how often a block is used.
//!
//! Only the interface is here; `pool::clones` keeps the table. As with
//! [`Allocate`](crate::Allocate), the table is an object made of blocks, so the block layer cannot
//! depend on it.

use errors::Result;
use ondisk::BlkPtr;

/// Table of the data blocks that were cloned.
pub trait References: Send + Sync {
    /// Drops one reference to a data block. Returns true if it was the last one, so the space may
    /// be freed.
    fn release(&self, bp: &BlkPtr) -> Result<bool>;
}
