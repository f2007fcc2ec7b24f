//! Combinatorial reconstruction of a block with parity: finds the right bytes when some columns are
//! missing and some are silently wrong.
//!
//! Below: [`columns`](super::columns), `transform::parity`. Above: reads and verification of raidz
//! and draid. ZFS name: vdev_raidz_combrec.
//!
//! Missing columns are rebuilt first. If the block then fails its check, some column is silently
//! wrong and has to be found. A row's *slack* is the number of its good parity columns that the
//! rebuild did not need:
//!
//!   * A row whose slack agrees with its data is a codeword: rebuilding any of its columns from the
//!     others, as many as the slack allows, gives the same bytes again. So only rows that disagree
//!     with themselves are searched. If there is none, no search can help.
//!   * Suspecting fewer columns than the slack leaves spare parity, which shows whether the
//!     suspicion can be right. That is tried on a few bytes where the row disagrees, and rejects
//!     nearly all wrong suspicions without rebuilding anything.
//!   * Suspecting as many columns as the slack always fits, so the block's own check has to decide.
//!
//! A block of one row is searched by columns: one suspect, then two, then three. Blocks of an
//! expanded raidz have many rows. There, each row is first asked which of its columns it suspects.
//! Then whole children are suspected, in the current width and in each earlier one: if a child was
//! wrong before an expansion, the expansion spread its errors diagonally.
//!
//! Invariants:
//!   * a returned block has passed the check
//!   * the work is bounded by [`CHECKED_BYTES_MAX`] and [`SUSPICIONS_MAX`]

use smallvec::SmallVec;
use transform::parity;
use transform::parity::{MAX_PARITY, Missing};

use super::columns::{Column, Map};

/// Bytes that one search may pass to the check, at least [`CHECKS_MIN`] blocks. Chosen so that a
/// search takes a few seconds at most: 128 KiB blocks get 32,768 tries, and three wrong columns
/// among 40 need 9,880.
const CHECKED_BYTES_MAX: usize = 4 << 30;

/// Number of tries that even the largest block gets.
const CHECKS_MIN: usize = 512;

/// Number of suspicions that one search may test on a few bytes; each takes under a microsecond.
const SUSPICIONS_MAX: usize = 8 << 20;

/// Number of places where a suspicion is tested, and bytes of each.
const WINDOWS_MAX: usize = 4;
const WINDOW_BYTES: usize = 64;

/// Maximum number of rows that disagree with themselves for which all combinations of suspicions
/// are tried.
const ROWS_COMBINED_MAX: usize = 3;

/// Columns that go wrong together, in blocks of more than one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspects {
    ashift: u8,
    /// Number of children now, and before each expansion.
    widths: SmallVec<[usize; 2]>,
}

impl Suspects {
    /// For a vdev that has `width` children now and had `original_width` at first.
    pub fn new(ashift: u8, width: usize, original_width: usize) -> Self {
        Self { ashift, widths: (original_width.min(width)..=width).rev().collect() }
    }

    fn count(&self) -> usize {
        self.widths.iter().sum()
    }

    /// Whether `column` was on child `suspect`. Numbers from 0 on are the current children,
    /// followed by those of the previous width, and so on.
    fn hits(&self, mut suspect: usize, column: &Column) -> bool {
        let Some(now) = self.widths.first() else { return false };
        let sector = (column.offset_bytes >> self.ashift).wrapping_mul(*now as u64).wrapping_add(column.child as u64);
        for width in &self.widths {
            if suspect < *width {
                return sector % *width as u64 == suspect as u64;
            }
            suspect -= width;
        }
        false
    }
}

/// A column that was missing or wrong, with its right contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Index into [`Map::columns`].
    pub column: usize,
    /// Whether it was present but wrong.
    pub silent: bool,
    pub bytes: Vec<u8>,
}

/// A block that passed its check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// All data columns in the block's order: [`Map::size_bytes`] bytes.
    pub block: Vec<u8>,
    /// Every column, data or parity, that was missing or wrong.
    pub wrong: Vec<Wrong>,
}

/// Finds the block whose first `size_bytes` bytes pass `check`.
///
/// `columns` has an entry for each of [`Map::columns`]: its bytes, or `None` if unavailable. Most
/// of the parity should be among them: wrong columns are found only as far as parity proves them.
///
/// Returns `None` if there is no such block, or if none was found within the bounds.
///
/// # Panics
///
/// If `columns` has fewer entries than the map, if an entry is shorter than its column, or if
/// `size_bytes` is more than the map's.
pub fn reconstruct(
    map: &Map,
    suspects: &Suspects,
    columns: &[Option<&[u8]>],
    size_bytes: usize,
    check: &mut dyn FnMut(&[u8]) -> bool,
) -> Option<Recovered> {
    let mut block = vec![0; map.size_bytes];
    for (column, bytes) in map.columns.iter().zip(columns) {
        if let (true, Some(bytes)) = (column.is_data(), bytes) {
            map.part_mut(&mut block, column).copy_from_slice(&bytes[..column.size_bytes]);
        }
    }
    let rows: Vec<Row<'_>> =
        (0..map.row_count()).map(|number| Row::new(map, columns, number)).collect::<Option<_>>()?;
    let mut search = Search {
        map,
        block,
        size_bytes,
        check,
        checks_left: (CHECKED_BYTES_MAX / size_bytes.max(1)).max(CHECKS_MIN),
        suspicions_left: SUSPICIONS_MAX,
        scratch: Default::default(),
    };
    for row in &rows {
        search.rebuild(row, &[]);
    }
    if search.passes() || search.by_suspicion(rows, suspects) {
        let block = search.block;
        let wrong = wrong_columns(map, columns, &block);
        return Some(Recovered { block, wrong });
    }
    None
}

/// Every column that differs from the right block.
fn wrong_columns(map: &Map, columns: &[Option<&[u8]>], block: &[u8]) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut compare = |place: usize, right: &[u8]| {
        let stored = columns[place].map(|bytes| &bytes[..right.len()]);
        if stored != Some(right) && !right.is_empty() {
            wrong.push(Wrong { column: place, silent: stored.is_some(), bytes: right.to_vec() });
        }
    };
    for (place, bytes) in map.generate_parity(block) {
        compare(place, &bytes);
    }
    for (place, column) in map.columns.iter().enumerate().filter(|(_, column)| column.is_data()) {
        compare(place, map.part(block, column));
    }
    wrong.sort_by_key(|wrong| wrong.column);
    wrong
}

/// Indexes of columns in a row.
type Places = SmallVec<[usize; MAX_PARITY]>;

/// State of a row.
struct Row<'a> {
    columns: &'a [Column],
    /// Data columns; missing ones are empty.
    data: SmallVec<[&'a [u8]; 16]>,
    parity: [Option<&'a [u8]>; MAX_PARITY],
    /// Indexes of missing data columns.
    missing: Places,
    /// Indexes of columns that are present, and so could be wrong.
    present: SmallVec<[usize; 16]>,
    slack: usize,
    /// Offsets where the row disagrees with itself.
    windows: SmallVec<[usize; WINDOWS_MAX]>,
}

impl<'a> Row<'a> {
    /// Returns `None` if too much is missing.
    fn new(map: &'a Map, columns: &[Option<&'a [u8]>], number: usize) -> Option<Self> {
        let first = number * map.width;
        let mut row = Row {
            columns: &map.columns[first..first + map.width],
            data: SmallVec::new(),
            parity: [None; MAX_PARITY],
            missing: SmallVec::new(),
            present: SmallVec::new(),
            slack: 0,
            windows: SmallVec::new(),
        };
        let mut given = 0;
        let mut missing = 0;
        for (place, column) in row.columns.iter().enumerate() {
            let bytes = columns[first + place].map(|bytes| &bytes[..column.size_bytes]);
            if place < map.parity {
                row.parity[place] = bytes;
                given += usize::from(bytes.is_some());
            } else {
                row.data.push(bytes.unwrap_or(&[]));
                if bytes.is_none() && column.size_bytes > 0 {
                    missing += 1;
                    if missing <= MAX_PARITY {
                        row.missing.push(place);
                    }
                }
            }
            if bytes.is_some() && column.size_bytes > 0 {
                row.present.push(place);
            }
        }
        row.slack = usize::checked_sub(given, missing)?;
        Some(row)
    }

    fn parity_count(&self) -> usize {
        self.columns.len() - self.data.len()
    }

    /// The columns to rebuild, and the parity to use, if the `suspected` columns are not trusted.
    fn plan(&self, suspected: &[usize]) -> (Places, [Option<&'a [u8]>; MAX_PARITY]) {
        let mut targets = self.missing.clone();
        let mut parity = self.parity;
        for place in suspected {
            if *place < self.parity_count() {
                parity[*place] = None;
            } else {
                targets.push(*place);
            }
        }
        (targets, parity)
    }

    /// Finds where the row disagrees with itself, taking missing columns from the rebuilt block.
    fn find_windows(&mut self, map: &Map, block: &[u8]) {
        if self.slack == 0 {
            return;
        }
        let count = self.parity_count();
        let length = self.columns[0].size_bytes;
        let whole: SmallVec<[&[u8]; 16]> = self.columns[count..].iter().map(|column| map.part(block, column)).collect();
        if parity::verify(&self.parity[..count], &whole) == [false; MAX_PARITY] {
            return;
        }
        let mut last_end = 0;
        for from in (0..length).step_by(WINDOW_BYTES) {
            let to = (from + WINDOW_BYTES).min(length);
            let data: SmallVec<[&[u8]; 16]> = whole.iter().map(|column| window(column, from, to)).collect();
            let parity = self.parity.map(|column| column.map(|column| window(column, from, to)));
            // Not all at the start: several wrong columns may each be wrong elsewhere.
            if from >= last_end && parity::verify(&parity[..count], &data) != [false; MAX_PARITY] {
                self.windows.push(from);
                last_end = from + length / (2 * WINDOWS_MAX);
                if self.windows.len() == WINDOWS_MAX {
                    break;
                }
            }
        }
    }

    /// Whether the row could be right except for the `suspected` columns, as far as its windows
    /// show.
    fn plausible(&self, suspected: &[usize]) -> bool {
        if suspected.len() >= self.slack {
            return suspected.len() == self.slack;
        }
        let count = self.parity_count();
        let length = self.columns[0].size_bytes;
        let (targets, parity) = self.plan(suspected);
        self.windows.iter().all(|from| {
            let mut rebuilt = [[0; WINDOW_BYTES]; MAX_PARITY];
            let to = (from + WINDOW_BYTES).min(length);
            let parity = parity.map(|column| column.map(|column| window(column, *from, to)));
            let mut data: SmallVec<[&[u8]; 16]> = self.data.iter().map(|column| window(column, *from, to)).collect();
            for place in &targets {
                data[place - count] = &[];
            }
            let mut missing: SmallVec<[Missing<'_>; MAX_PARITY]> = SmallVec::new();
            for (place, bytes) in targets.iter().zip(&mut rebuilt) {
                let end = self.columns[*place].size_bytes.clamp(*from, to);
                missing.push(Missing { column: place - count, bytes: &mut bytes[..end - from] });
            }
            let result = parity::reconstruct(&parity[..count], &data, &mut missing);
            drop(missing);
            if result.is_err() {
                return false;
            }
            for (place, bytes) in targets.iter().zip(&rebuilt) {
                let end = self.columns[*place].size_bytes.clamp(*from, to);
                data[place - count] = &bytes[..end - from];
            }
            parity::verify(&parity[..count], &data) == [false; MAX_PARITY]
        })
    }
}

fn window(column: &[u8], from: usize, to: usize) -> &[u8] {
    &column[from.min(column.len())..to.min(column.len())]
}

struct Search<'a> {
    map: &'a Map,
    block: Vec<u8>,
    size_bytes: usize,
    check: &'a mut dyn FnMut(&[u8]) -> bool,
    checks_left: usize,
    suspicions_left: usize,
    scratch: [Vec<u8>; MAX_PARITY],
}

impl Search<'_> {
    fn passes(&mut self) -> bool {
        if self.checks_left == 0 {
            return false;
        }
        self.checks_left -= 1;
        (self.check)(&self.block[..self.size_bytes])
    }

    fn exhausted(&self) -> bool {
        self.checks_left == 0 || self.suspicions_left == 0
    }

    fn plausible(&mut self, row: &Row<'_>, suspected: &[usize]) -> bool {
        if self.suspicions_left == 0 {
            return false;
        }
        self.suspicions_left -= 1;
        row.plausible(suspected)
    }

    /// Rebuilds the row's missing and suspected data columns from the others, into the block.
    fn rebuild(&mut self, row: &Row<'_>, suspected: &[usize]) {
        let (targets, parity) = row.plan(suspected);
        if targets.is_empty() {
            return;
        }
        let count = row.parity_count();
        let mut data = row.data.clone();
        let mut missing: SmallVec<[Missing<'_>; MAX_PARITY]> = SmallVec::new();
        for (place, bytes) in targets.iter().zip(&mut self.scratch) {
            bytes.resize(row.columns[*place].size_bytes, 0);
            data[place - count] = &[];
            missing.push(Missing { column: place - count, bytes });
        }
        parity::reconstruct(&parity[..count], &data, &mut missing).expect("suspects are no more than the slack");
        drop(missing);
        for (place, bytes) in targets.iter().zip(&self.scratch) {
            self.map.part_mut(&mut self.block, &row.columns[*place]).copy_from_slice(bytes);
        }
    }

    /// Restores rebuilt columns to their stored contents.
    fn restore(&mut self, row: &Row<'_>, suspected: &[usize]) {
        let count = row.parity_count();
        for place in suspected.iter().filter(|place| **place >= count) {
            self.map.part_mut(&mut self.block, &row.columns[*place]).copy_from_slice(row.data[place - count]);
        }
    }

    fn by_suspicion(&mut self, mut rows: Vec<Row<'_>>, suspects: &Suspects) -> bool {
        for row in &mut rows {
            row.find_windows(self.map, &self.block);
        }
        rows.retain(|row| !row.windows.is_empty());
        if rows.is_empty() {
            return false;
        }
        (rows.len() > 1 && (self.by_each_row(&rows) || self.by_child(&rows, suspects)))
            || (rows.len() <= ROWS_COMBINED_MAX && self.by_column(&rows))
    }

    /// Determines for each row separately which columns it suspects: the smallest suspicion that
    /// fits.
    fn by_each_row(&mut self, rows: &[Row<'_>]) -> bool {
        let mut chosen: Vec<Places> = Vec::with_capacity(rows.len());
        for row in rows {
            let found = (1..row.slack).find_map(|size| {
                combinations(row.present.len(), size, |picks| {
                    let suspected: Places = picks.iter().map(|pick| row.present[*pick]).collect();
                    self.plausible(row, &suspected).then_some(suspected)
                })
            });
            match found {
                Some(suspected) => chosen.push(suspected),
                None => return false,
            }
        }
        self.passes_with(rows, &chosen)
    }

    /// Suspects children, in the current width and before each expansion.
    fn by_child(&mut self, rows: &[Row<'_>], suspects: &Suspects) -> bool {
        let seen: Vec<usize> = (0..suspects.count())
            .filter(|suspect| rows.iter().any(|row| row.columns.iter().any(|column| suspects.hits(*suspect, column))))
            .collect();
        (1..=self.map.parity).any(|size| {
            combinations(seen.len(), size, |picks| {
                let mut chosen: Vec<Places> = Vec::with_capacity(rows.len());
                for row in rows {
                    let mut suspected: Places = SmallVec::new();
                    for place in &row.present {
                        if picks.iter().any(|pick| suspects.hits(seen[*pick], &row.columns[*place])) {
                            if suspected.len() == row.slack {
                                return None;
                            }
                            suspected.push(*place);
                        }
                    }
                    if suspected.is_empty() || !self.plausible(row, &suspected) {
                        return self.exhausted().then_some(false);
                    }
                    chosen.push(suspected);
                }
                if self.passes_with(rows, &chosen) {
                    return Some(true);
                }
                self.exhausted().then_some(false)
            })
            .unwrap_or(false)
        })
    }

    fn passes_with(&mut self, rows: &[Row<'_>], chosen: &[Places]) -> bool {
        for (row, suspected) in rows.iter().zip(chosen) {
            self.rebuild(row, suspected);
        }
        if self.passes() {
            return true;
        }
        for (row, suspected) in rows.iter().zip(chosen) {
            self.restore(row, suspected);
        }
        false
    }

    /// Suspects any columns of the first row, and continues with the next row for each suspicion
    /// that fits.
    fn by_column(&mut self, rows: &[Row<'_>]) -> bool {
        let Some((row, others)) = rows.split_first() else { return self.passes() };
        (1..=row.slack).any(|size| {
            combinations(row.present.len(), size, |picks| {
                let suspected: Places = picks.iter().map(|pick| row.present[*pick]).collect();
                let changes = !row.missing.is_empty() || suspected.iter().any(|place| *place >= row.parity_count());
                if (changes || !others.is_empty()) && self.plausible(row, &suspected) {
                    self.rebuild(row, &suspected);
                    if self.by_column(others) {
                        return Some(true);
                    }
                    self.restore(row, &suspected);
                }
                self.exhausted().then_some(false)
            })
            .unwrap_or(false)
        })
    }
}

/// Calls `each` with every choice of `size` numbers below `count`, ascending, until it returns
/// `Some`.
fn combinations<T>(count: usize, size: usize, mut each: impl FnMut(&[usize]) -> Option<T>) -> Option<T> {
    if size > count {
        return None;
    }
    let mut picks: Places = (0..size).collect();
    loop {
        if let Some(found) = each(&picks) {
            return Some(found);
        }
        // The last pick that can still move up; those after it follow directly.
        let last = (0..size).rev().find(|place| picks[*place] + (size - place) < count)?;
        picks[last] += 1;
        for place in last + 1..size {
            picks[place] = picks[place - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests;
