//! One batch of a scan: the blocks that the walk found since the last position, examined in the
//! order of devices.
//!
//! Invariants:
//!   * a position is stored only when all blocks found before it were examined, and none of them
//!     was reallocated meanwhile

use super::figures::Figures;
use super::issue::{self, Found};
use super::state::{State, is_active, is_paused};
use super::stop::Stop;
use super::transitions::{self, End};
use crate::scan::dsl_scan::{self, Ended, Position, Readers, Sink};
use crate::writer::Shared;
use block::Bookmark;
use errors::Result;
use host::clock::Instant;
use ondisk::BlkPtr;
use ondisk::scan::ScanFunction;
use std::sync::Arc;
use std::time::Duration;

/// Target duration of the reads of a batch: longer means more sequential reads, shorter means that
/// less is repeated after a stop. Guessed.
const AIM: Duration = Duration::from_secs(20);
/// Limit for the time of gathering blocks.
const GATHER_MAX: Duration = Duration::from_secs(30);
/// Minimum size of a batch, and size of the first one, in bytes.
const BYTES_MIN: u64 = 64 << 20;
const BYTES_FIRST: u64 = 1 << 30;
/// Limit for the blocks of a batch, per MiB of cache: they take at most 1/16 of the cache's size.
const BLOCKS_PER_MIB: u64 = (1 << 20) / 16 / size_of::<Found>() as u64;
const BLOCKS: std::ops::Range<u64> = 10_000..400_000;

/// Limits for the size of a batch.
pub(super) struct Size {
    bytes: u64,
    blocks: usize,
}

impl Size {
    pub fn new(shared: &Shared) -> Self {
        let cache_mib = shared.store.cache().counters().cap_bytes >> 20;
        let blocks = (cache_mib * BLOCKS_PER_MIB).clamp(BLOCKS.start, BLOCKS.end) as usize;
        Self { bytes: BYTES_FIRST, blocks }
    }

    pub fn shrink(&mut self) {
        self.bytes = (self.bytes / 4).max(BYTES_MIN);
    }

    fn learn(&mut self, bytes: u64, took: Duration) {
        let aim = bytes as f64 * AIM.as_secs_f64() / took.as_secs_f64().max(0.001);
        self.bytes = (aim as u64).clamp(BYTES_MIN, self.bytes.saturating_mul(2));
    }
}

/// Result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its position was stored.
    Kept,
    /// It was stopped, or its scan has ended.
    Stopped,
    /// The pool needed the space of blocks that were freed meanwhile.
    LostHold,
}

struct Gather<'a> {
    shared: &'a Shared,
    figures: &'a Figures,
    stop: &'a Stop<'a>,
    function: ScanFunction,
    found: Vec<Found>,
    bytes: u64,
    size: &'a Size,
    until: Instant,
}

impl Sink for Gather<'_> {
    fn found(&mut self, bp: &BlkPtr, at: &Bookmark) {
        let bytes = bp.asize_bytes();
        let is_needed = self.function != ScanFunction::Resilver || self.shared.store.lacks(bp);
        self.figures.examined(bytes, !is_needed);
        if is_needed {
            self.bytes += bytes;
            self.found.push(Found { bp: *bp, at: *at });
        }
    }

    fn broken(&mut self, at: &Bookmark, birth: u64, was_found: bool, error: &errors::Error) {
        if !was_found {
            self.figures.error();
            self.shared.background.scan.errors.add(at, birth, true);
        }
        tracing::warn!(pool = %self.shared.store.name(), block = %at, %error, "the scan cannot read below a block");
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.size.blocks
            || self.bytes >= self.size.bytes
            || (Instant::now() >= self.until && !self.found.is_empty())
            || self.stop.soon()
    }
}

/// Runs the next batch of the active scan.
pub(super) fn run(shared: &Arc<Shared>, readers: &Readers, size: &mut Size) -> Result<Outcome> {
    let kept = shared.allocator.keep_freed();
    // The position must exist in the view: wait for the txg that last changed it.
    let (pool, mut place, generation) = loop {
        let pool = shared.pool()?;
        let view = pool.uberblock().txg.0;
        let wait_for = {
            let mut state = shared.background.scan.state.lock();
            let Some(scan) = state.scan.filter(|s| is_active(s) && !is_paused(s)) else { return Ok(Outcome::Stopped) };
            if state.changed_txg <= view {
                state.in_batch = true;
                state.changes.clear();
                break (pool, Position { scan, queue: state.queue.clone() }, state.generation);
            }
            state.changed_txg
        };
        shared.wait(wait_for)?;
    };
    let stop = Stop::new(shared, generation);
    let figures = shared.background.scan.figures.clone();
    let mut gather = Gather {
        shared,
        figures: &figures,
        stop: &stop,
        function: place.scan.function,
        found: Vec::new(),
        bytes: 0,
        size,
        until: Instant::now() + GATHER_MAX,
    };
    let walked = dsl_scan::visit(&pool, readers, &mut place, &mut gather);
    let (found, bytes) = (std::mem::take(&mut gather.found), gather.bytes);
    let forget = |state: &mut State| {
        if state.generation == generation {
            state.in_batch = false;
            state.changes.clear();
            if let Some(scan) = &state.scan {
                figures.reset(scan);
            }
        }
    };
    let ended = match walked {
        Ok(ended) if !stop.now() => ended,
        other => {
            forget(&mut shared.background.scan.state.lock());
            return other.map(|_| Outcome::Stopped);
        }
    };
    let begun = Instant::now();
    let done = issue::issue(shared, &kept, place.scan.function, found, &stop);
    if !done || !kept.holds() {
        forget(&mut shared.background.scan.state.lock());
        return Ok(if kept.holds() { Outcome::Stopped } else { Outcome::LostHold });
    }
    size.learn(bytes, begun.elapsed());
    drop(kept);
    shared.change_scan(move |cx, state| {
        // Another scan began, or the scan ended, while this waited.
        if state.generation != generation {
            return Ok(Outcome::Stopped);
        }
        state.in_batch = false;
        transitions::advance(cx, state, place)?;
        if ended == Ended::Done && state.queue.is_empty() && is_finished(state) {
            transitions::end(cx, state, End::Complete)?;
        }
        Ok(Outcome::Kept)
    })
}

/// Whether nothing is left: a dataset that changed while the last batch ran may have added work.
fn is_finished(state: &State) -> bool {
    state.scan.is_some_and(|s| s.bookmark.objset == dsl_scan::NO_OBJSET)
}
