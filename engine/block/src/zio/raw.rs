//! Writes a block as received: compressed by the sender, and perhaps encrypted with keys that are
//! not loaded (raw receive).
//!
//! Below: `place` and `put`, as for `write`. Above: `store`; the receiver of a stream. ZFS
//! names: `ZIO_FLAG_RAW_COMPRESS`, `ZIO_FLAG_RAW`.
//!
//! Invariants:
//!   * a sealed block keeps its length: the MAC covers those bytes, and the MAC one level up covers
//!     the length in its pointer
//!   * a sealed block does not enter the cache, which holds readable contents only

use super::write::{self, Replaced, Seal, Written};
use super::{check, place, put};
use crate::crypt::DatasetKeys;
use crate::policy::{Dedup, WritePolicy};
use crate::store::WriteStore;
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::{BlkPtr, Compression, Endian, NewBlock, Txg};

/// Encryption parameters of a block: the dataset's keys, with this salt and IV. A block that is
/// only authenticated has just a MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CryptParams {
    /// Salt that selects the block key.
    pub salt: [u8; 8],
    pub iv: [u8; 12],
    pub mac: [u8; 16],
}

/// A block with its bytes as they will be on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBlock {
    /// The bytes as received: compressed, encrypted, or plain.
    pub bytes: Bytes,
    /// Size of the contents, in bytes.
    pub lsize_bytes: u64,
    /// Compression of `bytes`.
    pub compression: Compression,
    /// Byte order of the writer.
    pub endian: Endian,
    /// Encryption parameters, if the block is encrypted or authenticated.
    pub sealed: Option<CryptParams>,
}

impl RawBlock {
    /// Decompresses the contents. Fails with [`Error::KeyUnavailable`] for a sealed block.
    pub fn contents(&self) -> Result<Bytes> {
        match (self.sealed, self.is_packed()) {
            (Some(_), _) => Err(Error::KeyUnavailable { place: String::new() }),
            (None, false) => Ok(self.bytes.clone()),
            (None, true) => {
                check::decompress(self.compression, &self.bytes, self.lsize_bytes as usize).map(Bytes::from)
            }
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        !matches!(self.compression, Compression::Off | Compression::Inherit | Compression::On | Compression::Empty)
    }

    fn check(&self, policy: &WritePolicy) -> Result<()> {
        write::check(policy, self.lsize_bytes)?;
        let (size, whole) = (self.bytes.len() as u64, self.lsize_bytes);
        let fits = if self.is_packed() { (1..=whole).contains(&size) } else { size == whole };
        if !fits || (self.sealed.is_some() && !size.is_multiple_of(512)) || policy.level > 0 {
            let what = format!("{size} bytes for a block of {whole}, compression {}", self.compression.name());
            return Err(Error::invalid("", what));
        }
        Ok(())
    }
}

/// Writes `block`. With `keys`, it is encrypted unless it is sealed already. It is decompressed
/// first if its compression saves no allocation unit, or if it is to be deduplicated. Sealed blocks
/// are not deduplicated.
pub(crate) fn write_raw(
    store: &WriteStore,
    txg: u64,
    block: &RawBlock,
    policy: &WritePolicy,
    keys: Option<&DatasetKeys>,
) -> Result<BlkPtr> {
    block.check(policy)?;
    let (whole, length) = (block.lsize_bytes as usize, block.bytes.len());
    let psize = match block.sealed {
        Some(_) => length,
        None => {
            let (minimum, unit) = store.units();
            if length > minimum { length.next_multiple_of(unit) } else { minimum }
        }
    };
    // For dedup, equal contents must become equal bytes, whatever compressed them.
    let is_shared = policy.dedup != Dedup::Off;
    if block.sealed.is_none() && (!block.is_packed() || psize >= whole || is_shared) {
        let contents = block.contents()?;
        return write::write(store, txg, contents, policy, Seal::from(keys), Replaced::Nothing)
            .map(|Written { bp, .. }| bp);
    }
    let mut bp = BlkPtr::new_block(&NewBlock {
        object_type: policy.object_type,
        level: 0,
        lsize_bytes: block.lsize_bytes,
        psize_bytes: psize as u64,
        compression: if block.is_packed() { block.compression } else { Compression::Off },
        checksum: policy.checksum,
    });
    bp.set_endian(block.endian);
    let mut padded = Vec::new();
    if psize != length || (block.sealed.is_none() && keys.is_some()) {
        padded.reserve_exact(psize);
        padded.extend_from_slice(&block.bytes);
        padded.resize(psize, 0);
    }
    match (&block.sealed, keys) {
        (Some(sealed), _) => {
            bp.set_uses_crypt(true);
            if bp.is_encrypted() {
                bp.set_crypt_params(&sealed.salt, &sealed.iv);
            }
            bp.set_crypt_mac(&sealed.mac);
        }
        (None, Some(keys)) => {
            bp.set_uses_crypt(true);
            if bp.is_encrypted() {
                keys.seal_block(&mut bp, &mut padded)?;
            } else {
                keys.authenticate(&mut bp, &padded);
            }
        }
        (None, None) => {}
    }
    let stored = if padded.is_empty() { &block.bytes[..] } else { &padded[..] };
    put::sum(store, &mut bp, stored)?;
    bp.set_birth(Txg(txg), Txg(txg));
    bp.set_fill(1);
    let copies = write::copies(store, policy, bp.uses_crypt());
    place::place(store, &mut bp, stored, txg, policy, copies)?;
    Ok(bp)
}
