//! The vdev tree: turns an address into bytes, whatever copies and parity are behind it.
//!
//! Below: `host::device`. Above: `store`, which knows block pointers. Maths: `transform::parity`.
//! ZFS name: vdev.
//!
//! ```text
//!   Tree -> top-level vdev (leaf, mirror, raidz, draid, indirect) -> [replacing, spare]
//!        -> leaf -> host::Device
//! ```
//!
//! Invariants:
//!   * bytes are returned only after the caller's check has accepted them
//!   * a device that returned wrong bytes is counted once for each read that showed it
//!   * a write succeeds if the block can be read back, whatever device failed; failed devices get a
//!     dtl entry

mod batch;
mod capacity;
pub mod columns;
mod copy;
pub mod draid;
mod draid_seeds;
mod dtl;
mod fence;
mod figures;
pub mod indirect;
mod later;
mod leaf;
mod metrics;
mod parity_read;
mod places;
mod plug;
mod queue;
pub mod raidz;
mod raidz_reflow;
mod rebuild;
pub mod reconstruct;
mod repair;
mod report;
mod run;
mod source;
mod tree;
mod verify;
mod write;

pub use fence::Fence;
pub use leaf::{Answer, Aux, ErrorCounts, Leaf, set_slow};
pub(crate) use plug::Plug;
pub use queue::{Doing, Task, doing};
pub use report::{BlockReport, Contents, CopyFault, Fault, RepairPurpose, Repaired};
pub use run::RunBlock;
pub(crate) use source::Source;
pub use source::is_rebuilt;
pub use tree::{Failure, Tree};

use crate::vdev::indirect::Mapping;
use host::sync::RwLock;
use std::sync::Arc;

/// Bytes in front of the allocatable space of a leaf: two labels and the boot area.
pub const DATA_START_BYTES: u64 = 4 << 20;

/// Type of a vdev.
pub enum Kind {
    /// A disk or file.
    Leaf(Leaf),
    /// All children hold the same bytes. Also `replacing` and `spare`, while one child replaces
    /// another.
    Mirror(MirrorKind),
    /// Blocks are spread over the children with parity.
    Raidz(raidz::Geometry),
    /// Blocks are spread over fixed groups of children, with spare space on all of them.
    Draid(draid::Geometry),
    /// Spare space of a dRAID that replaces one of its children.
    DraidSpare {
        /// Number of the top-level dRAID vdev.
        top: u64,
        /// Number of the spare in it.
        spare: u64,
        /// Its dtl. It has no device.
        log: Leaf,
    },
    /// Removed: its blocks were moved to other vdevs.
    Indirect(RwLock<Option<Arc<Mapping>>>),
    /// An unused slot in the list of top-level vdevs.
    Hole,
    /// A vdev of the pool that no available configuration describes.
    Missing,
}

/// Types of vdevs whose children all hold the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorKind {
    /// A configured mirror.
    Mirror,
    /// One child is being replaced by the other.
    Replacing,
    /// A hot spare replaces a child.
    Spare,
}

/// A vdev: a node of the tree.
pub struct Vdev {
    /// Guid, as in the labels.
    pub guid: u64,
    /// Position among its siblings; for a top-level vdev, its number in addresses.
    pub id: u64,
    pub kind: Kind,
    /// log2 of the allocation unit of the top-level vdev, in bytes.
    pub ashift: u8,
    pub children: Vec<Vdev>,
    /// Name for messages: `mirror-0`, or a path.
    pub name: String,
}

impl Vdev {
    /// The leaf, if this is one.
    pub fn leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// The owner of a dtl, if this is one: a leaf, or a distributed spare.
    pub fn log(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::Leaf(leaf) | Kind::DraidSpare { log: leaf, .. } => Some(leaf),
            _ => None,
        }
    }

    /// All owners of a dtl, at and below, in order: leaves, and distributed spares, which have no
    /// device.
    pub fn logs(&self) -> Vec<&Leaf> {
        let below = self.children.iter().flat_map(Self::logs);
        self.log().into_iter().chain(below).collect()
    }

    /// All leaves at and below, in order.
    pub fn leaves(&self) -> Vec<&Leaf> {
        let mut found = Vec::new();
        self.collect_leaves(&mut found);
        found
    }

    fn collect_leaves<'a>(&'a self, found: &mut Vec<&'a Leaf>) {
        if let Kind::Leaf(leaf) = &self.kind {
            found.push(leaf);
        }
        for child in &self.children {
            child.collect_leaves(found);
        }
    }

    /// Whether `test` holds for some leaf at or below. Allocates nothing.
    fn any_leaf(&self, test: &dyn Fn(&Leaf) -> bool) -> bool {
        self.leaf().is_some_and(test) || self.children.iter().any(|child| child.any_leaf(test))
    }

    /// Whether reads of some leaf wait for its device.
    fn has_slow_reads(&self) -> bool {
        self.any_leaf(&Leaf::has_slow_reads)
    }

    /// The vdev with this guid, at or below.
    pub fn find(&self, guid: u64) -> Option<&Vdev> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter().find_map(|c| c.find(guid))
    }
}
