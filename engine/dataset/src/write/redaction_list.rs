//! The lists of redaction bookmarks: created and freed with the bookmark. `redaction` appends to
//! them.
//!
//! Facts: `dsl_bookmark_create_redacted_check`, `dsl_bookmark_create_sync_impl_snap`,
//! `dsl_redaction_list_hold_obj` in module/zfs/dsl_bookmark.c, `dmu_redact_snap`,
//! `redaction_list_update_sync` in dmu_redact.c.

use super::cx::Cx;
use errors::{Error, Result};
use ondisk::{Endian, ObjectType, RedactionList};

pub(super) const BOOKMARKS: &str = "com.delphix:redaction_bookmarks";
const SPILL: &str = "com.delphix:redaction_list_spill";
pub(super) const TYPE: ObjectType = ObjectType::OTN_UINT64_METADATA;
/// Block size of the list in bytes.
pub(super) const BLOCK_BYTES: u32 = 128 << 10;
/// Size of the largest spill block in bytes.
const SPILL_BYTES_MAX: usize = 128 << 10;

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
pub(super) fn snaps_max(cx: &Cx<'_>) -> usize {
    // Spill blocks are as large as system attributes may be. OpenZFS accepts larger ones.
    let bytes = if cx.is_enabled(SPILL) { SPILL_BYTES_MAX } else { RedactionList::BONUS_BYTES_MAX };
    (bytes - RedactionList::HEAD_BYTES) / 8
}
