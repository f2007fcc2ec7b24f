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
mod apply_raw;
mod begin;
mod byteswap;
mod end;
mod heal;
mod incoming;
mod raw;
mod state;
mod target;
mod verifying_reader;

pub use crate::name::RECEIVE_CLONE as CLONE;
pub use begin::find_snapshot;
pub use heal::{Healed, heal};
pub use target::{Received, Target};
pub use verifying_reader::{VerifiedRecord, VerifyingReader};

use crate::live::LiveDatasets;
use crate::name::RECEIVE_CLONE;
use crate::write;
use crate::write::receive_progress::ReceivedTo;
use apply::Applier;
use errors::{Place, Result};
use incoming::Incoming;
use ondisk::dsl_dataset::FIELD_RESUME_TOGUID;
use ondisk::send_record::{Body, Features};
use ondisk::{DslDataset, ObjsetKind};
use std::io::Read;
use target::Spot;

/// Payload bytes per transaction.
const BATCH_BYTES: u64 = 1 << 20;
/// Records per transaction.
const BATCH_RECORDS: usize = 512;
/// Minimum cost of a record, in dnodes and pointers.
const RECORD_COST_BYTES: u64 = 1 << 10;

/// Receives one stream whose BEGIN is `first`, up to its END, into `target`.
///
/// On failure, destroys what was created for the stream, unless the receive is resumable.
pub fn receive<R: Read>(
    live: &LiveDatasets,
    stream: &mut VerifyingReader<R>,
    first: &VerifiedRecord,
    target: &Target<'_>,
) -> Result<Received> {
    let incoming = Incoming::new(first, stream.endian())?;
    let resumes = incoming.begin.features.contains(Features::RESUMING);
    let (spot, before) = match resumes {
        true => state::resume(live, &incoming, target)?,
        false => {
            sweep(live, &target.dataset)?;
            (begin::begin(live, &incoming, target)?, 0)
        }
    };
    let result = (target.started)(spot.head).and_then(|()| feed(live, stream, &incoming, &spot, before, target));
    let result = result.and_then(|bytes| end::end(live, &incoming, &spot, target).map(|head| Received { bytes, head }));
    if result.is_err()
        && !target.resumable
        && !resumes
        && let Err(error) = write::destroy(live, &spot.name)
    {
        tracing::warn!(dataset = spot.name, %error, "the partially received state is kept");
    }
    result
}

/// Destroys what remains of a non-resumable receive into `dataset` whose process ended before the
/// stream did. OpenZFS does this at import.
fn sweep(live: &LiveDatasets, dataset: &str) -> Result<()> {
    let tree = live.synced()?;
    for name in [format!("{dataset}/{RECEIVE_CLONE}"), dataset.to_owned()] {
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
