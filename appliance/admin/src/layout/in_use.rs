//! Checks whether devices hold data that someone may want to keep.
//!
//! Facts: zpool_in_use in lib/libzfs/libzfs_import.c, check_file_generic in cmd/zpool/zpool_vdev.c.

use super::{Flaw, Layout, Leaf, Wrong};
use pool::{FoundDevice, PoolState, devices};

/// The pools that are imported here.
pub trait ImportedPools {
    /// Whether the pool is imported and, as far as is known, has the device. A device that was
    /// removed, or whose addition failed, belongs to no pool whatever its label says.
    fn has_device(&self, pool: u64, device: u64) -> bool;
    fn is_imported(&self, pool: u64) -> bool;
    /// The name of a pool that has the device as a spare or as a cache device: labels of these do
    /// not name their pool.
    fn of_auxiliary(&self, kind: Auxiliary, device: u64) -> Option<String>;
}

/// A role of devices whose labels do not name a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auxiliary {
    Spare,
    Cache,
}

/// Owner of a device, according to its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A pool that is imported here.
    Active(String),
    /// A pool that was not exported.
    PotentiallyActive(String),
    /// A pool that was exported: its name.
    Exported(String),
    /// A pool that is imported here and has it as a hot spare, in use or not. Pools may share it.
    Spare(String),
    /// A pool that is imported here and has it as a cache device (L2ARC).
    Cache(String),
}

/// A list of errors that `-f` overrides.
pub(super) fn overridable(flaw: Flaw, lines: &[String]) -> Wrong {
    let text = format!("invalid vdev specification\nuse '-f' to override the following errors:\n{}", lines.join("\n"));
    Wrong { flaw, text }
}

/// The owner of a device; `None`: it is free.
pub fn owner(found: &FoundDevice, imported: &dyn ImportedPools) -> Option<Owner> {
    let name = found.config.get_str("name").unwrap_or_default().to_owned();
    let pool = found.config.get_u64("pool_guid").filter(|pool| imported.is_imported(*pool));
    let is_its_own = pool.is_some_and(|pool| imported.has_device(pool, found.guid));
    match PoolState::from_number(found.config.get_u64("state").unwrap_or(u64::MAX)) {
        PoolState::Destroyed | PoolState::Other(_) => None,
        // Spares and cache devices of pools that are not imported are free: they hold nothing.
        PoolState::Spare => imported.of_auxiliary(Auxiliary::Spare, found.guid).map(Owner::Spare),
        PoolState::Level2Cache => imported.of_auxiliary(Auxiliary::Cache, found.guid).map(Owner::Cache),
        _ if is_its_own => Some(Owner::Active(name)),
        PoolState::Active => pool.is_none().then_some(Owner::PotentiallyActive(name)),
        PoolState::Exported => Some(Owner::Exported(name)),
    }
}

/// Fails for devices that are in use. Devices of an imported pool are refused even with `force`,
/// which overrides all other owners.
pub fn check_in_use(layout: &Layout, force: bool, imported: &dyn ImportedPools) -> Result<(), Wrong> {
    let mut lines = Vec::new();
    let leaves: Vec<&Leaf> = layout.leaves().collect();
    let labelled = host::work::each(leaves.len(), |number| devices::labelled(&leaves[number].path));
    for (leaf, found) in leaves.into_iter().zip(labelled) {
        let name = leaf.name();
        let is_spare = layout.spares.contains(leaf);
        let (line, stays) = match found.and_then(|found| owner(&found, imported)) {
            Some(Owner::Active(pool)) => (Some(format!("{name} is part of active pool '{pool}'")), true),
            Some(Owner::PotentiallyActive(pool)) => {
                (Some(format!("{name} is part of potentially active pool '{pool}'")), false)
            }
            Some(Owner::Exported(pool)) => (Some(format!("{name} is part of exported pool '{pool}'")), false),
            Some(Owner::Spare(_)) if is_spare => (None, false),
            Some(Owner::Spare(pool)) => (Some(format!("{name} is reserved as a hot spare for pool {pool}")), true),
            // OpenZFS's command lets -f through here, and its module then finds the device busy.
            Some(Owner::Cache(pool)) => (Some(format!("{name} is part of unknown pool '{pool}'")), true),
            None if leaf.is_disk => (devices::foreign_contents(&leaf.path).map(|what| contains(&name, what)), false),
            None => (None, false),
        };
        lines.extend(line.filter(|_| stays || !force));
    }
    match (lines.is_empty(), force) {
        (true, _) => Ok(()),
        (false, false) => Err(overridable(Flaw::InUse, &lines)),
        (false, true) => Err(Wrong {
            flaw: Flaw::InUse,
            text: format!(
                "invalid vdev specification\nthe following errors must be manually repaired:\n{}",
                lines.join("\n")
            ),
        }),
    }
}

fn contains(name: &str, what: &str) -> String {
    match what {
        "gpt" => format!("{name} contains a partition table"),
        what => format!("{name} contains a filesystem of type '{what}'"),
    }
}
