//! Nodes that belong to no dataset: synthetic directories and doors.
//!
//! Invariant: a directory keeps a door for each name of its newest listing, and for those of
//! listings that began before that one ended, and no others.

use super::layers::Source;
use super::number;
use crate::vfs::NodeId;
use std::collections::HashMap;

/// Directories that belong to no dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Made {
    /// `.zfs` of a file system.
    Control(u64),
    /// `.zfs/snapshot`.
    Snapshots(u64),
    /// `.zfs/volume`.
    Volumes(u64),
    /// An intermediate directory on the path to a child, where the parent has no such directory.
    Path { layer: u64, parent: NodeId },
}

/// The root of what a name leads to, whether it is open or not.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub above: u64,
    pub source: Source,
    /// The directory that contains it.
    pub parent: NodeId,
}

/// A node that belongs to no dataset.
#[derive(Debug, Clone)]
pub(super) enum Nowhere {
    Door(Door),
    Made(Made),
}

/// The door to an entry of a directory.
struct Listed {
    node: NodeId,
    /// The newest listing that contained it.
    listing: u64,
}

/// The nodes that belong to no dataset.
#[derive(Default)]
pub(super) struct Nodes {
    pub by_number: HashMap<NodeId, Nowhere>,
    pub made: HashMap<Made, NodeId>,
    /// Doors by directory, except for those of children, which are permanent.
    doors: HashMap<NodeId, HashMap<Source, Listed>>,
    last: u64,
    last_listing: u64,
}

impl Nodes {
    fn add(&mut self, what: Nowhere) -> NodeId {
        self.last += 1;
        let node = number::nowhere(self.last, matches!(what, Nowhere::Door(_)));
        self.by_number.insert(node, what);
        node
    }

    pub fn get(&self, node: NodeId) -> Option<Nowhere> {
        self.by_number.get(&node).cloned()
    }

    pub fn made(&mut self, made: Made) -> NodeId {
        if let Some(&node) = self.made.get(&made) {
            return node;
        }
        let node = self.add(Nowhere::Made(made));
        self.made.insert(made, node);
        node
    }

    /// A directory on the path to a child. There may be several in one directory.
    pub fn path(&mut self, layer: u64, parent: NodeId) -> NodeId {
        self.add(Nowhere::Made(Made::Path { layer, parent }))
    }

    /// A permanent door.
    pub fn door(&mut self, above: u64, source: Source, parent: NodeId) -> NodeId {
        self.add(Nowhere::Door(Door { above, source, parent }))
    }

    /// The number of a listing that begins now.
    pub fn begin_listing(&mut self) -> u64 {
        self.last_listing += 1;
        self.last_listing
    }

    /// The doors of everything that `listing` of the directory `dir` contains.
    pub fn list(&mut self, dir: NodeId, above: u64, sources: &[Source], listing: u64) -> Vec<NodeId> {
        let mut doors = self.doors.remove(&dir).unwrap_or_default();
        let mut nodes = Vec::with_capacity(sources.len());
        for source in sources {
            let node = match doors.get_mut(source) {
                Some(listed) => {
                    listed.listing = listed.listing.max(listing);
                    listed.node
                }
                None => {
                    let node = self.door(above, source.clone(), dir);
                    doors.insert(source.clone(), Listed { node, listing });
                    node
                }
            };
            nodes.push(node);
        }
        doors.retain(|_, listed| {
            let stays = listed.listing >= listing;
            if !stays {
                self.by_number.remove(&listed.node);
            }
            stays
        });
        self.doors.insert(dir, doors);
        nodes
    }
}
