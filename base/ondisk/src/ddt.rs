//! Dedup table (DDT): blocks that are stored once and referenced several times.
//!
//! There is one table for each checksum that was used with `dedup`, in up to three objects:
//! `DDT-sha256-zap-unique` (one reference), `-duplicate` (more), `-ditto` (old). They are listed in
//! the object directory or, with fast_dedup, in a ZAP `DDT-sha256`, which also holds `version`,
//! `flags` and two logs of changes not yet in the tables. Each object is a ZAP; its key is five
//! words:
//!
//! | word | field     | meaning                                                          |
//! |------|-----------|------------------------------------------------------------------|
//! | 0-3  | ddk_cksum | checksum of the block                                            |
//! | 4    | ddk_prop  | bits 0-15 logical sectors - 1, 16-31 physical sectors - 1, 32-38 |
//! |      |           | compression, 39 encrypted                                        |
//!
//! The value is bytes: one that describes the packing (bit 7: little-endian writer, bits 0-6:
//! compression, `zle` or off), then `ddt_phys_t`. A traditional entry has four of these, selected
//! by the number of copies; a flat entry (fast_dedup) has one:
//!
//! | offset | bytes | field           | since      | meaning                                      |
//! |--------|-------|-----------------|------------|----------------------------------------------|
//! | 0x00   | 48    | ddp_dva\[3\]    | v21        | addresses                                    |
//! | 0x30   | 8     | ddp_refcnt      | v21        | references                                   |
//! | 0x38   | 8     | ddp_phys_birth  | v21        | txg in which it was written                  |
//! |        |       |                 |            | traditional: three more of these (256 bytes) |
//! | 0x40   | 8     | ddp_class_start | fast_dedup | flat only: entered its class at (seconds)    |
//!
//! A value: little-endian, not compressed (0x82); address 1:4c000, 3 references, txg 10:
//!
//! ```text
//! 00000000  82 00 01 00 00 01 00 00  00 60 02 00 00 00 00 00  |.........`......|
//! 00000010  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000030  00 03 00 00 00 00 00 00  00 0a 00 00 00 00 00 00  |................|
//! 00000040  00 30 6e 01 6b 00 00 00  00                       |.0n.k....|
//! ```
//!
//! Source: include/sys/ddt.h, include/sys/ddt_impl.h, module/zfs/ddt_zap.c.

use crate::blkptr::{BlkPtr, Dva};
use crate::blkptr_build::NewBlock;
use crate::endian::{Endian, need, words};
use crate::error::{Error, Result};
use crate::types::{Checksum, Compression, ObjectType, Txg};

/// Names of the classes, in search order.
pub const CLASSES: [&str; 3] = ["ditto", "duplicate", "unique"];
/// Name of the only storage type of tables.
pub const STORE: &str = "zap";
/// Entry in the table's directory: table version, 1.
pub const DIRECTORY_VERSION: &str = "version";
/// Entry in the table's directory: [`FLAG_FLAT`], [`FLAG_LOG`].
pub const DIRECTORY_FLAGS: &str = "flags";
/// Entries hold a single [`Phys`].
pub const FLAG_FLAT: u64 = 1;
/// Changes are logged first.
pub const FLAG_LOG: u64 = 2;

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Checksum of the block.
    pub checksum: [u64; 4],
    /// `ddk_prop`, packed.
    pub prop: u64,
}

impl Key {
    /// Size in bytes outside of a ZAP.
    pub const SIZE_BYTES: usize = 40;

    /// The key of the block that `bp` points to.
    pub fn of(bp: &BlkPtr) -> Self {
        let sizes = (((bp.psize_bytes() >> 9) - 1) << 16) | ((bp.lsize_bytes() >> 9) - 1);
        let compression = bp.compression().map_or(0, Compression::to_raw);
        let prop = sizes | (u64::from(compression) << 32) | (u64::from(bp.uses_crypt()) << 39);
        Self { checksum: bp.checksum(), prop }
    }

    /// A pointer to the data at `phys`, built from the table entry. Its type is plain file contents
    /// and its D bit is clear, so that freeing it releases the space. Salt and IV of an encrypted
    /// block are incomplete.
    pub fn pointer(&self, checksum: Checksum, phys: &Phys) -> Result<BlkPtr> {
        let mut bp = BlkPtr::new_block(&NewBlock {
            object_type: ObjectType::PLAIN_FILE_CONTENTS,
            level: 0,
            lsize_bytes: self.lsize_bytes(),
            psize_bytes: self.psize_bytes(),
            compression: self.compression()?,
            checksum,
        });
        bp.set_uses_crypt(self.is_encrypted());
        bp.set_checksum(self.checksum);
        bp.set_address_words(phys.addresses);
        bp.set_birth(phys.birth, phys.birth);
        bp.set_fill(1);
        Ok(bp)
    }

    /// Decodes the five words of a ZAP key.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        match *words {
            [a, b, c, d, prop] => Ok(Self { checksum: [a, b, c, d], prop }),
            _ => Err(Error::corrupt("ddt_key", "words", words.len(), 5)),
        }
    }

    /// Parses the first 40 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        Self::from_words(&words::<5>("ddt_key", bytes, endian)?)
    }

    /// Encodes the key as five words.
    pub fn to_words(&self) -> [u64; 5] {
        let [a, b, c, d] = self.checksum;
        [a, b, c, d, self.prop]
    }

    /// Size of the contents in bytes.
    pub fn lsize_bytes(&self) -> u64 {
        ((self.prop & 0xffff) + 1) << 9
    }

    /// Size as stored, in bytes.
    pub fn psize_bytes(&self) -> u64 {
        (((self.prop >> 16) & 0xffff) + 1) << 9
    }

    /// Compression of the block.
    pub fn compression(&self) -> Result<Compression> {
        Compression::from_raw(((self.prop >> 32) & 0x7f) as u8)
    }

    /// Whether the block is encrypted.
    pub fn is_encrypted(&self) -> bool {
        (self.prop >> 39) & 1 != 0
    }
}

/// The packed value of a ZAP entry. The caller decompresses `payload` to one of the sizes of
/// [`Phys`] and passes the result to [`Phys::parse_traditional`] or [`Phys::parse_flat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedValue<'a> {
    /// Compression of the payload: zle or off.
    pub compression: Compression,
    /// Byte order of the unpacked payload.
    pub endian: Endian,
    pub payload: &'a [u8],
}

/// The first byte of a value that a little-endian host writes with `compression` (off or zle).
pub fn packing(compression: Compression) -> u8 {
    0x80 | compression.to_raw()
}

impl<'a> PackedValue<'a> {
    /// Parses a ZAP value.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let [version, payload @ ..] = bytes else { return Err(Error::short("ddt value", 0, 1)) };
        let compression = match Compression::from_raw(version & 0x7f) {
            Ok(c @ (Compression::Zle | Compression::Off)) => c,
            _ => return Err(Error::corrupt("ddt value", "version", format!("{version:#x}"), "off (2) or zle (14)")),
        };
        let endian = if version & 0x80 != 0 { Endian::Little } else { Endian::Big };
        Ok(Self { compression, endian, payload })
    }
}

/// Location, references and birth of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phys {
    /// Addresses, two words each; in an encrypted block the third is the salt and part of the IV.
    pub addresses: [u64; 6],
    pub references: u64,
    /// Txg in which the block was written.
    pub birth: Txg,
    /// Flat tables: when the entry entered its class, in seconds since 1970.
    pub class_start: Option<u64>,
}

impl Phys {
    /// Size in bytes of the four slots of a traditional entry: ditto, one copy, two, three.
    pub const TRADITIONAL_BYTES: usize = 256;
    /// Size of a flat entry in bytes.
    pub const FLAT_BYTES: usize = 72;

    fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        let w: [u64; 8] = words("ddt_phys", bytes, endian)?;
        let [a, b, c, d, e, f, references, birth] = w;
        Ok(Self { addresses: [a, b, c, d, e, f], references, birth: Txg(birth), class_start: None })
    }

    /// Parses a traditional entry. Unused slots have birth 0.
    pub fn parse_traditional(bytes: &[u8], endian: Endian) -> Result<[Self; 4]> {
        need("ddt_phys", bytes, Self::TRADITIONAL_BYTES)?;
        let mut out = [Self::default(); 4];
        for (place, chunk) in out.iter_mut().zip(bytes.chunks_exact(64)) {
            *place = Self::parse(chunk, endian)?;
        }
        Ok(out)
    }

    /// Parses a flat entry.
    pub fn parse_flat(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("ddt_phys", bytes, Self::FLAT_BYTES)?;
        Ok(Self { class_start: Some(endian.word(bytes, 8)), ..Self::parse(bytes, endian)? })
    }

    /// Address of copy `index`, 0 to 2.
    pub fn dva(&self, index: usize) -> Dva {
        Dva::from_words(self.addresses[2 * index], self.addresses[2 * index + 1])
    }

    /// Whether the slot is in use.
    pub fn is_used(&self) -> bool {
        self.birth != Txg(0)
    }

    fn words(&self) -> [u64; 8] {
        let [a, b, c, d, e, f] = self.addresses;
        [a, b, c, d, e, f, self.references, self.birth.0]
    }

    /// Encodes a traditional entry.
    pub fn to_traditional_bytes(places: &[Self; 4], endian: Endian) -> [u8; Self::TRADITIONAL_BYTES] {
        let mut out = [0; Self::TRADITIONAL_BYTES];
        for (chunk, word) in out.chunks_exact_mut(8).zip(places.iter().flat_map(Self::words)) {
            endian.put_u64(chunk, word);
        }
        out
    }

    /// Encodes a flat entry.
    pub fn to_flat_bytes(&self, endian: Endian) -> [u8; Self::FLAT_BYTES] {
        let mut out = [0; Self::FLAT_BYTES];
        let words = self.words().into_iter().chain([self.class_start.unwrap_or(0)]);
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            endian.put_u64(chunk, word);
        }
        out
    }
}

/// A row of a dedup histogram: blocks with 2^n to 2^(n+1)-1 references (`ddt_stat_t`, in the order
/// of its eight words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    pub blocks: u64,
    /// Logical size in bytes.
    pub lsize_bytes: u64,
    /// Physical (compressed) size in bytes.
    pub psize_bytes: u64,
    /// Allocated space in bytes.
    pub dsize_bytes: u64,
    /// Number of references to the blocks.
    pub referenced_blocks: u64,
    /// Logical size times references.
    pub referenced_lsize_bytes: u64,
    /// Physical size times references.
    pub referenced_psize_bytes: u64,
    /// Space that they would take without dedup, in bytes.
    pub referenced_dsize_bytes: u64,
}

/// Decodes a table's histogram: the 512-word value of the entry of `DDT-statistics` with the
/// table's name.
pub fn histogram_from_words(words: &[u64]) -> Result<Vec<Stat>> {
    if words.len() != 64 * 8 {
        return Err(Error::corrupt("ddt_histogram", "words", words.len(), 512));
    }
    let rows = words.chunks_exact(8).map(|w| Stat {
        blocks: w[0],
        lsize_bytes: w[1],
        psize_bytes: w[2],
        dsize_bytes: w[3],
        referenced_blocks: w[4],
        referenced_lsize_bytes: w[5],
        referenced_psize_bytes: w[6],
        referenced_dsize_bytes: w[7],
    });
    Ok(rows.collect())
}

/// Encodes a histogram of 64 rows.
pub fn histogram_to_words(rows: &[Stat]) -> Vec<u64> {
    let words = |row: &Stat| {
        [
            row.blocks,
            row.lsize_bytes,
            row.psize_bytes,
            row.dsize_bytes,
            row.referenced_blocks,
            row.referenced_lsize_bytes,
            row.referenced_psize_bytes,
            row.referenced_dsize_bytes,
        ]
    };
    rows.iter().flat_map(words).collect()
}

/// The bonus of a log object (`ddt_log_header_t`): info, length, first txg, checkpoint key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    /// Whether the log is being flushed to the tables.
    pub is_flushing: bool,
    /// Entries up to this key are already in the tables.
    pub checkpoint: Option<Key>,
    /// Size of the entries in bytes.
    pub length_bytes: u64,
    /// Txg in which the log was started.
    pub first_txg: Txg,
}

impl LogHeader {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 64;

    /// Parses the bonus. Fails with [`Error::Unsupported`] for versions other than 1.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self> {
        let [info, length_bytes, first_txg] = words("ddt_log_header", bonus, endian)?;
        need("ddt_log_header", bonus, Self::SIZE_BYTES)?;
        if info & 0xff != 1 {
            return Err(Error::Unsupported { structure: "ddt_log_header", what: format!("version {}", info & 0xff) });
        }
        let checkpoint = if info & 0x200 != 0 { Some(Key::parse(&bonus[24..], endian)?) } else { None };
        Ok(Self { is_flushing: info & 0x100 != 0, checkpoint, length_bytes, first_txg: Txg(first_txg) })
    }

    pub fn to_bytes(&self, endian: Endian) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        let info = 1 | (u64::from(self.is_flushing) << 8) | (u64::from(self.checkpoint.is_some()) << 9);
        let key = self.checkpoint.map_or([0; 5], |key| key.to_words());
        let words = [info, self.length_bytes, self.first_txg.0].into_iter().chain(key);
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            endian.put_u64(chunk, word);
        }
        out
    }
}

/// An entry of a dedup log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// Class of the table that it belongs to, as an index into [`CLASSES`]; 3: none yet.
    pub class: u8,
    pub key: Key,
    /// Unpacked value, for [`Phys::parse_flat`] or [`Phys::parse_traditional`].
    pub phys: &'a [u8],
}

/// The entries in a block of a log object. Each is a word (bits 0-7 kind: 0 ends the block, 1
/// entry; 8-23 total size in bytes; 48-55 store; 56-63 class), key and value.
pub fn log_entries(block: &[u8], endian: Endian) -> LogEntries<'_> {
    LogEntries { rest: block, endian }
}

/// Iterator returned by [`log_entries`].
#[derive(Debug, Clone)]
pub struct LogEntries<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> LogEntries<'a> {
    fn entry(&mut self, info: u64) -> Result<LogEntry<'a>> {
        if info & 0xff != 1 {
            return Err(Error::Unsupported { structure: "ddt_log_record", what: format!("type {}", info & 0xff) });
        }
        let length = ((info >> 8) & 0xffff) as usize;
        let record = self.rest.get(..length).filter(|r| r.len() >= 8 + Key::SIZE_BYTES).ok_or_else(|| {
            Error::corrupt("ddt_log_record", "length", length, format_args!("48 to {}", self.rest.len()))
        })?;
        self.rest = &self.rest[length..];
        Ok(LogEntry {
            class: (info >> 56) as u8,
            key: Key::parse(&record[8..], self.endian)?,
            phys: &record[8 + Key::SIZE_BYTES..],
        })
    }
}

impl<'a> Iterator for LogEntries<'a> {
    type Item = Result<LogEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let info = self.endian.u64(self.rest.get(..8)?);
        if info & 0xff == 0 {
            return None;
        }
        let entry = self.entry(info);
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, golden_words, never_panics};

    #[test]
    fn entry_of_a_flat_table_matches_zdb_and_is_encoded_back() {
        let key = Key::parse(golden!("ddt_key.bin"), Endian::Little).unwrap();
        assert_eq!(key.checksum[0], 0x7625_bfaa_384b_69b8);
        assert_eq!((key.lsize_bytes(), key.psize_bytes()), (0x2_0000, 0x2_0000));
        assert_eq!((key.compression().unwrap(), key.is_encrypted()), (Compression::Off, false));
        assert_eq!(Key::from_words(&key.to_words()).unwrap(), key);
        let packed = PackedValue::parse(golden!("ddt_value_zap.bin")).unwrap();
        assert_eq!((packed.compression, packed.endian), (Compression::Off, Endian::Little));
        let phys = Phys::parse_flat(packed.payload, packed.endian).unwrap();
        assert_eq!((phys.dva(0).vdev, phys.dva(0).offset_bytes), (1, 0x4c000));
        assert_eq!((phys.references, phys.birth), (3, Txg(10)));
        assert_eq!(phys.to_flat_bytes(packed.endian), packed.payload);
        assert_eq!(packing(packed.compression), golden!("ddt_value_zap.bin")[0]);
        let bp = key.pointer(Checksum::Sha256, &phys).unwrap();
        assert_eq!((Key::of(&bp), bp.dva(0), bp.physical_birth()), (key, phys.dva(0), Txg(10)));
        assert!(!bp.is_dedup());
    }

    #[test]
    fn histogram_matches_zdb() {
        let rows = histogram_from_words(&golden_words(golden!("ddt_histogram.bin"))).unwrap();
        // zdb -DD: three blocks of 128 KiB with 2 to 3 references, 9 references in all.
        assert_eq!((rows[1].blocks, rows[1].lsize_bytes, rows[1].referenced_blocks), (3, 384 << 10, 9));
        assert_eq!(rows.iter().map(|r| r.blocks).sum::<u64>(), 3);
        assert!(histogram_from_words(&[0; 511]).is_err());
        assert_eq!(histogram_to_words(&rows), golden_words(golden!("ddt_histogram.bin")));
    }

    #[test]
    fn log_of_an_exported_pool_is_empty() {
        let header = LogHeader::parse(golden!("ddt_log_bonus.bin"), Endian::Little).unwrap();
        assert_eq!((header.is_flushing, header.checkpoint, header.length_bytes), (false, None, 0));
        assert_eq!(header.first_txg, Txg(98));
        assert_eq!(&header.to_bytes(Endian::Little)[..], &golden!("ddt_log_bonus.bin")[..LogHeader::SIZE_BYTES]);
        assert_eq!(log_entries(&[0; 512], Endian::Little).count(), 0);
    }

    #[test]
    fn log_entries_end_at_a_zero() {
        let mut block = Vec::new();
        block.extend_from_slice(&((2u64 << 56) | (120 << 8) | 1).to_le_bytes());
        block.extend_from_slice(golden!("ddt_key.bin"));
        block.extend_from_slice(&golden!("ddt_value_zap.bin")[1..]);
        block.resize(512, 0);
        let all: Vec<_> = log_entries(&block, Endian::Little).collect::<Result<_>>().unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(CLASSES[usize::from(all[0].class)], "unique");
        assert_eq!(Phys::parse_flat(all[0].phys, Endian::Little).unwrap().references, 3);
        block[1] = 47;
        assert!(log_entries(&block, Endian::Little).next().unwrap().is_err());
    }

    #[test]
    fn traditional_entries_have_four_places() {
        let mut bytes = [0; 256];
        bytes[64..136].copy_from_slice(&golden!("ddt_value_zap.bin")[1..]);
        bytes[128..136].fill(0);
        let places = Phys::parse_traditional(&bytes, Endian::Little).unwrap();
        assert_eq!(places.map(|p| p.references), [0, 3, 0, 0]);
        let mut cleared = bytes;
        cleared[128..136].fill(0);
        assert_eq!(Phys::to_traditional_bytes(&places, Endian::Little), cleared);
    }

    #[test]
    fn no_bytes_panic() {
        for real in [golden!("ddt_value_zap.bin"), golden!("ddt_log_bonus.bin"), golden!("ddt_key.bin")] {
            never_panics(real, |bytes| {
                let _ = PackedValue::parse(bytes);
                let _ = (Phys::parse_flat(bytes, Endian::Big), Phys::parse_traditional(bytes, Endian::Big));
                if let Ok(key) = Key::parse(bytes, Endian::Little) {
                    let _ = (key.lsize_bytes(), key.psize_bytes(), key.compression());
                }
                let _ = LogHeader::parse(bytes, Endian::Little);
                let _ = log_entries(bytes, Endian::Little).count();
            });
        }
    }
}
