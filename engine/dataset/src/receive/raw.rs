//! Raw streams: receives the on-disk form of an encrypted dataset without its key.
//!
//! | record       | contents                                                                    |
//! |--------------|-----------------------------------------------------------------------------|
//! | BEGIN's list | `crypt_keydata`: wrapped keys, the root block's portable MAC, shape of the  |
//! |              | dnode tree                                                                  |
//! | OBJECT_RANGE | salt, IV and MAC of the block of 32 dnodes that contains the next objects   |
//! | OBJECT       | a dnode with the shape of its tree, and its whole bonus, encrypted          |
//! | WRITE, SPILL | a block as it is on disk, with salt, IV and MAC                             |
//!
//! Facts: `dsl_crypto_recv_raw_key_check`, `dsl_crypto_recv_raw_objset_check` in
//! module/zfs/dsl_crypt.c, `receive_object`, `flush_write_batch_impl`, `receive_object_range` in
//! dmu_recv.c.

use super::Incoming;
use super::apply::{Applier, bad};
use crate::write::raw_keys::ReceivedKey;
use block::{CryptParams, RawBlock};
use errors::{Error, Result};
use object::{RawObject, RawObjset, Tx};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Crypt, Features, ObjectRecord, Spill, WriteRecord};
use ondisk::{Compression, Endian};
use transform::crypt::KeyFormat;

/// Name of the list inside BEGIN's list.
const LIST: &str = "crypt_keydata";
/// Version of key objects whose datasets can be sent raw.
const KEY_VERSION: u64 = 1;
/// Record flag: the block was written in the other byte order than the stream.
const SWAPPED: u8 = 2;
/// Dnodes per block.
const DNODES: u64 = 32;
/// Bytes per block of dnodes.
const DNODES_BYTES: u64 = 16 << 10;
/// Maximum levels of a tree (`DN_MAX_LEVELS` is 6 for blocks of 128 KiB; other sizes need more).
const LEVELS_MAX: u64 = 20;
/// Minimum and maximum log2 of the bytes of an indirect block.
const INDIRECT_SHIFTS: std::ops::RangeInclusive<u64> = 12..=17;
/// One past the largest checksum or compression number of a dnode (`ZIO_CHECKSUM_LEGACY_FUNCTIONS`,
/// `ZIO_COMPRESS_LEGACY_FUNCTIONS`), with some margin.
const FUNCTIONS_MAX: u64 = 64;

/// A raw stream's description of the dataset as a whole.
#[derive(Debug, Clone)]
pub(crate) struct RawStream {
    pub key: ReceivedKey,
    pub set: RawObjset,
    /// Identity of the IV set of the snapshot in the stream, and of its base. 0: not specified.
    pub ivset: u64,
    pub from_ivset: u64,
}

/// Parses the BEGIN of a raw stream, in either byte order.
pub(super) fn parse(list: &Nvlist, features: Features, has_spill_flags: bool) -> Result<RawStream> {
    let invalid = |what: &str| Err(Error::invalid("", what));
    if features.contains(Features::EMBED_DATA) {
        return Err(bad("embedded blocks in a raw stream"));
    }
    if !has_spill_flags {
        return invalid(
            "Spill block flag missing for raw send.\nThe zfs software on the sending system must be updated.",
        );
    }
    let list = list.get_nvlist(LIST).ok_or_else(|| bad(format!("a raw stream without {LIST}")))?;
    let number = |name: &str| list.get_u64(name).ok_or_else(|| bad(format!("a raw stream without {name}")));
    use block::crypt::attribute as name;
    let key = ReceivedKey {
        suite: number(name::SUITE)?,
        guid: number(name::GUID)?,
        iv: bytes(list, name::IV)?,
        mac: bytes(list, name::MAC)?,
        master_key: bytes(list, name::MASTER_KEY)?,
        hmac_key: bytes(list, name::HMAC_KEY)?,
        key_format: number(name::KEY_FORMAT)?,
        pbkdf2_salt: number(name::PBKDF2_SALT)?,
        pbkdf2_iterations: number(name::PBKDF2_ITERATIONS)?,
    };
    match key.suite {
        0..=2 => return Err(bad(format!("encryption suite {}", key.suite))),
        suite if transform::crypt::Suite::from_raw(suite).is_none() => {
            return invalid("stream uses crypto parameters not compatible with this pool");
        }
        _ => {}
    }
    if number(name::VERSION)? != KEY_VERSION {
        return invalid("pool must be upgraded to receive this stream.");
    }
    let Some(format) = KeyFormat::from_raw(key.key_format) else {
        return Err(bad(format!("keyformat {}", key.key_format)));
    };
    let is_phrase = format == KeyFormat::Passphrase;
    if is_phrase == (key.pbkdf2_salt == 0) || is_phrase == (key.pbkdf2_iterations == 0) {
        return Err(bad("salt and rounds of a passphrase do not go with its keyformat"));
    }
    let within = |name: &str, range: std::ops::RangeInclusive<u64>| match number(name)? {
        n if range.contains(&n) => Ok(n),
        n => Err(bad(format!("{name} is {n}"))),
    };
    within("mdn_blksz", DNODES_BYTES..=DNODES_BYTES)?;
    within("mdn_nblkptr", 3..=3)?;
    let set = RawObjset {
        portable_mac: bytes(list, "portable_mac")?,
        checksum: within("mdn_checksum", 0..=FUNCTIONS_MAX)? as u8,
        compression: within("mdn_compress", 0..=FUNCTIONS_MAX)? as u8,
        levels: within("mdn_nlevels", 1..=LEVELS_MAX)? as u8,
        indirect_shift: within("mdn_indblkshift", INDIRECT_SHIFTS)? as u8,
        max_block_id: number("mdn_maxblkid")?,
    };
    let optional = |name: &str| list.get_u64(name).unwrap_or(0);
    Ok(RawStream { key, set, ivset: optional("to_ivset_guid"), from_ivset: optional("from_ivset_guid") })
}

fn bytes<const N: usize>(list: &Nvlist, name: &str) -> Result<[u8; N]> {
    match list.get(name) {
        Some(Value::Uint8Array(found)) => found[..].try_into().ok(),
        _ => None,
    }
    .ok_or_else(|| bad(format!("a raw stream whose {name} does not have {N} bytes")))
}

/// Rejects a base snapshot whose blocks have other IVs than the sender's snapshot with the same
/// guid (OpenZFS #12594).
pub(super) fn check_ivset(name: &str, sent: u64, found: u64) -> Result<()> {
    if sent == 0 || found == 0 {
        let what = "IV set guid missing. See errata 4 at https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-ER.";
        return Err(Error::invalid(name, what));
    }
    if sent != found {
        let what = "IV set guid mismatch. See the 'zfs receive' man page section discussing the limitations of raw\n\
                    encrypted send streams.";
        return Err(Error::invalid(name, what));
    }
    Ok(())
}

fn seal_of(crypt: &Crypt) -> CryptParams {
    CryptParams { salt: crypt.salt, iv: crypt.iv, mac: crypt.mac }
}

impl Applier {
    pub(super) fn object_range(&mut self, first: u64, slots: u64, crypt: &Crypt, flags: u8) -> Result<()> {
        if slots != DNODES || !first.is_multiple_of(DNODES) || first >= super::apply::OBJECT_MAX {
            return Err(bad(format!("a range of {slots} objects from {first} on")));
        }
        if flags & SWAPPED != 0 {
            return Err(Error::unsupported("", "raw streams with dnodes that a big-endian host wrote"));
        }
        self.range = Some(first);
        self.set.seal_dnodes(first / DNODES, seal_of(crypt))
    }

    /// Handles OBJECT of a raw stream.
    pub(super) fn raw_object(&mut self, tx: &Tx, record: &ObjectRecord, mut bonus: Vec<u8>) -> Result<()> {
        if self.range.is_none_or(|first| !(first..first + DNODES).contains(&record.object)) {
            return Err(bad(format!("object {} outside of its range", record.object)));
        }
        let mut new = self.check(record)?;
        let shape = (u64::from(record.levels), u64::from(record.indirect_shift));
        let fits = (1..=LEVELS_MAX).contains(&shape.0)
            && INDIRECT_SHIFTS.contains(&shape.1)
            && record.raw_bonus_bytes >= record.bonus_bytes
            && record.max_block_id != u64::MAX;
        if !fits {
            return Err(bad(format!("a dnode that cannot be: {record:?}")));
        }
        bonus.truncate(record.raw_bonus_bytes.max(record.bonus_bytes) as usize);
        let bonus_rest = bonus.split_off((record.bonus_bytes as usize).min(bonus.len()));
        new.bonus = bonus;
        new.indirect_shift = record.indirect_shift;
        if usize::from(record.blkptrs) != new.pointers() {
            return Err(bad(format!("{} pointers beside a bonus of {} bytes", record.blkptrs, record.bonus_bytes)));
        }
        self.make_room(tx, record.object, new.slots)?;
        let has_spill = record.flags & super::apply::SPILL != 0;
        if let (Ok(object), false) = (self.set.object(record.object), has_spill)
            && object.dnode_now().spill.is_some()
        {
            object.set_spill(tx, None)?;
        }
        let (levels, max_block_id) = (record.levels, record.max_block_id);
        self.set.put_raw_object(tx, &RawObject { new, bonus_rest, levels, max_block_id })
    }

    /// Handles WRITE of a raw stream.
    pub(super) fn raw_write(&mut self, tx: &Tx, write: &WriteRecord, payload: Vec<u8>) -> Result<()> {
        let object = self.known(write.object)?;
        let size = object.block_bytes();
        if write.logical_bytes != size || !write.offset.is_multiple_of(size) || write.compressed_bytes == 0 {
            return Err(bad(format!("{} bytes at {} of blocks of {size}", write.logical_bytes, write.offset)));
        }
        if write.offset / size > object.max_block_id() {
            return Err(bad(format!("a block at {}, behind the last one", write.offset)));
        }
        let block = taken(write.compression, write.logical_bytes, (write.flags, &write.crypt), payload, self.endian)?;
        object.put_raw(tx, write.offset / size, block)
    }

    /// Handles SPILL of a raw stream.
    pub(super) fn raw_spill(&mut self, tx: &Tx, spill: &Spill, payload: Vec<u8>) -> Result<()> {
        let object = self.known(spill.object)?;
        let block = taken(spill.compression, spill.length, (spill.flags, &spill.crypt), payload, self.endian)?;
        object.put_raw_spill(tx, block)
    }
}

/// A block as received.
fn taken(
    compression: u8,
    lsize_bytes: u64,
    (flags, crypt): (u8, &Crypt),
    payload: Vec<u8>,
    stream: Endian,
) -> Result<RawBlock> {
    let endian = match (stream, flags & SWAPPED != 0) {
        (Endian::Little, false) | (Endian::Big, true) => Endian::Little,
        _ => Endian::Big,
    };
    let compression = if compression == 0 { Compression::Off } else { Compression::from_raw(compression)? };
    Ok(RawBlock { bytes: payload.into(), lsize_bytes, compression, endian, sealed: Some(seal_of(crypt)) })
}

impl Incoming {
    /// Whether the stream carries encrypted blocks in their on-disk form.
    pub(crate) fn is_raw(&self) -> bool {
        self.sealed.is_some()
    }
}
