//! Reads one block.

use super::{check, copies};
use crate::Block;
use crate::crypt::{DatasetKeys, verify_indirect};
use crate::store::Store;
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
    check::supported(bp, || store.has_salt())?;
    if let Some(bytes) = store.second().read(bp, &|bytes| matches(store, bp, bytes)) {
        return Ok(bytes);
    }
    in_pool(store, bp, met_bad)
}

/// As [`stored`], from the pool's own devices, bypassing the cache devices.
pub(crate) fn in_pool(store: &Store, bp: &BlkPtr, met_bad: &Cell<bool>) -> Result<Vec<u8>> {
    check::supported(bp, || store.has_salt())?;
    copies::read(store, bp, 0, met_bad).map_err(|f| f.into_error(String::new()))
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
