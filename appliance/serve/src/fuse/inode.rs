//! Node numbers as the kernel's FUSE knows them.
//!
//! Invariant: `to_fuse` and `to_node` are each other's inverse, and FUSE's number 1 is the root.

use files::vfs::NodeId;

/// FUSE insists on 1 for the root: swaps 1 with the number that the root has, and leaves all others alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodeMap {
    root: u64,
}

impl InodeMap {
    /// For a tree with this root.
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

    /// What the kernel calls `node`.
    pub fn to_fuse(self, node: NodeId) -> u64 {
        self.swap(node.0)
    }

    /// What the kernel means by `number`.
    pub fn to_node(self, number: u64) -> NodeId {
        NodeId(self.swap(number))
    }

    /// Inode number that `stat` shows for `node`: the root's own, not FUSE's 1.
    ///
    /// Not [`files::vfs::Attr::ino`]: two datasets in one mount have the same object numbers, and a program that looks for
    /// hard links (tar, rsync) takes two files with one device and inode number for the same.
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
