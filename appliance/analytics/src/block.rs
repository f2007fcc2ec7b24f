//! Encodes many columns of one statistic as compressed bytes.
//!
//! Similar values are adjacent: all times, then all totals, …, then the cells, each number as a
//! varint, and everything compressed with zstd. Cells are laid out by key if most keys occur in
//! many columns, as in heat maps: the counts of one row of the map then follow each other, which
//! compresses much better than by column (160 bytes per second instead of 230, with `cargo run
//! --example size`). Values that follow from the cells are not stored: totals, and sums and maxima
//! except for the part that the classes do not determine.
//!
//! ```text
//! version │ length of the contents │ zstd( contents )
//! contents: columns │ times │ seconds │ totals │ sums │ maxima │ layout │ cells
//! layout 0: cells of each column │ keys │ counts
//! layout 1: keys │ counts of each key, zeros included
//! ```

use crate::column::{Column, put, take};
use crate::scheme::Scheme;
use std::collections::BTreeSet;
use std::io;

const VERSION: u8 = 1;
/// zstd level: blocks are written once and read often.
const LEVEL: i32 = 19;
/// Maximum length of the uncompressed contents: a larger length is corrupt.
const LONGEST: u64 = 64 << 20;
/// The cells are laid out by key if at least one in this many numbers is non-zero.
const SPARSE: usize = 12;

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a block of statistics is damaged")
}

/// Estimates total, sum and maximum from the cells.
fn guess(cells: &[(u32, u64)], scheme: Option<Scheme>) -> (u64, u64, u64) {
    let total = cells.iter().fold(0u64, |sum, (_, n)| sum.wrapping_add(*n));
    let Some(scheme) = scheme else { return (total, 0, 0) };
    let middle = |class: u32| {
        let (from, to) = scheme.range(class);
        if to == u64::MAX { from } else { from + (to - from) / 2 }
    };
    let sum = cells.iter().fold(0u64, |sum, (class, n)| sum.wrapping_add(middle(*class).wrapping_mul(*n)));
    (total, sum, cells.last().map_or(0, |(class, _)| middle(*class)))
}

/// Encodes a difference such that it is small if the two values are close, in either direction.
fn away(value: u64, guess: u64) -> u64 {
    let step = value.wrapping_sub(guess).cast_signed();
    ((step << 1) ^ (step >> 63)).cast_unsigned()
}

fn back(away: u64, guess: u64) -> u64 {
    guess.wrapping_add((away >> 1) ^ (away & 1).wrapping_neg())
}

/// Encodes columns, each with the second it starts at, ascending. `scheme` is the scheme of the
/// cells' keys, if they are classes; [`unpack`] needs the same.
pub fn pack(columns: &[(u64, Column)], scheme: Option<Scheme>) -> io::Result<Vec<u8>> {
    let mut inside = Vec::new();
    put(&mut inside, columns.len() as u64);
    let mut before = 0;
    for (start, _) in columns {
        put(&mut inside, start.saturating_sub(before));
        before = *start;
    }
    let guesses: Vec<_> = columns.iter().map(|(_, c)| guess(&c.cells, scheme)).collect();
    let both = || columns.iter().map(|(_, c)| c).zip(&guesses);
    columns.iter().for_each(|(_, c)| put(&mut inside, c.seconds.into()));
    both().for_each(|(c, g)| put(&mut inside, away(c.total, g.0)));
    both().for_each(|(c, g)| put(&mut inside, away(c.sum, g.1)));
    both().for_each(|(c, g)| put(&mut inside, away(c.max, g.2)));
    let keys: BTreeSet<u32> = columns.iter().flat_map(|(_, c)| c.cells.iter().map(|(key, _)| *key)).collect();
    let cells: usize = columns.iter().map(|(_, c)| c.cells.len()).sum();
    let is_dense = keys.len() * columns.len() <= cells * SPARSE;
    inside.push(is_dense.into());
    if is_dense {
        put(&mut inside, keys.len() as u64);
        let mut last = 0;
        for key in &keys {
            put(&mut inside, u64::from(key - last));
            last = *key;
        }
        // The remaining cells of each column: keys ascend, like its cells.
        let mut rests: Vec<_> = columns.iter().map(|(_, c)| c.cells.as_slice()).collect();
        for key in &keys {
            for rest in &mut rests {
                let count = match rest.split_first() {
                    Some(((first, n), tail)) if first == key => {
                        *rest = tail;
                        *n
                    }
                    _ => 0,
                };
                put(&mut inside, count);
            }
        }
    } else {
        columns.iter().for_each(|(_, c)| put(&mut inside, c.cells.len() as u64));
        for (_, column) in columns {
            let mut last = 0;
            for (key, _) in &column.cells {
                put(&mut inside, u64::from(key - last));
                last = *key;
            }
        }
        columns.iter().flat_map(|(_, c)| &c.cells).for_each(|(_, n)| put(&mut inside, *n));
    }
    if inside.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many columns for one block"));
    }
    let mut out = vec![VERSION];
    put(&mut out, inside.len() as u64);
    let head = out.len();
    out.resize(head + zstd_safe::compress_bound(inside.len()), 0);
    let room = out.get_mut(head..).unwrap_or_default();
    let len = zstd_safe::compress(room, &inside, LEVEL).map_err(|e| io::Error::other(zstd_safe::get_error_name(e)))?;
    out.truncate(head + len);
    Ok(out)
}

/// Decodes a block: columns by start, in seconds since 1970. Fails with `InvalidData` if it is
/// damaged or of another version.
pub fn unpack(bytes: &[u8], scheme: Option<Scheme>) -> io::Result<Vec<(u64, Column)>> {
    let (&version, mut rest) = bytes.split_first().ok_or_else(damaged)?;
    let len = take(&mut rest).filter(|len| version == VERSION && *len <= LONGEST).ok_or_else(damaged)?;
    let mut inside = vec![0; len as usize];
    let got = zstd_safe::decompress(inside.as_mut_slice(), rest).map_err(|_| damaged())?;
    if got as u64 != len {
        return Err(damaged());
    }
    read(&inside, scheme).ok_or_else(damaged)
}

fn read(mut bytes: &[u8], scheme: Option<Scheme>) -> Option<Vec<(u64, Column)>> {
    let count = usize::try_from(take(&mut bytes)?).ok().filter(|n| *n <= bytes.len())?;
    let mut out: Vec<(u64, Column)> = Vec::new();
    let mut start = 0u64;
    for _ in 0..count {
        start = start.checked_add(take(&mut bytes)?)?;
        out.push((start, Column::default()));
    }
    for (_, column) in &mut out {
        column.seconds = u32::try_from(take(&mut bytes)?).ok()?;
    }
    // These are differences for now: the cells come later.
    for (_, column) in &mut out {
        column.total = take(&mut bytes)?;
    }
    for (_, column) in &mut out {
        column.sum = take(&mut bytes)?;
    }
    for (_, column) in &mut out {
        column.max = take(&mut bytes)?;
    }
    let (&layout, tail) = bytes.split_first()?;
    bytes = tail;
    if layout == 1 {
        let mut keys = Vec::new();
        let mut key = 0u32;
        for _ in 0..take(&mut bytes)? {
            key = key.checked_add(u32::try_from(take(&mut bytes)?).ok()?)?;
            keys.push(key);
        }
        for key in keys {
            for (_, column) in &mut out {
                let n = take(&mut bytes)?;
                if n > 0 {
                    column.cells.push((key, n));
                }
            }
        }
    } else {
        let mut cells = Vec::new();
        for _ in 0..out.len() {
            cells.push(take(&mut bytes)?);
        }
        for ((_, column), cells) in out.iter_mut().zip(cells) {
            let mut key = 0u32;
            for _ in 0..cells {
                key = key.checked_add(u32::try_from(take(&mut bytes)?).ok()?)?;
                column.cells.push((key, 0));
            }
        }
        for (_, n) in out.iter_mut().flat_map(|(_, c)| &mut c.cells) {
            *n = take(&mut bytes)?;
        }
    }
    for (_, column) in &mut out {
        let (total, sum, max) = guess(&column.cells, scheme);
        column.total = back(column.total, total);
        column.sum = back(column.sum, sum);
        column.max = back(column.max, max);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::tests::columns;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_are_unpacked(steps in proptest::collection::vec((0u64..5000, columns()), 0..40), few in any::<bool>()) {
            let mut at = 1_700_000_000;
            let mut all = Vec::new();
            for (step, mut column) in steps {
                at += step;
                // Few cells with many keys use the other layout.
                column.cells.truncate(if few { 1 } else { usize::MAX });
                all.push((at, column));
            }
            for scheme in [None, Some(Scheme::Latency)] {
                prop_assert_eq!(&unpack(&pack(&all, scheme).expect("packed"), scheme).expect("unpacked"), &all);
            }
        }

        #[test]
        fn damage_is_an_error_or_other_columns(column in columns(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let mut bytes = pack(&[(1, column.clone()), (9, column)], None).expect("packed");
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = unpack(&bytes, Some(Scheme::Size));
            bytes.truncate(at);
            prop_assert!(unpack(&bytes, None).is_err());
        }

        #[test]
        fn any_bytes_inside_are_columns_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&bytes, None);
        }
    }
}
