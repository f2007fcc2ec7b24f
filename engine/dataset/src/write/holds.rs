//! Holds: tags that keep snapshots from being destroyed.
//!
//! Facts: module/zfs/dsl_userhold.c.

use super::cx::{Cx, Failures};
use super::tree::{self, Node};
use super::{request_log, unsnap};
use crate::live::LiveDatasets;
use errors::{Error, Refusal, Result};
use ondisk::zap::Value as ZapValue;
use ondisk::{DslDataset, ObjectType, version};
use pool::SpaceCheck;

/// Maximum bytes of a tag (`MAXNAMELEN`).
const TAG_MAX: usize = 256;

/// Holds the snapshots `names` with `tag`, all of them or none.
pub fn hold(live: &LiveDatasets, names: &[String], tag: &str) -> std::result::Result<(), Failures> {
    change(live, names, tag, (hold_check, SpaceCheck::Reserved, request_log::hold), |cx, node, id, tag| {
        let mut snapshot = cx.dataset(id)?;
        if snapshot.phys.userrefs_zap == 0 {
            snapshot.phys.userrefs_zap = cx.create_zap(ObjectType::USERREFS)?;
            cx.put_dataset(&snapshot)?;
        }
        cx.zap(snapshot.phys.userrefs_zap)?.insert(cx.tx(), tag.as_bytes(), &ZapValue::one(tree::now()))?;
        let refs = tree::hold_count(cx, &snapshot.phys)?;
        cx.history("hold", &node.name, id, &format!("tag={tag} temp=0 refs={refs}"))
    })
}

fn hold_check(cx: &Cx<'_>, name: &str, phys: &DslDataset, tag: &str) -> Result<()> {
    if cx.sync.version() < version::USER_HOLDS {
        return Err(Error::unsupported(name, tree::TOO_OLD));
    }
    if tag.len() > TAG_MAX {
        return Err(Refusal::NameTooLong.at(name));
    }
    match tree::holds_zap(cx, phys)? {
        Some(zap) if zap.lookup(tag)?.is_some() => Err(Refusal::Exists.at(name)),
        _ => Ok(()),
    }
}

/// Removes `tag` from the snapshots `names`, all of them or none. A snapshot marked for deferred
/// destruction is destroyed with its last hold.
pub fn release(live: &LiveDatasets, names: &[String], tag: &str) -> std::result::Result<(), Failures> {
    change(live, names, tag, (release_check, SpaceCheck::ExtraReserved, request_log::release), |cx, node, id, tag| {
        let phys = cx.dataset(id)?.phys;
        if let Some(zap) = tree::holds_zap(cx, &phys)? {
            zap.remove(cx.tx(), tag.as_bytes())?;
        }
        let refs = tree::hold_count(cx, &phys)?;
        cx.history("release", &node.name, id, &format!("tag={tag} refs={refs}"))?;
        if phys.has(DslDataset::FLAG_DEFER_DESTROY) && phys.num_children == 1 && refs == 0 {
            unsnap::destroy_in(cx, node, false)?;
        }
        Ok(())
    })
}

fn release_check(cx: &Cx<'_>, name: &str, phys: &DslDataset, tag: &str) -> Result<()> {
    let is_there = tree::holds_zap(cx, phys)?.map_or(Ok(None), |zap| zap.lookup(tag))?.is_some();
    if is_there { Ok(()) } else { Err(Error::not_found(name, "the tag")) }
}

type Check = fn(&Cx<'_>, &str, &DslDataset, &str) -> Result<()>;
type Log = fn(&Cx<'_>, &[String], &str) -> Result<()>;
type Apply = fn(&Cx<'_>, &Node, u64, &str) -> Result<()>;

fn change(
    live: &LiveDatasets,
    names: &[String],
    tag: &str,
    (check, space, log): (Check, SpaceCheck, Log),
    apply: Apply,
) -> std::result::Result<(), Failures> {
    let whole = |e: Error| vec![(String::new(), e)];
    let ((_, open), names, tag) = (live.parts(), names.to_vec(), tag.to_owned());
    let task = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(cx.mos().store().name(), names.len() as u64, space)?;
        let (mut failures, mut found) = (Failures::new(), Vec::new());
        for name in &names {
            let node = tree::find(&cx, name).and_then(|node| {
                let no_snapshot = || Error::invalid(&**name, "it is not a snapshot");
                let id = node.snapshot.ok_or_else(no_snapshot)?;
                check(&cx, name, &cx.dataset(id)?.phys, &tag)?;
                Ok((node, id))
            });
            match node {
                Ok(node) => found.push(node),
                Err(e) => failures.push((name.clone(), e)),
            }
        }
        if !failures.is_empty() {
            return Ok(Err(failures));
        }
        open.has_more_to_free();
        let all = || {
            found.iter().try_for_each(|(node, id)| apply(&cx, node, *id, &tag))?;
            log(&cx, &names, &tag)
        };
        sync.all_or_nothing(all).map(Ok)
    });
    task.map_err(whole)??;
    live.refresh().map_err(whole)
}
