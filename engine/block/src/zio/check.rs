//! Checksums, decompression, and checks that a block pointer's algorithms are supported: maps
//! `ondisk`'s names to `transform`'s.

use errors::{Error, Result};
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType};
use transform::checksum::embedded::{self, Kind};
use transform::checksum::{Algorithm, Order, Salted, checksum, truncate_for_mac};

/// The pool's checksum salt, expanded for use.
pub type Salt = Salted;

/// The word order of a block's checksum.
pub(super) fn order(endian: Endian) -> Order {
    match endian {
        Endian::Little => Order::Little,
        Endian::Big => Order::Big,
    }
}

/// Fails for a block that cannot be verified: one with a salted checksum in a pool whose salt is
/// not known. `has_salt` is called only for such a checksum.
pub(super) fn supported(bp: &BlkPtr, has_salt: impl FnOnce() -> bool) -> Result<()> {
    let kind = bp.checksum_kind()?;
    if matches!(kind, Checksum::Skein | Checksum::EdonR | Checksum::Blake3) && !has_salt() {
        return Err(Error::corrupt("", format!("the pool has no salt for the {} checksum", kind.name())));
    }
    Ok(())
}

/// Whether the stored bytes match the pointer's checksum.
pub(super) fn matches(bp: &BlkPtr, bytes: &[u8], salt: Option<&Salt>) -> bool {
    let Ok(kind) = bp.checksum_kind() else { return false };
    if kind.is_embedded() {
        return embedded::Kind::from_number(kind as u8)
            .is_some_and(|k| embedded::verify(k, bytes, bp.checksum(), is_cut(bp)).is_ok());
    }
    // `off` and `noparity` check nothing.
    let Some(algorithm) = Algorithm::from_number(kind as u8) else { return true };
    let (found, expected) = (checksum(algorithm, bytes, order(bp.endian()), salt), bp.checksum());
    if is_cut(bp) {
        return truncate_for_mac(algorithm, found) == expected[..2];
    }
    found == expected
}

/// Whether a MAC takes up half of the checksum field, so that only the other half is a checksum.
/// This includes gang headers of encrypted blocks, although they have no MAC. It excludes object
/// sets, which hold their MACs themselves.
pub(crate) fn is_cut(bp: &BlkPtr) -> bool {
    bp.uses_crypt() && bp.object_type() != ObjectType::OBJSET
}

/// Verifies a block with an embedded checksum, such as a gang header or a part of a label. Returns
/// its byte order if it passes.
///
/// `cut` is [`is_cut`] of the pointer.
pub(crate) fn embedded_trailer(kind: Kind, bytes: &[u8], verifier: [u64; 4], cut: bool) -> Option<Endian> {
    match embedded::verify(kind, bytes, verifier, cut).ok()?.order {
        Order::Little => Some(Endian::Little),
        Order::Big => Some(Endian::Big),
    }
}

/// Decompresses a block, or an entry of a table that is compressed in the same way.
pub fn decompress(compression: Compression, stored: &[u8], lsize_bytes: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; lsize_bytes];
    decompress_into(compression, stored, &mut out)?;
    Ok(out)
}

/// As [`decompress`], into `out`, whose length must be that of the contents.
pub(super) fn decompress_into(compression: Compression, stored: &[u8], out: &mut [u8]) -> Result<()> {
    let algorithm = transform::compress::Algorithm::from_number(compression.to_raw())
        .ok_or_else(|| Error::unsupported("", format!("compression {}", compression.name())))?;
    transform::compress::decompress(algorithm, stored, out)
        .map_err(|e| Error::corrupt("", format!("{} block does not unpack: {e}", compression.name())))
}

/// Compresses an entry of a table with an algorithm that has no levels. Returns `None` if it does
/// not become smaller.
pub fn compress(compression: Compression, value: &[u8]) -> Option<Vec<u8>> {
    let algorithm = transform::compress::Algorithm::from_number(compression.to_raw())?;
    let level = transform::compress::zstd::Level::DEFAULT;
    transform::compress::compress(algorithm, level, value, value.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by OpenZFS 2.3.2 with forced ganging. Weir once compared the whole checksum of such
    /// a header, which never matched.
    #[test]
    fn a_gang_header_of_an_encrypted_block_has_half_a_checksum() {
        let golden = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/crypt_gang_header.bin"));
        let (pointer, header) = golden.split_at(ondisk::blkptr::SIZE_BYTES);
        let bp = BlkPtr::parse(pointer, Endian::Little).unwrap();
        let verifier = [u64::from(bp.dva(0).vdev), bp.dva(0).offset_bytes, bp.physical_birth().0, 0];
        assert!(bp.is_gang() && is_cut(&bp));
        let order = |cut| embedded_trailer(Kind::GangHeader, header, verifier, cut);
        assert_eq!((order(true), order(false)), (Some(Endian::Little), None));
    }
}
