//! The part of a block pointer that a MAC covers: the MAC of the block it points to, and how to
//! read that block.
//!
//! | offset | bytes | field | meaning                                                            |
//! |--------|-------|-------|--------------------------------------------------------------------|
//! | 0x00   | 8     | prop  | blk_prop, little-endian, without what differs after a raw send     |
//! | 0x08   | 16    | mac   | MAC words of the pointer                                           |
//! | 0x18   | 8     | pad   | zero; missing with key version 0                                   |
//!
//! ZFS name: blkptr_auth_buf_t.

use ondisk::{BlkPtr, Endian, ObjectType, blkptr};
use transform::crypt::{AuthenticationFailed, equal, sha512_of};

use errors::{Error, Result};

const PSIZE: u64 = 0xffff << 16;
const COMPRESS: u64 = 0x7f << 32;
const CHECKSUM: u64 = 0xff << 40;
const DEDUP: u64 = 1 << 62;
const BYTEORDER: u64 = 1 << 63;

/// The authenticated part of a pointer.
pub(super) struct AuthBuf {
    bytes: [u8; 32],
    len: usize,
}

impl AsRef<[u8]> for AuthBuf {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The error for contents that do not match their MAC.
pub(super) fn mismatch(e: AuthenticationFailed) -> Error {
    Error::corrupt("", format!("{e}: the block was altered, or written with another key"))
}

/// The authenticated part of `bp` for a key object of this version.
pub(super) fn auth_buf(bp: &BlkPtr, version: u64) -> AuthBuf {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&portable_prop(bp, version).to_le_bytes());
    if bp.object_type() != ObjectType::OBJSET {
        bytes[8..24].copy_from_slice(&bp.crypt_mac());
    }
    AuthBuf { bytes, len: if version == 0 { 24 } else { 32 } }
}

fn portable_prop(bp: &BlkPtr, version: u64) -> u64 {
    let prop = bp.words()[6];
    if version == 0 {
        return prop & !(DEDUP | CHECKSUM | PSIZE);
    }
    // The size and type of a hole are stored only with the feature hole_birth.
    if bp.is_hole() {
        return 0;
    }
    // Indirect blocks are not sent; the receiver rebuilds them.
    let above_data = if bp.level() != 0 { BYTEORDER | COMPRESS | PSIZE } else { 0 };
    prop & !(DEDUP | CHECKSUM | above_data)
}

/// Verifies the decompressed contents of an indirect block against the MAC words of its pointer.
/// Needs no key.
///
/// Without the key, the version of the key object is unknown too, so both versions are tried.
pub fn verify_indirect(bp: &BlkPtr, contents: &[u8]) -> Result<()> {
    let expected = bp.crypt_mac();
    let matches = |version| equal(&digest(contents, bp.endian(), version), &expected);
    if matches(1) || matches(0) {
        Ok(())
    } else {
        Err(Error::corrupt("", "the MACs in an indirect block do not sum up to that in its pointer"))
    }
}

pub(super) fn digest(contents: &[u8], endian: Endian, version: u64) -> [u8; 16] {
    let pointers = contents.chunks_exact(blkptr::SIZE_BYTES);
    sha512_of(pointers.filter_map(|p| BlkPtr::parse(p, endian).ok()).map(|bp| auth_buf(&bp, version)))
}
