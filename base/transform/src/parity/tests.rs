//! Compares parity with its definition and each backend with the scalar one, and reconstructs every
//! recoverable loss.

use super::*;
use proptest::prelude::*;
use rig::noise;

/// By the formula, one byte at a time.
fn by_definition(which: usize, data: &[&[u8]], length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| {
            data.iter().enumerate().fold(0, |sum, (column, bytes)| {
                let factor = power(1 << which, data.len() - 1 - column);
                sum ^ multiply(factor, bytes.get(at).copied().unwrap_or(0))
            })
        })
        .collect()
}

fn generated(backend: Backend, count: usize, data: &[&[u8]], length: usize) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0xa5; length]; count];
    let mut columns: Vec<&mut [u8]> = parity.iter_mut().map(|column| column.as_mut_slice()).collect();
    generate_with(backend, &mut columns, data);
    parity
}

fn backends() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.available())
}

#[test]
fn the_field_has_255_powers_of_two_and_inverses() {
    let powers: std::collections::BTreeSet<u8> = (0..255).map(|exponent| power(2, exponent)).collect();
    assert_eq!(powers.len(), 255);
    assert_eq!(power(2, 8), 0x1d);
    assert!((1..=255).all(|element| multiply(element, inverse(element)) == 1));
}

#[test]
fn parity_of_single_bytes_is_known() {
    // Computed by hand: Q = 2·1 + 2 = 0 and R = 4·1 + 2 = 6 for the columns [1], [2].
    for backend in backends() {
        assert_eq!(generated(backend, 3, &[&[1], &[2]], 1), [[3], [0], [6]]);
    }
}

#[test]
fn any_loss_that_the_parity_can_spare_is_made_good() {
    // Seven data columns, the last three a sector shorter; all subsets of lost data and lost
    // parity.
    let data: Vec<Vec<u8>> = (0..7u64).map(|column| noise(column, if column < 4 { 1536 } else { 1024 })).collect();
    let all: Vec<&[u8]> = data.iter().map(|column| column.as_slice()).collect();
    for backend in backends() {
        let parity = generated(backend, 3, &all, 1536);
        for lost_data in 0u32..1 << 7 {
            for lost_parity in 0u32..1 << 3 {
                let lost = lost_data.count_ones() as usize;
                let given: Vec<Option<&[u8]>> =
                    (0..3).map(|which| (lost_parity >> which & 1 == 0).then_some(parity[which].as_slice())).collect();
                let kept: Vec<&[u8]> =
                    (0..7).map(|column| if lost_data >> column & 1 == 0 { all[column] } else { &[] }).collect();
                let mut rebuilt: Vec<(usize, Vec<u8>)> = (0..7)
                    .filter(|column| lost_data >> column & 1 == 1)
                    .map(|column| (column, vec![0x5a; all[column].len()]))
                    .collect();
                let mut missing: Vec<Missing<'_>> =
                    rebuilt.iter_mut().map(|(column, bytes)| Missing { column: *column, bytes }).collect();
                let result = reconstruct_with(backend, &given, &kept, &mut missing);
                if lost > 3 - lost_parity.count_ones() as usize {
                    assert!(result.is_err());
                } else {
                    assert_eq!(result, Ok(()));
                    for (column, bytes) in rebuilt {
                        assert!(bytes == all[column], "{backend:?}: data {lost_data:b}, parity {lost_parity:b}");
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn every_backend_computes_the_definition(
        lengths in prop::collection::vec(0usize..700, 1..20),
        count in 1usize..=3,
        seed: u64,
    ) {
        let length = lengths.iter().copied().max().unwrap();
        let data: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, length)| noise(seed ^ i as u64, *length)).collect();
        let columns: Vec<&[u8]> = data.iter().map(|column| column.as_slice()).collect();
        let expected: Vec<Vec<u8>> = (0..count).map(|which| by_definition(which, &columns, length)).collect();
        for backend in backends() {
            prop_assert_eq!(&generated(backend, count, &columns, length), &expected, "{:?}", backend);
        }
    }

    #[test]
    fn every_backend_finds_the_wrong_parity_columns(
        columns in 1usize..20,
        length in 1usize..2000,
        wrong in prop::collection::vec(any::<bool>(), 3),
        unknown in prop::collection::vec(any::<bool>(), 3),
        place: prop::sample::Index,
        seed: u64,
    ) {
        let data: Vec<Vec<u8>> = (0..columns).map(|i| noise(seed ^ i as u64, length)).collect();
        let data: Vec<&[u8]> = data.iter().map(|column| column.as_slice()).collect();
        let mut parity = generated(Backend::Scalar, 3, &data, length);
        for (column, wrong) in parity.iter_mut().zip(&wrong) {
            column[place.index(length)] ^= u8::from(*wrong) << (seed % 8);
        }
        let given: Vec<Option<&[u8]>> =
            parity.iter().zip(&unknown).map(|(column, unknown)| (!unknown).then_some(column.as_slice())).collect();
        for backend in backends() {
            let found = verify_with(backend, &given, &data);
            prop_assert!((0..3).all(|which| found[which] == (wrong[which] && !unknown[which])), "{backend:?}");
        }
    }

    #[test]
    fn every_backend_rebuilds_lost_columns_in_wide_rows(
        columns in 4usize..=255,
        length in 1usize..400,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..=3),
        choose in 0usize..7,
        seed: u64,
    ) {
        let lost: std::collections::BTreeSet<usize> = lost.iter().map(|index| index.index(columns)).collect();
        let data: Vec<Vec<u8>> = (0..columns).map(|i| noise(seed ^ i as u64, length)).collect();
        let all: Vec<&[u8]> = data.iter().map(|column| column.as_slice()).collect();
        let parity = generated(Backend::Scalar, 3, &all, length);
        let masks: Vec<usize> = (1usize..8).filter(|mask| mask.count_ones() as usize >= lost.len()).collect();
        let mask = masks[choose % masks.len()];
        let given: Vec<Option<&[u8]>> = (0..3).map(|i| (mask >> i & 1 == 1).then_some(parity[i].as_slice())).collect();
        let kept: Vec<&[u8]> = (0..columns).map(|i| if lost.contains(&i) { &[][..] } else { all[i] }).collect();
        for backend in backends() {
            let mut rebuilt: Vec<(usize, Vec<u8>)> = lost.iter().map(|i| (*i, vec![0; length])).collect();
            let mut missing: Vec<Missing<'_>> =
                rebuilt.iter_mut().map(|(column, bytes)| Missing { column: *column, bytes }).collect();
            reconstruct_with(backend, &given, &kept, &mut missing).unwrap();
            for (column, bytes) in rebuilt {
                prop_assert_eq!(&bytes, &data[column], "{:?}", backend);
            }
        }
    }
}
