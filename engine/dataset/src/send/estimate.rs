//! Estimates the length of a stream from the dataset's space counters, without reading data. Facts:
//! `dmu_send_estimate_fast` in module/zfs/dmu_send.c.

use super::{Base, Options};
use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::property;
use errors::Result;
use ondisk::send_record::RECORD_BYTES;
use ondisk::{DslBookmark, ObjsetKind, blkptr};

/// Estimates the size in bytes of a stream of `to` since `from`.
///
/// Returns [`errors::Error::Invalid`] for a bookmark from before bookmarks recorded what was freed
/// since; see [`needs_measuring`].
pub fn estimate(to: &Dataset, from: Option<&Base>, options: Options) -> Result<u64> {
    let (uncompressed, compressed) = match from {
        None => (to.phys().uncompressed_bytes, to.phys().compressed_bytes),
        Some(from) => {
            let space = match from {
                Base::Snapshot(old) => to.written_since(old)?,
                Base::Bookmark(mark) => to.written_since_bookmark(mark)?,
            };
            (space.uncompressed, space.compressed)
        }
    };
    let (name, default) = match to.contents()? {
        ObjsetKind::Volume => ("volblocksize", 16 << 10),
        _ => ("recordsize", 128 << 10),
    };
    // Assumes that all data is in blocks of that size: each has a pointer on disk, and a record in
    // the stream.
    let records = uncompressed / property::number(to, name)?.filter(|bytes| *bytes != 0).unwrap_or(default);
    let size = if options.compressed || options.raw { compressed } else { uncompressed };
    let (record, pointer) = (RECORD_BYTES as u64, blkptr::SIZE_BYTES as u64);
    let pointers = records.saturating_mul(pointer);
    Ok(size.saturating_sub(pointers).saturating_add(records.saturating_add(2).saturating_mul(record)))
}

/// Whether the counters do not suffice for an estimate: [`super::Outgoing::measure`] has to walk.
pub fn needs_measuring(from: Option<&Base>, redact: Option<&Bookmark>) -> bool {
    redact.is_some()
        || matches!(from, Some(Base::Bookmark(mark)) if mark.is_redaction()
            || mark.phys().flags & DslBookmark::FLAG_HAS_FBN == 0)
}
