//! Receiving: turns a stream into a snapshot.
//!
//! ```text
//!  begin (one task)           records (many txgs)                      end (one task)
//!  new dataset, clone, or ──> checked reader ─> batches ─> live set ──> snapshot with the
//!  hidden clone %recv of                                                stream's guid and time;
//!  the base snapshot;                                                   %recv swapped with the
//!  INCONSISTENT                                                         head and destroyed
//! ```
//! Below: `stream` (records and checksums), `write` (tasks), `live` (transactions). Above: `zfs
//! receive`. Facts: module/zfs/dmu_recv.c. The rules are in docs/design/receive.md.
//!
//! Invariants:
//!   * no part of a record is used before a later checksum has covered it
//!   * the target does not change until the end task; what was created for the stream is
//!     INCONSISTENT, and is destroyed if the stream is interrupted

mod apply;
mod begin;
mod byteswap;
mod end;
mod heal;
mod raw;
mod state;
mod verifying_reader;

pub use heal::{Healed, heal};
pub(crate) use raw::RawStream;
pub(crate) use state::put as put_state;
pub use verifying_reader::{VerifiedRecord, VerifyingReader};

use crate::live::{LiveDatasets, OwnersOf, ReceivedTo};
use crate::{Datasets, ListOptions, write};
use apply::Applier;
use errors::{Error, Place, Result};
use ondisk::dsl_dataset::FIELD_RESUME_TOGUID;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Begin, Body, Features};
use ondisk::{DslDataset, Endian, ObjsetKind};
use std::io::Read;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Name of the hidden clone, below its dataset, that receives a stream into an existing dataset.
pub const CLONE: &str = "%recv";
/// `drr_flags` of BEGIN: the base is a snapshot of another dataset; names are case-insensitive;
/// OBJECT says whether there is a spill block.
const FLAG_CLONE: u32 = 1;
const FLAG_CI_DATA: u32 = 2;
const FLAG_FREE_RECORDS: u32 = 4;
const FLAG_SPILL_BLOCK: u32 = 8;
/// The snapshots redacted from a stream, in BEGIN's list.
const REDACT_SNAPS: &str = "redact_snaps";
/// Payload bytes per transaction.
const BATCH_BYTES: u64 = 1 << 20;
/// Records per transaction.
const BATCH_RECORDS: usize = 512;
/// Minimum cost of a record, in dnodes and pointers.
const RECORD_COST_BYTES: u64 = 1 << 10;

/// The target of a receive.
pub struct Target<'a> {
    /// Full name of the file system or volume.
    pub dataset: String,
    /// Name of the snapshot, without the `@`.
    pub snapshot: String,
    /// `-F`: discards changes since the base snapshot; a full stream replaces an existing dataset.
    pub force: bool,
    /// `-s`: keeps received data if the stream is interrupted, so that the receive can be resumed.
    pub resumable: bool,
    /// Encryption properties for a new dataset; if empty, it inherits encryption from its parent.
    /// Raw streams bring their own.
    pub encryption: Vec<(String, String)>,
    /// The key, if the new dataset is to be an encryption root (property `keyformat`).
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// `-o origin=`: the snapshot that the new dataset is cloned from.
    pub origin: Option<String>,
    /// Returns the owner of an object of a file system.
    pub owners_of: OwnersOf,
    /// Called when the dataset to receive into exists, before the first record: sets properties
    /// that affect how it is written.
    pub started: &'a dyn Fn() -> Result<()>,
    /// Closes the files of the dataset that is about to be replaced; it must not be open
    /// afterwards.
    pub let_go: &'a dyn Fn() -> Result<()>,
}

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
    /// For a raw stream: its description of the dataset as a whole.
    pub sealed: Option<Arc<RawStream>>,
}

impl Incoming {
    /// Parses the first record. Rejects, by name, features that this version cannot receive.
    fn new(first: &VerifiedRecord, endian: Option<Endian>) -> Result<Self> {
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
            true => Some(words(REDACT_SNAPS).ok_or_else(|| apply::bad("a redacted stream that does not say of what"))?),
            false => None,
        };
        Ok(Self { redacted, begin: begin.clone(), kind, list, endian: endian.unwrap_or(Endian::Little), sealed })
    }

    fn has_flag(&self, flag: u32) -> bool {
        self.begin.flags & flag != 0
    }
}

/// The destination of records during a receive.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// Name of the dataset created for the stream.
    pub name: String,
    /// Object number of its head.
    pub head: u64,
}

/// Finds the snapshot with this guid anywhere in the pool.
pub fn find_snapshot(tree: &Arc<Datasets>, guid: u64) -> Result<Option<String>> {
    let all = ListOptions { snapshots: true, ..ListOptions::all() };
    let found = tree.list(&[], &all)?.entries.into_iter().filter_map(|entry| entry.dataset().cloned());
    Ok(found.filter(|d| d.is_snapshot()).find(|d| d.phys().guid == guid).map(|d| d.name().to_owned()))
}

/// Receives one stream whose BEGIN is `first`, up to its END, into `target`. Returns the number of
/// bytes read from it.
///
/// On failure, destroys what was created for the stream, unless the receive is resumable.
pub fn receive<R: Read>(
    live: &LiveDatasets,
    stream: &mut VerifyingReader<R>,
    first: &VerifiedRecord,
    target: &Target<'_>,
) -> Result<u64> {
    let incoming = Incoming::new(first, stream.endian())?;
    let resumes = incoming.begin.features.contains(Features::RESUMING);
    let (spot, before) = match resumes {
        true => state::resume(live, &incoming, target)?,
        false => {
            sweep(live, &target.dataset)?;
            (begin::begin(live, &incoming, target)?, 0)
        }
    };
    let result = (target.started)().and_then(|()| feed(live, stream, &incoming, &spot, before, target));
    let result = result.and_then(|bytes| end::end(live, &incoming, &spot, target).map(|()| bytes));
    if result.is_err()
        && !target.resumable
        && !resumes
        && let Err(error) = write::destroy(live, &spot.name)
    {
        tracing::warn!(dataset = spot.name, %error, "what was received in part stays");
    }
    result
}

/// Destroys what remains of a non-resumable receive into `dataset` whose process ended before the
/// stream did. OpenZFS does this at import.
fn sweep(live: &LiveDatasets, dataset: &str) -> Result<()> {
    let tree = live.synced()?;
    for name in [format!("{dataset}/{CLONE}"), dataset.to_owned()] {
        let Ok(left) = tree.dataset(&name) else { continue };
        let is_left = left.phys().has(DslDataset::FLAG_INCONSISTENT) && left.field_u64(FIELD_RESUME_TOGUID)?.is_none();
        if is_left && live.parts().1.get(left.id()).is_none() {
            tracing::warn!(dataset = name, "left by a receive that did not end: destroyed");
            write::destroy(live, &name)?;
        }
    }
    Ok(())
}

/// Reads a stream to its END and verifies it, for a caller that only needs to get past it. Returns
/// the bytes read.
pub fn skip<R: Read>(stream: &mut VerifyingReader<R>) -> Result<u64> {
    let start = stream.offset();
    while let Some(packet) = stream.next_record()? {
        if matches!(packet.record.body, Body::End { .. }) {
            break;
        }
    }
    Ok(stream.offset() - start)
}

/// Applies the records to the dataset at `spot`; `before`: bytes received before the stream was
/// interrupted.
fn feed<R: Read>(
    live: &LiveDatasets,
    stream: &mut VerifyingReader<R>,
    incoming: &Incoming,
    spot: &Spot,
    before: u64,
    target: &Target<'_>,
) -> Result<u64> {
    let owners_of = (incoming.kind == ObjsetKind::FileSystem).then_some(target.owners_of);
    let sealed = incoming.sealed.as_ref().map(|sealed| &sealed.set);
    let dataset = live.open_receiving(spot.head, owners_of, sealed)?;
    let start = stream.offset();
    let keeps_state = target.resumable || incoming.begin.features.contains(Features::RESUMING);
    let fed = (|| {
        let embeds = live.writer().feature_enabled("embedded_data") && dataset.objset().keys().is_none();
        let mut applier = Applier::new(dataset.objset().clone(), incoming, embeds);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let (packet, broke) = match stream.next_record() {
                Ok(packet) => (packet, None),
                // Everything received so far is covered by a checksum and need not be sent again.
                Err(error) => (None, Some(error)),
            };
            let is_last = match &packet {
                Some(packet) => matches!(packet.record.body, Body::End { .. }),
                None => true,
            };
            if let (Some(packet), false) = (packet, is_last) {
                bytes += packet.payload.len() as u64 + RECORD_COST_BYTES;
                batch.push(packet);
                if bytes < BATCH_BYTES && batch.len() < BATCH_RECORDS {
                    continue;
                }
            }
            if !batch.is_empty() {
                let frees = batch.iter().all(|packet| packet.payload.is_empty());
                let tx = if frees { dataset.begin_freeing(bytes)? } else { dataset.begin(bytes)? };
                let mut last = None;
                for packet in batch.drain(..) {
                    let place = packet.place();
                    last = packet.written().map(|(object, offset)| (object, offset, packet.end())).or(last);
                    applier.apply(&tx, packet).at(&place)?;
                }
                if let (Some((object, offset, end)), true) = (last, keeps_state) {
                    dataset
                        .note_received(&tx, ReceivedTo { object, offset, bytes: before.saturating_add(end - start) });
                }
                bytes = 0;
            }
            match broke {
                Some(error) => return Err(error),
                None if is_last => return Ok(()),
                None => {}
            }
        }
    })();
    let closed = live.close(&dataset);
    fed.and(closed).map(|()| stream.offset() - start)
}
