//! Giving a file system or volume, with all below it, another name.
//!
//! Facts: `dsl_dir_rename_check`, `dsl_dir_rename_sync`, `dsl_dir_transfer_possible` in module/zfs/dsl_dir.c.

use super::cx::Cx;
use super::limits::{self, Counted};
use super::space::{self, Delta, Part};
use super::{keys, tree};
use crate::live::LiveDatasets;
use crate::{Error, Refusal, Result};
use object::ZapValue;

/// Longest full name, without its NUL.
const NAME_MAX: usize = 255;

/// Renames dataset `from` to `to`, which may be below another one of the same pool. With `parents`, missing file systems
/// above are the caller's to make first.
pub fn rename(live: &LiveDatasets, from: &str, to: &str) -> Result<()> {
    tree::check_new_name(to)?;
    let (from, to) = (from.to_owned(), to.to_owned());
    live.writer().task(move |sync| rename_in(&Cx::new(sync), &from, &to))?;
    live.refresh()
}

fn rename_in(cx: &Cx<'_>, from: &str, to: &str) -> Result<()> {
    let node = tree::find(cx, from)?;
    if node.snapshot.is_some() {
        return Err(Error::unsupported(from, "renaming snapshots"));
    }
    let dir = cx.dir(node.dir)?;
    if dir.phys.parent == 0 {
        return Err(Error::invalid(from, "the pool's own dataset cannot be renamed"));
    }
    if from.split('/').next() != to.split('/').next() {
        return Err(Refusal::CrossDevice.at(to));
    }
    let (parent, last) = tree::find_parent(cx, to)?;
    let growth = to.len().saturating_sub(from.len());
    if growth > 0 && longest_name(cx, node.dir, from.len())? + growth > NAME_MAX {
        return Err(Refusal::NameTooLong.at(to));
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

/// Bytes of the longest full name at and below directory `id`, whose own has `len`.
fn longest_name(cx: &Cx<'_>, id: u64, len: usize) -> Result<usize> {
    let dir = cx.dir(id)?.phys;
    let mut longest = len;
    if dir.head_dataset != 0 {
        for entry in cx.zap(cx.dataset(dir.head_dataset)?.phys.snapnames_zap)?.entries()? {
            longest = longest.max(len + 1 + entry.name.len());
        }
    }
    for entry in cx.zap(dir.children_zap)?.entries()? {
        if let Some(child) = entry.value.as_u64() {
            longest = longest.max(longest_name(cx, child, len + 1 + entry.name.len())?);
        }
    }
    Ok(longest)
}

/// The directories from `id` up to the root.
fn ancestors(cx: &Cx<'_>, id: u64) -> Result<Vec<u64>> {
    let (mut found, mut at) = (Vec::new(), id);
    while at != 0 && found.len() < 256 {
        found.push(at);
        at = cx.dir(at)?.phys.parent;
    }
    Ok(found)
}

fn check_move(cx: &Cx<'_>, dir: &super::cx::DirNode, parent: u64, place: &str) -> Result<()> {
    keys::check_move(cx, dir.id, parent, place)?;
    let above_new = ancestors(cx, parent)?;
    if above_new.contains(&dir.id) {
        return Err(Error::invalid(place, "it cannot be moved below itself"));
    }
    let above_old = ancestors(cx, dir.phys.parent)?;
    let common = above_old.iter().copied().find(|id| above_new.contains(id)).unwrap_or(0);
    let weight = dir.phys.used_bytes.max(dir.phys.reserved_bytes);
    // What the common ancestor will be lighter by, before it gets the weight again.
    let mut lighter = (weight as i64).wrapping_neg();
    for id in above_old.iter().take_while(|id| **id != common) {
        let phys = cx.dir(*id)?.phys;
        lighter = space::weight_change(phys.used_bytes, phys.reserved_bytes, lighter);
    }
    if space::available_without(cx, parent, cx.sync.pool_bytes(), common, lighter)? < weight {
        return Err(Refusal::NoSpace.at(place));
    }
    Ok(())
}

/// Takes the space and the counts of `dir` from the directory above, and gives them to `parent`.
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
