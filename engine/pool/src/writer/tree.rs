//! Changes of the device tree: the configuration changes first, the devices follow it.
//!
//! ```text
//!   current VdevConfig ── shape ──> new one ── commit ──> new device tree: devices that stay are the same objects, with their
//!                                                         error counts and DTLs
//! ```
//! Above: `states`, `attach`, `detach`, `split`. Facts: vdev_dtl_required, vdev_dtl_reassess
//! (module/zfs/vdev.c).
//!
//! Invariants:
//!   * configuration and devices change together, in the syncing thread, and reach the disk in one
//!     txg
//!   * a device is closed only if no block needs it

use super::spa::{Shared, SyncTx};
use super::vdevs::{self, ByGuid};
use crate::config::VdevConfig;
use crate::space::alloc::is_writable;
use block::vdev::{Kind, Leaf, Tree, Vdev};
use errors::{Error, Result};
use ondisk::pool_dir::config;
use std::collections::HashMap;
use std::sync::Arc;

/// Why a device must stay (`EZFS_NOREPLICAS`).
pub(crate) const NO_REPLICAS: &str = "no valid replicas";

/// Leaves in use, by guid.
pub(crate) type Known = HashMap<u64, Leaf>;

/// The current leaves, and the DTLs of distributed spares. A spare in use is also in the list of
/// spares; the one in the tree counts.
pub(crate) fn known(tree: &Tree) -> Known {
    let all = tree.spares.iter().chain(&tree.caches).chain(&tree.tops);
    all.flat_map(|top| top.logs()).map(|leaf| (leaf.guid, leaf.clone())).collect()
}

/// Changes the pool's top-level devices to those that `root` describes, using the leaves in
/// `known`.
pub(crate) fn commit(cx: &SyncTx<'_>, root: VdevConfig, known: &Known) -> Result<()> {
    commit_with(cx, root, known, None)
}

/// The same with a top-level device that was built before.
pub(crate) fn commit_with(
    cx: &SyncTx<'_>,
    root: VdevConfig,
    known: &Known,
    made_before: Option<Arc<Vdev>>,
) -> Result<()> {
    let shared = cx.shared;
    let tree = shared.store.tree();
    let before = shared.config.root.lock().clone();
    let unchanged = |c: &VdevConfig| {
        let at = c.id as usize;
        before.children.get(at).filter(|b| b.is_same_tree(c)).and_then(|_| tree.tops.get(at)).cloned()
    };
    let made = |c: &VdevConfig| -> Result<Arc<Vdev>> {
        if let Some(vdev) = made_before.as_ref().filter(|vdev| vdev.guid == c.guid) {
            return Ok(vdev.clone());
        }
        let one = vdevs::build_with(
            std::slice::from_ref(c),
            &root,
            &ByGuid::new(),
            known,
            shared.background.expansion.moving(),
        )?
        .pop();
        one.map(Arc::new).ok_or_else(|| Error::invalid(c.display_name(), "cannot be made"))
    };
    let tops = root.children.iter().map(|c| unchanged(c).map_or_else(|| made(c), Ok)).collect::<Result<Vec<_>>>()?;
    *shared.config.root.lock() = root;
    shared.store.change_tree(|tree| Tree { tops, ..tree.clone() });
    judge_writable(cx);
    shared.background.sweeps.begin_again();
    cx.config_changed();
    Ok(())
}

/// Updates the allocator: which top-level devices can be written.
pub(crate) fn judge_writable(cx: &SyncTx<'_>) {
    let tree = cx.store().tree();
    tree.tops.iter().for_each(|top| cx.shared.allocator.set_writable(top.id as u32, is_writable(top)));
}

/// The top-level device and the leaf with this guid. Devices that are not leaves are refused.
pub(crate) fn find_leaf(tree: &Tree, guid: u64) -> Result<(&Arc<Vdev>, &Leaf)> {
    find_by(tree, guid, Vdev::leaf)
}

/// The same, including distributed spares.
pub(crate) fn find_log(tree: &Tree, guid: u64) -> Result<(&Arc<Vdev>, &Leaf)> {
    find_by(tree, guid, Vdev::log)
}

fn find_by(tree: &Tree, guid: u64, pick: impl Fn(&Vdev) -> Option<&Leaf>) -> Result<(&Arc<Vdev>, &Leaf)> {
    let top = tree.tops.iter().find(|top| top.find(guid).is_some());
    let top = top.ok_or_else(|| Error::invalid("", "no such device in pool"))?;
    let leaf = top.find(guid).and_then(pick);
    Ok((top, leaf.ok_or_else(|| Error::invalid(&*top.name, "operation not supported on this type of pool"))?))
}

impl Shared {
    /// Whether a top-level device is a log.
    pub(crate) fn is_log(&self, id: u64) -> bool {
        let root = self.config.root.lock();
        root.children.iter().any(|top| top.id == id && top.number(config::IS_LOG) != 0)
    }
}

/// Txg ranges (first, last), in order, neither overlapping nor adjacent.
type Ranges = Vec<(u64, u64)>;

/// Whether some block could not be read without the leaf `guid` (`vdev_dtl_required`).
pub(crate) fn is_required(top: &Vdev, guid: u64) -> bool {
    top.guid == guid || !outage(top, guid).is_empty()
}

/// Whether the device has all data that it should have, or can reconstruct it from its children.
pub(crate) fn is_whole(vdev: &Vdev) -> bool {
    outage(vdev, 0).is_empty()
}

/// Txgs whose blocks cannot be read from `vdev`, `without` one leaf.
fn outage(vdev: &Vdev, without: u64) -> Ranges {
    let tolerates = match &vdev.kind {
        Kind::Leaf(leaf) if vdev.guid == without || !leaf.is_open() || leaf.has_failed() || leaf.is_gone() => {
            return vec![(0, u64::MAX)];
        }
        Kind::Leaf(leaf) => return leaf.stale_ranges(),
        Kind::Missing => return vec![(0, u64::MAX)],
        // A block has at most one column on each device, its own or that of a spare: stale data of
        // a device below counts where that device itself is.
        Kind::DraidSpare { log, .. } if log.guid != without => return log.stale_ranges(),
        Kind::DraidSpare { .. } => return vec![(0, u64::MAX)],
        Kind::Hole | Kind::Indirect(_) => return Vec::new(),
        Kind::Mirror(_) => vdev.children.len().saturating_sub(1),
        Kind::Raidz(g) => g.parity(),
        Kind::Draid(g) => g.parity(),
    };
    let all: Vec<Ranges> = vdev.children.iter().map(|child| outage(child, without)).collect();
    in_more_than(&all, tolerates)
}

/// The ranges that are in more than `count` of the sets.
fn in_more_than(sets: &[Ranges], count: usize) -> Ranges {
    // At the start of a range, one more is open; after its end, one less. Ranges up to the maximum
    // stay open.
    let mut edges: Vec<(u64, i64)> = Vec::new();
    for (first, last) in sets.iter().flatten() {
        edges.push((*first, 1));
        edges.extend(last.checked_add(1).map(|end| (end, -1)));
    }
    edges.sort_unstable();
    let (mut open, mut since, mut found) = (0i64, None, Ranges::new());
    for (at, step) in edges {
        open += step;
        match since {
            None if open > count as i64 => since = Some(at),
            Some(first) if open <= count as i64 => {
                since = None;
                if first < at {
                    found.push((first, at - 1));
                }
            }
            _ => {}
        }
    }
    found.extend(since.map(|first| (first, u64::MAX)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::vdev::{Aux, MirrorKind};
    use host::device::MemoryDevice;

    fn leaf(guid: u64, stale: &[(u64, u64)]) -> Vdev {
        let leaf = Leaf::present(guid, Arc::new(MemoryDevice::new("disk", vec![0; 4096])));
        leaf.set_stale(stale.to_vec());
        Vdev { guid, id: 0, kind: Kind::Leaf(leaf), ashift: 9, children: Vec::new(), name: "disk".into() }
    }

    fn mirror(children: Vec<Vdev>) -> Vdev {
        let kind = Kind::Mirror(MirrorKind::Mirror);
        Vdev { guid: 100, id: 0, kind, ashift: 9, children, name: "mirror-0".into() }
    }

    #[test]
    fn a_side_is_required_for_data_that_the_others_missed() {
        let two = mirror(vec![leaf(1, &[]), leaf(2, &[(10, 20)])]);
        assert!(is_required(&two, 1));
        assert!(!is_required(&two, 2));
        assert!(is_whole(&two));
        // Together the other two have everything.
        let three = mirror(vec![leaf(1, &[]), leaf(2, &[(10, 20)]), leaf(3, &[(30, 40)])]);
        assert!(!is_required(&three, 1));
        let overlapping = mirror(vec![leaf(1, &[]), leaf(2, &[(10, 20)]), leaf(3, &[(20, 40)])]);
        assert!(is_required(&overlapping, 1));
        let away = mirror(vec![leaf(1, &[]), leaf(2, &[])]);
        assert!(!is_required(&away, 1));
        away.children[1].leaf().unwrap().close(Aux::Offline);
        assert!(is_required(&away, 1));
        assert!(is_required(&leaf(7, &[]), 7));
    }

    #[test]
    fn ranges_are_counted_where_they_overlap() {
        let sets = [vec![(0, u64::MAX)], vec![(5, 9), (11, 12)], vec![(9, 11)]];
        assert_eq!(in_more_than(&sets, 0), [(0, u64::MAX)]);
        assert_eq!(in_more_than(&sets, 1), [(5, 12)]);
        assert_eq!(in_more_than(&sets, 2), [(9, 9), (11, 11)]);
        assert_eq!(in_more_than(&sets[1..], 2), []);
    }
}
