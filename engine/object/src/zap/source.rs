//! Where a ZAP's blocks come from.

use block::Block;
use errors::Result;

/// Source of a ZAP's blocks: an object, or memory in tests.
pub trait BlockSource: Send + Sync {
    /// Block `blkid`; `None` for a hole.
    fn block(&self, blkid: u64) -> Result<Option<Block>>;
    /// Description of the object for error messages.
    fn place(&self) -> String;
}
