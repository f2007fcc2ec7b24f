//! Node numbers: a file system and an object in 64 bits.
//!
//! ```text
//!   0000  zeros (12 bits)    object (48)     file system 0, which is the tree's own
//!   0001  number (60)                        no file system: doors and synthetic directories
//!   001   file system (13)   object (48)
//!   01    file system (22)   object (40)
//!   1     file system (31)   object (32)
//! ```
//!
//! Object numbers have 48 bits in the format, but few file systems use more than 32: object 2^32
//! exists only in one that had 4 billion files at a time. So a node has the form with the shortest
//! object field that its object fits into, which leaves 31 bits for file systems. Their numbers are
//! never reused, and 2^31 of them last for 68 years of one new snapshot per second.

use crate::vfs::NodeId;

/// Number of bits in an object number (`DN_MAX_OBJECT_SHIFT`).
pub(super) const OBJECT_BITS: u32 = 48;
pub(super) const OBJECT_MASK: u64 = (1 << OBJECT_BITS) - 1;
/// File systems have numbers below this. One less than the field can hold, so that no node has the
/// number `u64::MAX`.
pub(super) const SYSTEMS_MAX: u64 = (1 << 31) - 1;

/// Forms of a node below file system 0: bits of the tag, which is zeros and a one, and of the
/// object.
const FORMS: [(u32, u32); 3] = [(1, 32), (2, 40), (3, OBJECT_BITS)];
/// Leading zeros of a node that belongs to no file system.
const NOWHERE_ZEROS: u32 = 3;
const NOWHERE: u64 = 1 << 60;
/// Distinguishes doors from synthetic directories.
const DOOR: u64 = 1 << 59;

/// The meaning of a node number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    In {
        system: u64,
        object: u64,
    },
    /// A node that belongs to no file system.
    Nowhere,
}

pub(super) fn split(node: NodeId) -> Number {
    let zeros = node.0.leading_zeros();
    let Some(&(tag, object)) = FORMS.get(zeros as usize) else {
        return if zeros == NOWHERE_ZEROS { Number::Nowhere } else { Number::In { system: 0, object: node.0 } };
    };
    let system = (node.0 & (u64::MAX >> tag)) >> object;
    Number::In { system, object: node.0 & ((1 << object) - 1) }
}

/// The node of an object. `None` if there is no form for both numbers.
pub(super) fn join(system: u64, object: u64) -> Option<NodeId> {
    if system == 0 {
        return (object <= OBJECT_MASK).then_some(NodeId(object));
    }
    let fits = |&&(tag, bits): &&(u32, u32)| object >> bits == 0 && system >> (64 - tag - bits) == 0;
    FORMS.iter().find(fits).map(|&(tag, bits)| NodeId(1 << (64 - tag) | system << bits | object))
}

/// A node outside of all file systems, by a serial number that starts at 1.
pub(super) fn nowhere(serial: u64, is_door: bool) -> NodeId {
    assert!(serial < DOOR, "not even one every nanosecond uses up 59 bits");
    NodeId(NOWHERE | if is_door { DOOR } else { 0 } | serial)
}

/// Whether the node is a door: reading its attributes opens a file system, which a listing of many
/// snapshots should avoid.
pub fn is_door(node: NodeId) -> bool {
    is_synthetic(node) && node.0 & DOOR != 0
}

/// Whether the node belongs to no dataset: a door, or a synthetic directory.
pub fn is_synthetic(node: NodeId) -> bool {
    split(node) == Number::Nowhere
}

/// The number of the file system that the node is in; 0 is the tree's own. `None` if it belongs to
/// no dataset.
pub fn file_system_of(node: NodeId) -> Option<u64> {
    match split(node) {
        Number::In { system, .. } => Some(system),
        Number::Nowhere => None,
    }
}

/// The number of the node in its own file system.
pub fn object_of(node: NodeId) -> u64 {
    match split(node) {
        Number::In { object, .. } => object,
        Number::Nowhere => node.0 & OBJECT_MASK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decoded_to_their_parts() {
        let objects = [1, 34, (1 << 32) - 1, 1 << 32, (1 << 40) - 1, 1 << 40, OBJECT_MASK];
        let systems = [0, 1, 8191, 8192, (1 << 22) - 1, 1 << 22, SYSTEMS_MAX - 1];
        let mut seen = std::collections::HashSet::new();
        for (system, object) in systems.into_iter().flat_map(|s| objects.map(|o| (s, o))) {
            let exists = object < 1 << 32 || object < 1 << 40 && system < 1 << 22 || system < 8192;
            let Some(node) = join(system, object) else {
                assert!(!exists, "{system} {object:#x}");
                continue;
            };
            assert!(exists && seen.insert(node) && !is_synthetic(node), "{system} {object:#x}");
            assert_eq!(split(node), Number::In { system, object });
            assert_eq!((file_system_of(node), object_of(node)), (Some(system), object));
        }
        assert_eq!(join(0, OBJECT_MASK + 1), None);
        assert_eq!(join(0, 34), Some(NodeId(34)), "the tree's own objects keep their numbers");
        for serial in [1, DOOR - 1] {
            let [door, directory] = [true, false].map(|door| nowhere(serial, door));
            assert!(is_synthetic(door) && is_door(door) && seen.insert(door));
            assert!(is_synthetic(directory) && !is_door(directory) && seen.insert(directory));
        }
    }
}
