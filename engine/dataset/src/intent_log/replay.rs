//! Replaying and discarding a log left by an earlier import of the pool.
//!
//! The number of a record goes into the head of the log in the same txg as the changes of the
//! record, so that it is not replayed again after another crash. When all records are replayed, the
//! chain is freed as a whole.
//!
//! Invariants:
//!   * records are passed on in order; those of synced txgs and those already replayed are not
//!   * a record counts as replayed only when all of its changes were made
//!   * a record that fails permanently is skipped, with all records that depend on it (see
//!     [`missing`](super::missing)), and the log is kept
//!   * a log with unreadable claimed blocks is not freed: they may be on a device that comes back
//!   * only a chain that an import claimed is replayed or freed: the blocks of any other may have
//!     been reallocated
//!
//! ZFS names: zil_replay, zil_destroy.

use super::chain::{self, LOG_LEVEL, Step, Unread, Walked};
use super::claim::cloned_blocks;
use super::commit::{Chain, Log};
use super::missing::{Missing, contents_of};
use super::replay_skips::{NAMED_MAX, SkippedRecord};
use block::{Bookmark, Store, WriteStore};
use bytes::Bytes;
use errors::{Error, Place, Refusal, Result};
use object::ObjectSet;
use ondisk::zil::{Body, Record, RecordType};
use ondisk::{BlkPtr, ZilHeader, blkptr};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The result of a replay.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// Records that were replayed.
    pub records: u64,
    /// Records that were not replayed.
    pub skipped_records: u64,
    /// The first [`NAMED_MAX`] of them.
    pub skipped: Vec<SkippedRecord>,
    /// The log is kept, because records were skipped, now or by an earlier replay.
    pub is_kept: bool,
}

/// A replay in progress.
struct Run<'a> {
    header: ZilHeader,
    missing: Missing,
    /// Records that an earlier attempt skipped for a reason of their own.
    before: HashSet<u64>,
    apply: &'a mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>,
    find: &'a dyn Fn(u64, &[u8]) -> Option<u64>,
    /// Number of the last replayed record.
    done: u64,
    /// A replayed record may have freed objects and is not on disk yet: their numbers cannot be
    /// reused before it is.
    frees: bool,
    replayed: Replayed,
}

impl Log {
    /// Whether the log must be replayed, or at least freed, before the dataset is used.
    pub fn needs_replay(&self) -> bool {
        self.chain.lock().old.as_ref().is_some_and(|old| !old.is_kept)
    }

    /// Whether the log holds records that could not be replayed. Until it is discarded nothing
    /// is logged, and commits wait for txgs.
    pub fn is_kept(&self) -> bool {
        self.chain.lock().old.as_ref().is_some_and(|old| old.is_kept)
    }

    /// Passes the records of an old log to `apply`, one by one, and frees the log. `apply`
    /// records its changes with [`Log::record`] as usual: that is how progress gets into the
    /// same txg. `find` resolves a name in a directory to an object.
    ///
    /// A write whose data is in a block of its own comes with the whole block as `data`; the
    /// block may begin before `offset`. A record that fails for lack of space or of an object
    /// number is retried when everything before it is on disk. After an error that may be
    /// temporary (no space, device missing) the log is kept unchanged for the next attempt. A
    /// record that is itself invalid is skipped, and so are those that depend on it; the others
    /// are replayed, and the log is kept until it is discarded. Skipping costs no txg: a log
    /// may hold thousands of such records.
    pub fn replay(
        &self,
        apply: &mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>,
        find: &dyn Fn(u64, &[u8]) -> Option<u64>,
    ) -> Result<Replayed> {
        let Some(header) = self.chain.lock().old.as_ref().map(|o| o.header) else { return Ok(Replayed::default()) };
        if header.claim_txg.0 == 0 && !header.log.is_hole() {
            let what = "the intent log was not claimed when the pool was imported";
            return Err(Error::invalid(format!("object set {}", self.objset.id()), what));
        }
        if header.flags & ZilHeader::FLAG_REPLAY_NEEDED == 0 {
            self.destroy_old()?;
            return Ok(Replayed::default());
        }
        let before = self.ground.skipped_before(header.claim_txg.0)?.into_iter().collect();
        let (missing, replayed) = (Missing::default(), Replayed::default());
        let done = header.replay_seq;
        let mut run = Run { header, missing, before, apply, find, done, frees: false, replayed };
        let mut last = 0;
        let outcome = chain::walk(&self.objset, &header, true, &mut |step| {
            if let Step::Record(_, Ok(record)) = step
                && record.kind != RecordType::COMMIT
                && record.txg >= header.claim_txg
            {
                last = record.sequence;
                self.replay_record(&record, &mut run)?;
            }
            Ok(ControlFlow::Continue(()))
        });
        let mut replayed = run.replayed;
        let unnamed = replayed.skipped_records - replayed.skipped.len() as u64;
        if unnamed > 0 {
            tracing::error!(dataset = self.ground.name(), "intent log: {unnamed} more records are skipped");
        }
        let walked = outcome?;
        if let Some(error) = walked.stopped(&header) {
            if let Some(unread) = walked.unread(&header) {
                tracing::error!(dataset = self.ground.name(), "{unread}");
                // The error below is what matters.
                if let Err(error) = self.ground.unread(&unread) {
                    tracing::error!(dataset = self.ground.name(), %error, "the pool's history has no event about this");
                }
            }
            return Err(self.unread(&walked, &header, &error));
        }
        // Records that an earlier replay skipped may be in the unreadable part.
        replayed.is_kept = !run.missing.is_empty() || !run.before.is_empty();
        match replayed.is_kept {
            // No record of the claim is left.
            true => self.keep_old(chain::last_record(&header).unwrap_or(0).max(last))?,
            false => self.destroy_old()?,
        }
        Ok(replayed)
    }

    /// The error for a log that could not be read to its end.
    fn unread(&self, walked: &Walked, header: &ZilHeader, error: &Error) -> Error {
        let name = self.ground.name();
        let pool = name.split('/').next().unwrap_or(&name);
        let records = match header.claim_record_seq {
            last if last > walked.max_record => format!("records {} to {last}", walked.max_record + 1),
            _ => format!("records from {} on", walked.max_record + 1),
        };
        let what = format!(
            "{records} of the intent log cannot be read: {error}. Bring its device back and mount again, or discard these records \
             with \"zpool clear {pool}\""
        );
        Error::io(name, std::io::Error::other(what))
    }

    fn replay_record(&self, record: &Record<'_>, run: &mut Run<'_>) -> Result<()> {
        if record.sequence <= run.header.replay_seq {
            // Replayed, or skipped, by an attempt that a crash interrupted.
            if let Ok(body) = record.parse_body() {
                match run.before.contains(&record.sequence) || run.missing.needed_by(&body).is_some() {
                    true => run.missing.note(record.sequence, &body),
                    false => run.missing.done(&body),
                }
            } else if run.before.contains(&record.sequence) {
                run.missing.note_unknown(record.sequence);
            }
            return Ok(());
        }
        let body = match record.parse_body() {
            Ok(body) => body,
            Err(error) if may_pass(&Error::from(error.clone())) => return Err(error.into()),
            Err(error) => {
                let body = Body::Commit;
                run.missing.note_unknown(record.sequence);
                return self.skip_record(record, &body, (self.cause(&error.into()), true), run);
            }
        };
        let (needed, lacked) = (run.missing.needed_by(&body), run.missing.lacked_by_named(&body, run.find));
        if let Some(earlier) = needed.or(lacked) {
            run.missing.note(record.sequence, &body);
            let cause = format!("it builds on record {earlier}, which was skipped");
            return self.skip_record(record, &body, (cause, needed.is_none()), run);
        }
        if run.before.contains(&record.sequence) {
            // Nothing later was replayed, but the notes stay: later attempts rely on
            // them.
            run.missing.note(record.sequence, &body);
            return self.skip_record(record, &body, ("an earlier replay skipped it".to_owned(), true), run);
        }
        let mut attempt = self.replay_once(record, &body, run);
        if let Err(error) = &attempt
            && (may_pass(error) || run.frees && is_in_the_way(error))
        {
            // Objects removed before it may be in the way until the removal is on disk.
            self.ground.sync()?;
            run.frees = false;
            let again = self.replay_once(record, &body, run);
            // A first attempt that stopped half-way may make the second one fail
            // differently: that is no reason to skip the record.
            if again.is_ok() || !may_pass(error) || again.as_ref().is_err_and(may_pass) {
                attempt = again;
            }
        }
        match attempt {
            Ok(()) => {
                run.done = record.sequence;
                run.replayed.records += 1;
                run.frees |= matches!(body, Body::Remove { .. } | Body::Rename { .. });
                run.missing.done(&body);
                Ok(())
            }
            Err(error) if may_pass(&error) => Err(error),
            Err(error) => {
                run.missing.note(record.sequence, &body);
                self.skip_record(record, &body, (self.cause(&error), true), run)
            }
        }
    }

    /// Reports a skipped record. One with a reason of its own (`is_first`) is recorded on disk,
    /// so that an attempt interrupted by a crash continues without it; those that depend on it
    /// are found again.
    fn skip_record(
        &self,
        record: &Record<'_>,
        body: &Body<'_>,
        (cause, is_first): (String, bool),
        run: &mut Run<'_>,
    ) -> Result<()> {
        let (sequence, txg) = (record.sequence, record.txg.0);
        run.replayed.skipped_records += 1;
        let is_named = run.replayed.skipped.len() < NAMED_MAX;
        if is_named {
            let skipped =
                SkippedRecord { sequence, txg, kind: record.kind.name(), what: what_of(body, self.has_names()), cause };
            tracing::error!(dataset = self.ground.name(), "intent log: {skipped}");
            run.replayed.skipped.push(skipped);
        }
        if is_first && !run.before.contains(&sequence) {
            let named = run.replayed.skipped.last().filter(|_| is_named);
            self.ground.skipped(run.header.claim_txg.0, sequence, named)?;
        }
        Ok(())
    }

    /// Whether reports name files. They go into the pool's history, where anyone could read the
    /// names of an encrypted dataset.
    fn has_names(&self) -> bool {
        self.objset.keys().is_none()
    }

    /// Why a record is skipped.
    fn cause(&self, error: &Error) -> String {
        match error {
            _ if self.has_names() => error.to_string(),
            Error::Refused { why, .. } => why.to_string(),
            Error::NotFound { .. } => "what it is about does not exist".to_owned(),
            _ => "it could not be replayed".to_owned(),
        }
    }

    fn replay_once(&self, record: &Record<'_>, body: &Body<'_>, run: &mut Run<'_>) -> Result<()> {
        self.replaying.store(record.sequence.max(1), Ordering::Release);
        let result = self.apply(record, body, run.apply);
        self.replaying.store(0, Ordering::Release);
        if result.is_err() {
            // If it was recorded before, only the record before it is done.
            let mut chain = self.chain.lock();
            chain.replayed.values_mut().filter(|n| **n == record.sequence).for_each(|n| *n = run.done);
        }
        result
    }

    fn apply(
        &self,
        record: &Record<'_>,
        body: &Body<'_>,
        apply: &mut dyn FnMut(&Record<'_>, &Body<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut body = body.clone();
        if let Some(object) = contents_of(&body)
            && matches!(self.objset.object(object), Err(Error::NotFound { .. }))
        {
            // These are logged after later changes: the object may be gone by now.
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

    /// Reads the block that a write record points to.
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

    /// Keeps a log with skipped records. All of it, up to record `last`, counts as replayed, so
    /// that OpenZFS, which does not keep such logs, just frees it.
    fn keep_old(&self, last: u64) -> Result<()> {
        {
            let tx = self.ground.hold()?;
            let mut chain = self.chain.lock();
            if let Some(old) = &mut chain.old {
                old.is_kept = true;
            }
            chain.replayed.insert(tx.txg(), last);
        }
        self.ground.sync()
    }

    /// Frees an old log without replaying it: the dataset is about to be destroyed, or the
    /// administrator gave up the skipped records.
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
            free_chain(&self.objset, self.ground.store(), &old.header, txg)?;
            chain.replayed.clear();
            *header = ZilHeader::EMPTY;
        }
        Ok(())
    }
}

/// The log of a dataset that is not open and is about to be destroyed. No keys are needed:
/// everything required to free it is unencrypted.
pub(crate) struct ClosedLog(Option<Arc<ObjectSet>>);

impl ClosedLog {
    /// Finds the log of the object set at `root`.
    pub(crate) fn open(store: &Arc<Store>, root: &BlkPtr, id: u64) -> Result<Self> {
        if root.is_hole() {
            return Ok(Self(None));
        }
        ObjectSet::open(store.clone(), root, id, None).map(Some).map(Self)
    }

    /// The header without the unreadable part, and that part. `None`: everything claimed is
    /// readable.
    ///
    /// The blocks after an unreadable one stay allocated, as in OpenZFS: their addresses are only
    /// in it.
    pub(crate) fn shortened(&self) -> Result<Option<(ZilHeader, Unread)>> {
        match &self.0 {
            Some(objset) => shortened(objset),
            None => Ok(None),
        }
    }

    /// Frees the log in `txg`.
    pub(crate) fn free(&self, store: &WriteStore, txg: u64) -> Result<()> {
        match &self.0 {
            Some(objset) => free_chain(objset, store, &objset.phys().zil, txg),
            None => Ok(()),
        }
    }
}

/// The header of a log that waits for its replay, without the unreadable part, and that part.
/// `None`: everything is readable.
pub(super) fn shortened(objset: &ObjectSet) -> Result<Option<(ZilHeader, Unread)>> {
    let header = objset.phys().zil;
    if header.flags & ZilHeader::FLAG_REPLAY_NEEDED == 0 {
        return Ok(None);
    }
    let walked = chain::walk(objset, &header, false, &mut |_| Ok(ControlFlow::Continue(())))?;
    Ok(walked.unread(&header).map(|unread| (walked.shortened(&header), unread)))
}

/// Frees a claimed chain in `txg`, with the blocks that its write records point to.
///
/// Blocks after an unreadable one stay allocated, as in OpenZFS: their addresses are only in it.
fn free_chain(objset: &ObjectSet, store: &WriteStore, header: &ZilHeader, txg: u64) -> Result<()> {
    let claimed = header.claim_txg.0;
    let place = || format!("intent log of object set {}", objset.id());
    let mut seen = HashSet::new();
    chain::walk(objset, header, false, &mut |step| {
        if let Step::Record(_, Ok(record)) = &step
            && claimed != 0
        {
            cloned_blocks(record)?.iter().try_for_each(|bp| store.free(txg, bp))?;
        }
        let bp = match step {
            Step::Pointer(bp) => Some(*bp),
            Step::Record(_, Ok(record)) => {
                record.written_block().filter(|bp| claimed != 0 && bp.logical_birth().0 >= claimed)
            }
            _ => None,
        };
        if let Some(bp) = bp.filter(|bp| seen.insert(bp.dva(0))) {
            store.free_later(txg, &bp)?;
        }
        Ok(ControlFlow::Continue(()))
    })
    .at_with(place)?;
    Ok(())
}

/// Whether the same record may succeed later.
fn may_pass(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. }
            | Error::Missing { .. }
            | Error::Refused {
                why: Refusal::NoSpace | Refusal::QuotaExceeded | Refusal::Busy | Refusal::Suspended,
                ..
            }
            | Error::KeyUnavailable { .. }
            | Error::Unsupported { .. }
    )
}

/// Whether a record fails because another file has its name or number.
fn is_in_the_way(error: &Error) -> bool {
    error.refusal() == Some(Refusal::Exists)
}

/// Human-readable subject of a record.
fn what_of(body: &Body<'_>, has_names: bool) -> String {
    let name = |n: &[u8]| match has_names {
        true => format!("{:?}", String::from_utf8_lossy(n)),
        false => "a name".to_owned(),
    };
    match body {
        Body::Create(c) => format!("{} in directory {}, object {}", name(c.name), c.directory, c.object),
        Body::Remove { directory, name: n } => format!("{} in directory {directory}", name(n)),
        Body::Link { directory, object, name: n } => format!("{} in directory {directory}, object {object}", name(n)),
        Body::Rename { from_directory, to_directory, from, to, .. } => {
            format!("{} in directory {from_directory} to {} in directory {to_directory}", name(from), name(to))
        }
        Body::Write { object, offset, length, .. }
        | Body::Truncate { object, offset, length }
        | Body::CloneRange { object, offset, length, .. } => format!("object {object}, {length} bytes at {offset}"),
        Body::SetSaXattr { object, name: n, .. } => format!("object {object}, attribute {}", name(n)),
        Body::SetAttr { object, .. } | Body::Acl { object, .. } => format!("object {object}"),
        Body::Commit => "of unknown contents".to_owned(),
    }
}
