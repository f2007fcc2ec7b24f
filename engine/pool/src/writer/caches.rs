//! Cache devices of a pool that is opened for writing: they are locked and reopened, because a
//! search opens devices for reading.
//!
//! Labels of cache devices name no pool: only the pool's own list says which ones it owns.
//!
//! Invariants:
//!   * a cache device that is in use elsewhere, or cannot be opened for writing, is only read:
//!     opening a pool never fails because of a cache

use block::Store;
use block::vdev::{Kind, Leaf, Tree, Vdev};
use host::device::open_all_for_writing;
use std::sync::Arc;

/// Opens the available cache devices for writing.
pub(crate) fn open(store: &Store) {
    let tree = store.tree();
    let again: Vec<Arc<Vdev>> = tree.caches.iter().map(|vdev| writable(vdev).unwrap_or_else(|| vdev.clone())).collect();
    if again.iter().zip(&tree.caches).any(|(a, b)| !Arc::ptr_eq(a, b)) {
        store.change_tree(|tree| Tree { tops: tree.tops.clone(), caches: again, spares: tree.spares.clone() });
    }
}

fn writable(vdev: &Vdev) -> Option<Arc<Vdev>> {
    let leaf = vdev.leaf()?;
    if leaf.device()?.is_writable() {
        return None;
    }
    match open_all_for_writing(&[&leaf.path]) {
        Ok(mut devices) => {
            let kind = Kind::Leaf(Leaf::present(vdev.guid, devices.pop()?));
            let (guid, id, ashift, name) = (vdev.guid, vdev.id, vdev.ashift, vdev.name.clone());
            Some(Arc::new(Vdev { guid, id, kind, ashift, children: Vec::new(), name }))
        }
        Err(error) => {
            tracing::warn!(device = leaf.path, %error, "the cache device cannot be written");
            None
        }
    }
}
