//! The scan thread: decides what to do next, batch after batch.

use super::batch::{self, Outcome};
use super::figures::note_repaired;
use super::rebuild;
use super::state::{State, is_active, is_paused};
use super::transitions::{self, End, end_error_scrub};
use crate::Pool;
use crate::scan::dsl_scan::Readers;
use crate::scan::find;
use crate::writer::{Shared, SyncTx};
use block::Bookmark;
use block::vdev::RepairPurpose;
use errors::{Error, Result};
use object::zap::Zap;
use ondisk::dsl_dir::DslDir;
use ondisk::errlog::{ErrorBookmark, HeadError, parse_head};
use ondisk::pool_dir::directory;
use ondisk::scan::ScanFunction;
use ondisk::{BlkPtr, Txg};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time to wait after a failure before retrying.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which to look for work.
const LOOK: Duration = Duration::from_secs(1);
/// Limit for the snapshots in which a damaged block is searched.
const SNAPSHOTS_MAX: usize = 100_000;

/// Starts the thread, once.
pub(super) fn start(shared: &Arc<Shared>) -> Result<()> {
    let mut thread = shared.background.scan.thread.lock();
    if thread.is_some() {
        return Ok(());
    }
    {
        let mut state = shared.background.scan.state.lock();
        let tree = shared.store.tree();
        let lacking = transitions::lacking(&tree);
        let resilver = state.scan.filter(|s| is_active(s) && s.function == ScanFunction::Resilver);
        match resilver {
            // An interrupted resilver resumes if all stale data is within its txgs; otherwise it is
            // restarted.
            Some(scan) => {
                let within =
                    |leaf: &block::vdev::Leaf| leaf.stale_ranges().last().is_some_and(|r| r.1 < scan.max_txg.0);
                if scan.errors > 0 || lacking.iter().any(|leaf| !within(leaf)) {
                    shared.background.scan.wanted.store(true, Ordering::Release);
                }
                state.covered = lacking.iter().map(|leaf| leaf.guid).collect();
            }
            // A rebuild checks for stale data again when it ends.
            None if state.is_rebuilding() => {}
            None if !lacking.is_empty() => shared.background.scan.wanted.store(true, Ordering::Release),
            None => {}
        }
    }
    let shared_too = shared.clone();
    let run = move || {
        let shared = shared_too;
        run(&shared);
    };
    let spawned = host::threads::spawn("scan", run);
    *thread = Some(spawned.map_err(|e| Error::io(shared.store.name(), e))?);
    Ok(())
}

enum Work {
    Rebuild,
    Resilver,
    Batch,
    ErrorScrub,
}

fn run(shared: &Arc<Shared>) {
    let readers = Readers::new(host::processors().clamp(2, 8));
    let (mut size, mut rebuilt) = (batch::Size::new(shared), rebuild::Size::new());
    while let Some(work) = next(shared) {
        let result = match work {
            Work::Rebuild => rebuild::run(shared, &mut rebuilt),
            Work::Resilver => shared.change_scan(begin_resilver).map(drop),
            Work::Batch => batch::run(shared, &readers, &mut size).map(|outcome| {
                if outcome == Outcome::LostHold {
                    // The pool needed the space of freed blocks: use smaller batches.
                    size.shrink();
                }
            }),
            Work::ErrorScrub => error_scrub(shared),
        };
        let mut state = shared.background.scan.state.lock();
        state.working = None;
        if let Err(error) = result {
            if !state.stop && !std::mem::replace(&mut state.trouble, true) {
                tracing::warn!(pool = %shared.store.name(), %error, "the scan is interrupted");
            }
            if !state.stop {
                shared.background.scan.changed.wait_for(&mut state, PATIENCE);
            }
        } else {
            state.trouble = false;
        }
        drop(state);
        shared.background.scan.changed.notify_all();
    }
}

/// Waits for work. `None`: stop.
fn next(shared: &Shared) -> Option<Work> {
    let mut state = shared.background.scan.state.lock();
    loop {
        if state.stop {
            return None;
        }
        if state.is_rebuilding() {
            state.working = Some(ScanFunction::Resilver);
            return Some(Work::Rebuild);
        }
        if shared.background.scan.is_wanted() {
            state.working = Some(ScanFunction::Resilver);
            return Some(Work::Resilver);
        }
        if let Some(scan) = state.scan.filter(|s| is_active(s) && !is_paused(s)) {
            state.working = Some(scan.function);
            return Some(Work::Batch);
        }
        if state.is_error_scrubbing() {
            state.working = Some(ScanFunction::ErrorScrub);
            return Some(Work::ErrorScrub);
        }
        // Resilvers are requested without the lock, so a notification may be missed.
        shared.background.scan.changed.wait_for(&mut state, LOOK);
    }
}

/// Begins a resilver if a leaf has stale data, and ends the active scan.
pub(super) fn begin_resilver(cx: &SyncTx<'_>, state: &mut State) -> Result<bool> {
    if state.is_rebuilding() {
        cx.shared.background.scan.resilver_wanted();
        return Ok(true);
    }
    cx.shared.background.scan.wanted.store(false, Ordering::Release);
    let is_resilver = state.scan.is_some_and(|s| is_active(&s) && s.function == ScanFunction::Resilver);
    if transitions::lacking(&cx.store().tree()).is_empty() {
        // The devices became unavailable, or have no stale data after all.
        if is_resilver {
            transitions::end(cx, state, End::Cancelled)?;
        }
        return Ok(false);
    }
    if state.is_error_scrubbing() {
        end_error_scrub(cx, state, false)?;
    }
    transitions::end(cx, state, End::Restarting)?;
    transitions::begin(cx, state, ScanFunction::Resilver, 0)?;
    Ok(true)
}

/// Examines all blocks of the error log again.
fn error_scrub(shared: &Arc<Shared>) -> Result<()> {
    let generation = shared.background.scan.state.lock().generation;
    let kept = shared.allocator.keep_freed();
    let changed_txg = shared.background.scan.state.lock().changed_txg;
    shared.wait(changed_txg)?;
    let pool = shared.pool()?;
    let (mut examined, mut errors) = (0, 0);
    for (at, birth) in logged(&pool)? {
        {
            let state = shared.background.scan.state.lock();
            if state.stop || state.generation != generation || !state.is_error_scrubbing() {
                return Ok(());
            }
        }
        examined += 1;
        let Some((bp, at)) = find_logged(&pool, &at, birth)? else { continue };
        let repaired = kept.while_kept(|| shared.store.repair(&bp, &at, RepairPurpose::Wrong { is_known: false }));
        let Some(repaired) = repaired else { return Ok(()) };
        note_repaired(&shared.store, &repaired, true, true);
        if !repaired.readable {
            errors += 1;
            shared.background.scan.errors.add(&at, bp.physical_birth().0, true);
        }
    }
    shared.change_scan(move |cx, state| {
        if state.generation != generation {
            return Ok(());
        }
        if let Some(scrub) = state.error_scrub.as_mut() {
            (scrub.examined, scrub.to_examine, scrub.errors) = (examined, 0, errors);
        }
        end_error_scrub(cx, state, true)
    })
}

/// The blocks in the last scan's log, with their birth txgs; without head_errlog these are unknown.
fn logged(pool: &Pool) -> Result<Vec<(Bookmark, Option<u64>)>> {
    let mut found = Vec::new();
    let Some(log) = pool.directory().lookup_u64(directory::ERRLOG_LAST)?.filter(|id| *id != 0) else {
        return Ok(found);
    };
    let by_head = pool.features().count("com.delphix:head_errlog").is_some();
    for entry in Zap::open(pool.mos().object(log)?)?.entries()? {
        if !by_head {
            let b = ErrorBookmark::parse(&entry.name)?;
            let at = Bookmark { objset: b.objset, object: b.object, level: b.level, blkid: b.block };
            found.push((at, None));
            continue;
        }
        let head = parse_head(&entry.name)?;
        let Some(own) = entry.value.as_u64() else { continue };
        for inner in Zap::open(pool.mos().object(own)?)?.entries()? {
            let b = HeadError::parse(&inner.name)?;
            let at = Bookmark { objset: head, object: b.object, level: b.level, blkid: b.block };
            found.push((at, Some(b.birth.0)));
        }
    }
    Ok(found)
}

/// Finds the block of a log entry: in the head, or in one of its snapshots.
fn find_logged(pool: &Pool, at: &Bookmark, birth: Option<u64>) -> Result<Option<(BlkPtr, Bookmark)>> {
    let is_it = |bp: &BlkPtr| birth.is_none_or(|birth| bp.physical_birth() == Txg(birth));
    let mut objset = at.objset;
    for _ in 0..SNAPSHOTS_MAX {
        let place = Bookmark { objset, ..*at };
        if let Some(root) = pool.objset_root(objset)?
            && let Ok(Some(bp)) = find::find(pool.store(), &root, &place)
            && is_it(&bp)
        {
            return Ok(Some((bp, place)));
        }
        let Some(ds) = (match objset {
            0 => None,
            id => pool.dataset_phys(id)?,
        }) else {
            return Ok(None);
        };
        // Stop at the first of the head's own snapshots.
        let dir = pool.mos().object(ds.dir)?;
        let origin = DslDir::parse(dir.bonus(), dir.endian())?.origin;
        if ds.prev_snap == 0 || (ds.prev_snap == origin && birth.is_none()) {
            return Ok(None);
        }
        objset = ds.prev_snap;
    }
    Ok(None)
}
