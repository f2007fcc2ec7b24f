//! Rebuilds the index of a cache device from its header and the chains of log blocks.
//!
//! Two chains start at the header: at the newest log block, and at the one before. Each log block
//! points to the one two before it. So they are read alternately, from the newest to the oldest.
//! Facts: l2arc_rebuild, l2arc_log_blkptr_valid (module/zfs/arc.c).
//!
//! Invariants:
//!   * a log block is used only if its checksum is right and neither it nor its contents have been
//!     evicted since
//!   * the walk ends: each log block is at an offset not seen before

use super::device::{CacheDevice, Ring, header_bytes};
use super::index::{Address, Index, Place};
use ondisk::l2arc::{FIRST_SWEEP, HEADER_OFFSET, Header, LOG_BLOCK_BYTES, LogBlock, LogPointer};
use ondisk::{Checksum, Compression};
use std::collections::HashSet;
use transform::checksum::embedded::{self, Kind};
use transform::checksum::{Algorithm, Order, checksum};
use transform::compress::{Algorithm as Packer, decompress};

/// Outcome of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// Everything that the header leads to was restored.
    All,
    /// Some log block is unreadable or damaged.
    Part,
    /// The device holds nothing of this pool.
    Nothing,
}

/// Reads the header and log blocks of the device, and fills the index. Ends early once
/// `is_stopping`.
pub fn rebuild(index: &Index, device: &CacheDevice, is_stopping: &dyn Fn() -> bool) -> Rebuilt {
    let mut ring = device.ring.lock();
    let Some(header) = read_header(device) else { return Rebuilt::Nothing };
    let newest = header.newest[0];
    ring.hand = (newest.offset_bytes + newest.psize_bytes()).clamp(device.start, device.end);
    if newest.is_empty() {
        ring.hand = device.start;
    }
    ring.evict = header.evict_offset.max(device.start);
    ring.first = header.flags & FIRST_SWEEP != 0;
    ring.newest = header.newest;
    let mut next = header.newest;
    let mut seen = HashSet::new();
    let mut result = Rebuilt::All;
    while is_valid(device, &ring, &next[0]) && seen.insert(next[0].offset_bytes) {
        if is_stopping() {
            return Rebuilt::Part;
        }
        let pointer = next[0];
        let Some(whole) = read_log_block(device, &pointer) else {
            result = Rebuilt::Part;
            break;
        };
        let Ok(block) = LogBlock::parse(&whole) else {
            result = Rebuilt::Part;
            break;
        };
        restore(index, device, &mut ring, &block);
        ring.log_blocks.push_front(pointer);
        index.counts.rebuilt_log_blocks.add(1);
        // If the contents of this log block may lie where those of the next one were, the next one
        // is older than the evicted area.
        if !ring.first && overlaps(next[1].payload_start, pointer.payload_start, ring.evict) {
            break;
        }
        next = [next[1], block.previous];
    }
    result
}

fn read_header(device: &CacheDevice) -> Option<Header> {
    let mut bytes = vec![0; header_bytes(device.vdev.ashift)];
    device.leaf().read(HEADER_OFFSET, &mut bytes)?.ok()?;
    embedded::verify(Kind::Label, &bytes, [HEADER_OFFSET, 0, 0, 0], false).ok()?;
    let header = Header::parse(&bytes).ok()?;
    let is_ours = header.pool_guid == device.pool_guid
        && header.vdev_guid == device.vdev.guid
        && header.log_entries == device.log_entries
        && header.end_offset == device.end
        && (device.start..=device.end).contains(&header.evict_offset);
    is_ours.then_some(header)
}

/// Whether `check` is in the area of the ring that was written from `bottom` to `top`.
fn overlaps(bottom: u64, top: u64, check: u64) -> bool {
    if bottom <= top { (bottom..=top).contains(&check) } else { check <= top || bottom <= check }
}

fn is_valid(device: &CacheDevice, ring: &Ring, pointer: &LogPointer) -> bool {
    let (start, size) = (pointer.payload_start, pointer.psize_bytes());
    if pointer.is_empty() || size > LOG_BLOCK_BYTES as u64 || pointer.lsize_bytes() != LOG_BLOCK_BYTES as u64 {
        return false;
    }
    let Some(end) = pointer.offset_bytes.checked_add(size - 1) else { return false };
    if start < device.start || pointer.offset_bytes < device.start || end > device.end {
        return false;
    }
    if ring.first {
        return end < ring.hand;
    }
    let (hand, evict) = (ring.hand, ring.evict);
    !(overlaps(start, end, hand)
        || overlaps(start, end, evict)
        || overlaps(hand, evict, start)
        || overlaps(hand, evict, end))
}

fn read_log_block(device: &CacheDevice, pointer: &LogPointer) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(pointer.psize_bytes()).ok()?];
    let answer = device.leaf().read_to_judge(pointer.offset_bytes, &mut bytes)?.ok()?;
    // The checksum is that of words in the byte order of the machine that wrote it.
    let is_right = [Order::Little, Order::Big]
        .into_iter()
        .any(|order| checksum(Algorithm::Fletcher4, &bytes, order, None) == pointer.checksum);
    if !is_right || pointer.checksum_kind().ok() != Some(Checksum::Fletcher4) {
        answer.is_wrong();
        return None;
    }
    match pointer.compression().ok()? {
        Compression::Off => Some(bytes),
        Compression::Lz4 => {
            let mut whole = vec![0; LOG_BLOCK_BYTES];
            decompress(Packer::Lz4, &bytes, &mut whole).ok()?;
            Some(whole)
        }
        _ => None,
    }
}

/// Adds the blocks of a log block to the index, from the newest to the oldest.
fn restore(index: &Index, device: &CacheDevice, ring: &mut Ring, block: &LogBlock<'_>) {
    let entries: Vec<_> = block.entries(device.log_entries).collect();
    for entry in entries.into_iter().rev() {
        let end = entry.offset_bytes.checked_add(entry.psize_bytes());
        let is_within = entry.offset_bytes >= device.start && end.is_some_and(|end| end <= device.end);
        if entry.dva.is_empty() || !is_within {
            continue;
        }
        let (w0, w1) = entry.dva.to_words();
        let address = Address(w0, w1, entry.birth.0);
        let place = Place {
            device: device.number,
            offset_bytes: entry.offset_bytes,
            lsize_bytes: u32::try_from(entry.lsize_bytes()).unwrap_or(u32::MAX),
            psize_bytes: u32::try_from(entry.psize_bytes()).unwrap_or(u32::MAX),
        };
        ring.entries.push_front((address, place));
        if !index.knows(&address) {
            index.remember(address, place);
            index.counts.rebuilt_blocks.add(1);
            index.counts.rebuilt_bytes.add(place.lsize_bytes.into());
        }
    }
}
