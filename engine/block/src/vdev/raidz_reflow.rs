//! RAID-Z after or during an expansion: blocks laid out for fewer children than there are now.
//!
//! Below: [`raidz`](super::raidz), whose plain map applies to blocks that are not older than the
//! last expansion. Above: the vdev tree.
//!
//! An expansion keeps the numbers of all sectors and changes only the width that maps numbers to
//! places, like text that is reflowed into wider lines. So a row of an old block may start anywhere
//! and continue on the next line. It still has its own parity, and the order in the block is still
//! down the old columns:
//!
//! ```text
//!   written for three children           now four
//!
//!    0    1    2                          0    1    2    3
//!   ┌────┬────┬────┐                     ┌────┬────┬────┬────┐
//!   │ P0 │ D0 │ D2 │   row 0             │ P0 │ D0 │ D2 │ P1 │
//!   ├────┼────┼────┤                     ├────┼────┼────┼────┤
//!   │ P1 │ D1 │ D3 │   row 1             │ D1 │ D3 │    │    │
//!   └────┴────┴────┘                     └────┴────┴────┴────┘
//! ```
//!
//! While sectors are being moved, a row is at its new place if all of it is before the reflow
//! offset, and otherwise at its old place. The first part is moved through a scratch area, the boot
//! area of each child: while the uberblock marks the scratch area as valid, moved rows are read
//! from there. A row that is on both sides of the offset is written to its old place. Its part
//! before the offset is written to the new place as well, since moving continues after the offset.

use smallvec::SmallVec;

use super::columns::{Column, Map, Role};
use super::raidz::{Geometry, Shares, swap_places, swapped};
use errors::{Error, Result};

/// Size of the boot area, which ends where column offsets start.
const SCRATCH_BYTES: u64 = 7 << 19;

/// Largest block that a pointer can describe, with a margin: 65536 sectors of 512 bytes.
const MAX_BLOCK_BYTES: u64 = 32 << 20;

impl Geometry {
    /// Maps the block of `size_bytes` at `offset_bytes` (of a DVA) whose space was allocated in
    /// `birth_txg`. Fails with [`Error::Corrupt`] if no block can be there.
    ///
    /// A size that is not a whole number of sectors, such as that of a gang header, is rounded up.
    pub fn map(&self, offset_bytes: u64, size_bytes: u64, birth_txg: u64) -> Result<Map> {
        if size_bytes == 0 || size_bytes > MAX_BLOCK_BYTES {
            return Err(Error::corrupt(
                "raidz",
                format!("block size is {size_bytes}, expected 1 to {MAX_BLOCK_BYTES}"),
            ));
        }
        // Doubled, so that no sum below overflows.
        if offset_bytes.checked_add(2 * self.asize_bytes(size_bytes, birth_txg)).is_none() {
            return Err(Error::corrupt("raidz", format!("block offset is {offset_bytes}, beyond any device")));
        }
        let width = self.logical_width(birth_txg);
        Ok(if width == self.children() {
            self.plain(offset_bytes, size_bytes)
        } else {
            map(self, width, offset_bytes, size_bytes)
        })
    }
}

/// Maps a block that was laid out for `width` children. The geometry has checked offset and size.
fn map(geometry: &Geometry, width: usize, offset_bytes: u64, size_bytes: u64) -> Map {
    let (ashift, parity) = (geometry.ashift(), geometry.parity());
    let sector_bytes = 1usize << ashift;
    let shares = Shares::new(geometry.sectors(size_bytes), width, parity);
    let rows = shares.total.div_ceil(width as u64) as usize;
    // All rows count as full, including the last: Q and R depend on the number of columns.
    let row_columns = shares.total.min(width as u64) as usize;
    let first = offset_bytes >> ashift;

    let mut columns: SmallVec<[Column; 12]> = SmallVec::with_capacity(rows * row_columns);
    let mut also = SmallVec::new();
    let swaps = swapped(parity, offset_bytes) && row_columns > 1;
    for row in 0..rows {
        let start = first + (row * width) as u64;
        let place = Place::of_row(geometry, start, start + row_columns as u64);
        let moved = Place::of_moved(geometry, start, start + row_columns as u64);
        for number in 0..row_columns {
            let (child, offset_bytes) = place.sector(start + number as u64, ashift);
            let absent = row == rows - 1 && shares.big != 0 && number >= shares.big;
            if let Some((place, end)) = moved.as_ref().filter(|_| !absent) {
                // If columns 0 and 1 trade places, each is at the other one's sector.
                let number_there = match number {
                    0 | 1 if swaps => 1 - number,
                    _ => number,
                };
                let sector = start + number_there as u64;
                if sector < *end {
                    let (child, at) = place.sector(sector, ashift);
                    also.push((row * row_columns + number, child, at));
                }
            }
            let block_sector = match number.checked_sub(parity) {
                None => 0,
                Some(_) if absent => 0,
                Some(data) if number < shares.big || shares.remainder == 0 => data * rows + row,
                Some(data) => shares.remainder * rows + (data - shares.remainder) * (rows - 1) + row,
            };
            columns.push(Column {
                child,
                offset_bytes,
                size_bytes: if absent { 0 } else { sector_bytes },
                padding_bytes: 0,
                role: if number < parity { Role::Parity(number) } else { Role::Data(number - parity) },
                block_offset_bytes: block_sector << ashift,
            });
        }
        if swaps {
            swap_places(&mut columns[row * row_columns..]);
        }
    }
    let place = Place::of_row(geometry, first + shares.total, first + shares.allocated);
    let skipped = (shares.total..shares.allocated).map(|sector| place.sector(first + sector, ashift)).collect();
    Map {
        parity,
        width: row_columns,
        size_bytes: (geometry.sectors(size_bytes) << ashift) as usize,
        columns,
        skipped,
        also,
    }
}

/// Maps the sector numbers of one row to places.
struct Place {
    width: u64,
    in_scratch: bool,
}

impl Place {
    /// The places of the row of sectors `[from, to)`.
    fn of_row(geometry: &Geometry, from: u64, to: u64) -> Self {
        debug_assert!(from <= to);
        let now = geometry.children() as u64;
        match geometry.reflow() {
            None => Self { width: now, in_scratch: false },
            Some(reflow) if to > reflow.offset_bytes >> geometry.ashift() => Self { width: now - 1, in_scratch: false },
            Some(reflow) => Self { width: now, in_scratch: reflow.in_scratch },
        }
    }

    /// For a row `[from, to)` on both sides of the reflow offset: the new places of the sectors
    /// before it, and the sector at the offset.
    fn of_moved(geometry: &Geometry, from: u64, to: u64) -> Option<(Self, u64)> {
        let reflow = geometry.reflow()?;
        let end = reflow.offset_bytes >> geometry.ashift();
        let place = Self { width: geometry.children() as u64, in_scratch: reflow.in_scratch };
        (from < end && end < to).then_some((place, end))
    }

    fn sector(&self, sector: u64, ashift: u8) -> (usize, u64) {
        let offset = (sector / self.width) << ashift;
        let offset = if self.in_scratch { offset.wrapping_sub(SCRATCH_BYTES) } else { offset };
        ((sector % self.width) as usize, offset)
    }
}
