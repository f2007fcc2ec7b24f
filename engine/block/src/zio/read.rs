//! Reads one block.

use super::{check, gang};
use crate::Block;
use crate::crypt::{DatasetKeys, verify_indirect};
use crate::store::Store;
use crate::vdev::Failure;
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::{BlkPtr, Compression};
use std::cell::Cell;

/// Reads the contents of the block at `bp`. Errors have no place yet.
///
/// Here and below, `met_bad` is set if some copy or column of the block was bad although another
/// one was good.
pub(crate) fn read(store: &Store, bp: &BlkPtr, keys: Option<&DatasetKeys>, met_bad: &Cell<bool>) -> Result<Block> {
    let stored = stored(store, bp, met_bad)?;
    unpack(bp, decrypt(bp, stored, keys)?)
}

/// As [`read`], without decrypting. Fails for a compressed block of an encrypted type.
pub(crate) fn read_unopened(store: &Store, bp: &BlkPtr, met_bad: &Cell<bool>) -> Result<Block> {
    unpack(bp, stored(store, bp, met_bad)?)
}

/// The block's bytes as they are on disk, verified against the checksum, but still compressed and
/// encrypted.
pub(crate) fn stored(store: &Store, bp: &BlkPtr, met_bad: &Cell<bool>) -> Result<Vec<u8>> {
    bp.check()?;
    if bp.is_redacted() {
        return Err(Error::Redacted { place: String::new() });
    }
    if bp.is_embedded() {
        return Ok(bp.embedded_payload()?);
    }
    check::supported(store, bp)?;
    if let Some(bytes) = store.second().read(store, bp) {
        return Ok(bytes);
    }
    in_pool(store, bp, met_bad)
}

/// As [`stored`], from the pool's own devices, bypassing the cache devices.
pub(crate) fn in_pool(store: &Store, bp: &BlkPtr, met_bad: &Cell<bool>) -> Result<Vec<u8>> {
    check::supported(store, bp)?;
    stored_bytes(store, bp, 0, met_bad).map_err(|f| f.into_error(String::new()))
}

/// Whether these are the block's bytes as stored.
pub(crate) fn matches(store: &Store, bp: &BlkPtr, bytes: &[u8]) -> bool {
    check::matches(bp, bytes, store.salt().as_deref())
}

fn unpack(bp: &BlkPtr, clear: Vec<u8>) -> Result<Block> {
    let compression = bp.compression()?;
    let data = match compression {
        Compression::Off | Compression::Inherit | Compression::On => clear,
        _ => check::decompress(compression, &clear, bp.lsize_bytes() as usize)?,
    };
    if data.len() as u64 != bp.lsize_bytes() {
        let what = format!("block holds {} bytes, expected {}", data.len(), bp.lsize_bytes());
        return Err(Error::corrupt("", what));
    }
    if bp.has_indirect_mac() {
        verify_indirect(bp, &data)?;
    }
    #[cfg(feature = "tamper")]
    let data = crate::tamper::apply(bp, data);
    Ok(Block { data: Bytes::from(data), endian: bp.endian() })
}

pub(super) fn decrypt(bp: &BlkPtr, mut stored: Vec<u8>, keys: Option<&DatasetKeys>) -> Result<Vec<u8>> {
    if bp.is_embedded() || !bp.uses_crypt() {
        return Ok(stored);
    }
    match keys {
        Some(keys) => keys.open_block(bp, &mut stored)?,
        // Authenticated blocks are readable without a key, as in OpenZFS; their checksum has been
        // verified.
        None if bp.is_encrypted() => return Err(Error::KeyUnavailable { place: String::new() }),
        None => {}
    }
    Ok(stored)
}

/// The bytes as stored, from the first copy whose checksum is right.
pub(super) fn stored_bytes(
    store: &Store,
    bp: &BlkPtr,
    depth: u32,
    met_bad: &Cell<bool>,
) -> std::result::Result<Vec<u8>, Failure> {
    let salt = store.salt();
    let mut failure = Failure::default();
    for dva in bp.dvas() {
        let copy = if dva.is_gang {
            gang::read(store, bp, &dva, depth, met_bad).and_then(|bytes| {
                match check::matches(bp, &bytes, salt.as_deref()) {
                    true => Ok(bytes),
                    false => Err(Failure {
                        other: vec!["gang block: checksum mismatch of the whole".into()],
                        ..Failure::default()
                    }),
                }
            })
        } else {
            let mut right = |bytes: &[u8]| check::matches(bp, bytes, salt.as_deref());
            let birth = bp.physical_birth().0;
            store.tree().read_noting(dva.vdev, dva.offset_bytes, bp.psize_bytes(), birth, &mut right, met_bad)
        };
        match copy {
            Ok(bytes) => {
                // An earlier copy failed, and not only because of missing devices.
                let is_bad = !(failure.wrong.is_empty() && failure.io.is_empty() && failure.other.is_empty());
                met_bad.set(met_bad.get() || is_bad);
                return Ok(bytes);
            }
            Err(more) => failure.merge(more),
        }
    }
    Err(failure)
}
