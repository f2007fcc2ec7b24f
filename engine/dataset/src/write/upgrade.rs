//! Converting the datasets of a pool whose version rises.
//!
//! | from version | what every dataset gets                                                       |
//! |--------------|-------------------------------------------------------------------------------|
//! | 11           | an origin: `$ORIGIN@$ORIGIN`, unless it is a clone; its origin lists it       |
//! | 26           | the dataset of its origin lists it; the pool gets `$FREE` and `free_bpobj`    |
//!
//! Deadlists keep their old form; the next snapshot or clone starts one with keys
//! ([`super::deadlist`]).
//!
//! Facts: `spa_sync_upgrades` in module/zfs/spa.c; `dsl_pool_create_origin`,
//! `dsl_pool_upgrade_clones`, `dsl_pool_upgrade_dir_clones` in dsl_pool.c.

use super::cx::Cx;
use super::tree::{self, Node};
use super::{deadlist, snapshot};
use crate::tree::CHAIN_MAX;
use errors::{Error, Result};
use object::Bpobj;
use object::bpobj_write::new_header;
use ondisk::{feature, pool_dir::directory, version};
use pool::SyncTx;
use pool::writer::VERSION_FEATURES;

/// Raises the version of the pool to `version`, also to feature flags. Enables no feature.
pub fn upgrade_pool(sync: &SyncTx<'_>, version: u64) -> Result<()> {
    sync.upgrade_version(version, |from| convert(&Cx::new(sync), from, version))
}

/// Enables a feature and records it in the history. As in OpenZFS, this upgrades a pool without
/// feature flags.
pub fn enable_feature(sync: &SyncTx<'_>, name: &str) -> Result<()> {
    if feature::by_name(name).is_none() {
        return Err(Error::invalid(name, "is no feature"));
    }
    upgrade_pool(sync, VERSION_FEATURES)?;
    sync.enable_feature_property(name)
}

/// The version is the new one already, so everything created here has its form.
fn convert(cx: &Cx<'_>, from: u64, to: u64) -> Result<()> {
    let crosses = |version: u64| from < version && to >= version;
    let root = cx.root_dir()?;
    if crosses(version::ORIGIN) {
        create_origin(cx, root)?;
        each_head(cx, root, 0, &mut |head| list_in_origin(cx, head))?;
    }
    if crosses(version::DIR_CLONES) {
        create_free(cx, root)?;
        each_head(cx, root, 0, &mut |head| list_in_dir(cx, head))?;
    }
    Ok(())
}

/// Creates `$ORIGIN` and its snapshot.
pub(super) fn create_origin(cx: &Cx<'_>, root: u64) -> Result<()> {
    let dir = tree::create_dir(cx, root, tree::ORIGIN)?;
    let head = tree::create_head(cx, dir, None, 0)?;
    let node = Node { name: tree::ORIGIN.to_owned(), dir, head, snapshot: None };
    snapshot::take(cx, &node, tree::ORIGIN, tree::now()).map(drop)
}

/// Creates what counts, and lists, the blocks of destroyed snapshots until they are freed.
pub(super) fn create_free(cx: &Cx<'_>, root: u64) -> Result<()> {
    tree::create_dir(cx, root, "$FREE")?;
    if cx.directory(directory::FREE_BPOBJ)?.is_none() {
        let header = new_header(cx.sync.version(), false);
        let list = Bpobj::create_with(cx.mos(), cx.tx(), deadlist::LIST_BLOCK_BYTES, &header)?;
        cx.set_directory(directory::FREE_BPOBJ, list)?;
    }
    Ok(())
}

/// Calls `visit` with the heads of directory `dir` and of those below it, without internal ones.
fn each_head(cx: &Cx<'_>, dir: u64, depth: usize, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    if depth > tree::DEPTH_MAX {
        return Err(Error::corrupt("", format!("directory {dir} is below {depth} others")));
    }
    let phys = cx.dir(dir)?.phys;
    if phys.head_dataset != 0 {
        visit(phys.head_dataset)?;
    }
    for child in cx.zap(phys.children_zap)?.entries()? {
        if !child.name.starts_with(b"$")
            && let Some(id) = child.value.as_u64()
        {
            each_head(cx, id, depth + 1, visit)?;
        }
    }
    Ok(())
}

/// Enters the oldest state of head `head` in the list of its origin's clones.
fn list_in_origin(cx: &Cx<'_>, head: u64) -> Result<()> {
    let mut oldest = cx.dataset(head)?;
    let mut origin = None;
    for _ in 0..=CHAIN_MAX {
        if oldest.phys.prev_snap == 0 {
            break;
        }
        let before = cx.dataset(oldest.phys.prev_snap)?;
        if before.phys.next_snap != oldest.id {
            origin = Some(before.id);
            break;
        }
        oldest = before;
    }
    let origin = match origin {
        Some(origin) => origin,
        None if oldest.phys.prev_snap != 0 => {
            return Err(Error::corrupt("", format!("the snapshots of dataset {head} have no first one")));
        }
        None => {
            let none = || Error::corrupt("", "the pool has no $ORIGIN@$ORIGIN");
            let origin = cx.origin_snapshot()?.ok_or_else(none)?;
            let txg = cx.change_dataset(origin, |origin| {
                origin.num_children += 1;
                origin.creation_txg
            })?;
            cx.change_dataset(oldest.id, |phys| (phys.prev_snap, phys.prev_snap_txg) = (origin, txg))?;
            cx.change_dir(oldest.phys.dir, |dir| dir.origin = origin)?;
            origin
        }
    };
    tree::add_int(cx, tree::next_clones(cx, origin)?, oldest.id)
}

/// Enters head `head` in the list of clones that the dataset of its origin has.
fn list_in_dir(cx: &Cx<'_>, head: u64) -> Result<()> {
    let origin = cx.dir(cx.dataset(head)?.phys.dir)?.phys.origin;
    match origin {
        0 => Ok(()),
        origin => tree::add_int(cx, tree::clones(cx, cx.dataset(origin)?.phys.dir)?, head),
    }
}
