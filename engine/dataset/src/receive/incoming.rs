//! A stream's BEGIN: what it brings, and whether this version can receive it.

use super::raw::{self, RawStream};
use super::verifying_reader::{VerifiedRecord, bad};
use errors::{Error, Place, Result};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Begin, Body, Features};
use ondisk::{Endian, ObjsetKind};
use std::sync::Arc;

/// `drr_flags` of BEGIN: the base is a snapshot of another dataset; names are case-insensitive;
/// OBJECT says whether there is a spill block.
pub(super) const FLAG_CLONE: u32 = 1;
pub(super) const FLAG_CI_DATA: u32 = 2;
pub(super) const FLAG_FREE_RECORDS: u32 = 4;
pub(super) const FLAG_SPILL_BLOCK: u32 = 8;
/// The snapshots redacted from a stream, in BEGIN's list.
const REDACT_SNAPS: &str = "redact_snaps";
/// The snapshots with respect to which the base of a stream is redacted, in BEGIN's list.
const REDACT_FROM_SNAPS: &str = "redact_from_snaps";

/// Describes a stream, from its BEGIN.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub begin: Begin,
    pub kind: ObjsetKind,
    /// The list in BEGIN's payload.
    pub list: Nvlist,
    /// Byte order of the sender.
    pub endian: Endian,
    /// For a redacted stream: guids of the snapshots whose blocks were left out.
    pub redacted: Option<Vec<u64>>,
    /// For a stream from a redaction bookmark or a redacted snapshot: guids of the snapshots with
    /// respect to which that is redacted.
    pub redacted_base: Option<Vec<u64>>,
    /// For a raw stream: its description of the dataset as a whole.
    pub sealed: Option<Arc<RawStream>>,
}

impl Incoming {
    /// Parses the first record. Rejects, by name, features that this version cannot receive.
    pub(super) fn new(first: &VerifiedRecord, endian: Option<Endian>) -> Result<Self> {
        let Body::Begin(begin) = &first.record.body else {
            return Err(Error::invalid("", "invalid stream (bad magic number)"));
        };
        if endian == Some(Endian::Big) && begin.features.contains(Features::RAW) {
            return Err(Error::unsupported("", "receiving a raw stream that a big-endian host wrote"));
        }
        let known = Features::SA_SPILL
            | Features::EMBED_DATA
            | Features::LZ4
            | Features::LARGE_BLOCKS
            | Features::COMPRESSED
            | Features::LARGE_DNODE
            | Features::RESUMING
            | Features::RAW
            | Features::REDACTED
            | Features::ZSTD
            | Features::SWITCH_TO_LARGE_BLOCKS
            | Features::LONGNAME
            | Features::LARGE_MICROZAP;
        if begin.features.intersects(Features::DEDUP | Features::DEDUP_PROPS) {
            // OpenZFS's message.
            let what = "stream has deprecated feature: dedup, try 'zstream redup [send in a file] | zfs recv [...]'";
            return Err(Error::invalid("", what));
        }
        if !known.contains(begin.features) {
            let what = format!("stream has unsupported feature, feature flags = {:x}", begin.features.bits());
            return Err(Error::invalid("", what));
        }
        let kind = match begin.objset_type {
            2 => ObjsetKind::FileSystem,
            3 => ObjsetKind::Volume,
            other => return Err(Error::invalid("", format!("invalid record type: {other:#x}"))),
        };
        let list = if first.payload.is_empty() { Nvlist::new() } else { Nvlist::parse(&first.payload).at("BEGIN")? };
        let sealed = match begin.features.contains(Features::RAW) {
            true => Some(Arc::new(raw::parse(&list, begin.features, begin.flags & FLAG_SPILL_BLOCK != 0)?)),
            false => None,
        };
        let words = |name: &str| match list.get(name) {
            Some(Value::Uint64Array(words)) => Some(words.clone()),
            _ => None,
        };
        let redacted = match begin.features.contains(Features::REDACTED) {
            true => Some(
                words(REDACT_SNAPS).ok_or_else(|| bad("a redacted stream without a list of redaction snapshots"))?,
            ),
            false => None,
        };
        let redacted_base = words(REDACT_FROM_SNAPS);
        let endian = endian.unwrap_or(Endian::Little);
        Ok(Self { redacted, redacted_base, begin: begin.clone(), kind, list, endian, sealed })
    }

    /// Whether the stream can be received on top of a state that lacks what the snapshots `without`
    /// have changed: it must bring all of that, or lack it itself. Facts: `redact_check` in
    /// module/zfs/dmu_recv.c.
    pub(super) fn fits_on_redacted(&self, without: &[u64]) -> bool {
        let are_among = |guids: &[u64]| guids.iter().all(|guid| without.contains(guid));
        match (&self.redacted_base, &self.redacted) {
            _ if self.begin.from_guid == 0 => true,
            (Some(base), _) => are_among(base),
            (None, Some(redacted)) => are_among(redacted),
            (None, None) => without.contains(&self.begin.to_guid),
        }
    }

    pub(super) fn has_flag(&self, flag: u32) -> bool {
        self.begin.flags & flag != 0
    }

    /// Whether the stream carries encrypted blocks in their on-disk form.
    pub(crate) fn is_raw(&self) -> bool {
        self.sealed.is_some()
    }
}
