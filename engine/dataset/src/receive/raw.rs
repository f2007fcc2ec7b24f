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
//! This file parses BEGIN's list; `apply_raw` applies the records.
//!
//! Facts: `dsl_crypto_recv_raw_key_check`, `dsl_crypto_recv_raw_objset_check` in
//! module/zfs/dsl_crypt.c.

use super::verifying_reader::bad;
use crate::write::raw_keys::ReceivedKey;
use block::crypt::CURRENT_VERSION;
use errors::{Error, Result};
use object::RawObjset;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::Features;
use transform::crypt::KeyFormat;

/// Name of the list inside BEGIN's list.
const LIST: &str = "crypt_keydata";
/// Bytes per block of dnodes.
const DNODES_BYTES: u64 = 16 << 10;
/// Maximum levels of a tree (`DN_MAX_LEVELS` is 6 for blocks of 128 KiB; other sizes need more).
pub(super) const LEVELS_MAX: u64 = 20;
/// Minimum and maximum log2 of the bytes of an indirect block.
pub(super) const INDIRECT_SHIFTS: std::ops::RangeInclusive<u64> = 12..=17;
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
    if number(name::VERSION)? != CURRENT_VERSION {
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
