//! Changes of the stored state of a scan, which are all made by the syncing thread.
//!
//! Format: `ondisk::scan`. Facts: `dsl_scan_setup_sync`, `dsl_scan_done`, `dsl_scan_sync_state`,
//! `dsl_scan_ds_destroyed` and similar functions (module/zfs/dsl_scan.c).
//!
//! Invariants:
//!   * OpenZFS can resume from the stored position: everything before it was examined, and all
//!     datasets that it names exist
//!   * dedup tables are not walked separately: their blocks are examined wherever they are
//!     referenced

use super::error_log::{forget_dataset, promoted};
use super::rebuild_zap;
use super::state::{Change, START, ScanRefused, Scans, State, is_active, is_paused};
use crate::scan::dsl_scan::Position;
use crate::writer::{Shared, SyncTx, detach};
use block::vdev::Leaf;
use block::zevent::class;
use errors::Result;
use object::zap::{Zap, ZapSpec};
use ondisk::pool_dir::directory;
use ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use ondisk::zap::Value as ZapValue;
use ondisk::{ObjectType, Txg};
use std::sync::Arc;

impl SyncTx<'_> {
    /// A dataset is destroyed. For a snapshot, `next` is the dataset after it.
    pub fn scan_destroyed(&self, id: u64, next: Option<u64>) -> Result<()> {
        if next.is_none() {
            forget_dataset(self, id)?;
        }
        self.scan_changed(Change::Destroyed { id, next })
    }

    /// The clone `clone` was promoted: it has the snapshots of `head` up to its origin, of txg
    /// `origin_txg`.
    pub fn scan_promoted(&self, clone: u64, head: u64, origin_txg: u64) -> Result<()> {
        promoted(self, clone, head, origin_txg)
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
        let mut guard = self.shared.background.scan.state.lock();
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

impl Shared {
    /// Changes the state in the syncing thread.
    pub(super) fn change_scan<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&SyncTx<'_>, &mut State) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let result = self.task(move |cx| {
            let mut state = cx.shared.background.scan.state.lock();
            cx.all_or_nothing(|| change(cx, &mut state))
        });
        self.background.scan.changed.notify_all();
        result
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
        rebuild_zap::forget_ended(cx, state)?;
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
    cx.shared.background.scan.figures.begin(&scan, now);
    state.scan = Some(scan);
    state.queue.clear();
    state.failed.clear();
    state.restart(cx.txg());
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
    let scans: &Scans = &cx.shared.background.scan;
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
    state.restart(cx.txg());
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
    cx.shared.background.scan.figures.store_into(&mut place.scan);
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
        cx.shared.background.scan.figures.paused(now);
    } else {
        scan.flags &= !Scan::FLAG_PAUSED;
        cx.shared.background.scan.figures.resumed(now);
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

/// Ends the scrub of the error log.
pub(super) fn end_error_scrub(cx: &SyncTx<'_>, state: &mut State, complete: bool) -> Result<()> {
    let Some(scrub) = state.error_scrub.as_mut() else { return Ok(()) };
    scrub.state = if complete { ScanState::Finished } else { ScanState::Canceled };
    scrub.end_time = cx.shared.now();
    let (scrub, text) = (*scrub, if complete { "error scrub done" } else { "error scrub canceled" });
    cx.shared.background.scan.figures.error_scrub(false);
    state.restart(cx.txg());
    // Nothing is known about blocks that were not examined again: the log stays as it is.
    if complete {
        cx.shared.background.scan.errors.rotate();
    }
    keep_error_scrub(cx, Some(&scrub))?;
    cx.history(text, None, &format!("errors={}", scrub.errors))?;
    cx.shared.report_scan(if complete { class::ERROR_SCRUB_FINISH } else { class::ERROR_SCRUB_ABORT });
    Ok(())
}
