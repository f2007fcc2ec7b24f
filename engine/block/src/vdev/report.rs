//! Types for reports about every copy and every column of a block: `verify` and repair.

/// Fault of one copy or column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no device.
    Missing,
    /// The device could not be read.
    Unreadable,
    /// The device returned wrong bytes.
    Wrong,
    /// The device returned wrong bytes because it was offline when the block was written.
    Stale,
}

/// A faulty copy or column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFault {
    /// Index of the address in the block pointer, 0 to 2.
    pub copy: usize,
    pub leaf: u64,
    pub fault: Fault,
}

/// Result of decrypting and decompressing a block whose checksum is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contents {
    /// Not tried: not requested, or no copy is good.
    #[default]
    NotTried,
    /// The contents decode: a read returns them.
    Whole,
    /// The contents are encrypted, and the key is not loaded.
    Sealed,
    /// The contents do not decrypt or decompress: every copy is as it was written, and what was
    /// written is wrong.
    Malformed,
}

/// Result of verifying a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Whether at least one way to read the block gives the right bytes, and they are not known to
    /// be [`Contents::Malformed`].
    pub readable: bool,
    /// Whether the right bytes decode.
    pub contents: Contents,
    /// Number of addresses whose data can be read, from copies or by reconstruction.
    pub good_copies: usize,
    /// Faulty copies and columns.
    pub faults: Vec<CopyFault>,
    pub bytes_read: u64,
    /// The error, if the block is not readable.
    pub error: Option<String>,
    /// Set by the caller if the faults were counted before: then they do not count as device errors
    /// again.
    pub is_known: bool,
}

/// Purpose of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairPurpose {
    /// Healing and scrub: repairs what is wrong or unreadable although the device was available
    /// when it was written.
    Wrong {
        /// The read that found the fault has counted it.
        is_known: bool,
    },
    /// Resilver: repairs what devices missed while they were offline. Only these devices are
    /// written, and no other copy is verified.
    Missed,
}

/// Result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Whether the right bytes were found.
    pub readable: bool,
    pub read_bytes: u64,
    /// Bytes overwritten, by guid of the leaf; a leaf may occur several times.
    pub written: Vec<(u64, u64)>,
    /// The part of `written` that belongs to distributed spares, by guid of the spare.
    pub written_for: Vec<(u64, u64)>,
    /// Leaves whose write failed.
    pub failed: Vec<u64>,
    /// Distributed spares for which the write to a leaf failed, or whose leaf is missing.
    pub failed_for: Vec<u64>,
    /// Why the right bytes are unavailable.
    pub error: Option<String>,
    /// Whether missing devices are the only reason why the block cannot be read.
    pub is_missing: bool,
}

impl Repaired {
    /// Bytes overwritten on all leaves.
    pub fn written_bytes(&self) -> u64 {
        self.written.iter().map(|(_, bytes)| bytes).sum()
    }
}
