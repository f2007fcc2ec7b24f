//! The sync task at the start of a stream. It creates the dataset to receive into, either empty or
//! as a clone of the base snapshot.
//!
//! | stream                        | is received into                                 |
//! |-------------------------------|--------------------------------------------------|
//! | full, no dataset exists       | a new dataset                                    |
//! | full over a dataset (`-F`)    | `DATASET/%recv`, empty                           |
//! | incremental                   | `DATASET/%recv`, a clone of the base snapshot    |
//! | clone, or with an origin      | a new dataset, a clone of that snapshot          |
//!
//! Facts: `dmu_recv_begin_check`, `dmu_recv_begin_sync` in module/zfs/dmu_recv.c,
//! `dsl_dataset_modified_since_snap` in dsl_dataset.c, and for messages `zfs_receive_one` in
//! lib/libzfs/libzfs_sendrecv.c.

use super::incoming::{FLAG_CI_DATA, FLAG_CLONE, FLAG_FREE_RECORDS, Incoming};
use super::raw::RawStream;
use super::state;
use super::target::{Spot, Target};
use crate::delegation::Credentials;
use crate::live::{LiveDatasets, OwnersOf};
use crate::name::RECEIVE_CLONE;
use crate::write::contents::{self, NewContents};
use crate::write::cx::Cx;
use crate::write::keys::Derived;
use crate::write::limits::Counted;
use crate::write::tree::{self, Node};
use crate::write::{clone, create, deadlist, feature, keys, limit_check, limits};
use crate::{Datasets, KeyStore, ListOptions};
use block::Bookmark;
use errors::{Error, Refusal, Result};
use ondisk::dsl_dataset::{FIELD_IVSET_GUID, FIELD_REDACTED_DATASETS};
use ondisk::dsl_dir::FIELD_LIVELIST;
use ondisk::send_record::Features;
use ondisk::zap::Value as ZapValue;
use ondisk::{Dnode, DslDataset, Objset, ObjsetKind};
use std::sync::Arc;

/// Stream features that require the corresponding pool feature to be enabled.
const NEEDED: [(Features, &str); 8] = [
    (Features::REDACTED, FIELD_REDACTED_DATASETS),
    (Features::RAW, feature::ENCRYPTION),
    (Features::LARGE_BLOCKS, feature::LARGE_BLOCKS),
    (Features::LARGE_DNODE, feature::LARGE_DNODE),
    (Features::ZSTD, feature::ZSTD),
    (Features::LZ4, "org.illumos:lz4_compress"),
    (Features::LARGE_MICROZAP, LARGE_MICROZAP),
    (Features::LONGNAME, LONGNAME),
];
const LARGE_MICROZAP: &str = "com.klarasystems:large_microzap";
const LONGNAME: &str = "org.zfsonlinux:longname";

/// Finds the snapshot with this guid anywhere in the pool.
pub fn find_snapshot(tree: &Arc<Datasets>, guid: u64) -> Result<Option<String>> {
    let all = ListOptions { snapshots: true, ..ListOptions::all() };
    let found = tree.list(&[], &all)?.entries.into_iter().filter_map(|entry| entry.dataset().cloned());
    Ok(found.filter(|d| d.is_snapshot()).find(|d| d.phys().guid == guid).map(|d| d.name().to_owned()))
}

/// The parts of the target that the task needs.
struct Wanted {
    dataset: String,
    snapshot: String,
    force: bool,
    resumable: bool,
    encryption: Vec<(String, String)>,
    key: Option<Arc<Derived>>,
    origin: Option<String>,
    user: Option<Credentials>,
    owners_of: OwnersOf,
}

/// Creates the dataset that the stream is received into.
pub(super) fn begin(live: &LiveDatasets, incoming: &Incoming, target: &Target<'_>) -> Result<Spot> {
    tree::check_new_tail(&format!("{}@{}", target.dataset, target.snapshot))?;
    let origin = match (&target.origin, incoming.has_flag(FLAG_CLONE)) {
        (Some(origin), _) => Some(origin.clone()),
        (None, true) => {
            let missing = || {
                let what = format!("local origin for clone {}@{} does not exist", target.dataset, target.snapshot);
                Error::invalid(&*target.dataset, what)
            };
            Some(find_snapshot(&live.synced()?, incoming.begin.from_guid)?.ok_or_else(missing)?)
        }
        (None, false) => None,
    };
    let user = target.user.as_ref();
    let key = Derived::of_new(&target.dataset, &target.encryption, target.key.as_ref(), user)?;
    let wanted = Wanted {
        dataset: target.dataset.clone(),
        snapshot: target.snapshot.clone(),
        force: target.force,
        resumable: target.resumable,
        encryption: target.encryption.clone(),
        key,
        origin,
        user: target.user.clone(),
        owners_of: target.owners_of,
    };
    let ((keys, _), incoming) = (live.parts(), incoming.clone());
    loop {
        let (keys, incoming) = (keys.clone(), incoming.clone());
        let wanted = Wanted {
            dataset: wanted.dataset.clone(),
            snapshot: wanted.snapshot.clone(),
            origin: wanted.origin.clone(),
            encryption: wanted.encryption.clone(),
            key: wanted.key.clone(),
            user: wanted.user.clone(),
            ..wanted
        };
        let spot = live
            .writer()
            .task(move |sync| begin_in(&Cx::on_behalf(sync, wanted.user.as_ref()), &keys, &incoming, &wanted))?;
        if let Some(spot) = spot {
            live.refresh()?;
            return Ok(spot);
        }
    }
}

/// Returns `None` if the base snapshot was created in this txg: the caller has to wait for the
/// next.
fn begin_in(cx: &Cx<'_>, store: &KeyStore, incoming: &Incoming, wanted: &Wanted) -> Result<Option<Spot>> {
    let has = incoming.begin.features;
    for (bit, guid) in NEEDED {
        if has.contains(bit) && !cx.is_enabled(guid) {
            return Err(Error::invalid(&*wanted.dataset, "pool must be upgraded to receive this stream."));
        }
    }
    match tree::find_dir(cx, &wanted.dataset)? {
        Some(_) => below(cx, incoming, wanted),
        None => beside(cx, store, incoming, wanted),
    }
}

/// Begins a receive that creates the dataset. `None`: see [`begin_in`].
fn beside(cx: &Cx<'_>, store: &KeyStore, incoming: &Incoming, wanted: &Wanted) -> Result<Option<Spot>> {
    let name = &wanted.dataset;
    if incoming.begin.from_guid != 0 && wanted.origin.is_none() {
        return Err(Error::invalid(&**name, format!("destination '{name}' does not exist")));
    }
    let (parent, last) = tree::find_parent(cx, name)?;
    limit_check::check(cx, parent, Counted::FileSystems, 1, 0)?;
    limit_check::check(cx, parent, Counted::Snapshots, 1, 0)?;
    contents::settings(cx, parent, name)?;
    if let Some(origin) = &wanted.origin {
        if wanted.key.is_some() {
            // A clone uses the keys of its origin.
            return Err(Error::invalid(&**name, "a clone has the key of its origin, and cannot have another one"));
        }
        let from = tree::find(cx, origin)?;
        let id = from.snapshot.ok_or_else(|| Error::invalid(&**origin, "the origin of a clone is a snapshot"))?;
        let phys = cx.dataset(id)?.phys;
        match incoming.begin.from_guid {
            0 if !incoming.has_flag(FLAG_FREE_RECORDS) => {
                return Err(Error::invalid(
                    &**name,
                    "the stream contains no records of free ranges, and cannot become a clone",
                ));
            }
            guid if guid != 0 && guid != phys.guid => return Err(not_the_source(name)),
            _ => {}
        }
        if phys.creation_txg.0 >= cx.txg() {
            return Ok(None);
        }
        check_base(cx, incoming, name, id)?;
        if let Some(sealed) = &incoming.sealed {
            check_raw_base(cx, sealed, name, (from.dir, id))?;
        }
        return cx.sync.all_or_nothing(|| {
            let dir = tree::create_dir(cx, parent, last)?;
            let node = stand_on(cx, name, dir, id)?;
            if let Some(sealed) = &incoming.sealed {
                sealed.key.renew(cx, store, dir)?;
            }
            if cx.is_enabled(deadlist::LIVELIST) {
                let list = deadlist::create(cx)?;
                cx.set_field(dir, FIELD_LIVELIST, &ZapValue::one(list))?;
                cx.feature_increment(deadlist::LIVELIST)?;
            }
            started(cx, incoming, wanted, &node)
        });
    }
    if let Some(sealed) = &incoming.sealed {
        return cx.sync.all_or_nothing(|| {
            let dir = tree::create_dir(cx, parent, last)?;
            let head = tree::create_head(cx, dir, cx.origin_snapshot()?, flags(incoming))?;
            let node = Node { name: name.clone(), dir, head, snapshot: None };
            sealed.key.create(cx, &node)?;
            limits::start(cx, dir)?;
            contents::create_raw(cx, &node, incoming.kind, &sealed.set)?;
            started(cx, incoming, wanted, &node)
        });
    }
    let encryption = create::encryption(cx, name, &wanted.encryption, wanted.key.clone())?;
    let plan = keys::plan(cx, store, Some(parent), name, encryption)?;
    cx.sync.all_or_nothing(|| {
        let dir = tree::create_dir(cx, parent, last)?;
        let head = tree::create_head(cx, dir, cx.origin_snapshot()?, flags(incoming))?;
        let node = Node { name: name.clone(), dir, head, snapshot: None };
        let keys = keys::create(cx, store, &node, plan)?;
        if keys.is_some() && incoming.begin.features.contains(Features::EMBED_DATA) {
            let what = "incompatible embedded data stream feature with encrypted receive.";
            return Err(Error::invalid(&**name, what));
        }
        limits::start(cx, dir)?;
        contents::create(cx, &node, keys, &NewContents::Received(incoming.kind, wanted.owners_of))?;
        started(cx, incoming, wanted, &node)
    })
}

/// Creates a hidden clone below an existing dataset.
fn below(cx: &Cx<'_>, incoming: &Incoming, wanted: &Wanted) -> Result<Option<Spot>> {
    let name = &wanted.dataset;
    let node = tree::find(cx, name)?;
    limit_check::check(cx, node.dir, Counted::Snapshots, 1, 0)?;
    let (dir, head) = (cx.dir(node.dir)?.phys, cx.dataset(node.head)?.phys);
    let invalid = |what: String| Error::invalid(&**name, what);
    if wanted.origin.is_some() || (incoming.begin.from_guid == 0 && !wanted.force) {
        return Err(invalid(format!("destination '{name}' exists\nmust specify -F to overwrite it")));
    }
    if cx.zap(dir.children_zap)?.lookup(RECEIVE_CLONE)?.is_some() || head.has(DslDataset::FLAG_INCONSISTENT) {
        return Err(Refusal::Busy.at(&**name));
    }
    if tree::snapshot_of(cx, &head, &wanted.snapshot)?.is_some() {
        return Err(Refusal::Exists.at(format!("{name}@{}", wanted.snapshot)));
    }
    if tree::kind(cx, node.head, &head.bp)? != incoming.kind {
        return Err(Error::unsupported(
            &**name,
            "receiving a file system over a volume, or a volume over a file system",
        ));
    }
    if incoming.kind == ObjsetKind::Volume && cx.zap(dir.children_zap)?.count()? != 0 {
        return Err(invalid(format!("destination {name} has children\ncannot overwrite with a ZVOL")));
    }
    let has_key = keys::key_of(cx, node.dir)?.is_some();
    if incoming.is_raw() && !has_key && incoming.begin.from_guid != 0 {
        return Err(invalid("cannot perform raw receive on top of existing unencrypted dataset".to_owned()));
    }
    if has_key && incoming.begin.features.contains(Features::EMBED_DATA) {
        return Err(invalid("incompatible embedded data stream feature with encrypted receive.".to_owned()));
    }
    let base = match incoming.begin.from_guid {
        0 => {
            check_replaceable(cx, &node, &dir, &head)?;
            if has_key || incoming.is_raw() {
                let what = "zfs receive -F cannot be used to destroy an encrypted filesystem or overwrite an unencrypted \
                            one with an encrypted one";
                return Err(invalid(what.to_owned()));
            }
            None
        }
        guid => {
            let base = snapshot_with(cx, &node, &head, guid)?;
            // Snapshots in between have IVs that the sender does not know.
            if !wanted.force && (modified_since(cx, &node, base)? || (incoming.is_raw() && base != head.prev_snap)) {
                return Err(modified(name));
            }
            // Without force, later snapshots contain no changes of their own.
            let base = if wanted.force { base } else { head.prev_snap };
            if cx.dataset(base)?.phys.creation_txg.0 >= cx.txg() {
                return Ok(None);
            }
            check_base(cx, incoming, name, base)?;
            if let Some(sealed) = &incoming.sealed {
                check_raw_base(cx, sealed, name, (node.dir, base))?;
            }
            Some(base)
        }
    };
    let hidden = format!("{name}/{RECEIVE_CLONE}");
    cx.sync.all_or_nothing(|| {
        let dir = tree::create_dir(cx, node.dir, RECEIVE_CLONE)?;
        let clone = match base {
            Some(base) => stand_on(cx, &hidden, dir, base)?,
            None => {
                let head = tree::create_head(cx, dir, cx.origin_snapshot()?, flags(incoming))?;
                let clone = Node { name: hidden.clone(), dir, head, snapshot: None };
                limits::start(cx, dir)?;
                contents::create(cx, &clone, None, &NewContents::Received(incoming.kind, wanted.owners_of))?;
                clone
            }
        };
        started(cx, incoming, wanted, &clone)
    })
}

fn flags(incoming: &Incoming) -> u64 {
    if incoming.has_flag(FLAG_CI_DATA) { DslDataset::FLAG_CI_DATASET } else { 0 }
}

/// Creates a head with the contents of snapshot `base` and an empty intent log.
fn stand_on(cx: &Cx<'_>, name: &str, dir: u64, base: u64) -> Result<Node> {
    let head = clone::create_on(cx, dir, base)?;
    let node = Node { name: name.to_owned(), dir, head, snapshot: None };
    clone::zero_log(cx, &node)?;
    Ok(node)
}

/// Records everything that is needed until the end task.
fn started(cx: &Cx<'_>, incoming: &Incoming, wanted: &Wanted, node: &Node) -> Result<Option<Spot>> {
    cx.change_dataset(node.head, |phys| phys.flags |= DslDataset::FLAG_INCONSISTENT)?;
    // Also activates large blocks, whether the stream contains any or not: later streams without
    // them are rejected.
    for (bit, guid) in [
        (Features::LARGE_BLOCKS, feature::LARGE_BLOCKS),
        (Features::LARGE_MICROZAP, LARGE_MICROZAP),
        (Features::LONGNAME, LONGNAME),
    ] {
        if incoming.begin.features.contains(bit) {
            feature::activate(cx, node.head, guid)?;
        }
    }
    // What the base lacks says nothing about the new state.
    if cx.field(node.head, FIELD_REDACTED_DATASETS)?.is_some() {
        cx.unset_field(node.head, FIELD_REDACTED_DATASETS)?;
        cx.feature_decrement(FIELD_REDACTED_DATASETS)?;
    }
    if let Some(snapshots) = &incoming.redacted {
        let value = ZapValue { int_bytes: 8, ints: snapshots.clone() };
        feature::activate_with(cx, node.head, FIELD_REDACTED_DATASETS, &value)?;
    }
    if wanted.resumable {
        if !cx.is_enabled("com.delphix:extensible_dataset") {
            return Err(Error::invalid(&*node.name, "pool must be upgraded to receive this stream."));
        }
        state::begin(cx, node.head, incoming)?;
    }
    cx.history("receive", &node.name, node.head, " ")?;
    Ok(Some(Spot { name: node.name.clone(), head: node.head }))
}

fn not_the_source(name: &str) -> Error {
    Error::invalid(name, format!("most recent snapshot of {name} does not\nmatch incremental source"))
}

pub(super) fn modified(name: &str) -> Error {
    Error::invalid(name, format!("destination {name} has been modified\nsince most recent snapshot"))
}

/// Finds the snapshot with this guid among the snapshots of the head itself.
fn snapshot_with(cx: &Cx<'_>, node: &Node, head: &DslDataset, guid: u64) -> Result<u64> {
    let mut at = head.prev_snap;
    while at != 0 {
        let phys = cx.dataset(at)?.phys;
        if phys.dir != node.dir {
            break;
        }
        if phys.guid == guid {
            return Ok(at);
        }
        at = phys.prev_snap;
    }
    Err(not_the_source(&node.name))
}

/// Whether the head differs from its snapshot `since`. A different intent log header alone does not
/// count.
pub(super) fn modified_since(cx: &Cx<'_>, node: &Node, since: u64) -> Result<bool> {
    let (head, snapshot) = (cx.dataset(node.head)?.phys, cx.dataset(since)?.phys);
    if head.bp.logical_birth() <= snapshot.creation_txg {
        return Ok(false);
    }
    let dnodes = |id: u64, phys: &DslDataset| -> Result<Dnode> {
        let at = Bookmark { objset: id, object: 0, level: -1, blkid: 0 };
        let block = cx.mos().store().read_unopened(&phys.bp, &at)?;
        Ok(Objset::parse(&block.data, block.endian)?.meta_dnode)
    };
    let (now, then) = (dnodes(node.head, &head)?, dnodes(since, &snapshot)?);
    Ok(now.blkptrs != then.blkptrs || now.max_block_id != then.max_block_id)
}

/// Rejects replacing a dataset with a full stream if other objects depend on it.
fn check_replaceable(cx: &Cx<'_>, node: &Node, dir: &ondisk::DslDir, head: &DslDataset) -> Result<()> {
    let name = &node.name;
    let invalid = |what: String| Err(Error::invalid(&**name, what));
    if let Some(first) = cx.zap(head.snapnames_zap)?.entries()?.first() {
        let first = String::from_utf8_lossy(&first.name).into_owned();
        return invalid(format!("destination has snapshots (eg. {name}@{first})\nmust destroy them to overwrite it"));
    }
    if dir.origin != 0 && Some(dir.origin) != cx.origin_snapshot()? {
        return invalid(format!("destination '{name}' is a clone\nmust destroy it to overwrite it"));
    }
    Ok(())
}

/// Rejects raw streams that do not build on snapshot `base` of directory `dir`: their blocks would
/// be unreadable.
fn check_raw_base(cx: &Cx<'_>, sealed: &RawStream, name: &str, (dir, base): (u64, u64)) -> Result<()> {
    if keys::key_of(cx, dir)?.is_none() {
        return Err(Error::invalid(name, "cannot perform raw receive on top of existing unencrypted dataset"));
    }
    sealed.key.check(cx, dir, name)?;
    super::raw::check_ivset(name, sealed.from_ivset, cx.field_u64(base, FIELD_IVSET_GUID)?.unwrap_or(0))
}

/// Rejects streams that do not build on snapshot `base`, and bases that cannot be cloned.
fn check_base(cx: &Cx<'_>, incoming: &Incoming, name: &str, base: u64) -> Result<()> {
    let is_large = cx.field(base, feature::LARGE_BLOCKS)?.is_some();
    if is_large && !incoming.begin.features.contains(Features::LARGE_BLOCKS) {
        let what = "incremental send stream requires -L (--large-block), to match previous receive.";
        return Err(Error::invalid(name, what));
    }
    if let Some(without) = cx.field(base, FIELD_REDACTED_DATASETS)?
        && !incoming.fits_on_redacted(&without.ints)
    {
        return Err(Error::invalid(name, "invalid backup stream"));
    }
    Ok(())
}
