//! Exports: volumes by name.

use errors::Result;
use files::Volume;
use object::{Extent, Part};
use std::any::Any;
use std::sync::Arc;

/// A device that clients can open. Offsets and lengths are in bytes. Any thread may call it.
pub trait Export: Send + Sync {
    /// Size in bytes, which may change.
    fn size(&self) -> u64;
    /// Preferred unit of reads and writes in bytes; a power of two.
    fn block_bytes(&self) -> u64;
    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;
    /// Reads `len` bytes at `offset`, as data and holes in order.
    fn read(&self, offset: u64, len: usize) -> Result<Vec<Part>>;
    /// Like [`Export::read`], but returns `None` if it would have to wait for a device.
    fn read_at_once(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>>;
    /// Writes `data` at `offset`. The data is visible to others when this returns;
    /// [`Export::flush`] makes it durable.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Writes zeros, which use no space if `punch` is set.
    fn write_zeros(&self, offset: u64, len: u64, punch: bool) -> Result<()>;
    /// Discards the contents of a range.
    fn trim(&self, offset: u64, len: u64) -> Result<()>;
    /// Returns when all earlier writes are on stable storage.
    fn flush(&self) -> Result<()>;
    /// Reports where data and holes are, in at most `max` extents.
    fn extents(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Extent>>;
    /// Starts reading in the background.
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

/// An export that a client has opened, and a reference that keeps it available.
#[derive(Clone)]
pub struct Opened {
    /// Full name of the volume or snapshot, such as `tank/v@s`.
    pub name: String,
    pub export: Arc<dyn Export>,
    /// Whether this client may not write, even if the device is writable.
    pub read_only: bool,
    /// Dropped when no client uses the export any more.
    pub hold: Arc<dyn Any + Send + Sync>,
}

impl Opened {
    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.export.is_read_only()
    }
}

/// An entry of the list of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name for opening the export.
    pub name: String,
    /// Description for users; may be empty.
    pub description: String,
}

/// Result of looking up an export.
pub enum Found {
    Export(Opened),
    /// No export has this name.
    Unknown,
    /// The export exists but is unavailable, for this reason.
    Refused(String),
}

/// The exports of a server.
pub trait Exports: Send + Sync {
    /// The exports to list to clients.
    fn list(&self) -> Vec<Listed>;
    /// Looks up `name`. The empty name is the default export.
    fn open(&self, name: &str) -> Found;
}
