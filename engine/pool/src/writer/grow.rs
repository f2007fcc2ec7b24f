//! Devices that have become larger: `zpool online -e`, the property `autoexpand`, and a mirror whose smaller side left.
//!
//! ```text
//!   txg n:    what all leaves hold now ─> asize in the configuration, so in the labels, which stand at the new ends
//!   behind n: metaslabs behind those that are there are handed out
//! ```
//! Facts: vdev_open, vdev_expand, vdev_online, spa_vdev_detach (module/zfs).
//!
//! Invariants:
//!   * no block is behind the end that the uberblock before knows of: a power cut leaves the smaller device, and nothing lost
//!   * metaslabs stay as large as they are: there are more of them

use super::Writer;
use super::tree::find_leaf;
use super::tx::SyncTx;
use crate::Result;
use block::zevent::class;
use ondisk::pool_dir::config;

impl Writer {
    /// Uses what the top-level device above the leaf `guid` could hold more (`zpool online -e`). Whether it became larger.
    pub fn expand(&self, guid: u64) -> Result<bool> {
        let tree = self.shared.store.tree();
        let (top, _) = find_leaf(&tree, guid)?;
        measure(top.leaves());
        let id = top.id;
        self.task(move |cx| Ok(!expand(cx, &|top| top == id).is_empty()))
    }

    /// Looks whether devices have become larger, and uses that if the pool is to do so by itself (`autoexpand`). Cheap when nothing
    /// changed. Whether some did.
    pub fn autoexpand(&self) -> Result<bool> {
        let tree = self.shared.store.tree();
        measure(tree.leaves());
        let is_larger = {
            let root = self.shared.root.lock();
            let larger = |top: &crate::config::VdevConfig| {
                let device = tree.tops.get(top.id as usize);
                device.and_then(|d| d.capacity_bytes()).is_some_and(|bytes| bytes > top.number(config::ASIZE))
            };
            root.children.iter().any(larger)
        };
        if !is_larger || !self.pool()?.is_on("autoexpand")? {
            return Ok(false);
        }
        self.task(|cx| Ok(expand_all(cx)))
    }
}

fn measure(leaves: Vec<&block::vdev::Leaf>) {
    for leaf in leaves {
        if let Some(device) = leaf.device()
            && let Err(error) = device.remeasure()
        {
            tracing::debug!(device = leaf.path, %error, "its size cannot be told");
        }
    }
}

/// Expands all top-level devices if the pool is to do so by itself: after a change that may have left larger leaves.
pub(super) fn expand_by_itself(cx: &SyncTx<'_>) -> Result<()> {
    if cx.pool_number("autoexpand")? == Some(1) {
        expand_all(cx);
    }
    Ok(())
}

/// Takes what one top-level device could hold more.
pub(super) fn expand_one(cx: &SyncTx<'_>, id: u64) {
    expand(cx, &|top| top == id);
}

/// The pool is to do so by itself from now on.
pub(super) fn expand_all(cx: &SyncTx<'_>) -> bool {
    let tree = cx.store().tree();
    measure(tree.leaves());
    let grown = expand(cx, &|_| true);
    for leaf in grown.iter().flat_map(|(id, _)| tree.tops[*id as usize].leaves()) {
        cx.shared.tell_leaf(class::VDEV_AUTOEXPAND, leaf);
    }
    !grown.is_empty()
}

/// Takes what the top-level devices that are `meant` could hold more: those that had anything, and how large they are now.
fn expand(cx: &SyncTx<'_>, meant: &dyn Fn(u64) -> bool) -> Vec<(u32, u64)> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let mut grown = Vec::new();
    {
        let mut root = shared.root.lock();
        for top in root.children.iter_mut().filter(|top| meant(top.id) && top.number(config::METASLAB_ARRAY) != 0) {
            let Some(bytes) = tree.tops.get(top.id as usize).and_then(|device| device.capacity_bytes()) else {
                continue;
            };
            if bytes > top.number(config::ASIZE)
                && top.number(config::REMOVING) == 0
                && !top.all.contains(config::RAIDZ_EXPANDING)
            {
                top.all.put(config::ASIZE, bytes);
                grown.push((top.id as u32, bytes));
            }
        }
    }
    grown.iter().for_each(|(id, bytes)| shared.allocator.grow_device(*id, *bytes));
    if !grown.is_empty() {
        cx.config_changed();
    }
    grown
}
