//! Devices that became larger: `zpool online -e`, the property `autoexpand`, and a mirror whose
//! smaller side was detached.
//!
//! ```text
//!   txg n:    current size of all leaves ─> asize in the configuration, and so in the labels, which are at the new ends
//!   after n:  metaslabs after the existing ones are used
//! ```
//! Facts: vdev_open, vdev_expand, vdev_online, spa_vdev_detach (module/zfs).
//!
//! Invariants:
//!   * no block is beyond the end in the previous uberblock: after a power failure the device has
//!     its old size, and nothing is lost
//!   * metaslabs keep their size; their number grows

use super::spa::SyncTx;
use super::spa::Writer;
use super::tree::find_leaf;
use block::zevent::class;
use errors::Result;
use ondisk::pool_dir::config;

impl Writer {
    /// Expands the top-level device of the leaf `guid` to its full capacity (`zpool online -e`).
    /// Returns whether it became larger.
    pub fn expand(&self, guid: u64) -> Result<bool> {
        let tree = self.shared.store.tree();
        let (top, _) = find_leaf(&tree, guid)?;
        measure(top.leaves());
        let id = top.id;
        self.task(move |cx| Ok(!expand(cx, &|top| top == id).is_empty()))
    }

    /// Checks whether devices became larger, and expands them if the property `autoexpand` is on.
    /// Cheap if nothing changed. Returns whether any device was expanded.
    pub fn autoexpand(&self) -> Result<bool> {
        let tree = self.shared.store.tree();
        measure(tree.leaves());
        let is_larger = {
            let root = self.shared.config.root.lock();
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
            tracing::debug!(device = leaf.path, %error, "cannot determine its size");
        }
    }
}

/// Expands all top-level devices if `autoexpand` is on. Called after changes that may have left
/// larger leaves.
pub(crate) fn expand_by_itself(cx: &SyncTx<'_>) -> Result<()> {
    if cx.pool_number("autoexpand")? == Some(1) {
        expand_all(cx);
    }
    Ok(())
}

/// Expands one top-level device to its full capacity.
pub(crate) fn expand_one(cx: &SyncTx<'_>, id: u64) {
    expand(cx, &|top| top == id);
}

/// Expands all top-level devices, for example when `autoexpand` is switched on.
pub(crate) fn expand_all(cx: &SyncTx<'_>) -> bool {
    let tree = cx.store().tree();
    measure(tree.leaves());
    let grown = expand(cx, &|_| true);
    for leaf in grown.iter().flat_map(|(id, _)| tree.tops[*id as usize].leaves()) {
        cx.shared.report_leaf(class::VDEV_AUTOEXPAND, leaf);
    }
    !grown.is_empty()
}

/// Expands the top-level devices selected by `meant`. Returns those that grew, with their new sizes
/// in bytes.
fn expand(cx: &SyncTx<'_>, meant: &dyn Fn(u64) -> bool) -> Vec<(u32, u64)> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let mut grown = Vec::new();
    {
        let mut root = shared.config.root.lock();
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
