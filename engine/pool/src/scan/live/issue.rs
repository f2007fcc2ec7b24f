//! Examines the blocks of a batch in the order of their offsets on the devices, a run of neighbours
//! at a time.
//!
//! Invariants:
//!   * reads in flight are bounded: one run for each thread
//!   * while other threads read or sync, scan threads sleep as long as they work

use super::figures::note_repaired;
use super::stop::Stop;
use crate::space::alloc::Kept;
use crate::writer::Shared;
use block::Bookmark;
use block::vdev::RepairPurpose;
use host::clock::Instant;
use host::sync::Mutex;
use ondisk::BlkPtr;
use ondisk::scan::ScanFunction;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Limit for the bytes of a top-level device that a run spans, unless a single block is larger.
const RUN_BYTES_MAX: u64 = 2 << 20;
/// Longest gap in a run: longer gaps are not worth reading.
const GAP_BYTES: u64 = 128 << 10;
/// Longest sleep between two runs.
const REST_MAX: Duration = Duration::from_millis(200);

/// A block to examine.
pub(super) struct Found {
    pub bp: BlkPtr,
    pub at: Bookmark,
}

struct Issue<'a> {
    shared: &'a Shared,
    kept: &'a Kept,
    function: ScanFunction,
    found: &'a [Found],
    /// Index of the block and number of its DVA, sorted by device and offset.
    order: Vec<(u32, u8)>,
    runs: Vec<Range<usize>>,
    next: AtomicUsize,
    gave_up: AtomicBool,
    /// Blocks that were already examined in full: once is enough.
    closely: Mutex<HashSet<u32>>,
    stop: &'a Stop<'a>,
}

/// Examines all blocks and repairs bad ones. Returns false if not all were examined, or freed space
/// could not be kept.
pub(super) fn issue(shared: &Shared, kept: &Kept, function: ScanFunction, found: Vec<Found>, stop: &Stop<'_>) -> bool {
    let mut order: Vec<(u32, u8)> = Vec::with_capacity(found.len());
    for (number, block) in found.iter().enumerate() {
        let copies = match function {
            // One pass over the whole block repairs everything that is missing.
            ScanFunction::Resilver => 1,
            _ if block.bp.is_gang() => 1,
            _ => block.bp.dvas().count() as u8,
        };
        order.extend((0..copies).map(|copy| (number as u32, copy)));
    }
    let place = |(number, copy): (u32, u8)| {
        let bp = &found[number as usize].bp;
        let dva = bp.dva(usize::from(copy));
        (dva.vdev, dva.offset_bytes, bp.physical_birth().0)
    };
    order.sort_unstable_by_key(|entry| place(*entry));
    // Blocks that several datasets share, or that the walk found twice.
    order.dedup_by_key(|entry| place(*entry));
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut start = 0u64;
    for at in 0..order.len() {
        let (number, copy) = order[at];
        let bp = &found[number as usize].bp;
        let dva = bp.dva(usize::from(copy));
        let joins = at > 0 && function != ScanFunction::Resilver && !bp.is_gang() && {
            let (before, copy) = order[at - 1];
            let (before, last) = (&found[before as usize].bp, found[before as usize].bp.dva(usize::from(copy)));
            let end = last.offset_bytes + last.asize_bytes;
            !before.is_gang()
                && last.vdev == dva.vdev
                && dva.offset_bytes <= end.saturating_add(GAP_BYTES)
                && dva.offset_bytes + dva.asize_bytes - start <= RUN_BYTES_MAX
        };
        match runs.last_mut() {
            Some(run) if joins => run.end = at + 1,
            _ => {
                start = dva.offset_bytes;
                runs.push(at..at + 1);
            }
        }
    }
    let threads = host::processors().clamp(2, 8).min(runs.len());
    let issue = Issue {
        shared,
        kept,
        function,
        found: &found,
        order,
        runs,
        next: AtomicUsize::new(0),
        gave_up: AtomicBool::new(false),
        closely: Mutex::default(),
        stop,
    };
    host::threads::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| issue.work());
        }
    });
    !issue.gave_up.load(Ordering::Relaxed) && issue.next.load(Ordering::Relaxed) >= issue.runs.len()
}

impl Issue<'_> {
    fn work(&self) {
        let _doing = block::doing(block::Task::Scrub);
        let mut load = self.shared.store.demand();
        loop {
            if self.gave_up.load(Ordering::Relaxed) {
                return;
            }
            if self.stop.now() {
                self.gave_up.store(true, Ordering::Relaxed);
                return;
            }
            let Some(run) = self.runs.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let begun = Instant::now();
            if !self.run(&self.order[run.clone()]) {
                self.gave_up.store(true, Ordering::Relaxed);
                return;
            }
            // Other threads used the pool meanwhile: their requests take precedence.
            let now = self.shared.store.demand();
            if now != load {
                load = now;
                host::threads::sleep(begun.elapsed().min(REST_MAX));
            }
        }
    }

    /// Returns false if freed space could not be kept.
    fn run(&self, entries: &[(u32, u8)]) -> bool {
        let figures = &self.shared.background.scan.figures;
        if self.function == ScanFunction::Resilver {
            return entries.iter().all(|(number, _)| {
                let done = self.repair(*number, RepairPurpose::Missed);
                figures.issued(self.found[*number as usize].bp.asize_bytes());
                done
            });
        }
        let copies: Vec<(&BlkPtr, usize)> =
            entries.iter().map(|(n, copy)| (&self.found[*n as usize].bp, usize::from(*copy))).collect();
        let mut read_bytes = 0;
        let right = self.shared.store.look_at_run(&copies, &mut read_bytes);
        for ((number, copy), right) in entries.iter().zip(right) {
            let Found { bp, at } = &self.found[*number as usize];
            let right = right && !self.shared.store.injection().concerns(bp, at);
            if !right && !self.repair(*number, RepairPurpose::Wrong { is_known: false }) {
                return false;
            }
            figures.issued(if bp.is_gang() { bp.asize_bytes() } else { bp.dva(usize::from(*copy)).asize_bytes });
        }
        true
    }

    fn repair(&self, number: u32, what: RepairPurpose) -> bool {
        if !self.closely.lock().insert(number) {
            return true;
        }
        let Found { bp, at } = &self.found[number as usize];
        let repaired = self.kept.while_kept(|| self.shared.store.repair(bp, at, what));
        let Some(repaired) = repaired else { return false };
        let scans = &self.shared.background.scan;
        note_repaired(&self.shared.store, &repaired, what != RepairPurpose::Missed, true);
        scans.figures.repaired(&repaired);
        let birth = bp.physical_birth().0;
        if what == RepairPurpose::Missed {
            let mut state = scans.state.lock();
            state.failed.extend(repaired.failed.iter().map(|guid| (*guid, birth)));
            if !repaired.readable && repaired.is_missing {
                // It may become readable when other devices come back: until then it is still
                // missing here.
                let tree = self.shared.store.tree();
                let leaves = tree.logs().into_iter().filter(|leaf| leaf.is_stale(birth));
                state.failed.extend(leaves.map(|leaf| (leaf.guid, birth)));
            }
        }
        // A log that was not replayed ends with a block that was never written.
        if !repaired.readable && at.level != -2 {
            scans.figures.error();
            scans.errors.add(at, bp.physical_birth().0, true);
            let error = repaired.error.as_deref().unwrap_or_default();
            tracing::warn!(pool = %self.shared.store.name(), block = %at, %error, "a block cannot be read or repaired");
        }
        true
    }
}
