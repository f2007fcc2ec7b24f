//! Overwrites wrong bytes with right ones, on selected leaves below an address only.
//!
//! Invariants:
//!   * only bytes that passed the block's check are written, and only to the block's place
//!   * if a write to a leaf fails, the block's birth txg is recorded in its dtl

use super::columns::Map;
use super::{DATA_START_BYTES, Kind, Repaired, Source, Tree, Vdev};
use ondisk::Dva;
use std::borrow::Cow;

/// Maximum number of indirect vdevs in a chain.
const INDIRECT_DEPTH_MAX: u32 = 16;

impl Tree {
    /// Whether an available leaf below `dva`, or a distributed spare, has the txg `birth` in its
    /// dtl, so that it lacks part of a block of `size` bytes.
    pub(crate) fn lacks(&self, dva: &Dva, size: u64, birth: u64) -> bool {
        let Some(top) = self.tops.get(dva.vdev as usize) else { return false };
        let mut found = false;
        self.for_each_place(top, dva.offset_bytes, size, birth, 0, &mut |source, _, _, _| {
            found |= source.is_to_fill(birth);
        });
        found
    }

    /// Writes the parts of a block, whose right bytes are `data`, that lie on the leaves that
    /// `wanted` selects.
    pub(crate) fn write_over(
        &self,
        dva: &Dva,
        data: &[u8],
        birth: u64,
        wanted: &dyn Fn(&Source<'_>) -> bool,
        repaired: &mut Repaired,
    ) {
        let Some(top) = self.tops.get(dva.vdev as usize) else { return };
        let size = data.len() as u64;
        let mut parity = None;
        self.for_each_place(top, dva.offset_bytes, size, birth, 0, &mut |leaf, at, place, map| {
            if !wanted(&leaf) {
                return;
            }
            if !leaf.is_open() {
                return leaf.did_not_take(birth, repaired);
            }
            let bytes: Cow<'_, [u8]> = match (place, map) {
                (Place::Bytes { from, len, unit }, _) => {
                    let mut bytes = Cow::Borrowed(&data[from..from + len]);
                    if !len.is_multiple_of(unit) {
                        bytes.to_mut().resize(len.next_multiple_of(unit), 0);
                    }
                    bytes
                }
                (Place::Column(place), Some(map)) => {
                    let (block, columns) = parity.get_or_insert_with(|| {
                        let mut block = data.to_vec();
                        block.resize(map.size_bytes, 0);
                        let parity = map.generate_parity(&block);
                        (block, parity)
                    });
                    let column = &map.columns[place];
                    let part = match columns.iter().find(|(p, _)| *p == place) {
                        Some((_, bytes)) => bytes.as_slice(),
                        None => map.part(block, column),
                    };
                    // The padding of a draid allocation is zeros; it holds nothing else.
                    let mut bytes = part.to_vec();
                    bytes.resize(part.len() + column.padding_bytes, 0);
                    Cow::Owned(bytes)
                }
                (Place::Column(_), None) => return,
            };
            match leaf.write(birth, at, &bytes) {
                Some(Ok(())) => leaf.took(bytes.len() as u64, repaired),
                _ => leaf.did_not_take(birth, repaired),
            }
        });
    }

    /// Calls `visit` for each leaf with a part of the block: with the offset on it, and the part.
    fn for_each_place<'t>(
        &'t self,
        top: &'t Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        depth: u32,
        visit: &mut Visit<'_, 't>,
    ) {
        match &top.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => {
                let (at, unit) = (offset.saturating_add(DATA_START_BYTES), 1usize << top.ashift);
                self.collect(top, offset).into_iter().for_each(|leaf| {
                    visit(leaf, at, Place::Bytes { from: 0, len: size as usize, unit }, None);
                });
            }
            Kind::Raidz(_) | Kind::Draid(_) => {
                let Ok(map) = self.parity_map(top, offset, size, birth) else { return };
                for (place, column) in map.columns.iter().enumerate() {
                    if column.size_bytes == 0 && column.padding_bytes == 0 {
                        continue;
                    }
                    let leaves = self.collect(&top.children[column.child], column.offset_bytes);
                    let at = column.device_offset_bytes();
                    leaves.into_iter().for_each(|leaf| visit(leaf, at, Place::Column(place), Some(&map)));
                }
                for (place, child, offset) in &map.also {
                    let leaves = self.collect(&top.children[*child], *offset);
                    let at = offset.wrapping_add(DATA_START_BYTES);
                    leaves.into_iter().for_each(|leaf| visit(leaf, at, Place::Column(*place), Some(&map)));
                }
            }
            Kind::Indirect(_) if depth < INDIRECT_DEPTH_MAX => {
                let Ok(pieces) = self.pieces(top, offset, size, depth) else { return };
                for piece in pieces {
                    let Some(target) = self.tops.get(piece.vdev as usize) else { continue };
                    let start = (piece.source_bytes - offset) as usize;
                    let part = &mut |leaf: Source<'t>, at, place, _: Option<&Map>| {
                        // Blocks are moved only to vdevs without parity; pieces are whole sectors.
                        if let Place::Bytes { from, len, .. } = place {
                            visit(leaf, at, Place::Bytes { from: start + from, len, unit: 1 }, None);
                        }
                    };
                    self.for_each_place(target, piece.offset_bytes, piece.size_bytes, birth, depth + 1, part);
                }
            }
            _ => {}
        }
    }
}

/// Callback with a leaf, the offset on it, the part of the block, and the map of its columns.
type Visit<'a, 't> = dyn FnMut(Source<'t>, u64, Place, Option<&Map>) + 'a;

/// A part of a block.
#[derive(Clone, Copy)]
enum Place {
    /// `len` bytes at `from`, padded to a multiple of `unit`.
    Bytes { from: usize, len: usize, unit: usize },
    /// A column, by its index in the map.
    Column(usize),
}
