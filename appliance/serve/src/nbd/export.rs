//! What is served: volumes by their names.

use files::volume::{Extent, Part};
use files::{Result, Volume};
use std::any::Any;
use std::sync::Arc;

/// A block device.
pub trait Export: Send + Sync {
    /// Size in bytes; it may change.
    fn size(&self) -> u64;
    /// Unit in which reads and writes cost least; a power of two.
    fn block_bytes(&self) -> u64;
    /// Whether it takes no changes.
    fn is_read_only(&self) -> bool;
    /// `len` bytes from `offset` on.
    fn read(&self, offset: u64, len: usize) -> Result<Vec<Part>>;
    /// The same, if nobody has to wait for a device.
    fn read_at_once(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>>;
    /// Writes; others see it when this returns, and [`Export::flush`] makes it safe.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Writes zeros, which take no space with `punch`.
    fn write_zeros(&self, offset: u64, len: u64, punch: bool) -> Result<()>;
    /// The contents are of no use any more.
    fn trim(&self, offset: u64, len: u64) -> Result<()>;
    /// Returns when all that was written before is safe.
    fn flush(&self) -> Result<()>;
    /// Where data and holes are, in at most `max` runs.
    fn extents(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Extent>>;
    /// Starts to read in the background.
    fn prefetch(&self, offset: u64, len: u64);
}

impl Export for Volume {
    fn size(&self) -> u64 {
        self.size()
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only()
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<Part>> {
        self.read_parts(offset, len)
    }

    fn read_at_once(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>> {
        self.parts_in_memory(offset, len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_at(offset, data)
    }

    fn write_zeros(&self, offset: u64, len: u64, punch: bool) -> Result<()> {
        self.write_zeros(offset, len, punch)
    }

    fn trim(&self, offset: u64, len: u64) -> Result<()> {
        self.trim(offset, len)
    }

    fn flush(&self) -> Result<()> {
        self.flush()
    }

    fn extents(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Extent>> {
        self.extents(offset, len, max)
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.prefetch(offset, len);
    }
}

/// An export that a client has, and what keeps it there meanwhile.
#[derive(Clone)]
pub struct Opened {
    /// Its full name.
    pub name: String,
    /// The device.
    pub export: Arc<dyn Export>,
    /// Whoever has it may not change it, also if it could be.
    pub read_only: bool,
    /// Dropped when no client has it any more.
    pub hold: Arc<dyn Any + Send + Sync>,
}

impl Opened {
    /// Whether it takes no changes.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.export.is_read_only()
    }
}

/// One of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// By which it is opened.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
}

/// What a name leads to.
pub enum Found {
    /// This.
    Export(Opened),
    /// Nothing that is served.
    Unknown,
    /// It is there, but cannot be had: why.
    Refused(String),
}

/// All that is served.
pub trait Exports: Send + Sync {
    /// What clients are shown.
    fn list(&self) -> Vec<Listed>;
    /// What `name` means; an empty one is the export that stands for none.
    fn open(&self, name: &str) -> Found;
}
