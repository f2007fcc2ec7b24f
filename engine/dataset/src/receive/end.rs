//! The sync task at the end of a stream. It turns the received data into a snapshot with the
//! stream's identity.
//!
//! Facts: `dmu_recv_end_check`, `dmu_recv_end_sync` in module/zfs/dmu_recv.c.

use super::incoming::Incoming;
use super::raw::RawStream;
use super::target::{Spot, Target};
use super::{begin, state};
use crate::KeyStore;
use crate::intent_log::ClosedLog;
use crate::live::{LiveDatasets, Open};
use crate::name::RECEIVE_CLONE;
use crate::write::cx::Cx;
use crate::write::limits::Counted;
use crate::write::tree::{self, Node};
use crate::write::{bookmark, destroy, limit_check, props, rollback, snapshot, unsnap};
use errors::{Error, Place, Refusal, Result};
use ondisk::DslDataset;
use ondisk::dsl_dataset::FIELD_IVSET_GUID;
use ondisk::send_record::Begin;
use ondisk::zap::Value as ZapValue;

/// Ends the receive into `spot`. Returns the head that has the new snapshot.
pub(super) fn end(live: &LiveDatasets, incoming: &Incoming, spot: &Spot, target: &Target<'_>) -> Result<u64> {
    let is_hidden = spot.name != target.dataset;
    if is_hidden {
        (target.let_go)()?;
    }
    let ((keys, open), begin, sealed) = (live.parts(), incoming.begin.clone(), incoming.sealed.clone());
    let (spot, dataset, short, force) = (spot.clone(), target.dataset.clone(), target.snapshot.clone(), target.force);
    let user = target.user.clone();
    let head = loop {
        let (keys, open, begin, sealed) = (keys.clone(), open.clone(), begin.clone(), sealed.clone());
        let (spot, dataset, short, user) = (spot.clone(), dataset.clone(), short.clone(), user.clone());
        let done = live.writer().task(move |sync| {
            let cx = Cx::on_behalf(sync, user.as_ref());
            let made = Node { name: spot.name.clone(), ..tree::find(&cx, &spot.name)? };
            let into = tree::find(&cx, &dataset)?;
            limit_check::check(&cx, into.dir, Counted::Snapshots, 1, 0)?;
            if made.head != spot.head {
                return Err(Error::not_found(&*spot.name, "what was received"));
            }
            // Two snapshots of one txg would be identical: the later one waits for the next txg.
            if cx.dataset(made.head)?.phys.prev_snap_txg.0 >= cx.txg() {
                return Ok(None);
            }
            let stream = (&begin, sealed.as_deref());
            let is_done = match is_hidden {
                false => sync.all_or_nothing(|| take(&cx, &made, &short, stream)).map(|()| true),
                true => replace(&cx, &keys, &open, &made, (&dataset, &short), force, stream),
            };
            is_done.map(|is_done| is_done.then_some(into.head))
        })?;
        if let Some(head) = done {
            break head;
        }
    };
    live.refresh()?;
    live.writer().sync()?;
    Ok(head)
}

/// The BEGIN of the stream and, if it is raw, its description of the dataset.
type Stream<'s> = (&'s Begin, Option<&'s RawStream>);

/// Creates snapshot `short` of `node`, with the stream's guid and creation time.
fn take(cx: &Cx<'_>, node: &Node, short: &str, (begin, sealed): Stream<'_>) -> Result<()> {
    cx.change_dataset(node.head, |phys| phys.flags &= !DslDataset::FLAG_INCONSISTENT)?;
    state::clear(cx, node.head)?;
    let named = Node { name: format!("{}@{short}", node.name), ..node.clone() };
    let id = snapshot::take(cx, &named, short, begin.creation_time)?;
    cx.change_dataset(id, |phys| phys.guid = begin.to_guid)?;
    if let Some(sealed) = sealed.filter(|sealed| sealed.ivset != 0) {
        cx.set_field(id, FIELD_IVSET_GUID, &ZapValue::one(sealed.ivset))?;
    }
    cx.history("finish receiving", &node.name, node.head, &format!("snap={short}"))
}

/// Swaps the contents of the head `name` and the hidden clone, then destroys the clone.
fn replace(
    cx: &Cx<'_>,
    store: &KeyStore,
    open: &Open,
    clone: &Node,
    (name, short): (&str, &str),
    force: bool,
    stream: Stream<'_>,
) -> Result<bool> {
    let node = tree::find(cx, name)?;
    let (head, hidden) = (cx.dataset(node.head)?.phys, cx.dataset(clone.head)?.phys);
    if tree::snapshot_of(cx, &head, short)?.is_some() {
        return Err(Refusal::Exists.at(format!("{name}@{short}")));
    }
    if open.get(node.head).is_some() || open.get(clone.head).is_some() {
        return Err(Refusal::Busy.at(name));
    }
    if head.prev_snap_txg.0 >= cx.txg() {
        return Ok(false);
    }
    let gone = newer(cx, &node, &head, hidden.prev_snap)?;
    if !force && (!gone.is_empty() || begin::modified_since(cx, &node, hidden.prev_snap)?) {
        return Err(begin::modified(name));
    }
    for id in &gone {
        let phys = cx.dataset(*id)?.phys;
        let place = || {
            format!("{name}@{}", String::from_utf8_lossy(&unsnap::stored_name(cx, node.head, *id).unwrap_or_default()))
        };
        if tree::hold_count(cx, &phys)? > 0 {
            return Err(Refusal::Busy.at(place()));
        }
        if phys.num_children > 1 {
            return Err(Refusal::Exists.at(place()));
        }
        unsnap::check_parts(cx, name, *id)?;
    }
    if bookmark::newest_txg(cx, node.head)? > hidden.prev_snap_txg.0 {
        return Err(Error::unsupported(name, "receiving into a dataset with a bookmark newer than its snapshots"));
    }
    let quota = props::own_number(cx, node.dir, "refquota")?;
    if quota != 0 && hidden.referenced_bytes > quota {
        return Err(Error::invalid(name, format!("destination {name} space quota exceeded.")));
    }
    // Freeing blocks cannot be undone: check first that the log's blocks can be found.
    ClosedLog::open(cx.mos().store(), &head.bp, node.head).at(name)?;
    if !open.release_head(node.head) {
        return Err(Refusal::Busy.at(name));
    }
    open.has_more_to_free();
    let last = name.rsplit('/').next().unwrap_or(name);
    cx.sync.all_or_nothing(|| {
        gone.iter().try_for_each(|id| unsnap::destroy_by_id(cx, *id))?;
        if let (_, Some(sealed)) = stream {
            sealed.key.renew(cx, store, node.dir)?;
        }
        rollback::swap(cx, clone, &node)?;
        cx.history("clone swap", &clone.name, clone.head, &format!("parent={last}"))?;
        take(cx, &node, short, stream)?;
        destroy::destroy_in(cx, store, clone)
    })?;
    debug_assert!(clone.name.ends_with(RECEIVE_CLONE));
    Ok(true)
}

/// The snapshots of `node` after snapshot `since`, newest first.
fn newer(cx: &Cx<'_>, node: &Node, head: &DslDataset, since: u64) -> Result<Vec<u64>> {
    let (mut found, mut at) = (Vec::new(), head.prev_snap);
    while at != since {
        let phys = if at == 0 { None } else { Some(cx.dataset(at)?.phys) };
        match phys {
            Some(phys) if phys.dir == node.dir => {
                found.push(at);
                at = phys.prev_snap;
            }
            _ => return Err(Error::invalid(&*node.name, "the base snapshot no longer exists")),
        }
    }
    Ok(found)
}
