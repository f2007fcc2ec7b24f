//! The thread that closes txgs and syncs them.
//!
//! Invariants:
//!   * a panic in the middle of a txg ends the thread before the uberblock is written: the pool is
//!     suspended in the state of the last synced txg, and no thread waits any longer

use super::stats::TxgStats;
use crate::writer::background::around_uberblock;
use crate::writer::farewell::Farewell;
use crate::writer::spa::{Shared, SyncTx};
use crate::writer::{dtl, label, mos};
use errors::{Error, Result};
use host::clock::Instant;
use object::Tx;
use ondisk::BlkPtr;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of passes over the MOS that means an error. Normal are 3 or 4.
const PASSES_MAX: u32 = 40;

/// Runs until it must stop, or until a txg cannot be written. A panic is such a reason, too.
pub(crate) fn run(shared: &Arc<Shared>) {
    let guard = StopGuard(shared);
    // What the panic left behind in memory is not written by any thread: see `fail`.
    let error = match catch_unwind(AssertUnwindSafe(|| turns(shared))) {
        Ok(None) => return,
        Ok(Some(error)) => error,
        Err(panic) => {
            let why = format!("an invariant does not hold: {}", reason(panic.as_ref()));
            Error::invalid(shared.store.name(), why)
        }
    };
    fail(shared, error);
    drop(guard);
}

/// Syncs one txg after the other. Returns the error of a txg that cannot be written; `None`: the
/// thread must stop.
fn turns(shared: &Arc<Shared>) -> Option<Error> {
    while let Some(force) = shared.txgs.progress.next(shared.options.interval) {
        if shared.txgs.gate.is_broken() {
            return Some(half_changed(shared));
        }
        let participants = shared.txgs.participants.lock().clone();
        participants.iter().for_each(|p| p.before_close());
        drop(participants);
        let open = shared.txgs.gate.open();
        if !force && !shared.is_dirty(open) {
            continue;
        }
        match txg(shared) {
            Ok(txg) => shared.txgs.progress.set_synced(txg),
            Err(error) => return Some(error),
        }
        shared.txgs.gate.drained();
        if shared.background_work().iter().any(|work| work.wants_txgs()) {
            shared.push();
        }
    }
    None
}

/// The pool cannot write any more. All threads that wait for a txg return.
fn fail(shared: &Arc<Shared>, error: Error) {
    let synced = shared.txgs.progress.synced();
    tracing::error!("{}: no txg after {synced} can be written, the pool is suspended: {error}", shared.store.name());
    shared.txgs.progress.fail(error, || {
        // No transaction begins once a thread knows: its change could not be written.
        shared.txgs.gate.shut();
        shared.report_states();
        shared.store.reporter().pool_report(block::zevent::class::IO_FAILURE);
    });
}

/// Why a txg is not written in which a transaction ended with a panic.
fn half_changed(shared: &Shared) -> Error {
    let why = format!("a thread panicked in the middle of a change of txg {}", shared.txgs.gate.open());
    Error::invalid(shared.store.name(), why)
}

/// The message of a panic.
fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

/// Syncs the first txg of a pool that is being created; `make` creates its objects.
pub(crate) fn first(shared: &Arc<Shared>, make: impl FnOnce(&SyncTx<'_>) -> Result<()>) -> Result<()> {
    let _doing = block::doing(block::Task::Background);
    let txg = shared.txgs.gate.close(|txg| txg).ok_or_else(|| half_changed(shared))?;
    let tx = Tx::syncing(txg);
    let cx = SyncTx::new(shared, &tx);
    make(&cx)?;
    cx.check_whole()?;
    settle(&cx, &mut TxgStats::default(), &mut Instant::now())?;
    shared.txgs.gate.shut();
    Ok(())
}

/// However the thread ends, no other thread waits for it any longer, and the pool is released if no
/// other owner can do so.
struct StopGuard<'a>(&'a Shared);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        let panicked = std::thread::panicking().then(|| Error::invalid(self.0.store.name(), "syncing a txg panicked"));
        let releases = self.0.txgs.progress.end(panicked);
        self.0.txgs.gate.shut();
        self.0.txgs.progress.notify_waiting();
        if releases {
            self.0.stop_background();
            self.0.release();
        }
    }
}

fn txg(shared: &Arc<Shared>) -> Result<u64> {
    let mut clock = Instant::now();
    let mut stats = TxgStats { closed_seconds: shared.now(), ..TxgStats::default() };
    let before = shared.written();
    let closed = shared.txgs.gate.close(|txg| {
        let participants = shared.txgs.participants.lock().clone();
        participants.iter().for_each(|p| p.quiesce(txg));
        let early = std::mem::take(&mut *shared.txgs.early_jobs.lock());
        (txg, participants, early, std::mem::take(&mut *shared.txgs.jobs.lock()))
    });
    let (txg, participants, early, jobs) = closed.ok_or_else(|| half_changed(shared))?;
    stats.txg = txg;
    stats.open_ns = shared.txgs.stats.turned(clock);
    stats.dirty_bytes = shared.store.waiting_bytes().load(Ordering::Relaxed);
    stats.phase_ns[0] = lap(&mut clock);

    let tx = Tx::syncing(txg);
    let cx = SyncTx::new(shared, &tx);
    early.into_iter().for_each(|job| job(&cx));
    cx.check_whole()?;
    for participant in &participants {
        participant.cloned(txg, &mut |bp| match bp.is_dedup() && shared.accounting.dedup.add(bp)? {
            true => Ok(()),
            false => shared.accounting.clones.add(bp),
        })?;
    }
    for participant in &participants {
        participant.sync(&cx)?;
    }
    stats.phase_ns[1] = lap(&mut clock);
    jobs.into_iter().for_each(|job| job(&cx));
    cx.check_whole()?;
    // Frees the blocks without references, which may be clones.
    shared.accounting.dedup.sync(&cx)?;
    shared.accounting.clones.sync(&cx)?;
    // Background work frees blocks of the MOS only, which never have references.
    shared.background_work().iter().try_for_each(|work| work.sync(&cx))?;
    stats.phase_ns[2] = lap(&mut clock);

    settle(&cx, &mut stats, &mut clock)?;
    // The state on disk of a frozen pool still has the devices that left.
    if !shared.is_frozen_at(txg) {
        std::mem::take(&mut *shared.farewells.lock()).into_iter().for_each(Farewell::bid);
    }

    shared.allocator.synced(txg, shared.mos.clone());
    for anomaly in shared.allocator.take_anomalies() {
        tracing::error!("{}: {anomaly}", shared.store.name());
    }
    participants.iter().for_each(|p| p.synced(txg));
    shared.report_states();
    let after = shared.written();
    // Without the writes to devices that left in this txg.
    (stats.writes, stats.written_bytes) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    shared.txgs.stats.add(stats);
    Ok(txg)
}

/// Writes the MOS until nothing is dirty any more, then labels and uberblock.
fn settle(cx: &SyncTx<'_>, stats: &mut TxgStats, clock: &mut Instant) -> Result<()> {
    let (shared, txg) = (cx.shared, cx.txg());
    let work = shared.background_work();
    let mut config_dirty = false;
    loop {
        stats.passes += 1;
        if stats.passes > PASSES_MAX {
            return Err(Error::invalid(
                shared.store.name(),
                format!("txg {txg} does not settle after {PASSES_MAX} passes"),
            ));
        }
        dtl::sync(cx)?;
        if shared.config.take_dirty() | shared.features.label_changed.swap(false, Ordering::SeqCst) {
            config_dirty = true;
            label::write_mos_config(cx)?;
        }
        work.iter().try_for_each(|work| work.sync_pass(cx))?;
        shared.allocator.sync(cx)?;
        let root = mos::sync(cx, stats.passes)?;
        if shared.allocator.is_dirty(txg) || shared.mos.is_dirty(txg) {
            continue;
        }
        stats.phase_ns[3] += lap(clock);
        shared.store.flush()?;
        stats.phase_ns[4] += lap(clock);
        // A device may fail at the very end. Its missed writes must be in its DTL on disk before
        // the uberblock makes the txg valid.
        if dtl::is_pending(shared) {
            continue;
        }
        let is_written = around_uberblock(&work, cx, &mut || {
            // The last step of the background work may have failed on a device, too.
            if dtl::is_pending(shared) {
                return Ok(false);
            }
            write_label(cx, root, config_dirty).map(|()| true)
        })?;
        if is_written {
            stats.phase_ns[5] = lap(clock);
            return Ok(());
        }
    }
}

/// Writes labels and uberblock. If no device takes them, the pool is suspended, and they are
/// written once it is resumed: all blocks of the txg are on disk. After a failed flush that is not
/// known any more, and the txg fails. Facts: spa_sync_rewrite_vdev_config.
fn write_label(cx: &SyncTx<'_>, root: BlkPtr, config_dirty: bool) -> Result<()> {
    let store = &cx.shared.store;
    if cx.shared.is_frozen_at(cx.txg()) {
        return Ok(());
    }
    loop {
        let begun = store.resumptions();
        let Err(error) = label::write(cx, root, config_dirty) else { return Ok(()) };
        let is_device = matches!(error, Error::Io { .. } | Error::Missing { .. });
        let has_lost = store.tree().leaves().iter().any(|leaf| leaf.has_failed());
        if !is_device || has_lost || !cx.shared.suspended(&error, begun) {
            return Err(error);
        }
    }
}

impl Shared {
    /// Nothing is written any more.
    pub(crate) fn release(&self) {
        self.background.heartbeats.stop();
        self.store.stop_second();
        self.store.set_on_write_failure(None);
        // Threads that still read from the pool keep no other process from opening it.
        self.store.tree().all_leaves().for_each(|leaf| leaf.release());
    }

    fn is_dirty(&self, txg: u64) -> bool {
        !self.txgs.jobs.lock().is_empty()
            || self.config.is_dirty()
            || self.background_work().iter().any(|work| work.is_dirty())
            || self.txgs.participants.lock().iter().any(|p| p.is_dirty(txg))
            || self.accounting.dedup.is_dirty()
    }

    /// Writes to devices so far, and their bytes.
    fn written(&self) -> (u64, u64) {
        let tree = self.store.tree();
        tree.leaves().iter().map(|l| l.write_traffic()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }
}

/// Nanoseconds since `start`. Restarts the measurement.
fn lap(start: &mut Instant) -> u64 {
    let now = Instant::now();
    let spent = now.duration_since(*start);
    *start = now;
    u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX)
}
