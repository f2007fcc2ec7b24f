//! Replaying a log that an earlier life of the pool left behind, and getting rid of it.
//!
//! The number of a record goes into the head of the log in the same txg as what the record did, so that after another
//! crash it is not done again. When all is done the chain is freed as a whole.
//!
//! Invariants:
//!   * records are handed over in order, those of synced txgs and those replayed before are not
//!   * only a chain that an import claimed is replayed or freed: anyone else may own its blocks by now
//!
//! ZFS names: zil_replay, zil_destroy.

use super::chain::{self, LOG_LEVEL, Step};
use super::claim::cloned_blocks;
use super::commit::{Chain, Log};
use crate::{Error, Place, Result};
use bytes::Bytes;
use object::{Bookmark, ObjectSet, Store};
use ondisk::zil::{Body, Record, RecordType};
use ondisk::{BlkPtr, ZilHeader, blkptr};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A log that was there when the dataset was opened.
pub(super) struct Old {
    header: ZilHeader,
    /// Free it in this txg.
    destroy_txg: Option<u64>,
}

impl Old {
    pub(super) fn new(header: ZilHeader) -> Self {
        Self { header, destroy_txg: None }
    }
}

/// What a replay did.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// Records handed over.
    pub records: u64,
    /// The record that could not be replayed, and why. It and what followed it is lost, as OpenZFS does it.
    pub failed: Option<(u64, Error)>,
}

impl Log {
    /// Whether a log was found that is to be replayed, or at least freed, before the dataset is used.
    pub fn needs_replay(&self) -> bool {
        self.chain.lock().old.is_some()
    }

    /// Hands what an old log holds to `apply`, record after record, and frees the log. What `apply` does it records with
    /// [`Log::record`] as always: that is how progress gets into the same txg.
    ///
    /// A write whose data stands in a block of its own comes with the whole block as `data`; it may begin before `offset`.
    /// A record that fails is tried again when all before it is on disk. After an error that may pass (no space, device
    /// missing) the log is kept as it is for the next attempt; what is wrong with the record itself ends the replay.
    pub fn replay(&self, apply: &mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>) -> Result<Replayed> {
        let Some(header) = self.chain.lock().old.as_ref().map(|o| o.header) else { return Ok(Replayed::default()) };
        if header.claim_txg.0 == 0 && !header.log.is_hole() {
            let what = "the intent log was not claimed when the pool was imported";
            return Err(Error::invalid(format!("object set {}", self.objset.id()), what));
        }
        let mut replayed = Replayed::default();
        if header.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0 {
            let outcome = chain::walk(&self.objset, &header, true, &mut |step| match step {
                Step::Record(_, Ok(record)) if is_due(&header, &record) => {
                    self.replay_record(&record, apply, &mut replayed)
                }
                _ => Ok(ControlFlow::Continue(())),
            });
            self.replaying.store(0, Ordering::Release);
            outcome?;
        }
        self.destroy_old()?;
        Ok(replayed)
    }

    fn replay_record(
        &self,
        record: &Record<'_>,
        apply: &mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>,
        replayed: &mut Replayed,
    ) -> Result<ControlFlow<()>> {
        self.replaying.store(record.sequence.max(1), Ordering::Release);
        let mut attempt = self.replay_once(record, apply);
        if attempt.is_err() {
            // What was removed before it may be in the way until it is really gone.
            self.ground.sync()?;
            attempt = self.replay_once(record, apply);
        }
        match attempt {
            Ok(()) => {
                replayed.records += 1;
                Ok(ControlFlow::Continue(()))
            }
            Err(error) if may_pass(&error) => Err(error),
            Err(error) => {
                tracing::warn!(%error, sequence = record.sequence, kind = record.kind.name(), "record of the intent log cannot be replayed");
                replayed.failed = Some((record.sequence, error));
                Ok(ControlFlow::Break(()))
            }
        }
    }

    fn replay_once(
        &self,
        record: &Record<'_>,
        apply: &mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut body = record.parse_body()?;
        if let Some(object) = out_of_order(&body)
            && matches!(self.objset.object(object), Err(Error::NotFound { .. }))
        {
            // These are logged after what came later: the object may be gone by now.
            return Ok(());
        }
        let mut block = Bytes::new();
        if let Body::Write { object, offset, length, pointer, data: [] } = &body {
            block = self.read_indirect(*object, *offset, *length, pointer)?;
        }
        if let Body::Write { data, .. } = &mut body
            && data.is_empty()
        {
            *data = &block;
        }
        apply(record, &body)
    }

    /// The block that a write record points at.
    fn read_indirect(&self, object: u64, offset: u64, length: u64, pointer: &BlkPtr) -> Result<Bytes> {
        if pointer.is_hole() {
            let length = usize::try_from(length).ok().filter(|l| *l as u64 <= blkptr::MAX_BLOCK_BYTES);
            let length = length.ok_or_else(|| Error::corrupt("", "a write record has no data and no block"))?;
            return Ok(vec![0; length].into());
        }
        let blkid = offset / pointer.lsize_bytes().max(512);
        let at = Bookmark { objset: self.objset.id(), object, level: LOG_LEVEL, blkid };
        Ok(self.objset.store().read_uncached(pointer, &at, self.objset.keys().map(AsRef::as_ref))?.data)
    }

    /// Frees an old log without replaying it: the dataset is about to be destroyed.
    pub fn discard(&self) -> Result<()> {
        if self.chain.lock().old.is_none() {
            return Ok(());
        }
        self.destroy_old()
    }

    fn destroy_old(&self) -> Result<()> {
        {
            let tx = self.ground.hold()?;
            let mut chain = self.chain.lock();
            if let Some(old) = &mut chain.old {
                old.destroy_txg = Some(tx.txg());
            }
        }
        self.ground.sync()
    }

    /// The part of [`Log::sync`] for an old log.
    pub(super) fn sync_old(&self, chain: &mut Chain, txg: u64, header: &mut ZilHeader) -> Result<()> {
        if let Some(sequence) = chain.replayed.remove(&txg) {
            header.replay_seq = sequence;
        }
        if let Some(old) = chain.old.take_if(|old| old.destroy_txg == Some(txg)) {
            free_chain(&self.objset, &old.header, txg)?;
            chain.replayed.clear();
            *header = ZilHeader::EMPTY;
        }
        Ok(())
    }
}

/// The log of a dataset that nobody has open, and which is about to be destroyed. No keys are needed: what is freed stands in the clear.
pub(crate) struct ClosedLog(Option<Arc<ObjectSet>>);

impl ClosedLog {
    /// Finds the log of the object set at `root`.
    pub(crate) fn open(store: &Arc<Store>, root: &BlkPtr, id: u64) -> Result<Self> {
        if root.is_hole() {
            return Ok(Self(None));
        }
        ObjectSet::open(store.clone(), root, id, None).map(Some).map(Self)
    }

    /// Frees it in `txg`.
    pub(crate) fn free(&self, txg: u64) -> Result<()> {
        match &self.0 {
            Some(objset) => free_chain(objset, &objset.phys().zil, txg),
            None => Ok(()),
        }
    }
}

/// Frees a claimed chain in `txg`, with the blocks that its write records point at.
fn free_chain(objset: &ObjectSet, header: &ZilHeader, txg: u64) -> Result<()> {
    let claimed = header.claim_txg.0;
    let place = || format!("intent log of object set {}", objset.id());
    let mut seen = HashSet::new();
    chain::walk(objset, header, false, &mut |step| {
        if let Step::Record(_, Ok(record)) = &step
            && claimed != 0
        {
            cloned_blocks(record)?.iter().try_for_each(|bp| objset.store().free(txg, bp))?;
        }
        let bp = match step {
            Step::Pointer(bp) => Some(*bp),
            Step::Record(_, Ok(record)) => {
                record.written_block().filter(|bp| claimed != 0 && bp.logical_birth().0 >= claimed)
            }
            _ => None,
        };
        if let Some(bp) = bp.filter(|bp| seen.insert(bp.dva(0))) {
            objset.store().free_later(txg, &bp)?;
        }
        Ok(ControlFlow::Continue(()))
    })
    .at_with(place)?;
    Ok(())
}

fn is_due(header: &ZilHeader, record: &Record<'_>) -> bool {
    record.kind != RecordType::COMMIT && record.sequence > header.replay_seq && record.txg >= header.claim_txg
}

/// The object of a record that concerns only its contents or attributes (`TX_OOO`).
fn out_of_order(body: &Body<'_>) -> Option<u64> {
    match body {
        Body::Write { object, .. }
        | Body::Truncate { object, .. }
        | Body::SetAttr { object, .. }
        | Body::Acl { object, .. }
        | Body::SetSaXattr { object, .. }
        | Body::CloneRange { object, .. } => Some(*object),
        _ => None,
    }
}

/// Whether the same record may succeed another time.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. }
            | Error::Missing { .. }
            | Error::Refused { .. }
            | Error::KeyUnavailable { .. }
            | Error::Unsupported { .. }
    )
}
