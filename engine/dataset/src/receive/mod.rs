//! Receiving: a stream becomes a snapshot.
//!
//! ```text
//!  begin (one task)                   records (many txgs)                      end (one task)
//!  new dataset, clone, or hidden ──>  checked reader ─> batches ─> live set ──> snapshot with the stream's guid and time;
//!  clone %recv of the snapshot                                                  %recv swapped with the head and destroyed
//!  built on; INCONSISTENT
//! ```
//! Below: `stream` (records and sums), `write` (tasks), `live` (transactions). Above: `zfs receive`. Facts: module/zfs/dmu_recv.c.
//! The rules are in docs/design/receive.md.
//!
//! Invariants:
//!   * nothing of a record is used before a later sum has covered it
//!   * until the end task the target is what it was; what was made for the stream is INCONSISTENT, and is destroyed when the stream
//!     breaks off

mod apply;
mod begin;
mod checked;
mod end;
mod heal;
mod sealed;
mod state;
mod turned;

pub use checked::{Checked, Covered};
pub use heal::{Healed, heal};
pub(crate) use sealed::SealedStream;
pub(crate) use state::put as put_state;

use crate::live::{LiveDatasets, OwnersOf, ReceivedTo};
use crate::{Datasets, Error, ListOptions, Place, Result, write};
use apply::Applier;
use ondisk::dsl_dataset::FIELD_RESUME_TOGUID;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Begin, Body, Features};
use ondisk::{DslDataset, Endian, ObjsetKind};
use std::io::Read;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Name of the hidden clone, below its dataset, that a stream into a dataset that is there is received into.
pub const CLONE: &str = "%recv";
/// `drr_flags` of BEGIN: it builds on a snapshot of another dataset; names ignore case; OBJECT says whether there is a spill block.
const FLAG_CLONE: u32 = 1;
const FLAG_CI_DATA: u32 = 2;
const FLAG_FREE_RECORDS: u32 = 4;
const FLAG_SPILL_BLOCK: u32 = 8;
/// What is left out of a redacted stream, in BEGIN's list.
const REDACT_SNAPS: &str = "redact_snaps";
/// Payloads of one transaction.
const BATCH_BYTES: u64 = 1 << 20;
/// Records of one transaction.
const BATCH_RECORDS: usize = 512;
/// What a record takes at least, in dnodes and pointers.
const RECORD_COST_BYTES: u64 = 1 << 10;

/// Where a stream goes to.
pub struct Target<'a> {
    /// File system or volume, in full.
    pub dataset: String,
    /// Name of the snapshot, without the `@`.
    pub snapshot: String,
    /// `-F`: what was changed since the snapshot built on is given up; a full stream replaces what is there.
    pub force: bool,
    /// `-s`: what came stays when the stream breaks off, so that it can go on.
    pub resumable: bool,
    /// The properties of encryption that a new dataset is made with; none: it is encrypted as what is above it is. Raw streams bring their own.
    pub encryption: Vec<(String, String)>,
    /// The key, when it is to be an encryption root (property `keyformat`).
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// `-o origin=`: the snapshot that the dataset is to be a clone of.
    pub origin: Option<String>,
    /// Tells who owns an object of a file system.
    pub owners_of: OwnersOf,
    /// Called once what the stream is received into is there, before the first record: sets properties by which it is written.
    pub started: &'a dyn Fn() -> Result<()>,
    /// Lets go of the files of the dataset that is about to be replaced; it may not be open after that.
    pub let_go: &'a dyn Fn() -> Result<()>,
}

/// What a stream is, as its BEGIN says.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub begin: Begin,
    pub kind: ObjsetKind,
    /// What follows BEGIN.
    pub list: Nvlist,
    /// Order of its writer.
    pub endian: Endian,
    /// Of a redacted stream: guids of the snapshots whose blocks were left out.
    pub redacted: Option<Vec<u64>>,
    /// Of a raw stream: what it says of the dataset as a whole.
    pub sealed: Option<Arc<SealedStream>>,
}

impl Incoming {
    /// Takes the first record; what this version cannot receive is refused by name.
    fn new(first: &Covered, endian: Option<Endian>) -> Result<Self> {
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
            // As OpenZFS says it.
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
            true => Some(Arc::new(sealed::parse(&list, begin.features, begin.flags & FLAG_SPILL_BLOCK != 0)?)),
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

/// Where records go while they come in.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// Name of what was made for the stream.
    pub name: String,
    /// Its head.
    pub head: u64,
}

/// The snapshot of that guid, anywhere in the pool.
pub fn find_snapshot(tree: &Arc<Datasets>, guid: u64) -> Result<Option<String>> {
    let all = ListOptions { snapshots: true, ..ListOptions::all() };
    let found = tree.list(&[], &all)?.entries.into_iter().filter_map(|entry| entry.dataset().cloned());
    Ok(found.filter(|d| d.is_snapshot()).find(|d| d.phys().guid == guid).map(|d| d.name().to_owned()))
}

/// Receives one stream whose BEGIN is `first`, up to its END, as `target` says. Returns the bytes that were read of it.
///
/// When it fails, what was made for it is destroyed, unless it is to be resumed.
pub fn receive<R: Read>(
    live: &LiveDatasets,
    stream: &mut Checked<R>,
    first: &Covered,
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

/// Destroys what a receive into `dataset` left that was not to be resumed, when its process ended in the middle of it. OpenZFS does so at import.
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

/// Reads a stream to its END and checks it, for whoever wants nothing of it but to be behind it. Returns the bytes read.
pub fn skip<R: Read>(stream: &mut Checked<R>) -> Result<u64> {
    let start = stream.offset();
    while let Some(packet) = stream.next_record()? {
        if matches!(packet.record.body, Body::End { .. }) {
            break;
        }
    }
    Ok(stream.offset() - start)
}

/// Brings the records to the dataset at `spot`; `before`: bytes that came before the stream broke off.
fn feed<R: Read>(
    live: &LiveDatasets,
    stream: &mut Checked<R>,
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
                // What came before is covered, and need not come again.
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
