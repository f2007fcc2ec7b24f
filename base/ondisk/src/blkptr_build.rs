//! Builds block pointers: the shapes of [`blkptr`](crate::blkptr), field by field.
//!
//! Above: `block::zio`, which fills in addresses, births and checksum as they become known.
//!
//! Invariants:
//!   * a pointer built here is marked little-endian, on any host
//!   * setting a field leaves its neighbours in the same word unchanged

use crate::blkptr::{BlkPtr, Dva, EMBEDDED_PAYLOAD_BYTES};
use crate::endian::Endian;
use crate::types::{Checksum, Compression, ObjectType, Txg};

const PROP: usize = 6;
const PHYSICAL_BIRTH: usize = 9;
const LOGICAL_BIRTH: usize = 10;
const FILL: usize = 11;
const CHECKSUM: usize = 12;
const SALT: usize = 4;
const IV: usize = 5;
const MAC: usize = 14;

const EMBEDDED: u64 = 1 << 39;
const CRYPT: u64 = 1 << 61;
const DEDUP: u64 = 1 << 62;
const LITTLE: u64 = 1 << 63;

/// Properties of a stored block, without its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewBlock {
    /// Type of the object that the block belongs to.
    pub object_type: ObjectType,
    /// Levels of indirection between the block and the data.
    pub level: u8,
    /// Size of the contents in bytes: a multiple of 512 up to 32 MiB.
    pub lsize_bytes: u64,
    /// Size on disk before parity, in bytes: a multiple of 512 up to 32 MiB.
    pub psize_bytes: u64,
    pub compression: Compression,
    pub checksum: Checksum,
}

impl BlkPtr {
    /// A pointer to a stored block. Addresses, birth, fill and checksum are zero.
    ///
    /// # Panics
    /// If a size is not a multiple of 512 between 512 and 32 MiB.
    pub fn new_block(new: &NewBlock) -> Self {
        let mut bp = Self::HOLE;
        bp.put(PROP, 0, 16, sectors(new.lsize_bytes));
        bp.put(PROP, 16, 16, sectors(new.psize_bytes));
        bp.put(PROP, 32, 7, new.compression.to_raw().into());
        bp.put(PROP, 40, 8, new.checksum as u64);
        bp.put_kind(new.object_type, new.level);
        bp.flag(LITTLE, true);
        bp
    }

    /// A pointer to a block that became a hole in txg `birth`.
    ///
    /// # Panics
    /// If the size is not a multiple of 512 between 512 and 32 MiB.
    pub fn new_hole(object_type: ObjectType, level: u8, lsize_bytes: u64, birth: Txg) -> Self {
        let mut bp = Self::HOLE;
        bp.put(PROP, 0, 16, sectors(lsize_bytes));
        bp.put_kind(object_type, level);
        bp.set_birth(birth, birth);
        bp
    }

    /// A pointer that embeds the block: `payload` is the result of compressing `lsize_bytes` bytes
    /// with `compression`.
    ///
    /// # Panics
    /// If the payload is empty or longer than [`EMBEDDED_PAYLOAD_BYTES`], or `lsize_bytes` is not
    /// between 1 and 32 MiB.
    pub fn new_embedded(
        object_type: ObjectType,
        level: u8,
        compression: Compression,
        lsize_bytes: u64,
        payload: &[u8],
        birth: Txg,
    ) -> Self {
        assert!((1..=EMBEDDED_PAYLOAD_BYTES).contains(&payload.len()), "a payload of 1 to 112 bytes");
        assert!((1..=1 << 25).contains(&lsize_bytes), "a size that 25 bits hold");
        let mut words = [0; 16];
        // The words that hold the payload: all but the properties and the logical birth, which are
        // in their usual places.
        let places = (0..16).filter(|word| ![PROP, LOGICAL_BIRTH].contains(word));
        for (place, piece) in places.zip(payload.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            words[place] = u64::from_le_bytes(bytes);
        }
        let mut bp = Self::from_words(words);
        bp.put(PROP, 0, 25, lsize_bytes - 1);
        bp.put(PROP, 25, 7, payload.len() as u64 - 1);
        bp.put(PROP, 32, 7, compression.to_raw().into());
        bp.put_kind(object_type, level);
        bp.flag(EMBEDDED | LITTLE, true);
        bp.words_mut()[LOGICAL_BIRTH] = birth.0;
        bp
    }

    /// Sets the byte order of the block's writer.
    pub fn set_endian(&mut self, endian: Endian) {
        self.flag(LITTLE, endian == Endian::Little);
    }

    /// Sets the address of copy `index` (0 to 2).
    pub fn set_dva(&mut self, index: usize, dva: Dva) {
        (self.words_mut()[index * 2], self.words_mut()[index * 2 + 1]) = dva.to_words();
    }

    /// The six address words; in an encrypted block the last two are the salt and part of the IV.
    pub fn address_words(&self) -> [u64; 6] {
        let [a, b, c, d, e, f, ..] = *self.words();
        [a, b, c, d, e, f]
    }

    /// Sets the six address words.
    pub fn set_address_words(&mut self, words: [u64; 6]) {
        self.words_mut()[..6].copy_from_slice(&words);
    }

    /// Sets both birth txgs. Not for an embedded pointer, which has no physical birth.
    pub fn set_birth(&mut self, logical: Txg, physical: Txg) {
        debug_assert!(!self.is_embedded());
        let words = self.words_mut();
        words[LOGICAL_BIRTH] = logical.0;
        words[PHYSICAL_BIRTH] = if physical == logical { 0 } else { physical.0 };
    }

    /// Sets the logical birth: when the contents were created in this tree. The physical birth is
    /// kept.
    pub fn set_logical_birth(&mut self, logical: Txg) {
        if self.is_embedded() {
            self.words_mut()[LOGICAL_BIRTH] = logical.0;
        } else {
            self.set_birth(logical, self.physical_birth());
        }
    }

    /// The same pointer without the D bit.
    #[must_use]
    pub fn not_dedup(&self) -> Self {
        let mut alone = *self;
        alone.flag(DEDUP, false);
        alone
    }

    /// Sets the number of non-hole blocks, or objects, at and below. No effect on an embedded
    /// pointer, whose fill is always 1.
    pub fn set_fill(&mut self, fill: u64) {
        if self.is_encrypted() {
            self.put(FILL, 0, 32, fill);
        } else if !self.is_embedded() {
            self.words_mut()[FILL] = fill;
        }
    }

    /// Sets all four words of the checksum.
    pub fn set_checksum(&mut self, checksum: [u64; 4]) {
        self.words_mut()[CHECKSUM..].copy_from_slice(&checksum);
    }

    /// Sets the first half of the checksum, which leaves room for a MAC.
    pub fn set_half_checksum(&mut self, checksum: [u64; 2]) {
        self.words_mut()[CHECKSUM..MAC].copy_from_slice(&checksum);
    }

    /// Sets the X bit: encrypted, authenticated, or holding a checksum of MACs.
    pub fn set_uses_crypt(&mut self, on: bool) {
        self.flag(CRYPT, on);
    }

    /// Sets the D bit: the dedup table counts the references.
    pub fn set_dedup(&mut self, on: bool) {
        self.flag(DEDUP, on);
    }

    /// Sets the salt and IV of an encrypted block, which take the place of the third address and
    /// the upper half of the fill count.
    pub fn set_crypt_params(&mut self, salt: &[u8; 8], iv: &[u8; 12]) {
        let endian = self.endian();
        let words = self.words_mut();
        words[SALT] = endian.u64(salt);
        words[IV] = endian.u64(iv);
        self.put(FILL, 32, 32, endian.u32(&iv[8..]).into());
    }

    /// Sets the MAC of an encrypted or authenticated block, or of the MACs below it.
    pub fn set_crypt_mac(&mut self, mac: &[u8; 16]) {
        let endian = self.endian();
        let words = self.words_mut();
        words[MAC] = endian.u64(mac);
        words[MAC + 1] = endian.u64(&mac[8..]);
    }

    fn put_kind(&mut self, object_type: ObjectType, level: u8) {
        self.put(PROP, 48, 8, object_type.0.into());
        self.put(PROP, 56, 5, level.into());
    }

    fn put(&mut self, word: usize, low: u32, count: u32, value: u64) {
        let mask = (1 << count) - 1;
        assert!(value <= mask, "{value:#x} fits {count} bits");
        let word = &mut self.words_mut()[word];
        *word = *word & !(mask << low) | value << low;
    }

    fn flag(&mut self, bits: u64, on: bool) {
        let word = &mut self.words_mut()[PROP];
        *word = if on { *word | bits } else { *word & !bits };
    }
}

/// Encodes a size as sectors - 1.
fn sectors(bytes: u64) -> u64 {
    assert!(bytes > 0 && bytes.is_multiple_of(512), "{bytes} is a whole number of sectors");
    (bytes >> 9) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endian::Endian;

    /// The pointer in the documentation of `blkptr`: to a MOS, with three copies.
    #[test]
    fn a_pointer_of_openzfs_is_built_again() {
        let uberblock = crate::uberblock::Uberblock::parse(crate::testing::golden!("uberblock_le.bin")).unwrap();
        let real = uberblock.root;
        let mut built = BlkPtr::new_block(&NewBlock {
            object_type: real.object_type(),
            level: real.level(),
            lsize_bytes: real.lsize_bytes(),
            psize_bytes: real.psize_bytes(),
            compression: real.compression().unwrap(),
            checksum: real.checksum_kind().unwrap(),
        });
        for index in 0..3 {
            built.set_dva(index, real.dva(index));
        }
        built.set_birth(real.logical_birth(), real.physical_birth());
        built.set_fill(real.fill());
        built.set_checksum(real.checksum());
        assert_eq!(built.to_bytes(Endian::Little), real.to_bytes(Endian::Little));
        built.check().unwrap();
    }

    #[test]
    fn an_embedded_payload_of_any_length_comes_out_again() {
        for len in 1..=EMBEDDED_PAYLOAD_BYTES {
            let payload: Vec<u8> = (0..len).map(|i| i as u8 + 1).collect();
            let kind = ObjectType::PLAIN_FILE_CONTENTS;
            let bp = BlkPtr::new_embedded(kind, 0, Compression::Lz4, 131_072, &payload, Txg(7));
            bp.check().unwrap();
            assert_eq!(bp.embedded_payload().unwrap(), payload);
            assert_eq!((bp.lsize_bytes(), bp.psize_bytes(), bp.logical_birth()), (131_072, len as u64, Txg(7)));
            assert_eq!((bp.object_type(), bp.level(), bp.fill(), bp.endian()), (kind, 0, 1, Endian::Little));
        }
    }

    #[test]
    fn a_hole_keeps_its_size_type_level_and_birth() {
        let bp = BlkPtr::new_hole(ObjectType::DNODE, 2, 16384, Txg(9));
        assert!(bp.is_hole());
        assert_eq!((bp.lsize_bytes(), bp.object_type(), bp.level()), (16384, ObjectType::DNODE, 2));
        assert_eq!((bp.logical_birth(), bp.words()[PHYSICAL_BIRTH]), (Txg(9), 0));
        bp.check().unwrap();
    }

    #[test]
    fn salt_iv_and_mac_share_no_words_with_other_fields() {
        let mut bp = BlkPtr::new_block(&NewBlock {
            object_type: ObjectType::PLAIN_FILE_CONTENTS,
            level: 0,
            lsize_bytes: 512,
            psize_bytes: 512,
            compression: Compression::Off,
            checksum: Checksum::Fletcher4,
        });
        bp.set_uses_crypt(true);
        let (salt, iv, mac) = ([1, 2, 3, 4, 5, 6, 7, 8], *b"abcdefghijkl", *b"0123456789abcdef");
        bp.set_crypt_mac(&mac);
        bp.set_crypt_params(&salt, &iv);
        bp.set_half_checksum([11, 12]);
        bp.set_fill(1);
        assert_eq!((bp.crypt_salt(), bp.crypt_iv(), bp.crypt_mac()), (salt, iv, mac));
        assert_eq!((bp.fill(), bp.checksum()[..2].to_vec()), (1, vec![11, 12]));
        assert!(bp.is_encrypted() && bp.dva(0).is_empty());
    }
}
