//! Compares permutations with the format's checksums, and checks that no two things share a place.

use super::*;
use std::collections::HashSet;

fn shape(width: usize, children: usize, parity: usize, data: usize, spares: usize, groups: usize) -> Shape {
    Shape { ashift: 12, width, children, parity, data, spares, groups }
}

#[test]
fn permutations_have_the_checksums_of_the_format() {
    for children in 2..=255 {
        let bytes = permutations(children);
        let mut sums = [0u64; 4];
        for word in bytes.chunks_exact(4) {
            sums[0] = sums[0].wrapping_add(u64::from(u32::from_le_bytes(word.try_into().unwrap())));
        }
        assert_eq!(sums[0], SEEDS[children - 2].1, "{children} children");
        for order in bytes.chunks_exact(children) {
            assert_eq!(order.iter().collect::<HashSet<_>>().len(), children);
        }
    }
}

#[test]
fn mixed_failure_groups_still_hold_each_child_once_and_one_of_each_enclosure() {
    let (children, failure_groups) = (7, 3);
    let mut orders = permutations(children);
    mix_failure_groups(&mut orders, children, failure_groups);
    for slices in orders[..255 * children].chunks_exact(children * failure_groups) {
        assert_eq!(slices.iter().collect::<HashSet<_>>().len(), children * failure_groups);
        for slice in slices.chunks_exact(children) {
            let enclosures: HashSet<u8> = slice.iter().map(|child| child % children as u8).collect();
            assert_eq!(enclosures.len(), children);
        }
    }
}

/// Every sector of two slices is written once: as data or parity of a block, or as a spare.
#[test]
fn blocks_and_spares_share_no_sector() {
    for (width, children, parity, data, spares, groups) in
        [(8, 8, 2, 4, 1, 7), (5, 5, 1, 2, 0, 5), (14, 14, 1, 8, 2, 4), (9, 9, 3, 3, 2, 7), (14, 7, 1, 2, 2, 8)]
    {
        let geometry = Geometry::new(shape(width, children, parity, data, spares, groups)).unwrap();
        let block = ROW_BYTES / 4 * data as u64;
        let step = geometry.asize_bytes(block);
        let slices = 2 * groups as u64 * geometry.group_bytes() / step;
        let mut taken = HashSet::new();
        for number in 0..slices {
            let map = geometry.map(number * step, block).unwrap();
            assert_eq!(map.row_count(), 1);
            assert_eq!(map.size_bytes as u64, block);
            for column in &map.columns {
                assert_eq!(column.size_bytes as u64, ROW_BYTES / 4);
                assert!(taken.insert((column.child, column.offset_bytes)), "{width} {children} {number} {column:?}");
                for spare in 0..spares {
                    assert_ne!(geometry.spare_child(spare, column.offset_bytes), Some(column.child));
                }
            }
        }
        // Nothing is left over: each disk of each row is full.
        let disks = geometry.disks();
        assert_eq!(taken.len() as u64, 2 * geometry.slice_rows() * disks * 4, "{width} {children}");
        assert_eq!(geometry.spare_child(spares, 0), None);
    }
}

#[test]
fn a_row_never_holds_two_columns_of_one_child_and_sizes_add_up() {
    for children in [4usize, 11, 30, 90, 255] {
        for (parity, data, spares) in [(1usize, 1usize, 0usize), (1, 2, 1), (2, 1, 1), (3, 1, 0), (2, children - 4, 2)]
        {
            if data == 0 || data + parity + spares > children {
                continue;
            }
            let disks = children - spares;
            let Some(groups) = (1..=255usize).find(|groups| ((data + parity) * groups).is_multiple_of(disks)) else {
                continue;
            };
            let geometry = Geometry::new(shape(children, children, parity, data, spares, groups)).unwrap();
            for number in 0..300u64 {
                let size = (number * 2654435761 % (128 << 10)) + 1;
                let step = number.wrapping_mul(0x9e37_79b9_97f4_a7c1) >> 20;
                let in_group = step % (ROW_BYTES >> 12) * geometry.alignment_bytes();
                let offset = step % 1021 * geometry.group_bytes() + in_group;
                let map = geometry.map(offset, size).unwrap();
                assert_eq!(map.size_bytes as u64, size.next_multiple_of(4096));
                let all: usize = map.columns.iter().map(|column| column.size_bytes + column.padding_bytes).sum();
                assert_eq!(all as u64, geometry.asize_bytes(size));
                for row in map.rows() {
                    assert_eq!(row.iter().map(|column| column.child).collect::<HashSet<_>>().len(), row.len());
                }
            }
        }
    }
}

#[test]
fn a_block_at_the_end_of_a_group_continues_in_the_next() {
    let geometry = Geometry::new(shape(8, 8, 2, 4, 1, 7)).unwrap();
    let last_row = geometry.group_bytes() - geometry.alignment_bytes();
    let map = geometry.map(last_row, 9 * 4096).unwrap();
    let sizes: Vec<Vec<usize>> =
        map.rows().map(|row| row.iter().map(|column| column.size_bytes / 4096).collect()).collect();
    assert_eq!(sizes, [[1, 1, 1, 1, 1, 1], [2, 2, 2, 1, 1, 1]]);
    assert_eq!(
        map.columns[6].offset_bytes,
        geometry.map(geometry.group_bytes(), 4096).unwrap().columns[0].offset_bytes
    );
}

#[test]
fn invalid_layouts_are_refused() {
    assert!(Geometry::new(shape(8, 8, 4, 2, 1, 7)).is_err());
    assert!(Geometry::new(shape(8, 8, 2, 7, 1, 7)).is_err());
    assert!(Geometry::new(shape(8, 8, 2, 4, 1, 6)).is_err());
    assert!(Geometry::new(shape(0, 8, 2, 4, 1, 7)).is_err());
    assert!(Geometry::new(shape(8, 0, 2, 4, 1, 7)).is_err());
    let geometry = Geometry::new(shape(8, 8, 2, 4, 1, 7)).unwrap();
    assert!(geometry.map(4096, 4096).is_err());
    assert!(geometry.map(0, 0).is_err());
    assert!(geometry.map(0, u64::MAX).is_err());
    assert!(geometry.map(u64::MAX, 4096).is_err());
}
