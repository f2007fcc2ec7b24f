//! Maps ranges of a top-level vdev to its children, for operations on free space (trim,
//! initialize), which no block pointer describes.
//!
//! Facts: vdev_xlate, vdev_raidz_xlate, vdev_draid_xlate (module/zfs).
//!
//! Invariants:
//!   * a reported place contains only sectors of the range

use super::columns::Places;
use super::{Kind, Vdev};
use smallvec::SmallVec;

impl Vdev {
    /// The parts of the range on child number `child`; for a single device, on itself. Empty while
    /// a raidz is being expanded, because sectors move then.
    pub fn places(&self, child: usize, offset: u64, len: u64) -> Places {
        match &self.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => SmallVec::from_iter([(offset, len)]),
            Kind::Raidz(g) if g.reflow().is_none() => {
                let (first, end) = (offset >> self.ashift, (offset + len) >> self.ashift);
                let width = self.children.len() as u64;
                // Sector s is in row s / width on child s % width.
                let row = |sector: u64| sector.saturating_sub(child as u64).div_ceil(width);
                let (from, to) = (row(first), row(end));
                let place = (from << self.ashift, (to - from) << self.ashift);
                Some(place).filter(|(_, len)| *len > 0).into_iter().collect()
            }
            Kind::Draid(g) => g.places(child, offset, len),
            _ => Places::new(),
        }
    }

    /// The leaves, each with the index of the child that it is, or is below.
    pub fn leaves_by_child(&self) -> Vec<(usize, &super::Leaf)> {
        match &self.kind {
            Kind::Leaf(leaf) => vec![(0, leaf)],
            _ => self
                .children
                .iter()
                .enumerate()
                .flat_map(|(n, c)| c.leaves().into_iter().map(move |l| (n, l)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{draid, raidz};
    use super::*;
    use crate::vdev::Leaf;
    use host::device::MemoryDevice;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn vdev(kind: Kind, children: u64) -> Vdev {
        vdev_of(kind, children, 4096)
    }

    fn vdev_of(kind: Kind, children: u64, bytes: usize) -> Vdev {
        let leaf = |id| {
            let leaf = Leaf::present(id + 1, Arc::new(MemoryDevice::new("d", vec![0; bytes])));
            Vdev { guid: id + 1, id, kind: Kind::Leaf(leaf), ashift: 9, children: Vec::new(), name: "d".into() }
        };
        Vdev { guid: 100, id: 0, kind, ashift: 9, children: (0..children).map(leaf).collect(), name: "top".into() }
    }

    /// The reported sectors are exactly those that blocks of one row in the range would use.
    fn check(top: &Vdev, unit: u64, offset: u64, units: u64, columns: impl Fn(u64) -> Vec<(usize, u64)>) {
        let mut expected: BTreeSet<(usize, u64)> = BTreeSet::new();
        for n in 0..units {
            expected.extend(columns(offset + n * unit));
        }
        let mut visited = BTreeSet::new();
        for child in 0..top.children.len() {
            for (at, len) in top.places(child, offset, units * unit) {
                visited.extend((at..at + len).step_by(512).map(|at| (child, at)));
            }
        }
        assert_eq!(visited, expected, "{offset:#x}, {units}");
    }

    #[test]
    fn places_of_a_range_are_those_of_its_sectors() {
        let g = raidz::Geometry::new(9, 5, 2).unwrap();
        let top = vdev(Kind::Raidz(g), 5);
        for (offset, units) in [(0, 1), (0, 5), (3, 4), (7, 23), (11, 1000), (4, 1)] {
            check(&top, 512, offset * 512, units, |at| vec![((at / 512 % 5) as usize, at / 512 / 5 * 512)]);
        }
        let shape = draid::Shape { ashift: 9, width: 9, children: 9, parity: 1, data: 3, spares: 1, groups: 2 };
        let g = draid::Geometry::new(shape).unwrap();
        let (row, group) = (g.alignment_bytes(), g.group_columns() as u64 * (16 << 20));
        let top = vdev(Kind::Draid(g.clone()), 9);
        for (offset, units) in [(0, 1), (row * 5, 40), (group - 3 * row, 7), (5 * group + 8 * row, 100)] {
            check(&top, row, offset, units, |at| {
                let map = g.map(at, g.minimum_psize_bytes()).unwrap();
                map.columns.iter().map(|c| (c.child, c.offset_bytes)).collect()
            });
        }
    }

    #[test]
    fn a_block_across_a_moving_boundary_survives_as_many_losses_as_parity() {
        use crate::vdev::{Aux, Tree};
        let block: Vec<u8> = (0..20 << 9).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (parity, children) in [(1, 4u64), (2, 5), (3, 6)] {
            // Includes offsets where single parity swaps columns.
            for (start, boundary) in [1000, 2050].into_iter().flat_map(|start| (0..48u64).map(move |b| (start, b))) {
                let end = start + boundary - 4;
                let reflow = raidz::Reflow { offset_bytes: end << 9, in_scratch: false };
                let g = raidz::Geometry::expanded(9, children as usize, parity, &[], Some(reflow)).unwrap();
                let moving = g.moving().unwrap().clone();
                let tree = Tree::of(vec![vdev_of(Kind::Raidz(g), children, 6 << 20)]);
                let leaf = |child: u64| tree.find(child + 1).unwrap().leaf().unwrap();
                let device = |child: u64| leaf(child).device().unwrap();
                let away = boundary % children;
                let held = device(away);
                leaf(away).close(Aux::Offline);
                tree.write(0, start << 9, &block, 7).unwrap();
                let read = |birth| tree.read(0, start << 9, block.len() as u64, birth, &mut |bytes| bytes == block);
                assert!(read(7).is_ok(), "parity {parity}, boundary {boundary}, child {away} away");
                leaf(away).open(held);
                tree.write(0, start << 9, &block, 8).unwrap();
                // Only sectors beyond the boundary are moved, and only that.
                let mut sector = [0; 512];
                for s in end..start + 200 {
                    let at = |width: u64| (s % width, (4 << 20) + ((s / width) << 9));
                    let ((from, from_at), (to, to_at)) = (at(children - 1), at(children));
                    device(from).read_at(from_at, &mut sector).unwrap();
                    device(to).write_at(to_at, &sector).unwrap();
                }
                *moving.stop() = raidz::Reflow { offset_bytes: (start + 200) << 9, in_scratch: false };
                for away in 0..children {
                    let held = device(away);
                    leaf(away).close(Aux::Offline);
                    assert!(read(8).is_ok(), "parity {parity}, boundary {boundary}, moved, child {away} away");
                    leaf(away).open(held);
                }
            }
        }
    }
}
