//! `zpool add`: adds devices to an open pool.
//!
//! Invariants:
//!   * everything that can be checked is checked before the first byte is written

use crate::create::{Devices, open_devices};
use crate::layout::{Flaw, Layout, Replication, Wrong};
use crate::write::WritablePool;
use anyhow::{Result, bail};
use pool::devices;
use pool::status::{PoolStatus, VdevClass, VdevStatus};

const SAME_DEVICE: &str = "one or more vdevs refer to the same device";

/// Adds the vdevs of `layout`. `ashift`: log2 of the allocation unit; by default each device's own.
/// `same_ashift`: all must have the pool's ashift.
pub fn add(pool: &WritablePool, layout: &Layout, ashift: Option<u8>, same_ashift: bool) -> Result<()> {
    let known = pool.writer().pool()?;
    let is_listed = |guid: u64| known.spares().iter().chain(known.caches()).any(|c| c.guid == guid);
    let is_there = layout.leaves().any(|leaf| devices::labelled(&leaf.path).is_some_and(|found| is_listed(found.guid)));
    if is_there || layout.has_duplicate() {
        bail!(Wrong { flaw: Flaw::InUse, text: SAME_DEVICE.into() });
    }
    let words = Devices { same: SAME_DEVICE, too_small: "device is less than the minimum size (64M)" };
    let new = open_devices(layout, ashift, &words)?;
    Ok(pool.writer().add(new, same_ashift)?)
}

/// Redundancy of the pool's vdevs, if all have the same: new vdevs are compared with it. Logs do
/// not count, and neither do the remains of removed vdevs.
pub fn replication(status: &PoolStatus) -> Option<Replication> {
    let mut all = status
        .root
        .children
        .iter()
        .filter(|top| top.class != VdevClass::Log && !matches!(top.kind.as_str(), "hole" | "indirect" | "missing"))
        .map(of_top);
    let first = all.next()??;
    all.all(|next| next.is_some_and(|next| Replication::agree(first, next))).then_some(first)
}

fn of_top(top: &VdevStatus) -> Option<Replication> {
    let kind = match top.kind.as_str() {
        "file" => "file",
        "disk" => "disk",
        "mirror" => "mirror",
        "raidz" => "raidz",
        "draid" => "draid",
        // A leaf that is being replaced, or that a spare replaces.
        _ => return of_top(top.children.first()?),
    };
    Some(Replication { kind, children: top.children.len().max(1) as u64, parity: top.parity })
}
