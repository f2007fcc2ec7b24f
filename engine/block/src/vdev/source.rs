//! The place of a part of a block: a leaf, which may hold it for distributed spares.
//!
//! ```text
//!   child of a draid ─> spare-0 ─┬─> the failed device
//!                                └─> distributed spare ─> another child, by offset ─> leaf
//! ```
//! Facts: vdev_draid_missing, vdev_draid_spare_get_child (module/zfs/vdev_draid.c).
//!
//! Invariants:
//!   * a distributed spare lacks the txgs in its own dtl and those in the dtl of the leaf below it,
//!     which covers its spare space, too

use super::{Leaf, Repaired};
use smallvec::SmallVec;
use std::ops::Deref;

/// A leaf, and the distributed spares that led to it.
#[derive(Clone)]
pub(crate) struct Source<'t> {
    leaf: &'t Leaf,
    /// The dtls of the spares, outermost first.
    spares: SmallVec<[&'t Leaf; 1]>,
}

impl Deref for Source<'_> {
    type Target = Leaf;

    fn deref(&self) -> &Leaf {
        self.leaf
    }
}

impl<'t> Source<'t> {
    pub fn new(leaf: &'t Leaf, spares: &[&'t Leaf]) -> Self {
        Self { leaf, spares: SmallVec::from_slice(spares) }
    }

    pub fn leaf(&self) -> &'t Leaf {
        self.leaf
    }

    fn logs(&self) -> impl Iterator<Item = &'t Leaf> + '_ {
        std::iter::once(self.leaf).chain(self.spares.iter().copied())
    }

    /// Whether blocks born in `txg` are missing here.
    pub fn is_stale(&self, txg: u64) -> bool {
        self.logs().any(|leaf| leaf.is_stale(txg))
    }

    /// Whether it is available and has everything.
    pub fn is_whole(&self) -> bool {
        self.logs().all(Leaf::is_whole)
    }

    /// Whether a rebuild of blocks born before `until` is for the leaf or a spare.
    pub fn is_rebuilt(&self, until: u64) -> bool {
        self.logs().any(|leaf| is_rebuilt(leaf, until))
    }

    /// Whether a resilver can and should handle a block born in `birth`. This includes a missing
    /// leaf, as long as its dtl does not record what it lacks for a spare.
    pub fn is_to_fill(&self, birth: u64) -> bool {
        match self.leaf.is_open() {
            true => self.is_stale(birth),
            false => !self.leaf.is_stale(birth) && self.is_stale(birth),
        }
    }

    /// Records a successful repair of `bytes` of a block here.
    pub fn took(&self, bytes: u64, repaired: &mut Repaired) {
        repaired.written.push((self.leaf.guid, bytes));
        repaired.written_for.extend(self.spares.iter().map(|spare| (spare.guid, bytes)));
    }

    /// Records that a part of a block, born in `birth`, could not be written here. The dtl of a
    /// missing leaf covers its own data already, but not what it should hold for spares.
    pub fn did_not_take(&self, birth: u64, repaired: &mut Repaired) {
        if self.leaf.is_open() || !self.spares.is_empty() {
            self.leaf.note_missed(birth, birth);
            repaired.failed.push(self.leaf.guid);
        }
        repaired.failed_for.extend(self.spares.iter().map(|spare| spare.guid));
    }
}

/// Whether a rebuild of blocks born before `until` writes to this leaf: it is available, and its
/// whole dtl is older.
pub fn is_rebuilt(leaf: &Leaf, until: u64) -> bool {
    leaf.is_open() && !leaf.has_failed() && leaf.stale_ranges().last().is_some_and(|(_, last)| *last < until)
}

#[cfg(test)]
mod tests {
    use super::super::{Aux, DATA_START_BYTES, Kind, MirrorKind, Tree, Vdev, draid};
    use super::*;
    use host::device::MemoryDevice;
    use std::sync::Arc;

    const CHILDREN: u64 = 7;
    const BIRTH: u64 = 9;

    fn vdev(guid: u64, kind: Kind, children: Vec<Vdev>) -> Vdev {
        Vdev { guid, id: 0, kind, ashift: 12, children, name: format!("d{guid}") }
    }

    fn leaf(guid: u64) -> Vdev {
        let device = Arc::new(MemoryDevice::new(format!("d{guid}"), vec![0; 300 << 20]));
        vdev(guid, Kind::Leaf(Leaf::present(guid, device)), Vec::new())
    }

    /// A draid of parity 1 with two distributed spares, which replace the children with these
    /// numbers.
    fn tree(lost: [u64; 2]) -> Tree {
        let shape = draid::Shape { ashift: 12, width: 7, children: 7, parity: 1, data: 2, spares: 2, groups: 5 };
        let spare = |spare| {
            let log = Leaf::distributed(30 + spare, format!("draid1-0-{spare}"));
            vdev(30 + spare, Kind::DraidSpare { top: 0, spare, log }, Vec::new())
        };
        let child = |n| match lost.iter().zip(0..).find(|(l, _)| **l == n) {
            Some((_, number)) => vdev(20 + n, Kind::Mirror(MirrorKind::Spare), vec![leaf(n), spare(number)]),
            None => leaf(n),
        };
        let geometry = draid::Geometry::new(shape).unwrap();
        Tree::of(vec![vdev(100, Kind::Draid(geometry), (0..CHILDREN).map(child).collect())])
    }

    /// Blocks at the start and the end of each group, and blocks that continue in the next one.
    fn blocks(tree: &Tree) -> Vec<(u64, Vec<u8>)> {
        let Kind::Draid(g) = &tree.tops[0].kind else { unreachable!("it is one") };
        let (group, row) = (g.bytes_to_group_end(0), g.alignment_bytes());
        let bytes =
            |seed: u64| (0..5 * 8192).map(|n: u64| ((n + seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        (0..20).flat_map(|n| [n * group + 8 * row, (n + 1) * group - 2 * row]).map(|at| (at, bytes(at))).collect()
    }

    fn close(tree: &Tree, guid: u64) -> Option<Arc<dyn host::device::Device>> {
        let leaf = tree.find(guid).and_then(Vdev::leaf).expect("a leaf");
        let device = leaf.device();
        leaf.close(Aux::Offline);
        device
    }

    fn check(tree: &Tree, blocks: &[(u64, Vec<u8>)], what: &str) {
        for (at, bytes) in blocks {
            let read = tree.read(0, *at, bytes.len() as u64, BIRTH, &mut |found| found == bytes.as_slice());
            assert!(read.is_ok(), "{what}: {at:#x}: {:?}", read.err());
        }
    }

    #[test]
    fn writes_to_active_spares_survive_the_loss_of_another_device() {
        for lost in [[0, 1], [2, 5], [6, 3]] {
            let tree = tree(lost);
            lost.iter().for_each(|guid| drop(close(&tree, *guid)));
            let blocks = blocks(&tree);
            blocks.iter().for_each(|(at, bytes)| tree.write(0, *at, bytes, BIRTH).unwrap());
            assert!(tree.logs().iter().filter(|log| log.is_distributed()).all(|log| log.is_whole()));
            for another in (0..CHILDREN).filter(|n| !lost.contains(n)) {
                let device = close(&tree, another).unwrap();
                check(&tree, &blocks, &format!("{lost:?} and {another}"));
                tree.find(another).and_then(Vdev::leaf).unwrap().open(device);
            }
            let errors = tree.leaves().iter().map(|leaf| leaf.errors().checksum).sum::<u64>();
            assert_eq!(errors, 0, "nothing was wrong");
        }
    }

    #[test]
    fn spares_are_filled_also_if_the_underlying_device_is_temporarily_missing() {
        for (lost, another) in [([0, 1], 4), ([2, 5], 3), ([6, 3], 0)] {
            let tree = tree(lost);
            let blocks = blocks(&tree);
            blocks.iter().for_each(|(at, bytes)| tree.write(0, *at, bytes, BIRTH).unwrap());
            // The spares were not in use when that was written.
            for (log, by) in
                [(30, &tree.tops[0].children[lost[0] as usize]), (31, &tree.tops[0].children[lost[1] as usize])]
            {
                let log = by.find(log).and_then(Vdev::log).unwrap();
                log.note_missed(4, BIRTH);
                assert!(!log.is_whole() && log.is_open());
            }
            // Spare space holds other data.
            for leaf in tree.leaves() {
                let Kind::Draid(g) = &tree.tops[0].kind else { unreachable!("it is one") };
                for place in (0..18).map(|n| n * (16 << 20)) {
                    let is_spare = |n| g.spare_child(n, place) == Some(leaf.guid as usize);
                    if is_spare(0) || is_spare(1) {
                        leaf.write(4, DATA_START_BYTES + place, &[0xee; 1 << 16]).unwrap().unwrap();
                        leaf.write(4, DATA_START_BYTES + place + (16 << 20) - (1 << 16), &[0xee; 1 << 16])
                            .unwrap()
                            .unwrap();
                    }
                }
            }
            check(&tree, &blocks, "before");
            let first = close(&tree, lost[0]).unwrap();
            check(&tree, &blocks, "one lost");
            tree.find(lost[0]).and_then(Vdev::leaf).unwrap().open(first);
            let device = close(&tree, another).unwrap();
            let fill = |to: &dyn Fn(&Source<'_>) -> bool| {
                let mut repaired = Repaired::default();
                for (at, bytes) in &blocks {
                    let dva =
                        ondisk::Dva { vdev: 0, offset_bytes: *at, asize_bytes: bytes.len() as u64, is_gang: false };
                    if tree.lacks(&dva, bytes.len() as u64, BIRTH) {
                        tree.write_over(&dva, bytes, BIRTH, to, &mut repaired);
                    }
                }
                repaired
            };
            let repaired = fill(&|source| source.is_stale(BIRTH));
            assert!(!repaired.written_for.is_empty() && !repaired.failed_for.is_empty());
            let log = |guid| tree.logs().into_iter().find(|log: &&Leaf| log.guid == guid).unwrap();
            [30, 31].into_iter().for_each(|guid| log(guid).excise(BIRTH + 1));
            // The dtl of the closed leaf covers the block.
            let leaf = tree.find(another).and_then(Vdev::leaf).unwrap();
            assert_eq!(leaf.stale_ranges(), [(BIRTH, BIRTH)]);
            leaf.open(device);
            lost.iter().for_each(|guid| drop(close(&tree, *guid)));
            check(&tree, &blocks, "before it is filled");
            assert!(fill(&|source| source.is_stale(BIRTH)).failed.is_empty());
            leaf.excise(BIRTH + 1);
            for third in (0..CHILDREN).filter(|n| !lost.contains(n)) {
                let device = close(&tree, third).unwrap();
                check(&tree, &blocks, &format!("{lost:?} and {third}"));
                tree.find(third).and_then(Vdev::leaf).unwrap().open(device);
            }
            assert_eq!(tree.leaves().iter().map(|leaf| leaf.errors().checksum).sum::<u64>(), 0, "nothing was wrong");
        }
    }
}
