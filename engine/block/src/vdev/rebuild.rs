//! Sequential rebuild: restores what leaves lack from the other leaves, range by range and without
//! looking at blocks.
//!
//! No checksum verifies the bytes, so only leaves with an empty dtl are read. A scrub verifies
//! the result later.
//!
//! Facts: vdev_rebuild_range, vdev_draid_rebuild_asize (module/zfs).
//!
//! Invariants:
//!   * a leaf whose dtl is not empty is never read
//!   * if a write to a leaf fails, the txg of the attempt is recorded in its dtl; the end of the
//!     rebuild then keeps its dtl

use super::columns::{Column, Map};
use super::reconstruct::{Suspects, reconstruct};
use super::{DATA_START_BYTES, Failure, Kind, Leaf, Repaired, Tree, Vdev};
use ondisk::Dva;
use std::sync::Arc;

/// Bytes read at a time from each disk (`zfs_rebuild_max_segment`).
const SEGMENT_BYTES: u64 = 1 << 20;
/// Maximum size of a range, in bytes (`SPA_MAXBLOCKSIZE`).
const RANGE_BYTES_MAX: u64 = 16 << 20;

impl Vdev {
    /// Whether leaves below can be rebuilt without knowing the blocks.
    pub fn can_rebuild(&self) -> bool {
        matches!(self.kind, Kind::Leaf(_) | Kind::Mirror(_) | Kind::Draid(_))
    }

    /// Size of the longest range at `offset`, of at most `size` bytes, that [`Tree::rebuild_range`]
    /// accepts.
    pub fn rebuild_bytes(&self, offset: u64, size: u64) -> u64 {
        match &self.kind {
            Kind::Draid(g) => {
                let unit = g.alignment_bytes();
                let most = (SEGMENT_BYTES / (1 << self.ashift) * unit).min(RANGE_BYTES_MAX / unit * unit).max(unit);
                size.min(most).min(g.bytes_to_group_end(offset))
            }
            _ => size.min(SEGMENT_BYTES),
        }
    }
}

impl Tree {
    /// Rebuilds `size` bytes at `offset` of a top-level vdev, all of them allocated, on the leaves
    /// whose whole dtl is before `until`. `txg` is an open txg.
    pub fn rebuild_range(&self, vdev: u32, offset: u64, size: u64, until: u64, txg: u64) -> Result<Repaired, Failure> {
        let Some(top) = self.tops.get(vdev as usize).filter(|top| top.can_rebuild()) else {
            return Err(Failure::other(format!("device {vdev} is not one to rebuild")));
        };
        let data = match &top.kind {
            Kind::Draid(g) => self.read_whole_rows(top, offset, g.psize_bytes(size))?,
            _ => self.read_whole(top, offset, size as usize)?,
        };
        let dva = Dva { vdev, offset_bytes: offset, asize_bytes: size, is_gang: false };
        let mut repaired = Repaired::default();
        self.write_over(&dva, &data, txg, &|source| source.is_rebuilt(until), &mut repaired);
        // The leaf's own dtl records the attempt only, so the end of the rebuild must not clear the
        // spare's dtl.
        let failed_for = |log: &&Leaf| repaired.failed_for.contains(&log.guid);
        top.logs().into_iter().filter(failed_for).for_each(|log| log.note_missed(txg, txg));
        Ok(repaired)
    }

    /// Reads from a leaf below `vdev` with an empty dtl.
    fn read_whole(&self, vdev: &Vdev, offset: u64, size: usize) -> Result<Vec<u8>, Failure> {
        let mut failure = Failure::default();
        let mut buf = vec![0; size];
        let Some(at) = offset.checked_add(DATA_START_BYTES) else {
            return Err(Failure::other(format!("offset {offset:#x} on {}", vdev.name)));
        };
        let mut leaves = self.collect(vdev, offset);
        if leaves.len() > 1 {
            // Several complete sides share the reads.
            let first = (offset >> 20) as usize % leaves.len();
            leaves.rotate_left(first);
        }
        for leaf in leaves {
            if !leaf.is_whole() {
                failure.missing.push(leaf.path.clone());
                continue;
            }
            match leaf.read(at, &mut buf) {
                Some(Ok(())) => return Ok(buf),
                Some(Err(e)) => failure.io.push((leaf.path.clone(), Arc::new(e))),
                None => failure.missing.push(leaf.path.clone()),
            }
        }
        Err(failure)
    }

    /// Reads whole rows of a draid: from children with an empty dtl, and missing columns from
    /// parity.
    fn read_whole_rows(&self, top: &Vdev, offset: u64, size: u64) -> Result<Vec<u8>, Failure> {
        let map: &Map = &*self.parity_map(top, offset, size, 0)?;
        let mut failure = Failure::default();
        let mut read = |column: &Column| {
            let read = self.read_whole(&top.children[column.child], column.offset_bytes, column.size_bytes);
            read.map_err(|f| failure.merge(f)).ok()
        };
        let mut columns: Vec<Option<Vec<u8>>> =
            map.columns.iter().map(|column| if column.is_data() { read(column) } else { None }).collect();
        if map.columns.iter().zip(&columns).all(|(column, bytes)| bytes.is_some() || !column.is_data()) {
            let mut block = vec![0; map.size_bytes];
            for (column, bytes) in map.columns.iter().zip(&columns) {
                if let Some(bytes) = bytes {
                    map.part_mut(&mut block, column).copy_from_slice(bytes);
                }
            }
            return Ok(block);
        }
        for (column, bytes) in map.columns.iter().zip(&mut columns).filter(|(column, _)| !column.is_data()) {
            *bytes = read(column);
        }
        let known: Vec<Option<&[u8]>> = columns.iter().map(Option::as_deref).collect();
        let suspects = Suspects::new(top.ashift, top.children.len(), top.children.len());
        reconstruct(map, &suspects, &known, size as usize, &mut |_| true).map(|solved| solved.block).ok_or(failure)
    }
}
