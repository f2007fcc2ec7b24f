//! The interface through which writing allocates the pool's free space. `pool::space` implements
//! it.
//!
//! It separates block from pool: space maps are objects made of blocks, so the block layer cannot
//! depend on them.

use errors::Result;
use ondisk::Dva;
use smallvec::SmallVec;

/// Allocation class: the kind of devices that a block should go to. The allocator falls back to the
/// normal class when the others are full or missing.
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

/// The part of a gang block that an allocation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gang {
    /// Not a gang block.
    #[default]
    None,
    /// A gang header. If it cannot be allocated, the pool is full.
    Header,
    Member,
}

/// An allocation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Txg in which the block is born.
    pub txg: u64,
    /// Preferred class.
    pub class: Class,
    /// Size before parity. `Tree::asize_bytes` gives the size on a device.
    pub psize_bytes: u64,
    /// Number of addresses, 1 to 3.
    pub copies: u8,
    pub is_metadata: bool,
    pub gang: Gang,
    /// Whether the allocation may use the slop space. Blocks of a txg may: their space was reserved
    /// when the txg accepted the change.
    pub may_use_slop: bool,
}

/// Allocates and frees space.
pub trait Allocate: Send + Sync {
    /// Returns `want.copies` addresses with offset and asize filled in, on different top-level
    /// vdevs where possible. Fails with `NoSpace` if the block does not fit in one piece; the
    /// caller then splits it into a gang block.
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>>;
    /// Frees an address in `txg`. If it was allocated in the same txg (`birth == txg`), no
    /// committed pointer refers to it and it may be reused at once. Otherwise it may be reused only
    /// when no uberblock that an import may rewind to needs it.
    ///
    /// The gang bit only distinguishes a gang header from a whole block. Each address is freed on
    /// its own.
    fn free(&self, txg: u64, birth: u64, dva: &Dva);
    /// Marks an address as allocated that a pointer outside the pool's tree refers to: log blocks
    /// at import.
    fn claim(&self, txg: u64, dva: &Dva) -> Result<()>;
}
