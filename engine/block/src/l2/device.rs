//! One cache device: a header that locates the newest log block, and a ring of blocks and log
//! blocks.
//!
//! ```text
//!   start        hand      evict                                  end
//!     | newest …   |  free   | oldest … … … … … … … … … … … … … …  |
//! ```
//! During the first sweep nothing is beyond the hand. Facts: l2arc_evict, l2arc_log_blk_commit,
//! l2arc_dev_hdr_update (module/zfs/arc.c).
//!
//! Invariants:
//!   * start <= hand <= end, and after the first sweep hand <= evict
//!   * entries are in the order in which they were written

use super::index::{Address, Index, Place};
use crate::vdev::{Leaf, Vdev};
use host::device::Device;
use host::sync::Mutex;
use ondisk::l2arc::{self, FIRST_SWEEP, HEADER_OFFSET, Header, LOG_BLOCK_BYTES, LogEntry, LogPointer};
use ondisk::label::{END_BYTES, Trailer, usable_bytes};
use ondisk::{Checksum, Compression, Endian};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use transform::checksum::embedded::{self, Kind};
use transform::checksum::{Algorithm, Order, checksum};
use transform::compress::{Algorithm as Packer, compress, zstd};

pub struct CacheDevice {
    pub number: u32,
    pub vdev: Arc<Vdev>,
    pub pool_guid: u64,
    pub start: u64,
    pub end: u64,
    /// Entries per log block; 0: log blocks are not written.
    pub log_entries: u64,
    pub ring: Mutex<Ring>,
}

/// State of the ring on the device.
pub struct Ring {
    pub hand: u64,
    pub evict: u64,
    pub first: bool,
    /// A write failed: no further writes are made.
    pub failed: bool,
    pub entries: VecDeque<(Address, Place)>,
    /// Entries of the next log block. `payload` is the start and the size of the area that holds
    /// their blocks.
    pub pending: Vec<LogEntry>,
    pub payload: (u64, u64),
    pub newest: [LogPointer; 2],
    /// Log blocks that are intact, oldest first.
    pub log_blocks: VecDeque<LogPointer>,
}

/// A block to write, with its bytes as stored in the pool.
pub struct Stored {
    pub address: Address,
    pub bytes: Vec<u8>,
    /// Log entry; the offset is filled in on write.
    pub entry: LogEntry,
}

impl CacheDevice {
    /// Returns `None` if the device is missing or too small.
    pub fn new(number: u32, vdev: Arc<Vdev>, pool_guid: u64) -> Option<Self> {
        let size = vdev.leaf()?.device()?.size_bytes();
        let start = HEADER_OFFSET + header_bytes(vdev.ashift) as u64;
        let end = usable_bytes(size).checked_sub(END_BYTES)?;
        if end < start + 2 * LOG_BLOCK_BYTES as u64 {
            return None;
        }
        let ring = Ring {
            hand: start,
            evict: start,
            first: true,
            failed: false,
            entries: VecDeque::new(),
            pending: Vec::new(),
            payload: (0, 0),
            newest: [LogPointer::NOWHERE; 2],
            log_blocks: VecDeque::new(),
        };
        let log_entries = l2arc::log_entries(start, end);
        Some(Self { number, vdev, pool_guid, start, end, log_entries, ring: Mutex::new(ring) })
    }

    pub fn leaf(&self) -> &Leaf {
        self.vdev.leaf().expect("a cache device is a leaf, or it would not be one")
    }

    pub fn unit(&self) -> u64 {
        1 << self.vdev.ashift.max(9)
    }

    /// Bytes of blocks and log blocks on the device.
    pub fn held_bytes(&self) -> u64 {
        let ring = self.ring.lock();
        let blocks: u64 =
            ring.entries.iter().map(|(_, p)| u64::from(p.psize_bytes).next_multiple_of(self.unit())).sum();
        blocks + ring.log_blocks.iter().map(LogPointer::psize_bytes).sum::<u64>()
    }

    /// Maximum size of a batch, in bytes: half of the ring, so that it fits behind the hand after a
    /// wrap.
    pub fn batch_bytes_max(&self) -> u64 {
        (self.end - self.start) / 2
    }

    /// Writes blocks, log blocks as they fill up, and the header.
    pub fn write(&self, index: &Index, blocks: Vec<Stored>) -> io::Result<()> {
        let mut ring = self.ring.lock();
        if ring.failed {
            return Err(io::Error::other("it is no longer written"));
        }
        let result = self.write_to(index, &mut ring, blocks);
        ring.failed |= result.is_err();
        result
    }

    fn write_to(&self, index: &Index, ring: &mut Ring, blocks: Vec<Stored>) -> io::Result<()> {
        let unit = self.unit();
        let blocks_bytes: u64 = blocks.iter().map(|b| (b.bytes.len() as u64).next_multiple_of(unit)).sum();
        let logs = match self.log_entries {
            0 => 0,
            per => (blocks.len() as u64 + ring.pending.len() as u64).div_ceil(per) * LOG_BLOCK_BYTES as u64,
        };
        self.make_room(index, ring, blocks_bytes + logs)?;
        for mut block in blocks {
            let offset = ring.hand;
            let psize = block.bytes.len();
            block.bytes.resize(psize.next_multiple_of(unit as usize), 0);
            self.put(offset, &block.bytes)?;
            ring.hand += block.bytes.len() as u64;
            block.entry.offset_bytes = offset;
            let lsize_bytes = u32::try_from(block.entry.lsize_bytes()).unwrap_or(u32::MAX);
            let place = Place { device: self.number, offset_bytes: offset, lsize_bytes, psize_bytes: psize as u32 };
            ring.entries.push_back((block.address, place));
            index.remember(block.address, place);
            index.counts.writes.add(1);
            index.counts.written_bytes.add(block.bytes.len() as u64);
            if self.log_entries > 0 {
                if ring.pending.is_empty() {
                    ring.payload = (offset, 0);
                }
                ring.payload.1 += block.bytes.len() as u64;
                ring.pending.push(block.entry);
                if ring.pending.len() as u64 == self.log_entries {
                    self.commit(index, ring)?;
                }
            }
        }
        self.write_header(ring)
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.leaf().write(0, offset, bytes) {
            Some(result) => result,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Evicts the blocks where the next `bytes` bytes will be written.
    fn make_room(&self, index: &Index, ring: &mut Ring, bytes: u64) -> io::Result<()> {
        if ring.hand + bytes > self.end {
            if !ring.first {
                ring.evict = self.end;
                self.give_up(index, ring);
            }
            (ring.hand, ring.evict, ring.first) = (self.start, self.start, false);
        }
        if !ring.first {
            ring.evict = ring.evict.max(ring.hand + bytes);
            self.give_up(index, ring);
            // The header is written before the area is overwritten, so that a rebuild does not use
            // it.
            self.write_header(ring)?;
        }
        Ok(())
    }

    /// Removes everything between hand and evict from the index.
    fn give_up(&self, index: &Index, ring: &mut Ring) {
        let (hand, evict) = (ring.hand, ring.evict);
        let is_lost = |at: u64| (hand..evict).contains(&at);
        while let Some((address, place)) = ring.entries.front().copied().filter(|(_, p)| is_lost(p.offset_bytes)) {
            ring.entries.pop_front();
            index.forget(&address, place);
        }
        while ring.log_blocks.front().is_some_and(|log| is_lost(log.offset_bytes) || is_lost(log.payload_start)) {
            ring.log_blocks.pop_front();
        }
    }

    /// Writes the log block of the pending entries.
    fn commit(&self, index: &Index, ring: &mut Ring) -> io::Result<()> {
        let whole = l2arc::pack_log_block(&ring.newest[1], &ring.pending);
        let unit = self.unit() as usize;
        let packed = compress(Packer::Lz4, zstd::Level::DEFAULT, &whole, LOG_BLOCK_BYTES - unit);
        let (mut bytes, compression) = match packed {
            Some(packed) => (packed, Compression::Lz4),
            None => (whole, Compression::Off),
        };
        bytes.resize(bytes.len().next_multiple_of(unit), 0);
        let sum = checksum(Algorithm::Fletcher4, &bytes, Order::Little, None);
        let sizes = (LOG_BLOCK_BYTES as u64, bytes.len() as u64);
        let pointer = LogPointer::new(ring.hand, ring.payload, sizes, compression, Checksum::Fletcher4, sum);
        self.put(ring.hand, &bytes)?;
        ring.hand += bytes.len() as u64;
        ring.newest = [pointer, ring.newest[0]];
        ring.log_blocks.push_back(pointer);
        ring.pending.clear();
        ring.payload = (0, 0);
        index.counts.log_blocks.add(1);
        index.counts.written_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// Writes the header. [`Leaf::write`] cannot do it, because it only writes to the allocatable
    /// area.
    pub fn write_header(&self, ring: &Ring) -> io::Result<()> {
        let header = Header {
            pool_guid: self.pool_guid,
            vdev_guid: self.vdev.guid,
            log_entries: self.log_entries,
            evict_offset: ring.evict,
            flags: if ring.first { FIRST_SWEEP } else { 0 },
            start_offset: self.start,
            end_offset: self.end,
            newest: ring.newest,
            log_blocks_bytes: ring.log_blocks.iter().map(LogPointer::psize_bytes).sum(),
            log_blocks: ring.log_blocks.len() as u64,
            trim_time: 0,
            trim_state: 0,
            trailer: Trailer { endian: Endian::Little, checksum: [0; 4] },
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.resize(header_bytes(self.vdev.ashift), 0);
        embedded::seal(Kind::Label, &mut bytes, [HEADER_OFFSET, 0, 0, 0], Order::Little, false)
            .map_err(io::Error::other)?;
        let device: Arc<dyn Device> = self.leaf().device().ok_or(io::ErrorKind::NotFound)?;
        device.write_at(HEADER_OFFSET, &bytes)
    }
}

/// Size of the header: one sector, at least.
pub fn header_bytes(ashift: u8) -> usize {
    Header::SIZE_BYTES.max(1 << ashift)
}
