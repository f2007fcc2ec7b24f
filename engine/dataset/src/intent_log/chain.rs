//! Walking the chain of log blocks, with or without the dataset's key.
//!
//! The chain's end is a block that does not pass its checksum; nothing else tells it. A chain that an import claimed
//! ends where that import's walk ended, even if more can be read now. ZFS name: zil_parse.

use crate::{Place, Result};
use object::{Bookmark, ObjectSet};
use ondisk::zil::{LogBlock, Record};
use ondisk::{BlkPtr, ZilHeader};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Blocks followed at most: 1 million of 128 KiB.
const BLOCKS_MAX: u64 = 1 << 20;
/// Level of log blocks in bookmarks.
pub(super) const LOG_LEVEL: i64 = -2;

/// What a walk meets, in order.
pub(super) enum Step<'a> {
    /// A block's pointer: the chain leads to it. It is not read yet, and if it is the last, it was never written.
    Pointer(&'a BlkPtr),
    /// A record of the block whose pointer came last.
    Record(&'a BlkPtr, ondisk::Result<Record<'a>>),
    /// All records of a block of so many bytes were seen.
    End(u64),
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Walked {
    /// Blocks whose pointers were seen, the unwritten last one included.
    pub pointers: u64,
    /// Number of the last one.
    pub max_block: u64,
    /// Records seen.
    pub records: u64,
    /// Number of the last one.
    pub max_record: u64,
}

/// Walks the chain of `header`. `each` may stop it; a stopped record is not counted.
///
/// With `is_open`, records are decrypted with the keys of `objset`; otherwise those of encrypted datasets keep their bodies secret.
pub(super) fn walk(
    objset: &ObjectSet,
    header: &ZilHeader,
    is_open: bool,
    each: &mut dyn FnMut(Step<'_>) -> Result<ControlFlow<()>>,
) -> Result<Walked> {
    let is_claimed = header.claim_txg.0 != 0;
    let last_block = if is_claimed { header.claim_block_seq } else { u64::MAX };
    let knows_last_record = is_claimed && header.flags & ZilHeader::FLAG_CLAIM_RECORD_SEQ_VALID != 0;
    let last_record = if knows_last_record { header.claim_record_seq } else { u64::MAX };
    let mut walked = Walked::default();
    let mut seen = HashSet::new();
    let mut bp = header.log;
    while !bp.is_hole() && walked.pointers < BLOCKS_MAX {
        let number = bp.checksum()[3];
        // Numbers rise by one, so that a chain cannot come back to itself; its addresses could.
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
        let Ok(block) = read_block(objset, &bp, is_open) else { break };
        let Ok(parsed) = LogBlock::parse(&block, &bp) else { break };
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

/// A log block as it stands, or opened. That the last one fails is no damage, so nothing is counted as such.
fn read_block(objset: &ObjectSet, bp: &BlkPtr, is_open: bool) -> Result<Vec<u8>> {
    let at = Bookmark { objset: objset.id(), object: 0, level: LOG_LEVEL, blkid: bp.checksum()[3] };
    let mut block = objset.store().read_unopened(bp, &at)?.data.to_vec();
    if is_open && let Some(keys) = objset.keys() {
        keys.open_block(bp, &mut block).at_with(|| format!("log block {at}"))?;
    }
    Ok(block)
}
