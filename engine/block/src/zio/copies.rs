//! Reads the stored bytes of a block from its copies. A copy is a place on a top-level vdev, or a
//! gang block, which is assembled from its members.
//!
//! Below: `vdev`, [`gang`]. Above: reading, repairing and verifying a block.
//!
//! Invariants:
//!   * bytes are returned only after the pointer's checksum has accepted them
//!   * the sizes of the members of a gang block never add up to more than the block's size

use super::{check, gang};
use crate::store::Store;
use crate::vdev::Failure;
use ondisk::{BlkPtr, Dva};
use std::cell::Cell;

/// Limit for headers within headers: a 16 MiB block of 512-byte members needs 10.
const DEPTH_MAX: u32 = 16;

/// The bytes as stored, from the first copy whose checksum is right.
pub(super) fn read(store: &Store, bp: &BlkPtr, depth: u32, met_bad: &Cell<bool>) -> Result<Vec<u8>, Failure> {
    let salt = store.salt();
    let mut failure = Failure::default();
    for (number, dva) in bp.dvas().enumerate() {
        let injected = if depth == 0 { store.injection().copy_failure(bp, number) } else { None };
        let copy = if let Some(injected) = injected {
            Err(injected)
        } else if dva.is_gang {
            read_gang(store, bp, &dva, depth, met_bad).and_then(|bytes| {
                match check::matches(bp, &bytes, salt.as_deref()) {
                    true => Ok(bytes),
                    false => Err(Failure {
                        other: vec!["gang block: checksum mismatch of the whole".into()],
                        ..Failure::default()
                    }),
                }
            })
        } else {
            let mut right = |bytes: &[u8]| check::matches(bp, bytes, salt.as_deref());
            let birth = bp.physical_birth().0;
            store.tree().read_noting(dva.vdev, dva.offset_bytes, bp.psize_bytes(), birth, &mut right, met_bad)
        };
        match copy {
            Ok(bytes) => {
                // An earlier copy failed, and not only because of missing devices.
                let is_bad = !(failure.wrong.is_empty() && failure.io.is_empty() && failure.other.is_empty());
                met_bad.set(met_bad.get() || is_bad);
                return Ok(bytes);
            }
            Err(more) => failure.merge(more),
        }
    }
    Err(failure)
}

/// Assembles the stored bytes of the gang block at copy `dva` of `bp`. The caller verifies the
/// whole.
pub(super) fn read_gang(
    store: &Store,
    bp: &BlkPtr,
    dva: &Dva,
    depth: u32,
    met_bad: &Cell<bool>,
) -> Result<Vec<u8>, Failure> {
    if depth >= DEPTH_MAX {
        return Err(Failure { other: vec!["gang headers nested too deep".into()], ..Failure::default() });
    }
    let (header, endian) = gang::read_header(store, bp, dva, met_bad)?;
    let size = bp.psize_bytes() as usize;
    let mut whole = Vec::with_capacity(size);
    for raw in header[..header.len() - gang::TRAILER_BYTES].chunks_exact(ondisk::blkptr::SIZE_BYTES) {
        let member = BlkPtr::parse(raw, endian).expect("the chunk is as long as a block pointer");
        if member.is_hole() {
            continue;
        }
        if let Err(e) = member.check() {
            return Err(Failure { other: vec![format!("gang member: {e}")], ..Failure::default() });
        }
        if whole.len() as u64 + member.psize_bytes() > size as u64 {
            return Err(Failure { other: vec!["gang members are larger than the block".into()], ..Failure::default() });
        }
        whole.extend(read(store, &member, depth + 1, met_bad)?);
    }
    if whole.len() != size {
        let what = format!("gang members hold {} bytes, expected {size}", whole.len());
        return Err(Failure { other: vec![what], ..Failure::default() });
    }
    Ok(whole)
}
