//! dRAID: raidz groups spread over more children than a group has columns, with spare space spread
//! over all of them. Pure geometry, no I/O.
//!
//! Below: [`columns`](super::columns). Above: the vdev tree. Format: docs/format/draid.md.
//! ZFS name: vdev_draid.
//!
//! Children are divided into rows of 16 MiB. Each row uses a permutation of the children. The last
//! ones in that order are spare space; the others (disks) are filled with groups of data + parity
//! columns, one after the other. A group that does not fit continues in the next row. When a row
//! and a group end together, the slice is full, and the next slice uses the next permutation:
//!
//! ```text
//!   eight children, one spare, groups of two parity and four data columns:
//!   seven groups and six rows make a slice
//!
//!   order    5    6    1    0    2    4    3    7       slice 0
//!          ┌────┬────┬────┬────┬────┬────┬────┬────┐
//!   row 0  │ P    Q    D0   D1   D2   D3 │ P  │ S0 │    groups 0 and 1
//!          ├────┴────┴────┴────┴────┼────┴────┼────┤
//!   row 1  │ Q    D0   D1   D2   D3 │ P    Q  │ S0 │    groups 1 and 2
//!          ├────────────────────────┴─────────┼────┤
//!   …      │ …                                │    │
//!          └──────────────────────────────────┴────┘
//! ```
//!
//! Within a group, blocks are laid out as in raidz, always with full rows: the last row of a block
//! is padded with zeros, which are on disk and count for parity. A block at the end of a group
//! continues in the next one, as a second row of the map.
//!
//! Failure groups: if `width` is a multiple of `children`, several such slices lie side by side,
//! and permutations move children between them only to the same position, so that no failure group
//! has two children of one enclosure.
//!
//! Invariants:
//!   * a row never holds two columns of one child
//!   * an allocation is a multiple of the group's columns, and aligned to it
//!   * the same seed always gives the same permutations

use smallvec::SmallVec;

use super::columns::{Column, Map, Places, ROW_BYTES, Role};
use super::draid_seeds::SEEDS;
use super::raidz::Shares;
use errors::{Error, Result};

/// Bytes at the end of each child that are reserved for a future expansion.
const RESERVED_BYTES: u64 = 2 * ROW_BYTES;

/// Largest block that a pointer can describe, with a margin.
const MAX_BLOCK_BYTES: u64 = 32 << 20;

/// Configuration of a draid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// log2 of the sector size.
    pub ashift: u8,
    /// Number of children of the whole vdev.
    pub width: usize,
    /// Number of children of a failure group (`draid_nchildren`); equal to `width` without failure
    /// groups.
    pub children: usize,
    /// Parity columns of a group (`nparity`).
    pub parity: usize,
    /// Data columns of a group (`draid_ndata`).
    pub data: usize,
    /// Distributed spares (`draid_nspares`).
    pub spares: usize,
    /// Groups in a slice (`draid_ngroups`).
    pub groups: usize,
}

/// A validated draid shape with its permutations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    shape: Shape,
    /// The permutations, one after the other.
    permutations: Vec<u8>,
}

/// Position of a group.
struct Group {
    /// Number of the permutation, including rotations and failure groups.
    permutation: u64,
    /// Position of the first column in the order of children.
    start: u64,
    /// Number of disks of the failure group.
    disks: u64,
    /// Offset on the first child.
    offset_bytes: u64,
}

impl Geometry {
    /// Validates a shape and generates its permutations. Fails with [`Error::Corrupt`].
    pub fn new(shape: Shape) -> Result<Self> {
        let Shape { ashift, width, children, parity, data, spares, groups } = shape;
        let wrong = |what: String| Err(Error::corrupt("draid", what));
        if !(9..=16).contains(&ashift) {
            return wrong(format!("ashift is {ashift}, expected 9 to 16"));
        }
        if !(1..=3).contains(&parity) {
            return wrong(format!("parity is {parity}, expected 1 to 3"));
        }
        if !(2..=255).contains(&children) || width > 255 || width == 0 || !width.is_multiple_of(children) {
            return wrong(format!("{width} children in failure groups of {children}, expected at most 255 and whole"));
        }
        let failure_groups = width / children;
        let spares_each = spares.div_ceil(failure_groups);
        if data == 0 || data > 255 || spares > 100 || children < data + parity + spares_each {
            return wrong(format!("{data} data columns and {spares} spares, more than {children} children can hold"));
        }
        let disks = width - spares;
        if groups == 0 || groups > 255 || !((data + parity) * groups).is_multiple_of(disks) {
            return wrong(format!("{groups} groups of {} columns do not fill rows of {disks} disks", data + parity));
        }
        if groups < failure_groups {
            return wrong(format!("{groups} groups, fewer than the {failure_groups} failure groups"));
        }
        let mut permutations = permutations(children);
        if failure_groups > 1 {
            mix_failure_groups(&mut permutations, children, failure_groups);
        }
        Ok(Self { shape, permutations })
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// log2 of the sector size.
    pub fn ashift(&self) -> u8 {
        self.shape.ashift
    }

    pub fn width(&self) -> usize {
        self.shape.width
    }

    pub fn parity(&self) -> usize {
        self.shape.parity
    }

    /// Number of columns of a group.
    pub fn group_columns(&self) -> usize {
        self.shape.data + self.shape.parity
    }

    /// Allocated size of a block of `psize_bytes`, in bytes: whole rows of the group.
    pub fn asize_bytes(&self, psize_bytes: u64) -> u64 {
        let rows = psize_bytes.div_ceil((self.shape.data as u64) << self.shape.ashift);
        rows.saturating_mul(self.alignment_bytes())
    }

    /// Size of the largest block that fits into `asize_bytes`.
    pub fn psize_bytes(&self, asize_bytes: u64) -> u64 {
        asize_bytes / self.group_columns() as u64 * self.shape.data as u64
    }

    /// Start and size of each allocation are multiples of this; so are the ends of metaslabs.
    pub fn alignment_bytes(&self) -> u64 {
        (self.group_columns() as u64) << self.shape.ashift
    }

    /// Bytes from an address to the end of its group, after which other children follow.
    pub(super) fn bytes_to_group_end(&self, offset_bytes: u64) -> u64 {
        self.group_bytes() - offset_bytes % self.group_bytes()
    }

    /// Smallest size that a block's data is rounded up to, in bytes.
    pub fn minimum_psize_bytes(&self) -> u64 {
        (self.shape.data as u64) << self.shape.ashift
    }

    /// Allocatable bytes of the vdev if its smallest child has `child_bytes` of allocatable space.
    pub fn capacity_bytes(&self, child_bytes: u64) -> u64 {
        let rows = child_bytes.saturating_sub(RESERVED_BYTES) / ROW_BYTES;
        let capacity = (rows * self.disks()).saturating_mul(ROW_BYTES) / self.group_bytes() * self.group_bytes();
        if self.failure_groups() == 1 {
            return capacity;
        }
        let slice = self.slice_bytes().saturating_mul(self.disks());
        capacity / slice * slice
    }

    /// The child that holds distributed spare `spare` at `offset_bytes` (as in
    /// [`Column::offset_bytes`]); `None` if there is no such spare. That child may itself be a
    /// distributed spare.
    pub fn spare_child(&self, spare: usize, offset_bytes: u64) -> Option<usize> {
        if spare >= self.shape.spares {
            return None;
        }
        let failure_groups = self.failure_groups();
        let permutation = (offset_bytes / self.slice_bytes())
            .wrapping_mul(failure_groups)
            .wrapping_add(spare as u64 % failure_groups);
        let place = (self.shape.children as u64 - 1).checked_sub(spare as u64 / failure_groups)?;
        Some(self.child(permutation, place))
    }

    /// Ranges of a child that hold the whole rows in `len` bytes from `offset` on.
    pub(super) fn places(&self, child: usize, offset: u64, len: u64) -> Places {
        let columns = self.group_columns() as u64;
        let (mut at, end) = (offset, offset.saturating_add(len) / self.alignment_bytes() * self.alignment_bytes());
        let mut found = Places::new();
        while at < end {
            // All rows of a group are on the same children.
            let part = (end - at).min(self.group_bytes() - at % self.group_bytes());
            let Some(group) = self.group(at) else { break };
            for number in 0..columns {
                if self.child(group.permutation, (group.start + number) % group.disks) == child {
                    let row = if number >= group.disks - group.start { ROW_BYTES } else { 0 };
                    found.push((group.offset_bytes + row, part / columns));
                }
            }
            at += part;
        }
        found
    }

    /// Maps the block of `size_bytes` at `offset_bytes` (of a DVA). Fails with [`Error::Corrupt`]
    /// if no block can be there.
    ///
    /// A size that is not a whole number of sectors is rounded up.
    pub fn map(&self, offset_bytes: u64, size_bytes: u64) -> Result<Map> {
        let Shape { ashift, parity, .. } = self.shape;
        let wrong = |what: String| Err(Error::corrupt("draid", what));
        if size_bytes == 0 || size_bytes > MAX_BLOCK_BYTES {
            return wrong(format!("block size is {size_bytes}, expected 1 to {MAX_BLOCK_BYTES}"));
        }
        // Doubled, plus two rows of all children, so that no sum below overflows.
        if offset_bytes.checked_add(2 * self.asize_bytes(size_bytes) + 2 * 255 * ROW_BYTES).is_none() {
            return wrong(format!("block offset is {offset_bytes}, beyond any device"));
        }
        if !(offset_bytes % self.group_bytes()).is_multiple_of(self.alignment_bytes()) {
            return wrong(format!("block offset {offset_bytes:#x} is not at the start of a row of its group"));
        }
        let width = self.group_columns();
        let mut rest = size_bytes.next_multiple_of(1 << ashift);
        let mut at = offset_bytes;
        let mut columns: SmallVec<[Column; 12]> = SmallVec::with_capacity(width);
        let mut block_offset_bytes = 0;
        while rest > 0 {
            let room = self.group_bytes() - at % self.group_bytes();
            let part = rest.min(self.psize_bytes(room));
            let Some(group) = self.group(at) else {
                return wrong(format!("block offset {offset_bytes:#x} is in no group"));
            };
            let wrap = group.disks - group.start;
            let shares = Shares::new(part >> ashift, width, parity);
            let longest = shares.column_sectors(0);
            for number in 0..width {
                let column_sectors = shares.column_sectors(number);
                let size_bytes = column_sectors << ashift;
                let is_parity = number < parity;
                let row_offset = if number as u64 >= wrap { ROW_BYTES } else { 0 };
                columns.push(Column {
                    child: self.child(group.permutation, (group.start + number as u64) % group.disks),
                    offset_bytes: group.offset_bytes + row_offset,
                    size_bytes,
                    padding_bytes: (longest - column_sectors) << ashift,
                    role: if is_parity { Role::Parity(number) } else { Role::Data(number - parity) },
                    block_offset_bytes: if is_parity { 0 } else { block_offset_bytes },
                });
                if !is_parity {
                    block_offset_bytes += size_bytes;
                }
            }
            rest -= part;
            at += self.asize_bytes(part);
        }
        Ok(Map {
            parity,
            width,
            size_bytes: block_offset_bytes,
            columns,
            skipped: SmallVec::new(),
            also: SmallVec::new(),
        })
    }

    fn failure_groups(&self) -> u64 {
        (self.shape.width / self.shape.children) as u64
    }

    fn disks(&self) -> u64 {
        (self.shape.width - self.shape.spares) as u64
    }

    fn group_bytes(&self) -> u64 {
        self.group_columns() as u64 * ROW_BYTES
    }

    /// Bytes of each child in a slice.
    fn slice_bytes(&self) -> u64 {
        self.slice_rows() * ROW_BYTES
    }

    fn slice_rows(&self) -> u64 {
        (self.group_columns() * self.shape.groups) as u64 / self.disks()
    }

    /// The group that contains `offset_bytes`. `None` if failure groups of unequal size leave no
    /// place for it.
    fn group(&self, offset_bytes: u64) -> Option<Group> {
        let columns = self.group_columns() as u64;
        let groups = self.shape.groups as u64;
        let failure_groups = self.failure_groups();
        let number = offset_bytes / self.group_bytes();
        let (slice, in_slice) = (number / groups, number % groups);

        // If the spares do not divide evenly, the first failure groups have one more spare, and the
        // others one more disk and one more group.
        let small = self.shape.spares as u64 % failure_groups;
        let groups_small = groups / failure_groups;
        let (failure_group, group, disks) = if small == 0 || in_slice < small * groups_small {
            (in_slice / groups_small, in_slice % groups_small, self.disks() / failure_groups)
        } else {
            let after = in_slice - small * groups_small;
            (small + after / (groups_small + 1), after % (groups_small + 1), self.disks() / failure_groups + 1)
        };
        if failure_group >= failure_groups {
            return None;
        }
        let row = slice * self.slice_rows() + group * columns / disks;
        let sector = ((offset_bytes % self.group_bytes()) >> self.shape.ashift) / columns;
        Some(Group {
            permutation: slice * failure_groups + failure_group,
            start: group * columns % disks,
            disks,
            offset_bytes: row * ROW_BYTES + (sector << self.shape.ashift),
        })
    }

    /// The child at a position of the order. Each permutation is used as many times as there are
    /// children, each time with all child numbers one higher.
    fn child(&self, permutation: u64, place: u64) -> usize {
        let children = self.shape.children as u64;
        let failure_groups = self.failure_groups();
        let count = permutation_count(self.shape.children) as u64 / failure_groups * failure_groups;
        let turn = permutation % (count * children);
        let base = turn / (children * failure_groups) * (children * failure_groups);
        let rotation = turn % children;
        if failure_groups == 1 {
            return ((u64::from(self.permutations[(base + place) as usize]) + rotation) % children) as usize;
        }
        // Child numbers cannot be rotated here, since they also identify the failure group;
        // positions are rotated instead.
        let row = permutation % failure_groups * children;
        usize::from(self.permutations[(base + row + (place + rotation) % children) as usize])
    }
}

/// xoroshiro128++ 1.0, a generator in the public domain by David Blackman and Sebastiano Vigna.
struct Generator([u64; 2]);

impl Generator {
    fn for_children(children: usize) -> Self {
        Self([0xd_7a1d_5eed, SEEDS[children - 2].0])
    }

    fn below(&mut self, limit: u64) -> u64 {
        let [a, mut b] = self.0;
        let result = a.wrapping_add(b).rotate_left(17).wrapping_add(a);
        b ^= a;
        self.0 = [a.rotate_left(49) ^ b ^ b << 21, b.rotate_left(28)];
        result % limit
    }
}

fn permutation_count(children: usize) -> usize {
    if children < 32 { 256 } else { 512 }
}

/// Shuffles of the child numbers, each starting from the previous one.
fn permutations(children: usize) -> Vec<u8> {
    let mut generator = Generator::for_children(children);
    let mut order: Vec<u8> = (0..children).map(|child| child as u8).collect();
    let mut all = Vec::with_capacity(children * permutation_count(children));
    for _ in 0..permutation_count(children) {
        for place in (1..children).rev() {
            order.swap(place, generator.below(place as u64 + 1) as usize);
        }
        all.extend_from_slice(&order);
    }
    all
}

/// Renumbers the children across the failure groups, and lets each child trade places with those of
/// the same number in the other failure groups.
fn mix_failure_groups(permutations: &mut [u8], children: usize, failure_groups: usize) {
    let mut generator = Generator::for_children(children);
    let whole = permutation_count(children) / failure_groups * failure_groups * children;
    for slices in permutations[..whole].chunks_exact_mut(failure_groups * children) {
        let mut places = vec![0; failure_groups];
        for first in 0..children {
            let wanted = slices[first];
            places[0] = first;
            for (group, place) in places.iter_mut().enumerate().skip(1) {
                let found = slices[group * children..][..children].iter().position(|child| *child == wanted);
                *place = group * children + found.expect("not yet numbered on, so still in each permutation");
            }
            for (group, place) in places.iter().enumerate().skip(1) {
                slices[*place] = slices[*place].wrapping_add((group * children) as u8);
            }
            for group in (1..failure_groups).rev() {
                let other = generator.below(group as u64 + 1) as usize;
                slices.swap(places[group], places[other]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
