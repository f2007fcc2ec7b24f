//! Blocks that are used several times without their pointers telling. `pool::clones` keeps the table; here is only the question.
//!
//! The cut is that of [`Allocate`](crate::Allocate): the table is an object made of blocks, so blocks cannot know it.

use crate::Result;
use ondisk::BlkPtr;

/// Knows which data blocks were cloned.
pub trait References: Send + Sync {
    /// Takes one use of a data block away. True: it was the last one, and the space may be given back.
    fn release(&self, bp: &BlkPtr) -> Result<bool>;
}
