//! RAID-Z: spreads a block over a vdev's children with 1-3 parity columns. Pure geometry, no I/O.
//!
//! Below: [`columns`](super::columns). Above: `raidz_reflow`, then the vdev tree. ZFS name:
//! vdev_raidz. Format: docs/format/raidz.md.
//!
//! The vdev's sectors are numbered across the children: sector `b` is on child `b % width`, at
//! sector `b / width`. A block takes sectors from `b` on, with as many rows as its data needs. In
//! each row parity comes first:
//!
//! ```text
//!   five children, two parity, a block of seven data sectors at b = 11  q = 2 full rows
//!
//!    child 0   child 1   child 2   child 3   child 4         r = 1 sector more
//!   ┌─────────┬─────────┬─────────┬─────────┬─────────┐
//!   │         │    P    │    Q    │   D 0   │   D 3   │      big columns: r + parity = 3 of
//!   ├─────────┼─────────┼─────────┼─────────┼─────────┤      three sectors: P, Q, D0;
//!   │   D 5   │    P    │    Q    │   D 1   │   D 4   │      the others have two
//!   ├─────────┼─────────┼─────────┼─────────┼─────────┤
//!   │   D 6   │    P    │    Q    │   D 2   │   skip  │      10 + 3 sectors, so 2 are skipped
//!   ├─────────┼─────────┼─────────┼─────────┼─────────┤      to make a multiple of parity + 1
//!   │   skip  │         │         │         │         │
//!   └─────────┴─────────┴─────────┴─────────┴─────────┘
//! ```
//!
//! By columns this is one row of contiguous ranges, and it is read that way. The numbers of the
//! data sectors show the order in the block: down the columns.
//!
//! Invariants:
//!   * a row never holds two columns of one child
//!   * an allocation is a multiple of parity + 1 sectors
//!   * with one parity column and bit 20 of the block's offset set, columns 0 and 1 trade places

use smallvec::SmallVec;

use super::columns::{Column, Map, Role};
use errors::{Error, Result};
use host::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::Arc;

/// A validated raidz shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    ashift: u8,
    children: usize,
    parity: usize,
    /// Logical widths with the first txg of each, ascending.
    widths: Vec<(u64, usize)>,
    /// Width before any expansion.
    original_width: usize,
    moving: Option<Arc<Moving>>,
}

/// Progress of an expansion, shared by all trees that contain the vdev. A thread that maps a block
/// holds it until the block was read or written; the thread that moves sectors waits for all of
/// them and keeps others out.
#[derive(Debug)]
pub struct Moving(RwLock<Reflow>);

/// While this is held, no sector of the vdev is moved.
pub(super) struct Still<'m> {
    _guard: RwLockReadGuard<'m, Reflow>,
}

thread_local! {
    /// Number of these guards that this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

impl Moving {
    pub fn new(reflow: Reflow) -> Self {
        Self(RwLock::new(reflow))
    }

    /// Blocks while the caller of [`Moving::stop`] holds its guard.
    pub fn now(&self) -> Reflow {
        *self.0.read_recursive()
    }

    /// Waits for all reads and writes of the vdev and blocks new ones, so that the caller can move
    /// sectors and then update the progress.
    pub fn stop(&self) -> RwLockWriteGuard<'_, Reflow> {
        self.0.write()
    }

    pub(super) fn hold_still(&self) -> Still<'_> {
        // A thread that holds a guard already must not queue behind a writer that waits for that
        // guard.
        let is_first = HELD.replace(HELD.get() + 1) == 0;
        Still { _guard: if is_first { self.0.read() } else { self.0.read_recursive() } }
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl PartialEq for Moving {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.now() == other.now()
    }
}

impl Eq for Moving {}

/// Progress of an expansion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reflow {
    /// Sectors before this offset have been moved to their places in the new width.
    pub offset_bytes: u64,
    /// The moved sectors are still in the scratch area only.
    pub in_scratch: bool,
}

impl Reflow {
    /// From the uberblock's word (`ub_raidz_reflow_info`): offset in 512-byte units in the lower 55
    /// bits, state above.
    pub fn from_uberblock(word: u64) -> Self {
        const SCRATCH_VALID: u64 = 1;
        Self { offset_bytes: (word & ((1 << 55) - 1)) << 9, in_scratch: word >> 55 == SCRATCH_VALID }
    }

    /// To the uberblock's word.
    pub fn to_uberblock(self) -> u64 {
        // RRSS_SCRATCH_VALID, RRSS_SCRATCH_INVALID_SYNCED_REFLOW, RRSS_SCRATCH_NOT_IN_USE.
        let state: u64 = match (self.offset_bytes, self.in_scratch) {
            (_, true) => 1,
            (0, false) => 0,
            (_, false) => 4,
        };
        self.offset_bytes >> 9 | state << 55
    }
}

impl Geometry {
    /// A raidz that was never expanded.
    pub fn new(ashift: u8, children: usize, parity: usize) -> Result<Self> {
        Self::expanded(ashift, children, parity, &[], None)
    }

    /// A raidz that was expanded, or is being expanded. Fails with [`Error::Corrupt`] if the shape
    /// is invalid.
    ///
    /// `expand_txgs` is the configuration's `raidz_expand_txgs`: for each finished expansion, the
    /// first txg with the new width. `reflow` is given while the configuration has
    /// `raidz_expanding`; `children` then includes the new child.
    pub fn expanded(
        ashift: u8,
        children: usize,
        parity: usize,
        expand_txgs: &[u64],
        reflow: Option<Reflow>,
    ) -> Result<Self> {
        let wrong = |what: String| Err(Error::corrupt("raidz", what));
        if !(9..=16).contains(&ashift) {
            return wrong(format!("ashift is {ashift}, expected 9 to 16"));
        }
        if !(1..=3).contains(&parity) {
            return wrong(format!("parity is {parity}, expected 1 to 3"));
        }
        if children > 255 {
            return wrong(format!("{children} children, expected at most 255"));
        }
        let before = children.checked_sub(expand_txgs.len() + usize::from(reflow.is_some()));
        let Some(original_width) = before.filter(|width| *width > parity) else {
            let times = expand_txgs.len() + usize::from(reflow.is_some());
            return wrong(format!("{children} children after {times} expansions, expected more than {parity} before"));
        };
        let mut widths: Vec<(u64, usize)> =
            expand_txgs.iter().enumerate().map(|(i, txg)| (*txg, original_width + i + 1)).collect();
        widths.sort_unstable();
        let moving = reflow.map(|reflow| Arc::new(Moving::new(reflow)));
        Ok(Self { ashift, children, parity, widths, original_width, moving })
    }

    /// The same geometry, with the shared progress of its expansion.
    pub fn with_moving(self, moving: Option<Arc<Moving>>) -> Self {
        Self { moving: self.moving.and(moving), ..self }
    }

    pub fn ashift(&self) -> u8 {
        self.ashift
    }

    pub fn children(&self) -> usize {
        self.children
    }

    pub fn parity(&self) -> usize {
        self.parity
    }

    pub fn original_width(&self) -> usize {
        self.original_width
    }

    /// Progress of a running expansion.
    pub fn reflow(&self) -> Option<Reflow> {
        self.moving.as_ref().map(|moving| moving.now())
    }

    /// Shared progress of a running expansion.
    pub fn moving(&self) -> Option<&Arc<Moving>> {
        self.moving.as_ref()
    }

    /// The width that a block was laid out for, by the txg in which its space was allocated
    /// (physical birth).
    pub fn logical_width(&self, birth_txg: u64) -> usize {
        self.widths.iter().rev().find(|(from, _)| *from <= birth_txg).map_or(self.original_width, |(_, width)| *width)
    }

    /// Allocated size of a block of `psize_bytes`, in bytes.
    pub fn asize_bytes(&self, psize_bytes: u64, birth_txg: u64) -> u64 {
        let data = self.sectors(psize_bytes);
        let data_columns = (self.logical_width(birth_txg) - self.parity) as u64;
        let parity = self.parity as u64;
        let all = data.saturating_add(data.div_ceil(data_columns).saturating_mul(parity));
        all.div_ceil(parity + 1).saturating_mul(parity + 1).saturating_mul(1 << self.ashift)
    }

    /// Size of the largest block that fits into `asize_bytes`.
    pub fn psize_bytes(&self, asize_bytes: u64, birth_txg: u64) -> u64 {
        let width = self.logical_width(birth_txg) as u64;
        let parity = self.parity as u64;
        let sectors = asize_bytes >> self.ashift;
        let last_row = sectors % width;
        // A last row with room for parity alone holds no data.
        let used = if last_row <= parity { sectors - last_row } else { sectors };
        (used - parity * used.div_ceil(width)) << self.ashift
    }

    /// Number of sectors that `bytes` take.
    pub(super) fn sectors(&self, bytes: u64) -> u64 {
        bytes.div_ceil(1 << self.ashift)
    }

    /// The map of a block that was laid out for the current number of children.
    pub(super) fn plain(&self, offset_bytes: u64, size_bytes: u64) -> Map {
        let (ashift, parity) = (self.ashift, self.parity);
        let width = self.children as u64;
        let first = offset_bytes >> ashift;
        let shares = Shares::new(self.sectors(size_bytes), self.children, parity);
        let count = if shares.quotient == 0 { shares.big } else { self.children };

        let mut columns: SmallVec<[Column; 12]> = SmallVec::with_capacity(count);
        let mut block_offset_bytes = 0;
        for number in 0..count {
            let sector = first + number as u64;
            let size_bytes = shares.column_sectors(number) << ashift;
            let is_parity = number < parity;
            columns.push(Column {
                child: (sector % width) as usize,
                offset_bytes: (sector / width) << ashift,
                size_bytes,
                padding_bytes: 0,
                role: if is_parity { Role::Parity(number) } else { Role::Data(number - parity) },
                block_offset_bytes: if is_parity { 0 } else { block_offset_bytes },
            });
            if !is_parity {
                block_offset_bytes += size_bytes;
            }
        }
        if swapped(parity, offset_bytes) {
            swap_places(&mut columns);
        }
        let skipped = (shares.total..shares.allocated)
            .map(|sector| first + sector)
            .map(|sector| ((sector % width) as usize, (sector / width) << ashift))
            .collect();
        Map { parity, width: count, size_bytes: block_offset_bytes, columns, skipped, also: SmallVec::new() }
    }
}

/// Number of sectors in each column of a block.
pub(super) struct Shares {
    /// Number of full rows: data sectors of each column that is not big.
    pub quotient: usize,
    /// Number of data sectors in the row that is not full.
    pub remainder: usize,
    /// Number of columns, parity first, that have one sector more.
    pub big: usize,
    /// Number of data and parity sectors.
    pub total: u64,
    /// As `total`, with skipped sectors.
    pub allocated: u64,
}

impl Shares {
    pub fn new(data_sectors: u64, width: usize, parity: usize) -> Self {
        let data_columns = (width - parity) as u64;
        let quotient = data_sectors / data_columns;
        let remainder = data_sectors % data_columns;
        let total = data_sectors + parity as u64 * (quotient + u64::from(remainder != 0));
        Self {
            quotient: quotient as usize,
            remainder: remainder as usize,
            big: if remainder == 0 { 0 } else { remainder as usize + parity },
            total,
            allocated: total.next_multiple_of(parity as u64 + 1),
        }
    }

    pub fn column_sectors(&self, column: usize) -> usize {
        self.quotient + usize::from(column < self.big)
    }
}

/// Whether parity and the first data column trade places: meant to spread parity over two children,
/// and now part of the format for single parity.
pub(super) fn swapped(parity: usize, offset_bytes: u64) -> bool {
    parity == 1 && offset_bytes & 1 << 20 != 0
}

/// Swaps columns 0 and 1 of a row on disk.
pub(super) fn swap_places(row: &mut [Column]) {
    if let [first, second, ..] = row {
        std::mem::swap(&mut first.child, &mut second.child);
        std::mem::swap(&mut first.offset_bytes, &mut second.offset_bytes);
    }
}

#[cfg(test)]
mod tests;
