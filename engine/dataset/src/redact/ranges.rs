//! The blocks of a snapshot that a later state has changed: one ordered list of ranges for each
//! redaction snapshot, and the ranges that all of them have in common.
//!
//! ```text
//!   block      1  2  3  4  5  6  7  8
//!   clone a       [===============]      common to both: 4 to 5, and 7
//!   clone b             [=====]  [==]
//! ```
//! Facts: `redact_cb`, `perform_thread_merge` in module/zfs/dmu_redact.c.

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::send::walk::{SPILL, Step, Walk};
use errors::{Error, Place, Result};
use host::channel::{Receiver, Sender};
use ondisk::ObjsetKind;
use ondisk::dnode::SLOTS_PER_BLOCK;
use std::collections::HashSet;

/// Object and number of a block. Ordered as in streams.
pub(super) type Position = (u64, u64);

/// Consecutive blocks, possibly of several objects: a whole object ends with block `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub first: Position,
    /// The last one, inclusive.
    pub last: Position,
}

impl Range {
    /// All blocks of the objects `first` to `last`.
    fn objects(first: u64, last: u64) -> Self {
        Self { first: (first, 0), last: (last, u64::MAX) }
    }

    /// Whether `next` continues this range.
    fn continues_with(&self, next: &Self) -> bool {
        match self.last {
            (object, u64::MAX) => object.checked_add(1) == Some(next.first.0) && next.first.1 == 0,
            (object, block) => (object, block + 1) == next.first,
        }
    }
}

/// Sends the ranges of `by` that changed after `since_txg`, from block `from` on. Ends early if
/// the receiver is gone.
pub(super) fn changed(
    by: &Dataset,
    keys: &KeyStore,
    since_txg: u64,
    from: Position,
    out: &Sender<Result<Range>>,
) -> Result<()> {
    let set = by.objset(keys)?;
    let gone = match set.phys().kind {
        ObjsetKind::FileSystem => by.unlinked_objects(&set)?,
        _ => HashSet::new(),
    };
    let mut ranges = Ranges { gone, ignored: 0, from, pending: None, out };
    let walked = Walk {
        set: &set,
        root: &by.phys().bp,
        from_txg: since_txg,
        // Bonuses are of no interest, encrypted or not.
        is_raw: true,
        is_encrypted: by.crypto_object()?.is_some(),
        endian: set.phys().endian,
        resume: None,
        holes_past_end: true,
        sink: &mut |step| ranges.step(&step),
    }
    .run();
    walked.and_then(|()| ranges.finish()).at(by.name())
}

struct Ranges<'a> {
    /// Unlinked files: they count as deleted.
    gone: HashSet<u64>,
    /// An object that is redacted as a whole.
    ignored: u64,
    from: Position,
    /// May be continued by the next range.
    pending: Option<Range>,
    out: &'a Sender<Result<Range>>,
}

impl Ranges<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Range { .. } => Ok(()),
            Step::Object { id, dnode, .. } if dnode.is_none() || self.gone.contains(id) => {
                self.ignored = *id;
                self.add(Range::objects(*id, *id))
            }
            Step::Object { .. } => Ok(()),
            Step::Hole { object: 0, start, end, .. } => {
                let first = start.saturating_mul(SLOTS_PER_BLOCK).max(1);
                let last = end.checked_sub(1).and_then(|last| last.checked_mul(SLOTS_PER_BLOCK));
                self.add(Range::objects(first, last.map_or(u64::MAX, |last| last | (SLOTS_PER_BLOCK - 1))))
            }
            Step::Data(data) if data.object == self.ignored || data.block == SPILL => Ok(()),
            Step::Data(data) => self.add(Range { first: (data.object, data.block), last: (data.object, data.block) }),
            Step::Hole { object, .. } | Step::Redact { object, .. } if *object == self.ignored => Ok(()),
            Step::Hole { object, start, end, .. } | Step::Redact { object, start, end, .. } => {
                self.add(Range { first: (*object, *start), last: (*object, end.wrapping_sub(1)) })
            }
        }
    }

    fn add(&mut self, mut range: Range) -> Result<()> {
        if range.last < self.from {
            return Ok(());
        }
        range.first = range.first.max(self.from);
        match &mut self.pending {
            Some(pending) if pending.continues_with(&range) => pending.last = range.last,
            pending => {
                if let Some(range) = pending.replace(range) {
                    self.send(range)?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.pending.take().map_or(Ok(()), |range| self.send(range))
    }

    fn send(&self, range: Range) -> Result<()> {
        self.out.send(Ok(range)).map_err(|_| Error::invalid("", "the redaction has ended"))
    }
}

/// Calls `emit` with the ranges that all sources have in common, in order.
pub(super) fn common(sources: &[Receiver<Result<Range>>], emit: &mut dyn FnMut(Range) -> Result<()>) -> Result<()> {
    let mut heads = Vec::new();
    for source in sources {
        match source.recv() {
            Ok(range) => heads.push(range?),
            // What one of them did not change is not redacted.
            Err(_) => return Ok(()),
        }
    }
    loop {
        let first = heads.iter().map(|range| range.first).max();
        let ends_first =
            heads.iter().enumerate().min_by_key(|(_, range)| range.last).map(|(at, range)| (at, range.last));
        let (Some(first), Some((at, last))) = (first, ends_first) else { return Ok(()) };
        if first <= last {
            emit(Range { first, last })?;
        }
        match sources[at].recv() {
            Ok(range) => heads[at] = range?,
            Err(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::channel::bounded;

    fn range(first: Position, last: Position) -> Range {
        Range { first, last }
    }

    fn common_of(lists: &[&[Range]]) -> Vec<Range> {
        let sources: Vec<_> = lists
            .iter()
            .map(|list| {
                let (into, out) = bounded(list.len().max(1));
                list.iter().for_each(|range| into.send(Ok(*range)).unwrap());
                out
            })
            .collect();
        let mut found = Vec::new();
        common(&sources, &mut |range| {
            found.push(range);
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn only_what_all_have_changed_is_common() {
        let a = [range((2, 2), (2, 7)), range((9, 0), (9, u64::MAX))];
        let b = [range((2, 4), (2, 5)), range((2, 7), (2, 8)), range((3, 0), (12, u64::MAX))];
        let expected = [range((2, 4), (2, 5)), range((2, 7), (2, 7)), range((9, 0), (9, u64::MAX))];
        assert_eq!(common_of(&[&a, &b]), expected);
        assert_eq!(common_of(&[&b, &a]), expected);
        assert_eq!(common_of(&[&a]), a);
        assert_eq!(common_of(&[&a, &[]]), []);
    }

    #[test]
    fn whole_objects_in_sequence_are_one_range() {
        let (out, ranges_out) = bounded(9);
        let mut ranges = Ranges { gone: HashSet::new(), ignored: 0, from: (4, 7), pending: None, out: &out };
        for next in [
            range((4, 2), (4, 3)),
            range((4, 5), (4, 9)),
            range((4, 10), (4, 10)),
            Range::objects(6, 6),
            Range::objects(7, 31),
            range((32, 1), (32, 1)),
        ] {
            ranges.add(next).unwrap();
        }
        ranges.finish().unwrap();
        drop(out);
        let found: Vec<_> = std::iter::from_fn(|| ranges_out.recv().ok()).map(|range| range.unwrap()).collect();
        let expected = [range((4, 7), (4, 10)), Range::objects(6, 31), range((32, 1), (32, 1))];
        assert_eq!(found, expected);
    }
}
