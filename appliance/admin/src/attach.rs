//! `zpool attach`, `zpool replace`, `zpool detach`: devices that join others, take their place, and leave.
//!
//! Invariants:
//!   * everything that can be checked is checked before the first byte is written

use crate::create::{Devices, open_device};
use crate::layout::Leaf;
use crate::write::WritablePool;
use anyhow::Result;
use pool::devices;
use pool::writer::NewLeaf;

pub use pool::writer::Joins;

const WORDS: Devices = Devices { same: "device is busy", too_small: "device is too small" };

/// Lets `new` join the device `to`. `ashift`: log2 of the smallest piece that can be written to it, if not what it says; `spare`: the
/// identity of the pool's hot spare that it is; `sequentially`: it is filled in the order of addresses, and a scrub follows.
pub fn attach(
    pool: &WritablePool,
    to: u64,
    new: &Leaf,
    how: Joins,
    ashift: Option<u8>,
    spare: Option<u64>,
    sequentially: bool,
) -> Result<()> {
    let tree = pool.writer().store().tree();
    let listed = spare.and_then(|guid| tree.spares.iter().find(|s| s.guid == guid));
    if listed.and_then(|listed| listed.log()).is_some_and(|log| log.is_distributed()) {
        let new = NewLeaf { kind: "dspare", path: new.name(), device: None, ashift: 0, spare, sequentially };
        return Ok(pool.writer().attach(to, new, how)?);
    }
    let ashift = ashift.unwrap_or_else(|| devices::sector_shift(&new.path));
    // A spare that was added while the pool is open is locked already, by this very process.
    let known = listed.and_then(|listed| listed.leaf()?.device());
    let device = match known.filter(|device| device.is_writable()) {
        Some(device) => device,
        None => open_device(new, &WORDS)?,
    };
    let new = NewLeaf { kind: new.kind(), path: new.name(), device: Some(device), ashift, spare, sequentially };
    Ok(pool.writer().attach(to, new, how)?)
}

/// Lets a device leave.
pub fn detach(pool: &WritablePool, guid: u64) -> Result<()> {
    Ok(pool.writer().detach(guid)?)
}
