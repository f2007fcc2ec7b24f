//! Bookmarks, written: created, destroyed, and kept correct when their snapshot is destroyed.
//!
//! A bookmark with freed counters counts the blocks of its state that were freed before the next
//! snapshot, so that `written` since the bookmark can be computed. If no snapshot with its txg
//! remains, the head's deadlist keeps a key for it.
//!
//! Facts: module/zfs/dsl_bookmark.c.

use super::cx::{Cx, Failures};
use super::tree::{self, Node};
use super::{deadlist, feature, redaction_list, request_log};
use crate::deadlist::add;
use crate::live::LiveDatasets;
use crate::name::{DatasetName, Tail};
use errors::{Error, Place, Refusal, Result};
use object::Zap;
use ondisk::dsl_dataset::{FIELD_BOOKMARKS, FIELD_IVSET_GUID, FIELD_REDACTED_DATASETS};
use ondisk::zap::NormFlags;
use ondisk::zap::Value as ZapValue;
use ondisk::{DslBookmark, DslDataset, ObjectType, RedactionList, SpaceTriple};
use pool::SpaceCheck;
use std::collections::BTreeSet;

const BOOKMARKS: &str = "com.delphix:bookmarks";
const WRITTEN: &str = "com.delphix:bookmark_written";

pub(crate) struct Mark {
    name: Vec<u8>,
    pub(super) phys: DslBookmark,
    /// Number of integers in its entry.
    words: usize,
}

impl Mark {
    /// Whether it counts freed blocks.
    fn counts(&self) -> bool {
        self.phys.flags & DslBookmark::FLAG_HAS_FBN != 0
    }
}

fn zap_of(cx: &Cx<'_>, head: u64) -> Result<Option<Zap>> {
    match cx.field_u64(head, FIELD_BOOKMARKS)?.filter(|zap| *zap != 0) {
        Some(zap) => cx.zap(zap).map(Some),
        None => Ok(None),
    }
}

fn all(cx: &Cx<'_>, head: u64) -> Result<Vec<Mark>> {
    let Some(zap) = zap_of(cx, head)? else { return Ok(Vec::new()) };
    let marks = zap.entries()?.into_iter().map(|entry| {
        let phys = DslBookmark::from_words(&entry.value.ints).at("bookmark")?;
        Ok(Mark { name: entry.name, phys, words: entry.value.ints.len() })
    });
    marks.collect()
}

fn put(cx: &Cx<'_>, head: u64, mark: &Mark) -> Result<()> {
    let ints = mark.phys.to_words()[..mark.words.min(DslBookmark::WORDS_V2)].to_vec();
    match zap_of(cx, head)? {
        Some(zap) => zap.update(cx.tx(), &mark.name, &ZapValue { int_bytes: 8, ints }),
        None => Ok(()),
    }
}

/// The txgs after `txg` that the head's deadlist must distinguish.
pub(crate) fn txgs_after(cx: &Cx<'_>, head: u64, txg: u64) -> Result<BTreeSet<u64>> {
    let marks = all(cx, head)?;
    Ok(marks.iter().filter(|m| m.counts()).map(|m| m.phys.creation_txg.0).filter(|at| *at > txg).collect())
}

/// The newest bookmark's txg; 0: there is none.
pub(crate) fn newest_txg(cx: &Cx<'_>, head: u64) -> Result<u64> {
    Ok(all(cx, head)?.iter().map(|m| m.phys.creation_txg.0).max().unwrap_or(0))
}

/// Snapshot `gone` of head `head` is about to be destroyed: bookmarks before it now extend to the
/// next state. Returns whether a bookmark of the snapshot itself needs the keys of its txg in
/// deadlists.
pub(crate) fn snapshot_destroyed(cx: &Cx<'_>, head: u64, gone: &DslDataset) -> Result<bool> {
    let mut stays = false;
    let next = cx.dataset(gone.next_snap)?.phys.deadlist;
    for mut mark in all(cx, head)? {
        let at = mark.phys.creation_txg;
        if !mark.counts() || at < gone.prev_snap_txg || at > gone.creation_txg {
            continue;
        }
        if at == gone.creation_txg {
            mark.phys.flags &= !DslBookmark::FLAG_SNAPSHOT_EXISTS;
            stays = true;
        } else {
            add(&mut mark.phys.freed_before_next_snap, deadlist::space_range(cx, next, 0, at.0)?);
        }
        put(cx, head, &mark)?;
    }
    Ok(stays)
}

/// A different state now follows `snapshot`: its bookmarks recount the blocks that this state has
/// freed.
pub(crate) fn next_changed(cx: &Cx<'_>, head: u64, snapshot: &DslDataset) -> Result<()> {
    let next = cx.dataset(snapshot.next_snap)?.phys.deadlist;
    for mut mark in all(cx, head)? {
        if mark.counts() && mark.phys.creation_txg == snapshot.creation_txg {
            mark.phys.freed_before_next_snap = deadlist::space(cx, next)?;
            put(cx, head, &mark)?;
        }
    }
    Ok(())
}

/// The bookmarks of head `from` up to `txg` to transfer to another head.
fn to_transfer(cx: &Cx<'_>, from: u64, txg: u64) -> Result<Vec<Mark>> {
    Ok(all(cx, from)?.into_iter().filter(|mark| mark.phys.creation_txg.0 <= txg).collect())
}

/// Returns an error if head `to`, named `name`, cannot take over the bookmarks of head `from` up to
/// `txg` because it has one of the same name.
pub(crate) fn check_transfer(cx: &Cx<'_>, name: &str, from: u64, to: u64, txg: u64) -> Result<()> {
    let head = cx.dataset(to)?.phys;
    for mark in to_transfer(cx, from, txg)? {
        let short = String::from_utf8_lossy(&mark.name).into_owned();
        if find(cx, to, &head, &short)?.is_some() {
            return Err(Refusal::Exists.at(format!("{name}#{short}")));
        }
    }
    Ok(())
}

/// Transfers the bookmarks of head `from` up to `txg` to head `to`.
pub(crate) fn transfer(cx: &Cx<'_>, from: u64, to: u64, txg: u64) -> Result<()> {
    for mark in to_transfer(cx, from, txg)? {
        if let Some(zap) = zap_of(cx, from)? {
            zap.remove(cx.tx(), &mark.name)?;
        }
        prepare(cx, to)?;
        put(cx, to, &mark)?;
    }
    Ok(())
}

/// Creates bookmarks, all of them or none: each pair is a snapshot or another bookmark, and the new
/// name.
pub fn bookmark(live: &LiveDatasets, pairs: &[(String, String)]) -> std::result::Result<(), Failures> {
    let pairs = pairs.to_vec();
    let task = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(cx.mos().store().name(), pairs.len() as u64, SpaceCheck::Normal)?;
        let (mut failures, mut found) = (Failures::new(), Vec::new());
        for (source, name) in &pairs {
            match check(&cx, source, name) {
                Ok(new) => found.push(new),
                Err(e) => failures.push((name.clone(), e)),
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        let all = || {
            found.iter().try_for_each(|new| new.make(&cx).map(drop))?;
            request_log::bookmark(&cx, &pairs)
        };
        sync.all_or_nothing(all).map(Ok)
    });
    task.map_err(|e| vec![(String::new(), e)])?
}

/// A bookmark ready to be created.
pub(super) struct New {
    node: Node,
    short: String,
    phys: DslBookmark,
    /// The snapshot; `None`: it is a copy of another bookmark.
    target: Option<u64>,
    /// The redaction list to create with it.
    pub(super) redaction: Option<RedactionList>,
}

impl New {
    /// Creates the bookmark. Returns the object of its redaction list; 0: it has none.
    pub(super) fn make(&self, cx: &Cx<'_>) -> Result<u64> {
        let redaction_obj = self.redaction.as_ref().map_or(Ok(0), |header| redaction_list::create(cx, header))?;
        insert(cx, self.node.head, &self.short, DslBookmark { redaction_obj, ..self.phys })?;
        let of = match self.target {
            Some(id) => format!("target_snap={id} redact_obj={redaction_obj}"),
            None => format!("source_guid={}", self.phys.guid),
        };
        let text = format!("name={} creation_txg={} {of}", self.short, self.phys.creation_txg.0);
        cx.history("bookmark", &self.node.name, self.node.head, &text)?;
        Ok(redaction_obj)
    }
}

pub(super) fn check(cx: &Cx<'_>, source: &str, name: &str) -> Result<New> {
    let parsed = tree::check_new_tail(name)?;
    let Tail::Bookmark(short) = parsed.tail else {
        return Err(Error::invalid(name, "a bookmark has '#' in its name"));
    };
    if !cx.is_enabled(BOOKMARKS) {
        return Err(Error::unsupported(name, "bookmarks in a pool without that feature"));
    }
    let node = tree::find(cx, parsed.dir)?;
    let head = cx.dataset(node.head)?.phys;
    if find(cx, node.head, &head, short)?.is_some() {
        return Err(Refusal::Exists.at(name));
    }
    let from = DatasetName::parse(source)?;
    let (phys, target, redaction) = match from.tail {
        Tail::Snapshot(_) => {
            let snapshot = tree::find(cx, source)?;
            let id = snapshot.snapshot.unwrap_or_default();
            let phys = cx.dataset(id)?.phys;
            check_before(cx, name, node.dir, (snapshot.dir, phys.creation_txg.0))?;
            // A bookmark of a redacted snapshot says what it is redacted with respect to.
            let redacted = cx.field(id, FIELD_REDACTED_DATASETS)?.map(|guids| RedactionList::empty(guids.ints));
            if redacted.is_some() {
                redaction_list::check(cx, name)?;
            }
            (of_snapshot(cx, id, &phys)?, Some(id), redacted)
        }
        Tail::Bookmark(from_short) => {
            let from_node = tree::find(cx, from.dir)?;
            let from_head = cx.dataset(from_node.head)?.phys;
            let missing = || Error::not_found(source, "the bookmark");
            let mark = find(cx, from_node.head, &from_head, from_short)?.ok_or_else(missing)?;
            check_before(cx, name, node.dir, (from_node.dir, mark.phys.creation_txg.0))?;
            // The list of redacted blocks belongs to one bookmark only.
            (DslBookmark { redaction_obj: 0, ..mark.phys }, None, None)
        }
        Tail::Head => return Err(Error::invalid(source, "a bookmark is created from a snapshot or bookmark")),
    };
    Ok(New { node, short: short.to_owned(), phys, target, redaction })
}

/// Rejects a bookmark of a state that is not earlier than the head of `dir`.
fn check_before(cx: &Cx<'_>, name: &str, dir: u64, (of, txg): (u64, u64)) -> Result<()> {
    let mut at = dir;
    while at != of {
        let origin = cx.dir(at)?.phys.origin;
        let not_before = || Error::invalid(name, "source is not an ancestor of the new bookmark's dataset");
        if origin == 0 {
            return Err(not_before());
        }
        let origin = cx.dataset(origin)?.phys;
        at = origin.dir;
        if txg > origin.creation_txg.0 {
            return Err(not_before());
        }
    }
    Ok(())
}

fn of_snapshot(cx: &Cx<'_>, id: u64, phys: &DslDataset) -> Result<DslBookmark> {
    let written = cx.is_enabled(WRITTEN);
    let next = cx.dataset(phys.next_snap)?.phys.deadlist;
    let ivset = if cx.is_enabled(feature::BOOKMARK_V2) { cx.field_u64(id, FIELD_IVSET_GUID)? } else { None };
    let none = SpaceTriple::default();
    let referenced = SpaceTriple {
        used: phys.referenced_bytes,
        compressed: phys.compressed_bytes,
        uncompressed: phys.uncompressed_bytes,
    };
    Ok(DslBookmark {
        guid: phys.guid,
        creation_txg: phys.creation_txg,
        creation_time: phys.creation_time,
        redaction_obj: 0,
        flags: if written { DslBookmark::FLAG_SNAPSHOT_EXISTS | DslBookmark::FLAG_HAS_FBN } else { 0 },
        referenced: if written { referenced } else { none },
        freed_before_next_snap: if written { deadlist::space(cx, next)? } else { none },
        ivset_guid: ivset.unwrap_or(0),
    })
}

/// Creates the ZAP for the bookmarks of head `head` if needed.
fn prepare(cx: &Cx<'_>, head: u64) -> Result<()> {
    if zap_of(cx, head)?.is_none() {
        let zap =
            cx.create_zap_with(ObjectType::OTN_ZAP_METADATA, NormFlags::TO_UPPER, ObjectType::NONE, Vec::new())?;
        cx.feature_increment(BOOKMARKS)?;
        cx.set_field(head, FIELD_BOOKMARKS, &ZapValue::one(zap))?;
    }
    Ok(())
}

fn insert(cx: &Cx<'_>, head: u64, short: &str, phys: DslBookmark) -> Result<()> {
    prepare(cx, head)?;
    let needs_v2 = phys.ivset_guid != 0 || phys.redaction_obj != 0 || phys.flags & DslBookmark::FLAG_HAS_FBN != 0;
    let is_v2 = needs_v2 && cx.is_enabled(feature::BOOKMARK_V2);
    if is_v2 {
        cx.feature_increment(feature::BOOKMARK_V2)?;
    }
    if phys.flags & DslBookmark::FLAG_HAS_FBN != 0 {
        cx.feature_increment(WRITTEN)?;
    }
    let words = if is_v2 { DslBookmark::WORDS_V2 } else { DslBookmark::WORDS_V1 };
    put(cx, head, &Mark { name: short.as_bytes().to_vec(), phys, words })
}

pub(super) fn find(cx: &Cx<'_>, head: u64, phys: &DslDataset, short: &str) -> Result<Option<Mark>> {
    let Some(zap) = zap_of(cx, head)? else { return Ok(None) };
    let Some((value, name)) = tree::lookup(&zap, phys, short)? else { return Ok(None) };
    let phys = DslBookmark::from_words(&value.ints).at(short)?;
    Ok(Some(Mark { name, phys, words: value.ints.len() }))
}

pub fn destroy_bookmark(live: &LiveDatasets, name: &str) -> Result<()> {
    let (name, (_, open)) = (name.to_owned(), live.parts());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(&name, 1, SpaceCheck::Reserved)?;
        let parsed = DatasetName::parse(&name)?;
        let missing = || Error::not_found(&*name, "the bookmark");
        let Tail::Bookmark(short) = parsed.tail else { return Err(missing()) };
        let node = tree::find(&cx, parsed.dir)?;
        let head = cx.dataset(node.head)?.phys;
        let mark = find(&cx, node.head, &head, short)?.ok_or_else(missing)?;
        if open.is_redacting(mark.phys.redaction_obj) {
            return Err(Refusal::Busy.at(&*name));
        }
        sync.all_or_nothing(|| {
            destroy_in(&cx, &node, &head, &mark)?;
            request_log::destroy_bookmark(&cx, &name)
        })
    })
}

fn destroy_in(cx: &Cx<'_>, node: &Node, head: &DslDataset, mark: &Mark) -> Result<()> {
    let at = mark.phys.creation_txg;
    release(cx, mark)?;
    let others = all(cx, node.head)?;
    let needed = others.iter().any(|m| m.name != mark.name && m.counts() && m.phys.creation_txg == at);
    // No other user needs blocks distinguished by its txg.
    if mark.counts() && at < head.prev_snap_txg && mark.phys.flags & DslBookmark::FLAG_SNAPSHOT_EXISTS == 0 && !needed {
        deadlist::remove_key(cx, head.deadlist, at.0)?;
        super::remaps::remove_clones_key(cx, node.dir, at.0)?;
    }
    if let Some(zap) = zap_of(cx, node.head)? {
        zap.remove(cx.tx(), &mark.name)?;
    }
    if others.len() == 1
        && let Some(zap) = cx.field_u64(node.head, FIELD_BOOKMARKS)?
    {
        cx.feature_decrement(BOOKMARKS)?;
        cx.free_object(zap)?;
        cx.unset_field(node.head, FIELD_BOOKMARKS)?;
    }
    let name = String::from_utf8_lossy(&mark.name);
    cx.history("remove bookmark", &node.name, node.head, &format!("name={name}"))
}

/// Destroys all bookmarks of head `head`, which is being destroyed.
pub(crate) fn destroy_all(cx: &Cx<'_>, head: u64) -> Result<()> {
    let Some(zap) = cx.field_u64(head, FIELD_BOOKMARKS)?.filter(|zap| *zap != 0) else { return Ok(()) };
    for mark in all(cx, head)? {
        release(cx, &mark)?;
    }
    cx.free_object(zap)?;
    cx.feature_decrement(BOOKMARKS)
}

/// Decrements the features that a bookmark uses, and frees its list of redacted blocks.
fn release(cx: &Cx<'_>, mark: &Mark) -> Result<()> {
    if mark.words > DslBookmark::WORDS_V1 && cx.is_active(feature::BOOKMARK_V2) {
        cx.feature_decrement(feature::BOOKMARK_V2)?;
    }
    if mark.phys.redaction_obj != 0 {
        redaction_list::free(cx, mark.phys.redaction_obj)?;
    }
    if mark.counts() {
        cx.feature_decrement(WRITTEN)?;
    }
    Ok(())
}
