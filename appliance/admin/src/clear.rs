//! `zpool clear`.

use crate::states;
use crate::write::WritablePool;
use anyhow::Result;

/// Clears the errors of the device with this guid, or of all devices, and lets a suspended pool
/// retry its failed writes. Returns once a txg is on disk. Fails if writes still fail.
///
/// Without a device, it also discards intent logs with records that could not be replayed, and the
/// unreadable end of other logs. The records in them are lost. OpenZFS treats unreadable logs the
/// same way.
pub fn clear(pool: &WritablePool, device: Option<u64>) -> Result<()> {
    pool.writer().clear(device, &states::open)?;
    if device.is_none() {
        for dataset in pool.live.discard_kept_logs()? {
            tracing::warn!(dataset, "discarded an intent log with records that could not be replayed");
        }
        discard_unread_logs(pool)?;
    }
    Ok(())
}

/// Discards the parts of intent logs that cannot be read, as `zpool import -m` does for logs on
/// missing log devices.
pub fn discard_unread_logs(pool: &WritablePool) -> Result<()> {
    for dataset in pool.live.discard_unread_logs()? {
        tracing::warn!(dataset, "the records of the intent log that cannot be read are discarded");
    }
    pool.replay_volumes();
    Ok(())
}
