//! What the allocator reads from the MOS, and writes to it: space maps. Tests supply others.

use crate::space::{Entry, for_each_entry};
use errors::{Error, Result};
use ondisk::spacemap::Header;

/// Reads a space map as of the last synced txg.
pub trait MapReader: Send + Sync {
    /// Calls `sink` with each entry of the map in `object`, in the order of writing.
    fn read_map(&self, object: u64, sink: &mut dyn FnMut(Entry)) -> Result<()>;
}

impl MapReader for object::ObjectSet {
    fn read_map(&self, object: u64, sink: &mut dyn FnMut(Entry)) -> Result<()> {
        for_each_entry(&self.object(object)?, sink).map(drop)
    }
}

/// For a pool that has no space maps yet, or is closed.
pub(super) struct NoMaps;

impl MapReader for NoMaps {
    fn read_map(&self, object: u64, _: &mut dyn FnMut(Entry)) -> Result<()> {
        Err(Error::not_found("a pool that is being made or closed", format!("space map {object}")))
    }
}

/// The operations on the MOS that space maps need, in the syncing txg.
pub trait MapWriter {
    /// Creates an empty space map. One with a histogram adds to the feature's reference count.
    fn create_map(&self, block_bytes: u32, with_histogram: bool) -> Result<u64>;
    /// Writes bytes at `offset`, which may be the end of the map.
    fn write_map(&self, object: u64, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Drops the entries of a map. Its header stays as it is.
    fn truncate_map(&self, object: u64) -> Result<()>;
    /// Sets the object's bonus buffer.
    fn set_header(&self, object: u64, header: &Header) -> Result<()>;
    /// Creates an array of `count` space maps, all missing.
    fn create_array(&self, count: u64) -> Result<u64>;
    /// Stores a space map's object number in the array.
    fn write_array(&self, array: u64, index: u64, object: u64) -> Result<()>;
    /// Creates an empty log space map for `txg`. The first one of a pool activates the feature.
    fn create_log(&self, txg: u64, block_bytes: u32, with_histogram: bool) -> Result<u64>;
    /// Destroys a log space map.
    fn remove_log(&self, txg: u64, object: u64) -> Result<()>;
    /// Records the checkpoint space map of the device with this ZAP; `None` destroys the previous
    /// one.
    fn set_checkpoint_map(&self, top_zap: u64, object: Option<u64>) -> Result<()>;
    /// Records that logs apply to some metaslabs from `txg` on, in the list of all `count`
    /// metaslabs of the device with this ZAP.
    fn write_unflushed(&self, top_zap: u64, count: u64, metaslabs: &[u32], txg: u64) -> Result<()>;
}
