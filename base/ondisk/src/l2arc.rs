//! Cache device (L2ARC): its header and log blocks, which make a persistent cache warm after an
//! import.
//!
//! A cache device has labels like any other (state 4, no pool configuration), then at 4 MiB this
//! header of 512 bytes:
//!
//! | offset | bytes | field               | since | meaning                                  |
//! |--------|-------|---------------------|-------|------------------------------------------|
//! | 0x000  | 8     | dh_magic            | 2.0   | 0x5a46534341434845, "ZFSCACHE"           |
//! | 0x008  | 8     | dh_version          | 2.0   | 1                                        |
//! | 0x010  | 8     | dh_spa_guid         | 2.0   | the pool                                 |
//! | 0x018  | 8     | dh_vdev_guid        | 2.0   | the device                               |
//! | 0x020  | 8     | dh_log_entries      | 2.0   | entries in a log block                   |
//! | 0x028  | 8     | dh_evict            | 2.0   | end of the evicted area                  |
//! | 0x030  | 8     | dh_flags            | 2.0   | 1: device is being filled the first time |
//! | 0x038  | 8     | dh_start            | 2.0   | start of the cache area                  |
//! | 0x040  | 8     | dh_end              | 2.0   | end of the cache area                    |
//! | 0x048  | 128   | dh_start_lbps\[2\]  | 2.0   | newest log block and the one before it   |
//! | 0x0c8  | 8     | dh_lb_asize         | 2.0   | space of the log blocks                  |
//! | 0x0d0  | 8     | dh_lb_count         | 2.0   | number of log blocks                     |
//! | 0x0d8  | 8     | dh_trim_action_time | 2.0   | time of the last trim                    |
//! | 0x0e0  | 8     | dh_trim_state       | 2.0   | state of the trim                        |
//! | 0x1d8  | 40    | dh_tail             | 2.0   | [`Trailer`]                              |
//!
//! A pointer to a log block is eight words: offset, payload size, payload start, properties,
//! checksum (4). A log block (LZ4, 64 KiB) has the magic "LOGBLKHD", the pointer to the previous
//! log block, and from 0x80 up to 1022 entries of 64 bytes, [`LogEntry`].
//!
//! The header of an empty cache device:
//!
//! ```text
//! 00000000  45 48 43 41 43 53 46 5a  01 00 00 00 00 00 00 00  |EHCACSFZ........|
//! 00000010  6f 49 05 22 cb bf ce 32  26 54 52 af 34 50 f7 3a  |oI."...2&TR.4P.:|
//! 00000020  00 00 00 00 00 00 00 00  00 02 40 00 00 00 00 00  |..........@.....|
//! 00000030  01 00 00 00 00 00 00 00  00 02 40 00 00 00 00 00  |..........@.....|
//! 00000040  00 00 f8 03 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ```
//!
//! Source: include/sys/arc_impl.h.

use crate::blkptr::Dva;
use crate::endian::{Endian, need, words};
use crate::error::{Error, Result};
use crate::label::{START_BYTES, Trailer};
use crate::types::{Checksum, Compression, Txg};

/// Offset of the header on the device.
pub const HEADER_OFFSET: u64 = START_BYTES;
/// Magic of the header, "ZFSCACHE".
pub const HEADER_MAGIC: u64 = 0x5a46_5343_4143_4845;
/// Magic of a log block, "LOGBLKHD".
pub const LOG_BLOCK_MAGIC: u64 = 0x4c4f_4742_4c4b_4844;
/// Size of a log block in bytes.
pub const LOG_BLOCK_BYTES: usize = 64 << 10;
/// Devices that end before this offset have no log blocks (`l2arc_rebuild_blocks_min_l2size`).
pub const LOG_DEVICE_BYTES_MIN: u64 = 1 << 30;
/// [`Header::flags`]: the device is being filled for the first time.
pub const FIRST_SWEEP: u64 = 1;
/// Maximum number of entries in a log block.
pub const LOG_BLOCK_ENTRIES_MAX: usize = 1022;

/// Pointer to a log block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPointer {
    /// Offset on the device in bytes.
    pub offset_bytes: u64,
    /// Size of the cached blocks that it lists, in bytes.
    pub payload_bytes: u64,
    /// Offset of the first of those blocks.
    pub payload_start: u64,
    /// Sizes, compression and checksum algorithm, packed as in a block pointer.
    pub prop: u64,
    /// Checksum of the log block.
    pub checksum: [u64; 4],
}

impl LogPointer {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 64;

    /// Parses the first 64 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let [offset_bytes, payload_bytes, payload_start, prop, a, b, c, d] = words("l2arc_log_blkptr", bytes, endian)?;
        Ok(Self { offset_bytes, payload_bytes, payload_start, prop, checksum: [a, b, c, d] })
    }

    /// A pointer to a log block. `payload` is start and size; `sizes` are the logical and the
    /// stored size. All are in bytes.
    pub fn new(
        offset_bytes: u64,
        payload: (u64, u64),
        sizes: (u64, u64),
        compression: Compression,
        kind: Checksum,
        checksum: [u64; 4],
    ) -> Self {
        let prop = packed_sizes(sizes.0, sizes.1) | u64::from(compression.to_raw()) << 32 | (kind as u64) << 40;
        Self { offset_bytes, payload_start: payload.0, payload_bytes: payload.1, prop, checksum }
    }

    /// A null pointer, which ends the chain of log blocks.
    pub const NOWHERE: Self = Self { offset_bytes: 0, payload_bytes: 0, payload_start: 0, prop: 0, checksum: [0; 4] };

    /// Encodes the pointer, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let [a, b, c, d] = self.checksum;
        words_to_bytes([self.offset_bytes, self.payload_bytes, self.payload_start, self.prop, a, b, c, d])
    }

    /// Whether this is a null pointer.
    pub fn is_empty(&self) -> bool {
        self.offset_bytes == 0
    }

    /// Size of the log block in bytes.
    pub fn lsize_bytes(&self) -> u64 {
        ((self.prop & 0xffff) + 1) << 9
    }

    /// Stored size of the log block in bytes.
    pub fn psize_bytes(&self) -> u64 {
        (((self.prop >> 16) & 0xffff) + 1) << 9
    }

    /// Compression of the log block.
    pub fn compression(&self) -> Result<Compression> {
        Compression::from_raw(((self.prop >> 32) & 0x7f) as u8)
    }

    /// Checksum algorithm of the log block.
    pub fn checksum_kind(&self) -> Result<Checksum> {
        Checksum::from_raw((self.prop >> 40) as u8)
    }
}

/// The header of a cache device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// GUID of the pool.
    pub pool_guid: u64,
    /// GUID of the device.
    pub vdev_guid: u64,
    /// Entries in a log block.
    pub log_entries: u64,
    /// End of the area that has been evicted for reuse.
    pub evict_offset: u64,
    /// 1: the device is being filled for the first time.
    pub flags: u64,
    /// Start of the cache area.
    pub start_offset: u64,
    /// End of the cache area.
    pub end_offset: u64,
    /// The newest log block and the one before it.
    pub newest: [LogPointer; 2],
    /// Space of the log blocks in bytes.
    pub log_blocks_bytes: u64,
    /// Number of log blocks.
    pub log_blocks: u64,
    /// Time of the last trim in seconds since 1970.
    pub trim_time: u64,
    /// State of the trim.
    pub trim_state: u64,
    /// Checksum of the header.
    pub trailer: Trailer,
}

impl Header {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 512;

    /// Parses the first 512 bytes. The caller verifies the checksum.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        need("l2arc_dev_hdr_phys", bytes, Self::SIZE_BYTES)?;
        let bytes = &bytes[..Self::SIZE_BYTES];
        let endian = magic_endian("l2arc_dev_hdr_phys", "dh_magic", bytes, HEADER_MAGIC)?;
        let word = |at: usize| endian.u64(&bytes[at..]);
        if word(0x08) != 1 {
            let what = format!("dh_version {}", word(0x08));
            return Err(Error::Unsupported { structure: "l2arc_dev_hdr_phys", what });
        }
        Ok(Self {
            pool_guid: word(0x10),
            vdev_guid: word(0x18),
            log_entries: word(0x20),
            evict_offset: word(0x28),
            flags: word(0x30),
            start_offset: word(0x38),
            end_offset: word(0x40),
            newest: [LogPointer::parse(&bytes[0x48..], endian)?, LogPointer::parse(&bytes[0x88..], endian)?],
            log_blocks_bytes: word(0xc8),
            log_blocks: word(0xd0),
            trim_time: word(0xd8),
            trim_state: word(0xe0),
            trailer: Trailer::parse(bytes)?,
        })
    }

    /// Encodes the header, without its checksum.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        let head = [
            HEADER_MAGIC,
            1,
            self.pool_guid,
            self.vdev_guid,
            self.log_entries,
            self.evict_offset,
            self.flags,
            self.start_offset,
            self.end_offset,
        ];
        out[..0x48].copy_from_slice(&words_to_bytes::<9, 0x48>(head));
        out[0x48..0x88].copy_from_slice(&self.newest[0].to_bytes());
        out[0x88..0xc8].copy_from_slice(&self.newest[1].to_bytes());
        let tail = [self.log_blocks_bytes, self.log_blocks, self.trim_time, self.trim_state];
        out[0xc8..0xe8].copy_from_slice(&words_to_bytes::<4, 0x20>(tail));
        out
    }
}

/// Packs sizes as sectors - 1, like `L2BLK_SET_LSIZE` and `L2BLK_SET_PSIZE`.
fn packed_sizes(lsize_bytes: u64, psize_bytes: u64) -> u64 {
    let sectors = |bytes: u64| (bytes.div_ceil(512).max(1) - 1) & 0xffff;
    sectors(lsize_bytes) | sectors(psize_bytes) << 16
}

fn words_to_bytes<const N: usize, const BYTES: usize>(words: [u64; N]) -> [u8; BYTES] {
    const { assert!(N * 8 == BYTES, "eight bytes a word") };
    let mut out = [0; BYTES];
    for (place, word) in out.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Encodes a log block with these entries, which follows `previous` in the chain.
pub fn pack_log_block(previous: &LogPointer, entries: &[LogEntry]) -> Vec<u8> {
    assert!(entries.len() <= LOG_BLOCK_ENTRIES_MAX, "more entries than a log block holds");
    let mut out = vec![0; LOG_BLOCK_BYTES];
    out[..8].copy_from_slice(&LOG_BLOCK_MAGIC.to_le_bytes());
    out[8..8 + LogPointer::SIZE_BYTES].copy_from_slice(&previous.to_bytes());
    for (place, entry) in out[0x80..].chunks_exact_mut(LogEntry::SIZE_BYTES).zip(entries) {
        let (w0, w1) = entry.dva.to_words();
        let words = [w0, w1, entry.birth.0, entry.prop, entry.offset_bytes, entry.compression_level, 0, 0];
        place.copy_from_slice(&words_to_bytes::<8, 64>(words));
    }
    out
}

/// Number of entries in each log block of a device whose cache area spans `start` to `end`; 0: the
/// device is too small for log blocks (`l2arc_rebuild_dev`).
pub fn log_entries(start: u64, end: u64) -> u64 {
    if end < LOG_DEVICE_BYTES_MIN { 0 } else { (end.saturating_sub(start) >> 24).min(LOG_BLOCK_ENTRIES_MAX as u64) }
}

fn magic_endian(structure: &'static str, field: &'static str, bytes: &[u8], magic: u64) -> Result<Endian> {
    need(structure, bytes, 8)?;
    [Endian::Little, Endian::Big].into_iter().find(|e| e.u64(bytes) == magic).ok_or_else(|| {
        let found = format!("{:#x}", Endian::Little.u64(bytes));
        Error::corrupt(structure, field, found, format_args!("{magic:#x}"))
    })
}

/// A decompressed log block.
#[derive(Debug, Clone, Copy)]
pub struct LogBlock<'a> {
    /// The previous log block in the chain.
    pub previous: LogPointer,
    entries: &'a [u8],
    endian: Endian,
}

impl<'a> LogBlock<'a> {
    /// Parses a whole log block.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        need("l2arc_log_blk_phys", bytes, 0x80)?;
        let endian = magic_endian("l2arc_log_blk_phys", "lb_magic", bytes, LOG_BLOCK_MAGIC)?;
        Ok(Self { previous: LogPointer::parse(&bytes[8..], endian)?, entries: &bytes[0x80..], endian })
    }

    /// The first `count` entries, which is [`Header::log_entries`]. Unused entries are zero.
    pub fn entries(&self, count: u64) -> impl Iterator<Item = LogEntry> + 'a {
        let endian = self.endian;
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(LOG_BLOCK_ENTRIES_MAX);
        self.entries.chunks_exact(LogEntry::SIZE_BYTES).take(count).filter_map(move |b| LogEntry::parse(b, endian).ok())
    }
}

/// Attributes of a cached block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nature {
    /// The block is metadata.
    pub is_metadata: bool,
    /// The block is encrypted or authenticated.
    pub is_protected: bool,
    /// The block was requested more than once (`ARC_STATE_MFU`, else `ARC_STATE_MRU`).
    pub is_frequent: bool,
}

/// A cached block: words 0-1 address in the pool, 2 birth, 3 properties, 4 offset on the cache
/// device, 5 compression level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// First address in the pool.
    pub dva: Dva,
    pub birth: Txg,
    /// Sizes, compression, kind (data or metadata), encryption and cache list, packed.
    pub prop: u64,
    /// Offset on the cache device in bytes.
    pub offset_bytes: u64,
    pub compression_level: u64,
}

impl LogEntry {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 64;

    /// An entry for a block; `sizes` are in memory and as stored, in bytes.
    pub fn pack(
        dva: Dva,
        birth: Txg,
        sizes: (u64, u64),
        compression: Compression,
        nature: Nature,
        offset_bytes: u64,
    ) -> Self {
        let Nature { is_metadata, is_protected, is_frequent } = nature;
        let list = if is_frequent { 3 } else { 1 };
        let prop = packed_sizes(sizes.0, sizes.1)
            | u64::from(compression.to_raw()) << 32
            | (1 + u64::from(is_metadata)) << 48
            | u64::from(is_protected) << 56
            | list << 57;
        Self { dva, birth, prop, offset_bytes, compression_level: 0 }
    }

    /// Size of the block in memory, in bytes.
    pub fn lsize_bytes(&self) -> u64 {
        ((self.prop & 0xffff) + 1) << 9
    }

    /// Stored size of the block in bytes.
    pub fn psize_bytes(&self) -> u64 {
        (((self.prop >> 16) & 0xffff) + 1) << 9
    }

    /// Whether the block is metadata.
    pub fn is_metadata(&self) -> bool {
        (self.prop >> 48) & 0xff == 2
    }

    fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let [w0, w1, birth, prop, offset_bytes, compression_level] = words("l2arc_log_ent_phys", bytes, endian)?;
        Ok(Self { dva: Dva::from_words(w0, w1), birth: Txg(birth), prop, offset_bytes, compression_level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn header_of_a_cache_device_matches_zdb() {
        let header = Header::parse(golden!("l2arc_header.bin")).unwrap();
        assert_eq!((header.pool_guid, header.vdev_guid), (3661074426268830063, 4248952960657282086));
        assert_eq!((header.start_offset, header.end_offset, header.evict_offset), (4194816, 66584576, 4194816));
        assert_eq!((header.flags, header.log_blocks), (1, 0));
        assert!(header.newest.iter().all(LogPointer::is_empty));
    }

    #[test]
    fn log_block_lists_its_entries() {
        let mut block = vec![0; 65536];
        Endian::Big.put_u64(&mut block, LOG_BLOCK_MAGIC);
        Endian::Big.put_u64(&mut block[8..], 0x500000);
        Endian::Big.put_u64(&mut block[0x20..], (15 << 32) | (7 << 16) | 127);
        Endian::Big.put_u64(&mut block[0x80 + 64 + 16..], 99);
        let parsed = LogBlock::parse(&block).unwrap();
        assert_eq!((parsed.previous.offset_bytes, parsed.previous.lsize_bytes()), (0x500000, 65536));
        assert_eq!((parsed.previous.psize_bytes(), parsed.previous.compression().unwrap()), (4096, Compression::Lz4));
        let births: Vec<_> = parsed.entries(2).map(|e| e.birth.0).collect();
        assert_eq!(births, [0, 99]);
        assert_eq!(parsed.entries(u64::MAX).count(), LOG_BLOCK_ENTRIES_MAX);
    }

    #[test]
    fn packed_entries_are_unpacked() {
        let golden = golden!("l2arc_header.bin");
        let header = Header::parse(golden).unwrap();
        assert_eq!(header.to_bytes()[..0x1d8], golden[..0x1d8]);
        let dva = Dva { vdev: 3, offset_bytes: 0x123_0000, asize_bytes: 0x3000, is_gang: false };
        let nature = Nature { is_metadata: true, is_frequent: true, ..Nature::default() };
        let entry = LogEntry::pack(dva, Txg(77), (131_072, 12_288), Compression::Lz4, nature, 0x50_0000);
        assert_eq!((entry.lsize_bytes(), entry.psize_bytes(), entry.is_metadata()), (131_072, 12_288, true));
        let to = LogPointer::new(
            0x40_0200,
            (0x40_0200, 512),
            (65_536, 1024),
            Compression::Lz4,
            Checksum::Fletcher4,
            [1, 2, 3, 4],
        );
        let packed = pack_log_block(&to, &[entry]);
        let block = LogBlock::parse(&packed).unwrap();
        assert_eq!((block.previous, block.entries(1).collect::<Vec<_>>()), (to, vec![entry]));
        assert_eq!(
            (to.lsize_bytes(), to.psize_bytes(), to.checksum_kind().unwrap()),
            (65_536, 1024, Checksum::Fletcher4)
        );
        assert_eq!((log_entries(4 << 20, 1 << 29), log_entries(4 << 20, 1 << 40)), (0, 1022));
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("l2arc_header.bin"), |bytes| {
            let _ = Header::parse(bytes);
            if let Ok(block) = LogBlock::parse(bytes) {
                let _ = block.entries(9).count();
            }
        });
    }
}
