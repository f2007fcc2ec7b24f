//! The end of a removal: the device is empty, or the removal is cancelled.
//!
//! Facts: vdev_remove_complete_sync, spa_vdev_remove_cancel_sync, spa_finish_removal
//! (module/zfs/vdev_removal.c).
//!
//! Invariants:
//!   * a device leaves in a later txg than the last copy: the data that the previous state needs
//!     stays on it

use super::free::free_moved;
use super::mapping::Growing;
use super::obsolete;
use super::state::{DEVICE_REMOVAL, OBSOLETE_COUNTS, State};
use crate::config::VdevConfig;
use crate::writer::detach::{farewells, free_objects};
use crate::writer::maps::free_maps;
use crate::writer::spa::SyncTx;
use crate::writer::tree::{self, known};
use crate::writer::vdevs::{self, top_zap};
use block::vdev::indirect::Mapping;
use block::vdev::{Kind, Vdev};
use block::zevent::class;
use errors::{Error, Result};
use host::sync::RwLock;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{config, vdev_top};
use ondisk::scan::ScanState;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Replaces the device by its mapping.
pub(super) fn finish(cx: &SyncTx<'_>, state: &mut State) -> Result<()> {
    let shared = cx.shared;
    let Some(growing) = state.growing.take() else { return Ok(()) };
    let tree = cx.store().tree();
    let mut root = shared.config.root.lock().clone();
    let top = of_vdev(&mut root, &growing, cx)?.clone();
    let previous = state.removing.and_then(|r| r.previous_indirect_vdev);
    let removed = indirect(&top, previous);
    let stands = Arc::new(stand_in(&removed, growing.mapping.clone(), &tree.tops[growing.vdev as usize]));
    root.children[growing.vdev as usize] = removed;
    let farewells = farewells(cx, &tree.tops[growing.vdev as usize], &top);
    cx.all_or_nothing(|| {
        free_maps(cx, &top)?;
        for leaf in top.leaves() {
            free_objects(cx, leaf)?;
        }
        shared.allocator.remove_device(growing.vdev);
        tree::commit_with(cx, root, &known(&tree), Some(stands))?;
        shared.allocator.publish_units(&shared.store);
        if let Some(removing) = &mut state.removing {
            removing.state = ScanState::Finished;
            removing.end_time = shared.now();
            removing.previous_indirect_vdev = Some(growing.vdev.into());
            state.is_changed = true;
        }
        let text = format!("{} vdev {}", shared.store.name(), growing.vdev);
        cx.history("vdev remove completed", None, &text)
    })?;
    shared.background.evacuation.active.store(false, Ordering::SeqCst);
    shared.report_top(class::VDEV_REMOVE_DEV, &top, Some(&tree.tops[growing.vdev as usize]));
    shared.farewells.lock().extend(farewells);
    Ok(())
}

fn of_vdev<'r>(root: &'r mut VdevConfig, growing: &Growing, cx: &SyncTx<'_>) -> Result<&'r mut VdevConfig> {
    let top = root.children.get_mut(growing.vdev as usize).filter(|top| top.id == u64::from(growing.vdev));
    top.ok_or_else(|| Error::invalid(cx.store().name(), "no such device in pool"))
}

/// The configuration of the indirect device that takes the place of a removed device.
fn indirect(top: &VdevConfig, previous: Option<u64>) -> VdevConfig {
    let guid = vdevs::new_guid();
    let mut all = Nvlist::new();
    all.put(config::TYPE, "indirect");
    all.put(config::ID, top.id);
    all.put(config::GUID, guid);
    all.put(config::METASLAB_ARRAY, 0u64);
    for key in [config::METASLAB_SHIFT, config::ASHIFT, config::ASIZE] {
        all.put(key, top.number(key));
    }
    all.put(config::IS_LOG, 0u64);
    all.put(config::NONALLOCATING, 1u64);
    for key in [config::INDIRECT_OBJECT, config::INDIRECT_BIRTHS] {
        all.put(key, top.number(key));
    }
    if let Some(previous) = previous {
        all.put(config::PREV_INDIRECT_VDEV, previous);
    }
    for key in [config::CREATE_TXG, config::VDEV_TOP_ZAP] {
        if let Some(value) = top.all.get_u64(key) {
            all.put(key, value);
        }
    }
    VdevConfig { kind: "indirect".into(), id: top.id, guid, path: None, all, children: Vec::new() }
}

/// The same in the device tree.
fn stand_in(config: &VdevConfig, mapping: Arc<Mapping>, before: &Vdev) -> Vdev {
    Vdev {
        guid: config.guid,
        id: config.id,
        kind: Kind::Indirect(RwLock::new(Some(mapping))),
        ashift: before.ashift,
        children: Vec::new(),
        name: config.display_name(),
    }
}

/// Cancels the removal: the device stays and the copies are freed.
pub(super) fn give_up(cx: &SyncTx<'_>, state: &mut State) -> Result<()> {
    let shared = cx.shared;
    let Some(growing) = state.growing.take() else { return Ok(()) };
    let vdev = growing.vdev;
    cx.all_or_nothing(|| {
        cx.feature_decrement(DEVICE_REMOVAL)?;
        let zap = top_zap(cx, vdev.into())?;
        if zap.lookup_u64(vdev_top::OBSOLETE_COUNTS_ARE_PRECISE)?.is_some() {
            zap.remove(cx.tx(), vdev_top::OBSOLETE_COUNTS_ARE_PRECISE)?;
            cx.feature_decrement(OBSOLETE_COUNTS)?;
        }
        state.obsolete.remove(&vdev);
        obsolete::destroy(cx, vdev)?;
        free_copies(cx, &growing)?;
        growing.destroy(cx)?;
        let path = {
            let mut root = shared.config.root.lock();
            let top = of_vdev(&mut root, &growing, cx)?;
            for key in [config::REMOVING, config::INDIRECT_OBJECT, config::INDIRECT_BIRTHS] {
                top.all.remove(key);
            }
            top.path.clone().unwrap_or_else(|| "-".into())
        };
        shared.allocator.set_evacuated(vdev, false);
        if zap.lookup_u64("allocating")? != Some(0) {
            if let Some(top) = shared.config.root.lock().children.get_mut(vdev as usize) {
                top.all.remove(config::NONALLOCATING);
            }
            shared.allocator.set_allocating(vdev, true);
        }
        cx.config_changed();
        if let Some(removing) = &mut state.removing {
            removing.state = ScanState::Canceled;
            removing.end_time = shared.now();
            state.is_changed = true;
        }
        cx.history("vdev remove canceled", None, &format!("{} vdev {vdev} {path}", shared.store.name()))
    })?;
    shared.background.evacuation.active.store(false, Ordering::SeqCst);
    Ok(())
}

fn free_copies(cx: &SyncTx<'_>, growing: &Growing) -> Result<()> {
    let (allocator, end) = (&cx.shared.allocator, growing.header.max_offset_bytes);
    for slab in 0.. {
        let Some(all) = allocator.allocated_in(growing.vdev, slab)? else { break };
        if all.first().is_some_and(|(at, _)| *at >= end) {
            break;
        }
        for (at, len) in all.into_iter().take_while(|(at, _)| *at < end) {
            let pieces = growing.mapping.resolve(at, len.min(end - at));
            let unmapped = |at| Error::corrupt(cx.store().name(), format!("no mapping for {at:#x}"));
            for p in pieces.map_err(unmapped)? {
                free_moved(cx, 0, p.vdev, p.offset_bytes, p.size_bytes);
            }
        }
    }
    Ok(())
}
