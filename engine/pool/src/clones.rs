//! Blocks that several files share: the block reference table (BRT).
//!
//! Format: include/sys/brt_impl.h: for each top-level device an object `com.fudosecurity:brt:vdev:N` in the object
//! directory, whose bonus names a ZAP of offset -> number of extra references.

use crate::{Pool, Result};
use object::Place;
use object::zap::Zap;
use std::collections::HashMap;

/// Name of a device's table in the object directory.
pub(crate) fn object_name(vdev: u64) -> String {
    format!("com.fudosecurity:brt:vdev:{vdev}")
}

/// (device, offset) -> references beyond the first.
pub fn references(pool: &Pool) -> Result<HashMap<(u64, u64), u64>> {
    let mut found = HashMap::new();
    for top in &pool.root_vdev().children {
        let name = object_name(top.id);
        let Some(id) = pool.directory().lookup_u64(&name)? else { continue };
        let object = pool.mos().object(id)?;
        // brt_vdev_phys_t: the ZAP's object number is its first word.
        let bonus = object.bonus();
        if bonus.len() < 8 {
            continue;
        }
        let entries = object.endian().word(bonus, 0);
        if entries == 0 {
            continue;
        }
        for e in Zap::open(pool.mos().object(entries)?)?.entries().at(&name)? {
            if let Some(offset) = e.key.first() {
                found.insert((top.id, *offset), e.value.as_u64().unwrap_or(0));
            }
        }
    }
    Ok(found)
}
