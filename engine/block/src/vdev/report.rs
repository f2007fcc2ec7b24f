//! Looking at every copy and every column of a block, for `verify`.

/// What is wrong with one copy or column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no device.
    Missing,
    /// The device could not be read.
    Unreadable,
    /// It gave other bytes than it should.
    Wrong,
    /// It gave other bytes, and was away when the block was written.
    Stale,
}

/// One copy or column that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFault {
    /// Number of the address in the block pointer, 0 to 2.
    pub copy: usize,
    /// Guid of the leaf.
    pub leaf: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What `verify` found of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Whether at least one way to read the block gives the right bytes.
    pub readable: bool,
    /// Number of addresses that give the right bytes, by whatever way.
    pub good_copies: usize,
    /// Copies and columns that are not as they should be.
    pub faults: Vec<CopyFault>,
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// The error, when it is not readable.
    pub error: Option<String>,
}
