//! Copies the contents of one vdev to another as they are, during device removal: this layer does
//! not know which blocks lie there.
//!
//! ```text
//!   mirror of a, b        to a mirror of c, d, e:   a ─> c   b ─> d   a ─> e
//! ```
//! Facts: spa_vdev_copy_one_child (module/zfs/vdev_removal.c).
//!
//! Invariants:
//!   * distinct copies stay distinct, so that a bad copy never replaces a good one

use super::{DATA_START_BYTES, Failure, Kind, Source, Tree, Vdev};
use std::sync::Arc;

/// The first txg of a pool.
const FIRST_TXG: u64 = 4;

impl Tree {
    /// Copies `size` bytes at an address of a disk or mirror to one of another, as part of `txg`.
    /// If a side of the target fails, blocks of any age are missing there, so all txgs are recorded
    /// in its dtl.
    pub fn copy(&self, from: (u32, u64), to: (u32, u64), size: u64, txg: u64) -> Result<(), Failure> {
        let (source, from) = (self.plain(from.0)?, place(from.1)?);
        let (target, to) = (self.plain(to.0)?, place(to.1)?);
        let sources = self.collect(source, from);
        let mut read: Vec<Option<Arc<Vec<u8>>>> = vec![None; sources.len()];
        let sides: Vec<&Vdev> = match &target.kind {
            Kind::Mirror(_) => target.children.iter().collect(),
            _ => vec![target],
        };
        let (mut failure, mut missed, mut good) = (Failure::default(), Vec::new(), false);
        for (number, side) in sides.into_iter().enumerate() {
            let bytes = bytes_of(&sources, number, from, size, &mut read)?;
            for leaf in self.collect(side, to) {
                match leaf.write(txg, to, &bytes) {
                    Some(Ok(())) => {
                        good = true;
                        continue;
                    }
                    None => failure.missing.push(leaf.path.clone()),
                    Some(Err(e)) => failure.io.push((leaf.path.clone(), Arc::new(e))),
                }
                missed.push(leaf.leaf());
            }
        }
        if !good {
            return Err(failure);
        }
        missed.into_iter().for_each(|leaf| leaf.note_missed(FIRST_TXG, txg));
        Ok(())
    }

    fn plain(&self, vdev: u32) -> Result<&Vdev, Failure> {
        let top = self.tops.get(vdev as usize).filter(|top| matches!(top.kind, Kind::Leaf(_) | Kind::Mirror(_)));
        top.map(|top| &**top).ok_or_else(|| Failure::other(format!("device {vdev} is not a disk or mirror")))
    }
}

fn place(offset: u64) -> Result<u64, Failure> {
    offset.checked_add(DATA_START_BYTES).ok_or_else(|| Failure::other(format!("offset {offset:#x}")))
}

/// The bytes of side `number` or, if that side cannot be read or its dtl is not empty, of another
/// one.
fn bytes_of(
    sources: &[Source<'_>],
    number: usize,
    at: u64,
    size: u64,
    read: &mut [Option<Arc<Vec<u8>>>],
) -> Result<Arc<Vec<u8>>, Failure> {
    let mut order: Vec<usize> = (0..sources.len()).map(|i| (number + i) % sources.len()).collect();
    order.sort_by_key(|i| !sources[*i].stale_ranges().is_empty());
    let mut failure = Failure::default();
    for i in order {
        if let Some(bytes) = &read[i] {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; size as usize];
        match sources[i].read(at, &mut bytes) {
            None => failure.missing.push(sources[i].path.clone()),
            Some(Err(e)) => failure.io.push((sources[i].path.clone(), Arc::new(e))),
            Some(Ok(())) => return Ok(read[i].insert(Arc::new(bytes)).clone()),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vdev::{Leaf, MirrorKind};
    use host::device::{Device, MemoryDevice};

    fn leaf(guid: u64, fill: u8) -> Vdev {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("disk", vec![fill; 8 << 20]));
        Vdev {
            guid,
            id: 0,
            kind: Kind::Leaf(Leaf::present(guid, device)),
            ashift: 9,
            children: Vec::new(),
            name: "disk".into(),
        }
    }

    fn mirror(id: u64, children: Vec<Vdev>) -> Vdev {
        Vdev { guid: 100 + id, id, kind: Kind::Mirror(MirrorKind::Mirror), ashift: 9, children, name: "mirror".into() }
    }

    fn at(vdev: &Vdev, offset: u64) -> u8 {
        let mut byte = [0];
        vdev.leaf().unwrap().read(DATA_START_BYTES + offset, &mut byte).unwrap().unwrap();
        byte[0]
    }

    #[test]
    fn each_side_of_a_mirror_is_copied_to_its_own_side_and_stale_sides_are_not_read() {
        let tree = Tree::of(vec![
            mirror(0, vec![leaf(1, 1), leaf(2, 2)]),
            mirror(1, vec![leaf(3, 0), leaf(4, 0), leaf(5, 0)]),
        ]);
        tree.copy((0, 4096), (1, 8192), 512, 9).unwrap();
        let sides = |offset| tree.tops[1].children.iter().map(|c| at(c, offset)).collect::<Vec<_>>();
        assert_eq!((sides(8192), sides(8192 + 512)), (vec![1, 2, 1], vec![0, 0, 0]));
        tree.tops[0].children[1].leaf().unwrap().note_missed(5, 6);
        tree.tops[1].children[2].leaf().unwrap().close(crate::vdev::Aux::Offline);
        tree.copy((0, 4096), (1, 0), 512, 9).unwrap();
        assert_eq!((at(&tree.tops[1].children[0], 0), at(&tree.tops[1].children[1], 0)), (1, 1));
        assert_eq!(tree.tops[1].children[2].leaf().unwrap().stale_ranges(), [(4, 9)]);
        assert!(tree.copy((0, 0), (2, 0), 512, 9).is_err());
    }
}
