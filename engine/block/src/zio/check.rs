//! Checksums, decompression and support of a block pointer's algorithms: where `ondisk`'s names meet `transform`'s.

use crate::store::Store;
use crate::{Error, Result};
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType};
use transform::checksum::embedded::{self, Kind};
use transform::checksum::{Algorithm, Order, Salted, checksum, truncate_for_mac};

/// The pool's salt, prepared.
pub type Salt = Salted;

fn order(endian: Endian) -> Order {
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
            .is_some_and(|k| embedded::verify(k, bytes, bp.checksum(), bp.uses_crypt()).is_ok());
    }
    // `off` and `noparity` check nothing.
    let Some(algorithm) = Algorithm::from_number(kind as u8) else { return true };
    let (found, expected) = (checksum(algorithm, bytes, order(bp.endian()), salt), bp.checksum());
    // Where a MAC takes half of the words; an object set holds its MACs itself.
    if bp.uses_crypt() && bp.object_type() != ObjectType::OBJSET {
        return truncate_for_mac(algorithm, found) == expected[..2];
    }
    found == expected
}

/// Checks a block of a gang header's or label's form; its byte order if it passes.
pub(crate) fn embedded_trailer(kind: Kind, bytes: &[u8], verifier: [u64; 4]) -> Option<Endian> {
    match embedded::verify(kind, bytes, verifier, false).ok()?.order {
        Order::Little => Some(Endian::Little),
        Order::Big => Some(Endian::Big),
    }
}

/// The contents of a compressed block.
pub(super) fn decompress(compression: Compression, stored: &[u8], lsize_bytes: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; lsize_bytes];
    let algorithm = transform::compress::Algorithm::from_number(compression.to_raw())
        .ok_or_else(|| Error::unsupported("", format!("compression {}", compression.name())))?;
    transform::compress::decompress(algorithm, stored, &mut out)
        .map_err(|e| Error::corrupt("", format!("{} block does not unpack: {e}", compression.name())))?;
    Ok(out)
}
