//! Detaches devices: `zpool detach`, and devices that are no longer needed after a resilver without
//! errors.
//!
//! ```text
//!   txg n:        configuration without the device ─> its objects freed
//!                 ─> labels of the others, uberblock
//!   after it:     the device's own labels record that it belongs to no pool, or that it is a spare
//!                 again
//! ```
//! OpenZFS writes the labels of the detached device before the txg; a power failure then leaves a
//! pool with a device without labels.
//!
//! Facts: spa_vdev_detach, spa_vdev_resilver_done_hunt (module/zfs/spa.c), vdev_dtl_sync (vdev.c).
//!
//! Invariants:
//!   * no device is detached that is needed to read some block

use super::config::for_label;
use super::farewell::Farewell;
use super::shape;
use super::spa::{Shared, SyncTx, Writer};
use super::tree::{self, NO_REPLICAS, find_log, is_required, known};
use super::vdevs::{self, List};
use crate::config::VdevConfig;
use crate::import::build::REPLACED_BY_NAMESAKE;
use block::vdev::{Leaf, Tree, Vdev};
use block::zevent::class;
use errors::{Error, Result};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

impl Writer {
    /// Detaches a device from a mirror, or ends a replacement or the use of a spare (`zpool
    /// detach`).
    pub fn detach(&self, guid: u64) -> Result<()> {
        self.task(move |cx| {
            cx.shared.refuse_with_checkpoint()?;
            detach(cx, guid)?;
            after_resilver(cx)
        })
    }
}

/// Called in the txg that records the end of a resilver without errors, after the resilvered txgs
/// were removed from the DTLs: leaves without stale ranges are complete. Detaches the old side of
/// `replacing` and of `spare` devices.
///
/// ZFS name: spa_vdev_resilver_done.
pub(crate) fn after_resilver(cx: &SyncTx<'_>) -> Result<()> {
    forget_resilvers(cx);
    if cx.shared.refuse_with_checkpoint().is_err() {
        // The pool may be rewound to a state that needs the old device: it is detached when the
        // checkpoint is discarded.
        return Ok(());
    }
    // Each round detaches one device.
    loop {
        // Not in the condition of the loop: the lock would be held for its whole body.
        let found = find_replaced(&cx.shared.config.root.lock(), &cx.store().tree());
        let Some(guid) = found else { break };
        // The spare of a device that was replaced is detached with it.
        let spare = {
            let root = cx.shared.config.root.lock();
            let parent = root.parent(guid).map(|p| (p.guid, p.id));
            let above = parent.and_then(|(parent, id)| root.parent(parent).filter(|a| a.kind == "spare" && id == 0));
            above.filter(|a| a.children.len() == 2).map(|a| a.children[1].guid)
        };
        detach(cx, guid)?;
        if let Some(spare) = spare {
            detach(cx, spare)?;
        }
    }
    Ok(())
}

/// Removes the resilver txgs of complete leaves from the configuration (`vdev_dtl_reassess`).
fn forget_resilvers(cx: &SyncTx<'_>) {
    let tree = cx.store().tree();
    let mut root = cx.shared.config.root.lock();
    for leaf in tree.logs().into_iter().filter(|leaf| leaf.is_open() && leaf.stale_ranges().is_empty()) {
        if let Some(c) = root.find_mut(leaf.guid)
            && c.all.remove(config::RESILVER_TXG)
                | c.all.remove(config::REBUILD_TXG)
                | c.all.remove(config::RESILVER_DEFER)
        {
            cx.config_changed();
        }
    }
}

/// A device that is no longer needed, because its replacement is complete.
fn find_replaced(vdev: &VdevConfig, tree: &Tree) -> Option<u64> {
    if let Some(found) = vdev.children.iter().find_map(|child| find_replaced(child, tree)) {
        return Some(found);
    }
    let is_whole = |c: &VdevConfig| tree.find(c.guid).is_some_and(tree::is_whole);
    let may_go = |c: &VdevConfig| find_log(tree, c.guid).is_ok_and(|(top, leaf)| !is_required(top, leaf.guid));
    let (first, last) = (vdev.children.first()?, vdev.children.last()?);
    let flag = |c: &VdevConfig, key| c.number(key) != 0;
    match vdev.kind.as_str() {
        "replacing" => (is_whole(last) && may_go(first)).then_some(first.guid),
        "spare" => {
            let pair = if flag(last, config::UNSPARE) {
                Some((first, last))
            } else if flag(first, config::UNSPARE) {
                Some((last, first))
            } else {
                None
            };
            if let Some((old, new)) = pair
                && is_whole(new)
                && may_go(old)
            {
                return Some(old.guid);
            }
            // A device with more than one spare: all but the last become available again.
            let second = vdev.children.get(1).filter(|_| vdev.children.len() > 2)?;
            let is_spare = |c| flag(c, config::IS_SPARE);
            (is_spare(second) && is_spare(last) && is_whole(last) && may_go(second)).then_some(second.guid)
        }
        _ => None,
    }
}

/// Detaches a leaf and reports the event.
fn detach(cx: &SyncTx<'_>, guid: u64) -> Result<()> {
    let tree = cx.store().tree();
    take_out(cx, guid)?;
    cx.shared.report_leaf(class::VDEV_REMOVE, find_log(&tree, guid)?.1);
    Ok(())
}

/// Detaches a leaf from its siblings.
pub(crate) fn take_out(cx: &SyncTx<'_>, guid: u64) -> Result<()> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let (top, leaf) = find_log(&tree, guid)?;
    let mut root = shared.config.root.lock().clone();
    let refuse = |what: &str| Err(Error::invalid(leaf.path.as_str(), what));
    let parent = match root.parent(guid) {
        Some(parent) if matches!(parent.kind.as_str(), "mirror" | "replacing" | "spare") => parent.clone(),
        _ => return refuse("only applicable to mirror and replacing vdevs"),
    };
    if is_required(top, guid) {
        return refuse(NO_REPLICAS);
    }
    let mut leaves = known(&tree);
    // The original device is detached: the spare takes its place and is no longer a spare.
    let is_first = parent.children.first().is_some_and(|c| c.guid == guid);
    let settles = (parent.kind == "spare" && is_first).then(|| parent.children.last()).flatten();
    let settled = settles.filter(|c| c.number(config::IS_SPARE) != 0 && c.kind != "dspare").map(|c| c.guid);

    let top_config = root.children.iter().find(|c| c.guid == top.guid);
    let before = top_config.cloned().ok_or_else(|| Error::invalid("", "no such device in pool"))?;
    let gone = shape::remove_child(&mut root, guid).ok_or_else(|| Error::invalid("", "no such device in pool"))?;
    if parent.kind == "replacing" && !is_first {
        give_path_back(&mut root, parent.guid, &gone);
    }
    if let Some(c) = settled.and_then(|guid| root.find_mut(guid)) {
        c.all.remove(config::IS_SPARE);
        c.all.put(config::UNSPARE, 1u64);
    }
    if parent.children.len() == 2 {
        let left = root.find(parent.guid).and_then(|p| p.children.first()).map(|c| c.guid);
        if let Some(c) = left.and_then(|guid| root.find_mut(guid)).filter(|_| parent.kind == "spare") {
            c.all.remove(config::UNSPARE);
        }
        if let Some((before, now)) = shape::remove_parent(&mut root, parent.guid)
            && let Some(leaf) = leaves.remove(&before)
        {
            let path = leaf.path.clone();
            leaves.insert(now, leaf.known_as(now, path));
        }
    }
    let leaving = farewell(cx, leaf.clone(), &gone, &before);
    cx.all_or_nothing(|| {
        free_objects(cx, &gone)?;
        if let Some(guid) = settled {
            vdevs::unlist_auxiliary(cx, guid, List::Spares)?;
            cx.store().change_tree(|tree| Tree {
                spares: tree.spares.iter().filter(|spare| spare.guid != guid).cloned().collect(),
                ..tree.clone()
            });
        }
        tree::commit(cx, root, &leaves)?;
        super::grow::expand_by_itself(cx)?;
        cx.history("detach", None, &format!("vdev={}", gone.path.as_deref().unwrap_or("none")))
    })?;
    // A distributed spare has no labels.
    if !leaf.is_distributed() {
        shared.farewells.lock().push(leaving);
    }
    Ok(())
}

/// Restores the path of a device whose replacement by one of the same path was cancelled.
fn give_path_back(root: &mut VdevConfig, parent: u64, gone: &VdevConfig) {
    let Some(path) = gone.path.as_deref() else { return };
    let moved = format!("{path}{REPLACED_BY_NAMESAKE}");
    let parent = root.find_mut(parent);
    if let Some(c) = parent.and_then(|p| p.children.iter_mut().find(|c| c.path.as_ref() == Some(&moved))) {
        c.set_path(path);
    }
}

/// Frees the objects of a leaf that leaves: its DTL and its ZAP.
pub(crate) fn free_objects(cx: &SyncTx<'_>, gone: &VdevConfig) -> Result<()> {
    let log = gone.number(config::DTL);
    if log != 0 {
        super::maps::with_maps(cx, |maps| maps.free_map(log))?;
    }
    vdevs::free_zap(cx, gone.number(config::VDEV_LEAF_ZAP))
}

/// The final label of a leaf that leaves: that of a device that is not in use, with the
/// configuration of its top-level device `top` before. `zhack label repair` needs that.
pub(crate) fn farewell(cx: &SyncTx<'_>, leaf: Leaf, gone: &VdevConfig, top: &VdevConfig) -> Farewell {
    Farewell { leaf, label: farewell_label(cx.shared, gone, top) }
}

/// The final labels of all leaves of a top-level device that leaves.
pub(crate) fn farewells(cx: &SyncTx<'_>, device: &Vdev, top: &VdevConfig) -> Vec<Farewell> {
    let of = |leaf: &Leaf| Some(farewell(cx, leaf.clone(), top.find(leaf.guid)?, top));
    device.leaves().into_iter().filter_map(of).collect()
}

/// Facts: `vdev_label_init` with VDEV_LABEL_REMOVE (module/zfs/vdev_label.c).
fn farewell_label(shared: &Shared, gone: &VdevConfig, top: &VdevConfig) -> Nvlist {
    let identity = shared.config.identity.lock().clone();
    if gone.number(config::IS_SPARE) != 0 {
        return vdevs::auxiliary_label(identity.version, gone, List::Spares);
    }
    let root = shared.config.root.lock().clone();
    let mut label = for_label(&identity, &root, top, gone.guid, shared.features.for_label(), 0);
    label.put(config::CREATE_TXG, 0u64);
    label
}
