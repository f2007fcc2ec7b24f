//! Rolling back to the latest snapshot: the head swaps its contents with a hidden clone of that
//! snapshot, and the clone is destroyed.
//!
//! Facts: `dsl_dataset_rollback_check`, `dsl_dataset_rollback_sync`,
//! `dsl_dataset_clone_swap_sync_impl` in module/zfs/dsl_dataset.c.

use super::cx::Cx;
use super::space::{self, Delta, Part};
use super::tree::{self, Node, TXG_INITIAL};
use super::{bookmark, clone, deadlist, destroy, feature, props, request_log, unsnap};
use crate::KeyStore;
use crate::intent_log::{ClosedLog, forget_skipped};
use crate::live::{LiveDatasets, Open};
use errors::{Error, Place, Refusal, Result};
use ondisk::{DslDataset, SpaceTriple};
use pool::SpaceCheck;

/// Name of the hidden clone.
const CLONE: &str = "%rollback";

/// Rolls back the file system or volume of snapshot `to` to that snapshot, which must be its
/// latest. It must not be open.
pub fn rollback(live: &LiveDatasets, to: &str) -> Result<()> {
    loop {
        let ((keys, open), to) = (live.parts(), to.to_owned());
        let is_done = live.writer().task(move |sync| {
            let cx = Cx::new(sync);
            sync.check_space(&to, 1, SpaceCheck::Reserved)?;
            let Some((node, head)) = check(&cx, &open, &to)? else { return Ok(false) };
            // Freeing blocks cannot be undone, so check first that they can be found.
            ClosedLog::open(cx.mos().store(), &head.bp, node.head).at(&to)?;
            if !open.release_head(node.head) {
                return Err(Refusal::Busy.at(&to));
            }
            let all = || {
                rollback_in(&cx, &keys, &node, &head)?;
                request_log::rollback(&cx, &to)
            };
            sync.all_or_nothing(all).map(|()| true)
        })?;
        if is_done {
            break;
        }
    }
    live.refresh()?;
    live.writer().sync()
}

/// The head to roll back; `None`: the snapshot is of this txg, and the caller must wait for it.
pub(super) fn check(cx: &Cx<'_>, open: &Open, to: &str) -> Result<Option<(Node, DslDataset)>> {
    let found = tree::find(cx, to)?;
    let target = found.snapshot.ok_or_else(|| Error::invalid(to, "it is not a snapshot"))?;
    let node = Node { name: tree::name_of(cx, found.dir)?, snapshot: None, ..found };
    let head = cx.dataset(node.head)?.phys;
    let more_recent = || Error::invalid(to, format!("there is a snapshot or bookmark more recent than '{to}'"));
    if open.get(node.head).is_some() {
        return Err(Refusal::Busy.at(&*node.name));
    }
    if head.prev_snap != target || head.prev_snap_txg.0 < TXG_INITIAL {
        return Err(more_recent());
    }
    if head.prev_snap_txg.0 >= cx.txg() {
        return Ok(None);
    }
    if bookmark::newest_txg(cx, node.head)? > head.prev_snap_txg.0 {
        return Err(more_recent());
    }
    unsnap::check_parts(cx, to, target)?;
    let quota = props::own_number(cx, node.dir, "refquota")?;
    if quota != 0 && cx.dataset(target)?.phys.referenced_bytes > quota {
        return Err(Refusal::QuotaExceeded.at(&*node.name));
    }
    let uncovered = props::own_number(cx, node.dir, "refreservation")?.min(head.unique_bytes);
    if uncovered > space::available(cx, node.dir, cx.sync.pool_bytes())? {
        return Err(Refusal::NoSpace.at(&*node.name));
    }
    Ok(Some((node, head)))
}

pub(super) fn rollback_in(cx: &Cx<'_>, store: &KeyStore, node: &Node, head: &DslDataset) -> Result<()> {
    let dir = tree::create_dir(cx, node.dir, CLONE)?;
    let hidden = clone::create_on(cx, dir, head.prev_snap)?;
    let name = format!("{}/{CLONE}", node.name);
    let clone = Node { name, dir, head: hidden, snapshot: None };
    swap(cx, &clone, node)?;
    let last = node.name.rsplit('/').next().unwrap_or(&node.name);
    cx.history("clone swap", &clone.name, hidden, &format!("parent={last}"))?;
    clone::zero_log(cx, node)?;
    destroy::destroy_in(cx, store, &clone)
}

/// Swaps the contents of `clone` and of head `of`, which are both based on the same snapshot.
pub(crate) fn swap(cx: &Cx<'_>, clone: &Node, of: &Node) -> Result<()> {
    let (ours, theirs) = (feature::of_dataset(cx, of.head)?, feature::of_dataset(cx, clone.head)?);
    feature::deactivate_all(cx, of.head)?;
    feature::deactivate_all(cx, clone.head)?;
    for (id, features) in [(of.head, theirs), (clone.head, ours)] {
        for (feature, value) in features {
            feature::activate_with(cx, id, feature, &value)?;
        }
    }
    // The log is dropped with the contents.
    forget_skipped(cx, of.head)?;
    let (mut new, mut old) = (cx.dataset(clone.head)?, cx.dataset(of.head)?);
    let reserved = props::own_number(cx, of.dir, "refreservation")?;
    let uncovered = old.phys.unique_bytes.min(reserved).wrapping_sub(new.phys.unique_bytes.min(reserved)) as i64;

    let before = cx.dataset(new.phys.prev_snap)?.phys;
    let only_there = deadlist::space_range(cx, new.phys.deadlist, before.prev_snap_txg.0, u64::MAX)?.used;
    cx.change_dataset(new.phys.prev_snap, |before| before.unique_bytes = only_there)?;

    // Space that a directory accounts for its head: blocks the head references, and blocks it
    // no longer references.
    let held = |phys: &DslDataset| -> Result<SpaceTriple> {
        let mut sum = deadlist::space(cx, phys.deadlist)?;
        let referenced = SpaceTriple {
            used: phys.referenced_bytes,
            compressed: phys.compressed_bytes,
            uncompressed: phys.uncompressed_bytes,
        };
        crate::deadlist::add(&mut sum, referenced);
        Ok(sum)
    };
    let delta = Delta::between(held(&new.phys)?, held(&old.phys)?);
    space::did_use(cx, of.dir, Part::Head, delta)?;
    space::did_use(cx, clone.dir, Part::Head, delta.negated())?;
    let origin = cx.dir(of.dir)?.phys.origin;
    let origin_txg = if origin == 0 { 0 } else { cx.dataset(origin)?.phys.creation_txg.0 };
    let dead = |phys: &DslDataset| Ok::<_, Error>(deadlist::space_range(cx, phys.deadlist, origin_txg, u64::MAX)?.used);
    let for_snapshots = dead(&new.phys)?.wrapping_sub(dead(&old.phys)?) as i64;
    space::transfer(cx, of.dir, for_snapshots, (Part::Head, Part::Snapshots))?;

    let (a, b) = (&mut new.phys, &mut old.phys);
    std::mem::swap(&mut a.bp, &mut b.bp);
    std::mem::swap(&mut a.referenced_bytes, &mut b.referenced_bytes);
    std::mem::swap(&mut a.compressed_bytes, &mut b.compressed_bytes);
    std::mem::swap(&mut a.uncompressed_bytes, &mut b.uncompressed_bytes);
    std::mem::swap(&mut a.unique_bytes, &mut b.unique_bytes);
    std::mem::swap(&mut a.deadlist, &mut b.deadlist);
    cx.put_dataset(&new)?;
    cx.put_dataset(&old)?;
    super::remaps::swapped(cx, clone.head, of.head)?;
    cx.sync.scan_swapped(clone.head, of.head)?;
    space::did_use(cx, of.dir, Part::Refreservation, Delta::used(uncovered))?;
    bookmark::next_changed(cx, of.head, &before)?;
    deadlist::remove_livelist(cx, clone.dir)?;
    deadlist::remove_livelist(cx, of.dir)
}
