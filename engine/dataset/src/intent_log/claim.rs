//! Claiming: how an import handles logs before anything else is written.
//!
//! Log blocks written since the last synced txg are free according to the space maps. An import
//! claims them before it allocates any space, for all datasets, mounted or not, with or without a
//! key, and records in each head how far it came, so that blocks that appear beyond that point
//! later (a device that was missing) are not replayed.
//!
//! Invariants:
//!   * a block is claimed if it was born after the last synced txg, and only once
//!   * a record that points at an unreadable block ends the log: it was never acknowledged as
//!     durable
//!
//! ZFS names: zil_claim, zil_check_log_chain.

use super::chain::{self, Step};
use crate::Dataset;
use errors::{Place, Result};
use object::ObjectSet;
use ondisk::zil::record::Body;
use ondisk::zil::{Record, RecordType};
use ondisk::{BlkPtr, Txg, ZilHeader};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What to claim for one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Object number of the dataset.
    pub dataset: u64,
    /// Its log header after the claim.
    pub header: ZilHeader,
    pub blocks: Vec<BlkPtr>,
    /// Data blocks that records reference again (block cloning).
    pub cloned: Vec<BlkPtr>,
    /// Blocks to free, of a log that is discarded.
    pub freed: Vec<BlkPtr>,
}

/// What to claim for `dataset` when `first_txg` is the first txg to be written. `None`: it has no
/// log, or an earlier import claimed it.
pub fn find_claim(dataset: &Dataset, first_txg: Txg) -> Result<Option<Claim>> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(None);
    }
    claim_chain(&*dataset.objset_without_keys()?, first_txg)
}

/// How to treat a log that no import had claimed when the checkpoint of `checkpoint_txg` was made,
/// in a pool rewound to it: it is discarded, because its blocks may have been reused since, as in
/// OpenZFS.
pub fn find_cleared(dataset: &Dataset, checkpoint_txg: Txg) -> Result<Option<Claim>> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(None);
    }
    let objset = dataset.objset_without_keys()?;
    let header = objset.phys().zil;
    if header.log.is_hole() || header.claim_txg.0 != 0 {
        return Ok(None);
    }
    let mut freed = Vec::new();
    chain::walk(&objset, &header, false, &mut |step| {
        match step {
            // Blocks from here on are free in the checkpoint.
            Step::Pointer(bp) if bp.logical_birth() > checkpoint_txg => return Ok(ControlFlow::Break(())),
            Step::Pointer(bp) => freed.push(*bp),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let header = ZilHeader { log: BlkPtr::HOLE, ..header };
    Ok(Some(Claim { dataset: objset.id(), header, blocks: Vec::new(), cloned: Vec::new(), freed }))
}

/// Like [`find_claim`], for an object set.
pub fn claim_chain(objset: &ObjectSet, first_txg: Txg) -> Result<Option<Claim>> {
    let header = objset.phys().zil;
    if header.log.is_hole() || header.claim_txg.0 != 0 {
        return Ok(None);
    }
    claim(objset, header, first_txg).map(Some).at_with(|| format!("intent log of object set {}", objset.id()))
}

fn claim(objset: &ObjectSet, header: ZilHeader, first_txg: Txg) -> Result<Claim> {
    let (mut blocks, mut cloned) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let mut take = |bp: &BlkPtr| {
        if bp.logical_birth() >= first_txg && seen.insert(bp.dva(0)) {
            blocks.push(*bp);
        }
    };
    let walked = chain::walk(objset, &header, false, &mut |step| {
        match step {
            Step::Pointer(bp) => take(bp),
            Step::Record(_, Ok(record)) => {
                let uses = cloned_blocks(&record)?;
                if uses.iter().any(|bp| bp.logical_birth() >= first_txg) {
                    // The clones were never durable, and their commit was never
                    // acknowledged.
                    return Ok(ControlFlow::Break(()));
                }
                cloned.extend(uses);
                if let Some(bp) = record.written_block().filter(|bp| bp.logical_birth() >= first_txg) {
                    match objset.store().verify(&bp).readable {
                        true => take(&bp),
                        false => return Ok(ControlFlow::Break(())),
                    }
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    // Its records cannot be claimed, and their blocks will be reused.
    if let Some(unread) = walked.unread(&header) {
        tracing::warn!(object_set = objset.id(), "{unread}");
    }
    let needs_replay = walked.records > 0 || walked.pointers > 1;
    let replay = if needs_replay { ZilHeader::FLAG_REPLAY_NEEDED } else { 0 };
    let header = ZilHeader {
        claim_txg: first_txg,
        claim_block_seq: walked.max_block,
        claim_record_seq: walked.max_record,
        flags: header.flags | replay | ZilHeader::FLAG_CLAIM_RECORD_SEQ_VALID,
        ..header
    };
    Ok(Claim { dataset: objset.id(), header, blocks, cloned, freed: Vec::new() })
}

/// The data blocks that a record references again: held from the claim until the log is freed,
/// whatever happens to the record.
pub(super) fn cloned_blocks(record: &Record<'_>) -> Result<Vec<BlkPtr>> {
    if record.kind != RecordType::CLONE_RANGE {
        return Ok(Vec::new());
    }
    match record.parse_body()? {
        Body::CloneRange { pointers, .. } => {
            Ok(pointers.into_iter().filter(|bp| !bp.is_hole() && !bp.is_embedded()).collect())
        }
        _ => Ok(Vec::new()),
    }
}
