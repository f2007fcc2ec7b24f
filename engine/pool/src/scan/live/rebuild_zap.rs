//! The state of rebuilds in the ZAP of each top-level device, as the syncing txg changes it.

use super::rebuilds::is_active;
use super::state::State;
use crate::writer::SyncTx;
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::{config, vdev_top};
use ondisk::removal::Rebuild;
use ondisk::zap::Value as ZapValue;

/// Stores the state in the device's ZAP.
pub(super) fn keep(cx: &SyncTx<'_>, state: &mut State, vdev: u64, rebuild: Rebuild) -> Result<()> {
    let zap = {
        let root = cx.shared.config.root.lock();
        root.children.iter().find(|top| top.id == vdev).map_or(0, |top| top.number(config::VDEV_TOP_ZAP))
    };
    let zap = Zap::open(cx.mos().object(zap)?)?;
    zap.update(cx.tx(), vdev_top::VDEV_REBUILD_PHYS, &ZapValue::words(&rebuild.to_words()))?;
    match rebuild.state {
        0 => state.rebuilds.remove(&vdev),
        _ => state.rebuilds.insert(vdev, rebuild),
    };
    cx.shared.background.scan.figures.rebuild(vdev, rebuild);
    Ok(())
}

/// Clears the states of ended rebuilds when a resilver begins (`vdev_rebuild_clear_sync`).
pub(super) fn forget_ended(cx: &SyncTx<'_>, state: &mut State) -> Result<()> {
    let ended: Vec<u64> = state.rebuilds.iter().filter(|(_, r)| !is_active(r)).map(|(vdev, _)| *vdev).collect();
    ended.into_iter().try_for_each(|vdev| keep(cx, state, vdev, Rebuild::default()))
}
