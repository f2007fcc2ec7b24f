//! Space maps: which parts of a device are allocated.
//!
//! ```text
//!   device -> array of metaslabs -> a space map each
//!                                   + entries of log space maps that are not yet flushed into it
//! ```
//! Below: `object`. ZFS name: metaslab, space_map, spa_log_spacemap.

pub mod alloc;
pub mod bits;
pub(crate) mod entries;
mod fragmentation;
pub mod metaslab;
mod ranges;

pub use alloc::Allocator;
pub use metaslab::{DeviceSpace, Space};

use errors::{Place, Result};
use object::Object;
use ondisk::spacemap::{self, Action, Header};

/// An entry of a space map: a range that was allocated or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// True if allocated, false if freed.
    pub is_alloc: bool,
    /// Start, in units of the map.
    pub offset: u64,
    /// Length, in units of the map.
    pub run: u64,
    /// Number of the top-level device, in log space maps.
    pub vdev: Option<u32>,
}

/// Calls `sink` with each entry of the space map in `object`, in the order of writing. Returns the
/// header.
pub fn for_each_entry(object: &Object, sink: impl FnMut(Entry)) -> Result<Header> {
    let mut sink = sink;
    let header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
    let size = object.block_bytes();
    let mut at = 0;
    while at < header.length_bytes && size > 0 {
        // A hole would read as zeros, which would be entries that allocate one unit at 0.
        let Some(block) = object.block(at / size)? else {
            return Err(errors::Error::corrupt(
                object.place(),
                format!("the space map has a hole at byte {at} of {}", header.length_bytes),
            ));
        };
        let len = (header.length_bytes - at).min(size) as usize;
        for e in spacemap::entries(&block.data[..len], block.endian) {
            let e = e.at_with(|| object.place())?;
            sink(Entry { is_alloc: e.action == Action::Alloc, offset: e.offset_units, run: e.run_units, vdev: e.vdev });
        }
        at += size;
    }
    Ok(header)
}
