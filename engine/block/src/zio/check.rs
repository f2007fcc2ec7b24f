//! Checksums, decompression and support of a block pointer's algorithms: where `ondisk`'s names meet `transform`'s.

use crate::store::Store;
use crate::{Error, Result};
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType};
use transform::checksum::embedded::{self, Kind};
use transform::checksum::{Algorithm, Order, Salted, checksum, truncate_for_mac};

/// The pool's salt, prepared.
pub type Salt = Salted;

/// The order in which a block's checksum takes its words.
pub(super) fn order(endian: Endian) -> Order {
    match endian {
        Endian::Little => Order::Little,
        Endian::Big => Order::Big,
    }
}

/// Refuses what cannot be checked: a salted checksum in a pool whose salt is not known yet.
pub(super) fn supported(store: &Store, bp: &BlkPtr) -> Result<()> {
    let kind = bp.checksum_kind()?;
    if matches!(kind, Checksum::Skein | Checksum::EdonR | Checksum::Blake3) && store.salt().is_none() {
        return Err(Error::corrupt("", format!("the pool has no salt for the {} checksum", kind.name())));
    }
    Ok(())
}

/// Whether the stored bytes are those that the pointer means.
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

/// Whether only half of a checksum is one, and a MAC takes the other half's place. That holds for a gang header of an
/// encrypted block too, although it has no MAC; and not for an object set, which holds its MACs itself.
pub(crate) fn is_cut(bp: &BlkPtr) -> bool {
    bp.uses_crypt() && bp.object_type() != ObjectType::OBJSET
}

/// Checks a block of a gang header's or label's form; its byte order if it passes.
///
/// `cut` as for [`is_cut`] of the pointer.
pub(crate) fn embedded_trailer(kind: Kind, bytes: &[u8], verifier: [u64; 4], cut: bool) -> Option<Endian> {
    match embedded::verify(kind, bytes, verifier, cut).ok()?.order {
        Order::Little => Some(Endian::Little),
        Order::Big => Some(Endian::Big),
    }
}

/// The contents of a compressed block, or of a table's entry that is packed like one.
pub fn decompress(compression: Compression, stored: &[u8], lsize_bytes: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; lsize_bytes];
    decompress_into(compression, stored, &mut out)?;
    Ok(out)
}

/// As [`decompress`], into `out`, which has the size of the contents.
pub(super) fn decompress_into(compression: Compression, stored: &[u8], out: &mut [u8]) -> Result<()> {
    let algorithm = transform::compress::Algorithm::from_number(compression.to_raw())
        .ok_or_else(|| Error::unsupported("", format!("compression {}", compression.name())))?;
    transform::compress::decompress(algorithm, stored, out)
        .map_err(|e| Error::corrupt("", format!("{} block does not unpack: {e}", compression.name())))
}

/// The value of a table's entry made smaller by an algorithm without levels; `None`: it does not become smaller.
pub fn compress(compression: Compression, value: &[u8]) -> Option<Vec<u8>> {
    let algorithm = transform::compress::Algorithm::from_number(compression.to_raw())?;
    let level = transform::compress::zstd::Level::DEFAULT;
    transform::compress::compress(algorithm, level, value, value.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by OpenZFS 2.3.2 with ganging forced; a header's checksum was once compared whole here and never matched.
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
