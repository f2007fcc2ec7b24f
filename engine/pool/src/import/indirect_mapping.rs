//! Loads the mappings of removed devices: the new locations of their blocks.
//!
//! Below: `block::vdev::indirect`. Format: include/sys/vdev_indirect_mapping.h.

use crate::config::VdevConfig;
use block::Store;
use block::vdev::Kind;
use block::vdev::indirect::{Entry, Mapping};
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::Dva;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// Bytes of an entry: source offset, then a DVA.
const ENTRY_BYTES: u64 = 24;
/// Limit for the entries of a mapping. OpenZFS condenses mappings long before.
const ENTRIES_MAX: u64 = 1 << 28;

/// Loads the mapping of every removed device. A mapping may itself be stored on another removed
/// device: the readable ones are loaded first, then the others are tried again.
pub fn load_mappings(store: &Arc<Store>, mos: &ObjectSet, root: &VdevConfig) -> Result<()> {
    let mut waiting: Vec<&VdevConfig> = root.children.iter().filter(|c| c.kind == "indirect").collect();
    // The device that was removed last can be read without the others.
    waiting.sort_by_key(|c| std::cmp::Reverse(c.id));
    let tree = store.tree();
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut error = None;
        waiting.retain(|c| match load(mos, c) {
            Ok(mapping) => {
                if let Some(Kind::Indirect(slot)) = tree.tops.get(c.id as usize).map(|v| &v.kind) {
                    *slot.write() = Some(Arc::new(mapping));
                }
                false
            }
            Err(e) => {
                error = Some(e);
                true
            }
        });
        if waiting.len() == before {
            return Err(error.expect("nothing was loaded, so something failed"));
        }
    }
    Ok(())
}

/// The mapping of a device that was removed, or is being removed.
pub(crate) fn load(mos: &ObjectSet, c: &VdevConfig) -> Result<Mapping> {
    let place = || c.display_name();
    let id = c.number(config::INDIRECT_OBJECT);
    if id == 0 {
        // The device was empty when it was removed.
        return Ok(Mapping::default());
    }
    let object = mos.object(id).at_with(place)?;
    let (endian, bonus) = (object.endian(), object.bonus());
    if bonus.len() < 24 {
        return Err(Error::corrupt(
            place(),
            format!("the mapping's header has {} bytes, expected 24 or 32", bonus.len()),
        ));
    }
    let count = endian.word(bonus, 2);
    let holds = object.max_block_id().saturating_add(1).saturating_mul(object.block_bytes()) / ENTRY_BYTES;
    if count > ENTRIES_MAX.min(holds) {
        return Err(Error::corrupt(place(), format!("a mapping of {count} entries in an object that holds {holds}")));
    }
    let words = object.read_words(count * (ENTRY_BYTES / 8)).at_with(place)?;
    let entries = words.chunks_exact(3).map(|e| {
        let dva = Dva::from_words(e[1], e[2]);
        let source_bytes = (e[0] & !(1 << 63)) << 9;
        Entry { source_bytes, size_bytes: dva.asize_bytes, vdev: dva.vdev, offset_bytes: dva.offset_bytes }
    });
    Mapping::new(entries.collect()).map_err(|what| Error::corrupt(place(), what))
}
