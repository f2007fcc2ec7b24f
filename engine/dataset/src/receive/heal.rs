//! `zfs receive -c`: repairs blocks of an existing snapshot that no device can return, using the
//! contents in a stream of the same snapshot.
//!
//! A block is rewritten in place, and only if the received data matches the checksum in its block
//! pointer. The snapshot does not change, and heads and clones that share the block are healed with
//! it. Facts: `receive_process_write_record`, `do_corrective_recv` in module/zfs/dmu_recv.c.
//! OpenZFS heals file data; this also heals spill blocks.

use super::apply::is_packed;
use super::incoming::Incoming;
use super::verifying_reader::{VerifiedRecord, VerifyingReader, bad};
use crate::live::LiveDatasets;
use block::Bookmark;
use block::{CryptParams, RawBlock};
use bytes::Bytes;
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::send_record::{Body, Crypt, Features};
use ondisk::{Compression, Endian};
use std::io::Read;
use std::sync::Arc;

/// Result of a healing receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Healed {
    /// Blocks of the stream that were checked on disk.
    pub looked_at: u64,
    /// Blocks that were rewritten and are readable again.
    pub healed: u64,
    /// Bytes read from the stream.
    pub stream_bytes: u64,
}

/// Heals snapshot `name` (`DATASET@SNAPSHOT`) from the stream whose BEGIN is `first`, up to its
/// END.
pub fn heal<R: Read>(
    live: &LiveDatasets,
    stream: &mut VerifyingReader<R>,
    first: &VerifiedRecord,
    name: &str,
) -> Result<Healed> {
    let incoming = Incoming::new(first, stream.endian())?;
    let start = stream.offset();
    // Keeps blocks that are freed meanwhile from being overwritten with their old contents.
    let kept = live.writer().allocator().keep_freed();
    let snapshot = live.synced()?.dataset(name)?;
    if snapshot.phys().guid != incoming.begin.to_guid {
        return Err(Error::invalid(name, "local snapshot doesn't match the snapshot\nin the provided stream"));
    }
    let is_encrypted = snapshot.crypto_object()?.is_some();
    let is_raw = incoming.is_raw();
    if is_encrypted && incoming.begin.features.contains(Features::EMBED_DATA) {
        return Err(bad("embedded blocks in a stream for an encrypted dataset"));
    }
    if is_encrypted && !is_raw && !live.keys().is_available(&snapshot)? {
        let what = "key must be loaded to do a non-raw corrective recv on an encrypted dataset.";
        return Err(Error::invalid(name, what));
    }
    if is_raw != is_encrypted && is_raw {
        return Err(other(name));
    }
    let set = match is_raw {
        true => snapshot.objset_without_keys()?,
        false => snapshot.objset(live.keys())?,
    };
    let mut done = Healed::default();
    while let Some(packet) = stream.next_record()? {
        let place = packet.place();
        let (bp, at, block) = match (&packet.record.body, packet.payload) {
            (Body::End { .. }, _) => break,
            (Body::Write(w), payload) => {
                let Some(object) = known(&set, w.object)? else { continue };
                let size = object.block_bytes();
                if w.logical_bytes != size || !w.offset.is_multiple_of(size) {
                    return Err(other(name));
                }
                let blkid = w.offset / size;
                let bp = object.block_pointer(0, blkid)?;
                (bp, (w.object, blkid), taken(&incoming, (w.compression, w.flags), w.logical_bytes, &w.crypt, payload)?)
            }
            (Body::Spill(s), payload) => {
                let Some(object) = known(&set, s.object)? else { continue };
                let compression = if s.compressed_bytes == 0 { 0 } else { s.compression };
                let Some(bp) = object.dnode().spill else { continue };
                (bp, (s.object, u64::MAX), taken(&incoming, (compression, s.flags), s.length, &s.crypt, payload)?)
            }
            _ => continue,
        };
        if bp.is_hole() || bp.is_embedded() || bp.is_redacted() {
            continue;
        }
        let at = Bookmark { objset: set.id(), object: at.0, level: 0, blkid: at.1 };
        done.looked_at += 1;
        match set.store().read_stored(&bp, &at) {
            Ok(_) => continue,
            Err(Error::Corrupt { .. }) => {}
            Err(e) => return Err(e),
        }
        if !kept.holds() {
            return Err(Error::invalid(name, "the pool is too full to keep space that is freed meanwhile"));
        }
        if block.lsize_bytes != bp.lsize_bytes() {
            return Err(other(name));
        }
        let keys = set.keys().map(Arc::as_ref);
        if !live.writer().store().heal(&bp, &at, &block, keys).at(&place)? {
            let what = "corrective receive was not able to reconstruct the data needed for healing.";
            return Err(Error::invalid(name, what));
        }
        tracing::info!(snapshot = name, %at, "a block was healed by a stream");
        done.healed += 1;
    }
    done.stream_bytes = stream.offset() - start;
    Ok(done)
}

fn known(set: &Arc<ObjectSet>, id: u64) -> Result<Option<object::Object>> {
    match set.object(id) {
        Ok(object) => Ok(Some(object)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

fn other(name: &str) -> Error {
    Error::invalid(name, "stream is not compatible with the data in the pool.")
}

/// A block as received.
fn taken(
    incoming: &Incoming,
    (compression, flags): (u8, u8),
    lsize_bytes: u64,
    crypt: &Crypt,
    payload: Vec<u8>,
) -> Result<RawBlock> {
    let compression = if is_packed(compression) { Compression::from_raw(compression)? } else { Compression::Off };
    // Only raw streams contain blocks in the other byte order.
    let swapped = incoming.is_raw() && flags & 2 != 0;
    let endian = if swapped { Endian::Big } else { Endian::Little };
    let sealed = incoming.is_raw().then_some(CryptParams { salt: crypt.salt, iv: crypt.iv, mac: crypt.mac });
    Ok(RawBlock { bytes: Bytes::from(payload), lsize_bytes, compression, endian, sealed })
}
