//! Remembers names of recently looked-up nodes, so that an error can report the path of the file.
//!
//! A node number means nothing to an administrator, and a `Vfs` cannot find the name of a file from
//! its number. Remembering every name would cost memory proportional to the tree, so recent names
//! are kept in a table of fixed size, where a newer name replaces the older one in its slot. A node
//! whose name was replaced is shown by its object number.

use files::namespace::object_of;
use files::vfs::{NodeId, Vfs};
use parking_lot::Mutex;

/// Guessed: covers the files that a busy machine has open, in about 1 MiB. Allocated with the first
/// name.
const SLOTS: usize = 8192;
/// A path with more components is truncated at the front.
const DEPTH_MAX: usize = 256;

struct Slot {
    node: NodeId,
    parent: NodeId,
    name: Box<[u8]>,
}

/// Maps recent nodes to (directory, name).
pub(super) struct Names {
    slots: Mutex<Vec<Option<Slot>>>,
}

impl Names {
    pub fn new() -> Self {
        Self { slots: Mutex::new(Vec::new()) }
    }

    fn index(node: NodeId) -> usize {
        // Fibonacci hashing: neighbouring object numbers get different slots, and so do equal ones
        // of different file systems.
        (node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize % SLOTS
    }

    /// Records that `node` was found in `parent` under `name`.
    pub fn remember(&self, node: NodeId, parent: NodeId, name: &[u8]) {
        let mut slots = self.slots.lock();
        if slots.is_empty() {
            slots.resize_with(SLOTS, || None);
        }
        if let Some(slot) = slots.get_mut(Self::index(node)) {
            if slot.as_ref().is_some_and(|s| s.node == node && s.parent == parent && *s.name == *name) {
                return;
            }
            *slot = Some(Slot { node, parent, name: name.into() });
        }
    }

    fn get(&self, node: NodeId) -> Option<(NodeId, Vec<u8>)> {
        let slots = self.slots.lock();
        let slot = slots.get(Self::index(node))?.as_ref()?;
        (slot.node == node).then(|| (slot.parent, slot.name.to_vec()))
    }

    /// Path of `node` from the root of `vfs`, as far as it is known: `/a/b`, or `object 12/b`.
    pub fn path(&self, vfs: &dyn Vfs, node: NodeId) -> String {
        let root = vfs.root();
        let mut components: Vec<String> = Vec::new();
        let mut at = node;
        while at != root && components.len() < DEPTH_MAX {
            match self.get(at).or_else(|| name_of_directory(vfs, at)) {
                Some((parent, name)) => {
                    components.push(String::from_utf8_lossy(&name).into_owned());
                    at = parent;
                }
                None => {
                    components.push(format!("object {}", object_of(at)));
                    components.reverse();
                    return components.join("/");
                }
            }
        }
        components.push(String::new());
        components.reverse();
        if components.len() == 1 { "/".to_owned() } else { components.join("/") }
    }
}

/// Finds the parent and name of a directory: `..` leads to the parent, which contains the name.
fn name_of_directory(vfs: &dyn Vfs, dir: NodeId) -> Option<(NodeId, Vec<u8>)> {
    let parent = vfs.lookup(dir, b"..").ok()?.node;
    let mut name = None;
    vfs.read_dir(parent, 0, &mut |entry| {
        if entry.node == dir && entry.name != b"." && entry.name != b".." {
            name = Some(entry.name);
        }
        name.is_none()
    })
    .ok()?;
    Some((parent, name?))
}
