//! The state of scans in memory, and how changes of datasets move a scan's position.
//!
//! Above: `transitions`, which changes it in the syncing txg and stores it in the pool.

use super::error_queue::Errors;
use super::figures::Figures;
use super::heal_queue::HealQueue;
use super::rebuilds::{self, Rebuilds};
use crate::Pool;
use crate::scan::dsl_scan::NO_OBJSET;
use errors::Result;
use host::sync::{Condvar, Mutex};
use host::threads::JoinHandle;
use object::zap::Zap;
use ondisk::errlog::ErrorBookmark;
use ondisk::pool_dir::directory;
use ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Active and requested scans.
#[derive(Default)]
pub(crate) struct Scans {
    pub(super) errors: Errors,
    pub figures: Arc<Figures>,
    pub(super) state: Mutex<State>,
    /// A resilver is requested.
    pub(super) wanted: AtomicBool,
    pub(super) changed: Condvar,
    /// Bad blocks that reads found.
    pub(super) heals: Arc<HealQueue>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
pub(super) struct State {
    /// As stored in the pool.
    pub scan: Option<Scan>,
    pub queue: BTreeMap<u64, u64>,
    /// Sequential rebuilds, as stored in the pool.
    pub rebuilds: Rebuilds,
    pub error_scrub: Option<ErrorScrub>,
    /// A batch started from an older position than the current one; `changes` records what changed
    /// since.
    pub in_batch: bool,
    pub changes: Vec<Change>,
    /// The last txg that changed any of this state.
    pub changed_txg: u64,
    /// Incremented when the results of a running batch become useless.
    pub generation: u64,
    /// Leaves that have been available since the resilver began.
    pub covered: HashSet<u64>,
    /// Leaves, with the birth txgs of blocks that could not be written to them.
    pub failed: HashSet<(u64, u64)>,
    /// Nothing new begins: the pool is being closed.
    pub stop: bool,
    /// The thread could not continue; reported only once.
    pub trouble: bool,
    /// The current work of the thread, until the txg that records it is on disk.
    pub working: Option<ScanFunction>,
}

/// The first position: the MOS.
pub(super) const START: ErrorBookmark = ErrorBookmark { objset: 0, object: 0, level: 0, block: 0 };

/// Changes of datasets that affect a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Destroyed { id: u64, next: Option<u64> },
    Snapshotted { head: u64, snapshot: u64 },
    Swapped { a: u64, b: u64 },
}

pub(super) fn is_active(scan: &Scan) -> bool {
    scan.state == ScanState::Scanning
}

pub(super) fn is_paused(scan: &Scan) -> bool {
    scan.flags & Scan::FLAG_PAUSED != 0
}

impl State {
    pub fn restart(&mut self, txg: u64) {
        self.generation += 1;
        self.changes.clear();
        self.in_batch = false;
        self.changed_txg = txg;
    }

    pub fn is_error_scrubbing(&self) -> bool {
        self.error_scrub.is_some_and(|s| s.state == ScanState::ErrorScrubbing && s.paused == 0)
    }

    /// Whether a device is being rebuilt.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuilds.values().any(rebuilds::is_active)
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
        state.rebuilds = rebuilds::load(pool);
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

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Whether errors count as those of a scan. Takes no lock, because every reader calls it.
    pub(super) fn is_running(&self) -> bool {
        self.figures.is_running()
    }

    /// Whether a device is being rebuilt.
    pub fn is_rebuilding(&self) -> bool {
        self.state.lock().is_rebuilding()
    }

    /// Whether a resilver is active or about to begin.
    pub fn is_resilvering(&self) -> bool {
        let state = self.state.lock();
        self.is_wanted() || state.scan.is_some_and(|s| is_active(&s) && s.function == ScanFunction::Resilver)
    }
}

impl Change {
    /// Updates a position after a dataset was destroyed, snapshotted or swapped.
    pub fn apply(self, scan: &mut Scan, queue: &mut BTreeMap<u64, u64>) {
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
    fn destroyed_datasets_pass_on_the_scan_position() {
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
