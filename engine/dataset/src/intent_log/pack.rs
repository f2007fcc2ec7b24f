//! Packing records into blocks.
//!
//! Blocks are reserved before their contents are known: the first block of a batch has the size
//! that was predicted when the previous one was written. Further blocks are sized to fit.
//!
//! Invariants:
//!   * a record is never split across blocks
//!   * a write that fits into one record is one record, so that a crash does not tear it; a longer
//!     one becomes several records, which meet at 4 KiB sector boundaries: no disk tears those
//!   * blocks are multiples of 4 KiB up to 128 KiB

use ondisk::zil::write::write_record_bytes;
use ondisk::zil::{CHAIN_BYTES, MIN_BLOCK_BYTES};

/// Largest log block, the default of OpenZFS (`zil_maxblocksize`).
pub(super) const BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Room for records in the largest block.
pub(super) const ROOM_MAX: usize = BLOCK_BYTES_MAX as usize - CHAIN_BYTES;
/// Maximum data in a write record.
pub(super) const DATA_MAX: usize = ROOM_MAX - ondisk::zil::write::WRITE_BYTES;
/// A write is split to fill a block if at least this much of its data fits. Guessed: a record costs
/// 192 bytes.
const SPLIT_BYTES_MIN: usize = 4096;
/// Largest disk sector size.
const SECTOR_BYTES: u64 = 4096;
const _: () = assert!(SPLIT_BYTES_MIN as u64 >= SECTOR_BYTES && DATA_MAX as u64 >= SECTOR_BYTES);
/// Number of batches whose sizes predict the next one.
const MEMORY: usize = 8;

pub(super) fn room(block_bytes: u64) -> usize {
    (block_bytes as usize).saturating_sub(CHAIN_BYTES)
}

/// Block size for this many bytes of records, or the largest.
pub(super) fn block_for(record_bytes: usize) -> u64 {
    ((CHAIN_BYTES + record_bytes) as u64).next_multiple_of(MIN_BLOCK_BYTES).clamp(MIN_BLOCK_BYTES, BLOCK_BYTES_MAX)
}

/// How many of `data` bytes to put into a write record when `left` bytes of a block are free. 0:
/// none, start a new block.
pub(super) fn split(data: u64, left: usize) -> usize {
    let is_long = data > DATA_MAX as u64;
    let data = usize::try_from(data).unwrap_or(usize::MAX).min(DATA_MAX);
    if write_record_bytes(data) <= left {
        return data;
    }
    if !is_long {
        return 0;
    }
    let fits = left.saturating_sub(ondisk::zil::write::WRITE_BYTES) & !7;
    if fits >= SPLIT_BYTES_MIN { fits } else { 0 }
}

/// Rounds `count` bytes from `offset` down to a sector boundary, unless they reach the end of the
/// write of `length` bytes.
pub(super) fn whole_sectors(offset: u64, count: usize, length: u64) -> usize {
    if count as u64 == length {
        return count;
    }
    count - (offset.wrapping_add(count as u64) % SECTOR_BYTES) as usize
}

/// Predicts the size of the next batch: the largest of the last few.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    recent: [usize; MEMORY],
    next: usize,
}

impl Forecast {
    /// A batch with this many bytes of records was written.
    pub fn note(&mut self, record_bytes: usize) {
        self.recent[self.next] = record_bytes;
        self.next = (self.next + 1) % MEMORY;
    }

    /// Size of the block to reserve.
    pub fn block_bytes(&self) -> u64 {
        block_for(self.recent.into_iter().max().unwrap_or(0))
    }
}

/// The records of one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    /// Concatenated records.
    pub records: Vec<u8>,
    /// Newest txg of the records.
    pub max_txg: u64,
}

/// Fills blocks with records as they arrive.
pub(super) struct Packer {
    done: Vec<Packed>,
    open: Packed,
    room: usize,
}

impl Packer {
    /// `first_block_bytes`: size of the first block.
    pub fn new(first_block_bytes: u64) -> Self {
        Self { done: Vec::new(), open: Packed::default(), room: room(first_block_bytes) }
    }

    /// Bytes free in the block being filled.
    pub fn left(&self) -> usize {
        self.room - self.open.records.len()
    }

    /// Adds a record; returns `false` if it does not fit into any block.
    #[must_use]
    pub fn add(&mut self, record: &[u8], txg: u64) -> bool {
        if record.len() > ROOM_MAX {
            return false;
        }
        if record.len() > self.left() {
            self.close();
        }
        self.open.records.extend_from_slice(record);
        self.open.max_txg = self.open.max_txg.max(txg);
        true
    }

    /// Continues in a new block. An empty first block remains as a link to a larger one.
    pub fn close(&mut self) {
        self.done.push(std::mem::take(&mut self.open));
        self.room = ROOM_MAX;
    }

    /// The blocks; empty if there was no record.
    pub fn finish(mut self) -> Vec<Packed> {
        if !self.open.records.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_and_in_order() {
        let mut packer = Packer::new(4096);
        for n in 0..100u8 {
            assert!(packer.add(&vec![n; 100 + usize::from(n) * 40], u64::from(n)));
        }
        let blocks = packer.finish();
        assert!(blocks[0].records.len() <= 4096 - CHAIN_BYTES && blocks.iter().all(|b| b.records.len() <= ROOM_MAX));
        assert_eq!(blocks.last().map(|b| b.max_txg), Some(99));
        let all: Vec<u8> = blocks.iter().flat_map(|b| &b.records).copied().collect();
        let expected: Vec<u8> = (0..100u8).flat_map(|n| vec![n; 100 + usize::from(n) * 40]).collect();
        assert_eq!(all, expected);
        assert!(!Packer::new(4096).add(&vec![0; ROOM_MAX + 1], 1));
    }

    #[test]
    fn a_record_too_large_for_the_reserved_block_leaves_it_as_a_link() {
        let mut packer = Packer::new(4096);
        assert!(packer.add(&[1; 5000], 7));
        let blocks = packer.finish();
        assert_eq!(blocks.iter().map(|b| b.records.len()).collect::<Vec<_>>(), [0, 5000]);
    }

    #[test]
    fn long_writes_fill_blocks_and_short_ones_stay_whole() {
        assert_eq!(split(1000, 4096), 1000);
        assert_eq!(split(200_000, 8192 + 192 + 5), 8192);
        assert_eq!(split(200_000, 4000), 0);
        assert_eq!(split(100_000, 90_000), 0);
        assert_eq!(split(u64::MAX, ROOM_MAX), DATA_MAX);
        assert!(write_record_bytes(DATA_MAX) <= ROOM_MAX);
    }

    #[test]
    fn records_of_a_long_write_meet_where_sectors_do() {
        assert_eq!(whole_sectors(512, 10_000, 50_000), 8192 - 512);
        assert_eq!(whole_sectors(8192, 4096, 50_000), 4096);
        assert_eq!(whole_sectors(1, 4096, 50_000), 4095);
        assert_eq!(whole_sectors(1, 5000, 5000), 5000);
    }

    #[test]
    fn blocks_are_as_large_as_recent_batches() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.block_bytes(), 4096);
        forecast.note(20_000);
        assert_eq!(forecast.block_bytes(), 20_480);
        forecast.note(10_000_000);
        assert_eq!(forecast.block_bytes(), BLOCK_BYTES_MAX);
        (0..MEMORY).for_each(|_| forecast.note(100));
        assert_eq!(forecast.block_bytes(), 4096);
    }
}
