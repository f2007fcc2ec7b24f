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
//! datasets report their changes ([`Change`]).
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
mod figures;
mod heal;
mod issue;
pub(super) mod rebuild;
mod run;
mod state;

pub(crate) use figures::Figures;
pub(super) use heal::{Healer, Told};

use super::tx::SyncTx;
use super::{Shared, Writer};
use crate::Pool;
use block::Store;
use block::vdev::Mended;
use block::zevent::class;
use error_log::Errors;
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::directory;
use ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use parking_lot::{Condvar, Mutex};
use state::End;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a scan cannot begin, pause or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanRefused {
    /// A scrub is active.
    Scrubbing,
    /// A scrub is paused.
    ScrubPaused,
    /// A scrub of the error log is active.
    ErrorScrubbing,
    /// A scrub of the error log is paused.
    ErrorScrubPaused,
    /// A resilver is active.
    Resilvering,
    /// No scan is active or paused.
    NoScan,
}

/// Success, or the reason for a refusal.
pub type ScanAnswer = std::result::Result<(), ScanRefused>;

/// Current scan activity of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanActivity {
    /// A scrub is active and not paused, including a scrub of the error log.
    pub scrubbing: bool,
    /// A resilver or rebuild is active, or about to begin.
    pub resilvering: bool,
}

/// Changes of datasets that affect a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Destroyed { id: u64, next: Option<u64> },
    Snapshotted { head: u64, snapshot: u64 },
    Swapped { a: u64, b: u64 },
}

/// Active and requested scans.
#[derive(Default)]
pub(crate) struct Scans {
    errors: Errors,
    pub figures: Arc<Figures>,
    state: Mutex<State>,
    /// A resilver is requested.
    wanted: AtomicBool,
    changed: Condvar,
    healer: OnceLock<Arc<Healer>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    /// As stored in the pool.
    scan: Option<Scan>,
    queue: BTreeMap<u64, u64>,
    /// Sequential rebuilds, as stored in the pool.
    rebuilds: rebuild::Rebuilds,
    error_scrub: Option<ErrorScrub>,
    /// A batch started from an older position than the current one; `changes` records what changed
    /// since.
    in_batch: bool,
    changes: Vec<Change>,
    /// The last txg that changed any of this state.
    changed_txg: u64,
    /// Incremented when the results of a running batch become useless.
    generation: u64,
    /// Leaves that have been available since the resilver began.
    covered: HashSet<u64>,
    /// Leaves, with the birth txgs of blocks that could not be written to them.
    failed: HashSet<(u64, u64)>,
    /// Nothing new begins: the pool is being closed.
    stop: bool,
    /// The thread could not continue; reported only once.
    trouble: bool,
    /// The current work of the thread, until the txg that records it is on disk.
    working: Option<ScanFunction>,
}

fn is_active(scan: &Scan) -> bool {
    scan.state == ScanState::Scanning
}

fn is_paused(scan: &Scan) -> bool {
    scan.flags & Scan::FLAG_PAUSED != 0
}

impl State {
    fn began_anew(&mut self, txg: u64) {
        self.generation += 1;
        self.changes.clear();
        self.in_batch = false;
        self.changed_txg = txg;
    }

    fn is_error_scrubbing(&self) -> bool {
        self.error_scrub.is_some_and(|s| s.state == ScanState::ErrorScrubbing && s.paused == 0)
    }
}

impl Scans {
    /// Loads the stored state.
    pub fn load(pool: &Pool) -> Result<Self> {
        let scans = Self::default();
        let mut state = scans.state.lock();
        if let Some(value) = pool.directory().lookup(directory::SCAN)? {
            let scan = Scan::from_words(&value.ints)?;
            if is_active(&scan) && scan.queue_object != 0 {
                for entry in Zap::open(pool.mos().object(scan.queue_object)?)?.entries()? {
                    let id = std::str::from_utf8(&entry.name).ok().and_then(|n| u64::from_str_radix(n, 16).ok());
                    if let (Some(id), Some(txg)) = (id, entry.value.as_u64()) {
                        state.queue.insert(id, txg);
                    }
                }
            }
            state.scan = Some(scan).filter(|s| s.function != ScanFunction::None);
        }
        state.error_scrub = match pool.directory().lookup(directory::ERRORSCRUB)? {
            Some(value) => Some(ErrorScrub::from_words(&value.ints)?).filter(|s| s.function != ScanFunction::None),
            None => None,
        };
        state.rebuilds = rebuild::load(pool);
        state.rebuilds.iter().for_each(|(vdev, rebuild)| scans.figures.rebuild(*vdev, *rebuild));
        if let Some(scan) = state.scan.filter(is_active) {
            scans.figures.begin(&scan, host::clock::seconds());
        }
        drop(state);
        Ok(scans)
    }

    /// Requests a resilver: an available leaf has stale ranges as of the syncing txg. Cheap, and
    /// never waits.
    pub(crate) fn resilver_wanted(&self) {
        self.wanted.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Writes the errors that wait for the error log.
    pub(super) fn sync_errors(&self, cx: &SyncTx<'_>) -> Result<()> {
        self.errors.sync(cx)
    }

    /// Whether there is anything to write in the open txg.
    pub(super) fn is_dirty(&self) -> bool {
        self.errors.is_dirty()
    }

    /// Whether errors count as those of a scan. Takes no lock, because every reader calls it.
    fn is_running(&self) -> bool {
        self.figures.is_running()
    }
}

/// Begins a scrub in the syncing txg, unless a scan is active.
pub(super) fn start_scrub_in(cx: &SyncTx<'_>) -> Result<()> {
    let scans: &Scans = &cx.shared.scan;
    let mut state = scans.state.lock();
    if state::refusal(&state).is_none() {
        state::begin(cx, &mut state, ScanFunction::Scrub, 0)?;
    }
    scans.changed.notify_all();
    Ok(())
}

/// Counts rewritten bytes for each device.
fn note_mended(store: &Store, mended: &Mended, self_heal: bool, during_scan: bool) {
    let tree = store.tree();
    for (guid, bytes) in mended.written.iter().chain(&mended.written_for) {
        if let Some(log) = tree.find(*guid).and_then(|v| v.log()) {
            log.note_mended(*bytes, self_heal, during_scan);
        }
    }
}

impl Shared {
    fn begin_watching(self: &Arc<Self>) {
        let healer = Healer::new(self);
        self.store.set_watch(Some(Arc::new(Told(healer.clone()))));
        let _ = self.scan.healer.set(healer);
    }

    /// Starts self-healing of bad blocks that reads find.
    pub(super) fn watch_reads(self: &Arc<Self>) {
        self.begin_watching();
    }

    /// Stops background work and waits for it. Progress that was not stored is repeated by the next
    /// importer.
    pub(super) fn stop_scans(&self) {
        self.scan.state.lock().stop = true;
        self.scan.changed.notify_all();
        self.store.set_watch(None);
        if let Some(healer) = self.scan.healer.get() {
            healer.stop();
        }
        let thread = self.scan.thread.lock().take();
        // This may be the scan thread itself, if it held the last reference to the pool.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Changes the state in the syncing thread.
    fn change_scan<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&SyncTx<'_>, &mut State) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let result = self.task(move |cx| {
            let mut state = cx.shared.scan.state.lock();
            cx.all_or_nothing(|| change(cx, &mut state))
        });
        self.scan.changed.notify_all();
        result
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
        self.shared.change_scan(move |cx, state| match state::refusal(state) {
            None => {
                let min = match since_last {
                    true => cx.directory_entry(directory::LAST_SCRUBBED_TXG)?.unwrap_or(0),
                    false => 0,
                };
                state::begin(cx, state, ScanFunction::Scrub, min).map(Ok)
            }
            Some(ScanRefused::ScrubPaused) => state::pause(cx, state, false).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Begins a scrub of the blocks in the error log, or resumes a paused one. Does nothing if the
    /// log is empty.
    pub fn start_error_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match state::refusal(state) {
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
                cx.shared.scan.figures.error_scrub(true);
                state.began_anew(cx.txg());
                state::keep_error_scrub(cx, Some(&scrub))?;
                cx.config_changed();
                let text = format!("func=3 mintxg=0 maxtxg={}", cx.txg());
                cx.history("error scrub setup", None, &text)?;
                cx.shared.report_scan(class::ERROR_SCRUB_START);
                Ok(Ok(()))
            }
            Some(ScanRefused::ErrorScrubPaused) => state::pause_errors(cx, state, false).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Pauses the active scrub.
    pub fn pause_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match state::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::Scrubbing) => state::pause(cx, state, true).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Pauses the active scrub of the error log.
    pub fn pause_error_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match state::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::ErrorScrubbing) => state::pause_errors(cx, state, true).map(Ok),
            Some(why) => Ok(Err(why)),
        })
    }

    /// Ends the scrub that is active or paused. A resilver cannot be ended.
    pub fn stop_scrub(&self) -> Result<ScanAnswer> {
        self.shared.change_scan(|cx, state| match state::refusal(state) {
            None => Ok(Err(ScanRefused::NoScan)),
            Some(ScanRefused::Resilvering) => Ok(Err(ScanRefused::Resilvering)),
            Some(ScanRefused::ErrorScrubbing | ScanRefused::ErrorScrubPaused) => {
                run::end_error_scrub(cx, state, false).map(Ok)
            }
            Some(_) => state::end(cx, state, End::Cancelled).map(Ok),
        })
    }

    /// Begins a resilver of the stale data on devices, or restarts the active one. Returns false if
    /// no device has stale data.
    pub fn restart_resilver(&self) -> Result<bool> {
        self.shared.change_scan(run::begin_resilver)
    }

    /// Current scan activity.
    pub fn scan_activity(&self) -> ScanActivity {
        let state = self.shared.scan.state.lock();
        let running = state.scan.as_ref().filter(|s| is_active(s) && !is_paused(s)).map(|s| s.function);
        let any = |functions: &[ScanFunction]| [running, state.working].iter().flatten().any(|f| functions.contains(f));
        ScanActivity {
            scrubbing: any(&[ScanFunction::Scrub, ScanFunction::ErrorScrub]) || state.is_error_scrubbing(),
            resilvering: any(&[ScanFunction::Resilver]) || self.shared.scan.is_wanted() || state.is_rebuilding(),
        }
    }

    /// Whether a resilver or rebuild is active, requested, or needed: an available device has stale
    /// data.
    pub fn needs_resilver(&self) -> bool {
        self.scan_activity().resilvering || !state::lacking(&self.shared.store.tree()).is_empty()
    }

    /// Waits for a change of [`Writer::scan_activity`], at most `longest`.
    pub fn wait_for_scan(&self, longest: Duration) {
        let scan = &self.shared.scan;
        let mut state = scan.state.lock();
        scan.changed.wait_for(&mut state, longest);
    }

    /// Waits until all bad blocks that reads found so far were repaired or given up.
    pub fn wait_for_healing(&self) {
        while self.shared.scan.healer.get().is_some_and(|healer| !healer.is_idle()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Blocks and bytes rewritten by self-healing since the pool was opened.
    pub fn healed(&self) -> (u64, u64) {
        self.shared.scan.figures.healed_so_far()
    }
}
