//! Frees the space of a block.

use super::gang;
use crate::store::{Store, WriteStore};
use errors::{Error, Result};
use ondisk::{BlkPtr, Dva};

const GANG_DEPTH_MAX: u32 = 16;

/// Frees all addresses, those of gang members included. All headers are read before the first
/// address is freed.
pub(crate) fn free(store: &WriteStore, txg: u64, bp: &BlkPtr) -> Result<()> {
    free_as(store, txg, bp, u64::MAX)
}

/// As [`free`], but treats the block as committed by an earlier txg.
pub(crate) fn free_born_before(store: &WriteStore, txg: u64, bp: &BlkPtr) -> Result<()> {
    free_as(store, txg, bp, txg.saturating_sub(1))
}

fn free_as(store: &WriteStore, txg: u64, bp: &BlkPtr, birth_max: u64) -> Result<()> {
    if bp.is_hole() || bp.is_embedded() {
        return Ok(());
    }
    debug_assert!(!bp.is_dedup(), "its reference count was checked before");
    let mut found = Vec::new();
    collect(store, bp, 0, &mut found)?;
    let allocator = store.allocator();
    for (birth, dva) in found {
        if birth >= txg {
            // If its write failed, it must not be repeated: the space may be allocated again at
            // once.
            store.flight().supersede(&dva);
        }
        allocator.free(txg, birth.min(birth_max), &dva);
    }
    Ok(())
}

/// Collects every address below the pointer, with its birth and its own size.
fn collect(store: &Store, bp: &BlkPtr, depth: u32, found: &mut Vec<(u64, Dva)>) -> Result<()> {
    let birth = bp.physical_birth().0;
    let mut members = None;
    for dva in bp.dvas() {
        if !dva.is_gang {
            found.push((birth, dva));
            continue;
        }
        if depth >= GANG_DEPTH_MAX {
            return Err(Error::corrupt("", "gang headers nested too deep"));
        }
        // The pointer's asize includes the members; the header itself takes what 512 bytes take.
        let header = store.tree().asize_bytes(dva.vdev, ondisk::gang::SIZE_BYTES as u64, birth);
        let Some(asize_bytes) = header else {
            return Err(Error::unsupported("", "freeing a gang header on a removed device"));
        };
        found.push((birth, Dva { asize_bytes, ..dva }));
        // All headers are the same: any readable one lists the members.
        if !matches!(members, Some(Ok(_))) {
            members = Some(gang::members(store, bp, &dva));
        }
    }
    if let Some(members) = members {
        for member in members.map_err(|f| f.into_error(String::new()))? {
            collect(store, &member, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Marks all addresses of a log block as allocated at import, before anything else is allocated.
pub(crate) fn claim(store: &WriteStore, txg: u64, bp: &BlkPtr) -> Result<()> {
    bp.dvas().try_for_each(|dva| store.allocator().claim(txg, &dva))
}
