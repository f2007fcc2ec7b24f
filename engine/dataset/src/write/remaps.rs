//! Lists of blocks on removed devices that OpenZFS remapped to their new locations while a snapshot
//! still has the old addresses (`ds_remap_deadlist`). Weir does not remap addresses; it removes
//! these lists with their snapshots.
//!
//! Facts: dsl_destroy_snapshot_handle_remaps (module/zfs/dsl_destroy.c),
//! dsl_dataset_swap_remap_deadlists (dsl_dataset.c), dsl_scan_obsolete_block_cb (dsl_scan.c).
//!
//! Invariants:
//!   * blocks in a list are needed by a snapshot before its dataset
//!   * `obsolete_counts` counts each list, and the pool's list of blocks that are no longer needed

use super::cx::Cx;
use super::deadlist::{self, LIST_BLOCK_BYTES};
use errors::Result;
use object::bpobj::Bpobj;
use ondisk::dsl_dataset::FIELD_REMAP_DEADLIST;
use ondisk::pool_dir::directory;
use ondisk::zap::Value as ZapValue;

const OBSOLETE_COUNTS: &str = "com.delphix:obsolete_counts";

/// A snapshot was taken: it takes over the list of its head.
pub(super) fn taken(cx: &Cx<'_>, head: u64, snapshot: u64) -> Result<()> {
    let Some(list) = cx.field_u64(head, FIELD_REMAP_DEADLIST)? else { return Ok(()) };
    cx.unset_field(head, FIELD_REMAP_DEADLIST)?;
    cx.set_field(snapshot, FIELD_REMAP_DEADLIST, &ZapValue::one(list))
}

/// Two datasets swap their contents.
pub(super) fn swapped(cx: &Cx<'_>, a: u64, b: u64) -> Result<()> {
    let lists = (cx.field_u64(a, FIELD_REMAP_DEADLIST)?, cx.field_u64(b, FIELD_REMAP_DEADLIST)?);
    for (id, before, now) in [(a, lists.0, lists.1), (b, lists.1, lists.0)] {
        match now {
            Some(list) => cx.set_field(id, FIELD_REMAP_DEADLIST, &ZapValue::one(list))?,
            None if before.is_some() => cx.unset_field(id, FIELD_REMAP_DEADLIST)?,
            None => {}
        }
    }
    Ok(())
}

/// A dataset is destroyed: its list is freed with it.
pub(super) fn dropped(cx: &Cx<'_>, id: u64) -> Result<()> {
    let Some(list) = cx.field_u64(id, FIELD_REMAP_DEADLIST)? else { return Ok(()) };
    deadlist::free(cx, list)?;
    cx.unset_field(id, FIELD_REMAP_DEADLIST)?;
    cx.feature_decrement(OBSOLETE_COUNTS)
}

/// Snapshot `id` is being destroyed; the snapshot before it has txg `since`, and `next` follows it.
pub(super) fn snapshot_destroyed(cx: &Cx<'_>, id: u64, since: u64, next: u64) -> Result<()> {
    let after = cx.field_u64(next, FIELD_REMAP_DEADLIST)?;
    if let Some(after) = after {
        deadlist::hand_over_to(cx, after, since, obsolete_list(cx)?)?;
    }
    let Some(own) = cx.field_u64(id, FIELD_REMAP_DEADLIST)? else { return Ok(()) };
    match after {
        Some(after) => {
            deadlist::merge(cx, after, own)?;
            cx.unset_field(id, FIELD_REMAP_DEADLIST)?;
            cx.feature_decrement(OBSOLETE_COUNTS)
        }
        None => {
            cx.unset_field(id, FIELD_REMAP_DEADLIST)?;
            cx.set_field(next, FIELD_REMAP_DEADLIST, &ZapValue::one(own))
        }
    }
}

/// Merges blocks born after `txg` with older ones from now on.
pub(super) fn remove_key(cx: &Cx<'_>, dataset: u64, txg: u64) -> Result<()> {
    match cx.field_u64(dataset, FIELD_REMAP_DEADLIST)? {
        Some(list) => deadlist::remove_key(cx, list, txg),
        None => Ok(()),
    }
}

/// Merges blocks born after `txg`, of a destroyed snapshot of `dir`, with older ones in the heads
/// cloned from later snapshots of that directory, and from snapshots of those.
pub(super) fn remove_clones_key(cx: &Cx<'_>, dir: u64, txg: u64) -> Result<()> {
    let mut queue = vec![dir];
    while let Some(dir) = queue.pop() {
        let clones = cx.dir(dir)?.phys.clones_zap;
        if clones == 0 {
            continue;
        }
        for id in cx.zap(clones)?.entries()?.iter().filter_map(|e| e.value.as_u64()) {
            let clone = cx.dataset(id)?.phys;
            let origin = cx.dir(clone.dir)?.phys.origin;
            if origin != 0 && cx.dataset(origin)?.phys.creation_txg.0 > txg {
                deadlist::remove_key(cx, clone.deadlist, txg)?;
                remove_key(cx, id, txg)?;
                queue.push(clone.dir);
            }
        }
    }
    Ok(())
}

/// The pool's list of blocks that no snapshot needs any more.
fn obsolete_list(cx: &Cx<'_>) -> Result<u64> {
    if let Some(id) = cx.directory(directory::OBSOLETE_BPOBJ)? {
        return Ok(id);
    }
    let id = Bpobj::create(cx.mos(), cx.tx(), LIST_BLOCK_BYTES)?;
    cx.set_directory(directory::OBSOLETE_BPOBJ, id)?;
    cx.feature_increment(OBSOLETE_COUNTS)?;
    Ok(id)
}

/// Marks at most `blocks` blocks of that list as obsolete; returns whether more remain.
pub(super) fn work(cx: &Cx<'_>, blocks: &mut u64) -> Result<bool> {
    let Some(id) = cx.directory(directory::OBSOLETE_BPOBJ)? else { return Ok(false) };
    let list = cx.bpobj(id)?;
    let is_done = list.is_empty()?
        || list.drain(cx.mos(), cx.tx(), &|bp| cx.space_of(bp).used, &mut |entry| {
            if *blocks == 0 {
                return Ok(false);
            }
            *blocks -= 1;
            entry.bp.dvas().for_each(|dva| cx.sync.mark_obsolete(&dva));
            Ok(true)
        })?;
    if is_done {
        Bpobj::free(cx.mos(), cx.tx(), id)?;
        cx.zap(ondisk::pool_dir::DIRECTORY_OBJECT)?.remove(cx.tx(), directory::OBSOLETE_BPOBJ)?;
        cx.feature_decrement(OBSOLETE_COUNTS)?;
    }
    Ok(!is_done)
}
