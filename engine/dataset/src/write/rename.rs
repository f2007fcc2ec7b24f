//! Renaming a file system or volume, with everything below it, or a snapshot.
//!
//! Facts: `dsl_dir_rename_check`, `dsl_dir_rename_sync`, `dsl_dir_transfer_possible` in
//! module/zfs/dsl_dir.c.

use super::cx::{Cx, Failures};
use super::limits::{self, Counted};
use super::space::{self, Delta, Part};
use super::tree::{DEPTH_MAX, NAME_MAX, Node};
use super::{keys, limit_check, snapshot, tree};
use crate::delegation::Credentials;
use crate::live::LiveDatasets;
use crate::name::{DatasetName, Tail, is_hidden};
use errors::{Error, Refusal, Result};
use ondisk::zap::Value as ZapValue;
use pool::SpaceCheck;

/// Renames dataset `from` to `to`, which may have another parent in the same pool. The caller
/// creates missing parent file systems first.
pub fn rename(live: &LiveDatasets, from: &str, to: &str) -> Result<()> {
    rename_for(live, None, from, to)
}

/// The same for a user; `None`: for the owner of the pools.
pub fn rename_for(live: &LiveDatasets, user: Option<&Credentials>, from: &str, to: &str) -> Result<()> {
    tree::check_new_name(to)?;
    let (from, to, user) = (from.to_owned(), to.to_owned(), user.cloned());
    live.writer().task(move |sync| rename_in(&Cx::on_behalf(sync, user.as_ref()), &from, &to))?;
    live.refresh()
}

fn rename_in(cx: &Cx<'_>, from: &str, to: &str) -> Result<()> {
    cx.sync.check_space(from, 3, SpaceCheck::Reserved)?;
    let node = tree::find(cx, from)?;
    if node.snapshot.is_some() {
        return Err(Error::invalid(from, "a file system or volume has no '@' in its name"));
    }
    let dir = cx.dir(node.dir)?;
    if dir.phys.parent == 0 {
        return Err(Error::invalid(from, "the pool's own dataset cannot be renamed"));
    }
    if from.split('/').next() != to.split('/').next() {
        return Err(Refusal::CrossDevice.at(to));
    }
    let (parent, last) = tree::find_parent(cx, to)?;
    let components = |name: &str| name.split('/').count();
    let growth = to.len().saturating_sub(from.len());
    let deeper = components(to).saturating_sub(components(from));
    if growth > 0 || deeper > 0 {
        let (longest, deepest) = longest_name(cx, node.dir, from.len(), components(from))?;
        if (growth > 0 && longest + growth > NAME_MAX) || (deeper > 0 && deepest + deeper > DEPTH_MAX) {
            return Err(Refusal::NameTooLong.at(to));
        }
    }
    let moves = parent != dir.phys.parent;
    if moves {
        check_move(cx, &dir, parent, from)?;
    }
    cx.sync.all_or_nothing(|| {
        cx.history("rename", from, node.head, &format!("-> {to}"))?;
        if moves {
            transfer(cx, &dir, parent)?;
        }
        let old_name = from.rsplit('/').next().unwrap_or(from);
        cx.zap(cx.dir(dir.phys.parent)?.phys.children_zap)?.remove(cx.tx(), old_name.as_bytes())?;
        cx.change_dir(node.dir, |dir| dir.parent = parent)?;
        cx.zap(cx.dir(parent)?.phys.children_zap)?.insert(cx.tx(), last.as_bytes(), &ZapValue::one(node.dir))
    })
}

/// Renames snapshot `from` to `to`, of the same dataset; with `recursive`, also the snapshots of
/// the same name in datasets below, where they exist. All of them or none.
pub fn rename_snapshot(
    live: &LiveDatasets,
    from: &str,
    to: &str,
    recursive: bool,
) -> std::result::Result<(), Failures> {
    let whole = |e: Error| vec![(String::new(), e)];
    let (from, to) = (from.to_owned(), to.to_owned());
    let task = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(&from, 1, SpaceCheck::Reserved)?;
        let mut found = Vec::new();
        let checked = check_snapshots(&cx, &from, &to, recursive, &mut found);
        if let Err(e) = checked {
            return Ok(Err(vec![(from, e)]));
        }
        let short = to.split_once('@').map_or("", |(_, short)| short);
        let all = || found.iter().try_for_each(|(node, stored)| rename_one(&cx, node, stored, short));
        sync.all_or_nothing(all).map(Ok)
    });
    task.map_err(whole)??;
    live.refresh().map_err(whole)
}

/// A snapshot that can be renamed, and its name as stored on disk.
pub(super) type Renamed = (Node, Vec<u8>);

pub(super) fn check_snapshots(
    cx: &Cx<'_>,
    from: &str,
    to: &str,
    recursive: bool,
    found: &mut Vec<Renamed>,
) -> Result<()> {
    let (old, new) = (DatasetName::parse(from)?, tree::check_new_tail(to)?);
    let (Tail::Snapshot(old_short), Tail::Snapshot(short)) = (old.tail, new.tail) else {
        return Err(Error::invalid(to, "a snapshot has '@' in its name"));
    };
    if old.dir != new.dir {
        return Err(Error::invalid(to, "snapshots must be part of same dataset"));
    }
    let top = tree::find(cx, from)?;
    let mut queue = vec![(top.dir, old.dir.to_owned())];
    while let Some((dir, name)) = queue.pop() {
        let phys = cx.dir(dir)?.phys;
        if phys.head_dataset == 0 {
            continue;
        }
        let head = cx.dataset(phys.head_dataset)?.phys;
        if let Some((id, stored)) = tree::snapshot_of(cx, &head, old_short)? {
            let place = format!("{name}@{old_short}");
            if tree::snapshot_of(cx, &head, short)?.is_some() {
                return Err(Refusal::Exists.at(place));
            }
            if name.len() + 1 + short.len() > NAME_MAX {
                return Err(Refusal::NameTooLong.at(place));
            }
            found.push((Node { name: place, dir, head: phys.head_dataset, snapshot: Some(id) }, stored));
        }
        if recursive {
            for entry in cx.zap(phys.children_zap)?.entries()? {
                let child = String::from_utf8_lossy(&entry.name).into_owned();
                if let (Some(id), false) = (entry.value.as_u64(), is_hidden(&child)) {
                    queue.push((id, format!("{name}/{child}")));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn rename_one(cx: &Cx<'_>, node: &Node, stored: &[u8], short: &str) -> Result<()> {
    let Some(id) = node.snapshot else { return Ok(()) };
    cx.history("rename", &node.name, id, &format!("-> @{short}"))?;
    let names = cx.dataset(node.head)?.phys.snapnames_zap;
    cx.zap(names)?.remove(cx.tx(), stored)?;
    snapshot::changed(cx, node.dir)?;
    cx.zap(names)?.insert(cx.tx(), short.as_bytes(), &ZapValue::one(id))
}

/// Length in bytes of the longest full name at and below directory `id`, whose own name has `len`
/// bytes, and the depth of the deepest one, where `id` has `depth` components. Like
/// `dsl_valid_rename`.
fn longest_name(cx: &Cx<'_>, id: u64, len: usize, depth: usize) -> Result<(usize, usize)> {
    // No valid pool has such names: each level adds to the length.
    if depth > NAME_MAX {
        return Err(Error::corrupt("", format!("directory {id} is {depth} levels deep, expected at most {NAME_MAX}")));
    }
    let dir = cx.dir(id)?.phys;
    let (mut longest, mut deepest) = (len, depth);
    if dir.head_dataset != 0 {
        for entry in cx.zap(cx.dataset(dir.head_dataset)?.phys.snapnames_zap)?.entries()? {
            longest = longest.max(len + 1 + entry.name.len());
        }
    }
    for entry in cx.zap(dir.children_zap)?.entries()? {
        if let Some(child) = entry.value.as_u64() {
            let (long, deep) = longest_name(cx, child, len + 1 + entry.name.len(), depth + 1)?;
            (longest, deepest) = (longest.max(long), deepest.max(deep));
        }
    }
    Ok((longest, deepest))
}

fn check_move(cx: &Cx<'_>, dir: &super::cx::DirNode, parent: u64, place: &str) -> Result<()> {
    keys::check_move(cx, dir.id, parent, place)?;
    if tree::ancestors(cx, parent)?.contains(&dir.id) {
        return Err(Error::invalid(place, "it cannot be moved below itself"));
    }
    if cx.user.is_some() && cx.is_active(limits::FEATURE) {
        let (file_systems, snapshots) = limits::counts_below(cx, dir.id)?;
        check_limits(cx, (dir.phys.parent, parent), (file_systems.saturating_add(1), snapshots))?;
    }
    let weight = dir.phys.used_bytes.max(dir.phys.reserved_bytes);
    check_room(cx, place, (dir.phys.parent, parent), weight)
}

/// Rejects moving file systems and snapshots from one directory to another if that exceeds a limit.
pub(super) fn check_limits(cx: &Cx<'_>, (from, to): (u64, u64), (file_systems, snapshots): (u64, u64)) -> Result<()> {
    let above_new = tree::ancestors(cx, to)?;
    let common = tree::ancestors(cx, from)?.into_iter().find(|id| above_new.contains(id)).unwrap_or(0);
    limit_check::check(cx, to, Counted::FileSystems, file_systems, common)?;
    limit_check::check(cx, to, Counted::Snapshots, snapshots, common)
}

/// Returns an error if moving `weight` bytes from one directory to another exceeds the available
/// space.
pub(crate) fn check_room(cx: &Cx<'_>, place: &str, (from, to): (u64, u64), weight: u64) -> Result<()> {
    let (above_old, above_new) = (tree::ancestors(cx, from)?, tree::ancestors(cx, to)?);
    let common = above_old.iter().copied().find(|id| above_new.contains(id)).unwrap_or(0);
    // The space that the common ancestor loses before it gets the weight again.
    let mut lighter = (weight as i64).wrapping_neg();
    for id in above_old.iter().take_while(|id| **id != common) {
        let phys = cx.dir(*id)?.phys;
        lighter = space::weight_change(phys.used_bytes, phys.reserved_bytes, lighter);
    }
    if space::available_without(cx, to, cx.sync.pool_bytes(), common, lighter)? < weight {
        return Err(Refusal::NoSpace.at(place));
    }
    Ok(())
}

/// Moves the space and the counts of `dir` from its current parent to `parent`.
fn transfer(cx: &Cx<'_>, dir: &super::cx::DirNode, parent: u64) -> Result<()> {
    let old = dir.phys.parent;
    if cx.is_active(limits::FEATURE) {
        let (file_systems, snapshots) = limits::initialise(cx, dir.id)?;
        for (what, count) in [(Counted::FileSystems, file_systems as i64 + 1), (Counted::Snapshots, snapshots as i64)] {
            limits::adjust(cx, old, what, -count)?;
            limits::adjust(cx, parent, what, count)?;
        }
    }
    let all = Delta::of_dir(&dir.phys);
    space::did_use(cx, old, Part::Children, all.negated())?;
    space::did_use(cx, parent, Part::Children, all)?;
    let spare = dir.phys.reserved_bytes.saturating_sub(dir.phys.used_bytes) as i64;
    space::did_use(cx, old, Part::ChildrenReserved, Delta::used(-spare))?;
    space::did_use(cx, parent, Part::ChildrenReserved, Delta::used(spare))
}
