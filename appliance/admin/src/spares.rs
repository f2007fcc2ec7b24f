//! Activates hot spares automatically, as OpenZFS's event daemon does (zfs_retire).
//!
//! Invariants:
//!   * a device gets one spare; a device that an administrator took offline gets none

use crate::attach::attach;
use crate::layout::Leaf;
use crate::write::WritablePool;
use anyhow::Result;
use pool::status::{PoolStatus, VdevClass, VdevState, VdevStatus};
use pool::writer::Joins;
use std::path::PathBuf;

/// Replaces failed devices with spares. Returns pairs of paths: failed device and spare.
pub fn step_in(pool: &WritablePool) -> Result<Vec<(String, String)>> {
    let mut done = Vec::new();
    if pool.writer().failure().is_some() || pool.writer().store().tree().spares.is_empty() {
        return Ok(done);
    }
    let status = pool.writer().pool()?.status()?;
    let mut free: Vec<&VdevStatus> = status.spares.iter().filter(|s| s.state == VdevState::Healthy).collect();
    for lost in lost(&status) {
        // Takes the first spare that fits. One that is too small, or that belongs to another draid,
        // is kept for others. Distributed spares are rebuilt in the order of addresses.
        let found = free.iter().position(|spare| {
            let path = PathBuf::from(spare.path.as_deref().unwrap_or_default());
            let leaf = Leaf { path, is_disk: spare.kind == "disk" };
            let sequentially = spare.kind == "dspare";
            let joined = attach(pool, lost.guid, &leaf, Joins::Replace, None, Some(spare.guid), sequentially);
            joined
                .inspect_err(
                    |error| tracing::debug!(spare = leaf.name(), %error, "cannot replace {} with a spare", lost.name),
                )
                .is_ok()
        });
        if let Some(at) = found {
            let name = |v: &VdevStatus| v.path.clone().unwrap_or_else(|| v.name.clone());
            done.push((name(lost), name(free.remove(at))));
        }
    }
    Ok(done)
}

/// Failed leaves without a replacement.
fn lost(status: &PoolStatus) -> Vec<&VdevStatus> {
    fn collect<'s>(vdev: &'s VdevStatus, found: &mut Vec<&'s VdevStatus>) {
        let is_lost = matches!(vdev.state, VdevState::Faulted | VdevState::CantOpen | VdevState::Removed);
        if vdev.is_leaf() && is_lost && !matches!(vdev.kind.as_str(), "hole" | "indirect" | "missing") {
            found.push(vdev);
        }
        if !matches!(vdev.kind.as_str(), "spare" | "replacing") {
            vdev.children.iter().for_each(|child| collect(child, found));
        }
    }
    let mut found = Vec::new();
    // Other classes get no spares.
    status.root.children.iter().filter(|top| top.class == VdevClass::Normal).for_each(|top| collect(top, &mut found));
    found
}
