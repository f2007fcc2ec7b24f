//! Operations that exclude each other: what a checkpoint or a removal refuses.

use super::spa::Shared;
use crate::checkpoint::CHECKPOINT_GUID;
use errors::{Error, Result};

/// OpenZFS's messages: `EZFS_CHECKPOINT_EXISTS`, `EZFS_DISCARDING_CHECKPOINT`.
const EXISTS: &str = "checkpoint exists";
pub(crate) const DISCARDING: &str = "currently discarding checkpoint";

impl Shared {
    /// Refuses operations that would make a checkpoint useless: removal of devices, a new guid.
    pub(crate) fn refuse_with_checkpoint(&self) -> Result<()> {
        let why = match self.features.count(CHECKPOINT_GUID).is_some_and(|n| n > 0) {
            false => return Ok(()),
            true if self.background.discarding.is_active() => DISCARDING,
            true => EXISTS,
        };
        Err(Error::invalid(self.config.identity.lock().name.clone(), why))
    }

    /// Refuses what OpenZFS refuses while a device is being removed.
    pub(crate) fn refuse_while_removing(&self) -> Result<()> {
        match self.background.evacuation.is_active() {
            true => Err(Error::invalid(self.config.identity.lock().name.clone(), "device removal in progress")),
            false => Ok(()),
        }
    }
}
