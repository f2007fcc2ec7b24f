//! Removes devices from the pool for good: `zpool remove` of logs, spares and cache devices. For
//! devices that hold data: `evacuate`.
//!
//! ```text
//!   log:   no new blocks on it ─> the caller empties all intent logs ─> nothing allocated, nothing deferred
//!          ─> a hole in its place, its objects freed; after the txg its labels say that it belongs to no pool
//! ```
//! Facts: spa_vdev_remove, spa_vdev_remove_log, vdev_remove_make_hole_and_free
//! (module/zfs/vdev_removal.c), vdev_destroy_spacemaps (vdev.c).
//!
//! Invariants:
//!   * a log device is empty when it leaves
//!   * other top-level devices keep their numbers, because DVAs contain them

use super::detach::{farewells, free_objects};
use super::maps::free_maps;
use super::spa::SyncTx;
use super::spa::Writer;
use super::tree::{self, known};
use super::vdevs::{self, List};
use crate::config::VdevConfig;
use block::vdev::{Aux, Tree};
use block::zevent::class;
use errors::{Error, Result};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

/// Txgs after which freed space is allocatable again, and some more for logs that were just
/// started.
const TXGS_MAX: usize = 8;
/// OpenZFS's message if the log of a dataset that is not open is on the device.
const UNREPLAYED: &str = "Mount encrypted datasets to replay logs.";

impl Writer {
    /// Removes a device from the pool. `empty_logs` empties the intent logs of all datasets, so
    /// that their contents are in the datasets on disk. A device that holds data leaves later, when
    /// [`Writer::is_removing`] returns false.
    pub fn remove(&self, guid: u64, empty_logs: &dyn Fn() -> Result<()>) -> Result<()> {
        let shared = &self.shared;
        shared.refuse_with_checkpoint()?;
        let (list, tree) = (self.auxiliary_of(guid), shared.store.tree());
        if let Some(list) = list {
            if shared.config.root.lock().find(guid).is_some() {
                return Err(Error::invalid(self.name(), "Pool busy; removal may already be in progress"));
            }
            let leaf =
                [&tree.spares, &tree.caches].into_iter().flatten().find(|v| v.guid == guid).and_then(|v| v.leaf());
            self.task(move |cx| remove_auxiliary(cx, guid, list))?;
            // Older states of the pool and the cache feeder still refer to the device; they must
            // not keep it in use.
            if let Some(leaf) = leaf {
                leaf.close(Aux::Removed);
            }
            return Ok(());
        }
        let Some(top) = tree.tops.iter().find(|top| top.guid == guid) else {
            let what = match tree.find(guid) {
                Some(_) => "operation not supported on this type of pool",
                None => "no such device in pool",
            };
            return Err(Error::invalid(self.name(), what));
        };
        let id = top.id as u32;
        if !shared.is_log(top.id) {
            return self.evacuate(id, empty_logs);
        }
        shared.allocator.set_allocating(id, false);
        let removed = self.empty(id, empty_logs).and_then(|()| self.task(move |cx| remove_log(cx, guid)));
        if removed.is_err() {
            shared.allocator.set_allocating(id, true);
        }
        removed
    }

    fn auxiliary_of(&self, guid: u64) -> Option<List> {
        let tree = self.shared.store.tree();
        let has = |all: &[std::sync::Arc<block::vdev::Vdev>]| all.iter().any(|v| v.guid == guid);
        if has(&tree.spares) {
            return Some(List::Spares);
        }
        has(&tree.caches).then_some(List::Caches)
    }

    /// Waits until a device that takes no new blocks is empty.
    fn empty(&self, id: u32, empty_logs: &dyn Fn() -> Result<()>) -> Result<()> {
        for turn in 0..TXGS_MAX {
            if self.shared.allocator.is_empty(id) {
                return Ok(());
            }
            if turn == 0 {
                empty_logs()?;
            }
            // Freed space becomes allocatable two txgs later; until then the previous uberblocks
            // need it.
            self.task(|_| Ok(()))?;
        }
        if self.shared.allocator.is_empty(id) { Ok(()) } else { Err(Error::invalid(self.name(), UNREPLAYED)) }
    }
}

fn remove_auxiliary(cx: &SyncTx<'_>, guid: u64, list: List) -> Result<()> {
    let (kind, name) = match list {
        List::Spares => ("spare", cx.shared.store.name()),
        List::Caches => ("l2cache", cx.shared.store.name()),
    };
    let tree = cx.store().tree();
    let leaving = [&tree.spares, &tree.caches].into_iter().flatten().find(|v| v.guid == guid).and_then(|v| v.leaf());
    cx.all_or_nothing(|| {
        let gone = vdevs::unlist_auxiliary(cx, guid, list)?;
        let path = gone.and_then(|c| c.path).unwrap_or_else(|| "-".into());
        let without =
            |all: &[std::sync::Arc<block::vdev::Vdev>]| all.iter().filter(|v| v.guid != guid).cloned().collect();
        cx.store().change_tree(|tree| Tree {
            tops: tree.tops.clone(),
            spares: without(&tree.spares),
            caches: without(&tree.caches),
        });
        cx.config_changed();
        cx.history("vdev remove", None, &format!("{name} vdev ({kind}) {path}"))
    })?;
    if let Some(leaf) = leaving {
        cx.shared.report_leaf(class::VDEV_REMOVE_AUX, leaf);
    }
    Ok(())
}

fn remove_log(cx: &SyncTx<'_>, guid: u64) -> Result<()> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let mut root = shared.config.root.lock().clone();
    let place = root.children.iter().position(|top| top.guid == guid);
    let place = place.ok_or_else(|| Error::invalid(shared.store.name(), "no such device in pool"))?;
    let top = root.children[place].clone();
    if cx.version() < ondisk::version::HOLES {
        return Err(Error::unsupported(shared.store.name(), "pool must be upgraded to support log removal"));
    }
    if !shared.allocator.is_empty(top.id as u32) {
        return Err(Error::invalid(shared.store.name(), UNREPLAYED));
    }
    root.children[place] = hole(top.id);
    let device = tree.tops.iter().find(|v| v.guid == guid);
    let farewells = device.map(|device| farewells(cx, device, &top)).unwrap_or_default();
    cx.all_or_nothing(|| {
        shared.allocator.remove_device(top.id as u32);
        free_maps(cx, &top)?;
        for leaf in top.leaves() {
            free_objects(cx, leaf)?;
        }
        vdevs::free_zap(cx, top.number(config::VDEV_TOP_ZAP))?;
        tree::commit(cx, root, &known(&tree))?;
        shared.allocator.publish_units(&shared.store);
        let path = top.path.as_deref().unwrap_or("-");
        cx.history("vdev remove", None, &format!("{} vdev (log) {path}", shared.store.name()))
    })?;
    shared.report_top(class::VDEV_REMOVE_DEV, &top, device.map(|top| &**top));
    shared.farewells.lock().extend(farewells);
    Ok(())
}

/// The hole that takes the place of a removed device.
pub(crate) fn hole(id: u64) -> VdevConfig {
    let mut all = Nvlist::new();
    all.put(config::TYPE, "hole");
    all.put(config::ID, id);
    for key in
        [config::GUID, config::METASLAB_ARRAY, config::METASLAB_SHIFT, config::ASHIFT, config::ASIZE, config::IS_LOG]
    {
        all.put(key, 0u64);
    }
    all.put(config::IS_HOLE, 1u64);
    VdevConfig { kind: "hole".into(), id, guid: 0, path: None, all, children: Vec::new() }
}
