//! Moves the sectors of a raidz from their places in the old width to those in the new width.
//!
//! ```text
//!   sector s:   from child s % old, row s / old      to child s % new, row s / new
//! ```
//! Parity is moved along with data: rows keep it.

use block::vdev::{DATA_START_BYTES, Leaf, Vdev};
use errors::{Error, Result};
use ondisk::label::BOOT_OFFSET;
use std::panic::resume_unwind;

/// Bytes of each child in memory at a time: a move is split into such pieces.
const PIECE_BYTES: u64 = 4 << 20;

/// Target area of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// Their final place.
    Data,
    /// The scratch area, which is in front of the data.
    Scratch,
}

impl Area {
    fn start(self) -> u64 {
        match self {
            Self::Data => DATA_START_BYTES,
            Self::Scratch => BOOT_OFFSET,
        }
    }
}

/// Moves sectors of one device.
pub(super) struct Mover<'v> {
    leaves: Vec<&'v Leaf>,
    shift: u8,
    txg: u64,
    name: &'v str,
}

/// Rows of a child that hold sectors of `[from, to)`, if there are `width` children.
fn rows(from: u64, to: u64, child: u64, width: u64) -> (u64, u64) {
    let row = |sector: u64| sector.saturating_sub(child).div_ceil(width);
    (row(from), row(to))
}

impl<'v> Mover<'v> {
    pub fn new(top: &'v Vdev, txg: u64) -> Self {
        Self { leaves: top.children.iter().filter_map(Vdev::leaf).collect(), shift: top.ashift, txg, name: &top.name }
    }

    /// Moves the sectors of a range of the device, in pieces. A piece must not overwrite what a
    /// later piece still needs.
    pub fn move_range(&self, from_bytes: u64, to_bytes: u64, area: Area) -> Result<()> {
        let (mut at, end) = (from_bytes >> self.shift, to_bytes >> self.shift);
        let most = ((PIECE_BYTES >> self.shift) * (self.leaves.len() as u64 - 1)).max(1);
        while at < end {
            let next = (at + most).min(end);
            self.move_piece(at, next, area)?;
            at = next;
        }
        Ok(())
    }

    fn move_piece(&self, from: u64, to: u64, area: Area) -> Result<()> {
        let (new, sector) = (self.leaves.len() as u64, 1usize << self.shift);
        let old = new - 1;
        let sources: Vec<(u64, Vec<u8>)> = self.each(old, |child, leaf| {
            let (first, end) = rows(from, to, child, old);
            let mut bytes = vec![0; ((end - first) << self.shift) as usize];
            self.read(leaf, DATA_START_BYTES + (first << self.shift), &mut bytes)?;
            Ok((first, bytes))
        })?;
        self.each(new, |child, leaf| {
            let (first, end) = rows(from, to, child, new);
            let mut bytes = vec![0; ((end - first) << self.shift) as usize];
            for (row, target) in (first..end).zip(bytes.chunks_exact_mut(sector)) {
                let number = row * new + child;
                let (start, source) = &sources[(number % old) as usize];
                let at = ((number / old - start) << self.shift) as usize;
                target.copy_from_slice(&source[at..at + sector]);
            }
            self.write(leaf, area.start() + (first << self.shift), &bytes)
        })?;
        Ok(())
    }

    /// Copies the sectors before `logical_bytes` from the scratch area to their final places.
    pub fn empty_scratch(&self, logical_bytes: u64) -> Result<()> {
        let bytes = logical_bytes / self.leaves.len() as u64;
        self.each(self.leaves.len() as u64, |_, leaf| {
            let mut rows = vec![0; bytes as usize];
            self.read(leaf, BOOT_OFFSET, &mut rows)?;
            self.write(leaf, DATA_START_BYTES, &rows)
        })?;
        Ok(())
    }

    /// Runs `work` for the first `count` children in parallel.
    fn each<R: Send>(&self, count: u64, work: impl Fn(u64, &Leaf) -> Result<R> + Sync) -> Result<Vec<R>> {
        host::threads::scope(|scope| {
            let leaves = self.leaves.iter().take(count as usize).zip(0u64..);
            let running: Vec<_> = leaves
                .map(|(leaf, child)| {
                    scope.spawn({
                        let work = &work;
                        move || {
                            let _doing = block::doing(block::Task::Removal);
                            work(child, leaf)
                        }
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn read(&self, leaf: &Leaf, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        match leaf.read(offset, buf) {
            Some(result) => result.map_err(|e| Error::io(leaf.path.clone(), e)),
            None => Err(Error::missing(self.name, leaf.path.clone())),
        }
    }

    fn write(&self, leaf: &Leaf, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match leaf.write(self.txg, offset, bytes) {
            Some(result) => result.map_err(|e| Error::io(leaf.path.clone(), e)),
            None => Err(Error::missing(self.name, leaf.path.clone())),
        }
    }
}
