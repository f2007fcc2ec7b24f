//! What follows a resilver that ended well: devices that were only needed until then leave.

use super::tx::SyncTx;
use crate::Result;

/// Called in the txg that notes the end of a resilver without errors, after what it wrote was taken out of the logs of missed txgs:
/// whichever leaves have no stale ranges any more are whole. Detaches the old side of `replacing` and of `spare` devices.
///
/// ZFS name: spa_vdev_resilver_done.
#[allow(dead_code, reason = "nothing resilvers yet")]
pub(super) fn after_resilver(_cx: &SyncTx<'_>) -> Result<()> {
    Ok(())
}
