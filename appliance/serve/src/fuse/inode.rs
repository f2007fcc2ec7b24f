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

    /// FUSE's generation of a file of a snapshot or child with this `fs_guid`.
    ///
    /// The kernel's handles (`name_to_handle_at`, NFS exports of the mount) contain the numbers of
    /// the node and of the generation, and survive the mount. The next mount numbers snapshots in
    /// another order, and a file has the same generation in all of them. So the generation depends
    /// on the snapshot too. The kernel keeps 32 bits of it.
    pub fn generation(generation: u64, fs_guid: u64) -> u64 {
        (generation ^ fs_guid ^ fs_guid >> 32) & u64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_another_generation_in_each_snapshot_for_a_kernel_that_keeps_32_bits() {
        let guids = [0x00a1_b2c3_d4e5_f607, 0x00a1_b2c3_d4e5_f608, 0x00a1_b2c4_d4e5_f607];
        let all: std::collections::HashSet<_> = guids.map(|guid| InodeMap::generation(1234, guid)).into();
        assert!(all.len() == guids.len() && all.iter().all(|generation| generation >> 32 == 0));
        assert_ne!(InodeMap::generation(1234, guids[0]), InodeMap::generation(1235, guids[0]));
    }

    #[test]
    fn root_is_one_and_the_map_is_its_own_inverse() {
        let map = InodeMap::new(NodeId(34));
        assert_eq!(map.to_fuse(NodeId(34)), 1);
        for n in [1, 2, 33, 34, 35, 1 << 48 | 34, u64::MAX] {
            assert_eq!(map.to_node(map.to_fuse(NodeId(n))), NodeId(n));
        }
    }
}
