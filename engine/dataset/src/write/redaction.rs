//! A redaction in progress: it creates its bookmark, or continues one that was interrupted, and
//! appends to the list.
//!
//! Facts: `dmu_redact_snap`, `redaction_list_update_sync` in module/zfs/dmu_redact.c.

use super::bookmark;
use super::cx::Cx;
use super::redaction_list::{BLOCK_BYTES, BOOKMARKS, TYPE, snaps_max};
use super::tree;
use crate::dataset::Dataset;
use crate::live::{LiveDatasets, Redacting};
use crate::redact::{NotRedacted, RedactedBlocks, header_of};
use errors::{Error, Place, Refusal, Result};
use ondisk::{Endian, RedactBlock, RedactionList};
use pool::SpaceCheck;

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
    let header = header_of(&object).at_with(|| object.place())?;
    if !header.has_snaps(snaps) {
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
        let mut header = header_of(&object).at_with(|| object.place())?;
        if header.is_complete() || !header.has_snaps(&snaps) {
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
