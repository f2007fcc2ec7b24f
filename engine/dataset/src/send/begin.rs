//! The first record: the features that the receiver must support, and the list in its payload.
//!
//! Facts: `setup_featureflags` and `create_begin_record` in module/zfs/dmu_send.c,
//! `dsl_crypto_populate_key_nvlist` in dsl_crypt.c.
//!
//! The list is packed as XDR, as OpenZFS does since 2026: only hosts of the same byte order can
//! read the earlier native form.

use super::{Base, Options, Resume};
use crate::View;
use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::property::{self, Value as PropertyContents};
use crate::tree::Entry;
use block::crypt::{CURRENT_VERSION, attribute as key_attribute};
use errors::{Error, Result};
use object::ObjectSet;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Begin, Features};
use ondisk::{DslDataset, Endian, ObjsetKind};

/// Version of file systems whose attributes may use spill blocks (`ZPL_VERSION_SA`).
const VERSION_SA: u64 = 5;
/// `drr_flags` of BEGIN.
const FLAG_CLONE: u32 = 1;
const FLAG_CI_DATA: u32 = 2;
const FLAG_FREE_RECORDS: u32 = 4;
const FLAG_SPILL_BLOCK: u32 = 8;

/// Whether a feature that is counted per dataset is active in this one.
fn is_active(dataset: &Dataset, guid: &str) -> Result<bool> {
    Ok(dataset.field(guid)?.is_some())
}

pub(super) fn features(to: &Dataset, keys: &KeyStore, options: Options, resumes: bool) -> Result<Features> {
    let (raw, pool) = (options.raw, to.tree().pool());
    let is_encrypted = to.crypto_object()?.is_some();
    let mut features = Features::empty();
    if to.contents()? == ObjsetKind::FileSystem {
        let view = View { keys: Some(keys), ..View::default() };
        let version = property::get(&Entry::Dataset(to.clone()), "version", &view)?;
        let version = version.map_or(0, |p| match p.value.value {
            PropertyContents::Number(n) => n,
            PropertyContents::Text(_) => 0,
        });
        features.set(Features::SA_SPILL, version >= VERSION_SA);
    }
    let large = raw || options.large_blocks;
    features.set(Features::LARGE_BLOCKS, large && is_active(to, "org.open-zfs:large_blocks")?);
    let embedded = (raw || options.embedded) && !is_encrypted && pool.features().is_active("com.delphix:embedded_data");
    features.set(Features::EMBED_DATA, embedded);
    features.set(Features::COMPRESSED, raw || options.compressed);
    features.set(Features::RAW, raw && is_encrypted);
    let packed = features.intersects(Features::EMBED_DATA | Features::COMPRESSED | Features::RAW);
    features.set(Features::LZ4, packed && pool.features().is_active("org.illumos:lz4_compress"));
    let packed = features.intersects(Features::COMPRESSED | Features::RAW);
    features.set(Features::ZSTD, packed && is_active(to, "org.freebsd:zstd_compress")?);
    features.set(Features::RESUMING, resumes);
    features.set(Features::LARGE_DNODE, is_active(to, "org.zfsonlinux:large_dnode")?);
    features.set(Features::LONGNAME, is_active(to, "org.zfsonlinux:longname")?);
    if is_active(to, "com.klarasystems:large_microzap")? {
        if !features.contains(Features::LARGE_BLOCKS) {
            let what =
                "source snapshot contains large microzaps, need -L (--large-block) or -w (--raw) to generate stream";
            return Err(Error::invalid(to.name(), what));
        }
        features |= Features::LARGE_MICROZAP;
    }
    Ok(features)
}

/// What follows the name of a file system or volume in a stream of its contents, where others have
/// the name of a snapshot.
pub const HEAD_SUFFIX: &str = "@--head--";

pub(super) fn begin(to: &Dataset, from: Option<&Base>, set: &ObjectSet, features: Features) -> Result<Begin> {
    let phys = to.phys();
    let mut flags = FLAG_FREE_RECORDS | FLAG_SPILL_BLOCK;
    if from.is_some_and(|from| from.dataset().dir().id() != to.dir().id()) {
        flags |= FLAG_CLONE;
    }
    if phys.has(DslDataset::FLAG_CI_DATASET) {
        flags |= FLAG_CI_DATA;
    }
    let suffix = if to.is_snapshot() { "" } else { HEAD_SUFFIX };
    Ok(Begin {
        header_type: Begin::STREAM,
        features,
        creation_time: phys.creation_time,
        objset_type: set.phys().kind as u32,
        flags,
        to_guid: phys.guid,
        from_guid: from.map_or(0, Base::guid),
        to_name: format!("{}{suffix}", to.name()).into_bytes(),
    })
}

/// Returns BEGIN's payload, packed; empty if there is nothing to send.
pub(super) fn list(
    to: &Dataset,
    from: Option<&Base>,
    set: &ObjectSet,
    features: Features,
    (resume, redact): (Option<Resume>, Option<&Bookmark>),
) -> Result<Vec<u8>> {
    let mut list = Nvlist::new();
    // With respect to which snapshots the stream is redacted, or the dataset itself.
    let redacted = match redact {
        Some(mark) => snaps_of(mark)?,
        None => to.redacted_by()?,
    };
    if let Some(guids) = redacted {
        list.put("redact_snaps", guids);
    }
    let base = match from {
        Some(Base::Bookmark(mark)) => snaps_of(mark)?,
        Some(Base::Snapshot(base)) => base.redacted_by()?,
        None => None,
    };
    if let Some(guids) = base {
        list.put("redact_from_snaps", guids);
    }
    if let Some(resume) = resume {
        list.put("resume_object", resume.object);
        list.put("resume_offset", resume.offset);
    }
    if features.contains(Features::RAW) {
        let from_ivset = from.map_or(Ok(0), Base::ivset_guid)?;
        list.put("crypt_keydata", Value::Nvlist(key_data(to, set, from_ivset)?));
    }
    if list.pairs.is_empty() {
        return Ok(Vec::new());
    }
    let mut packed = list.to_xdr(Endian::Little);
    // Payloads are multiples of 8; the list is self-terminating.
    packed.resize(packed.len().next_multiple_of(8), 0);
    Ok(packed)
}

/// The snapshots that a redaction bookmark was made with; `None` for other bookmarks.
fn snaps_of(mark: &Bookmark) -> Result<Option<Vec<u64>>> {
    Ok(mark.redaction_list()?.map(|list| list.snaps))
}

fn key_data(to: &Dataset, set: &ObjectSet, from_ivset: u64) -> Result<Nvlist> {
    let missing = || Error::corrupt(to.name(), "it is encrypted and has no key object");
    let own = to.key_object()?.ok_or_else(missing)?;
    if own.wrapped.version != CURRENT_VERSION {
        return Err(Error::unsupported(to.name(), "raw sending of the first format of encryption (errata 3)"));
    }
    // Datasets created by early versions lack the key parameters: their encryption root has them.
    let root = to.encryption_root()?.ok_or_else(missing)?;
    let root = to.tree().head(&root)?.key_object()?.ok_or_else(missing)?;
    let (key, mdn) = (&own.wrapped, set.meta().dnode());
    let bytes = |bytes: &[u8]| Value::Uint8Array(bytes.to_vec());
    let mut list = Nvlist::new();
    list.put(key_attribute::SUITE, key.suite);
    list.put(key_attribute::GUID, key.guid);
    list.put(key_attribute::VERSION, key.version);
    list.put(key_attribute::MASTER_KEY, bytes(&key.wrapped_master_key));
    list.put(key_attribute::HMAC_KEY, bytes(&key.wrapped_hmac_key));
    list.put(key_attribute::IV, bytes(&key.iv));
    list.put(key_attribute::MAC, bytes(&key.mac));
    list.put("portable_mac", bytes(&set.phys().portable_mac));
    list.put(key_attribute::KEY_FORMAT, root.key_format);
    list.put(key_attribute::PBKDF2_ITERATIONS, root.pbkdf2_iterations);
    list.put(key_attribute::PBKDF2_SALT, root.pbkdf2_salt);
    for (name, value) in [
        ("mdn_checksum", mdn.checksum.into()),
        ("mdn_compress", mdn.compression.into()),
        ("mdn_nlevels", mdn.levels.into()),
        ("mdn_blksz", mdn.data_block_bytes.into()),
        ("mdn_indblkshift", mdn.indirect_shift.into()),
        ("mdn_nblkptr", mdn.blkptrs.len() as u64),
        ("mdn_maxblkid", mdn.max_block_id),
        ("to_ivset_guid", to.ivset_guid()?.unwrap_or(0)),
        ("from_ivset_guid", from_ivset),
    ] {
        list.put(name, value);
    }
    Ok(list)
}
