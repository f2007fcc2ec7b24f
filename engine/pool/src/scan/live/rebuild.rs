//! Sequential rebuild (`zpool attach -s`, `zpool replace -s`): new devices are filled in the order
//! of addresses, without reading block pointers; a scrub verifies them afterwards.
//!
//! ```text
//!   attach: state in the top-level device's ZAP, device_rebuild counts one more
//!   batch:  freed space is kept ─> ranges after the position that are allocated as of the last txg ─> copied, many at a time
//!           ─> a txg records the new position
//!   end:    the txgs up to the attach are removed from the new devices' DTLs ─> replaced devices are detached ─> scrub
//! ```
//! It takes precedence over scans, as in OpenZFS: a scrub ends, a resilver waits.
//!
//! Format: `ondisk::removal::Rebuild`. Facts: module/zfs/vdev_rebuild.c.
//!
//! Invariants:
//!   * all ranges before the stored position are on the new devices, flushed before the uberblock
//!     that records the position
//!   * only ranges allocated in txgs on disk are written to, and they are kept or cannot be
//!     reallocated now: concurrent writes go elsewhere
//!   * a device that did not take some write misses a later txg than the rebuild covers: neither
//!     Weir nor OpenZFS takes it for complete

use super::figures::note_repaired;
use super::rebuild_zap::keep;
use super::rebuilds::is_active;
use super::state::State;
use super::transitions::{self, End, lacking};
use crate::space::alloc::Kept;
use crate::writer::{Shared, SyncTx, detach};
use block::vdev::{Kind, Leaf, Tree, Vdev, is_rebuilt};
use block::zevent::class;
use errors::Result;
use host::clock::Instant;
use host::sync::Mutex;
use ondisk::Txg;
use ondisk::removal::Rebuild;
use ondisk::scan::ScanFunction;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Feature whose reference count is the number of active rebuilds.
const FEATURE: &str = "device_rebuild";
/// Target duration of a batch, and its limits in bytes for each device. Guessed: freed space is
/// kept for that time.
const AIM: Duration = Duration::from_secs(5);
const BYTES: std::ops::Range<u64> = 64 << 20..16 << 30;
/// Limit for the ranges of a batch: 16 bytes each.
const RANGES_MAX: usize = 1 << 20;
/// Ranges of a device in flight: one is read while others are written.
const IN_FLIGHT: usize = 4;
/// Longest sleep between two ranges.
const REST_MAX: Duration = Duration::from_millis(200);

/// Begins to rebuild the stale data of a top-level device's leaves, or restarts an active rebuild.
/// The leaves must be in the tree.
pub(crate) fn begin(cx: &SyncTx<'_>, vdev: u64) -> Result<()> {
    let mut guard = cx.shared.background.scan.state.lock();
    let state = &mut *guard;
    if state.is_error_scrubbing() {
        transitions::end_error_scrub(cx, state, false)?;
    }
    transitions::end(cx, state, End::Cancelled)?;
    let tree = cx.store().tree();
    let leaves = lacking(&tree);
    let below = |leaf: &&&Leaf| tree.tops.get(vdev as usize).is_some_and(|top| top.find(leaf.guid).is_some());
    let ranges: Vec<(u64, u64)> = leaves.iter().filter(below).flat_map(|leaf| leaf.stale_ranges()).collect();
    let active = state.rebuilds.get(&vdev).copied().filter(is_active);
    let rebuild = Rebuild {
        state: Rebuild::ACTIVE,
        min_txg: Txg(ranges.iter().map(|(first, _)| *first).min().unwrap_or(1).saturating_sub(1)),
        max_txg: Txg(ranges.iter().map(|(_, last)| *last).max().unwrap_or(cx.txg()).saturating_add(1)),
        start_time: active.map_or(cx.shared.now(), |known| known.start_time),
        total_bytes: used_bytes(cx.shared, vdev),
        errors: active.map_or(0, |known| known.errors),
        ..Rebuild::default()
    };
    if active.is_none() {
        cx.feature_increment(FEATURE)?;
    }
    tree.logs().iter().for_each(|leaf| leaf.clear_scanned());
    state.restart(cx.txg());
    keep(cx, state, vdev, rebuild)?;
    log_history(cx, vdev, if active.is_none() { "started" } else { "reset" })?;
    if active.is_none() {
        cx.shared.report_rebuild(class::RESILVER_START);
    }
    cx.shared.background.scan.changed.notify_all();
    Ok(())
}

fn log_history(cx: &SyncTx<'_>, vdev: u64, word: &str) -> Result<()> {
    let guid = cx.shared.config.root.lock().children.iter().find(|top| top.id == vdev).map_or(0, |top| top.guid);
    cx.history("rebuild", None, &format!("vdev_id={vdev} vdev_guid={guid} {word}"))
}

fn used_bytes(shared: &Shared, vdev: u64) -> u64 {
    shared.allocator.used_and_size(vdev as u32).map_or(0, |(used, _)| used)
}

/// The part of a batch on one device.
struct Plan {
    vdev: u64,
    rebuild: Rebuild,
    /// Offsets and lengths in bytes, in order.
    ranges: Vec<(u64, u64)>,
    /// Position after all of these ranges.
    end_bytes: u64,
}

/// Result of a device's part of a batch.
struct Done {
    vdev: u64,
    rebuild: Rebuild,
}

/// Bytes of a batch on each device.
pub(super) struct Size(u64);

impl Size {
    pub fn new() -> Self {
        Self(BYTES.start)
    }
}

/// Runs one batch on each device with an active rebuild.
pub(super) fn run(shared: &Arc<Shared>, size: &mut Size) -> Result<()> {
    let kept = shared.allocator.keep_freed();
    let (generation, places) = {
        let state = shared.background.scan.state.lock();
        let active = state.rebuilds.iter().filter(|(_, r)| is_active(r));
        (state.generation, active.map(|(vdev, r)| (*vdev, r.last_offset_bytes, r.max_txg.0)).collect::<Vec<_>>())
    };
    for (vdev, place, until) in places {
        // Writers that started before the device joined have finished.
        shared.wait(until)?;
        shared.allocator.load_slabs(vdev as u32, place, size.0);
    }
    let bytes = size.0;
    let plans = shared.change_scan(move |cx, state| match state.generation == generation {
        true => plan(cx, state, bytes),
        false => Ok(Vec::new()),
    })?;
    if !plans.is_empty() && !kept.holds() {
        return in_txg(shared, generation);
    }
    let begun = Instant::now();
    let done: Vec<Done> = host::threads::scope(|scope| {
        let running: Vec<_> = plans
            .iter()
            .map(|plan| scope.spawn(|| Copying::new(shared, Some(&kept), generation, plan).run()))
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    drop(kept);
    if done.is_empty() {
        return Ok(());
    }
    let aim = bytes as f64 * AIM.as_secs_f64() / begun.elapsed().as_secs_f64().max(0.001);
    size.0 = (aim as u64).clamp(BYTES.start, bytes.saturating_mul(2).min(BYTES.end));
    shared.change_scan(move |cx, state| {
        if state.generation != generation {
            return Ok(());
        }
        done.into_iter().try_for_each(|done| keep(cx, state, done.vdev, done.rebuild))
    })
}

/// Runs a batch in the syncing thread, where nothing is reallocated meanwhile: the pool is so full
/// that freed space cannot be kept.
fn in_txg(shared: &Arc<Shared>, generation: u64) -> Result<()> {
    shared.task(move |cx| {
        let scan = &cx.shared.background.scan;
        let plans = {
            let mut state = scan.state.lock();
            if state.generation != generation {
                return Ok(());
            }
            cx.all_or_nothing(|| plan(cx, &mut state, BYTES.start))?
        };
        // Flushed before this txg's uberblock records it.
        let done: Vec<Done> = plans.iter().map(|p| Copying::new(cx.shared, None, generation, p).run()).collect();
        let mut state = scan.state.lock();
        cx.all_or_nothing(|| done.into_iter().try_for_each(|done| keep(cx, &mut state, done.vdev, done.rebuild)))
    })
}

/// Ends rebuilds that are complete, and plans the next batch of the others.
fn plan(cx: &SyncTx<'_>, state: &mut State, bytes: u64) -> Result<Vec<Plan>> {
    let active: Vec<(u64, Rebuild)> =
        state.rebuilds.iter().filter(|(_, r)| is_active(r)).map(|(vdev, r)| (*vdev, *r)).collect();
    let mut plans = Vec::new();
    for (vdev, rebuild) in active {
        let tree = cx.store().tree();
        let until = rebuild.max_txg.0;
        let Some(top) = tree.tops.get(vdev as usize).filter(|top| can_continue(top, until)) else {
            end(cx, state, vdev, rebuild, false)?;
            continue;
        };
        // Unavailable devices with stale data from this rebuild's txgs will still have it when they
        // come back.
        let away = |leaf: &&Leaf| leaf.stale_ranges().last().is_some_and(|r| r.1 < until) && !is_rebuilt(leaf, until);
        top.leaves().into_iter().filter(away).for_each(|leaf| leaf.note_missed(cx.txg(), cx.txg()));
        match next(cx, vdev, rebuild, bytes)? {
            Some(plan) => plans.push(plan),
            None => end(cx, state, vdev, rebuild, true)?,
        }
    }
    Ok(plans)
}

/// Whether some leaf needs to be rebuilt and can be: the devices needed for that have complete
/// data.
fn can_continue(top: &Vdev, until: u64) -> bool {
    let has_all = |vdev: &Vdev| vdev.logs().into_iter().any(Leaf::is_whole);
    let can = match &top.kind {
        Kind::Draid(g) => top.children.iter().filter(|child| !has_all(child)).count() <= g.parity(),
        _ => has_all(top),
    };
    can && top.logs().iter().any(|leaf| is_rebuilt(leaf, until))
}

/// The next ranges after the position that are allocated as of the last txg, about `bytes` in
/// total. `None`: there are no more.
fn next(cx: &SyncTx<'_>, vdev: u64, rebuild: Rebuild, bytes: u64) -> Result<Option<Plan>> {
    let allocator = &cx.shared.allocator;
    let from = rebuild.last_offset_bytes;
    let Some(shift) = allocator.slab_shift(vdev as u32) else { return Ok(None) };
    let (mut ranges, mut total, mut end_bytes) = (Vec::new(), 0, from);
    let mut slab = from >> shift;
    while total < bytes && ranges.len() < RANGES_MAX {
        let Some(allocated) = allocator.allocated_in(vdev as u32, slab)? else { break };
        let behind = allocated.into_iter().filter(|(at, len)| at + len > from);
        for (at, len) in behind {
            let start = at.max(from);
            ranges.push((start, at + len - start));
            total += at + len - start;
        }
        slab += 1;
        end_bytes = slab << shift;
    }
    Ok((end_bytes > from).then_some(Plan { vdev, rebuild, ranges, end_bytes }))
}

/// Ends the rebuild of a device in the syncing txg, after its writes were flushed.
fn end(cx: &SyncTx<'_>, state: &mut State, vdev: u64, mut rebuild: Rebuild, complete: bool) -> Result<()> {
    rebuild.state = if complete { Rebuild::COMPLETE } else { Rebuild::CANCELLED };
    rebuild.end_time = cx.shared.now();
    keep(cx, state, vdev, rebuild)?;
    cx.feature_decrement(FEATURE)?;
    log_history(cx, vdev, if complete { "complete" } else { "canceled" })?;
    cx.shared.report_rebuild(class::RESILVER_FINISH);
    let tree = cx.store().tree();
    if complete && rebuild.errors == 0 {
        let until = rebuild.max_txg.0;
        let leaves = tree.tops.get(vdev as usize).map(|top| top.logs()).unwrap_or_default();
        leaves.into_iter().filter(|leaf| is_rebuilt(leaf, until)).for_each(|leaf| leaf.excise(until));
        detach::after_resilver(cx)?;
    }
    if state.is_rebuilding() {
        return Ok(());
    }
    if !lacking(&cx.store().tree()).is_empty() {
        cx.shared.background.scan.resilver_wanted();
    } else if complete && transitions::refusal(state).is_none() {
        transitions::begin(cx, state, ScanFunction::Scrub, 0)?;
    }
    Ok(())
}

/// Copies the ranges of a plan.
struct Copying<'a> {
    shared: &'a Shared,
    /// `None`: runs within a txg.
    kept: Option<&'a Kept>,
    generation: u64,
    plan: &'a Plan,
    next: AtomicUsize,
    /// The first range that was not copied.
    undone: AtomicUsize,
    stop: AtomicBool,
    issued: AtomicU64,
    written: AtomicU64,
    errors: AtomicU64,
    begun: Instant,
    reported: Mutex<Instant>,
}

impl<'a> Copying<'a> {
    fn new(shared: &'a Shared, kept: Option<&'a Kept>, generation: u64, plan: &'a Plan) -> Self {
        Self {
            shared,
            kept,
            generation,
            plan,
            next: AtomicUsize::new(0),
            undone: AtomicUsize::new(usize::MAX),
            stop: AtomicBool::new(false),
            issued: AtomicU64::new(0),
            written: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            begun: Instant::now(),
            reported: Mutex::new(Instant::now()),
        }
    }

    fn run(self) -> Done {
        host::threads::scope(|scope| {
            for _ in 0..IN_FLIGHT.min(self.plan.ranges.len()) {
                scope.spawn(|| {
                    let _doing = block::doing(block::Task::Rebuild);
                    self.work();
                });
            }
        });
        let undone = self.undone.load(Ordering::Relaxed).min(self.next.load(Ordering::Relaxed));
        let ranges = &self.plan.ranges;
        let mut rebuild = self.plan.rebuild;
        rebuild.last_offset_bytes = ranges.get(undone).map_or(self.plan.end_bytes, |(at, _)| *at);
        let scanned = ranges.iter().take(undone).map(|(_, len)| *len).sum::<u64>();
        rebuild.run_time_ms = rebuild.run_time_ms.saturating_add(self.begun.elapsed().as_millis() as u64);
        rebuild.scanned_bytes = rebuild.scanned_bytes.saturating_add(scanned);
        self.count(&mut rebuild);
        let left = used_bytes(self.shared, self.plan.vdev).max(rebuild.scanned_bytes);
        rebuild.total_bytes = if undone < ranges.len() { rebuild.total_bytes.max(left) } else { left };
        Done { vdev: self.plan.vdev, rebuild }
    }

    fn count(&self, rebuild: &mut Rebuild) {
        rebuild.issued_bytes = rebuild.issued_bytes.saturating_add(self.issued.load(Ordering::Relaxed));
        rebuild.rebuilt_bytes = rebuild.rebuilt_bytes.saturating_add(self.written.load(Ordering::Relaxed));
        rebuild.errors = rebuild.errors.saturating_add(self.errors.load(Ordering::Relaxed));
    }

    fn work(&self) {
        let mut load = self.shared.store.demand();
        while !self.stop.load(Ordering::Relaxed) && !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((at, len)) = self.plan.ranges.get(number) else { return };
            let begun = Instant::now();
            if !self.copy(*at, *len) {
                self.undone.fetch_min(number, Ordering::Relaxed);
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
            self.show();
            // Other threads used the pool meanwhile: their requests take precedence.
            let now = self.shared.store.demand();
            if now != load && self.kept.is_some() {
                load = now;
                host::threads::sleep(begun.elapsed().min(REST_MAX));
            }
        }
    }

    /// Whether the batch was stopped or has become useless.
    fn is_over(&self) -> bool {
        let state = self.shared.background.scan.state.lock();
        state.stop || state.generation != self.generation
    }

    /// Copies a range. Returns false if it was not done.
    fn copy(&self, mut at: u64, len: u64) -> bool {
        let (end, until) = (at + len, self.plan.rebuild.max_txg.0);
        while at < end {
            let tree = self.shared.store.tree();
            let Some(top) = tree.tops.get(self.plan.vdev as usize) else { return false };
            if !can_continue(top, until) {
                return false;
            }
            let size = top.rebuild_bytes(at, end - at);
            let piece = || self.piece(&tree, at, size, until);
            let done = self.kept.map_or_else(|| Some(piece()), |kept| kept.while_kept(piece));
            if done != Some(true) {
                return false;
            }
            at += size;
        }
        true
    }

    fn piece(&self, tree: &Tree, at: u64, size: u64, until: u64) -> bool {
        let txg = self.shared.txgs.gate.open();
        match tree.rebuild_range(self.plan.vdev as u32, at, size, until, txg) {
            Ok(repaired) => {
                note_repaired(&self.shared.store, &repaired, false, true);
                self.issued.fetch_add(size, Ordering::Relaxed);
                self.written.fetch_add(repaired.written_bytes(), Ordering::Relaxed);
                true
            }
            // A device that had complete data has stale data now.
            Err(_) if !tree.tops.get(self.plan.vdev as usize).is_some_and(|top| can_continue(top, until)) => false,
            Err(failure) => {
                let error = failure.into_error(self.shared.store.name().to_owned());
                tracing::warn!(%error, offset = at, "a range cannot be rebuilt");
                self.errors.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Updates the progress that is shown.
    fn show(&self) {
        let Some(mut reported) = self.reported.try_lock() else { return };
        if reported.elapsed() < Duration::from_millis(100) {
            return;
        }
        *reported = Instant::now();
        let mut now = self.plan.rebuild;
        now.run_time_ms = now.run_time_ms.saturating_add(self.begun.elapsed().as_millis() as u64);
        let scanned = self.issued.load(Ordering::Relaxed);
        now.scanned_bytes = now.scanned_bytes.saturating_add(scanned);
        self.count(&mut now);
        self.shared.background.scan.figures.rebuild(self.plan.vdev, now);
    }
}
