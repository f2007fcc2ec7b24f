//! What writing asks of the pool's free space. `pool::space` answers; here is only the question.
//!
//! The cut between block and pool: space maps are objects made of blocks, so blocks cannot know them.

use crate::Result;
use ondisk::Dva;
use smallvec::SmallVec;

/// Kind of devices that a block should go to. Whoever allocates falls back to the normal ones when the others are full or
/// missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// The pool's data devices.
    #[default]
    Normal,
    /// Intent log devices.
    Log,
    /// Devices for metadata and small blocks.
    Special,
    /// Devices for dedup tables.
    Dedup,
}

/// What of a gang block the space is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gang {
    /// Not a gang block.
    #[default]
    None,
    /// A header; when that cannot be had, the pool is full.
    Header,
    /// A member.
    Member,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Txg in which the block is born.
    pub txg: u64,
    /// Preferred devices.
    pub class: Class,
    /// Size before parity; `Tree::asize_bytes` tells what it takes on a device.
    pub psize_bytes: u64,
    /// How many addresses, 1 to 3.
    pub copies: u8,
    /// Whether it is metadata.
    pub is_metadata: bool,
    /// Part of a gang block?
    pub gang: Gang,
    /// Whether it may eat into the reserve. Blocks of a txg may: their space was promised when the txg took the change.
    pub may_use_slop: bool,
}

/// Gives out and takes back space.
pub trait Allocate: Send + Sync {
    /// `want.copies` addresses (offset and asize filled in), on different top-level devices where possible. Refuses with
    /// `NoSpace` when the block does not fit in one piece; it is then cut into a gang.
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>>;
    /// Takes back an address in `txg`. When it was given out in this very txg (`birth == txg`) no committed pointer names it
    /// and it may be used again at once; else only when no uberblock that one may go back to needs it.
    ///
    /// The gang bit tells a header from a whole block and matters to nobody else: each address stands for itself.
    fn free(&self, txg: u64, birth: u64, dva: &Dva);
    /// Takes an address that a pointer outside the pool's tree names: log blocks at import.
    fn claim(&self, txg: u64, dva: &Dva) -> Result<()>;
}
