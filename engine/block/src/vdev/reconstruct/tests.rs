//! Every loss and every silent error that parity can repair, on blocks of all layouts.

use super::super::{draid, raidz};
use super::*;
use rig::noise;

/// The columns of a block, as written.
fn written(map: &Map, block: &[u8]) -> Vec<Vec<u8>> {
    let mut columns: Vec<Vec<u8>> = map
        .columns
        .iter()
        .map(|column| if column.is_data() { map.part(block, column).to_vec() } else { Vec::new() })
        .collect();
    for (place, bytes) in map.generate_parity(block) {
        columns[place] = bytes;
    }
    columns
}

/// Damages columns: `lost` ones are missing, `lying` ones differ in a few bytes. Then reconstructs
/// the block and checks what is reported as wrong.
fn survives(map: &Map, suspects: &Suspects, lost: &[usize], lying: &[usize]) -> bool {
    let block = noise(7, map.size_bytes);
    let good = written(map, &block);
    let mut bad = good.clone();
    for (number, place) in lying.iter().enumerate() {
        let bytes = &mut bad[*place];
        let at = (number * 37) % bytes.len();
        bytes[at] ^= 0x41 + number as u8;
        let last = bytes.len() - 1;
        bytes[last] ^= 0x10;
    }
    let columns: Vec<Option<&[u8]>> =
        bad.iter().enumerate().map(|(place, bytes)| (!lost.contains(&place)).then_some(bytes.as_slice())).collect();
    let Some(found) = reconstruct(map, suspects, &columns, map.size_bytes, &mut |bytes| bytes == block) else {
        return false;
    };
    assert_eq!(found.block, block);
    let mut expected: Vec<(usize, bool)> =
        lost.iter().map(|place| (*place, false)).chain(lying.iter().map(|place| (*place, true))).collect();
    expected.retain(|(place, _)| map.columns[*place].size_bytes > 0);
    expected.sort_unstable();
    assert_eq!(found.wrong.iter().map(|wrong| (wrong.column, wrong.silent)).collect::<Vec<_>>(), expected);
    assert!(found.wrong.iter().all(|wrong| wrong.bytes == good[wrong.column]));
    true
}

#[test]
fn a_row_survives_any_losses_and_corruptions_up_to_its_parity() {
    for parity in 1..=3 {
        let geometry = raidz::Geometry::new(9, parity + 5, parity).unwrap();
        let suspects = Suspects::new(9, parity + 5, parity + 5);
        for sectors in [1, 3, 5, 12, 25] {
            let map = geometry.map(0x5600, sectors * 512, 0).unwrap();
            let width = map.columns.len();
            for damaged in 0u32..1 << width {
                let places: Vec<usize> = (0..width).filter(|place| damaged >> place & 1 == 1).collect();
                if places.len() > parity {
                    continue;
                }
                for losses in 0..=places.len() {
                    assert!(survives(&map, &suspects, &places[..losses], &places[losses..]), "{parity} {places:?}");
                }
            }
        }
    }
}

#[test]
fn more_damage_than_parity_is_admitted() {
    let geometry = raidz::Geometry::new(9, 7, 2).unwrap();
    let suspects = Suspects::new(9, 7, 7);
    let map = geometry.map(0, 20 * 512, 0).unwrap();
    assert!(!survives(&map, &suspects, &[0, 3, 4], &[]));
    assert!(!survives(&map, &suspects, &[3], &[4, 5]));
    assert!(!survives(&map, &suspects, &[], &[2, 4, 5]));
}

#[test]
fn three_liars_among_forty_columns_are_found() {
    let geometry = raidz::Geometry::new(9, 40, 3).unwrap();
    let map = geometry.map(0, 64 << 10, 0).unwrap();
    assert!(survives(&map, &Suspects::new(9, 40, 40), &[], &[20, 30, 39]));
    assert!(survives(&map, &Suspects::new(9, 40, 40), &[1], &[30, 39]));
    assert!(survives(&map, &Suspects::new(9, 40, 40), &[], &[2, 39]));
}

#[test]
fn a_codeword_that_is_the_wrong_block_is_not_searched() {
    let geometry = raidz::Geometry::new(9, 8, 3).unwrap();
    let map = geometry.map(0, 64 << 10, 0).unwrap();
    let columns = written(&map, &noise(3, map.size_bytes));
    let columns: Vec<Option<&[u8]>> = columns.iter().map(|bytes| Some(bytes.as_slice())).collect();
    let mut checks = 0;
    let found = reconstruct(&map, &Suspects::new(9, 8, 8), &columns, map.size_bytes, &mut |_| {
        checks += 1;
        false
    });
    assert_eq!((found, checks), (None, 1));
}

#[test]
fn a_hopeless_search_ends() {
    // Every column of 200 is noise: the bound ends what would be 1.3 million tries.
    let geometry = raidz::Geometry::new(12, 200, 3).unwrap();
    let map = geometry.map(0, 4 << 20, 0).unwrap();
    let columns: Vec<Vec<u8>> =
        map.columns.iter().enumerate().map(|(seed, column)| noise(seed as u64, column.size_bytes)).collect();
    let columns: Vec<Option<&[u8]>> = columns.iter().map(|bytes| Some(bytes.as_slice())).collect();
    let mut checks = 0;
    let found = reconstruct(&map, &Suspects::new(12, 200, 200), &columns, map.size_bytes, &mut |_| {
        checks += 1;
        false
    });
    assert_eq!((found, checks), (None, CHECKED_BYTES_MAX / (4 << 20)));
}

/// Indexes of all columns on the given children, in the current or an earlier width.
fn on(map: &Map, suspects: &Suspects, chosen: &[usize]) -> Vec<usize> {
    (0..map.columns.len())
        .filter(|place| map.columns[*place].size_bytes > 0)
        .filter(|place| chosen.iter().any(|suspect| suspects.hits(*suspect, &map.columns[*place])))
        .collect()
}

#[test]
fn an_expanded_block_survives_lost_or_corrupt_children() {
    for parity in 1..=3 {
        let width = parity + 4;
        let geometry = raidz::Geometry::expanded(9, width, parity, &[10, 20], None).unwrap();
        let suspects = Suspects::new(9, width, width - 2);
        for sectors in [3, 12, 61] {
            for birth in [5, 15] {
                let map = geometry.map(0x2_3400, sectors * 512, birth).unwrap();
                for picks in 0u32..1 << width {
                    let chosen: Vec<usize> = (0..width).filter(|child| picks >> child & 1 == 1).collect();
                    if chosen.len() > parity {
                        continue;
                    }
                    for losses in 0..=chosen.len() {
                        let lost = on(&map, &suspects, &chosen[..losses]);
                        let lying = on(&map, &suspects, &chosen[losses..]);
                        assert!(survives(&map, &suspects, &lost, &lying), "{parity} {sectors} {birth} {chosen:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_child_that_lied_before_an_expansion_is_found_on_the_diagonal() {
    let geometry = raidz::Geometry::expanded(9, 6, 1, &[10, 20], None).unwrap();
    let suspects = Suspects::new(9, 6, 4);
    let map = geometry.map(0x8000, 40 * 512, 5).unwrap();
    for old_child in 6 + 5..6 + 5 + 4 {
        let lying = on(&map, &suspects, &[old_child]);
        assert!(lying.len() > 8);
        assert!(survives(&map, &suspects, &[], &lying), "{old_child}");
    }
}

#[test]
fn rows_of_an_expanded_raidz2_may_each_have_another_liar() {
    let geometry = raidz::Geometry::expanded(9, 7, 2, &[10], None).unwrap();
    let map = geometry.map(0x8000, 40 * 512, 5).unwrap();
    let lying: Vec<usize> = (0..map.row_count())
        .map(|row| row * map.width + row % map.width)
        .filter(|p| map.columns[*p].size_bytes > 0)
        .collect();
    assert!(lying.len() > 8);
    assert!(survives(&map, &Suspects::new(9, 7, 6), &[], &lying));
}

#[test]
fn a_draid_block_at_the_end_of_a_group_survives_damage_to_both_rows() {
    let shape = draid::Shape { ashift: 12, width: 11, children: 11, parity: 2, data: 4, spares: 1, groups: 5 };
    let geometry = draid::Geometry::new(shape).unwrap();
    let group = 6 * (16 << 20);
    let map = geometry.map(group - 2 * geometry.alignment_bytes(), 13 * 4096).unwrap();
    assert_eq!(map.row_count(), 2);
    let suspects = Suspects::new(12, 11, 11);
    for first in 0..6 {
        for second in 6..12 {
            if map.columns[second].size_bytes == 0 {
                continue;
            }
            assert!(survives(&map, &suspects, &[first], &[second]));
            assert!(survives(&map, &suspects, &[], &[first, second]));
            assert!(survives(&map, &suspects, &[], &[first, (first + 1) % 6, second]));
        }
    }
}
