//! Writes and frees the allocator's space maps in the syncing txg.

use super::spa::SyncTx;
use crate::config::VdevConfig;
use crate::space::Allocator;
use crate::space::alloc::LiveMaps;
use errors::Result;
use object::zap::Zap;
use ondisk::feature;
use ondisk::pool_dir::{config, vdev_top};

impl Allocator {
    /// Writes the allocations and frees of the txg since the last pass to the space maps. Returns
    /// whether there were any.
    pub(crate) fn sync(&self, cx: &SyncTx<'_>) -> Result<bool> {
        with_maps(cx, |maps| self.sync_maps(cx.txg(), maps))
    }
}

/// Calls `work` with access to space maps as objects of the MOS.
pub(crate) fn with_maps<R>(cx: &SyncTx<'_>, work: impl FnOnce(&LiveMaps<'_>) -> Result<R>) -> Result<R> {
    let count_feature = |name: &str, delta: i64| match feature::by_name(name) {
        Some(feature) => cx.shared.features.add(cx.mos(), cx.tx(), feature, delta),
        None => unreachable!("{name} is in the table of features"),
    };
    work(&LiveMaps { mos: cx.mos(), tx: cx.tx(), count_feature: &count_feature })
}

/// Frees the space maps of a device, their array, and its list of unflushed txgs.
pub(crate) fn free_maps(cx: &SyncTx<'_>, top: &VdevConfig) -> Result<()> {
    let array = top.number(config::METASLAB_ARRAY);
    if array != 0 {
        let count = top.number(config::ASIZE) >> top.number(config::METASLAB_SHIFT).min(63);
        let maps = cx.mos().object(array)?.read_words(count)?;
        with_maps(cx, |live| maps.into_iter().filter(|id| *id != 0).try_for_each(|id| live.free_map(id)))?;
        cx.mos().free_object(cx.tx(), array)?;
    }
    let zap = top.number(config::VDEV_TOP_ZAP);
    if zap != 0 {
        let zap = Zap::open(cx.mos().object(zap)?)?;
        if let Some(unflushed) = zap.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS)? {
            cx.mos().free_object(cx.tx(), unflushed)?;
            // The ZAP of a device that held data outlives the device, and the object number will be
            // reused.
            zap.remove(cx.tx(), vdev_top::MS_UNFLUSHED_PHYS_TXGS)?;
        }
    }
    Ok(())
}
