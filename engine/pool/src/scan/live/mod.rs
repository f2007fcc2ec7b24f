//! Scrub and resilver of a pool that is open for writing, self-healing, and the error log.
//!
//! ```text
//!   commands, devices that came back ──> state (stored in the MOS, changed by the syncing thread)
//!                                          │ position                     ▲ position after the batch, results
//!                                          v                              │
//!   a thread: batch = freed space is kept ─> ordered walk gathers blocks ─> sorted by device and offset ─> runs of reads
//!                                                                             ─> bad copies are repaired, lost blocks are logged
//! ```
//! OpenZFS scans while a txg syncs, so that nothing changes meanwhile. Here a batch sees the pool
//! in the state of the last synced txg, and the allocator keeps blocks that are freed meanwhile;
//! datasets report their changes (`state::Change`).
//!
//! ZFS names: dsl_scan, spa_errlog.
//!
//! Invariants:
//!   * all blocks before the stored position were examined, and repaired where possible
//!   * memory is bounded: the blocks of a batch, and the bytes being read
//!   * a batch that is stopped, or whose blocks could not be kept, is repeated: its position is not
//!     stored

mod batch;
mod error_log;
mod error_queue;
mod figures;
mod heal;
mod heal_queue;
mod issue;
pub(crate) mod rebuild;
mod rebuild_zap;
mod rebuilds;
mod run;
mod state;
mod stop;
mod transitions;

pub(crate) use error_log::upgrade as upgrade_error_logs;
pub(crate) use figures::Figures;
pub(crate) use state::Scans;
pub use state::{ScanActivity, ScanAnswer, ScanRefused};

use crate::facts::LoggedError;
use crate::writer::background::Background;
use crate::writer::spa::{Shared, SyncTx, Writer};
use block::zevent::class;
use errors::Result;
use heal::Healer;
use object::zap::Zap;
use ondisk::pool_dir::directory;
use ondisk::scan::{ErrorScrub, ScanFunction, ScanState};
use state::{is_active, is_paused};
use std::sync::Arc;
use std::time::Duration;
use transitions::End;

/// Begins a scrub in the syncing txg, unless a scan is active.
pub(crate) fn start_scrub_in(cx: &SyncTx<'_>) -> Result<()> {
    let scans: &Scans = &cx.shared.background.scan;
    let mut state = scans.state.lock();
    if transitions::refusal(&state).is_none() {
        transitions::begin(cx, &mut state, ScanFunction::Scrub, 0)?;
    }
    scans.changed.notify_all();
    Ok(())
}

impl Background for Scans {
    /// Starts self-healing of bad blocks that reads find.
    fn start(&self, shared: &Arc<Shared>) {
        shared.store.set_watch(Some(Arc::new(Healer::new(shared))));
    }

    fn is_dirty(&self) -> bool {
        self.errors.is_dirty()
    }

    /// Writes the errors that wait for the error log.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        self.errors.sync(cx)
    }

    /// Progress that was not stored is repeated by the next importer.
    fn stop(&self, shared: &Shared) {
        self.state.lock().stop = true;
        self.changed.notify_all();
        shared.store.set_watch(None);
        self.heals.stop();
        let thread = self.thread.lock().take();
        // This may be the scan thread itself, if it held the last reference to the pool.
        if let Some(thread) = thread.filter(|t| !t.is_current()) {
            let _ = thread.join();
        }
    }
}

impl Writer {
    /// Starts background scans: an interrupted scan resumes, and devices with stale data are
    /// resilvered.
    pub fn run_scans(&self) -> Result<()> {
        run::start(&self.shared)
    }

    /// Begins a scrub, or resumes a paused one.
    pub fn start_scrub(&self) -> Result<ScanAnswer> {
        self.start_scrub_of(false)
    }

    /// The same, of blocks written since the last scrub.
    pub fn start_scrub_since_last(&self) -> Result<ScanAnswer> {
        self.start_scrub_of(true)
    }

    fn start_scrub_of(&self, since_last: bool) -> Result<ScanAnswer> {
        // As OpenZFS, which reopens all devices first.
        self.validate_labels()?;
        self.shared.change_scan(move |cx, state| match transitions::refusal(state) {
            None => {
                let min = match since_last {
                    true => cx.directory_entry(directory::LAST_SCRUBBED_TXG)?.unwrap_or(0),
                    false => 0,
                };
                transitions::begin(cx, state, ScanFunction::Scrub, min).map(Ok)
            }
            Some(ScanRefused::ScrubPaused) => transitions::pause(cx, state, false).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Begins a scrub of the blocks in the error log, or resumes a paused one. Does nothing if the
    /// log is empty.
    pub fn start_error_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match transitions::refusal(state) {
            None => {
                let Some(log) = cx.directory_entry(directory::ERRLOG_LAST)?.filter(|id| *id != 0) else {
                    return Ok(Ok(()));
                };
                let to_examine = Zap::open(cx.mos().object(log)?)?.count()?;
                if to_examine == 0 {
                    return Ok(Ok(()));
                }
                let scrub = ErrorScrub {
                    function: ScanFunction::ErrorScrub,
                    state: ScanState::ErrorScrubbing,
                    cursor: 0,
                    start_time: cx.shared.now(),
                    end_time: 0,
                    to_examine,
                    examined: 0,
                    errors: 0,
                    paused: 0,
                };
                state.error_scrub = Some(scrub);
                cx.shared.background.scan.figures.error_scrub(true);
                state.restart(cx.txg());
                transitions::keep_error_scrub(cx, Some(&scrub))?;
                cx.config_changed();
                let text = format!("func=3 mintxg=0 maxtxg={}", cx.txg());
                cx.history("error scrub setup", None, &text)?;
                cx.shared.report_scan(class::ERROR_SCRUB_START);
                Ok(Ok(()))
            }
            Some(ScanRefused::ErrorScrubPaused) => transitions::pause_errors(cx, state, false).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Pauses the active scrub.
    pub fn pause_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match transitions::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::Scrubbing) => transitions::pause(cx, state, true).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Pauses the active scrub of the error log.
    pub fn pause_error_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match transitions::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::ErrorScrubbing) => transitions::pause_errors(cx, state, true).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Ends the scrub that is active or paused. A resilver cannot be ended.
    pub fn stop_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match transitions::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::Resilvering) => Ok(Err(ScanRefused::Resilvering)),
            Some(ScanRefused::ErrorScrubbing | ScanRefused::ErrorScrubPaused) => {
                transitions::end_error_scrub(cx, state, false).map(Ok)
            }
            Some(_) => transitions::end(cx, state, End::Cancelled).map(Ok),
        })
    }

    /// Removes entries from the error log, in the next txg: their blocks no longer exist.
    pub fn forget_errors(&self, entries: &[LoggedError]) {
        self.shared.background.scan.errors.forget(entries);
    }

    /// Begins a resilver of the stale data on devices, or restarts the active one. Returns false if
    /// no device has stale data.
    pub fn restart_resilver(&self) -> Result<bool> {
        self.shared.change_scan(run::begin_resilver)
    }

    /// A paused scan does not count as active; a requested resilver does.
    pub fn scan_activity(&self) -> ScanActivity {
        let state = self.shared.background.scan.state.lock();
        let running = state.scan.as_ref().filter(|s| is_active(s) && !is_paused(s)).map(|s| s.function);
        let any = |functions: &[ScanFunction]| [running, state.working].iter().flatten().any(|f| functions.contains(f));
        ScanActivity {
            scrubbing: any(&[ScanFunction::Scrub, ScanFunction::ErrorScrub]) || state.is_error_scrubbing(),
            resilvering: any(&[ScanFunction::Resilver])
                || self.shared.background.scan.is_wanted()
                || state.is_rebuilding(),
        }
    }

    /// Whether a resilver or rebuild is active, requested, or needed: an available device has stale
    /// data.
    pub fn needs_resilver(&self) -> bool {
        self.scan_activity().resilvering || !transitions::lacking(&self.shared.store.tree()).is_empty()
    }

    /// Waits for a change of [`Writer::scan_activity`], at most `longest`.
    pub fn wait_for_scan(&self, longest: Duration) {
        let scan = &self.shared.background.scan;
        let mut state = scan.state.lock();
        scan.changed.wait_for(&mut state, longest);
    }

    /// Waits until all bad blocks that reads found so far were repaired or given up.
    pub fn wait_for_healing(&self) {
        while !self.shared.background.scan.heals.is_idle() {
            host::threads::sleep(Duration::from_millis(1));
        }
    }

    /// Blocks and bytes rewritten by self-healing since the pool was opened.
    pub fn healed(&self) -> (u64, u64) {
        self.shared.background.scan.figures.healed_so_far()
    }
}
