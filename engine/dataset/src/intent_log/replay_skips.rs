//! Records that a replay skips or cannot read: the numbers of the skipped ones, which control later
//! replays, and the events that report both.
//!
//! Entries of the pool's object directory, which are removed with the log:
//!
//! ```text
//!   weir:skipped_records:15:0   7, 5, 5, 9, 800     dataset 0x15, log claimed in txg 7:
//!                                                   records 5 and 9 to 800
//!   weir:skipped_records:15:1   7, ...              the remaining ranges
//! ```
//! OpenZFS looks up the entries of that directory that it knows and ignores all others. A separate
//! object would be reported by `zdb` as leaked space. An entry of another claim is obsolete:
//! OpenZFS freed the log, or destroyed the dataset, whose number may be in use again.
//!
//! Events in the pool's history, a ring buffer that overwrites old events:
//!
//! ```text
//!   intent log record skipped  claim_txg=7 sequence=5 record 5 of txg 6,
//!                              TX_REMOVE "a" in directory 34: ...
//!   intent log record skipped  claim_txg=7 sequences=9-800
//! ```
//! The first [`NAMED_MAX`] have one event each, with the record and the reason. Events of the
//! others list numbers, grouped by txg: a log may hold thousands of records that cannot be
//! replayed, and the history of a small pool has room for some hundred events. Neither contains
//! names from an encrypted dataset: both are stored unencrypted.
//!
//! A claimed log that cannot be read to its end has one event, however often its replay is tried:
//!
//! ```text
//!   intent log ends early      claim_txg=7 block 3 of the intent log cannot be read (...):
//!                              the last record found is 5, expected 800, which the import in
//!                              txg 7 found
//! ```
//! Giving up what cannot be read has one too, `intent log records discarded`, with the same text.
//!
//! Invariants:
//!   * a skip is recorded in the txg in which it happens: nothing replayed later is on disk without
//!     it

use super::chain::Unread;
use crate::write::cx::Cx;
use errors::{Error, Result};
use host::sync::Mutex;
use object::Zap;
use ondisk::history::keys;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::DIRECTORY_OBJECT;
use ondisk::zap::Value as ZapValue;
use pool::Pool;
use std::collections::{BTreeMap, HashMap};

/// Skipped records that a replay reports individually. Guessed: enough to see what is wrong.
pub const NAMED_MAX: usize = 20;
/// Number ranges in one event: some 15 KiB at most, which fit into the history of any pool.
const RANGES_PER_EVENT: usize = 1000;
/// Ranges in one entry of the directory: 1 KiB. An entry has at most 8 KiB (`ZAP_MAXVALUELEN`).
const RANGES_PER_ENTRY: usize = 64;
/// No log has more records than this: a limit so that a number read from disk cannot exhaust
/// memory.
const RECORDS_MAX: u64 = 1 << 24;

/// Name of the events in the pool's history that report skipped records.
const SKIPPED_EVENT: &str = "intent log record skipped";
/// Name of the event about a claimed log that cannot be read to its end.
const UNREAD_EVENT: &str = "intent log ends early";
/// Name of the event about the unreadable records that an administrator gave up.
const DISCARDED_EVENT: &str = "intent log records discarded";
/// The reason shown for a skipped record without an event of its own.
const UNNAMED: &str = "it could not be replayed";

/// A record that was not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Its number in the log.
    pub sequence: u64,
    /// The txg in which the change was made.
    pub txg: u64,
    /// Its type, as `zdb` prints it.
    pub kind: &'static str,
    /// Names and object numbers that it concerns, for messages.
    pub what: String,
    /// Why it was skipped.
    pub cause: String,
}

impl std::fmt::Display for SkippedRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {} of txg {}, {} {}: {}", self.sequence, self.txg, self.kind, self.what, self.cause)
    }
}

/// Skipped records that are not on disk yet.
#[derive(Default)]
pub(crate) struct UnsyncedSkips(Mutex<BTreeMap<u64, Batch>>);

/// Skipped records of one txg.
#[derive(Default)]
struct Batch {
    claim_txg: u64,
    numbers: Vec<u64>,
    named: Vec<String>,
    unnamed: Vec<u64>,
    unread: Option<Unread>,
}

impl UnsyncedSkips {
    /// Record `sequence` of the log claimed in `claim_txg` is skipped in `txg`, which is held.
    pub(crate) fn add(&self, txg: u64, claim_txg: u64, sequence: u64, named: Option<&SkippedRecord>) {
        let mut all = self.0.lock();
        let batch = all.entry(txg).or_default();
        batch.claim_txg = claim_txg;
        batch.numbers.push(sequence);
        match named {
            Some(record) => batch.named.push(format!("claim_txg={claim_txg} sequence={sequence} {record}")),
            None => batch.unnamed.push(sequence),
        }
    }

    /// The log cannot be read to its end. Recorded with `txg`, which is held.
    pub(crate) fn add_unread(&self, txg: u64, unread: &Unread) {
        let mut all = self.0.lock();
        let batch = all.entry(txg).or_default();
        batch.claim_txg = unread.claim_txg;
        batch.unread = Some(unread.clone());
    }

    /// Whether `txg` has something to write.
    pub(crate) fn is_dirty(&self, txg: u64) -> bool {
        self.0.lock().first_key_value().is_some_and(|(first, _)| *first <= txg)
    }

    /// Writes the records skipped in the log of dataset `id` up to the syncing txg.
    pub(crate) fn sync(&self, cx: &Cx<'_>, (name, id): (&str, u64)) -> Result<()> {
        let due = {
            let mut all = self.0.lock();
            let later = all.split_off(&(cx.txg() + 1));
            std::mem::replace(&mut *all, later)
        };
        for batch in due.into_values() {
            if !batch.numbers.is_empty() {
                put(cx, id, batch.claim_txg, batch.numbers)?;
            }
            if let Some(unread) = &batch.unread {
                cx.sync.history(UNREAD_EVENT, Some((name, id)), &unread_text(unread))?;
            }
            for text in batch.named.into_iter().chain(unnamed_texts(batch.claim_txg, batch.unnamed)) {
                cx.sync.history(SKIPPED_EVENT, Some((name, id)), &text)?;
            }
        }
        Ok(())
    }
}

fn unread_text(unread: &Unread) -> String {
    format!("claim_txg={} {unread}", unread.claim_txg)
}

/// Whether the pool's history already has the event about the unreadable part of the log of dataset
/// `id`.
pub(crate) fn is_unread_reported(pool: &Pool, id: u64, unread: &Unread) -> bool {
    let text = unread_text(unread);
    pool.history().unwrap_or_default().iter().any(|list| {
        list.get_str(keys::INTERNAL_NAME) == Some(UNREAD_EVENT)
            && list.get_u64(keys::DATASET_ID) == Some(id)
            && list.get_str(keys::INTERNAL_TEXT) == Some(&text)
    })
}

/// Reports that the unreadable part of the log of dataset `id` is given up.
pub(crate) fn report_discarded(cx: &Cx<'_>, (name, id): (&str, u64), unread: &Unread) -> Result<()> {
    cx.sync.history(DISCARDED_EVENT, Some((name, id)), &unread_text(unread))
}

fn entry_name(id: u64, n: usize) -> String {
    format!("weir:skipped_records:{id:x}:{n:x}")
}

/// Sorted ranges, both ends inclusive.
fn ranges(mut numbers: Vec<u64>) -> Vec<(u64, u64)> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run[run.len() - 1])).collect()
}

/// Adds `numbers` to the skipped records of a log.
fn put(cx: &Cx<'_>, id: u64, claim_txg: u64, numbers: Vec<u64>) -> Result<()> {
    let directory = cx.zap(DIRECTORY_OBJECT)?;
    let mut all = skipped_numbers(&directory, id, claim_txg)?;
    all.extend(numbers);
    for (n, some) in ranges(all).chunks(RANGES_PER_ENTRY).enumerate() {
        let words: Vec<u64> =
            std::iter::once(claim_txg).chain(some.iter().flat_map(|(first, last)| [*first, *last])).collect();
        directory.update(cx.tx(), entry_name(id, n), &ZapValue::words(&words))?;
    }
    Ok(())
}

/// Removes the numbers of skipped records of dataset `id`, whose log is freed.
pub(crate) fn forget_skipped(cx: &Cx<'_>, id: u64) -> Result<()> {
    let directory = cx.zap(DIRECTORY_OBJECT)?;
    for n in 0.. {
        match directory.remove(cx.tx(), entry_name(id, n)) {
            Ok(()) => {}
            Err(Error::NotFound { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Numbers of the records that a replay skipped for a reason of their own, from the pool's object
/// directory: those of the log of dataset `id` claimed in `claim_txg`.
pub(crate) fn skipped_numbers(directory: &Zap, id: u64, claim_txg: u64) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for n in 0.. {
        let Some(value) = directory.lookup(entry_name(id, n))? else { break };
        let Some((&claim, ranges)) = value.ints.split_first() else { break };
        if claim != claim_txg {
            break;
        }
        for range in ranges.chunks_exact(2) {
            let count = range[1].saturating_sub(range[0]);
            if range[0] > range[1] || count >= RECORDS_MAX - found.len() as u64 {
                let what = format!("records {} to {} of a log are skipped", range[0], range[1]);
                return Err(Error::corrupt(entry_name(id, n), what));
            }
            found.extend(range[0]..=range[1]);
        }
    }
    Ok(found)
}

/// The same with the reasons, as far as the pool's history still has them.
pub(super) fn skipped_records(pool: &Pool, id: u64, claim_txg: u64) -> Result<HashMap<u64, String>> {
    let mut found: HashMap<_, _> = skipped_numbers(pool.directory(), id, claim_txg)?
        .into_iter()
        .map(|sequence| (sequence, UNNAMED.to_owned()))
        .collect();
    if found.is_empty() {
        return Ok(found);
    }
    let of_dataset = |list: &Nvlist| {
        list.get_str(keys::INTERNAL_NAME) == Some(SKIPPED_EVENT) && list.get_u64(keys::DATASET_ID) == Some(id)
    };
    let prefix = format!("claim_txg={claim_txg} sequence=");
    for list in pool.history().unwrap_or_default().iter().filter(|list| of_dataset(list)) {
        let named = list.get_str(keys::INTERNAL_TEXT).and_then(|text| text.strip_prefix(&prefix)?.split_once(' '));
        if let Some((sequence, what)) = named
            && let Some(cause) = sequence.parse().ok().and_then(|sequence| found.get_mut(&sequence))
        {
            *cause = what.to_owned();
        }
    }
    Ok(found)
}

/// The texts of the events for records reported by number only.
fn unnamed_texts(claim_txg: u64, sequences: Vec<u64>) -> Vec<String> {
    let texts: Vec<String> = ranges(sequences)
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    texts.chunks(RANGES_PER_EVENT).map(|some| format!("claim_txg={claim_txg} sequences={}", some.join(","))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_many_records_stay_small() {
        assert_eq!(unnamed_texts(7, vec![9, 6, 7, 8, 12, 12]), ["claim_txg=7 sequences=6-9,12"]);
        assert_eq!(unnamed_texts(7, Vec::new()), [""; 0]);
        let texts = unnamed_texts(7, (1..=10_000).map(|n| n * 2).collect());
        assert_eq!(texts.len(), 10);
        assert!(texts.iter().all(|text| text.len() < 16 << 10));
    }
}
