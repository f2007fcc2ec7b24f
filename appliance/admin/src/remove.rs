//! `zpool remove`.

use crate::write::WritablePool;
use anyhow::Result;

/// Removes a log, spare or cache device, or starts the removal of a data device.
pub fn remove(pool: &WritablePool, guid: u64) -> Result<()> {
    Ok(pool.writer().remove(guid, &|| pool.live.empty_logs())?)
}
