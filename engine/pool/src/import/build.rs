//! Builds a device tree from a configuration and the devices that were found.
//!
//! Below: `block::vdev`. Above: `open`.
//!
//! Invariants:
//!   * a leaf gets the device whose label has its guid, whatever its current path
//!   * a device that the configuration marks as offline, faulted or removed is not read

use crate::config::VdevConfig;
use block::vdev::raidz::Moving;
use block::vdev::{Aux, Kind, Leaf, MirrorKind, Vdev};
use errors::{Error, Result};
use host::device::Device;
use ondisk::label::{START_BYTES, usable_bytes};
use ondisk::pool_dir::config;
use std::collections::HashMap;
use std::sync::Arc;

/// Suffix of the path of a device that is being replaced by another one of the same path
/// (`spa_vdev_attach`).
pub const REPLACED_BY_NAMESAKE: &str = "/old";

/// Devices by the guid in their labels.
pub type Devices = HashMap<u64, Arc<dyn Device>>;

/// What building a tree needs besides the configuration.
pub struct Context<'a> {
    /// Devices that were found, by guid.
    pub devices: &'a Devices,
    /// Leaves of the current tree, by guid: a rebuilt tree keeps using them.
    pub known: &'a HashMap<u64, Leaf>,
    /// Guid -> number of the top-level devices: a distributed spare names its dRAID by guid.
    pub top_ids: HashMap<u64, u64>,
    /// Progress of a raidz expansion, from the current uberblock.
    pub moving: Option<Arc<Moving>>,
}

/// The device that `c` describes, with its children.
pub fn vdev(c: &VdevConfig, cx: &Context<'_>) -> Result<Vdev> {
    vdev_under(c, cx, None, 0)
}

fn vdev_under(c: &VdevConfig, cx: &Context<'_>, top: Option<&VdevConfig>, ashift_above: u8) -> Result<Vdev> {
    let ashift = match top {
        None => u8::try_from(c.number(config::ASHIFT)).unwrap_or(u8::MAX),
        Some(_) => ashift_above,
    };
    let has_blocks = !matches!(c.kind.as_str(), "hole" | "missing" | "indirect" | "dspare");
    if top.is_none() && has_blocks && c.all.contains(config::ASHIFT) && !(9..=16).contains(&ashift) {
        return Err(Error::corrupt(c.display_name(), format!("ashift is {ashift}, expected 9 to 16")));
    }
    let children = c
        .children
        .iter()
        .map(|child| vdev_under(child, cx, Some(top.unwrap_or(c)), ashift))
        .collect::<Result<Vec<_>>>()?;
    let kind = match c.kind.as_str() {
        "disk" | "file" => Kind::Leaf(leaf(c, top.unwrap_or(c), cx)),
        "mirror" => Kind::Mirror(MirrorKind::Mirror),
        "replacing" => Kind::Mirror(MirrorKind::Replacing),
        "spare" => Kind::Mirror(MirrorKind::Spare),
        "raidz" => super::parity::raidz(c, ashift, cx.moving.as_ref())?,
        "draid" => super::parity::draid(c, ashift)?,
        "dspare" => Kind::DraidSpare {
            top: cx.top_ids.get(&c.number(config::TOP_GUID)).copied().unwrap_or(u64::MAX),
            spare: c.number(config::SPARE_ID),
            log: distributed(c, cx),
        },
        "indirect" => Kind::Indirect(Default::default()),
        "hole" => Kind::Hole,
        "missing" => Kind::Missing,
        // Cache and log devices of old pools are `disk` and `file` with a mark; any other type is
        // newer than this code.
        other => return Err(Error::unsupported(c.display_name(), format!("device type {other}"))),
    };
    let name = match &kind {
        Kind::Leaf(leaf) => leaf.path.clone(),
        _ => c.display_name(),
    };
    Ok(Vdev { guid: c.guid, id: c.id, kind, ashift, children, name })
}

/// The leaf of a distributed spare. Until its DTL is loaded, all data of a spare that is being
/// filled counts as missing: otherwise wrong bytes would count as errors of the devices below.
fn distributed(c: &VdevConfig, cx: &Context<'_>) -> Leaf {
    if let Some(known) = cx.known.get(&c.guid) {
        return known.clone();
    }
    let log = Leaf::distributed(c.guid, c.display_name());
    if c.all.contains(config::RESILVER_TXG) || c.all.contains(config::REBUILD_TXG) {
        log.set_stale(vec![(0, u64::MAX)]);
    }
    log
}

fn leaf(c: &VdevConfig, top: &VdevConfig, cx: &Context<'_>) -> Leaf {
    let path = c.path.clone().unwrap_or_else(|| format!("device {}", c.guid));
    if let Some(known) = cx.known.get(&c.guid) {
        // A leaf in use keeps the path under which it was opened, unless that path was given to the
        // device that replaces it.
        let is_odd = [&path, &known.path].iter().any(|p| p.ends_with(REPLACED_BY_NAMESAKE));
        let path = if is_odd { path } else { known.path.clone() };
        return known.known_as(c.guid, path);
    }
    if let Some(aux) = marked(c) {
        return Leaf::absent(c.guid, path, aux);
    }
    match cx.devices.get(&c.guid) {
        None => Leaf::absent(c.guid, path, Aux::NotFound),
        // A device must be as large as its top-level device claims. Otherwise a truncated image
        // would fail at the first read.
        Some(d) if usable_bytes(d.size_bytes()) < needed_bytes(top) => {
            Leaf::absent(c.guid, d.name().to_owned(), Aux::TooSmall)
        }
        Some(d) => Leaf::present(c.guid, d.clone()),
    }
}

/// Why the configuration excludes a leaf. A fault that was not forced ends at the next import: the
/// diagnosis was made elsewhere (`vdev_alloc`).
pub fn marked(c: &VdevConfig) -> Option<Aux> {
    let lasts = c.all.get_str(config::AUX_STATE) == Some(config::AUX_EXTERNAL);
    let marks = [
        (config::OFFLINE, true, Aux::Offline),
        (config::REMOVED, true, Aux::Removed),
        (config::FAULTED, lasts, Aux::Faulted),
    ];
    marks.into_iter().find(|(key, counts, _)| *counts && c.number(key) != 0).map(|(_, _, aux)| aux)
}

/// Minimum size of a leaf in bytes: for mirrors and single devices the allocatable size and the
/// labels. This also limits the memory used for a device by its real size: its other size is only
/// what its label claims.
pub fn needed_bytes(top: &VdevConfig) -> u64 {
    let share = match top.kind.as_str() {
        // A dRAID child needs this much besides its part of the spare space.
        "raidz" | "draid" => top.number(config::ASIZE) / (top.children.len().max(1) as u64),
        "mirror" | "disk" | "file" => top.number(config::ASIZE),
        _ => 0,
    };
    // Half of it: missing labels 2 and 3 or slight shrinking is no reason to refuse a device that
    // may be readable.
    (share / 2).saturating_add(START_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::nvlist::Nvlist;

    fn top(kind: &str, asize: u64, children: usize) -> VdevConfig {
        let one = |kind: &str, children| {
            let mut all = Nvlist::new();
            all.put(config::ASIZE, asize);
            VdevConfig { kind: kind.into(), id: 0, guid: 1, path: None, all, children }
        };
        one(kind, (0..children).map(|_| one("file", Vec::new())).collect())
    }

    /// Regression: a label could claim any size for a draid, and `weir verify` allocated memory for
    /// it.
    #[test]
    fn every_layout_requires_devices_as_large_as_its_label_claims() {
        for (kind, children) in [("file", 0), ("disk", 0), ("mirror", 2), ("raidz", 5), ("draid", 9)] {
            let needed = needed_bytes(&top(kind, 1 << 50, children));
            assert!(needed > 1 << 45, "{kind}: {needed:#x}");
        }
    }
}
