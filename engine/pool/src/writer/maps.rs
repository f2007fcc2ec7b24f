//! Writes the allocator's space maps in the syncing txg.

use super::tx::SyncTx;
use crate::space::Allocator;
use crate::space::alloc::LiveMaps;
use errors::Result;
use ondisk::feature;

impl Allocator {
    /// Writes the allocations and frees of the txg since the last pass to the space maps. Returns
    /// whether there were any.
    pub(super) fn sync(&self, cx: &SyncTx<'_>) -> Result<bool> {
        with_maps(cx, |maps| self.sync_maps(cx.txg(), maps))
    }
}

/// Calls `work` with access to space maps as objects of the MOS.
pub(super) fn with_maps<R>(cx: &SyncTx<'_>, work: impl FnOnce(&LiveMaps<'_>) -> Result<R>) -> Result<R> {
    let count_feature = |name: &str, delta: i64| match feature::by_name(name) {
        Some(feature) => cx.shared.features.add(cx.mos(), cx.tx(), feature, delta),
        None => unreachable!("{name} is in the table of features"),
    };
    work(&LiveMaps { mos: cx.mos(), tx: cx.tx(), count_feature: &count_feature })
}
