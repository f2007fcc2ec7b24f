//! Starts the removal of a device that holds data, and refuses what cannot be removed.
//!
//! Facts: spa_vdev_remove_top_check, vdev_passivate, vdev_remove_initiate_sync
//! (module/zfs/vdev_removal.c).
//!
//! Invariants:
//!   * before the mapping begins, nothing new is allocated on the device and no intent log is on it
//!   * everything that is read before mappings are loaded is on devices that stay

use super::mapping::Growing;
use super::state::{DEVICE_REMOVAL, OBSOLETE_COUNTS};
use crate::SpaceCheck;
use crate::writer::spa::{SyncTx, Writer};
use crate::writer::vdevs::top_zap;
use block::Class;
use block::vdev::{Kind, Vdev};
use errors::{Error, Result};
use ondisk::pool_dir::{DIRECTORY_OBJECT, config, vdev_top};
use ondisk::removal::Removing;
use ondisk::scan::ScanState;
use std::sync::atomic::Ordering;

/// After this many txgs, all earlier allocations and frees are synced.
const TXGS: usize = 4;

const NOT_SUPPORTED: &str = "operation not supported on this type of pool";
const ALREADY: &str = "removal for this vdev is already in progress.";
const BUSY: &str = "Pool busy; removal may already be in progress";
const MIXED: &str = "invalid config; all top-level vdevs must have the same sector size and not be raidz.";
const NO_SPACE: &str = "out of space";

impl Writer {
    /// Starts to remove a top-level device that holds data. `empty_logs` empties the intent logs of
    /// all datasets.
    pub(crate) fn evacuate(&self, id: u32, empty_logs: &dyn Fn() -> Result<()>) -> Result<()> {
        self.check_evacuation(id)?;
        let allocator = &self.shared.allocator;
        let was_allocating = allocator.is_allocating(id);
        allocator.set_allocating(id, false);
        allocator.set_evacuated(id, true);
        let begun = empty_logs().and_then(|()| (0..TXGS).try_for_each(|_| self.task(|_| Ok(())))).and_then(|()| {
            self.check_evacuation(id)?;
            self.task(move |cx| begin(cx, id))
        });
        if begun.is_err() {
            allocator.set_evacuated(id, false);
            allocator.set_allocating(id, was_allocating);
        }
        begun
    }

    fn check_evacuation(&self, id: u32) -> Result<()> {
        let shared = &self.shared;
        let refused = |what: &str| Err(Error::invalid(self.name(), what));
        let (tree, allocator) = (shared.store.tree(), &shared.allocator);
        let Some(top) = tree.tops.get(id as usize).filter(|top| is_plain(top)) else {
            let has_parity = tree.tops.get(id as usize).is_some_and(|top| has_parity(top));
            return refused(if has_parity { MIXED } else { NOT_SUPPORTED });
        };
        if !self.feature_enabled(DEVICE_REMOVAL) {
            return refused(NOT_SUPPORTED);
        }
        if let Some(removing) =
            shared.background.evacuation.state.lock().removing.filter(|r| r.state == ScanState::Scanning)
        {
            return refused(if removing.vdev == Some(u64::from(id)) { ALREADY } else { BUSY });
        }
        let class = allocator.class_of(id).unwrap_or_default();
        let (used, size) = allocator.used_and_size(id).unwrap_or_default();
        let fits = match class {
            Class::Normal if allocator.is_allocating(id) => self.available_bytes()? >= size,
            Class::Normal => true,
            _ => allocator.free_bytes_without(Class::Normal, id) >= used,
        };
        if !fits {
            return refused(NO_SPACE);
        }
        let leaves = top.leaves();
        if leaves.iter().any(|leaf| !leaf.stale_ranges().is_empty()) {
            return refused(BUSY);
        }
        if !leaves.iter().any(|leaf| leaf.is_open() && !leaf.has_failed()) {
            return refused("I/O error");
        }
        let holds = |other: &Vdev| allocator.class_of(other.id as u32).is_some_and(|class| class != Class::Log);
        let same = tree.tops.iter().filter(|other| holds(other)).all(|other| {
            let alike = allocator.class_of(other.id as u32) != Some(Class::Normal) && class == Class::Normal;
            is_plain(other) && (alike || other.ashift == top.ashift)
        });
        let is_last = class == Class::Normal && !allocator.has_other_open(id);
        if !same || is_last || tree.tops.iter().any(|other| has_parity(other)) {
            return refused(MIXED);
        }
        Ok(())
    }

    /// Bytes that all datasets together may still use.
    fn available_bytes(&self) -> Result<u64> {
        let used = self.shared.used_bytes()?;
        let deferred = self.shared.allocator.totals().held_back_bytes();
        Ok(self.shared.usable_bytes(SpaceCheck::Normal).saturating_sub(deferred).saturating_sub(used))
    }
}

/// Whether it is a disk, or a mirror of disks.
fn is_plain(top: &Vdev) -> bool {
    match top.kind {
        Kind::Leaf(_) => true,
        Kind::Mirror(_) => top.children.iter().all(|child| child.leaf().is_some()),
        _ => false,
    }
}

fn has_parity(top: &Vdev) -> bool {
    matches!(top.kind, Kind::Raidz(_) | Kind::Draid(_))
}

fn begin(cx: &SyncTx<'_>, id: u32) -> Result<()> {
    let shared = cx.shared;
    shared.refuse_with_checkpoint()?;
    // Checked again: another removal may have begun meanwhile.
    shared.refuse_while_removing()?;
    if shared.background.scan.is_rebuilding() {
        return Err(Error::invalid(shared.store.name(), "currently sequentially resilvering"));
    }
    super::free::sync(cx)?;
    let mut to_copy_bytes = 0;
    for slab in 0.. {
        match shared.allocator.allocated_in(id, slab)? {
            Some(all) => to_copy_bytes += all.iter().map(|(_, len)| len).sum::<u64>(),
            None => break,
        }
    }
    cx.all_or_nothing(|| {
        cx.feature_increment(DEVICE_REMOVAL)?;
        if cx.feature_enabled(OBSOLETE_COUNTS) {
            cx.feature_increment(OBSOLETE_COUNTS)?;
            top_zap(cx, id.into())?.insert_u64(cx.tx(), vdev_top::OBSOLETE_COUNTS_ARE_PRECISE, 1)?;
        }
        let growing = Growing::create(cx, id)?;
        let path = {
            let mut root = shared.config.root.lock();
            let top = root.children.get_mut(id as usize).filter(|top| top.id == u64::from(id));
            let top = top.ok_or_else(|| Error::invalid(shared.store.name(), "no such device in pool"))?;
            top.all.put(config::NONALLOCATING, 1u64);
            top.all.put(config::REMOVING, 1u64);
            top.all.put(config::INDIRECT_OBJECT, growing.object);
            top.all.put(config::INDIRECT_BIRTHS, growing.births);
            top.path.clone().unwrap_or_else(|| "-".into())
        };
        let mut state = shared.background.evacuation.state.lock();
        let previous_indirect_vdev = state.removing.and_then(|r| r.previous_indirect_vdev);
        state.removing = Some(Removing {
            state: ScanState::Scanning,
            vdev: Some(id.into()),
            previous_indirect_vdev,
            start_time: shared.now(),
            end_time: 0,
            to_copy_bytes,
            copied_bytes: 0,
        });
        state.is_changed = true;
        state.growing = Some(growing);
        drop(state);
        rewrite_directory(cx)?;
        cx.config_changed();
        shared.background.evacuation.cancelled.store(false, Ordering::SeqCst);
        shared.background.evacuation.active.store(true, Ordering::SeqCst);
        cx.history("vdev remove started", None, &format!("{} vdev {id} {path}", shared.store.name()))
    })
}

/// Rewrites the object directory. It is read before mappings are loaded, so it must not be on the
/// device.
fn rewrite_directory(cx: &SyncTx<'_>) -> Result<()> {
    let directory = cx.mos().object(DIRECTORY_OBJECT)?;
    let size = directory.block_bytes();
    for block in 0..=directory.max_block_id() {
        let bytes = directory.read_vec(block * size, size as usize)?;
        directory.write_at(cx.tx(), block * size, &bytes)?;
    }
    Ok(())
}
