//! Maps our node numbers to FUSE's and back.
//!
//! Invariant: `to_fuse` and `to_node` are inverse to each other, and FUSE's number 1 is the root.

use files::vfs::NodeId;

/// FUSE requires number 1 for the root: swaps 1 with the number of our root and leaves all other
/// numbers unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodeMap {
    root: u64,
}

impl InodeMap {
    /// Creates the map for a tree with this root.
    pub fn new(root: NodeId) -> Self {
        Self { root: root.0 }
    }

    fn swap(self, n: u64) -> u64 {
        match n {
            1 => self.root,
            n if n == self.root => 1,
            n => n,
        }
    }

    /// FUSE's number of `node`.
    pub fn to_fuse(self, node: NodeId) -> u64 {
        self.swap(node.0)
    }

    /// The node for FUSE's `number`.
    pub fn to_node(self, number: u64) -> NodeId {
        NodeId(self.swap(number))
    }

    /// Inode number that `stat` shows for `node`: for the root its own number, not FUSE's 1.
    ///
    /// Not [`files::vfs::Attr::ino`]: two datasets in one mount use the same object numbers, and
    /// programs that look for hard links (tar, rsync) treat two files with the same device and
    /// inode number as one.
    pub fn shown(node: NodeId) -> u64 {
        node.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_one_and_the_map_is_its_own_inverse() {
        let map = InodeMap::new(NodeId(34));
        assert_eq!(map.to_fuse(NodeId(34)), 1);
        for n in [1, 2, 33, 34, 35, 1 << 48 | 34, u64::MAX] {
            assert_eq!(map.to_node(map.to_fuse(NodeId(n))), NodeId(n));
        }
    }
}
