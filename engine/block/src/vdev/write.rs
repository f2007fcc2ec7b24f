//! Writes through the vdev tree: every copy and every column, and decides what failures mean.
//!
//! A write succeeds if the block can be read afterwards: a mirror needs one side, raidz and draid
//! as many children as there are data columns. Leaves that failed or are missing have missed the
//! txg, which is recorded in their stale ranges. The DTL on disk is written from these.
//!
//! Invariants:
//!   * success means that the block can be read, once a flush has succeeded too
//!   * whole sectors are written: the end of a block that is not a multiple is padded with zeros

use super::batch;
use super::columns::Map;
use super::{DATA_START_BYTES, Failure, Kind, Leaf, Tree, Vdev};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Arc;

thread_local! {
    /// Buffer for the parity of a block.
    static PARITY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest buffer that a thread keeps for the next block. Guessed.
const PARITY_KEPT_BYTES: usize = 2 << 20;

impl Vdev {
    /// Bytes that a block of `psize_bytes`, born in `txg`, takes on this top-level vdev, parity and
    /// padding included. `None` if it holds no blocks: holes and missing vdevs.
    pub fn asize_bytes(&self, psize_bytes: u64, txg: u64) -> Option<u64> {
        match &self.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => psize_bytes.checked_next_multiple_of(1 << self.ashift),
            // Only vdevs without parity are removed.
            Kind::Indirect(_) if self.ashift >= 9 => psize_bytes.checked_next_multiple_of(1 << self.ashift),
            Kind::Raidz(g) => Some(g.asize_bytes(psize_bytes, txg)),
            Kind::Draid(g) => Some(g.asize_bytes(psize_bytes)),
            _ => None,
        }
    }

    /// The smallest block that wastes nothing here except parity (`vdev_get_min_alloc`).
    pub fn minimum_psize_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Leaf(_) | Kind::Mirror(_) | Kind::Raidz(_) => Some(1 << self.ashift),
            Kind::Draid(g) => Some(g.minimum_psize_bytes()),
            _ => None,
        }
    }
}

impl Tree {
    /// As [`Vdev::asize_bytes`], for the top-level vdev `vdev`.
    pub fn asize_bytes(&self, vdev: u32, psize_bytes: u64, txg: u64) -> Option<u64> {
        self.tops.get(vdev as usize)?.asize_bytes(psize_bytes, txg)
    }

    /// Prepares the devices of a log block's address for its writes: see
    /// [`Leaf::take_space`](super::Leaf::take_space). Does nothing for RAID-Z and dRAID, where a
    /// block is in many places.
    pub(crate) fn expect_log(&self, dva: &ondisk::Dva) {
        let Some(top) = self.tops.get(dva.vdev as usize) else { return };
        if let (Kind::Leaf(_) | Kind::Mirror(_), Some(at)) = (&top.kind, dva.offset_bytes.checked_add(DATA_START_BYTES))
        {
            top.leaves().iter().for_each(|leaf| leaf.take_space(at, dva.asize_bytes));
        }
    }

    /// Writes `data`, part of `txg`, at `offset` of top-level vdev `vdev`.
    pub fn write(&self, vdev: u32, offset: u64, data: &[u8], txg: u64) -> Result<(), Failure> {
        let Some(top) = self.tops.get(vdev as usize) else {
            return Err(Failure::other(format!("address on device {vdev} of {}", self.tops.len())));
        };
        match &top.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => self.write_copies(top, offset, data, txg),
            Kind::Raidz(_) | Kind::Draid(_) => self.write_parity(top, offset, data, txg),
            Kind::Missing => Err(Failure { missing: vec![top.name.clone()], ..Failure::default() }),
            _ => Err(Failure::other(format!("{} takes no blocks", top.name))),
        }
    }

    fn write_copies(&self, top: &Vdev, offset: u64, data: &[u8], txg: u64) -> Result<(), Failure> {
        let Some(at) = offset.checked_add(DATA_START_BYTES) else {
            return Err(Failure::other(format!("offset {offset:#x} on {}", top.name)));
        };
        let data = whole_sectors(data, 1 << top.ashift);
        let sources = self.collect(top, offset);
        let writes: SmallVec<[_; 4]> =
            sources.iter().map(|source| batch::Write { leaf: source.leaf(), offset: at, bytes: &data }).collect();
        let mut attempt = Attempt::default();
        let mut good = 0;
        for (write, result) in writes.iter().zip(batch::write(&writes, txg)) {
            good += usize::from(attempt.note(write.leaf, result));
        }
        attempt.conclude(good > 0, txg)
    }

    fn write_parity(&self, top: &Vdev, offset: u64, data: &[u8], txg: u64) -> Result<(), Failure> {
        let map = self.parity_map(top, offset, data.len() as u64, txg)?;
        let block = whole_sectors(data, map.size_bytes);
        let mut room = PARITY.take();
        let total = map.generate_parity_into(&block, &mut room);
        let result = self.write_columns(top, &map, &block, &room[..total], txg);
        if room.len() <= PARITY_KEPT_BYTES {
            PARITY.set(room);
        }
        result
    }

    fn write_columns(&self, top: &Vdev, map: &Map, block: &[u8], parity: &[u8], txg: u64) -> Result<(), Failure> {
        // Contents of each column, by index in the map.
        let mut rest = parity;
        let parts: SmallVec<[&[u8]; 16]> = map
            .columns
            .iter()
            .map(|column| {
                if column.is_data() {
                    return map.part(block, column);
                }
                let (part, after) = rest.split_at(column.size_bytes);
                rest = after;
                part
            })
            .collect();
        let puts = map.puts();
        let contents: SmallVec<[Cow<'_, [u8]>; 16]> = puts
            .iter()
            .map(|put| match put.columns.as_slice() {
                [one] => Cow::Borrowed(parts[*one]),
                _ => Cow::Owned(put.joined(|place| parts[place])),
            })
            .collect();
        let mut writes: SmallVec<[_; 16]> = SmallVec::new();
        // By index in `puts`: the last of its writes.
        let mut ends: SmallVec<[usize; 16]> = SmallVec::new();
        for (put, bytes) in puts.iter().zip(&contents) {
            let offset = put.offset_bytes.wrapping_add(DATA_START_BYTES);
            for source in self.collect(&top.children[put.child], put.offset_bytes) {
                writes.push(batch::Write { leaf: source.leaf(), offset, bytes });
            }
            ends.push(writes.len());
        }
        let mut results = batch::write(&writes, txg).into_iter();
        let mut attempt = Attempt::default();
        let mut failed_children: SmallVec<[usize; 4]> = SmallVec::new();
        let mut start = 0;
        for (put, end) in puts.iter().zip(ends) {
            let mut good = false;
            for (write, result) in writes[start..end].iter().zip(&mut results) {
                good |= attempt.note(write.leaf, result);
            }
            start = end;
            if !good && !failed_children.contains(&put.child) {
                failed_children.push(put.child);
            }
        }
        let readable = failed_children.len() <= map.parity;
        attempt.conclude(readable, txg)
    }

    /// Flushes everything written to stable storage. An error means that some block written since
    /// the last success may be lost. Every later flush fails, too, whatever the devices report.
    pub fn flush(&self) -> Result<(), Failure> {
        let tops: Vec<u32> = (0..self.tops.len() as u32).collect();
        self.flush_tops(&tops)
    }

    /// As [`Tree::flush`], for some top-level vdevs only.
    pub fn flush_tops(&self, tops: &[u32]) -> Result<(), Failure> {
        let mut failure = Failure::default();
        let mut failed = false;
        let dirty: Vec<(&Vdev, &Leaf)> = tops
            .iter()
            .filter_map(|number| self.tops.get(*number as usize))
            .flat_map(|top| top.leaves().into_iter().map(move |leaf| (top.as_ref(), leaf)))
            .filter(|(_, leaf)| leaf.needs_flush())
            .collect();
        let mut results = Vec::with_capacity(dirty.len());
        match dirty.as_slice() {
            [] => {}
            [(_, one)] => results.push(one.flush()),
            // Each flush waits for a device, so they run in parallel.
            several => host::threads::scope(|scope| {
                let running: Vec<_> = several.iter().map(|(_, leaf)| scope.spawn(|| leaf.flush())).collect();
                // A panic is no failure of the device: one that was not flushed would count as
                // flushed.
                results.extend(running.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p))));
            }),
        }
        for ((_, leaf), result) in dirty.iter().zip(results) {
            if let Err(e) = result {
                failure.io.push((leaf.path.clone(), Arc::new(e)));
            }
        }
        // Even if nothing failed just now: what a device lost earlier is still lost.
        for top in tops.iter().filter_map(|number| self.tops.get(*number as usize)) {
            if top.leaves().iter().any(|leaf| leaf.has_failed()) && !self.survives(top) {
                failed = true;
                if failure.io.is_empty() {
                    failure.other.push(format!("{}: an earlier flush failed", top.name));
                }
            }
        }
        if failed { Err(failure) } else { Ok(()) }
    }

    /// Whether blocks can be read without the leaves whose flush failed, the missing ones, and
    /// those that missed the same txgs.
    fn survives(&self, top: &Vdev) -> bool {
        let lost: Vec<(u64, u64)> =
            top.leaves().iter().filter(|l| l.has_failed()).flat_map(|l| l.stale_ranges()).collect();
        let overlaps = |leaf: &Leaf| {
            let stale = leaf.stale_ranges();
            stale.iter().any(|(f, l)| lost.iter().any(|(first, last)| f <= last && first <= l))
        };
        let good = |vdev: &Vdev| {
            // A distributed spare is as good as the child it replaces: a block has one column on
            // each device below.
            vdev.logs().into_iter().any(|l| l.is_open() && !l.has_failed() && !overlaps(l))
        };
        let parity = match &top.kind {
            Kind::Raidz(g) => g.parity(),
            Kind::Draid(g) => g.parity(),
            _ => return good(top),
        };
        top.children.iter().filter(|child| !good(child)).count() <= parity
    }
}

/// `data`, padded with zeros to a multiple of `unit` bytes.
pub(super) fn whole_sectors(data: &[u8], unit: usize) -> Cow<'_, [u8]> {
    if data.len().is_multiple_of(unit) {
        return Cow::Borrowed(data);
    }
    let mut whole = Vec::with_capacity(data.len().next_multiple_of(unit));
    whole.extend_from_slice(data);
    whole.resize(data.len().next_multiple_of(unit), 0);
    Cow::Owned(whole)
}

/// The leaves that one write did not reach.
#[derive(Default)]
pub(super) struct Attempt {
    failure: Failure,
    missed: SmallVec<[Leaf; 4]>,
}

impl Attempt {
    /// Records the result of a write. Returns whether the leaf has the bytes.
    pub fn note(&mut self, leaf: &Leaf, result: Option<Result<(), impl Into<Arc<std::io::Error>>>>) -> bool {
        match result {
            Some(Ok(())) => return true,
            None => self.failure.missing.push(leaf.path.clone()),
            Some(Err(e)) => self.failure.io.push((leaf.path.clone(), e.into())),
        }
        self.missed.push(leaf.clone());
        false
    }

    /// The result of the whole write: an error, or a note in the dtls of the leaves that missed it.
    pub fn conclude(self, readable: bool, txg: u64) -> Result<(), Failure> {
        if !readable {
            return Err(self.failure);
        }
        self.missed.iter().for_each(|leaf| leaf.note_missed(txg, txg));
        Ok(())
    }
}
