//! What the log holds, for those who only look.

use super::chain::{self, Step};
use crate::{Dataset, KeyStore, Result};
use ondisk::zil::{Record, RecordType};
use ondisk::{BlkPtr, Txg, ZilHeader};
use std::ops::ControlFlow;

/// What the log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogSummary {
    /// Blocks of the chain.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Records of txgs that were not synced: what the dataset shown lacks.
    pub unreplayed_records: u64,
    /// Bytes of those records, and of data that they point to.
    pub unreplayed_bytes: u64,
    /// Txg of the first and of the last of them.
    pub unreplayed_txgs: Option<(u64, u64)>,
}

/// A record and where it stands.
pub struct LogEntry<'a> {
    /// Number of the block in the chain.
    pub block: u64,
    /// The block's pointer.
    pub pointer: &'a BlkPtr,
    /// The record, or what is wrong with it: then the rest of its block is not known.
    pub record: ondisk::Result<Record<'a>>,
    /// Whether the txg in use is older than it.
    pub is_unreplayed: bool,
    /// The body is readable: not encrypted, or its key was given.
    pub is_open: bool,
}

/// Whether a crash left records in the log of `dataset` that an import claimed and nobody replayed yet. No key is needed.
pub fn needs_replay(dataset: &Dataset) -> Result<bool> {
    if dataset.is_snapshot() || dataset.phys().bp.is_hole() {
        return Ok(false);
    }
    Ok(dataset.objset_without_keys()?.phys().zil.flags & ZilHeader::FLAG_REPLAY_NEEDED != 0)
}

/// Reads the log of `dataset`; `sink` is given each record. Without a key, records of encrypted datasets still tell their
/// kind and txg.
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
    let walked = chain::walk(&objset, &head, objset.keys().is_some(), &mut |step| {
        match step {
            Step::Pointer(_) => {}
            Step::Record(bp, record) => {
                let is_open = objset.keys().is_some() || !bp.is_encrypted();
                let is_unreplayed = record.as_ref().is_ok_and(|r| is_unreplayed(r, synced, head.replay_seq));
                if let Ok(record) = &record {
                    summary.records += 1;
                    if is_unreplayed {
                        note(&mut summary, record, is_open);
                    }
                }
                sink(LogEntry { block: bp.checksum()[3], pointer: bp, record, is_unreplayed, is_open });
            }
            Step::End(bytes) => {
                summary.blocks += 1;
                summary.bytes += bytes;
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    walked?;
    Ok(summary)
}

fn is_unreplayed(record: &Record<'_>, synced: Txg, replayed: u64) -> bool {
    record.kind != RecordType::COMMIT && record.txg > synced && record.sequence > replayed
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
