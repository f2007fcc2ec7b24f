//! `zpool split`.

use crate::states;
use crate::write::WritablePool;
use anyhow::Result;
use std::sync::Arc;

/// Splits off one side of each mirror into an exported pool `name`: the devices `named`, by guid,
/// or the last ones.
pub fn split(pool: &WritablePool, name: &str, named: &[u64]) -> Result<()> {
    let open: pool::writer::OwnedOpener = Arc::new(states::open);
    Ok(pool.writer().split(name, named, open, &|| pool.live.empty_logs())?)
}
