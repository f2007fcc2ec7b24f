//! `zpool clear`.

use crate::states;
use crate::write::WritablePool;
use anyhow::Result;

/// Forgets the errors of the device with this identity, or of all, and has a suspended pool try again what it could not write. An
/// error says that it still cannot. Returns once a txg is on disk.
pub fn clear(pool: &WritablePool, device: Option<u64>) -> Result<()> {
    Ok(pool.writer().clear(device, &states::open)?)
}
