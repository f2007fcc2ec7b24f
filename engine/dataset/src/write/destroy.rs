//! Destroying file systems and volumes that have neither snapshots nor child datasets.
//!
//! ```text
//!   with async_destroy:     unlink the dataset, queue its tree for freeing (see `pending`)
//!   without, if it is large: mark it inconsistent, free its objects over several txgs,
//!                            then continue as if it were small
//!   without, if it is small: free its blocks and unlink it, in one task
//! ```
//! Facts: `dsl_destroy_head_check_impl`, `dsl_destroy_head_sync_impl`, `dsl_async_dataset_destroy`,
//! `old_synchronous_dataset_destroy` in module/zfs/dsl_destroy.c, `dsl_dir_destroy_sync` in
//! dsl_dir.c.

use super::cx::Cx;
use super::free::{Met, Stop, Walk};
use super::limits::{self, Counted};
use super::pending::{self, ASYNC_DESTROY};
use super::space::{self, Delta, Part};
use super::tree::{self, Node};
use super::{bookmark, deadlist, feature, keys, permissions, props, unsnap};
use crate::KeyStore;
use crate::intent_log::{ClosedLog, forget_skipped};
use crate::live::{LiveDatasets, Open};
use crate::name::RECEIVE_CLONE;
use errors::{Error, Place, Refusal, Result};
use ondisk::{DslDataset, SpaceTriple};
use pool::SpaceCheck;

/// Maximum bytes whose blocks are freed in one task; any excess is freed before, in several txgs.
/// Guessed: freeing 8 GiB reads a few thousand indirect blocks.
const AT_ONCE_BYTES: u64 = 8 << 30;

/// Destroys dataset `name`, and anything an interrupted receive left in it. It must not be open.
pub fn destroy(live: &LiveDatasets, name: &str) -> Result<()> {
    let (tree, hidden) = (live.synced()?, format!("{name}/{RECEIVE_CLONE}"));
    if tree.dataset(&hidden).is_ok() && tree.children(tree.dataset(name)?.dir())?.is_empty() {
        destroy_one(live, &hidden)?;
    }
    destroy_one(live, name)
}

fn destroy_one(live: &LiveDatasets, name: &str) -> Result<()> {
    let ((_, open), full) = (live.parts(), name.to_owned());
    let (id, is_large) = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(&full, 0, SpaceCheck::ExtraReserved)?;
        let node = check(&cx, &open, &full)?;
        let unique = cx.dataset(node.head)?.phys.unique_bytes;
        let is_large = unique > AT_ONCE_BYTES && !cx.is_enabled(ASYNC_DESTROY);
        if is_large {
            cx.change_dataset(node.head, |phys| phys.flags |= DslDataset::FLAG_INCONSISTENT)?;
            cx.history("destroy begin", &full, node.head, " ")?;
        }
        Ok((node.head, is_large))
    })?;
    if is_large {
        live.empty_out(id, AT_ONCE_BYTES)?;
    }
    let ((keys, open), name) = (live.parts(), name.to_owned());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let node = check(&cx, &open, &name)?;
        let phys = cx.dataset(node.head)?.phys;
        check_blocks(&cx, &phys, &node)?;
        if !open.release_head(node.head) {
            return Err(Refusal::Busy.at(&name));
        }
        sync.all_or_nothing(|| destroy_in(&cx, &keys, &node))
    })?;
    live.refresh()?;
    // A small dataset is gone when this returns.
    live.writer().sync()
}

pub(super) fn check(cx: &Cx<'_>, open: &Open, name: &str) -> Result<Node> {
    let node = tree::find(cx, name)?;
    if node.snapshot.is_some() {
        return Err(Error::invalid(name, "a file system or volume has no '@' in its name"));
    }
    let dir = cx.dir(node.dir)?.phys;
    if dir.parent == 0 {
        return Err(Error::invalid(name, "the root dataset is destroyed with the pool"));
    }
    if open.get(node.head).is_some() {
        return Err(Refusal::Busy.at(name));
    }
    let phys = cx.dataset(node.head)?.phys;
    if phys.prev_snap != 0 {
        let before = cx.dataset(phys.prev_snap)?.phys;
        if before.next_snap == node.head {
            return Err(Error::invalid(name, "it has snapshots, which must be destroyed first"));
        }
        if origin_goes_too(cx, &before)? {
            unsnap::check_parts(cx, name, phys.prev_snap)?;
        }
    }
    if cx.zap(dir.children_zap)?.count()? != 0 {
        return Err(Error::invalid(name, "it has datasets below it, which must be destroyed first"));
    }
    Ok(node)
}

/// Whether a snapshot was kept only for the clone being destroyed.
fn origin_goes_too(cx: &Cx<'_>, origin: &DslDataset) -> Result<bool> {
    let is_waiting = origin.has(DslDataset::FLAG_DEFER_DESTROY) && origin.num_children == 2;
    Ok(is_waiting && tree::hold_count(cx, origin)? == 0)
}

pub(crate) fn destroy_in(cx: &Cx<'_>, store: &KeyStore, node: &Node) -> Result<()> {
    let phys = cx.dataset(node.head)?.phys;
    let waits = phys.prev_snap != 0 && origin_goes_too(cx, &cx.dataset(phys.prev_snap)?.phys)?;
    let is_async = cx.is_enabled(ASYNC_DESTROY);
    let how = if is_async { "bptree" } else { "synchronous" };
    cx.history("destroy", &node.name, node.head, &format!("({how}, mintxg={})", phys.prev_snap_txg.0))?;
    let reserved = props::own_number(cx, node.dir, "refreservation")?;
    if reserved != 0 {
        let name = "refreservation";
        let zap = cx.zap(cx.dir(node.dir)?.phys.props_zap)?;
        for key in [name.to_owned(), format!("{name}$recvd")] {
            if zap.lookup(&key)?.is_some() {
                cx.zap(cx.dir(node.dir)?.phys.props_zap)?.remove(cx.tx(), key.as_bytes())?;
            }
        }
        props::did_set_refreservation(cx, node.dir, reserved, 0)?;
    }
    // A livelist would find the blocks faster than the walk over the tree does, and has no
    // other use.
    deadlist::remove_livelist(cx, node.dir)?;
    ClosedLog::open(cx.mos().store(), &phys.bp, node.head)?.free(cx.store(), cx.txg())?;
    forget_skipped(cx, node.head)?;
    if is_async {
        hand_over(cx, node, &phys)?
    } else {
        free_blocks(cx, node, &phys)?
    }
    feature::deactivate_all(cx, node.head)?;
    if phys.prev_snap != 0 {
        let before = cx.dataset(phys.prev_snap)?.phys;
        if before.next_clones_zap != 0 {
            tree::remove_int(cx, before.next_clones_zap, node.head)?;
        }
        cx.change_dataset(phys.prev_snap, |before| before.num_children = before.num_children.saturating_sub(1))?;
        let clones = cx.dir(before.dir)?.phys.clones_zap;
        if clones != 0 {
            tree::remove_int(cx, clones, node.head)?;
        }
    }
    deadlist::free(cx, phys.deadlist)?;
    super::remaps::dropped(cx, node.head)?;
    bookmark::destroy_all(cx, node.head)?;
    cx.sync.scan_destroyed(node.head, None)?;
    cx.change_dir(node.dir, |dir| dir.head_dataset = 0)?;
    cx.free_object(phys.snapnames_zap)?;
    props::clear_bootfs(cx, node.head)?;
    cx.free_with_fields(node.head)?;
    destroy_dir(cx, store, node)?;
    if waits { unsnap::destroy_by_id(cx, phys.prev_snap) } else { Ok(()) }
}

/// Queues the blocks that only this dataset references for freeing; until then `$FREE` accounts for
/// them.
fn hand_over(cx: &Cx<'_>, node: &Node, phys: &DslDataset) -> Result<()> {
    let all = Delta::of_dir(&cx.dir(node.dir)?.phys);
    let space =
        SpaceTriple { used: all.used as u64, compressed: all.compressed as u64, uncompressed: all.uncompressed as u64 };
    pending::add_tree(cx, &phys.bp, phys.prev_snap_txg.0, space)?;
    space::did_use(cx, node.dir, Part::Head, all.negated())?;
    match cx.special_dir("$FREE")? {
        Some(free) => space::did_use(cx, free, Part::Head, all),
        None => Ok(()),
    }
}

/// Freeing blocks cannot be undone, so this checks first that they can be found.
pub(super) fn check_blocks(cx: &Cx<'_>, phys: &DslDataset, node: &Node) -> Result<()> {
    ClosedLog::open(cx.mos().store(), &phys.bp, node.head).at(&node.name)?;
    if cx.is_enabled(ASYNC_DESTROY) {
        return Ok(());
    }
    walk(cx, phys, false).run(&phys.bp, &mut |_| Ok(true)).map_err(|stop| stop.into_error().at(&node.name))
}

fn walk<'a>(cx: &Cx<'a>, phys: &DslDataset, gives_up: bool) -> Walk<'a> {
    let min_txg = phys.prev_snap_txg.0;
    Walk { store: cx.mos().store(), min_txg, resume: None, gives_up }
}

/// Frees the blocks that only this dataset references, and subtracts their space.
fn free_blocks(cx: &Cx<'_>, node: &Node, phys: &DslDataset) -> Result<()> {
    let mut gone = SpaceTriple::default();
    walk(cx, phys, true)
        .run(&phys.bp, &mut |met| {
            match met {
                Met::Next => {}
                Met::Block(bp) => {
                    crate::deadlist::add(&mut gone, cx.space_of(bp));
                    cx.sync.free(bp)?;
                }
            }
            Ok(true)
        })
        .map_err(Stop::into_error)?;
    space::did_use(cx, node.dir, Part::Head, Delta::between(SpaceTriple::default(), gone))
}

fn destroy_dir(cx: &Cx<'_>, store: &KeyStore, node: &Node) -> Result<()> {
    let parent = cx.dir(node.dir)?.phys.parent;
    let last = node.name.rsplit('/').next().unwrap_or(&node.name);
    if !last.starts_with('%') {
        limits::adjust(cx, parent, Counted::FileSystems, -1)?;
    }
    space::set_reserved(cx, node.dir, 0)?;
    let dir = cx.dir(node.dir)?.phys;
    if dir.used_bytes != 0 {
        // Accounting errors from before remain in the parents, where the space was counted;
        // the directory itself is removed.
        tracing::warn!("{}: {} bytes were counted that were not found", node.name, dir.used_bytes);
    }
    keys::destroy(cx, node.dir)?;
    store.forget(node.dir);
    cx.free_object(dir.children_zap)?;
    cx.free_object(dir.props_zap)?;
    if dir.clones_zap != 0 {
        cx.free_object(dir.clones_zap)?;
    }
    permissions::free(cx, dir.delegation_zap)?;
    cx.zap(cx.dir(parent)?.phys.children_zap)?.remove(cx.tx(), last.as_bytes())?;
    cx.free_with_fields(node.dir)
}
