//! Checksums stored in the block that they cover: labels and uberblocks, gang headers, intent log
//! blocks.
//!
//! ```text
//! trailer (label, uberblock, gang header, old log)
//!     | ... data ............. | magic 8 | checksum 32 |  end
//! log header (zilog2)
//!     | pad 8 | next pointer 128 | used 8 | magic 8 | checksum 32 | records ....... |
//! ```
//!
//! While the checksum is computed, its field holds a verifier, four words that identify the block:
//!
//! | kind             | algorithm | verifier                                                      |
//! |------------------|-----------|---------------------------------------------------------------|
//! | label, uberblock | SHA-256   | byte offset on the device, 0, 0, 0                            |
//! | gang header      | SHA-256   | vdev, offset and birth txg of the gang pointer's first DVA, 0 |
//! | zilog            | fletcher2 | checksum words of the pointer to the log block                |
//! | zilog2           | fletcher4 | the same; covers `used` bytes, rounded up to 4 KiB            |
//!
//! Magic, verifier and checksum are in the writer's byte order, which the magic reveals.

use super::{Algorithm, Hasher, Order};

/// First word of a `zio_eck`, before the checksum.
pub const MAGIC: u64 = 0x0210_da7a_b10c_7a11;

/// Size of magic and checksum in bytes.
pub const ECK_BYTES: usize = 40;

/// Size of the header of a `zilog2` block in bytes; records follow.
pub const LOG_HEADER_BYTES: usize = 8 + 128 + 8 + ECK_BYTES;

/// The used length of a log block is rounded up to this for the checksum (`ZIL_MIN_BLKSZ`).
const LOG_STEP_BYTES: u64 = 4096;

/// Kinds of blocks that contain their own checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A part of a vdev label, or an uberblock.
    Label,
    /// The header of a gang block.
    GangHeader,
    /// A log block of an old pool.
    Zilog,
    /// An intent log block.
    Zilog2,
}

impl Kind {
    /// The kind for a number of the format (`enum zio_checksum`).
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            3 => Self::Label,
            4 => Self::GangHeader,
            5 => Self::Zilog,
            9 => Self::Zilog2,
            _ => return None,
        })
    }

    /// The checksum algorithm of this kind.
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Label | Self::GangHeader => Algorithm::Sha256,
            Self::Zilog => Algorithm::Fletcher2,
            Self::Zilog2 => Algorithm::Fletcher4,
        }
    }
}

/// Properties of a verified block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Byte order of the writer.
    pub order: Order,
    /// Number of bytes covered by the checksum, from the start of the block.
    pub covered_bytes: usize,
}

/// Why verification failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block is too small for a checksum.
    #[error("block has {found} bytes, expected at least {needed}")]
    Short {
        /// Size of the block.
        found: usize,
        needed: usize,
    },
    /// The magic of neither byte order: the block was never written, or holds something else.
    #[error("checksum magic is {found:016x}, expected {MAGIC:016x}")]
    Magic {
        /// Value found, read little-endian.
        found: u64,
    },
    /// The used length in the log header does not fit the block.
    #[error("used length is {used}, expected {LOG_HEADER_BYTES} to {length}")]
    Used {
        /// Value in the header.
        used: u64,
        /// Size of the block.
        length: usize,
    },
    /// The data is not what was written, or was written for another location.
    #[error("checksum is {found:016x?}, expected {expected:016x?}")]
    Mismatch {
        /// Checksum stored in the block.
        expected: [u64; 4],
        /// Checksum computed over the bytes and the verifier.
        found: [u64; 4],
        /// Byte order of the writer.
        order: Order,
    },
}

/// Positions of the fields in a block.
struct Layout {
    magic_at: usize,
    covered_bytes: usize,
    order: Order,
}

/// Verifies a block against the checksum it contains.
///
/// With `mac_inside` (blocks of encrypted datasets) only the first two words are compared; the
/// others hold a MAC.
pub fn verify(kind: Kind, bytes: &[u8], verifier: [u64; 4], mac_inside: bool) -> Result<Verified, Error> {
    let layout = Layout::find(kind, bytes)?;
    let order = layout.order;
    let checksum_at = layout.magic_at + 8;
    let stored: &[u8; 32] = bytes[checksum_at..].first_chunk().expect("the layout leaves room for it");
    let mut expected = order.words(stored);
    let mut found = sum(kind, bytes, &layout, verifier);
    if mac_inside {
        found = [found[0] ^ found[2], found[1] ^ found[3], 0, 0];
        expected[2..].fill(0);
    }
    if found == expected {
        Ok(Verified { order, covered_bytes: layout.covered_bytes })
    } else {
        Err(Error::Mismatch { expected, found, order })
    }
}

/// Writes magic and checksum, in byte order `order`, to an otherwise complete block. A log header's
/// used length must already be set.
///
/// With `mac_inside`, the last 16 bytes of the checksum field are the MAC and are preserved.
pub fn seal(kind: Kind, bytes: &mut [u8], verifier: [u64; 4], order: Order, mac_inside: bool) -> Result<(), Error> {
    let magic_at = magic_at(kind, bytes.len())?;
    bytes[magic_at..magic_at + 8].copy_from_slice(&order.bytes(MAGIC));
    let layout = Layout::find(kind, bytes)?;
    let mut words = sum(kind, bytes, &layout, verifier);
    let mut kept = 32;
    if mac_inside {
        words = [words[0] ^ words[2], words[1] ^ words[3], 0, 0];
        kept = 16;
    }
    bytes[magic_at + 8..magic_at + 8 + kept].copy_from_slice(&order.word_bytes(words)[..kept]);
    Ok(())
}

fn magic_at(kind: Kind, length: usize) -> Result<usize, Error> {
    let (needed, at) = match kind {
        Kind::Zilog2 => (LOG_HEADER_BYTES, LOG_HEADER_BYTES - ECK_BYTES),
        _ => (ECK_BYTES, length.saturating_sub(ECK_BYTES)),
    };
    if length < needed { Err(Error::Short { found: length, needed }) } else { Ok(at) }
}

impl Layout {
    fn find(kind: Kind, bytes: &[u8]) -> Result<Self, Error> {
        let magic_at = magic_at(kind, bytes.len())?;
        let word = |at: usize| *bytes[at..].first_chunk::<8>().expect("the layout leaves room for it");
        let order = match u64::from_le_bytes(word(magic_at)) {
            MAGIC => Order::Little,
            found if found.swap_bytes() == MAGIC => Order::Big,
            found => return Err(Error::Magic { found }),
        };
        let mut covered_bytes = bytes.len();
        if kind == Kind::Zilog2 {
            let used = order.u64(word(magic_at - 8));
            covered_bytes = used
                .checked_next_multiple_of(LOG_STEP_BYTES)
                .and_then(|rounded| usize::try_from(rounded).ok())
                .filter(|rounded| *rounded <= bytes.len() && used >= LOG_HEADER_BYTES as u64)
                .ok_or(Error::Used { used, length: bytes.len() })?;
        }
        Ok(Self { magic_at, covered_bytes, order })
    }
}

fn sum(kind: Kind, bytes: &[u8], layout: &Layout, verifier: [u64; 4]) -> [u64; 4] {
    let checksum_at = layout.magic_at + 8;
    let verifier = layout.order.word_bytes(verifier);
    if kind == Kind::Zilog {
        // fletcher2 takes pairs of words, so the data can be split at the checksum only if its
        // offset is a multiple of a pair. Copy instead.
        let mut copy = bytes[..layout.covered_bytes].to_vec();
        copy[checksum_at..checksum_at + 32].copy_from_slice(&verifier);
        return super::checksum(kind.algorithm(), &copy, layout.order, None);
    }
    let mut hasher = Hasher::new(kind.algorithm(), layout.order, None);
    hasher.update(&bytes[..checksum_at]);
    hasher.update(&verifier);
    hasher.update(&bytes[checksum_at + 32..layout.covered_bytes]);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 4] = [Kind::Label, Kind::GangHeader, Kind::Zilog, Kind::Zilog2];

    fn sealed(kind: Kind, order: Order, mac_inside: bool) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..8192_u32).map(|i| ((i * 31) >> 3) as u8).collect();
        bytes[136..144].copy_from_slice(&order.bytes(5000));
        seal(kind, &mut bytes, [1, 2, 3, 4], order, mac_inside).unwrap();
        bytes
    }

    #[test]
    fn sealed_blocks_verify_in_both_orders() {
        for kind in KINDS {
            for order in [Order::Little, Order::Big] {
                for mac_inside in [false, true] {
                    let bytes = sealed(kind, order, mac_inside);
                    let verified = verify(kind, &bytes, [1, 2, 3, 4], mac_inside).unwrap();
                    assert_eq!(verified, Verified { order, covered_bytes: 8192 });
                    let elsewhere = verify(kind, &bytes, [77, 2, 3, 4], mac_inside);
                    assert!(matches!(elsewhere, Err(Error::Mismatch { .. })), "{kind:?} accepted in another place");
                }
            }
        }
    }

    #[test]
    fn log_block_is_summed_up_to_its_used_length_only() {
        let mut bytes = vec![7; 12288];
        bytes[136..144].copy_from_slice(&Order::Little.bytes(4097));
        seal(Kind::Zilog2, &mut bytes, [9; 4], Order::Little, false).unwrap();
        bytes[8192] ^= 1;
        assert_eq!(verify(Kind::Zilog2, &bytes, [9; 4], false).unwrap().covered_bytes, 8192);
        bytes[8191] ^= 1;
        assert!(matches!(verify(Kind::Zilog2, &bytes, [9; 4], false), Err(Error::Mismatch { .. })));
        assert!(matches!(verify(Kind::Zilog2, &bytes[..8191], [9; 4], false), Err(Error::Used { used: 4097, .. })));
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_noticed(kind in 0..4_usize, bit in 0..8192_usize * 8, big: bool) {
            let order = if big { Order::Big } else { Order::Little };
            let mut bytes = sealed(KINDS[kind], order, false);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(verify(KINDS[kind], &bytes, [1, 2, 3, 4], false).is_err());
        }

        #[test]
        fn any_bytes_give_an_error_not_a_panic(kind in 0..4_usize, mut bytes in prop::collection::vec(any::<u8>(), 0..600), used: u64) {
            let _ = verify(KINDS[kind], &bytes, [0; 4], false);
            if bytes.len() >= LOG_HEADER_BYTES {
                bytes[136..144].copy_from_slice(&used.to_be_bytes());
                bytes[144..152].copy_from_slice(&MAGIC.to_be_bytes());
                let _ = verify(Kind::Zilog2, &bytes, [0; 4], true);
            }
        }
    }
}
