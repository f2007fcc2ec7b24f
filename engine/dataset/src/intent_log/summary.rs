//! Contents of the log, for read-only inspection.

use super::chain::{self, Step, Unread};
use super::missing::Missing;
use super::replay::shortened;
use super::replay_skips::{skipped_numbers, skipped_records};
use crate::{Dataset, KeyStore};
use errors::{Error, Result};
use object::ObjectSet;
use ondisk::zil::{Body, Record, RecordType};
use ondisk::{BlkPtr, Txg, ZilHeader};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Summary of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSummary {
    /// Blocks of the chain.
    pub blocks: u64,
    /// Bytes of those blocks.
    pub bytes: u64,
    /// Records in those blocks.
    pub records: u64,
    /// Records of txgs that were not synced: the dataset shown lacks their changes.
    pub unreplayed_records: u64,
    /// Bytes of those records, and of the data they point to.
    pub unreplayed_bytes: u64,
    /// First and last txg of those records.
    pub unreplayed_txgs: Option<(u64, u64)>,
    /// Why it ends early, if that is known.
    pub unread: Option<Unread>,
}

/// A record and its location.
pub struct LogEntry<'a> {
    /// Number of the block in the chain.
    pub block: u64,
    pub pointer: &'a BlkPtr,
    /// The record, or its error: the rest of its block is then unknown.
    pub record: ondisk::Result<Record<'a>>,
    /// Whether the record is newer than the txg in use.
    pub is_unreplayed: bool,
    /// The body is readable: not encrypted, or its key was given.
    pub is_open: bool,
    /// Why a replay skipped it, or would skip it.
    pub skipped: Option<String>,
}

/// Whether the log of `dataset` is kept because a replay skipped some of its records. No key is
/// needed.
pub fn has_skipped(dataset: &Dataset) -> Result<bool> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(false);
    }
    let header = dataset.objset_without_keys()?.phys().zil;
    let directory = dataset.tree().pool().directory();
    Ok(header.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0
        && !skipped_numbers(directory, dataset.id(), header.claim_txg.0)?.is_empty())
}

/// Whether the log of `dataset`, claimed by an import and not yet replayed, has unreadable blocks.
/// No key is needed.
pub fn has_unread(dataset: &Dataset) -> Result<bool> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(false);
    }
    Ok(shortened(&*dataset.objset_without_keys()?)?.is_some())
}

/// What a replay skipped of a log, and what it would skip of the rest, as far as the tree shows
/// without trying.
struct Forecast {
    skipped: HashMap<u64, String>,
    missing: Missing,
    made: HashSet<u64>,
}

impl Forecast {
    fn new(dataset: &Dataset, header: &ZilHeader) -> Result<Self> {
        let skipped = skipped_records(dataset.tree().pool(), dataset.id(), header.claim_txg.0)?;
        Ok(Self { skipped, missing: Missing::default(), made: HashSet::new() })
    }

    fn cause(&mut self, objset: &ObjectSet, record: &Record<'_>, is_unreplayed: bool) -> Option<String> {
        let body = record.parse_body().ok();
        let noted = self.skipped.get(&record.sequence).cloned();
        let Some(body) = body else {
            if noted.is_some() {
                self.missing.note_unknown(record.sequence);
            }
            return noted;
        };
        let needed = self.missing.needed_by(&body);
        let cause = noted.or_else(|| needed.map(|earlier| format!("it builds on record {earlier}, which is skipped")));
        let cause = cause.or_else(|| if is_unreplayed { self.lacks(objset, &body) } else { None });
        match &cause {
            Some(_) => self.missing.note(record.sequence, &body),
            None => {
                self.made.extend(if let Body::Create(c) = &body { Some(c.object) } else { None });
                self.missing.done(&body);
            }
        }
        cause
    }

    /// What a record needs and the tree lacks.
    fn lacks(&self, objset: &ObjectSet, body: &Body<'_>) -> Option<String> {
        let directories = match body {
            Body::Create(c) => vec![c.directory],
            Body::Remove { directory, .. } | Body::Link { directory, .. } => vec![*directory],
            Body::Rename { from_directory, to_directory, .. } => vec![*from_directory, *to_directory],
            _ => Vec::new(),
        };
        let is_there = |id: &u64| self.made.contains(id) || !matches!(objset.object(*id), Err(Error::NotFound { .. }));
        directories.iter().find(|id| !is_there(id)).map(|id| format!("directory {id} is missing"))
    }
}

/// Whether a crash left records in the log of `dataset` that an import claimed and that are not
/// replayed yet. No key is needed.
pub fn needs_replay(dataset: &Dataset) -> Result<bool> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(false);
    }
    Ok(dataset.objset_without_keys()?.phys().zil.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0)
}

/// Reads the log of `dataset` and passes each record to `sink`. Without a key, records of encrypted
/// datasets still expose their kind and txg.
pub fn read(dataset: &Dataset, keys: Option<&KeyStore>, sink: &mut dyn FnMut(LogEntry<'_>)) -> Result<LogSummary> {
    let mut summary = LogSummary::default();
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(summary);
    }
    let objset = match keys {
        Some(keys) => dataset.objset(keys)?,
        None => dataset.objset_without_keys()?,
    };
    let synced = dataset.tree().pool().uberblock().txg;
    let head = objset.phys().zil;
    let mut forecast = Forecast::new(dataset, &head)?;
    let walked = chain::walk(&objset, &head, objset.keys().is_some(), &mut |step| {
        match step {
            Step::Pointer(_) => {}
            Step::Record(bp, record) => {
                let is_open = objset.keys().is_some() || !bp.is_encrypted();
                let is_unreplayed = record.as_ref().is_ok_and(|r| is_unreplayed(r, &head, synced));
                if let Ok(record) = &record {
                    summary.records += 1;
                    if is_unreplayed {
                        note(&mut summary, record, is_open);
                    }
                }
                let skipped = match &record {
                    Ok(record) if is_open => forecast.cause(&objset, record, is_unreplayed),
                    _ => None,
                };
                sink(LogEntry { block: bp.checksum()[3], pointer: bp, record, is_unreplayed, is_open, skipped });
            }
            Step::End(bytes) => {
                summary.blocks += 1;
                summary.bytes += bytes;
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    summary.unread = walked?.unread(&head);
    Ok(summary)
}

/// Whether the tree as of txg `synced` lacks a record. An import that claimed the log has synced a
/// txg since.
fn is_unreplayed(record: &Record<'_>, header: &ZilHeader, synced: Txg) -> bool {
    let is_due = match header.claim_txg.0 {
        0 => record.txg > synced,
        _ => header.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0 && record.txg >= header.claim_txg,
    };
    record.kind != RecordType::COMMIT && is_due && record.sequence > header.replay_seq
}

fn note(summary: &mut LogSummary, record: &Record<'_>, is_open: bool) {
    summary.unreplayed_records += 1;
    summary.unreplayed_bytes = summary.unreplayed_bytes.saturating_add(record.size_bytes() as u64);
    if is_open && let Ok(ondisk::zil::Body::Write { pointer, data, .. }) = record.parse_body() {
        let elsewhere = if data.is_empty() && !pointer.is_hole() { pointer.lsize_bytes() } else { 0 };
        summary.unreplayed_bytes = summary.unreplayed_bytes.saturating_add(elsewhere);
    }
    let txg = record.txg.0;
    let (first, last) = summary.unreplayed_txgs.unwrap_or((txg, txg));
    summary.unreplayed_txgs = Some((first.min(txg), last.max(txg)));
}
