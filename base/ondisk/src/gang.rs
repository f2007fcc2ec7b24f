//! Gang block header: the pieces of a block for which no single free range was large enough.
//!
//! A pointer with the gang bit addresses a header instead of data. The pieces, which may be gang
//! blocks themselves, are concatenated in the order of the header's pointers.
//!
//! | offset    | bytes | field     | since | meaning                             |
//! |-----------|-------|-----------|-------|-------------------------------------|
//! | 0x00      | 128×n | zg_blkptr | v1    | pieces; holes after the last        |
//! |           |       | zg_filler | v1    | zero                                |
//! | size - 40 | 40    | zg_tail   | v1    | [`Trailer`]: checksum of the header |
//!
//! The size is 512 bytes (3 pointers) or, with dynamic_gang_header, the smallest allocation of the
//! vdevs that hold its copies. A 512-byte header may still be found there, so a reader tries the
//! large size first, then the small one. The checksum is sha256 over the header, with the checksum
//! words replaced by [`verifier`].
//!
//! First pointer of a header (two copies, themselves gang blocks), and the trailer:
//!
//! ```text
//! 00000000  57 00 00 00 00 00 00 00  b0 01 00 00 00 00 00 80  |W...............|
//! 00000010  01 00 00 00 00 00 00 00  ab 80 00 00 00 00 00 80  |................|
//! ...
//! 000001d0  00 00 00 00 00 00 00 00  11 7a 0c b1 7a da 10 02  |.........z..z...|
//! 000001e0  71 23 3d 11 1c 19 1d 07  36 48 f0 d1 9f 65 61 0b  |q#=.....6H...ea.|
//! 000001f0  c0 47 c2 aa a4 77 00 24  b2 82 6e 37 68 5f d0 ce  |.G...w.$..n7h_..|
//! ```
//!
//! Source: include/sys/zio.h, module/zfs/zio.c, module/zfs/zio_checksum.c.

use crate::blkptr::{self, BlkPtr};
use crate::error::{Error, Result};
use crate::label::Trailer;

/// Size in bytes of a header without dynamic_gang_header.
pub const SIZE_BYTES: usize = 512;

/// A parsed gang header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Pointers to the pieces in order, including the holes after the last one.
    pub pieces: Vec<BlkPtr>,
    /// Checksum of the header.
    pub trailer: Trailer,
}

/// Number of pointers that a header of `size_bytes` holds.
pub fn capacity(size_bytes: usize) -> usize {
    size_bytes.saturating_sub(Trailer::SIZE_BYTES) / blkptr::SIZE_BYTES
}

/// The four words that replace the checksum while it is computed: vdev, offset and physical birth
/// of the first address in the parent pointer.
pub fn verifier(parent: &BlkPtr) -> [u64; 4] {
    let dva = parent.dva(0);
    [dva.vdev.into(), dva.offset_bytes, parent.physical_birth().0, 0]
}

impl Header {
    /// Parses a header that fills `bytes`; its trailer determines the byte order. The caller has
    /// verified the checksum.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < SIZE_BYTES
            || bytes.len() > blkptr::MAX_BLOCK_BYTES as usize
            || !bytes.len().is_multiple_of(SIZE_BYTES)
        {
            let found = format!("{} bytes", bytes.len());
            return Err(Error::corrupt("zio_gbh_phys", "length", found, "a multiple of 512 bytes up to 16 MiB"));
        }
        let trailer = Trailer::parse(bytes)?;
        let pieces = bytes
            .chunks_exact(blkptr::SIZE_BYTES)
            .take(capacity(bytes.len()))
            .map(|b| BlkPtr::parse(b, trailer.endian))
            .collect::<Result<_>>()?;
        Ok(Self { pieces, trailer })
    }

    /// The pieces, without holes.
    pub fn used(&self) -> impl Iterator<Item = &BlkPtr> {
        self.pieces.iter().filter(|bp| !bp.is_hole())
    }

    /// The size is the smallest multiple of 512 bytes that holds the pieces; the gap in front of
    /// the trailer is zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = (self.pieces.len() * blkptr::SIZE_BYTES + Trailer::SIZE_BYTES).next_multiple_of(SIZE_BYTES);
        let mut out: Vec<u8> = self.pieces.iter().flat_map(|bp| bp.to_bytes(self.trailer.endian)).collect();
        out.resize(size - Trailer::SIZE_BYTES, 0);
        out.extend_from_slice(&self.trailer.to_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    #[test]
    fn header_of_a_gang_of_gangs_writes_back() {
        let bytes = golden!("gang_header.bin");
        let header = Header::parse(bytes).unwrap();
        assert_eq!(header.pieces.len(), 3);
        assert!(header.used().all(|bp| bp.is_gang()));
        assert_eq!(header.used().map(|bp| bp.lsize_bytes()).sum::<u64>(), 131072);
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn larger_headers_hold_more() {
        assert_eq!([512, 1024, 4096].map(capacity), [3, 7, 31]);
        let mut header = Header::parse(golden!("gang_header.bin")).unwrap();
        header.pieces.resize(31, BlkPtr::HOLE);
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(Header::parse(&bytes).unwrap(), header);
        assert!(Header::parse(&bytes[..1000]).is_err());
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(golden!("gang_header.bin"), |bytes| {
            if let Ok(header) = Header::parse(bytes) {
                assert_eq!(header.to_bytes().len(), bytes.len());
                let _ = header.used().map(verifier).count();
            }
        });
    }
}
