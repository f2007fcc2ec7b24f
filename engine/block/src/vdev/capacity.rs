//! Capacity of a vdev, from the current size of its leaves.
//!
//! Facts: vdev_open, vdev_mirror_open, vdev_raidz_open, vdev_draid_open (module/zfs).

use super::{Kind, Vdev};
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};

impl Vdev {
    /// Allocatable bytes, parity included. `None` if a leaf is missing or failed, or if no blocks
    /// are allocated here.
    pub fn capacity_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Leaf(leaf) => {
                let device = leaf.device().filter(|_| !leaf.has_failed())?;
                Some(usable_bytes(device.size_bytes()).saturating_sub(START_BYTES + END_BYTES))
            }
            Kind::Mirror(_) => self.smallest_child(),
            Kind::Raidz(g) => {
                // The new child of a raidz that is being expanded does not count yet.
                let width = self.children.len() - usize::from(g.reflow().is_some());
                Some((self.smallest_child()? >> self.ashift << self.ashift) * width as u64)
            }
            Kind::Draid(g) => Some(g.capacity_bytes(self.smallest_child()?)),
            Kind::DraidSpare { .. } | Kind::Indirect(_) | Kind::Hole | Kind::Missing => None,
        }
    }

    fn smallest_child(&self) -> Option<u64> {
        // A distributed spare is as large as the child it replaces.
        let children = self.children.iter().filter(|c| !matches!(c.kind, Kind::DraidSpare { .. }));
        children.map(Self::capacity_bytes).reduce(|a, b| Some(a?.min(b?))).flatten()
    }
}
