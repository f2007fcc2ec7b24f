//! Gang blocks: a block that does not fit into contiguous free space is stored as a header with
//! pointers to up to three smaller blocks (more, with larger headers), which may be gang blocks
//! themselves.
//!
//! ZFS name: zio_gang. Source: include/sys/zio.h (zio_gbh_phys_t).
//!
//! Invariants:
//!   * a header is trusted only after its embedded checksum, which includes the pointer's address
//!     and birth, was verified
//!   * the sizes of the members never add up to more than the block's size

use super::check;
use crate::store::Store;
use crate::vdev::{BlockReport, Failure};
use ondisk::{BlkPtr, Dva, Endian};
use std::cell::Cell;
use transform::checksum::embedded::Kind;

/// Size of a header, in bytes, in every pool without dynamic_gang_header.
const HEADER_BYTES: u64 = 512;
/// Size of the checksum trailer at the header's end, in bytes.
pub(super) const TRAILER_BYTES: usize = 40;

/// Returns the header's bytes and byte order. Tries a larger header if the small one fails the
/// checksum.
pub(super) fn read_header(
    store: &Store,
    bp: &BlkPtr,
    dva: &Dva,
    met_bad: &Cell<bool>,
) -> Result<(Vec<u8>, Endian), Failure> {
    let identity = bp.dva(0);
    let verifier = [u64::from(identity.vdev), identity.offset_bytes, bp.physical_birth().0, 0];
    let mut endian = bp.endian();
    let sector = store.tree().tops.get(dva.vdev as usize).map_or(HEADER_BYTES, |v| 1 << v.ashift.min(16));
    let mut read = |size| {
        // A larger header fails the first try, which is not a device error.
        let bad = Cell::new(false);
        let mut right =
            |bytes: &[u8]| match check::embedded_trailer(Kind::GangHeader, bytes, verifier, check::is_cut(bp)) {
                Some(e) => {
                    endian = e;
                    true
                }
                None => false,
            };
        let header =
            store.tree().read_noting(dva.vdev, dva.offset_bytes, size, bp.physical_birth().0, &mut right, &bad)?;
        met_bad.set(met_bad.get() || bad.get());
        Ok(header)
    };
    let header = match read(HEADER_BYTES) {
        Err(_) if sector > HEADER_BYTES => read(sector)?,
        other => other?,
    };
    Ok((header, endian))
}

/// Verifies every copy of the header behind `dva`, and returns its bytes.
pub(super) fn verify_header(
    store: &Store,
    bp: &BlkPtr,
    dva: &Dva,
    copy: usize,
    report: &mut BlockReport,
) -> Result<Vec<u8>, Failure> {
    let identity = bp.dva(0);
    let verifier = [u64::from(identity.vdev), identity.offset_bytes, bp.physical_birth().0, 0];
    let known = read_header(store, bp, dva, &Cell::new(false));
    let size = known.as_ref().map_or(HEADER_BYTES, |(header, _)| header.len() as u64);
    let mut passes =
        |bytes: &[u8]| check::embedded_trailer(Kind::GangHeader, bytes, verifier, check::is_cut(bp)).is_some();
    let verified = store.tree().verify(copy, dva, size, bp.physical_birth().0, &mut passes, report);
    match (known, verified) {
        (Ok((header, _)), Ok(())) => Ok(header),
        (Err(e), _) | (_, Err(e)) => Err(e),
    }
}

/// Returns all members of the gang block, for walks over allocated space. The header itself
/// occupies one sector at `dva`.
pub fn members(store: &Store, bp: &BlkPtr, dva: &Dva) -> Result<Vec<BlkPtr>, Failure> {
    let (header, endian) = read_header(store, bp, dva, &Cell::new(false))?;
    let mut found: Vec<BlkPtr> = Vec::new();
    let mut total = 0;
    for raw in header[..header.len() - TRAILER_BYTES].chunks_exact(ondisk::blkptr::SIZE_BYTES) {
        let member = BlkPtr::parse(raw, endian).expect("the chunk is as long as a block pointer");
        if member.is_hole() {
            continue;
        }
        // Without this, a header that points to itself would be a tree without end.
        total += member.psize_bytes();
        if member.check().is_err() || total > bp.psize_bytes() {
            return Err(Failure { other: vec!["gang members do not fit the block".into()], ..Failure::default() });
        }
        found.push(member);
    }
    Ok(found)
}
