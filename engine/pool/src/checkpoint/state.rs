//! The state in memory of discarding a checkpoint.

use crate::Pool;
use errors::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Guid of the feature `zpool_checkpoint`, which is active while there is a checkpoint or space
/// that a discarded one held.
pub(crate) const CHECKPOINT_GUID: &str = "com.delphix:zpool_checkpoint";

/// Whether space of a discarded checkpoint is being freed step by step.
#[derive(Default)]
pub(crate) struct Discarding(AtomicBool);

impl Discarding {
    /// Loads the state of a pool that is being opened: it may have been exported, or have crashed,
    /// while it discarded its checkpoint.
    pub fn load(pool: &Pool) -> Result<Self> {
        let is_active = pool.features().is_active(CHECKPOINT_GUID) && pool.checkpoint()?.is_none();
        Ok(Self(is_active.into()))
    }

    pub fn is_active(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn set_active(&self, yes: bool) {
        self.0.store(yes, Ordering::SeqCst);
    }
}
