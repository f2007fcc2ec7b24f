//! Redaction: lists the blocks of a snapshot that each of several later states has changed, in a
//! redaction bookmark. Streams made with that bookmark leave these blocks out.
//!
//! ```text
//!   walks (a thread for each redaction snapshot) ── ranges that changed ──> common ranges
//!       ── blocks of the snapshot's objects ── entries ──> tasks that append to the list
//! ```
//! Below: `send::walk`, `write::redaction_list`. Above: `zfs redact`. ZFS name: dmu_redact. Facts:
//! module/zfs/dmu_redact.c.
//!
//! Invariants:
//!   * entries of the list are ordered and do not overlap; everything before the position in its
//!     header is in it
//!   * a list is changed by one redaction at a time, and its bookmark is not destroyed meanwhile
//!   * an interrupted redaction leaves an incomplete list, which the same request continues

mod list;
mod ranges;
mod refusal;

pub(crate) use list::{RedactedBlocks, header_of};
pub use refusal::NotRedacted;

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::live::LiveDatasets;
use crate::write::redaction::{self, Started};
use errors::{Error, Place, Refusal, Result};
use host::channel::bounded;
use object::ObjectSet;
use ondisk::{RedactBlock, RedactionList};
use ranges::{Position, Range};
use std::sync::Arc;

/// Ranges of one redaction snapshot that wait for the others. Guessed.
const RANGES_AHEAD: usize = 1024;
/// Entries appended in one txg: a block of the list.
const ENTRIES_PER_TASK: usize = (128 << 10) / RedactBlock::SIZE_BYTES;

/// Creates bookmark `short` of `snapshot`, with the blocks of it that all states in `by` have
/// changed: snapshots of clones, later snapshots, or heads.
///
/// Continues a redaction that was interrupted. Everything must be synced. `should_stop`: ends the
/// redaction early, with [`Refusal::Stale`].
pub fn redact(
    live: &LiveDatasets,
    snapshot: &str,
    short: &str,
    by: &[String],
    should_stop: &dyn Fn() -> bool,
) -> std::result::Result<(), NotRedacted> {
    // Blocks that are freed meanwhile must not be overwritten.
    let kept = live.writer().allocator().keep_freed();
    let tree = live.synced()?;
    let open = |name: &str| match tree.dataset(name) {
        Ok(dataset) => Ok(dataset),
        Err(Error::NotFound { .. }) => Err(NotRedacted::Missing),
        Err(Error::Invalid { .. }) => Err(NotRedacted::NotDescendant),
        Err(error) => Err(error.into()),
    };
    let of = open(snapshot)?;
    if !of.is_snapshot() {
        return Err(NotRedacted::NotDescendant);
    }
    check_unredacted(&of)?;
    let pool = snapshot.split(['/', '@']).next();
    let (mut sources, mut guids) = (Vec::new(), Vec::<u64>::new());
    for name in by {
        if name.split(['/', '@']).next() != pool {
            return Err(NotRedacted::OtherPool);
        }
        let later = open(name)?;
        if !later.is_after(&of, of.phys().creation_txg.0)? || later.id() == of.id() {
            return Err(NotRedacted::NotDescendant);
        }
        check_unredacted(&later)?;
        if sources.iter().all(|known: &Dataset| known.id() != later.id()) {
            guids.push(later.phys().guid);
            sources.push(later);
        }
    }
    let set = of.objset(live.keys())?;
    let started = redaction::start(live, &of, short, &guids)?;
    let mut writer = ListWriter { live, started: &started, set, entries: Vec::new(), recent: None };
    let from = started.from;
    let ended = merge(&sources, live.keys(), of.phys().creation_txg.0, from, &mut |range| match (
        should_stop(),
        kept.holds(),
    ) {
        (true, _) => Err(Refusal::Stale.at(snapshot)),
        (_, false) => Err(Error::invalid(snapshot, "the pool is too full to keep space that is freed meanwhile")),
        _ => writer.add(range),
    });
    ended.and_then(|()| writer.append(RedactionList::COMPLETE)).at(snapshot)?;
    Ok(())
}

fn check_unredacted(dataset: &Dataset) -> std::result::Result<(), NotRedacted> {
    match dataset.redacted_by()? {
        Some(_) => Err(NotRedacted::Redacted),
        None => Ok(()),
    }
}

/// Calls `emit` with what all of `sources` changed after `txg`, from block `from` on.
fn merge(
    sources: &[Dataset],
    keys: &KeyStore,
    txg: u64,
    from: Position,
    emit: &mut dyn FnMut(Range) -> Result<()>,
) -> Result<()> {
    host::threads::scope(|scope| {
        let mut receivers = Vec::new();
        for source in sources {
            let (out, ranges) = bounded::<Result<Range>>(RANGES_AHEAD);
            receivers.push(ranges);
            scope.spawn(move || {
                if let Err(error) = ranges::changed(source, keys, txg, from, &out) {
                    // Without a receiver, the redaction has ended early.
                    let _ = out.send(Err(error));
                }
            });
        }
        let merged = ranges::common(&receivers, emit);
        // Ends the walks, if it has ended before them.
        drop(receivers);
        merged
    })
}

/// Turns ranges into entries for the objects of the snapshot, and appends them to the list.
struct ListWriter<'a> {
    live: &'a LiveDatasets,
    started: &'a Started,
    /// Contents of the snapshot.
    set: Arc<ObjectSet>,
    /// Not yet appended.
    entries: Vec<RedactBlock>,
    /// The object of the latest entry: its number, block size and last block.
    recent: Option<(u64, u32, u64)>,
}

impl ListWriter<'_> {
    fn add(&mut self, range: Range) -> Result<()> {
        let ((first, first_block), (last, last_block)) = (range.first, range.last);
        let mut next = match self.recent {
            Some((object, ..)) if object == first => Some(object),
            _ => self.set.next_object(first.saturating_sub(1))?,
        };
        while let Some(object) = next.filter(|object| *object <= last) {
            let known = self.recent.filter(|(recent, ..)| *recent == object);
            let shape = known.map_or_else(|| self.shape(object), |known| Ok(Some(known)))?;
            if let Some((_, block_bytes, max_block)) = shape {
                self.recent = shape;
                let start = if object == first { first_block } else { 0 };
                let end = if object == last { last_block.min(max_block) } else { max_block };
                if start <= end {
                    self.add_blocks(RedactBlock { object, first: start, count: end - start + 1, block_bytes })?;
                }
            }
            if object == last {
                break;
            }
            next = self.set.next_object(object)?;
        }
        Ok(())
    }

    /// Number, block size and last block of an object; `None` for metadata, which is never
    /// redacted.
    fn shape(&self, object: u64) -> Result<Option<(u64, u32, u64)>> {
        let dnode = self.set.dnode(object)?;
        Ok((!dnode.object_type.is_metadata()).then_some((object, dnode.data_block_bytes, dnode.max_block_id)))
    }

    fn add_blocks(&mut self, mut blocks: RedactBlock) -> Result<()> {
        while blocks.count > 0 {
            let piece = RedactBlock { count: blocks.count.min(RedactBlock::COUNT_MAX), ..blocks };
            blocks.first = piece.end();
            blocks.count -= piece.count;
            match self.entries.last_mut() {
                Some(before)
                    if before.object == piece.object
                        && before.end() == piece.first
                        && before.count + piece.count <= RedactBlock::COUNT_MAX =>
                {
                    before.count += piece.count;
                }
                _ => self.entries.push(piece),
            }
        }
        match self.entries.last() {
            Some(last) if self.entries.len() >= ENTRIES_PER_TASK => self.append((last.object, last.end())),
            _ => Ok(()),
        }
    }

    /// Appends the entries; `position`: everything before it is then in the list.
    fn append(&mut self, position: Position) -> Result<()> {
        redaction::append(self.live, self.started, std::mem::take(&mut self.entries), position)
    }
}
