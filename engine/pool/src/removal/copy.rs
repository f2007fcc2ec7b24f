//! One step of a removal: allocates space on other devices for the ranges after the end of the
//! mapping, and copies them.
//!
//! Facts: spa_vdev_copy_impl, spa_vdev_copy_segment (module/zfs/vdev_removal.c).
//!
//! Invariants:
//!   * a range has the same length on both devices: all devices have the same allocation unit
//!   * the ranges of the mapping are in order, and a step ends at the end of a range

use super::mapping::{Growing, NewRange};
use super::state::{OBSOLETE_COUNTS, RANGE_BYTES_MAX, SPAN_BYTES_MAX, State};
use crate::writer::spa::SyncTx;
use block::{Allocate, Gang, Want};
use errors::{Error, Refusal, Result};
use ondisk::Dva;
use std::collections::VecDeque;

/// Result of a step.
pub(super) enum Step {
    /// There may be more to copy.
    Copied,
    /// Nothing is left to copy.
    Nothing,
    /// There is no space for more now.
    Full,
    /// A range could not be read or written.
    Failed(Error),
}

/// Ranges to copy together: allocated, in order, near each other.
type Near = Vec<(u64, u64)>;

/// Copies about `bytes` of the remaining ranges.
pub(super) fn step(cx: &SyncTx<'_>, state: &mut State, bytes: u64) -> Result<Step> {
    let Some(mut growing) = state.growing.clone() else { return Ok(Step::Nothing) };
    let mut copier = Copier::new(cx, &growing, bytes);
    let found = match copier.run(&growing, bytes) {
        Ok(found) => found,
        Err(error) => {
            copier.undo();
            return Ok(Step::Failed(error));
        }
    };
    if copier.ranges.is_empty() {
        return Ok(found);
    }
    copier.gaps.iter().for_each(|gap| cx.shared.allocator.free(cx.txg(), cx.txg(), gap));
    growing.extend(cx, &copier.ranges)?;
    state.growing = Some(growing);
    if let Some(removing) = &mut state.removing {
        removing.copied_bytes += copier.allocated_bytes;
        state.is_changed = true;
    }
    Ok(found)
}

struct Copier<'a> {
    cx: &'a SyncTx<'a>,
    vdev: u32,
    class: block::Class,
    unit_bytes: u64,
    /// Longest piece for which space was found.
    max_bytes: u64,
    counts: bool,
    ranges: Vec<NewRange>,
    /// Gaps between pieces inside these ranges.
    gaps: Vec<Dva>,
    allocated_bytes: u64,
}

impl<'a> Copier<'a> {
    fn new(cx: &'a SyncTx<'a>, growing: &Growing, bytes: u64) -> Self {
        let tree = cx.store().tree();
        let ashift = tree.tops.get(growing.vdev as usize).map_or(9, |top| top.ashift);
        Self {
            cx,
            vdev: growing.vdev,
            class: cx.shared.allocator.class_of(growing.vdev).unwrap_or_default(),
            unit_bytes: 1 << ashift,
            max_bytes: RANGE_BYTES_MAX.min(bytes.next_power_of_two()).max(1 << ashift),
            counts: cx.feature_enabled(OBSOLETE_COUNTS),
            ranges: Vec::new(),
            gaps: Vec::new(),
            allocated_bytes: 0,
        }
    }

    fn run(&mut self, growing: &Growing, bytes: u64) -> Result<Step> {
        let allocator = &self.cx.shared.allocator;
        let Some(shift) = allocator.slab_shift(self.vdev) else { return Ok(Step::Nothing) };
        let from = growing.header.max_offset_bytes;
        let mut number = from >> shift;
        while let Some(mut left) = allocator.allocated_in(self.vdev, number)?.map(|all| behind(all, from)) {
            while !left.is_empty() {
                if self.allocated_bytes >= bytes {
                    return Ok(Step::Copied);
                }
                match self.copy(gather(&mut left, self.max_bytes)) {
                    Ok(()) => {}
                    Err(Error::Refused { why: Refusal::NoSpace, .. }) => return Ok(Step::Full),
                    Err(error) => return Err(error),
                }
            }
            number += 1;
        }
        Ok(if self.ranges.is_empty() { Step::Nothing } else { Step::Copied })
    }

    /// Copies ranges that are near each other, in one piece if there is space for it.
    fn copy(&mut self, mut near: Near) -> Result<()> {
        while let Some((start, _)) = near.first().copied() {
            let end = near.last().map_or(start, |(at, len)| at + len);
            let mut part = near.clone();
            let mut size = end - start;
            if size > self.max_bytes {
                part = cut(&near, start + self.max_bytes);
                size = part.last().map_or(0, |(at, len)| at + len) - start;
            }
            match self.copy_piece(&part, start, size) {
                Ok(()) => near = behind_of(&near, start + size),
                Err(Error::Refused { why: Refusal::NoSpace, .. }) if size > self.unit_bytes => {
                    self.max_bytes = (size / 2).next_multiple_of(self.unit_bytes);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn copy_piece(&mut self, part: &Near, start: u64, size: u64) -> Result<()> {
        let (cx, txg) = (self.cx, self.cx.txg());
        let allocator = &cx.shared.allocator;
        let want = Want {
            txg,
            class: self.class,
            psize_bytes: size,
            copies: 1,
            is_metadata: true,
            gang: Gang::None,
            may_use_slop: true,
        };
        let target = allocator.allocate(&want)?[0];
        // From here on `undo` frees it.
        self.ranges.push(NewRange { source_bytes: start, target, obsolete_bytes: 0 });
        if target.asize_bytes != size {
            let what = format!("{size:#x} bytes take {:#x} on device {}", target.asize_bytes, target.vdev);
            return Err(Error::invalid(cx.store().name(), what));
        }
        let to = (target.vdev, target.offset_bytes);
        cx.store()
            .tree()
            .copy((self.vdev, start), to, size, txg)
            .map_err(|failure| failure.into_write_error(cx.store().name().to_owned()))?;
        let mut gaps = 0;
        for pair in part.windows(2) {
            let at = pair[0].0 + pair[0].1;
            let len = pair[1].0 - at;
            let gap = Dva { offset_bytes: target.offset_bytes + (at - start), asize_bytes: len, ..target };
            self.gaps.push(gap);
            gaps += len;
        }
        self.allocated_bytes += size - gaps;
        if let Some(range) = self.ranges.last_mut().filter(|_| self.counts) {
            range.obsolete_bytes = gaps as u32;
        }
        Ok(())
    }

    /// Frees everything that this step allocated.
    fn undo(&mut self) {
        let (cx, txg) = (self.cx, self.cx.txg());
        for range in std::mem::take(&mut self.ranges) {
            cx.shared.allocator.free(txg, txg, &range.target);
        }
    }
}

/// The parts after `from`.
fn behind(all: Near, from: u64) -> VecDeque<(u64, u64)> {
    behind_of(&all, from).into()
}

fn behind_of(all: &Near, from: u64) -> Near {
    let left = all.iter().filter(|(at, len)| at + len > from);
    left.map(|(at, len)| if *at < from { (from, at + len - from) } else { (*at, *len) }).collect()
}

/// The parts before `end`; cut at the end of a range if possible.
fn cut(near: &Near, end: u64) -> Near {
    let whole: Near = near.iter().copied().take_while(|(at, len)| at + len <= end).collect();
    match (whole.is_empty(), near.first()) {
        (true, Some((at, _))) => vec![(*at, end - at)],
        _ => whole,
    }
}

/// Takes the next ranges that are near each other, up to `max_bytes` from start to end.
fn gather(left: &mut VecDeque<(u64, u64)>, max_bytes: u64) -> Near {
    let mut near = Near::new();
    while let Some((at, len)) = left.pop_front() {
        match (near.first(), near.last()) {
            (Some((start, _)), Some((last, last_len))) => {
                if at - (last + last_len) > SPAN_BYTES_MAX || at + len - start > max_bytes {
                    left.push_front((at, len));
                    break;
                }
                near.push((at, len));
            }
            _ => {
                let part = len.min(max_bytes);
                near.push((at, part));
                if part < len {
                    left.push_front((at + part, len - part));
                    break;
                }
            }
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_segments_are_combined_up_to_a_limit() {
        let mut left: VecDeque<_> = [(0, 4096), (8192, 4096), (1 << 20, 3 << 20), (5 << 20, 512)].into();
        assert_eq!(gather(&mut left, 2 << 20), [(0, 4096), (8192, 4096)]);
        assert_eq!(gather(&mut left, 2 << 20), [(1 << 20, 2 << 20)]);
        assert_eq!(gather(&mut left, 2 << 20), [(3 << 20, 1 << 20)]);
        assert_eq!(gather(&mut left, 2 << 20), [(5 << 20, 512)]);
        assert!(left.is_empty());
    }

    #[test]
    fn pieces_end_where_ranges_do_if_they_can() {
        let near = vec![(0, 10), (12, 10), (30, 10)];
        assert_eq!(cut(&near, 25), [(0, 10), (12, 10)]);
        assert_eq!(cut(&near, 5), [(0, 5)]);
        assert_eq!(behind_of(&near, 15), [(15, 7), (30, 10)]);
    }
}
