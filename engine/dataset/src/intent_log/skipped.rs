//! Records that a replay skips, and how the pool's history names them.
//!
//! ```text
//!   intent log record skipped  claim_txg=7 sequence=5 record 5 of txg 6, TX_REMOVE "a" in directory 34: ...
//!   intent log record skipped  claim_txg=7 sequences=6-800,803
//! ```
//! The first [`NAMED_MAX`] have an event each, which says what was skipped and why. Of the rest only the numbers are noted, those of
//! a txg together: a log may hold thousands of records that cannot be replayed, and the history of a small pool has room for some
//! hundred events.

use crate::{Error, Result};
use ondisk::history::keys;
use ondisk::nvlist::Nvlist;
use pool::Pool;
use std::ops::RangeInclusive;

/// Skipped records that a replay reports one by one. Guessed: enough to see what is wrong.
pub const NAMED_MAX: usize = 20;
/// Ranges of numbers in one event: some 15 KiB at most, which fit into the history of any pool.
const RANGES_MAX: usize = 1000;
/// More records than this are in no log: a number read from disk is not to take all memory.
const RECORDS_MAX: u64 = 1 << 24;

/// Name of the events in the pool's history that report skipped records.
pub(crate) const SKIPPED_EVENT: &str = "intent log record skipped";
/// Why a record was skipped of which only the number was noted.
const UNNAMED: &str = "it could not be replayed";

/// A record that was not replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number in the log.
    pub sequence: u64,
    /// The txg in which it was done.
    pub txg: u64,
    /// Its type, as `zdb` prints it.
    pub kind: &'static str,
    /// What it is about.
    pub what: String,
    /// Why it was skipped.
    pub cause: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {} of txg {}, {} {}: {}", self.sequence, self.txg, self.kind, self.what, self.cause)
    }
}

/// The text of the event for a record of the log that was claimed in `claim_txg`.
pub(crate) fn named_text(claim_txg: u64, record: &Skipped) -> String {
    format!("claim_txg={claim_txg} sequence={} {record}", record.sequence)
}

/// The texts of the events for records of which only the numbers are noted.
pub(crate) fn unnamed_texts(claim_txg: u64, mut sequences: Vec<u64>) -> Vec<String> {
    sequences.sort_unstable();
    sequences.dedup();
    let ranges: Vec<String> = sequences
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    ranges.chunks(RANGES_MAX).map(|some| format!("claim_txg={claim_txg} sequences={}", some.join(","))).collect()
}

/// The numbers in the text of an event, and why those records were skipped. `None`: it is about the log of another claim.
fn parse(text: &str, claim_txg: u64) -> Option<(Vec<RangeInclusive<u64>>, &str)> {
    let (claim, rest) = text.strip_prefix("claim_txg=")?.split_once(' ')?;
    if claim.parse() != Ok(claim_txg) {
        return None;
    }
    if let Some(numbers) = rest.strip_prefix("sequences=") {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        return Some((numbers.split(',').filter_map(range).collect(), UNNAMED));
    }
    let (number, what) = rest.strip_prefix("sequence=")?.split_once(' ')?;
    let number = number.parse().ok()?;
    Some((vec![number..=number], what))
}

/// Records of the log of dataset `id` that was claimed in `claim_txg`, which a replay skipped for a reason of their own: numbers, and
/// what was reported.
pub(crate) fn skipped_records(pool: &Pool, id: u64, claim_txg: u64) -> Result<Vec<(u64, String)>> {
    let of_dataset = |list: &Nvlist| {
        list.get_str(keys::INTERNAL_NAME) == Some(SKIPPED_EVENT) && list.get_u64(keys::DATASET_ID) == Some(id)
    };
    let mut found = Vec::new();
    for list in pool.history()?.iter().filter(|list| of_dataset(list)) {
        let Some((ranges, what)) = list.get_str(keys::INTERNAL_TEXT).and_then(|text| parse(text, claim_txg)) else {
            continue;
        };
        for range in ranges {
            if range.end().saturating_sub(*range.start()) >= RECORDS_MAX - found.len() as u64 {
                return Err(Error::corrupt("history", format!("more than {RECORDS_MAX} skipped records of a log")));
            }
            found.extend(range.map(|sequence| (sequence, what.to_owned())));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_of_skipped_records_is_found_again() {
        let record = Skipped { sequence: 5, txg: 6, kind: "TX_REMOVE", what: "\"a b\"".into(), cause: "gone".into() };
        let text = named_text(7, &record);
        assert_eq!(parse(&text, 7), Some((vec![5..=5], "record 5 of txg 6, TX_REMOVE \"a b\": gone")));
        assert_eq!(parse(&text, 70), None);
        let texts = unnamed_texts(7, vec![9, 6, 7, 8, 12, 12]);
        assert_eq!(texts, ["claim_txg=7 sequences=6-9,12"]);
        assert_eq!(parse(&texts[0], 7), Some((vec![6..=9, 12..=12], UNNAMED)));
        assert_eq!(parse(&texts[0], 1), None);
        assert_eq!(unnamed_texts(7, Vec::new()), [""; 0]);
    }

    #[test]
    fn events_of_many_records_stay_small() {
        let texts = unnamed_texts(7, (1..=10_000).map(|n| n * 2).collect());
        assert_eq!(texts.len(), 10);
        assert!(texts.iter().all(|text| text.len() < 16 << 10));
        let found: usize = texts.iter().filter_map(|text| parse(text, 7)).map(|(ranges, _)| ranges.len()).sum();
        assert_eq!(found, 10_000);
    }
}
