//! Destroying snapshots: blocks that only they held are freed, the rest moves to the deadlist of
//! the next state.
//!
//! ```text
//!   before   older <── gone <── next     next's deadlist: [ born up to older ][ born after older ]
//!   after    older <──────── next        the pool frees the right part in later txgs; the left part
//!                                        stays, and takes over the deadlist of `gone`
//! ```
//! Facts: `dsl_destroy_snapshot_check_impl`, `dsl_destroy_snapshot_sync_impl` in
//! module/zfs/dsl_destroy.c, `dsl_dataset_recalc_head_uniq` in dsl_dataset.c.

use super::cx::{Cx, Failures};
use super::limits::{self, Counted};
use super::space::{self, Delta, Part};
use super::tree::{self, Node};
use super::{bookmark, deadlist, feature, props, remaps, request_log, snapshot};
use crate::live::LiveDatasets;
use errors::{Error, Refusal, Result};
use ondisk::{BlkPtr, DslDataset, SpaceTriple, version};
use pool::SpaceCheck;

/// Destroys the existing snapshots among `names`, in this order; with `deferred`, held or cloned
/// ones are destroyed once they are no longer held or cloned. None is destroyed if one cannot be.
pub fn destroy_snapshots(live: &LiveDatasets, names: &[String], deferred: bool) -> std::result::Result<(), Failures> {
    let whole = |e: Error| vec![(String::new(), e)];
    let ((_, open), names) = (live.parts(), names.to_vec());
    let task = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(cx.mos().store().name(), 0, SpaceCheck::ExtraReserved)?;
        let (mut failures, mut found) = (Failures::new(), Vec::new());
        for name in &names {
            match check(&cx, name, deferred) {
                Ok(node) => found.extend(node),
                Err(e) => failures.push((name.clone(), e)),
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        open.has_more_to_free();
        let all = || {
            found.iter().try_for_each(|node| destroy_in(&cx, node, deferred))?;
            request_log::destroy_snapshots(&cx, &names, deferred)
        };
        sync.all_or_nothing(all).map(Ok)
    });
    task.map_err(whole)??;
    live.refresh().map_err(whole)?;
    // A small snapshot is gone when this returns.
    live.writer().sync().map_err(whole)
}

/// The snapshot, if it exists and can be destroyed.
pub(super) fn check(cx: &Cx<'_>, name: &str, deferred: bool) -> Result<Option<Node>> {
    let node = match tree::find(cx, name) {
        Ok(node) => node,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    let Some(id) = node.snapshot else {
        return Err(Error::invalid(name, "a snapshot has '@' in its name"));
    };
    let phys = cx.dataset(id)?.phys;
    let held = tree::hold_count(cx, &phys)? > 0;
    if deferred && (held || phys.num_children > 1) {
        if cx.sync.version() < version::USER_HOLDS {
            return Err(Error::unsupported(name, tree::TOO_OLD));
        }
        return Ok(Some(node));
    }
    if held {
        return Err(Refusal::Busy.at(name));
    }
    if phys.num_children > 1 {
        return Err(Refusal::Exists.at(name));
    }
    check_parts(cx, name, id)?;
    Ok(Some(node))
}

/// Rejects snapshots with parts that Weir cannot destroy.
pub(crate) fn check_parts(cx: &Cx<'_>, name: &str, id: u64) -> Result<()> {
    let phys = cx.dataset(id)?.phys;
    let next = cx.dataset(phys.next_snap)?.phys;
    if deadlist::is_old(cx, next.deadlist)? && !deadlist::is_old(cx, phys.deadlist)? {
        let what = format!("deadlist {} has no keys, and the one before it has", next.deadlist);
        return Err(Error::corrupt(name, what));
    }
    Ok(())
}

/// Destroys snapshot `id`, which has no holds or clones any more.
pub(crate) fn destroy_by_id(cx: &Cx<'_>, id: u64) -> Result<()> {
    destroy_in(cx, &node_of(cx, id)?, false)
}

/// Snapshot `id` with its name.
fn node_of(cx: &Cx<'_>, id: u64) -> Result<Node> {
    let dir = cx.dataset(id)?.phys.dir;
    let head = cx.dir(dir)?.phys.head_dataset;
    let short = stored_name(cx, head, id)?;
    let name = format!("{}@{}", tree::name_of(cx, dir)?, String::from_utf8_lossy(&short));
    Ok(Node { name, dir, head, snapshot: Some(id) })
}

/// The name of snapshot `id` of head `head`.
pub(crate) fn stored_name(cx: &Cx<'_>, head: u64, id: u64) -> Result<Vec<u8>> {
    let names = cx.zap(cx.dataset(head)?.phys.snapnames_zap)?.entries()?;
    let missing = || Error::corrupt("", format!("snapshot {id} is not among the names of its head's snapshots"));
    names.into_iter().find(|e| e.value.as_u64() == Some(id)).map(|e| e.name).ok_or_else(missing)
}

pub(crate) fn destroy_in(cx: &Cx<'_>, node: &Node, deferred: bool) -> Result<()> {
    let Some(id) = node.snapshot else { return Ok(()) };
    let gone = cx.dataset(id)?.phys;
    if deferred && (gone.num_children > 1 || tree::hold_count(cx, &gone)? > 0) {
        cx.change_dataset(id, |phys| phys.flags |= DslDataset::FLAG_DEFER_DESTROY)?;
        return cx.history("defer_destroy", &node.name, id, " ");
    }
    cx.history("destroy", &node.name, id, " ")?;
    let keeps_keys = bookmark::snapshot_destroyed(cx, node.head, &gone)?;
    feature::deactivate_all(cx, id)?;
    let before = unlink(cx, id, &gone)?;

    let next_id = gone.next_snap;
    let next = cx.dataset(next_id)?.phys;
    let (list, since) = (next.deadlist, gone.prev_snap_txg.0);
    if let Some(before) = &before {
        let shared = deadlist::space_range(cx, list, before.prev_snap_txg.0, since)?.used;
        cx.change_dataset(gone.prev_snap, |phys| phys.unique_bytes = phys.unique_bytes.wrapping_add(shared))?;
    }
    if deadlist::is_old(cx, list)? {
        free_old(cx, node.dir, &gone, list)?;
    } else {
        let freed = deadlist::hand_over(cx, list, since)?;
        let delta = Delta::between(SpaceTriple::default(), freed);
        space::did_use(cx, node.dir, Part::Snapshots, delta)?;
        if let Some(free) = cx.special_dir("$FREE")? {
            space::did_use(cx, free, Part::Head, delta.negated())?;
        }
        deadlist::merge(cx, list, gone.deadlist)?;
    }
    remaps::snapshot_destroyed(cx, id, since, next_id)?;
    let at = gone.creation_txg.0;
    if !keeps_keys {
        remaps::remove_clones_key(cx, node.dir, at)?;
    }
    if next.is_snapshot() {
        // Blocks shared only by this snapshot and the next now belong only to the next.
        let after = cx.dataset(next.next_snap)?.phys.deadlist;
        let shared = deadlist::space_range(cx, after, since, at)?.used;
        cx.change_dataset(next_id, |phys| phys.unique_bytes = phys.unique_bytes.wrapping_add(shared))?;
        if !keeps_keys {
            deadlist::remove_key(cx, cx.dataset(node.head)?.phys.deadlist, at)?;
            remaps::remove_key(cx, node.head, at)?;
        }
    } else {
        recount_unique(cx, next_id, next.unique_bytes)?;
    }
    let names = cx.dataset(node.head)?.phys;
    let short = node.name.split_once('@').map_or("", |(_, short)| short);
    if let Some((_, stored)) = tree::snapshot_of(cx, &names, short)? {
        cx.zap(names.snapnames_zap)?.remove(cx.tx(), &stored)?;
    }
    snapshot::changed(cx, node.dir)?;
    limits::adjust(cx, node.dir, Counted::Snapshots, -1)?;
    props::clear_bootfs(cx, id)?;
    cx.sync.scan_destroyed(id, Some(next_id))?;
    for zap in [gone.next_clones_zap, gone.props_zap, gone.userrefs_zap] {
        if zap != 0 {
            cx.free_object(zap)?;
        }
    }
    cx.free_with_fields(id)
}

/// Frees the blocks in `list`, the deadlist of the next state, that only the snapshot `gone` held,
/// all in this txg. The others join the snapshot's own deadlist, which becomes that of the next
/// state. Facts: `process_old_deadlist`.
fn free_old(cx: &Cx<'_>, dir: u64, gone: &DslDataset, list: u64) -> Result<()> {
    let mut freed = SpaceTriple::default();
    deadlist::for_each(cx, list, &mut |blocks| {
        let (older, own): (Vec<BlkPtr>, Vec<BlkPtr>) =
            blocks.iter().copied().partition(|bp| bp.logical_birth() <= gone.prev_snap_txg);
        deadlist::insert(cx, gone.deadlist, &older)?;
        own.iter().try_for_each(|bp| {
            crate::deadlist::add(&mut freed, cx.space_of(bp));
            cx.sync.free(bp)
        })
    })?;
    space::did_use(cx, dir, Part::Snapshots, Delta::between(SpaceTriple::default(), freed))?;
    cx.change_dataset(gone.next_snap, |next| next.deadlist = gone.deadlist)?;
    deadlist::free(cx, list)
}

/// Removes snapshot `id` from the chain. Returns the snapshot before it, if that is of the same
/// directory.
fn unlink(cx: &Cx<'_>, id: u64, gone: &DslDataset) -> Result<Option<DslDataset>> {
    cx.change_dataset(gone.next_snap, |next| {
        next.prev_snap = gone.prev_snap;
        next.prev_snap_txg = gone.prev_snap_txg;
    })?;
    if gone.prev_snap == 0 {
        return Ok(None);
    }
    let before = cx.dataset(gone.prev_snap)?.phys;
    if before.next_snap == id {
        cx.change_dataset(gone.prev_snap, |before| before.next_snap = gone.next_snap)?;
        return Ok(Some(before));
    }
    if before.next_clones_zap != 0 {
        tree::remove_int(cx, before.next_clones_zap, id)?;
        tree::add_int(cx, before.next_clones_zap, gone.next_snap)?;
    }
    Ok(None)
}

/// The snapshot before head `id` changed, so more blocks are unique to the head; a refreservation
/// covers them.
fn recount_unique(cx: &Cx<'_>, id: u64, before: u64) -> Result<()> {
    let phys = cx.dataset(id)?.phys;
    let unique = deadlist::counted_unique_bytes(cx, &phys)?;
    cx.change_dataset(id, |phys| {
        phys.unique_bytes = unique;
        phys.flags |= deadlist::unique_accurate(cx);
    })?;
    let dir = phys.dir;
    let reserved = props::own_number(cx, dir, "refreservation")?;
    let covered = unique.min(reserved).saturating_sub(before.min(reserved));
    space::did_use(cx, dir, Part::Refreservation, Delta::used((covered as i64).wrapping_neg()))
}
