//! Verifies blocks that lie close together with few large reads, for scrubs.
//!
//! Every copy and every column of each block is verified against its checksum and its parity.
//! Blocks that cannot be judged at once, because a device is missing, fails, or returns wrong
//! bytes, are left to a closer look at that one block (`repair`).
//!
//! Invariants:
//!   * nothing is counted as an error here; the closer look counts
//!   * a block reported as right was read completely from every device that should have it

use super::batch;
use super::parity_read::StillMap;
use super::{DATA_START_BYTES, Kind, Leaf, Source, Tree};

/// Reads are joined over gaps of at most this size, which costs less than another read: as OpenZFS
/// (`zfs_vdev_read_gap_limit`).
const GAP_BYTES: u64 = 32 << 10;
/// Longest joined read, unless one piece is longer: as OpenZFS (`zfs_vdev_aggregation_limit`).
const READ_BYTES_MAX: u64 = 1 << 20;

/// A block of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunBlock {
    /// Offset on the top-level vdev.
    pub offset: u64,
    /// Size as stored, in bytes.
    pub size: u64,
    /// Txg in which it was written.
    pub birth: u64,
}

/// A piece of a block on a leaf.
struct Piece<'t> {
    leaf: &'t Leaf,
    offset: u64,
    len: usize,
    block: usize,
    /// Column in the block's map; 0 for a mirror.
    place: usize,
}

impl Tree {
    /// Returns for each block whether it is right on all devices. `judge` verifies bytes against
    /// the block of that number.
    pub(crate) fn look_at_run(
        &self,
        vdev: u32,
        blocks: &[RunBlock],
        judge: &mut dyn FnMut(usize, &[u8]) -> bool,
        read_bytes: &mut u64,
    ) -> Vec<bool> {
        let mut right = vec![true; blocks.len()];
        let Some(top) = self.tops.get(vdev as usize) else { return vec![false; blocks.len()] };
        let mut maps: Vec<Option<StillMap<'_>>> = Vec::new();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            match &top.kind {
                Kind::Leaf(_) | Kind::Mirror(_) => {
                    let mut leaves = self.collect(top, block.offset);
                    leaves.retain(|leaf| leaf.is_open() && !leaf.is_stale(block.birth));
                    right[number] = !leaves.is_empty();
                    let offset = block.offset.saturating_add(DATA_START_BYTES);
                    let piece = |leaf| Piece { leaf, offset, len: block.size as usize, block: number, place: 0 };
                    pieces.extend(leaves.iter().map(Source::leaf).map(piece));
                    maps.push(None);
                }
                Kind::Raidz(_) | Kind::Draid(_) => {
                    let map = self.parity_map(top, block.offset, block.size, block.birth).ok();
                    right[number] = map.is_some();
                    for (place, column) in map.iter().flat_map(|m| m.columns.iter().enumerate()) {
                        if column.size_bytes == 0 {
                            continue;
                        }
                        let leaves = self.collect(&top.children[column.child], column.offset_bytes);
                        // A child with several leaves, or with a missing one, needs a closer look.
                        match leaves.as_slice() {
                            [leaf] if leaf.is_open() && !leaf.is_stale(block.birth) => pieces.push(Piece {
                                leaf: leaf.leaf(),
                                offset: column.device_offset_bytes(),
                                len: column.size_bytes,
                                block: number,
                                place,
                            }),
                            _ => right[number] = false,
                        }
                    }
                    maps.push(map);
                }
                _ => {
                    right[number] = false;
                    maps.push(None);
                }
            }
        }
        pieces.retain(|piece| right[piece.block]);
        pieces.sort_unstable_by_key(|piece| (piece.leaf.guid, piece.offset));
        let reads = joined(&pieces);
        *read_bytes += reads.iter().map(|read| read.end - read.start).sum::<u64>();
        let ranges = reads.iter().map(|read| batch::Range {
            leaf: read.leaf,
            offset: read.start,
            len: (read.end - read.start) as usize,
            is_joined: read.pieces.len() > 1,
        });
        let buffers = batch::read_without_counting(ranges);
        // By block: its pieces, in the order of its columns.
        let mut parts: Vec<Vec<(usize, &[u8])>> = vec![Vec::new(); blocks.len()];
        for (read, buf) in reads.iter().zip(&buffers) {
            for piece in &pieces[read.pieces.clone()] {
                match buf {
                    Some(buf) => {
                        let from = (piece.offset - read.start) as usize;
                        parts[piece.block].push((piece.place, &buf[from..from + piece.len]));
                    }
                    None => right[piece.block] = false,
                }
            }
        }
        for (number, (block, right)) in blocks.iter().zip(&mut right).enumerate().filter(|(_, (_, right))| **right) {
            let parts = &mut parts[number];
            match &maps[number] {
                None => {
                    *right = parts.first().is_some_and(|(_, first)| judge(number, first))
                        && parts.windows(2).all(|pair| pair[0].1 == pair[1].1);
                }
                Some(map) => {
                    parts.sort_unstable_by_key(|(place, _)| *place);
                    let mut whole = vec![0; map.size_bytes];
                    let mut stored: Vec<Option<&[u8]>> = vec![None; map.columns.len()];
                    for (place, bytes) in parts.iter() {
                        let column = &map.columns[*place];
                        match column.is_data() {
                            true => map.part_mut(&mut whole, column).copy_from_slice(bytes),
                            false => stored[*place] = Some(bytes),
                        }
                    }
                    *right =
                        judge(number, &whole[..block.size as usize]) && map.wrong_parity(&whole, &stored).is_empty();
                }
            }
        }
        right
    }
}

/// A read that covers several pieces of a leaf.
struct Joined<'t> {
    leaf: &'t Leaf,
    start: u64,
    end: u64,
    pieces: std::ops::Range<usize>,
}

/// Joins pieces, sorted by leaf and offset.
fn joined<'t>(pieces: &[Piece<'t>]) -> Vec<Joined<'t>> {
    let mut reads: Vec<Joined<'t>> = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let end = piece.offset + piece.len as u64;
        match reads.last_mut() {
            Some(read)
                if std::ptr::eq(read.leaf, piece.leaf)
                    && piece.offset <= read.end.saturating_add(GAP_BYTES)
                    && end.max(read.end) - read.start <= READ_BYTES_MAX =>
            {
                read.end = read.end.max(end);
                read.pieces.end = number + 1;
            }
            _ => reads.push(Joined { leaf: piece.leaf, start: piece.offset, end, pieces: number..number + 1 }),
        }
    }
    reads
}
