//! Places a block that may be deduplicated.
//!
//! ZFS name: zio_ddt_write. The dedup table learns of a write only after it is on the devices.

use super::place::{place as place_new, want};
use super::put::{give_back, put};
use crate::duplicates::{Duplicates, Found, Stored};
use crate::policy::{Dedup, WritePolicy};
use crate::store::{Store, WriteStore};
use errors::{Refusal, Result};
use ondisk::{BlkPtr, Dva, Txg};
use smallvec::SmallVec;

/// Places a block like any other, but reuses contents that a table knows. The pointer keeps its D
/// bit if a table counts the block.
pub(super) fn place(
    store: &WriteStore,
    bp: &mut BlkPtr,
    stored: &[u8],
    txg: u64,
    policy: &WritePolicy,
    copies: u8,
) -> Result<()> {
    let allocate_new = |bp: &mut BlkPtr| {
        bp.set_dedup(false);
        place_new(store, bp, stored, txg, policy, copies)
    };
    let Some(duplicates) = store.duplicates() else { return allocate_new(bp) };
    match duplicates.find(bp, copies)? {
        Found::No => allocate_new(bp),
        Found::Stored(found) => {
            let mut same = *bp;
            found.fill(&mut same, Txg(txg));
            if policy.dedup == Dedup::Verified && !holds(store, &same, stored) {
                duplicates.release(&same)?;
                return allocate_new(bp);
            }
            *bp = same;
            Ok(())
        }
        Found::Write { copies: missing, have } => {
            let claim = Claim { duplicates, bp: *bp, kept: false };
            let written = match have {
                None => {
                    place_new(store, bp, stored, txg, policy, missing)?;
                    true
                }
                Some(have) => add_copies(store, bp, stored, txg, policy, missing, &have)?,
            };
            if !written {
                drop(claim);
                return allocate_new(bp);
            }
            claim.keep(bp, copies);
            Ok(())
        }
    }
}

/// Writes further copies next to the existing ones. Returns false if that is not possible, or if
/// the existing block has different contents.
fn add_copies(
    store: &WriteStore,
    bp: &mut BlkPtr,
    stored: &[u8],
    txg: u64,
    policy: &WritePolicy,
    missing: u8,
    have: &Stored,
) -> Result<bool> {
    let mut all = *bp;
    have.fill(&mut all, Txg(txg));
    let there: SmallVec<[Dva; 3]> = all.dvas().collect();
    if there.iter().any(|dva| dva.is_gang) || (policy.dedup == Dedup::Verified && !holds(store, &all, stored)) {
        return Ok(false);
    }
    let addresses = match store.allocator().allocate(&want(stored, txg, policy, missing)) {
        Ok(addresses) => addresses,
        // Not as a gang block: either all addresses of a pointer are gang headers, or none.
        Err(e) if e.refusal() == Some(Refusal::NoSpace) => return Ok(false),
        Err(e) => return Err(e),
    };
    put(store, &mut all, &addresses, stored, txg).inspect_err(|_| give_back(store, txg, &addresses))?;
    for (index, dva) in there.iter().chain(&addresses).enumerate() {
        all.set_dva(index, *dva);
    }
    *bp = all;
    Ok(true)
}

/// Whether the stored block has exactly these bytes. Returns false if it cannot be read.
fn holds(store: &Store, bp: &BlkPtr, stored: &[u8]) -> bool {
    super::copies::read(store, bp, 0, &std::cell::Cell::new(false)).is_ok_and(|found| found == stored)
}

/// Contents that this thread writes and others wait for. Dropping it without `keep` gives them up.
struct Claim<'a> {
    duplicates: &'a dyn Duplicates,
    bp: BlkPtr,
    kept: bool,
}

impl Claim<'_> {
    fn keep(mut self, bp: &BlkPtr, copies: u8) {
        self.kept = true;
        self.duplicates.wrote(bp, copies);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.duplicates.gave_up(&self.bp);
        }
    }
}
