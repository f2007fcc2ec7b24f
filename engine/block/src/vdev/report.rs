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

/// What came of decrypting and decompressing a block whose checksum is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contents {
    /// Not tried: nothing asked for it, or no copy is good.
    #[default]
    NotTried,
    /// A read gets them.
    Whole,
    /// They are encrypted, and the key is not loaded.
    Sealed,
    /// They do not decrypt or decompress: every copy is what was written, and what was written is wrong.
    Malformed,
}

/// What `verify` found of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Whether at least one way to read the block gives the right bytes, and they are not known to be [`Contents::Malformed`].
    pub readable: bool,
    /// Whether the right bytes are contents too.
    pub contents: Contents,
    /// Number of addresses that give the right bytes, by whatever way.
    pub good_copies: usize,
    /// Copies and columns that are not as they should be.
    pub faults: Vec<CopyFault>,
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// The error, when it is not readable.
    pub error: Option<String>,
    /// Set by who asks: what is found wrong was counted before, and does not count in the devices' errors once more.
    pub is_known: bool,
}

/// What a repair is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// What is wrong, or cannot be read, though the device was there when it was written: healing, scrub.
    Wrong {
        /// The read that found it has counted it.
        is_known: bool,
    },
    /// What devices missed while they were away: resilver. Only these devices are written to, and no other copy is looked at.
    Missed,
}

/// What a repair found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mended {
    /// The right bytes were found.
    pub readable: bool,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Bytes written over, by guid of the leaf; a leaf may be there several times.
    pub written: Vec<(u64, u64)>,
    /// What of that was written for distributed spares, by guid of the spare.
    pub written_for: Vec<(u64, u64)>,
    /// Leaves that did not take what was written.
    pub failed: Vec<u64>,
    /// Distributed spares whose part a leaf did not take, or which is away.
    pub failed_for: Vec<u64>,
    /// Why the right bytes are not to be had.
    pub error: Option<String>,
    /// Nothing but devices that are not there keeps the block from being read.
    pub is_missing: bool,
}

impl Mended {
    /// Bytes written over on all leaves.
    pub fn written_bytes(&self) -> u64 {
        self.written.iter().map(|(_, bytes)| bytes).sum()
    }
}
