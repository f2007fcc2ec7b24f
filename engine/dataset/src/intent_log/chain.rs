//! Walking the chain of log blocks, with or without the dataset's key.
//!
//! The end of the chain is a block that fails its checksum; there is no other end marker. A chain
//! that an import claimed ends where that import's walk ended, even if more can be read now. A walk
//! that stops earlier lacks records that are in the log: their device is missing or damaged. ZFS
//! name: zil_parse.

use block::Bookmark;
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::zil::{LogBlock, Record};
use ondisk::{BlkPtr, ZilHeader};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Maximum number of blocks followed: 1 million of 128 KiB.
const BLOCKS_MAX: u64 = 1 << 20;
/// Level of log blocks in bookmarks.
pub(super) const LOG_LEVEL: i64 = -2;

/// What a walk visits, in order.
pub(super) enum Step<'a> {
    /// A block pointer in the chain. The block is not read yet; if it is the last, it was never
    /// written.
    Pointer(&'a BlkPtr),
    /// A record of the block whose pointer was visited last.
    Record(&'a BlkPtr, ondisk::Result<Record<'a>>),
    /// End of a block of this many bytes: all its records were visited.
    End(u64),
}

/// Why a log ends before its end.
///
/// The end of a chain is a block whose checksum does not match, and a damaged block is just that.
/// What is known beyond: the claim of an import says how far its walk came, and a device that
/// cannot be read differs from one with other contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The txg in which an import claimed the log; 0: it is not claimed.
    pub claim_txg: u64,
    /// Number of the block that cannot be read.
    pub block: u64,
    /// The last claimed block.
    pub last_block: Option<u64>,
    /// Number of the last record found; 0: none.
    pub record: u64,
    /// The last claimed record, if the header has its number.
    pub last_record: Option<u64>,
    pub cause: String,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { claim_txg, block, last_block, record, last_record, cause } = self;
        write!(f, "block {block} of the intent log cannot be read ({cause}): ")?;
        match (last_record, last_block) {
            (Some(last), _) => write!(
                f,
                "the last record found is {record}, expected {last}, which the import in txg {claim_txg} found"
            ),
            (None, Some(last)) => {
                write!(f, "the last block expected is {last}, which the import in txg {claim_txg} found")
            }
            (None, None) => write!(f, "the last record found is {record}; more may follow"),
        }
    }
}

/// The result of a walk.
#[derive(Debug, Clone, Default)]
pub(super) struct Walked {
    /// Block pointers visited, including the unwritten last one.
    pub pointers: u64,
    /// Number of the last block.
    pub max_block: u64,
    pub records: u64,
    /// Number of the last record.
    pub max_record: u64,
    /// Why the last block could not be read, if so.
    failed: Option<Error>,
}

impl Walked {
    /// Why a walk of the claimed chain of `header` ended before the claim did. `None`: it
    /// reached the end, or everything beyond is already replayed.
    pub fn stopped(&self, header: &ZilHeader) -> Option<Error> {
        let is_whole = match last_record(header) {
            Some(last) => self.max_record.max(header.replay_seq) >= last,
            None => self.max_block >= header.claim_block_seq,
        };
        if header.claim_txg.0 == 0 || is_whole {
            return None;
        }
        let cut =
            || Error::corrupt(format!("log block {}", self.max_block), "the log ends before the end of its claim");
        Some(self.failed.clone().unwrap_or_else(cut))
    }

    /// What is known to be missing, or may be because a device cannot be read, after the end of
    /// the walk.
    pub fn unread(&self, header: &ZilHeader) -> Option<Unread> {
        let claim_txg = header.claim_txg.0;
        let device = || self.failed.clone().filter(|e| claim_txg == 0 && is_device(e));
        let error = self.stopped(header).or_else(device)?;
        Some(Unread {
            claim_txg,
            block: self.max_block,
            last_block: (claim_txg != 0).then_some(header.claim_block_seq),
            record: self.max_record,
            last_record: last_record(header),
            cause: error.to_string(),
        })
    }

    /// `header`, shortened to end where the walk ended.
    pub fn shortened(&self, header: &ZilHeader) -> ZilHeader {
        ZilHeader {
            claim_block_seq: self.max_block,
            claim_record_seq: self.max_record,
            flags: header.flags | ZilHeader::FLAG_CLAIM_RECORD_SEQ_VALID,
            ..*header
        }
    }
}

/// Whether a device failed or is missing, in contrast to one that has other contents.
fn is_device(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::Missing { .. })
}

/// Number of the last claimed record, if the header has a claim.
pub(super) fn last_record(header: &ZilHeader) -> Option<u64> {
    let is_known = header.claim_txg.0 != 0 && header.flags & ZilHeader::FLAG_CLAIM_RECORD_SEQ_VALID != 0;
    is_known.then_some(header.claim_record_seq)
}

/// Walks the chain of `header`. `each` may stop it; the record that stopped it is not counted.
///
/// With `is_open`, records are decrypted with the keys of `objset`; otherwise the bodies of records
/// of encrypted datasets stay encrypted.
pub(super) fn walk(
    objset: &ObjectSet,
    header: &ZilHeader,
    is_open: bool,
    each: &mut dyn FnMut(Step<'_>) -> Result<ControlFlow<()>>,
) -> Result<Walked> {
    let last_block = if header.claim_txg.0 != 0 { header.claim_block_seq } else { u64::MAX };
    let last_record = last_record(header).unwrap_or(u64::MAX);
    let mut walked = Walked::default();
    let mut seen = HashSet::new();
    let mut bp = header.log;
    while !bp.is_hole() && walked.pointers < BLOCKS_MAX {
        let number = bp.checksum()[3];
        // Numbers increase by one, so numbers cannot form a cycle; addresses could.
        if number > last_block || !seen.insert((bp.dva(0), number)) {
            break;
        }
        if each(Step::Pointer(&bp))?.is_break() {
            break;
        }
        walked.pointers += 1;
        walked.max_block = number;
        if walked.max_record == last_record && number == last_block {
            break;
        }
        let block = match read_block(objset, &bp, is_open) {
            Ok(block) => block,
            Err(error) => {
                walked.failed = Some(error);
                break;
            }
        };
        let parsed = match LogBlock::parse(&block, &bp) {
            Ok(parsed) => parsed,
            Err(error) => {
                walked.failed = Some(error.into());
                break;
            }
        };
        for record in parsed.records() {
            let sequence = record.as_ref().map_or(0, |r| r.sequence);
            let is_whole = record.is_ok();
            if sequence > last_record || each(Step::Record(&bp, record))?.is_break() || !is_whole {
                return Ok(walked);
            }
            walked.records += 1;
            walked.max_record = sequence;
        }
        if each(Step::End(block.len() as u64))?.is_break() {
            break;
        }
        bp = parsed.next;
    }
    Ok(walked)
}

/// Reads a log block, raw or decrypted. A failure of the last block is no damage, so no error is
/// counted.
fn read_block(objset: &ObjectSet, bp: &BlkPtr, is_open: bool) -> Result<Vec<u8>> {
    let at = Bookmark { objset: objset.id(), object: 0, level: LOG_LEVEL, blkid: bp.checksum()[3] };
    let mut block = objset.store().read_unopened(bp, &at)?.data.to_vec();
    if is_open && let Some(keys) = objset.keys() {
        keys.open_block(bp, &mut block).at_with(|| format!("log block {at}"))?;
    }
    Ok(block)
}
