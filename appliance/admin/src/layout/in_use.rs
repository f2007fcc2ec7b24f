//! Checks whether devices hold data that someone may want to keep.

use super::{Flaw, Layout, Leaf, Wrong};
use pool::{FoundDevice, PoolState, devices};

/// Owner of a device, according to its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A pool that is imported here.
    Active(String),
    /// A pool that was not exported.
    PotentiallyActive(String),
    /// An exported pool.
    Exported(String),
    /// A hot spare; labels do not name its pool.
    Spare,
    /// A cache device (L2ARC).
    Cache,
}

/// A list of errors that `-f` overrides.
pub(super) fn overridable(flaw: Flaw, lines: &[String]) -> Wrong {
    let text = format!("invalid vdev specification\nuse '-f' to override the following errors:\n{}", lines.join("\n"));
    Wrong { flaw, text }
}

fn owner(found: &FoundDevice, is_imported: &dyn Fn(u64, u64) -> bool) -> Option<Owner> {
    let name = found.config.get_str("name").unwrap_or_default().to_owned();
    let imported = found.config.get_u64("pool_guid").is_some_and(|pool| is_imported(pool, found.guid));
    match PoolState::from_number(found.config.get_u64("state").unwrap_or(u64::MAX)) {
        PoolState::Destroyed | PoolState::Other(_) => None,
        _ if imported => Some(Owner::Active(name)),
        PoolState::Active => Some(Owner::PotentiallyActive(name)),
        PoolState::Exported => Some(Owner::Exported(name)),
        PoolState::Spare => Some(Owner::Spare),
        PoolState::Level2Cache => Some(Owner::Cache),
    }
}

/// Fails for devices that are in use. `is_imported` takes a pool guid and a device guid, and
/// returns whether that pool is imported here and, as far as known, has the device: a device whose
/// addition failed belongs to no pool. Devices of an imported pool are refused even with `force`,
/// which overrides all other owners.
pub fn check_in_use(layout: &Layout, force: bool, is_imported: &dyn Fn(u64, u64) -> bool) -> Result<(), Wrong> {
    let mut lines = Vec::new();
    let leaves: Vec<&Leaf> = layout.leaves().collect();
    let labelled = host::work::each(leaves.len(), |number| devices::labelled(&leaves[number].path));
    for (leaf, found) in leaves.into_iter().zip(labelled) {
        let name = leaf.name();
        let is_spare = layout.spares.contains(leaf);
        let (line, stays) = match found.and_then(|found| owner(&found, is_imported)) {
            Some(Owner::Active(pool)) => (Some(format!("{name} is part of active pool '{pool}'")), true),
            Some(Owner::PotentiallyActive(pool)) => {
                (Some(format!("{name} is part of potentially active pool '{pool}'")), false)
            }
            Some(Owner::Exported(pool)) => (Some(format!("{name} is part of exported pool '{pool}'")), false),
            Some(Owner::Spare) if !is_spare => (Some(format!("{name} is reserved as a hot spare")), false),
            Some(Owner::Spare | Owner::Cache) => (None, false),
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
