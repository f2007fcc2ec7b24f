//! The device tree: what turns an address into bytes, whatever copies and parity stand behind it.
//!
//! Below: `host::device`. Above: `store`, which knows block pointers. Maths: `transform::parity`. ZFS name: vdev.
//!
//! ```text
//!   Tree -> top-level device (leaf, mirror, raidz, draid, indirect) -> [replacing, spare] -> leaf -> host::Device
//! ```
//!
//! Invariants:
//!   * bytes leave this module only after the caller's check has accepted them
//!   * a device that gave wrong bytes is counted once for each read that showed it
//!   * a write succeeds when the block can be read again, whatever device failed, and those that failed are noted

mod capacity;
pub mod columns;
mod copy;
pub mod draid;
mod draid_seeds;
mod figures;
pub mod indirect;
mod leaf;
mod parity_read;
mod places;
pub mod raidz;
mod raidz_expanded;
mod rebuild;
pub mod reconstruct;
mod repair;
mod report;
mod run;
mod source;
mod tree;
mod verify;
mod write;

pub use leaf::{Answer, Aux, ErrorCounts, Leaf, set_slow};
pub use rebuild::is_rebuilt;
pub use report::{BlockReport, Contents, CopyFault, Fault, Mend, Mended};
pub use run::RunBlock;
pub(crate) use source::Source;
pub use tree::{Failure, Tree};

use crate::vdev::indirect::Mapping;
use parking_lot::RwLock;
use std::sync::Arc;

/// Bytes in front of the allocatable space of a leaf: two labels and the boot area.
pub const DATA_START_BYTES: u64 = 4 << 20;

/// What a device of the tree is.
pub enum Kind {
    /// A disk or file.
    Leaf(Leaf),
    /// All children hold the same bytes. Also `replacing` and `spare`, while one child takes the place of another.
    Mirror(MirrorKind),
    /// Blocks are spread over the children with parity.
    Raidz(raidz::Geometry),
    /// Blocks are spread over fixed groups of children, with spare space on all of them.
    Draid(draid::Geometry),
    /// The spare space of a dRAID, standing in for one of its children.
    DraidSpare {
        /// Number of the top-level dRAID device.
        top: u64,
        /// Number of the spare in it.
        spare: u64,
        /// What it missed itself. It has no device.
        log: Leaf,
    },
    /// Removed: its blocks were moved to other devices.
    Indirect(RwLock<Option<Arc<Mapping>>>),
    /// A slot in the list of top-level devices that is not used any more.
    Hole,
    /// A device that the pool should have and that no configuration found tells about.
    Missing,
}

/// Which of the kinds that hold the same bytes on all children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorKind {
    /// As configured.
    Mirror,
    /// One child is being replaced by the other.
    Replacing,
    /// A hot spare stands in.
    Spare,
}

/// A device of the tree.
pub struct Vdev {
    /// Identity, as in the labels.
    pub guid: u64,
    /// Position among its siblings; for a top-level device the number in addresses.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
    /// log2 of the smallest unit of allocation, of the top-level device.
    pub ashift: u8,
    /// Its children.
    pub children: Vec<Vdev>,
    /// Name for messages: `mirror-0`, or a path.
    pub name: String,
}

impl Vdev {
    /// The leaf, if it is one.
    pub fn leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// What keeps a log of what it missed: a leaf, or a distributed spare.
    pub fn log(&self) -> Option<&Leaf> {
        match &self.kind {
            Kind::Leaf(leaf) | Kind::DraidSpare { log: leaf, .. } => Some(leaf),
            _ => None,
        }
    }

    /// All that keep such a log, at and below, in order: the leaves, and distributed spares, which have no device.
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

    /// The device with this guid, at or below.
    pub fn find(&self, guid: u64) -> Option<&Vdev> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter().find_map(|c| c.find(guid))
    }
}
