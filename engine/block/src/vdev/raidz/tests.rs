//! Columns computed by hand, and properties of any shape, offset and size.

use super::*;
use std::collections::HashSet;

/// (child, first sector, number of sectors) of each column.
fn columns(map: &Map, ashift: u8) -> Vec<(usize, u64, usize)> {
    map.columns.iter().map(|c| (c.child, c.offset_bytes >> ashift, c.size_bytes >> ashift)).collect()
}

#[test]
fn the_drawn_example_is_laid_out_as_drawn() {
    let geometry = Geometry::new(12, 5, 2).unwrap();
    let map = geometry.map(11 << 12, 7 << 12, 0).unwrap();
    assert_eq!(columns(&map, 12), [(1, 2, 3), (2, 2, 3), (3, 2, 3), (4, 2, 2), (0, 3, 2)]);
    assert_eq!(map.skipped.as_slice(), [(4, 4 << 12), (0, 5 << 12)]);
    assert_eq!(geometry.asize_bytes(7 << 12, 0), 15 << 12);
    assert_eq!(map.columns.iter().map(|c| c.block_offset_bytes >> 12).collect::<Vec<_>>(), [0, 0, 0, 3, 5]);
}

#[test]
fn single_parity_changes_places_every_other_mebibyte() {
    let geometry = Geometry::new(9, 3, 1).unwrap();
    assert_eq!(columns(&geometry.map(0xf_f600, 1024, 0).unwrap(), 9), [(0, 0x2a9, 1), (1, 0x2a9, 1), (2, 0x2a9, 1)]);
    let map = geometry.map(0x10_0400, 1024, 0).unwrap();
    assert_eq!(columns(&map, 9), [(2, 0x2ab, 1), (1, 0x2ab, 1), (0, 0x2ac, 1)]);
    let double = Geometry::new(9, 3, 2).unwrap().map(0x10_0400, 512, 0).unwrap();
    assert_eq!(columns(&double, 9)[0], (1, 0x2ab, 1));
}

#[test]
fn the_width_of_a_block_follows_from_its_birth() {
    let geometry = Geometry::expanded(12, 6, 1, &[100, 200], None).unwrap();
    assert_eq!([99, 100, 199, 200].map(|txg| geometry.logical_width(txg)), [4, 5, 5, 6]);
    let reflow = Some(Reflow { offset_bytes: 0, in_scratch: false });
    let geometry = Geometry::expanded(12, 6, 1, &[100], reflow).unwrap();
    assert_eq!([99, 100, u64::MAX].map(|txg| geometry.logical_width(txg)), [4, 5, 5]);
}

#[test]
fn a_moved_row_is_at_its_new_place_and_a_torn_one_at_the_old() {
    // Three children become four. Rows of the old width are sectors 0-2, 3-5, 6-8; eight sectors
    // have been moved.
    let reflow = |in_scratch| Some(Reflow { offset_bytes: 8 << 12, in_scratch });
    let geometry = Geometry::expanded(12, 4, 1, &[], reflow(false)).unwrap();
    let map = geometry.map(0, 6 << 12, 5).unwrap();
    assert_eq!(map.row_count(), 3);
    assert_eq!(
        columns(&map, 12),
        [(0, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1), (0, 1, 1), (1, 1, 1), (0, 2, 1), (1, 2, 1), (2, 2, 1)]
    );
    let geometry = Geometry::expanded(12, 4, 1, &[], reflow(true)).unwrap();
    let map = geometry.map(0, 6 << 12, 5).unwrap();
    assert_eq!(map.columns[4].device_offset_bytes(), (512 << 10) + (1 << 12));
    assert_eq!(map.columns[6].device_offset_bytes(), (4 << 20) + (2 << 12));
    // The uberblock's word: state 1, offset in units of 512 bytes.
    assert_eq!(Reflow::from_uberblock(1 << 55 | 64), reflow(true).unwrap());
    assert_eq!(Reflow::from_uberblock(2 << 55 | 64), reflow(false).unwrap());
}

/// The columns and the skipped sectors together are exactly the sectors of the allocation, whatever
/// width it was made for. No row has a child twice. Each byte of the block occurs once.
#[test]
fn any_block_takes_exactly_its_allocation() {
    let mut chance = rig::Chance::new(1);
    for round in 0..3000u64 {
        let ashift = [9, 12, 14][(round % 3) as usize];
        let parity = 1 + chance.next() as usize % 3;
        let expansions = chance.next() as usize % 4;
        let original = parity + 1 + chance.next() as usize % 20;
        let txgs: Vec<u64> = (1..=expansions as u64).map(|i| i * 10).collect();
        let geometry = Geometry::expanded(ashift, original + expansions, parity, &txgs, None).unwrap();
        let birth = chance.next() % 50;
        let offset = (chance.next() % (1 << (30 - ashift))) << ashift;
        let size = 1 + chance.next() % if round % 10 == 0 { 1 << 20 } else { 40 << ashift };
        let map = geometry.map(offset, size, birth).unwrap();

        let asize = geometry.asize_bytes(size, birth);
        assert!((asize >> ashift).is_multiple_of(parity as u64 + 1));
        assert!(geometry.psize_bytes(asize, birth) >= size);
        assert!(geometry.asize_bytes(geometry.psize_bytes(asize, birth), birth) <= asize);

        let width = geometry.children() as u64;
        let expected: HashSet<(usize, u64)> =
            (0..asize >> ashift).map(|i| (offset >> ashift) + i).map(|b| ((b % width) as usize, b / width)).collect();
        let mut found = HashSet::new();
        for column in &map.columns {
            for sector in 0..column.size_bytes as u64 >> ashift {
                assert!(found.insert((column.child, (column.offset_bytes >> ashift) + sector)));
            }
        }
        for (child, offset) in &map.skipped {
            assert!(found.insert((*child, offset >> ashift)));
        }
        assert_eq!(found, expected, "{geometry:?} {offset:#x} {size:#x} {birth}");

        for row in map.rows() {
            assert_eq!(row.iter().map(|column| column.child).collect::<HashSet<_>>().len(), row.len());
            assert!(row.iter().all(|column| column.size_bytes <= row[0].size_bytes));
        }
        let mut block: Vec<(usize, usize)> = map
            .columns
            .iter()
            .filter(|column| column.is_data() && column.size_bytes > 0)
            .map(|column| (column.block_offset_bytes, column.size_bytes))
            .collect();
        block.sort_unstable();
        let end = block.iter().fold(0, |at, (offset, size)| {
            assert_eq!(at, *offset);
            at + size
        });
        assert_eq!(end, map.size_bytes);
        assert_eq!(end as u64, size.next_multiple_of(1 << ashift));

        let reads = map.reads(Column::is_data);
        assert_eq!(reads.iter().map(|read| read.size_bytes).sum::<usize>(), map.size_bytes);
        if geometry.logical_width(birth) == geometry.children() {
            let mut buffer = vec![0; map.size_bytes];
            assert!(map.split(&mut buffer).is_some());
        }
    }
}

#[test]
fn impossible_layouts_are_refused() {
    assert!(Geometry::new(8, 3, 1).is_err());
    assert!(Geometry::new(9, 1, 1).is_err());
    assert!(Geometry::new(9, 5, 4).is_err());
    assert!(Geometry::new(9, 5, 0).is_err());
    assert!(Geometry::new(9, 256, 1).is_err());
    assert!(Geometry::expanded(9, 4, 2, &[1, 2], None).is_err());
    let geometry = Geometry::expanded(9, 5, 2, &[7], None).unwrap();
    for birth in [0, 7] {
        assert!(geometry.map(0, 0, birth).is_err());
        assert!(geometry.map(0, u64::MAX, birth).is_err());
        assert!(geometry.map(u64::MAX - 511, 512, birth).is_err());
        assert_eq!(geometry.psize_bytes(u64::MAX, birth) % 512, 0);
        assert!(geometry.asize_bytes(u64::MAX, birth) > 0);
    }
}
