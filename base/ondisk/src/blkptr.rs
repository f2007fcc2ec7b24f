//! Block pointer: where a block's copies are, how to verify and decompress them, and when they were
//! born.
//!
//! Every block except the uberblock is reached through one of these 128-byte structures. There are
//! four shapes:
//!
//! * **normal**: up to three addresses ([`Dva`]) of the same data;
//! * **hole**: no address; reads as zeros or was never written;
//! * **embedded**: the (compressed) data is in the pointer itself;
//! * **encrypted**: the third address holds salt and IV, half of the checksum a MAC.
//!
//! | offset | bytes | field               | since            | meaning                           |
//! |--------|-------|---------------------|------------------|-----------------------------------|
//! | 0x00   | 48    | blk_dva\[3\]        | v1               | three addresses of 16 bytes: vdev |
//! |        |       |                     |                  | and allocated size; offset and    |
//! |        |       |                     |                  | gang bit                          |
//! | 0x30   | 8     | blk_prop            | v1               | sizes, compression, checksum,     |
//! |        |       |                     |                  | type, level, byte order, dedup,   |
//! |        |       |                     |                  | encryption                        |
//! | 0x38   | 8     | blk_prop2           | physical_rewrite | bit 63: rewritten at physical     |
//! |        |       |                     |                  | birth                             |
//! | 0x40   | 8     | blk_pad             |                  | zero                              |
//! | 0x48   | 8     | blk_birth_word\[0\] | v1               | physical birth txg; 0: logical    |
//! | 0x50   | 8     | blk_birth_word\[1\] | v1               | logical birth txg                 |
//! | 0x58   | 8     | blk_fill            | v1               | non-hole blocks (or objects)      |
//! |        |       |                     |                  | below; upper half is IV2 when     |
//! |        |       |                     |                  | encrypted                         |
//! | 0x60   | 32    | blk_cksum           | v1               | 256-bit checksum; last 16 bytes   |
//! |        |       |                     |                  | are the MAC when encrypted        |
//!
//! A pointer to a MOS: three copies of 0x200 bytes at 0:60bde00 .., fletcher4 (7), LZ4 (15), object
//! set (11), born in txg 201, 233 objects below. Then a pointer whose 112 bytes hold the data
//! itself:
//!
//! ```text
//! 00000000  01 00 00 00 00 00 00 00  ef 05 03 00 00 00 00 00  |................|
//! 00000010  01 00 00 00 00 00 00 00  8d 32 01 00 00 00 00 00  |.........2......|
//! 00000020  01 00 00 00 00 00 00 00  4b 01 04 00 00 00 00 00  |........K.......|
//! 00000030  07 00 00 00 0f 07 0b 80  00 00 00 00 00 00 00 00  |................|
//! 00000040  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000050  c9 00 00 00 00 00 00 00  e9 00 00 00 00 00 00 00  |................|
//! 00000060  20 8d 60 81 09 00 00 00  4a 56 d3 78 e3 03 00 00  | .`.....JV.x....|
//! 00000070  e2 18 b5 39 97 cf 00 00  81 57 92 e6 bc 6b 1d 00  |...9.....W...k..|
//! ...
//! 00000000  00 00 00 18 21 03 00 01  00 53 80 35 77 92 01 0c  |....!....S.5w...|
//! 00000010  00 0f 02 00 ff d6 50 00  00 00 00 00 00 00 00 00  |......P.........|
//! 00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000030  ff 01 00 36 8f 00 14 80  00 00 00 00 00 00 00 00  |...6............|
//! 00000040  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000050  0b 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000060  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! 00000070  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
//! ```
//!
//! Source: include/sys/spa.h.

use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::types::{Checksum, Compression, ObjectType, Txg};

/// Size of a block pointer on disk in bytes.
pub const SIZE_BYTES: usize = 128;
/// Largest block of the format (`SPA_MAXBLOCKSIZE`).
pub const MAX_BLOCK_BYTES: u64 = 16 << 20;
/// Capacity of an embedded pointer in bytes.
pub const EMBEDDED_PAYLOAD_BYTES: usize = 112;

/// Address of one copy of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dva {
    /// Number of the top-level vdev.
    pub vdev: u32,
    /// Offset in the vdev's allocatable space, in bytes (device offset 4 MiB is 0).
    pub offset_bytes: u64,
    /// Allocated space in bytes, including parity and padding; for a gang block, also that of its
    /// members.
    pub asize_bytes: u64,
    /// Whether the address is that of a gang header.
    pub is_gang: bool,
}

impl Dva {
    /// Decodes an address from its two words.
    pub fn from_words(w0: u64, w1: u64) -> Self {
        Self {
            vdev: ((w0 >> 32) & 0xff_ffff) as u32,
            offset_bytes: (w1 & !(1 << 63)) << 9,
            asize_bytes: (w0 & 0xff_ffff) << 9,
            is_gang: w1 >> 63 != 0,
        }
    }

    /// Encodes the address as two words.
    pub fn to_words(self) -> (u64, u64) {
        (
            (u64::from(self.vdev) << 32) | (self.asize_bytes >> 9),
            (u64::from(self.is_gang) << 63) | (self.offset_bytes >> 9),
        )
    }

    /// Whether the address is unused (`!DVA_IS_VALID`).
    pub fn is_empty(&self) -> bool {
        self.asize_bytes == 0
    }
}

/// Contents of an embedded pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbeddedKind {
    /// The block's data, at most 112 bytes after compression.
    Data,
    /// Nothing: a redacted stream omitted the data.
    Redacted,
}

/// A block pointer: 16 words in host byte order, with accessors for the packed fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlkPtr {
    words: [u64; 16],
}

impl Default for BlkPtr {
    fn default() -> Self {
        Self::HOLE
    }
}

impl BlkPtr {
    /// A pointer to a block that was never written.
    pub const HOLE: Self = Self { words: [0; 16] };

    /// Parses the first 128 bytes of `bytes`, written in `endian`. Accepts any 128 bytes; see
    /// [`BlkPtr::check`].
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("blkptr", bytes, SIZE_BYTES)?;
        let mut words = [0; 16];
        for (i, w) in words.iter_mut().enumerate() {
            *w = endian.word(bytes, i);
        }
        Ok(Self { words })
    }

    /// A pointer from 16 words in host byte order.
    pub fn from_words(words: [u64; 16]) -> Self {
        Self { words }
    }

    /// The 16 words in host byte order.
    pub fn words(&self) -> &[u64; 16] {
        &self.words
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64; 16] {
        &mut self.words
    }

    /// The 128 bytes as stored on disk.
    pub fn to_bytes(&self, endian: Endian) -> [u8; SIZE_BYTES] {
        let mut out = [0; SIZE_BYTES];
        for (i, w) in self.words.iter().enumerate() {
            endian.put_u64(&mut out[i * 8..], *w);
        }
        out
    }

    fn prop(&self) -> u64 {
        self.words[6]
    }

    fn bits(&self, low: u32, count: u32) -> u64 {
        (self.prop() >> low) & ((1 << count) - 1)
    }

    /// Address of copy `index` (0 to 2). Meaningless if embedded; copy 2 is salt and IV if
    /// encrypted.
    pub fn dva(&self, index: usize) -> Dva {
        Dva::from_words(self.words[index * 2], self.words[index * 2 + 1])
    }

    /// The addresses in use.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> + '_ {
        let count = match (self.is_embedded(), self.is_encrypted()) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 3,
        };
        (0..count).map(|i| self.dva(i)).filter(|d| !d.is_empty())
    }

    /// Whether the data is in the pointer itself.
    pub fn is_embedded(&self) -> bool {
        self.bits(39, 1) != 0
    }

    /// Contents of an embedded pointer. Any other value than data and redacted is corrupt.
    pub fn embedded_kind(&self) -> Result<EmbeddedKind> {
        match self.bits(40, 8) {
            0 => Ok(EmbeddedKind::Data),
            2 => Ok(EmbeddedKind::Redacted),
            other => Err(Error::corrupt("blkptr", "etype", other, "0 (data) or 2 (redacted)")),
        }
    }

    /// Whether a redacted stream omitted this block.
    pub fn is_redacted(&self) -> bool {
        self.is_embedded() && self.bits(40, 8) == 2
    }

    /// Whether there is no block: it reads as zeros.
    pub fn is_hole(&self) -> bool {
        !self.is_embedded() && self.words[0] == 0 && self.words[1] == 0
    }

    /// Whether the first address is a gang header.
    pub fn is_gang(&self) -> bool {
        !self.is_embedded() && self.dva(0).is_gang
    }

    /// The X bit: encrypted, authenticated, or holding a checksum of MACs (`BP_USES_CRYPT`).
    pub fn uses_crypt(&self) -> bool {
        self.bits(61, 1) != 0
    }

    /// Level 0 of an encrypted type (`BP_IS_ENCRYPTED`).
    pub fn is_encrypted(&self) -> bool {
        self.uses_crypt() && self.level() == 0 && self.object_type().is_encrypted()
    }

    /// Level 0 of a type that is only authenticated (`BP_IS_AUTHENTICATED`).
    pub fn is_authenticated(&self) -> bool {
        self.uses_crypt() && self.level() == 0 && !self.object_type().is_encrypted()
    }

    /// Level above 0: MAC words hold a checksum of the MACs below (`BP_HAS_INDIRECT_MAC_CKSUM`).
    pub fn has_indirect_mac(&self) -> bool {
        self.uses_crypt() && self.level() > 0
    }

    /// The D bit: the dedup table counts the references to this block.
    pub fn is_dedup(&self) -> bool {
        self.bits(62, 1) != 0
    }

    /// Byte order of the block's contents.
    pub fn endian(&self) -> Endian {
        if self.bits(63, 1) != 0 { Endian::Little } else { Endian::Big }
    }

    /// Levels of indirection between this block and the data: 0 is data.
    pub fn level(&self) -> u8 {
        self.bits(56, 5) as u8
    }

    /// Type of the object that the block belongs to.
    pub fn object_type(&self) -> ObjectType {
        ObjectType(self.bits(48, 8) as u8)
    }

    /// Checksum algorithm. [`Checksum::Off`] for an embedded pointer.
    pub fn checksum_kind(&self) -> Result<Checksum> {
        if self.is_embedded() { Ok(Checksum::Off) } else { Checksum::from_raw(self.bits(40, 8) as u8) }
    }

    /// Fails for a number that OpenZFS does not define.
    pub fn compression(&self) -> Result<Compression> {
        Compression::from_raw(self.bits(32, 7) as u8)
    }

    /// Size of the contents after decompression, in bytes.
    pub fn lsize_bytes(&self) -> u64 {
        match self.is_embedded() {
            true if self.is_redacted() => 0,
            true => self.bits(0, 25) + 1,
            false => (self.bits(0, 16) + 1) << 9,
        }
    }

    /// Size on disk before parity, in bytes; if embedded, that of the payload.
    pub fn psize_bytes(&self) -> u64 {
        match self.is_embedded() {
            true => self.bits(25, 7) + 1,
            false => (self.bits(16, 16) + 1) << 9,
        }
    }

    /// Space allocated for all copies, in bytes (`BP_GET_ASIZE`).
    pub fn asize_bytes(&self) -> u64 {
        self.dvas().map(|d| d.asize_bytes).sum()
    }

    /// The 256-bit checksum as four words in the order of this machine.
    pub fn checksum(&self) -> [u64; 4] {
        [self.words[12], self.words[13], self.words[14], self.words[15]]
    }

    /// Txg in which the contents were created. 0 for a hole that was never written.
    pub fn logical_birth(&self) -> Txg {
        Txg(self.words[10])
    }

    /// Txg in which the first copy was written to its current location.
    pub fn physical_birth(&self) -> Txg {
        if self.is_embedded() || self.words[9] == 0 { self.logical_birth() } else { Txg(self.words[9]) }
    }

    /// Non-hole blocks (or, for dnodes and object sets, objects) at and below this pointer.
    pub fn fill(&self) -> u64 {
        if self.is_embedded() {
            1
        } else if self.is_encrypted() {
            self.words[11] & 0xffff_ffff
        } else {
            self.words[11]
        }
    }

    /// Salt of an encrypted block. Salt, IV and MAC are byte strings stored as words, so they come
    /// out in the byte order of the block's writer, regardless of who wrote the pointer.
    pub fn crypt_salt(&self) -> [u8; 8] {
        self.bytes_of_word(4)
    }

    /// 96-bit IV of an encrypted block.
    pub fn crypt_iv(&self) -> [u8; 12] {
        let mut iv = [0; 12];
        iv[..8].copy_from_slice(&self.bytes_of_word(5));
        self.endian().put_u32(&mut iv[8..], (self.words[11] >> 32) as u32);
        iv
    }

    /// 128-bit MAC of an encrypted or authenticated block, or of the MACs below it.
    pub fn crypt_mac(&self) -> [u8; 16] {
        let mut mac = [0; 16];
        mac[..8].copy_from_slice(&self.bytes_of_word(14));
        mac[8..].copy_from_slice(&self.bytes_of_word(15));
        mac
    }

    fn bytes_of_word(&self, index: usize) -> [u8; 8] {
        let mut bytes = [0; 8];
        self.endian().put_u64(&mut bytes, self.words[index]);
        bytes
    }

    /// The payload of an embedded pointer, still compressed: `psize_bytes()` bytes.
    pub fn embedded_payload(&self) -> Result<Vec<u8>> {
        let len = self.psize_bytes() as usize;
        if !self.is_embedded() || len > EMBEDDED_PAYLOAD_BYTES {
            return Err(Error::corrupt("blkptr", "embedded psize", len, "1 to 112 bytes in an embedded pointer"));
        }
        let mut out = Vec::with_capacity(EMBEDDED_PAYLOAD_BYTES);
        for (i, w) in self.words.iter().enumerate() {
            if i != 6 && i != 10 {
                // The payload is packed into words low byte first, in either byte order
                // (decode_embedded_bp_compressed).
                out.extend_from_slice(&w.to_le_bytes());
            }
        }
        out.truncate(len);
        Ok(out)
    }

    /// Rejects pointers that no writer creates (`zfs_blkptr_verify`): unknown type, checksum or
    /// compression, and impossible sizes.
    pub fn check(&self) -> Result<()> {
        let bad = |field, found: String, expected| Err(Error::corrupt("blkptr", field, found, expected));
        if !self.object_type().is_valid() {
            return bad("type", self.object_type().0.to_string(), "a known object type");
        }
        let compression = self.compression()?;
        if self.is_embedded() {
            self.embedded_kind()?;
            if self.psize_bytes() > EMBEDDED_PAYLOAD_BYTES as u64 {
                return bad("embedded psize", self.psize_bytes().to_string(), "at most 112");
            }
            if self.lsize_bytes() > MAX_BLOCK_BYTES {
                return bad("embedded lsize", self.lsize_bytes().to_string(), "at most 16 MiB");
            }
            return Ok(());
        }
        if self.is_hole() {
            return Ok(());
        }
        let checksum = self.checksum_kind()?;
        if matches!(compression, Compression::Inherit | Compression::On) {
            return bad("compress", compression.name().into(), "an algorithm");
        }
        if matches!(checksum, Checksum::Inherit | Checksum::On) {
            return bad("checksum", checksum.name().into(), "an algorithm");
        }
        if self.lsize_bytes() > MAX_BLOCK_BYTES || self.psize_bytes() > MAX_BLOCK_BYTES {
            return bad("lsize", self.lsize_bytes().to_string(), "at most 16 MiB");
        }
        if self.dvas().next().is_none() {
            return bad("dva[0]", "an empty address".into(), "an address with a size");
        }
        Ok(())
    }
}

impl std::fmt::Debug for BlkPtr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The format of `zdb`, shortened.
impl std::fmt::Display for BlkPtr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_embedded() {
            return write!(
                f,
                "EMBEDDED [L{} {}] et={} {} size={:x}L/{:x}P birth={}L",
                self.level(),
                self.object_type().name(),
                self.bits(40, 8),
                self.compression().map_or("?", Compression::name),
                self.lsize_bytes(),
                self.psize_bytes(),
                self.logical_birth(),
            );
        }
        if self.is_hole() {
            return write!(
                f,
                "HOLE [L{} {}] size={:x}L birth={}L",
                self.level(),
                self.object_type().name(),
                self.lsize_bytes(),
                self.logical_birth()
            );
        }
        for (i, d) in self.dvas().enumerate() {
            write!(f, "DVA[{i}]=<{}:{:x}:{:x}> ", d.vdev, d.offset_bytes, d.asize_bytes)?;
        }
        if self.is_encrypted() {
            write!(f, "salt={:x} iv={:x}:{:x} ", self.words[4], self.words[5], self.words[11] >> 32)?;
        }
        let copies = ["", "single", "double", "triple"][self.dvas().count()];
        let [a, b, c, d] = self.checksum();
        write!(
            f,
            "[L{} {}] {} {} {} {} {} {} {copies} size={:x}L/{:x}P birth={}L/{}P fill={} cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}",
            self.level(),
            self.object_type().name(),
            self.checksum_kind().map_or("?", Checksum::name),
            self.compression().map_or("?", Compression::name),
            match (self.is_encrypted(), self.is_authenticated(), self.has_indirect_mac()) {
                (true, ..) => "encrypted",
                (_, true, _) => "authenticated",
                (_, _, true) => "indirect-MAC",
                _ => "unencrypted",
            },
            if self.endian() == Endian::Little { "LE" } else { "BE" },
            if self.is_gang() { "gang" } else { "contiguous" },
            if self.is_dedup() { "dedup" } else { "unique" },
            self.lsize_bytes(),
            self.psize_bytes(),
            self.logical_birth(),
            self.physical_birth(),
            self.fill(),
        )
    }
}
