//! Sequential rebuilds, as stored in the pool when it was opened.

use crate::Pool;
use crate::config::VdevConfig;
use ondisk::removal::Rebuild;
use std::collections::BTreeMap;

/// Stored states by number of the top-level device.
pub(super) type Rebuilds = BTreeMap<u64, Rebuild>;

/// Loads the stored states. A damaged one does not prevent the pool from being used.
pub(super) fn load(pool: &Pool) -> Rebuilds {
    let read = |top: &VdevConfig| pool.rebuild_of(top).filter(|rebuild| rebuild.state != 0);
    pool.root_vdev().children.iter().filter_map(|top| Some((top.id, read(top)?))).collect()
}

pub(super) fn is_active(rebuild: &Rebuild) -> bool {
    rebuild.state == Rebuild::ACTIVE
}
