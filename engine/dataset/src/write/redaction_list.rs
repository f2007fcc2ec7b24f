//! The lists of redaction bookmarks, written: created with the bookmark, appended to while the
//! redaction runs, freed with the bookmark.
//!
//! Facts: `dsl_bookmark_create_redacted_check`, `dsl_bookmark_create_sync_impl_snap`,
//! `dsl_redaction_list_hold_obj` in module/zfs/dsl_bookmark.c, `dmu_redact_snap`,
//! `redaction_list_update_sync` in dmu_redact.c.

use super::bookmark;
use super::cx::Cx;
use super::tree;
use crate::dataset::Dataset;
use crate::live::{LiveDatasets, Redacting};
use crate::redact::{NotRedacted, RedactedBlocks};
use errors::{Error, Place, Refusal, Result};
use object::Object;
use ondisk::{Endian, ObjectType, RedactBlock, RedactionList};
use pool::SpaceCheck;

const BOOKMARKS: &str = "com.delphix:redaction_bookmarks";
const SPILL: &str = "com.delphix:redaction_list_spill";
const TYPE: ObjectType = ObjectType::OTN_UINT64_METADATA;
/// Block size of the list in bytes.
const BLOCK_BYTES: u32 = 128 << 10;
/// Size of the largest spill block in bytes.
const SPILL_BYTES_MAX: usize = 128 << 10;
/// Longest name of a bookmark with its dataset, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Blocks that a new bookmark with a list may dirty, as OpenZFS counts them.
const CREATED_BLOCKS: u64 = 5;

/// A redaction list that is being made.
pub(crate) struct Started {
    list: u64,
    snaps: Vec<u64>,
    /// Where the redaction continues: everything before is in the list.
    pub from: (u64, u64),
    /// Keeps the bookmark from being destroyed.
    _redacting: Redacting,
}

/// Refuses redaction lists in pools that have not enabled them.
pub(super) fn check(cx: &Cx<'_>, name: &str) -> Result<()> {
    match cx.is_enabled(BOOKMARKS) {
        true => Ok(()),
        false => Err(Error::unsupported(name, "redaction bookmarks in a pool without that feature")),
    }
}

/// Creates a list with this header. Returns its object.
pub(super) fn create(cx: &Cx<'_>, header: &RedactionList) -> Result<u64> {
    let bytes = header.to_bytes(Endian::Little);
    let spills = bytes.len() > RedactionList::BONUS_BYTES_MAX;
    let bonus = if spills { Vec::new() } else { bytes.clone() };
    let object = cx.create_object(TYPE, BLOCK_BYTES, (TYPE, bonus))?;
    cx.feature_increment(BOOKMARKS)?;
    if spills {
        object.set_spill(cx.tx(), Some(bytes))?;
        cx.feature_increment(SPILL)?;
    }
    Ok(object.id())
}

/// Frees a list with its bookmark.
pub(super) fn free(cx: &Cx<'_>, list: u64) -> Result<()> {
    if cx.object(list)?.dnode().spill.is_some() {
        cx.feature_decrement(SPILL)?;
    }
    cx.free_object(list)?;
    cx.feature_decrement(BOOKMARKS)
}

/// Number of snapshots that a list can hold.
fn snaps_max(cx: &Cx<'_>) -> usize {
    // Spill blocks are as large as system attributes may be. OpenZFS accepts larger ones.
    let bytes = if cx.is_enabled(SPILL) { SPILL_BYTES_MAX } else { RedactionList::BONUS_BYTES_MAX };
    (bytes - RedactionList::HEAD_BYTES) / 8
}

/// Creates redaction bookmark `short` of snapshot `of` with respect to the snapshots with these
/// GUIDs, or finds the unfinished one.
pub(crate) fn start(
    live: &LiveDatasets,
    of: &Dataset,
    short: &str,
    guids: &[u64],
) -> std::result::Result<Started, NotRedacted> {
    let dataset = of.dir().name();
    let (source, name, snaps) = (of.name().to_owned(), format!("{dataset}#{short}"), guids.to_vec());
    if name.len() > NAME_BYTES_MAX {
        return Err(NotRedacted::NameTooLong);
    }
    let (dataset, short, (_, open)) = (dataset.to_owned(), short.to_owned(), live.parts());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(&name, CREATED_BLOCKS, SpaceCheck::Normal)?;
        let node = tree::find(&cx, &dataset)?;
        let head = cx.dataset(node.head)?.phys;
        let (list, from) = match bookmark::find(&cx, node.head, &head, &short)? {
            Some(mark) => match resume(&cx, mark.phys.redaction_obj, &snaps)? {
                Ok(from) => (mark.phys.redaction_obj, from),
                Err(why) => return Ok(Err(why)),
            },
            None => {
                if !cx.is_enabled(BOOKMARKS) {
                    return Ok(Err(NotRedacted::Disabled));
                }
                if snaps.len() > snaps_max(&cx) {
                    return Ok(Err(NotRedacted::TooMany));
                }
                let mut new = match bookmark::check(&cx, &source, &name) {
                    Err(Error::Invalid { .. }) => return Ok(Err(NotRedacted::NotDescendant)),
                    checked => checked?,
                };
                new.redaction = Some(RedactionList::new(snaps.clone()));
                (sync.all_or_nothing(|| new.make(&cx))?, (0, 0))
            }
        };
        let redacting = open.redacting(list).ok_or_else(|| Refusal::Busy.at(&*name))?;
        Ok(Ok(Started { list, snaps, from, _redacting: redacting }))
    })?
}

/// Where the unfinished redaction of `list` continues.
fn resume(cx: &Cx<'_>, list: u64, snaps: &[u64]) -> Result<std::result::Result<(u64, u64), NotRedacted>> {
    if list == 0 {
        return Ok(Err(NotRedacted::Exists));
    }
    let object = cx.object(list)?;
    let header = header_of(&object)?;
    if header.snaps.len() != snaps.len() || snaps.iter().any(|guid| !header.snaps.contains(guid)) {
        return Ok(Err(NotRedacted::OtherSnapshots));
    }
    if header.is_complete() {
        return Ok(Err(NotRedacted::Exists));
    }
    // The position in the header may lie after blocks that OpenZFS had not stored yet.
    let Some(last) = header.entries.checked_sub(1) else { return Ok(Ok((0, 0))) };
    let last = RedactedBlocks::new(object, header.entries, (0, 0)).entry(last)?;
    Ok(Ok((last.object, last.end())))
}

fn header_of(object: &Object) -> Result<RedactionList> {
    let header = match object.spill()? {
        Some(spill) => RedactionList::parse(&spill.data, spill.endian),
        None => RedactionList::parse(object.bonus(), object.endian()),
    };
    header.at_with(|| object.place())
}

/// Appends entries to the list; `position`: everything before it is then in the list.
pub(crate) fn append(
    live: &LiveDatasets,
    started: &Started,
    entries: Vec<RedactBlock>,
    position: (u64, u64),
) -> Result<()> {
    let (list, snaps) = (started.list, started.snaps.clone());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let bytes = (entries.len() * RedactBlock::SIZE_BYTES) as u64;
        sync.check_space(cx.mos().store().name(), 1 + bytes / u64::from(BLOCK_BYTES), SpaceCheck::Normal)?;
        // The dataset may have been destroyed with its bookmarks.
        let gone = || Error::not_found("", "the redaction bookmark");
        let object = match cx.object(list) {
            Err(Error::NotFound { .. }) => return Err(gone()),
            found => found?,
        };
        if object.dnode().object_type != TYPE {
            return Err(gone());
        }
        let mut header = header_of(&object)?;
        if header.is_complete() || header.snaps.len() != snaps.len() || snaps.iter().any(|s| !header.snaps.contains(s))
        {
            return Err(gone());
        }
        let offset = header.entries * RedactBlock::SIZE_BYTES as u64;
        if offset != 0 && object.block((offset - 1) / object.block_bytes())?.is_some_and(|b| b.endian == Endian::Big) {
            return Err(Error::unsupported("", "resuming a redaction that a big-endian host began"));
        }
        let data: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes(Endian::Little)).collect();
        header.entries += entries.len() as u64;
        (header.last_object, header.last_blkid) = position;
        sync.all_or_nothing(|| {
            if !data.is_empty() {
                object.write_at(cx.tx(), offset, &data)?;
            }
            match object.dnode_now().spill.is_some() {
                true => object.set_spill(cx.tx(), Some(header.to_bytes(Endian::Little))),
                false => object.set_bonus(cx.tx(), header.to_bytes(object.endian())),
            }
        })
    })
}
