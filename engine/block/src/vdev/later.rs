//! Writes whose end the caller does not wait for: those of a txg that is being synced.
//!
//! ```text
//!   Tree::write_later ── columns, copies ──> queues of the leaves ── last one ended ──> done(result)
//! ```
//! What failures mean is decided as in [`super::write`], when the last part has ended.

use super::columns::Map;
use super::plug::Plug;
use super::write::{Attempt, whole_sectors};
use super::{DATA_START_BYTES, Failure, Kind, Tree, Vdev};
use bytes::Bytes;
use host::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// A part of a block: a child of a parity vdev, the offset there, and the bytes. Copies have one
/// part.
struct Part {
    child: usize,
    offset: u64,
    bytes: Bytes,
}

/// A block whose parts are being written.
struct Block {
    /// Writes that have not ended.
    left: usize,
    attempt: Attempt,
    /// By part: its child, and whether some leaf has it.
    parts: Vec<(usize, bool)>,
    /// Number of children that may lack their parts.
    parity: usize,
    txg: u64,
    done: Option<BlockDone>,
}

/// Is called with the result of [`Tree::write_later`].
pub(crate) type BlockDone = Box<dyn FnOnce(Result<(), Failure>) + Send>;

impl Block {
    /// Calls `done` if all parts have ended.
    fn end(mut block: MutexGuard<'_, Self>) {
        if block.left > 0 {
            return;
        }
        let Some(done) = block.done.take() else { return };
        let mut lacking: Vec<usize> = block.parts.iter().filter(|(_, good)| !good).map(|(child, _)| *child).collect();
        lacking.sort_unstable();
        lacking.dedup();
        let readable = lacking.len() <= block.parity;
        let result = std::mem::take(&mut block.attempt).conclude(readable, block.txg);
        drop(block);
        done(result);
    }
}

impl Tree {
    /// Starts to write `data`, part of `txg`, at `offset` of top-level vdev `vdev`. `done` is
    /// called with what [`Tree::write`] would have returned, at the latest when a thread waits for
    /// `plug`. Reads and writes of the same place that come later see these bytes.
    pub(crate) fn write_later(&self, vdev: u32, offset: u64, data: Bytes, txg: u64, plug: &Plug, done: BlockDone) {
        let Some(top) = self.tops.get(vdev as usize) else { return done(self.write(vdev, offset, &data, txg)) };
        let mut gaps = SmallVec::new();
        let parts = match &top.kind {
            Kind::Leaf(_) | Kind::Mirror(_) if offset.checked_add(DATA_START_BYTES).is_some() => {
                Some((vec![Part { child: 0, offset, bytes: padded(data.clone(), 1 << top.ashift) }], 0))
            }
            // A raidz that is being expanded moves blocks, which must be still while they are
            // written.
            Kind::Raidz(g) if g.moving().is_some() => None,
            Kind::Raidz(_) | Kind::Draid(_) => match self.parity_map(top, offset, data.len() as u64, txg) {
                Ok(map) => {
                    gaps = map.skipped.clone();
                    Some((parity_parts(&map, padded(data.clone(), map.size_bytes)), map.parity))
                }
                Err(failure) => return done(Err(failure)),
            },
            _ => None,
        };
        match parts {
            Some((parts, parity)) => {
                self.start(top, parts, parity, txg, plug, done);
                self.allow_fill(top, &gaps);
            }
            None => done(self.write(vdev, offset, &data, txg)),
        }
    }

    /// `gaps`: sectors of an allocation that hold nothing, as [`Map::skipped`].
    fn allow_fill(&self, top: &Vdev, gaps: &[(usize, u64)]) {
        for (child, offset) in gaps {
            for source in self.collect(&top.children[*child], *offset) {
                source.leaf().allow_fill(offset.wrapping_add(DATA_START_BYTES), 1 << top.ashift);
            }
        }
    }

    fn start(&self, top: &Vdev, parts: Vec<Part>, parity: usize, txg: u64, plug: &Plug, done: BlockDone) {
        let is_copies = matches!(top.kind, Kind::Leaf(_) | Kind::Mirror(_));
        let mut writes = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let vdev = if is_copies { top } else { &top.children[part.child] };
            for source in self.collect(vdev, part.offset) {
                let at = part.offset.wrapping_add(DATA_START_BYTES);
                writes.push((number, source.leaf().clone(), at, part.bytes.clone()));
            }
        }
        let block = Arc::new(Mutex::new(Block {
            left: writes.len(),
            attempt: Attempt::default(),
            parts: parts.iter().map(|part| (part.child, false)).collect(),
            parity,
            txg,
            done: Some(done),
        }));
        if writes.is_empty() {
            Block::end(block.lock());
        }
        for (number, leaf, at, bytes) in writes {
            let (block, written) = (block.clone(), leaf.clone());
            let ended = move |result| {
                let mut block = block.lock();
                block.left -= 1;
                let is_good = block.attempt.note(&written, result);
                block.parts[number].1 |= is_good;
                Block::end(block);
            };
            leaf.write_later(txg, at, bytes, plug, Box::new(ended));
        }
    }
}

/// `data`, padded with zeros to a multiple of `unit` bytes.
fn padded(data: Bytes, unit: usize) -> Bytes {
    match whole_sectors(&data, unit) {
        Cow::Owned(whole) => whole.into(),
        Cow::Borrowed(_) => data,
    }
}

/// The parts of a block on a vdev with parity, padding included.
fn parity_parts(map: &Map, block: Bytes) -> Vec<Part> {
    let mut parity = Vec::new();
    let total = map.generate_parity_into(&block, &mut parity);
    parity.truncate(total);
    let mut parity = Bytes::from(parity);
    let columns: Vec<Bytes> = map
        .columns
        .iter()
        .map(|column| match column.is_data() {
            true => block.slice(column.block_offset_bytes..column.block_offset_bytes + column.size_bytes),
            false => parity.split_to(column.size_bytes),
        })
        .collect();
    map.puts()
        .into_iter()
        .map(|put| {
            let bytes = match put.columns.as_slice() {
                [one] => columns[*one].clone(),
                _ => put.joined(|place| &columns[place]).into(),
            };
            Part { child: put.child, offset: put.offset_bytes, bytes }
        })
        .collect()
}
