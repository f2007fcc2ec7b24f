//! Features that individual datasets use: recorded in the dataset, counted in the pool.
//!
//! Facts: `dsl_dataset_activate_feature`, `dsl_dataset_block_born` in module/zfs/dsl_dataset.c.

use super::cx::Cx;
use errors::Result;
use ondisk::zap::Value as ZapValue;
use ondisk::{BlkPtr, Checksum, Compression, feature};

pub(crate) const ENCRYPTION: &str = "com.datto:encryption";
/// Version 2 of bookmarks, which encryption needs.
pub(crate) const BOOKMARK_V2: &str = "com.datto:bookmark_v2";
/// Object counts by user.
pub(crate) const USEROBJ_ACCOUNTING: &str = "org.zfsonlinux:userobj_accounting";
/// Space by project.
pub(crate) const PROJECT_QUOTA: &str = "org.zfsonlinux:project_quota";
/// Dnodes larger than 512 bytes.
pub(crate) const LARGE_DNODE: &str = "org.zfsonlinux:large_dnode";
/// Blocks larger than 128 KiB.
pub(crate) const LARGE_BLOCKS: &str = "org.open-zfs:large_blocks";
/// Blocks compressed with zstd.
pub(crate) const ZSTD: &str = "org.freebsd:zstd_compress";
/// Largest block without [`LARGE_BLOCKS`].
pub(crate) const OLD_MAX_BLOCK_BYTES: u64 = 128 << 10;

/// The feature that a checksum requires, if any.
pub(crate) fn of_checksum(checksum: Checksum) -> Option<&'static str> {
    Some(match checksum {
        Checksum::Sha512 => "org.illumos:sha512",
        Checksum::Skein => "org.illumos:skein",
        Checksum::EdonR => "org.illumos:edonr",
        Checksum::Blake3 => "org.openzfs:blake3",
        _ => return None,
    })
}

/// The features used by a block that was just written.
pub(crate) fn of_block(bp: &BlkPtr) -> impl Iterator<Item = &'static str> {
    let large = (bp.lsize_bytes() > OLD_MAX_BLOCK_BYTES).then_some(LARGE_BLOCKS);
    let checksum = if bp.is_embedded() { None } else { bp.checksum_kind().ok().and_then(of_checksum) };
    let zstd = matches!(bp.compression(), Ok(Compression::Zstd)).then_some(ZSTD);
    [large, checksum, zstd].into_iter().flatten()
}

/// Records that dataset `id` uses `feature`, unless already recorded.
pub(crate) fn activate(cx: &Cx<'_>, id: u64, feature: &str) -> Result<()> {
    if cx.field(id, feature)?.is_some() {
        return Ok(());
    }
    cx.feature_increment(feature)?;
    cx.set_field(id, feature, &ZapValue::one(0))
}

/// Records that dataset `id` uses `feature` with this value, as its origin does.
pub(crate) fn activate_with(cx: &Cx<'_>, id: u64, feature: &str, value: &ZapValue) -> Result<()> {
    cx.feature_increment(feature)?;
    cx.set_field(id, feature, value)
}

/// The features that dataset `id` uses, with their values.
pub(crate) fn of_dataset(cx: &Cx<'_>, id: u64) -> Result<Vec<(&'static str, ZapValue)>> {
    let mut found = Vec::new();
    for feature in feature::FEATURES.iter().filter(|f| f.flags.is_per_dataset()) {
        if let Some(value) = cx.field(id, feature.guid)? {
            found.push((feature.guid, value));
        }
    }
    Ok(found)
}

/// Drops all feature uses of dataset `id`, which is about to be freed.
pub(crate) fn deactivate_all(cx: &Cx<'_>, id: u64) -> Result<()> {
    for (feature, _) in of_dataset(cx, id)? {
        cx.unset_field(id, feature)?;
        cx.feature_decrement(feature)?;
    }
    Ok(())
}
