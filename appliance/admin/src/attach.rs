//! `zpool attach`, `zpool replace`, `zpool detach`: attach, replace and detach devices.
//!
//! Invariants:
//!   * everything that can be checked is checked before the first byte is written

use crate::create::{Devices, open_device};
use crate::layout::Leaf;
use crate::write::WritablePool;
use anyhow::Result;
use pool::devices;
use pool::writer::{Joins, NewLeaf};

const WORDS: Devices = Devices { same: "device is busy", too_small: "device is too small" };

/// Attaches `new` to the device `to`, or replaces it, as `how` requires. `ashift`: log2 of the
/// smallest write, in bytes; by default the device's own. `spare`: guid of the pool's hot spare, if
/// `new` is one. `sequentially`: rebuild in the order of addresses, followed by a scrub.
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
    if how == Joins::Replace {
        vacate(pool, to, new)?;
    }
    let ashift = ashift.unwrap_or_else(|| devices::sector_shift(&new.path));
    // A device that needs no lock is open for writing already.
    let known = listed.and_then(|listed| listed.leaf()?.device());
    let device = match known.filter(|device| device.is_writable()) {
        Some(device) => device,
        None => open_device(new, &WORDS)?,
    };
    let new = NewLeaf { kind: new.kind(), path: new.name(), device: Some(device), ashift, spare, sequentially };
    Ok(pool.writer().attach(to, new, how)?)
}

/// Unlocks the device of `old` if `new` is at the same path, and the pool no longer uses it: the
/// contents were overwritten, or it is another disk in the same place. A device that still has its
/// labels, or whose contents the pool needs, stays in use, and `new` is busy.
fn vacate(pool: &WritablePool, old: u64, new: &Leaf) -> Result<()> {
    let writer = pool.writer();
    let is_its_place = || {
        let tree = writer.store().tree();
        let old = tree.leaves().into_iter().find(|leaf| leaf.guid == old && leaf.path == new.name())?;
        Some((old.is_open(), old.device()))
    };
    if is_its_place().is_some_and(|(is_open, _)| is_open) {
        // The labels are compared with those of the last txg.
        writer.sync()?;
        writer.validate_labels()?;
    }
    if let Some((false, Some(device))) = is_its_place() {
        device.release();
    }
    Ok(())
}

/// Detaches the device with this guid from its mirror, `replacing` or `spare` vdev.
pub fn detach(pool: &WritablePool, guid: u64) -> Result<()> {
    Ok(pool.writer().detach(guid)?)
}
