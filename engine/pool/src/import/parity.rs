//! Builds RAID-Z and dRAID devices from their configuration.

use crate::config::VdevConfig;
use block::vdev::Kind;
use block::vdev::draid;
use block::vdev::raidz::{Geometry, Moving, Reflow};
use errors::{Place, Result};
use ondisk::pool_dir::config;
use std::sync::Arc;

/// A RAID-Z device, including one that was or is being expanded. `moving` is the progress of the
/// expansion, shared with the other users of the pool.
pub fn raidz(c: &VdevConfig, ashift: u8, moving: Option<&Arc<Moving>>) -> Result<Kind> {
    // Pools before version 17 have only single parity and do not store it.
    let parity = c.all.get_u64(config::NPARITY).unwrap_or(1) as usize;
    let txgs = c.all.get_u64_array(config::RAIDZ_EXPAND_TXGS).unwrap_or_default();
    let reflow = c.all.contains(config::RAIDZ_EXPANDING).then(|| moving.map_or_else(Reflow::default, |m| m.now()));
    let geometry = Geometry::expanded(ashift, c.children.len(), parity, txgs, reflow);
    geometry.map(|g| Kind::Raidz(g.with_moving(moving.cloned()))).at_with(|| c.display_name())
}

pub fn draid(c: &VdevConfig, ashift: u8) -> Result<Kind> {
    let width = c.children.len();
    let number = |key, default: usize| c.all.get_u64(key).map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let shape = draid::Shape {
        ashift,
        width,
        children: number(config::DRAID_NCHILDREN, width),
        parity: number(config::NPARITY, 0),
        data: number(config::DRAID_NDATA, 0),
        spares: number(config::DRAID_NSPARES, 0),
        groups: number(config::DRAID_NGROUPS, 0),
    };
    draid::Geometry::new(shape).map(Kind::Draid).at_with(|| c.display_name())
}
