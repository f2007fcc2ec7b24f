//! Blocks shared by several files: the block reference table (BRT), on disk, and in memory while it
//! changes ([`Clones`]).
//!
//! Format: include/sys/brt_impl.h. Each top-level device has an object
//! `com.fudosecurity:brt:vdev:N` in the object directory. Its bonus buffer names a ZAP of offset ->
//! number of extra references.

mod live;
mod sync;

pub(crate) use live::Clones;

use crate::Pool;
use crate::config::VdevConfig;
use errors::{Place, Result};
use object::zap::Zap;
use ondisk::{brt, pool_dir};
use std::collections::HashMap;

/// The top-level devices with cloned blocks, each with the object number of its table.
pub(crate) fn tables(pool: &Pool) -> Result<Vec<(&VdevConfig, u64)>> {
    let mut found = Vec::new();
    for top in &pool.root_vdev().children {
        if let Some(id) = pool.directory().lookup_u64(pool_dir::brt(top.id))? {
            found.push((top, id));
        }
    }
    Ok(found)
}

/// Number of references beyond the first, by (top-level device, offset in bytes).
pub fn references(pool: &Pool) -> Result<HashMap<(u64, u64), u64>> {
    let mut found = HashMap::new();
    for (top, id) in tables(pool)? {
        let name = pool_dir::brt(top.id);
        let object = pool.mos().object(id)?;
        let header = brt::Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
        if header.entries_object == 0 {
            continue;
        }
        for step in Zap::open(pool.mos().object(header.entries_object)?)?.cursor(0) {
            let (entry, _) = step.at(&name)?;
            let Some(offset) = entry.key.first() else { continue };
            let count = brt::reference_count(entry.value.int_bytes, &entry.value.ints, object.endian()).at(&name)?;
            found.insert((top.id, *offset), count);
        }
    }
    Ok(found)
}
