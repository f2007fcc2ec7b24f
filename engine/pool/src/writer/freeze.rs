//! Freezes a pool (`zpool freeze`): later txgs are written, but no uberblock makes them valid. What
//! is on disk stays the state of the last txg before, with the intent logs, which continue. So a
//! test of the replay of logs needs no power cut.
//!
//! Facts: spa_freeze (module/zfs/spa_misc.c), spa_freeze_txg in module/zfs.
//!
//! Invariants:
//!   * nothing that the state on disk refers to is reallocated
//!   * a frozen pool stays frozen until it is closed, and its labels never say that it was exported

use super::spa::{Shared, Writer};
use errors::Result;

impl Writer {
    /// Freezes the pool after the open txg.
    pub fn freeze(&self) -> Result<()> {
        self.task(|cx| {
            // The txg of this task is the last one: from here on, what is freed stays as it is.
            cx.shared.allocator.freeze();
            cx.shared.txgs.frozen.get_or_init(|| cx.txg());
            Ok(())
        })
    }

    /// The last txg that is valid on disk, if the pool is frozen.
    pub fn frozen_after(&self) -> Option<u64> {
        self.shared.txgs.frozen.get().copied()
    }
}

impl Shared {
    /// Whether `txg` must not become valid on disk.
    pub(crate) fn is_frozen_at(&self, txg: u64) -> bool {
        self.txgs.frozen.get().is_some_and(|last| txg > *last)
    }
}
