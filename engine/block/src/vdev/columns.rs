//! Maps the bytes of one block to the children of a raidz or draid: rows of parity and data
//! columns.
//!
//! Below: `transform::parity`. Above: `raidz`, `raidz_reflow` and `draid` make a [`Map`]; the I/O
//! of the vdev tree and `reconstruct` use it. ZFS name: raidz_map_t.
//!
//! ```text
//!            parity columns   data columns
//!           ┌───────┬───────┬───────┬───────┬───────┐
//!    row 0  │   P   │   Q   │  D0   │  D1   │  D2   │   a column: bytes of one child
//!           └───────┴───────┴───────┴───────┴───────┘   at one offset; a data column
//!    row 1  …                                           also has an offset in the block
//!
//!    row 1 exists only in expanded raidz, and at the end of a draid group
//! ```
//!
//! Invariants:
//!   * a row never holds two columns of one child
//!   * all rows have the same number of columns, parity columns first
//!   * the data columns of all rows together are the block, each byte once
//!   * no column of a row is longer than its parity columns, which have equal lengths

use smallvec::SmallVec;
use transform::parity;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Parity column: 0 is P, 1 is Q, 2 is R.
    Parity(usize),
    /// Data column, by its number in the row.
    Data(usize),
}

/// Bytes of one child that belong to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Index of the child of the raidz or draid.
    pub child: usize,
    /// Offset on the child, in bytes from the end of its front labels (device offset 4 MiB).
    ///
    /// A column in the scratch area of an expansion is before that. Then this wraps around below
    /// zero, and `wrapping_add` of 4 MiB gives the right offset, as in
    /// [`Column::device_offset_bytes`].
    pub offset_bytes: u64,
    /// Size. 0: a column that counts in the parity formula but has nothing on disk.
    pub size_bytes: usize,
    /// Bytes of zeros that follow and belong to the allocation (draid only; raidz leaves such
    /// sectors unwritten).
    pub padding_bytes: usize,
    pub role: Role,
    /// Offset in the block (0 for parity).
    pub block_offset_bytes: usize,
}

/// Bytes of each child that a row of a draid takes: a block of 16 MiB must fit into one column.
pub(super) const ROW_BYTES: u64 = 16 << 20;

/// Ranges of a child: (offset as in [`Column::offset_bytes`], size in bytes).
pub type Places = SmallVec<[(u64, u64); 4]>;

/// Bytes at the front of each leaf that hold two labels and the boot area.
pub const FRONT_BYTES: u64 = 4 << 20;

impl Column {
    /// Offset from the start of the leaf device.
    pub fn device_offset_bytes(&self) -> u64 {
        self.offset_bytes.wrapping_add(FRONT_BYTES)
    }

    pub fn is_data(&self) -> bool {
        matches!(self.role, Role::Data(_))
    }
}

/// A range of one child that holds one or more consecutive columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Index of the child.
    pub child: usize,
    /// Offset, as in [`Column::offset_bytes`].
    pub offset_bytes: u64,
    /// Size: the sum of the columns.
    pub size_bytes: usize,
    /// Indexes into [`Map::columns`], in the order of their bytes.
    pub columns: SmallVec<[usize; 1]>,
}

/// What one write puts on a child: columns, or padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Index of the child.
    pub child: usize,
    /// Offset, as in [`Column::offset_bytes`].
    pub offset_bytes: u64,
    /// Indexes into [`Map::columns`], in the order of their bytes. Empty: padding.
    pub columns: SmallVec<[usize; 1]>,
    /// Number of zeros, if it is padding.
    pub padding_bytes: usize,
}

impl Put {
    /// The bytes of several columns, or of padding. `column` returns those of a column.
    pub fn joined<'c>(&self, column: impl Fn(usize) -> &'c [u8]) -> Vec<u8> {
        let count: usize = self.columns.iter().map(|place| column(*place).len()).sum();
        let mut bytes = Vec::with_capacity(count + self.padding_bytes);
        self.columns.iter().for_each(|place| bytes.extend_from_slice(column(*place)));
        bytes.resize(bytes.len() + self.padding_bytes, 0);
        bytes
    }
}

/// A block's buffer split into its data columns: (index into [`Map::columns`], bytes).
pub type Parts<'a> = SmallVec<[(usize, &'a mut [u8]); 12]>;

/// The layout of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Number of parity columns per row.
    pub parity: usize,
    /// Number of columns per row.
    pub width: usize,
    /// Size of the block in whole sectors: the sum of the data columns.
    pub size_bytes: usize,
    /// All columns, row after row.
    pub columns: SmallVec<[Column; 12]>,
    /// Sectors of the allocation that hold nothing: (child, offset as in [`Column::offset_bytes`]).
    /// raidz only.
    pub skipped: SmallVec<[(usize, u64); 3]>,
    /// Columns that must be written to a second place, too: (index into [`Map::columns`], child,
    /// offset as in [`Column::offset_bytes`]). They belong to a row that a raidz expansion has
    /// partly moved and that is read from its old place: the part already moved is not moved again.
    pub also: SmallVec<[(usize, usize, u64); 3]>,
}

impl Map {
    /// Iterates over the rows.
    pub fn rows(&self) -> impl Iterator<Item = &[Column]> {
        self.columns.chunks_exact(self.width)
    }

    pub fn row_count(&self) -> usize {
        self.columns.len() / self.width
    }

    /// Returns the reads that fetch the `wanted` columns. Adjacent columns of a child are joined,
    /// except across rows of a draid, where a distributed spare may continue on another child.
    pub fn reads(&self, wanted: impl Fn(&Column) -> bool) -> Vec<Read> {
        let mut order: SmallVec<[usize; 16]> = (0..self.columns.len())
            .filter(|place| self.columns[*place].size_bytes > 0 && wanted(&self.columns[*place]))
            .collect();
        if self.columns.len() > self.width {
            order
                .sort_unstable_by_key(|place| (self.columns[*place].child, self.columns[*place].device_offset_bytes()));
        }
        let mut reads: Vec<Read> = Vec::with_capacity(order.len().min(2 * self.width));
        for place in order {
            let column = &self.columns[place];
            match reads.last_mut() {
                Some(read)
                    if read.child == column.child
                        && !column.offset_bytes.is_multiple_of(ROW_BYTES)
                        && read.offset_bytes.wrapping_add(read.size_bytes as u64) == column.offset_bytes =>
                {
                    read.size_bytes += column.size_bytes;
                    read.columns.push(place);
                }
                _ => reads.push(Read {
                    child: column.child,
                    offset_bytes: column.offset_bytes,
                    size_bytes: column.size_bytes,
                    columns: SmallVec::from_elem(place, 1),
                }),
            }
        }
        reads
    }

    /// What a write of the whole block puts on each child, padding included.
    pub fn puts(&self) -> SmallVec<[Put; 16]> {
        let mut puts: SmallVec<[Put; 16]> = self
            .reads(|_| true)
            .into_iter()
            .map(|Read { child, offset_bytes, columns, .. }| Put { child, offset_bytes, columns, padding_bytes: 0 })
            .collect();
        puts.extend(self.columns.iter().filter(|column| column.padding_bytes > 0).map(|column| Put {
            child: column.child,
            offset_bytes: column.offset_bytes.wrapping_add(column.size_bytes as u64),
            columns: SmallVec::new(),
            padding_bytes: column.padding_bytes,
        }));
        puts.extend(self.also.iter().map(|(place, child, offset_bytes)| Put {
            child: *child,
            offset_bytes: *offset_bytes,
            columns: SmallVec::from_elem(*place, 1),
            padding_bytes: 0,
        }));
        puts
    }

    /// Splits the block's buffer into its data columns, so that each can be read into its place.
    /// Returns `None` if the block's bytes are not in the order of the columns, as after a raidz
    /// expansion.
    pub fn split<'a>(&self, block: &'a mut [u8]) -> Option<Parts<'a>> {
        let mut rest = block.get_mut(..self.size_bytes)?;
        let mut parts = SmallVec::new();
        let mut at = 0;
        for (place, column) in self.columns.iter().enumerate() {
            if column.is_data() && column.size_bytes > 0 {
                if column.block_offset_bytes != at {
                    return None;
                }
                let (part, after) = rest.split_at_mut_checked(column.size_bytes)?;
                parts.push((place, part));
                rest = after;
                at += column.size_bytes;
            }
        }
        Some(parts)
    }

    /// Assembles the block from its data columns. `buffers` has an entry for each column; those of
    /// parity columns are ignored.
    ///
    /// # Panics
    ///
    /// If a data column's buffer is missing or shorter than the column.
    pub fn assemble<B: AsRef<[u8]>>(&self, buffers: &[B]) -> Vec<u8> {
        let mut block = vec![0; self.size_bytes];
        for (column, buffer) in self.columns.iter().zip(buffers) {
            if column.is_data() {
                self.part_mut(&mut block, column).copy_from_slice(&buffer.as_ref()[..column.size_bytes]);
            }
        }
        block
    }

    /// The bytes of a data column in the block.
    pub fn part<'a>(&self, block: &'a [u8], column: &Column) -> &'a [u8] {
        &block[column.block_offset_bytes..][..column.size_bytes]
    }

    /// As [`Map::part`], mutable.
    pub fn part_mut<'a>(&self, block: &'a mut [u8], column: &Column) -> &'a mut [u8] {
        &mut block[column.block_offset_bytes..][..column.size_bytes]
    }

    /// Computes the parity columns of a block: (index into [`Map::columns`], bytes).
    ///
    /// # Panics
    ///
    /// If the block has fewer than [`Map::size_bytes`] bytes.
    pub fn generate_parity(&self, block: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut result = Vec::with_capacity(self.row_count() * self.parity);
        for (number, row) in self.rows().enumerate() {
            let data = self.row_data(block, row);
            let mut columns: SmallVec<[Vec<u8>; 3]> =
                row[..self.parity].iter().map(|column| vec![0; column.size_bytes]).collect();
            {
                let mut targets: SmallVec<[&mut [u8]; 3]> =
                    columns.iter_mut().map(|column| column.as_mut_slice()).collect();
                parity::generate(&mut targets, &data);
            }
            result.extend(columns.into_iter().enumerate().map(|(which, bytes)| (number * self.width + which, bytes)));
        }
        result
    }

    /// Computes all parity columns into `out`, one after the other in the order of
    /// [`Map::columns`], and returns their total size in bytes.
    ///
    /// # Panics
    ///
    /// If the block has fewer than [`Map::size_bytes`] bytes.
    pub fn generate_parity_into(&self, block: &[u8], out: &mut Vec<u8>) -> usize {
        let total = self.columns.iter().filter(|c| !c.is_data()).map(|c| c.size_bytes).sum();
        if out.len() < total {
            out.resize(total, 0);
        }
        let mut rest = &mut out[..total];
        for row in self.rows() {
            let data = self.row_data(block, row);
            let mut targets: SmallVec<[&mut [u8]; 3]> = SmallVec::new();
            for column in &row[..self.parity] {
                let (target, after) = rest.split_at_mut(column.size_bytes);
                targets.push(target);
                rest = after;
            }
            parity::generate(&mut targets, &data);
        }
        total
    }

    /// Compares stored parity columns with the block, which is known to be right. Returns the
    /// indexes into [`Map::columns`] of those that are wrong. `stored` has an entry for each
    /// column; `None` (unknown) is never wrong, and entries of data columns are ignored. Allocates
    /// memory only if something is wrong.
    ///
    /// # Panics
    ///
    /// If the block or a column is too short.
    pub fn wrong_parity(&self, block: &[u8], stored: &[Option<&[u8]>]) -> SmallVec<[usize; 3]> {
        let mut wrong = SmallVec::new();
        for (number, row) in self.rows().enumerate() {
            let first = number * self.width;
            let data = self.row_data(block, row);
            let mut given = [None; parity::MAX_PARITY];
            for (which, column) in row[..self.parity].iter().enumerate() {
                given[which] = stored[first + which].map(|bytes| &bytes[..column.size_bytes]);
            }
            let verdict = parity::verify(&given[..self.parity], &data);
            wrong.extend((0..self.parity).filter(|which| verdict[*which]).map(|which| first + which));
        }
        wrong
    }

    fn row_data<'a>(&self, block: &'a [u8], row: &[Column]) -> SmallVec<[&'a [u8]; 16]> {
        row[self.parity..].iter().map(|column| self.part(block, column)).collect()
    }
}
