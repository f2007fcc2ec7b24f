//! Taking snapshots: all requested ones in one txg, or none.
//!
//! ```text
//!   before   older snapshot <── head                    the head's deadlist: blocks of the older
//!                                                       snapshot that the head lacks
//!   after    older snapshot <── new snapshot <── head   that list is the new snapshot's; the head
//!                                                       starts an empty one, with one more key:
//!                                                       blocks born after the older snapshot
//! ```
//! Tasks run after the blocks of their txg are written, so a snapshot includes all changes made
//! before the request, even those that so far are only in the intent log, because they were also
//! made in memory. The snapshot's root block is the head's, including its log header, which has no
//! meaning in a snapshot.
//!
//! Facts: `dsl_dataset_snapshot_check_impl`, `dsl_dataset_snapshot_sync_impl` in
//! module/zfs/dsl_dataset.c, `dsl_bookmark_snapshotted` in dsl_bookmark.c,
//! `dsl_dir_snap_cmtime_update` in dsl_dir.c.

use super::cx::{Cx, Failures};
use super::limits::{self, Counted};
use super::props::{self, Change};
use super::space::{self, Delta, Part};
use super::tree::{self, Node};
use super::{bookmark, deadlist, feature, limit_check, request_log, values};
use crate::delegation::Credentials;
use crate::live::LiveDatasets;
use crate::name::Tail;
use block::Bookmark;
use errors::{Error, Refusal, Result};
use ondisk::dsl_dataset::FIELD_IVSET_GUID;
use ondisk::dsl_dir::{FIELD_CRYPTO_KEY_OBJ, FIELD_SNAPSHOTS_CHANGED};
use ondisk::zap::Value as ZapValue;
use ondisk::{DslDataset, Endian, ObjectType, Objset, Txg, version};
use pool::SpaceCheck;
use std::collections::{HashMap, HashSet};

/// Attempts to take snapshots while datasets have no intent log. Guessed: an attempt fails only if
/// the log is written to within a few milliseconds.
const EMPTY_LOG_ATTEMPTS: u32 = 20;

/// Blocks of the pool's own objects that a snapshot allocates, as in OpenZFS.
pub(super) const TAKEN_BLOCKS: u64 = 3;

/// Takes the snapshots `names`, each with these user properties.
pub fn snapshot(
    live: &LiveDatasets,
    names: &[String],
    properties: &[(String, String)],
) -> std::result::Result<(), Failures> {
    snapshot_for(live, None, names, properties)
}

/// The same for a user; `None`: for the owner of the pools.
pub fn snapshot_for(
    live: &LiveDatasets,
    user: Option<&Credentials>,
    names: &[String],
    properties: &[(String, String)],
) -> std::result::Result<(), Failures> {
    let whole = |e: Error| vec![(String::new(), e)];
    let (names, properties, user) = (names.to_vec(), properties.to_vec(), user.cloned());
    let mut attempts = 0;
    loop {
        let (names, properties, user) = (names.clone(), properties.clone(), user.clone());
        let task =
            live.writer().task(move |sync| Ok(snapshot_in(&Cx::on_behalf(sync, user.as_ref()), &names, &properties)));
        match task.map_err(whole)?? {
            Taken::Yes => return live.refresh().map_err(whole),
            // Two snapshots in one txg would be the same state: the later one waits for the
            // next txg.
            Taken::Later => {}
            Taken::HasLog(name) if attempts == EMPTY_LOG_ATTEMPTS => {
                return Err(vec![(name.clone(), Refusal::Busy.at(name))]);
            }
            Taken::HasLog(_) => {
                attempts += 1;
                live.empty_logs().map_err(whole)?;
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Taken {
    Yes,
    Later,
    /// The dataset of this snapshot has an intent log, and must not have one.
    HasLog(String),
}

fn snapshot_in(cx: &Cx<'_>, names: &[String], properties: &[(String, String)]) -> std::result::Result<Taken, Failures> {
    cx.sync
        .check_space(cx.mos().store().name(), names.len() as u64 * TAKEN_BLOCKS, SpaceCheck::Normal)
        .map_err(|e| vec![(String::new(), e)])?;
    let (mut failures, mut found, mut seen) = (Failures::new(), Vec::new(), HashSet::new());
    let mut later = false;
    for name in names {
        match check(cx, name, properties) {
            Ok((node, changes)) => {
                if !seen.insert(node.head) {
                    return Err(vec![(String::new(), Refusal::CrossDevice.at(name.as_str()))]);
                }
                match cx.dataset(node.head) {
                    Ok(head) => later |= head.phys.prev_snap_txg.0 >= cx.txg(),
                    Err(e) => failures.push((name.clone(), e)),
                }
                found.push((node, changes));
            }
            Err(e) => failures.push((name.clone(), e)),
        }
    }
    if !failures.is_empty() {
        return Err(failures);
    }
    check_limits(cx, found.iter().map(|(node, _)| node.dir)).map_err(|e| vec![(String::new(), e)])?;
    if later {
        return Ok(Taken::Later);
    }
    if cx.sync.version() < version::FAST_SNAPSHOTS {
        for (node, _) in &found {
            if has_log(cx, node).map_err(|e| vec![(node.name.clone(), e)])? {
                return Ok(Taken::HasLog(node.name.clone()));
            }
        }
    }
    let time = tree::now();
    let all = cx.sync.all_or_nothing(|| {
        for (node, changes) in &found {
            let short = node.name.split_once('@').map_or("", |(_, short)| short);
            let id = take(cx, node, short, time)?;
            let taken = Node { snapshot: Some(id), ..node.clone() };
            changes.iter().try_for_each(|change| props::apply(cx, &taken, change))?;
        }
        request_log::snapshot(cx, names, properties)
    });
    all.map(|()| Taken::Yes).map_err(|e| vec![(String::new(), e)])
}

/// Whether the root block of the head of `node`, as it was just written, leads to an intent log.
/// Before pool version 27, a snapshot must not: a clone of it would replay the log.
fn has_log(cx: &Cx<'_>, node: &Node) -> Result<bool> {
    let at = Bookmark { objset: node.head, object: 0, level: -1, blkid: 0 };
    let block = cx.mos().store().read_unopened(&cx.dataset(node.head)?.phys.bp, &at)?;
    Ok(!Objset::parse(&block.data, block.endian)?.zil.log.is_hole())
}

/// Rejects one more snapshot of each of these directories if that exceeds a limit on any of them or
/// above.
fn check_limits(cx: &Cx<'_>, dirs: impl Iterator<Item = u64>) -> Result<()> {
    if cx.user.is_none() || !cx.is_active(limits::FEATURE) {
        return Ok(());
    }
    let mut more: HashMap<u64, u64> = HashMap::new();
    for dir in dirs {
        tree::ancestors(cx, dir)?.into_iter().for_each(|above| *more.entry(above).or_default() += 1);
    }
    more.into_iter().try_for_each(|(dir, more)| limit_check::check_here(cx, dir, Counted::Snapshots, more).map(drop))
}

/// The head to snapshot as `name`, and the properties of the snapshot.
pub(super) fn check(cx: &Cx<'_>, name: &str, properties: &[(String, String)]) -> Result<(Node, Vec<Change>)> {
    let parsed = tree::check_new_tail(name)?;
    let Tail::Snapshot(short) = parsed.tail else {
        return Err(Error::invalid(name, "a snapshot has '@' in its name"));
    };
    let node = Node { name: name.to_owned(), ..tree::find(cx, parsed.dir)? };
    let head = cx.dataset(node.head)?.phys;
    if tree::snapshot_of(cx, &head, short)?.is_some() {
        return Err(Refusal::Exists.at(name));
    }
    if head.has(DslDataset::FLAG_INCONSISTENT) {
        return Err(Refusal::Busy.at(name));
    }
    if !properties.is_empty() && cx.sync.version() < version::SNAPSHOT_PROPERTIES {
        return Err(Error::unsupported(name, tree::TOO_OLD));
    }
    // The space that only the snapshot will own was covered by the refreservation, and no
    // longer is.
    let reserved = props::own_number(cx, node.dir, "refreservation")?.min(head.unique_bytes);
    if reserved > space::available(cx, node.dir, cx.sync.pool_bytes())? {
        return Err(Refusal::NoSpace.at(name));
    }
    let target = Node { snapshot: Some(0), ..node.clone() };
    let settings = values::settings_for(cx, &target, properties)?;
    Ok((node, settings.into_iter().map(Change::Set).collect()))
}

/// Takes snapshot `short` of the head of `node`; everything is checked. Returns its object.
pub(crate) fn take(cx: &Cx<'_>, node: &Node, short: &str, time: u64) -> Result<u64> {
    let mut head = cx.dataset(node.head)?;
    let is_origin = short == tree::ORIGIN;
    limits::adjust(cx, node.dir, Counted::Snapshots, 1)?;
    let snapshot = DslDataset {
        next_snap: head.id,
        snapnames_zap: 0,
        num_children: 1,
        creation_time: time,
        // The origin's snapshot counts as taken in txg 1, before anything was written.
        creation_txg: Txg(if is_origin { 1 } else { cx.txg() }),
        unique_bytes: 0,
        fsid_guid: tree::unique_fsid(),
        guid: tree::unique(),
        next_clones_zap: 0,
        props_zap: 0,
        userrefs_zap: 0,
        ..head.phys.clone()
    };
    let mut bonus = vec![0; DslDataset::SIZE_BYTES];
    snapshot.write(&mut bonus, Endian::Little)?;
    let id = cx.create_object(ObjectType::DSL_DATASET, 512, (ObjectType::DSL_DATASET, bonus))?.id();
    for (feature, value) in feature::of_dataset(cx, head.id)? {
        feature::activate_with(cx, id, feature, &value)?;
    }
    follow(cx, &head.phys, head.id, id)?;

    let reserved = props::own_number(cx, node.dir, "refreservation")?;
    let uncovered = reserved.min(head.phys.unique_bytes);
    space::did_use(cx, node.dir, Part::Refreservation, Delta::used(uncovered as i64))?;

    let before = head.phys.prev_snap_txg.0;
    let list = deadlist::create_like(cx, head.phys.deadlist, u64::MAX, head.phys.prev_snap)?;
    deadlist::add_key(cx, list, before)?;
    for txg in bookmark::txgs_after(cx, head.id, before)? {
        deadlist::add_key(cx, list, txg)?;
    }
    // Raw streams use this to distinguish the IVs of one snapshot from those of another.
    let is_encrypted = cx.field_u64(node.dir, FIELD_CRYPTO_KEY_OBJ)?.is_some_and(|key| key != 0);
    if is_encrypted && cx.is_enabled(feature::BOOKMARK_V2) {
        cx.set_field(id, FIELD_IVSET_GUID, &ZapValue::one(tree::unique_fsid()))?;
    }
    super::remaps::taken(cx, head.id, id)?;
    head.phys.deadlist = list;
    head.phys.prev_snap = id;
    head.phys.prev_snap_txg = snapshot.creation_txg;
    head.phys.unique_bytes = 0;
    head.phys.flags |= deadlist::unique_accurate(cx);
    cx.put_dataset(&head)?;
    cx.zap(head.phys.snapnames_zap)?.insert(cx.tx(), short.as_bytes(), &ZapValue::one(id))?;
    cx.sync.scan_snapshotted(head.id, id)?;
    if !is_origin {
        changed(cx, node.dir)?;
        cx.history("snapshot", &node.name, id, " ")?;
    }
    Ok(id)
}

/// In the state before the head, replaces the head with `id` as the next state.
fn follow(cx: &Cx<'_>, head: &DslDataset, head_id: u64, id: u64) -> Result<()> {
    if head.prev_snap == 0 {
        return Ok(());
    }
    let before = cx.dataset(head.prev_snap)?.phys;
    if before.next_snap == head_id {
        cx.change_dataset(head.prev_snap, |before| before.next_snap = id)
    } else if before.next_clones_zap != 0 {
        tree::remove_int(cx, before.next_clones_zap, head_id)?;
        tree::add_int(cx, before.next_clones_zap, id)
    } else {
        Ok(())
    }
}

/// Sets the time at which the snapshots of directory `dir` last changed to now.
pub(crate) fn changed(cx: &Cx<'_>, dir: u64) -> Result<()> {
    if !cx.is_enabled("com.delphix:extensible_dataset") {
        return Ok(());
    }
    let (seconds, nanoseconds) = host::clock::now();
    let ints = vec![seconds, nanoseconds.into()];
    cx.set_field(dir, FIELD_SNAPSHOTS_CHANGED, &ZapValue { int_bytes: 8, ints })
}
