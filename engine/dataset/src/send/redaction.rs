//! Merges the steps of the walk with redaction lists, in stream order.
//!
//! | a block is in                        | is sent as                                            |
//! |--------------------------------------|-------------------------------------------------------|
//! | the list of the stream               | REDACT, whether the walk visits it or not             |
//! | that list and the list of the base   | nothing: the receiver lacks it already                |
//! | the list of the base                 | what the snapshot has there, although it is unchanged |
//! | neither                              | what the walk found                                   |
//!
//! Facts: `find_next_range`, `send_merge_thread`, `send_reader_thread` in module/zfs/dmu_send.c.
//! OpenZFS 2.3 does not send the last block of an object that only the list of the base has; later
//! versions do.

use super::walk::{DataStep, SPILL, Step};
use crate::redact::RedactedBlocks;
use errors::{Error, Result};
use object::ObjectSet;
use ondisk::RedactBlock;
use std::sync::Arc;

/// What comes next in a redaction list.
struct Head {
    list: Option<RedactedBlocks>,
    next: Option<RedactBlock>,
}

impl Head {
    fn new(mut list: Option<RedactedBlocks>) -> Result<Self> {
        let next = list.as_mut().and_then(Iterator::next).transpose()?;
        Ok(Self { list, next })
    }

    /// Object and number of the next block.
    fn position(&self) -> Option<(u64, u64)> {
        self.next.map(|next| (next.object, next.first))
    }

    /// If `block` of `object` is the next one, the end of the blocks that follow it.
    fn end_at(&self, object: u64, block: u64) -> Option<u64> {
        self.next.filter(|next| (next.object, next.first) == (object, block)).map(|next| next.end())
    }

    /// Drops the blocks of `object` before block `end`.
    fn drop_before(&mut self, object: u64, end: u64) -> Result<()> {
        let Some(next) = &mut self.next else { return Ok(()) };
        if next.object != object || next.first >= end {
            return Ok(());
        }
        match next.end().checked_sub(end).filter(|count| *count > 0) {
            Some(count) => *next = RedactBlock { first: end, count, ..*next },
            None => self.next = self.list.as_mut().and_then(Iterator::next).transpose()?,
        }
        Ok(())
    }
}

/// Passes steps on to `sink`, changed as the lists require.
pub(super) struct Merge<'a> {
    set: &'a Arc<ObjectSet>,
    from_txg: u64,
    /// The list of the stream.
    redact: Head,
    /// The list of the bookmark that the stream is incremental from.
    base: Head,
    sink: &'a mut dyn FnMut(Step) -> Result<()>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        set: &'a Arc<ObjectSet>,
        from_txg: u64,
        redact: Option<RedactedBlocks>,
        base: Option<RedactedBlocks>,
        sink: &'a mut dyn FnMut(Step) -> Result<()>,
    ) -> Result<Self> {
        Ok(Self { set, from_txg, redact: Head::new(redact)?, base: Head::new(base)?, sink })
    }

    pub(super) fn step(&mut self, step: Step) -> Result<()> {
        match &step {
            Step::Range { first: object, .. } | Step::Object { id: object, .. } => self.lists_before(*object, 0)?,
            // Unchanged spill blocks are sent with their object.
            Step::Data(data) if data.block == SPILL && data.bp.logical_birth().0 <= self.from_txg => {}
            Step::Data(data) => {
                let (object, block) = (data.object, data.block);
                self.lists_before(object, block)?;
                if self.redacted(object, block, block.saturating_add(1))?.is_some() {
                    return Ok(());
                }
                self.base.drop_before(object, block.saturating_add(1))?;
            }
            Step::Hole { object: 0, start, .. } => {
                self.lists_before(start.saturating_mul(ondisk::dnode::SLOTS_PER_BLOCK), 0)?;
            }
            Step::Hole { object, start, end, .. } | Step::Redact { object, start, end, .. } => {
                let (object, start, end) = (*object, *start, *end);
                return self.absent(&step, object, start, end);
            }
        }
        (self.sink)(step)
    }

    /// Passes on what the lists have after the last step.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.lists_before(u64::MAX, u64::MAX)
    }

    /// A hole, or a redacted part, of the snapshot. `end`: 0 is the end of all blocks.
    fn absent(&mut self, step: &Step, object: u64, start: u64, end: u64) -> Result<()> {
        self.lists_before(object, start)?;
        let last = if end == 0 { u64::MAX } else { end };
        let mut at = start;
        while at < last {
            if let Some(until) = self.redacted(object, at, last)? {
                at = until;
                continue;
            }
            // Up to where the blocks of the list begin.
            let until = self.redact.next.filter(|next| next.object == object).map_or(last, |next| next.first.min(last));
            self.base.drop_before(object, until)?;
            let end = if until == last { end } else { until };
            (self.sink)(match *step {
                Step::Redact { block_bytes, .. } => Step::Redact { object, start: at, end, block_bytes },
                Step::Hole { block_bytes, .. } => Step::Hole { object, start: at, end, block_bytes },
                _ => unreachable!("only these have no contents"),
            })?;
            at = until;
        }
        Ok(())
    }

    /// Passes on what the lists have before a block.
    fn lists_before(&mut self, object: u64, block: u64) -> Result<()> {
        loop {
            let Some(first) = [self.redact.position(), self.base.position()].into_iter().flatten().min() else {
                return Ok(());
            };
            if first >= (object, block) {
                return Ok(());
            }
            let limit = if first.0 == object { block } else { u64::MAX };
            if self.redacted(first.0, first.1, limit)?.is_some() {
                continue;
            }
            // Only the base lacks these.
            let end = self.base.end_at(first.0, first.1).expect("one of the lists begins here").min(limit);
            let next = self.redact.next.filter(|next| next.object == first.0).map_or(end, |next| next.first.min(end));
            self.base.drop_before(first.0, next)?;
            self.again(first.0, first.1, next)?;
        }
    }

    /// If the list of the stream has `block`, leaves out its blocks up to `limit` and returns the
    /// end of what was left out.
    fn redacted(&mut self, object: u64, block: u64, limit: u64) -> Result<Option<u64>> {
        let Some(end) = self.redact.end_at(object, block) else { return Ok(None) };
        let block_bytes = self.redact.next.map_or(0, |next| u64::from(next.block_bytes));
        let (base_begins, base_ends) = match &self.base.next {
            Some(base) if base.object == object => (base.first, base.end()),
            _ => (u64::MAX, u64::MAX),
        };
        let is_known = base_begins <= block;
        let end = end.min(limit).min(if is_known { base_ends } else { base_begins });
        self.redact.drop_before(object, end)?;
        self.base.drop_before(object, end)?;
        if !is_known {
            (self.sink)(Step::Redact { object, start: block, end, block_bytes })?;
        }
        Ok(Some(end))
    }

    /// Sends blocks that the base was redacted of, if the snapshot still has them.
    fn again(&mut self, id: u64, start: u64, end: u64) -> Result<()> {
        let object = match self.set.object(id) {
            // Its end was sent as such.
            Err(Error::NotFound { .. }) => return Ok(()),
            found => found?,
        };
        let (bytes, dnode) = (object.block_bytes().max(1), object.dnode());
        let end = end.min(dnode.max_block_id.saturating_add(1));
        let mut at = start;
        while at < end {
            let data = object.next_data(at.saturating_mul(bytes))?;
            let next = data.map_or(end, |offset| (offset / bytes).clamp(at, end));
            if next > at {
                (self.sink)(Step::Hole { object: id, start: at, end: next, block_bytes: bytes })?;
                at = next;
                continue;
            }
            let bp = object.block_pointer(0, at)?;
            let next = at + 1;
            (self.sink)(if bp.is_hole() {
                Step::Hole { object: id, start: at, end: next, block_bytes: bytes }
            } else if bp.is_redacted() {
                Step::Redact { object: id, start: at, end: next, block_bytes: bytes }
            } else {
                Step::Data(DataStep { object: id, object_type: dnode.object_type, block: at, bytes, bp })
            })?;
            at = next;
        }
        Ok(())
    }
}
