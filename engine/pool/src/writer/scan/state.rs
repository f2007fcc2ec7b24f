//! The stored state of a scan and its changes, which are all made by the syncing thread.
//!
//! Format: `ondisk::scan`. Facts: `dsl_scan_setup_sync`, `dsl_scan_done`, `dsl_scan_sync_state`,
//! `dsl_scan_ds_destroyed` and similar functions (module/zfs/dsl_scan.c).
//!
//! Invariants:
//!   * OpenZFS can resume from the stored position: everything before it was examined, and all
//!     datasets that it names exist
//!   * dedup tables are not walked separately: their blocks are examined wherever they are
//!     referenced

use super::{Change, ScanRefused, Scans, State, is_active, is_paused};
use crate::scan::dsl_scan::{NO_OBJSET, Position};
use crate::writer::detach;
use crate::writer::tx::SyncTx;
use block::vdev::Leaf;
use block::zevent::class;
use errors::Result;
use object::zap::{Zap, ZapSpec};
use ondisk::errlog::ErrorBookmark;
use ondisk::pool_dir::directory;
use ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use ondisk::zap::Value as ZapValue;
use ondisk::{ObjectType, Txg};
use std::collections::BTreeMap;

/// The first position: the MOS.
pub(super) const START: ErrorBookmark = ErrorBookmark { objset: 0, object: 0, level: 0, block: 0 };

impl Change {
    /// Updates a position after a dataset was destroyed, snapshotted or swapped.
    fn apply(self, scan: &mut Scan, queue: &mut BTreeMap<u64, u64>) {
        let put = |queue: &mut BTreeMap<u64, u64>, id: u64, txg: u64| {
            // If there are two reasons to visit a dataset, the one that covers more applies.
            queue.entry(id).and_modify(|known| *known = (*known).min(txg)).or_insert(txg);
        };
        match self {
            Self::Destroyed { id, next } => {
                if scan.bookmark.objset == id {
                    match next {
                        Some(next) => {
                            scan.bookmark.objset = next;
                            scan.flags |= Scan::FLAG_VISIT_AGAIN;
                        }
                        None => scan.bookmark = ErrorBookmark { objset: NO_OBJSET, ..START },
                    }
                }
                if let Some(txg) = queue.remove(&id)
                    && let Some(next) = next
                {
                    put(queue, next, txg);
                }
            }
            Self::Snapshotted { head, snapshot } => {
                if scan.bookmark.objset == head {
                    scan.bookmark.objset = snapshot;
                }
                if let Some(txg) = queue.remove(&head) {
                    put(queue, snapshot, txg);
                }
            }
            Self::Swapped { a, b } => {
                if scan.bookmark.objset == a {
                    scan.bookmark.objset = b;
                } else if scan.bookmark.objset == b {
                    scan.bookmark.objset = a;
                }
                let (of_a, of_b) = (queue.remove(&a), queue.remove(&b));
                for (id, txg) in [(b, of_a), (a, of_b)] {
                    if let Some(txg) = txg {
                        put(queue, id, txg);
                    }
                }
            }
        }
    }
}

impl SyncTx<'_> {
    /// A dataset is destroyed. For a snapshot, `next` is the dataset after it.
    pub fn scan_destroyed(&self, id: u64, next: Option<u64>) -> Result<()> {
        if next.is_none() {
            super::error_log::forget_dataset(self, id)?;
        }
        self.scan_changed(Change::Destroyed { id, next })
    }

    /// `snapshot` was taken of `head`.
    pub fn scan_snapshotted(&self, head: u64, snapshot: u64) -> Result<()> {
        self.scan_changed(Change::Snapshotted { head, snapshot })
    }

    /// The contents of two heads were swapped.
    pub fn scan_swapped(&self, a: u64, b: u64) -> Result<()> {
        self.scan_changed(Change::Swapped { a, b })
    }

    fn scan_changed(&self, change: Change) -> Result<()> {
        let mut guard = self.shared.scan.state.lock();
        let state = &mut *guard;
        let Some(scan) = state.scan.as_mut().filter(|scan| is_active(scan)) else { return Ok(()) };
        if state.in_batch {
            state.changes.push(change);
        }
        let before = (*scan, state.queue.clone());
        change.apply(scan, &mut state.queue);
        if before != (*scan, state.queue.clone()) {
            state.changed_txg = self.txg();
            keep(self, state)?;
        }
        Ok(())
    }
}

/// Stores the position in the pool.
fn keep(cx: &SyncTx<'_>, state: &mut State) -> Result<()> {
    let Some(scan) = state.scan.as_mut() else { return Ok(()) };
    if is_active(scan) {
        if scan.queue_object != 0 {
            cx.mos().free_object(cx.tx(), scan.queue_object)?;
        }
        let queue = Zap::create(cx.mos(), cx.tx(), &ZapSpec::new(ObjectType::SCAN_QUEUE))?;
        for (id, txg) in &state.queue {
            queue.insert_u64(cx.tx(), format!("{id:x}"), *txg)?;
        }
        scan.queue_object = queue.id();
        // Behind the last class of dedup tables that is walked separately.
        scan.ddt_class_max = 0;
        scan.ddt_bookmark = [1, 0, 0, 0];
    }
    cx.directory()?.update(cx.tx(), directory::SCAN, &ZapValue::words(&scan.to_words()))
}

pub(super) fn keep_error_scrub(cx: &SyncTx<'_>, scrub: Option<&ErrorScrub>) -> Result<()> {
    let words = scrub.map_or([0; 9], |s| {
        let (function, state) = (s.function as u64, s.state as u64);
        [function, state, s.cursor, s.start_time, s.end_time, s.to_examine, s.examined, s.errors, s.paused]
    });
    cx.directory()?.update(cx.tx(), directory::ERRORSCRUB, &ZapValue::words(&words))
}

/// Leaves and distributed spares that are available and have stale data.
pub(super) fn lacking(tree: &block::vdev::Tree) -> Vec<&Leaf> {
    let mut leaves = tree.logs();
    leaves.retain(|leaf| leaf.is_open() && !leaf.has_failed() && !leaf.stale_ranges().is_empty());
    leaves
}

/// Why no new scan can begin.
pub(super) fn refusal(state: &State) -> Option<ScanRefused> {
    if state.is_rebuilding() {
        return Some(ScanRefused::Resilvering);
    }
    if let Some(scan) = state.scan.as_ref().filter(|scan| is_active(scan)) {
        return Some(match (scan.function, is_paused(scan)) {
            (ScanFunction::Resilver, _) => ScanRefused::Resilvering,
            (_, false) => ScanRefused::Scrubbing,
            (_, true) => ScanRefused::ScrubPaused,
        });
    }
    state.error_scrub.as_ref().filter(|s| s.state == ScanState::ErrorScrubbing).map(|s| match s.paused {
        0 => ScanRefused::ErrorScrubbing,
        _ => ScanRefused::ErrorScrubPaused,
    })
}

/// Begins a scan from the start. A scrub covers blocks born after `min`. No other scan may be
/// active.
pub(super) fn begin(cx: &SyncTx<'_>, state: &mut State, function: ScanFunction, mut min: u64) -> Result<()> {
    let now = cx.shared.now();
    let mut max = cx.txg();
    let tree = cx.store().tree();
    state.covered.clear();
    if function == ScanFunction::Resilver {
        let leaves = lacking(&tree);
        let ranges = || leaves.iter().flat_map(|leaf| leaf.stale_ranges());
        min = ranges().map(|(first, _)| first).min().unwrap_or(0).saturating_sub(1);
        max = ranges().map(|(_, last)| last).max().unwrap_or(cx.txg()).saturating_add(1);
        state.covered = leaves.iter().map(|leaf| leaf.guid).collect();
        super::rebuild::forget_ended(cx, state)?;
    }
    tree.logs().iter().for_each(|leaf| leaf.clear_scanned());
    state.error_scrub = None;
    keep_error_scrub(cx, None)?;
    let scan = Scan {
        function,
        state: ScanState::Scanning,
        queue_object: 0,
        min_txg: Txg(min),
        max_txg: Txg(max),
        current_min_txg: Txg(0),
        current_max_txg: Txg(0),
        start_time: now,
        end_time: 0,
        to_examine_bytes: cx.shared.allocator.totals().allocated_and_size().0,
        examined_bytes: 0,
        skipped_bytes: 0,
        processed_bytes: 0,
        errors: 0,
        ddt_class_max: 0,
        ddt_bookmark: [1, 0, 0, 0],
        bookmark: START,
        flags: 0,
    };
    cx.shared.scan.figures.begin(&scan, now);
    state.scan = Some(scan);
    state.queue.clear();
    state.failed.clear();
    state.began_anew(cx.txg());
    keep(cx, state)?;
    cx.config_changed();
    cx.history("scan setup", None, &format!("func={} mintxg={min} maxtxg={max}", function as u64))?;
    cx.shared.report_scan(match function {
        ScanFunction::Resilver => class::RESILVER_START,
        _ => class::SCRUB_START,
    });
    Ok(())
}

/// How a scan ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Cancelled,
    /// Another scan begins at once.
    Restarting,
}

/// Ends the active scan.
pub(super) fn end(cx: &SyncTx<'_>, state: &mut State, how: End) -> Result<()> {
    let Some(mut scan) = state.scan.filter(is_active) else { return Ok(()) };
    let scans: &Scans = &cx.shared.scan;
    if scan.queue_object != 0 {
        cx.mos().free_object(cx.tx(), scan.queue_object)?;
        scan.queue_object = 0;
    }
    scan.flags &= !Scan::FLAG_PAUSED;
    scan.state = if how == End::Complete { ScanState::Finished } else { ScanState::Canceled };
    scan.end_time = cx.shared.now();
    scans.figures.store_results(&mut scan);
    let text = match how {
        End::Complete => "scan done",
        End::Cancelled => "scan cancelled",
        End::Restarting => "scan aborted, restarting",
    };
    cx.history(text, None, &format!("errors={}", scan.errors))?;
    if how == End::Complete {
        match scan.function {
            ScanFunction::Scrub => {
                cx.directory()?.update_u64(cx.tx(), directory::LAST_SCRUBBED_TXG, scan.max_txg.0)?;
            }
            _ => resilvered(cx, state, &scan)?,
        }
    }
    scans.errors.rotate();
    scans.figures.end();
    state.queue.clear();
    state.scan = Some(scan);
    state.began_anew(cx.txg());
    keep(cx, state)?;
    match (how, scan.function) {
        (End::Complete, ScanFunction::Resilver) => cx.shared.report_scan(class::RESILVER_FINISH),
        (End::Complete, _) => cx.shared.report_scan(class::SCRUB_FINISH),
        (End::Cancelled, ScanFunction::Scrub) => cx.shared.report_scan(class::SCRUB_ABORT),
        _ => {}
    }
    Ok(())
}

/// Removes the resilvered txgs from the leaves' DTLs, except those of blocks that could not be
/// written.
fn resilvered(cx: &SyncTx<'_>, state: &mut State, scan: &Scan) -> Result<()> {
    let tree = cx.store().tree();
    for leaf in lacking(&tree) {
        let last = leaf.stale_ranges().last().map_or(0, |(_, last)| *last);
        // A leaf that joined later, or was unavailable again meanwhile, did not get everything.
        if !state.covered.contains(&leaf.guid) || last >= scan.max_txg.0 {
            continue;
        }
        leaf.excise(scan.max_txg.0);
        for (_, txg) in state.failed.iter().filter(|(guid, _)| *guid == leaf.guid) {
            leaf.note_missed(*txg, *txg);
        }
    }
    detach::after_resilver(cx)
}

/// Stores the position that a batch has reached.
pub(super) fn advance(cx: &SyncTx<'_>, state: &mut State, mut place: Position) -> Result<()> {
    for change in std::mem::take(&mut state.changes) {
        change.apply(&mut place.scan, &mut place.queue);
    }
    if let Some(known) = &state.scan {
        // These fields may have changed since the batch began.
        place.scan.queue_object = known.queue_object;
        place.scan.flags = (place.scan.flags & !Scan::FLAG_PAUSED) | (known.flags & Scan::FLAG_PAUSED);
    }
    cx.shared.scan.figures.store_into(&mut place.scan);
    state.scan = Some(place.scan);
    state.queue = place.queue;
    state.changed_txg = cx.txg();
    keep(cx, state)
}

/// Pauses or resumes a scrub.
pub(super) fn pause(cx: &SyncTx<'_>, state: &mut State, paused: bool) -> Result<()> {
    let Some(scan) = state.scan.as_mut() else { return Ok(()) };
    let now = cx.shared.now();
    if paused {
        scan.flags |= Scan::FLAG_PAUSED;
        cx.shared.scan.figures.paused(now);
    } else {
        scan.flags &= !Scan::FLAG_PAUSED;
        cx.shared.scan.figures.resumed(now);
    }
    state.changed_txg = cx.txg();
    cx.directory()?.update(cx.tx(), directory::SCAN, &ZapValue::words(&scan.to_words()))?;
    cx.shared.report_scan(if paused { class::SCRUB_PAUSED } else { class::SCRUB_RESUME });
    Ok(())
}

/// Pauses or resumes a scrub of the error log.
pub(super) fn pause_errors(cx: &SyncTx<'_>, state: &mut State, paused: bool) -> Result<()> {
    let scrub = state.error_scrub.as_mut().map(|scrub| {
        scrub.paused = paused.into();
        *scrub
    });
    keep_error_scrub(cx, scrub.as_ref())?;
    cx.shared.report_scan(if paused { class::ERROR_SCRUB_PAUSED } else { class::ERROR_SCRUB_RESUME });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(objset: u64) -> Scan {
        let words = [1, 1, 9, 0, 50, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, objset, 7, 0, 3, 0];
        Scan::from_words(&words).unwrap()
    }

    fn after(objset: u64, queue: &[(u64, u64)], change: Change) -> (u64, u64, Vec<(u64, u64)>) {
        let (mut scan, mut queue) = (scan(objset), queue.iter().copied().collect());
        change.apply(&mut scan, &mut queue);
        (scan.bookmark.objset, scan.flags, queue.into_iter().collect())
    }

    #[test]
    fn datasets_that_go_hand_their_place_on() {
        let gone = |next| Change::Destroyed { id: 5, next };
        assert_eq!(after(5, &[(8, 2)], gone(Some(6))), (6, Scan::FLAG_VISIT_AGAIN, vec![(8, 2)]));
        assert_eq!(after(5, &[], gone(None)).0, NO_OBJSET);
        assert_eq!(after(4, &[(5, 3), (8, 2)], gone(Some(8))), (4, 0, vec![(8, 2)]));
        assert_eq!(after(4, &[(5, 3)], gone(None)), (4, 0, vec![]));
    }

    #[test]
    fn a_snapshot_takes_the_place_of_its_head() {
        let taken = Change::Snapshotted { head: 5, snapshot: 9 };
        assert_eq!(after(5, &[], taken), (9, 0, vec![]));
        assert_eq!(after(4, &[(5, 3)], taken), (4, 0, vec![(9, 3)]));
    }

    #[test]
    fn heads_that_swap_swap_their_places() {
        let swapped = Change::Swapped { a: 5, b: 6 };
        assert_eq!(after(5, &[(6, 1)], swapped), (6, 0, vec![(5, 1)]));
        assert_eq!(after(4, &[(5, 1), (6, 2)], swapped), (4, 0, vec![(5, 2), (6, 1)]));
    }
}
