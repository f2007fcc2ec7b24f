//! Claiming: what an import does with logs before anything else is written.
//!
//! Log blocks written since the last synced txg are free by the space maps. An import takes them before it gives out any
//! space, for all datasets, mounted or not, with or without key, and notes in each head how far it came, so that what
//! appears behind that later (a device that was missing) is not replayed.
//!
//! Invariants:
//!   * a block is claimed when it was born after the last synced txg, and only once
//!   * a record that points at a block that cannot be read ends the log: nobody was told that it is safe
//!
//! ZFS names: zil_claim, zil_check_log_chain.

use super::chain::{self, Step};
use crate::{Dataset, Error, Place, Result};
use object::ObjectSet;
use ondisk::zil::RecordType;
use ondisk::{BlkPtr, Txg, ZilHeader};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What is to be claimed for one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Object number of the dataset.
    pub dataset: u64,
    /// Its head of the log afterwards.
    pub header: ZilHeader,
    /// Blocks to take.
    pub blocks: Vec<BlkPtr>,
}

/// What has to be claimed for `dataset` when `first_txg` is the first to be written. `None`: it has no log, or one that an
/// earlier import claimed.
pub fn find_claim(dataset: &Dataset, first_txg: Txg) -> Result<Option<Claim>> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(None);
    }
    claim_chain(&*dataset.objset_without_keys()?, first_txg)
}

/// The same for an object set.
pub fn claim_chain(objset: &ObjectSet, first_txg: Txg) -> Result<Option<Claim>> {
    let header = objset.phys().zil;
    if header.log.is_hole() || header.claim_txg.0 != 0 {
        return Ok(None);
    }
    claim(objset, header, first_txg).map(Some).at_with(|| format!("intent log of object set {}", objset.id()))
}

fn claim(objset: &ObjectSet, header: ZilHeader, first_txg: Txg) -> Result<Claim> {
    let mut blocks = Vec::new();
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
                if record.kind == RecordType::CLONE_RANGE && record.txg >= first_txg {
                    return Err(Error::unsupported("", "block clones in the intent log"));
                }
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
    let needs_replay = walked.records > 0 || walked.pointers > 1;
    let replay = if needs_replay { ZilHeader::FLAG_REPLAY_NEEDED } else { 0 };
    let header = ZilHeader {
        claim_txg: first_txg,
        claim_block_seq: walked.max_block,
        claim_record_seq: walked.max_record,
        flags: header.flags | replay | ZilHeader::FLAG_CLAIM_RECORD_SEQ_VALID,
        ..header
    };
    Ok(Claim { dataset: objset.id(), header, blocks })
}
