//! The state of a resumable receive, stored in the dataset as named fields, as in OpenZFS.
//!
//! | field (`com.delphix:resume_…`)                   | meaning                                   |
//! |--------------------------------------------------|-------------------------------------------|
//! | `fromguid`, `toguid`, `toname`                   | the stream                                |
//! | `object`, `offset`                               | last block written: the rest starts here  |
//! | `bytes`                                          | bytes read so far                         |
//! | `largeblockok`, `embedok`, `compressok`, `rawok` | features of the stream, allowed in its    |
//! |                                                  | rest                                      |
//! | `redact_book_snaps`                              | what the base is redacted with respect to |
//!
//! Facts: `dmu_recv_begin_sync`, `dmu_recv_resume_begin_check`, `save_resume_state` in
//! module/zfs/dmu_recv.c.

use super::incoming::Incoming;
use super::target::{Spot, Target};
use crate::live::LiveDatasets;
use crate::name::RECEIVE_CLONE;
use crate::write::cx::Cx;
use crate::write::receive_progress::{ReceivedTo, put};
use crate::write::tree;
use errors::{Error, Refusal, Result};
use ondisk::DslDataset;
use ondisk::RedactionList;
use ondisk::dsl_dataset as field;
use ondisk::send_record::Features;
use ondisk::zap::Value as ZapValue;

const FIELDS: [&str; 11] = [
    field::FIELD_RESUME_FROMGUID,
    field::FIELD_RESUME_TOGUID,
    field::FIELD_RESUME_TONAME,
    field::FIELD_RESUME_OBJECT,
    field::FIELD_RESUME_OFFSET,
    field::FIELD_RESUME_BYTES,
    field::FIELD_RESUME_LARGEBLOCK,
    field::FIELD_RESUME_EMBEDOK,
    field::FIELD_RESUME_COMPRESSOK,
    field::FIELD_RESUME_RAWOK,
    field::FIELD_RESUME_REDACT_BOOKMARK_SNAPS,
];

/// Records the stream at its start.
pub(super) fn begin(cx: &Cx<'_>, head: u64, incoming: &Incoming) -> Result<()> {
    let begin = &incoming.begin;
    if begin.from_guid != 0 {
        cx.set_field(head, field::FIELD_RESUME_FROMGUID, &ZapValue::one(begin.from_guid))?;
    }
    cx.set_field(head, field::FIELD_RESUME_TOGUID, &ZapValue::one(begin.to_guid))?;
    let name = ZapValue { int_bytes: 1, ints: begin.to_name.iter().copied().chain([0]).map(u64::from).collect() };
    cx.set_field(head, field::FIELD_RESUME_TONAME, &name)?;
    put(cx, head, &ReceivedTo { object: 1, offset: 0, bytes: 0 })?;
    for (feature, name) in [
        (Features::LARGE_BLOCKS, field::FIELD_RESUME_LARGEBLOCK),
        (Features::EMBED_DATA, field::FIELD_RESUME_EMBEDOK),
        (Features::COMPRESSED, field::FIELD_RESUME_COMPRESSOK),
        (Features::RAW, field::FIELD_RESUME_RAWOK),
    ] {
        if begin.features.contains(feature) {
            cx.set_field(head, name, &ZapValue::one(1))?;
        }
    }
    if let Some(guids) = &incoming.redacted_base {
        let value = ZapValue { int_bytes: 8, ints: guids.clone() };
        cx.set_field(head, field::FIELD_RESUME_REDACT_BOOKMARK_SNAPS, &value)?;
    }
    Ok(())
}

/// Removes all resume state: the stream is complete.
pub(super) fn clear(cx: &Cx<'_>, head: u64) -> Result<()> {
    for name in FIELDS {
        if cx.field(head, name)?.is_some() {
            cx.unset_field(head, name)?;
        }
    }
    Ok(())
}

/// Finds where an interrupted stream resumes, and how many bytes were received before.
pub(super) fn resume(live: &LiveDatasets, incoming: &Incoming, target: &Target<'_>) -> Result<(Spot, u64)> {
    let (name, force) = (target.dataset.clone(), target.force);
    let ((_, open), incoming) = (live.parts(), incoming.clone());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let invalid = |what: &str| Err(Error::invalid(&*name, what));
        let hidden = format!("{name}/{RECEIVE_CLONE}");
        let (found, node) = match tree::find(&cx, &hidden) {
            Ok(node) => (&hidden, node),
            Err(Error::NotFound { .. }) => (&name, tree::find(&cx, &name)?),
            Err(e) => return Err(e),
        };
        let begin = &incoming.begin;
        if *found == hidden && begin.from_guid == 0 && !force {
            return invalid("Resuming recv on existing dataset without force");
        }
        let phys = cx.dataset(node.head)?.phys;
        let number = |name: &str| cx.field_u64(node.head, name);
        let same = number(field::FIELD_RESUME_TOGUID)? == Some(begin.to_guid)
            && number(field::FIELD_RESUME_FROMGUID)?.unwrap_or(0) == begin.from_guid;
        if !phys.has(DslDataset::FLAG_INCONSISTENT) || !same {
            return invalid("there is no interrupted receive of this stream");
        }
        let at = (number(field::FIELD_RESUME_OBJECT)?, number(field::FIELD_RESUME_OFFSET)?);
        if at != (incoming.list.get_u64("resume_object"), incoming.list.get_u64("resume_offset")) {
            return invalid("the stream does not continue where the receive was interrupted");
        }
        if let Some(redacted) = &incoming.redacted {
            let known = cx.field(node.head, field::FIELD_REDACTED_DATASETS)?;
            if known.is_none_or(|known| !RedactionList::empty(known.ints).has_snaps(redacted)) {
                return invalid("the stream is redacted with respect to other snapshots");
            }
        }
        if open.get(node.head).is_some() {
            return Err(Refusal::Busy.at(found.as_str()));
        }
        cx.history("resume receive", found, node.head, " ")?;
        Ok((Spot { name: found.clone(), head: node.head }, number(field::FIELD_RESUME_BYTES)?.unwrap_or(0)))
    })
}
