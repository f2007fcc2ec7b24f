//! Corrective receive: overwrites a damaged block with its original bytes, whose contents come from
//! a send stream.
//!
//! Below: `vdev`. Above: `store`. ZFS name: do_corrective_recv.
//!
//! Invariants:
//!   * only bytes that match the pointer's checksum are written, so that nothing can get worse

use super::check;
use super::raw::RawBlock;
use crate::crypt::DatasetKeys;
use crate::store::{Store, WriteStore};
use errors::{Error, Result};
use ondisk::{BlkPtr, Compression};
use transform::compress::{Algorithm, compress_into, zstd};

/// As [`WriteStore::heal`].
pub(crate) fn heal(store: &WriteStore, bp: &BlkPtr, block: &RawBlock, keys: Option<&DatasetKeys>) -> Result<bool> {
    if bp.is_hole() || bp.is_embedded() || bp.is_redacted() {
        return Ok(false);
    }
    if bp.is_gang() {
        return Err(Error::unsupported("", "healing of gang blocks"));
    }
    let Some(stored) = made_again(store, bp, block, keys)? else { return Ok(false) };
    for dva in bp.dvas() {
        store
            .tree()
            .write(dva.vdev, dva.offset_bytes, &stored, bp.physical_birth().0)
            .map_err(|failure| failure.into_write_error(String::new()))?;
    }
    store.flush_blocks(std::slice::from_ref(bp))?;
    // The repair counts only if the block reads back right.
    super::stored(store, bp, &std::cell::Cell::new(false)).map(|read| read == stored)
}

/// The stored bytes that the pointer describes, if they can be made from `block`.
fn made_again(store: &Store, bp: &BlkPtr, block: &RawBlock, keys: Option<&DatasetKeys>) -> Result<Option<Vec<u8>>> {
    let (salt, psize) = (store.salt(), bp.psize_bytes() as usize);
    let matches = |bytes: &[u8]| check::matches(bp, bytes, salt.as_deref());
    if block.sealed.is_some() {
        let bytes = block.bytes.to_vec();
        return Ok((bytes.len() == psize && matches(&bytes)).then_some(bytes));
    }
    let fits = |mut bytes: Vec<u8>| -> Result<Option<Vec<u8>>> {
        if bytes.len() > psize {
            return Ok(None);
        }
        bytes.resize(psize, 0);
        if bp.uses_crypt() {
            let Some(keys) = keys else { return Err(Error::KeyUnavailable { place: String::new() }) };
            if !keys.seal_again(bp, &mut bytes)? {
                return Ok(None);
            }
        }
        Ok(matches(&bytes).then_some(bytes))
    };
    let compression = bp.compression()?;
    if block.is_packed()
        && block.compression == compression
        && let Some(found) = fits(block.bytes.to_vec())?
    {
        return Ok(Some(found));
    }
    let contents = block.contents()?;
    if contents.len() as u64 != bp.lsize_bytes() {
        return Ok(None);
    }
    let Some(algorithm) = Algorithm::from_number(compression.to_raw()) else {
        return fits(contents.to_vec());
    };
    // The pointer does not record Zstandard's level: the default level is tried first.
    let all = (0..=u8::MAX).filter_map(zstd::Level::from_number);
    let levels: Vec<_> = match compression {
        Compression::Zstd => std::iter::once(zstd::Level::DEFAULT).chain(all).collect(),
        _ => vec![zstd::Level::DEFAULT],
    };
    let mut room = Vec::new();
    for level in levels {
        if let Some(length) = compress_into(algorithm, level, &contents, psize, &mut room)
            && let Some(found) = fits(room[..length].to_vec())?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
