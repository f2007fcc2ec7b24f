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

pub use checked::{Checked, Covered};

use crate::live::{LiveDatasets, OwnersOf};
use crate::{Datasets, Error, ListOptions, Place, Result, write};
use apply::Applier;
use ondisk::send_record::{Begin, Body, Features};
use ondisk::{Endian, ObjsetKind};
use std::io::Read;
use std::sync::Arc;

/// Name of the hidden clone, below its dataset, that a stream into a dataset that is there is received into.
pub const CLONE: &str = "%recv";
/// `drr_flags` of BEGIN: it builds on a snapshot of another dataset; names ignore case; OBJECT says whether there is a spill block.
const FLAG_CLONE: u32 = 1;
const FLAG_CI_DATA: u32 = 2;
const FLAG_FREE_RECORDS: u32 = 4;
const FLAG_SPILL_BLOCK: u32 = 8;
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
    /// `-o origin=`: the snapshot that the dataset is to be a clone of.
    pub origin: Option<String>,
    /// Tells who owns an object of a file system.
    pub owners_of: OwnersOf,
    /// Lets go of the files of the dataset that is about to be replaced; it may not be open after that.
    pub let_go: &'a dyn Fn() -> Result<()>,
}

/// What a stream is, as its BEGIN says.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub begin: Begin,
    pub kind: ObjsetKind,
}

impl Incoming {
    /// Takes the first record; what this version cannot receive is refused by name.
    fn new(begin: &Begin, endian: Option<Endian>) -> Result<Self> {
        let unsupported = |what: &str| Err(Error::unsupported("", what));
        if endian == Some(Endian::Big) {
            return unsupported("receiving a stream that a big-endian host wrote");
        }
        let known = Features::SA_SPILL
            | Features::EMBED_DATA
            | Features::LZ4
            | Features::LARGE_BLOCKS
            | Features::COMPRESSED
            | Features::LARGE_DNODE
            | Features::ZSTD
            | Features::SWITCH_TO_LARGE_BLOCKS
            | Features::LONGNAME
            | Features::LARGE_MICROZAP;
        for (feature, what) in [
            (Features::RAW, "receiving of raw encrypted streams (zfs send -w)"),
            (Features::REDACTED, "receiving of redacted streams"),
            (Features::RESUMING, "receiving of resumed streams"),
            (Features::DEDUP | Features::DEDUP_PROPS, "receiving of deduplicated streams: zstream redup converts them"),
        ] {
            if begin.features.intersects(feature) {
                return unsupported(what);
            }
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
        Ok(Self { begin: begin.clone(), kind })
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

/// Receives one stream whose BEGIN is `begin`, up to its END, as `target` says. Returns the bytes that were read of it.
///
/// When it fails, what was made for it is destroyed.
pub fn receive<R: Read>(
    live: &LiveDatasets,
    stream: &mut Checked<R>,
    begin: &Begin,
    target: &Target<'_>,
) -> Result<u64> {
    let incoming = Incoming::new(begin, stream.endian())?;
    let place = begin::begin(live, &incoming, target)?;
    let result = feed(live, stream, &incoming, &place, target);
    let result = result.and_then(|bytes| end::end(live, &incoming, &place, target).map(|()| bytes));
    if result.is_err()
        && let Err(error) = write::destroy(live, &place.name)
    {
        tracing::warn!(dataset = place.name, %error, "what was received in part stays");
    }
    result
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

/// Brings the records to the dataset at `place`.
fn feed<R: Read>(
    live: &LiveDatasets,
    stream: &mut Checked<R>,
    incoming: &Incoming,
    place: &Spot,
    target: &Target<'_>,
) -> Result<u64> {
    let owners_of = (incoming.kind == ObjsetKind::FileSystem).then_some(target.owners_of);
    let dataset = live.open_receiving(place.head, owners_of)?;
    let start = stream.offset();
    let fed = (|| {
        let mut applier = Applier::new(dataset.objset().clone(), incoming);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let packet = stream.next_record()?;
            let is_end = matches!(&packet, Some(Covered { record, .. }) if matches!(record.body, Body::End { .. }));
            if let (Some(packet), false) = (packet, is_end) {
                bytes += packet.payload.len() as u64 + RECORD_COST_BYTES;
                batch.push(packet);
                if bytes < BATCH_BYTES && batch.len() < BATCH_RECORDS {
                    continue;
                }
            }
            if !batch.is_empty() {
                let frees = batch.iter().all(|packet| packet.payload.is_empty());
                let tx = if frees { dataset.begin_freeing(bytes)? } else { dataset.begin(bytes)? };
                for packet in batch.drain(..) {
                    let place = packet.place();
                    applier.apply(&tx, packet).at(&place)?;
                }
                bytes = 0;
            }
            if is_end {
                return Ok(());
            }
        }
    })();
    let closed = live.close(&dataset);
    fed.and(closed).map(|()| stream.offset() - start)
}
