//! Work on all free space of a device: trim and initialize.
//!
//! ```text
//!   commands ──> state of each leaf (in its ZAP, changed by the syncing thread)
//!                   │ active                                   ▲ progress, in each txg that has news of it
//!                   v                                          │
//!   a thread for each top-level device: the next free range is held ─> on each active leaf: discard, or write ─> released
//! ```
//! A range is held once for all leaves of a device. If a leaf joins later, or was unavailable, the
//! device's pass starts again and skips, on each leaf, what is already done there.
//!
//! Format: the leaf's ZAP, as in OpenZFS; the next importer of the pool resumes the work. Facts:
//! module/zfs/vdev_trim.c, vdev_initialize.c.
//!
//! Invariants:
//!   * only held ranges are touched: they are free in this txg and in those to which the pool may
//!     be rewound
//!   * the progress of a leaf is recorded after the work was done

mod autotrim;
mod leaf_zap;
mod progress;
mod run;
mod state;

pub(crate) use leaf_zap::forget_active;
pub(crate) use progress::read as read_work;
pub use progress::{Work, WorkState};
pub(crate) use state::Sweeps;
pub use state::{Order, WorkRefused};

use crate::config::VdevConfig;
use crate::writer::background::Background;
use crate::writer::spa::{Shared, Writer};
use crate::writer::tree::find_leaf;
use errors::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

impl Writer {
    /// Starts, suspends or ends work on a leaf, in the next txg.
    pub fn order_work(&self, work: Work, guid: u64, order: Order) -> Result<std::result::Result<(), WorkRefused>> {
        let shared = &self.shared;
        shared.load_sweeps()?;
        if let Some(why) = shared.refusal_of_work(work, guid, order) {
            return Ok(Err(why));
        }
        self.task(move |cx| cx.all_or_nothing(|| leaf_zap::change(cx, work, guid, order)))?;
        shared.background.sweeps.changed.notify_all();
        shared.start_sweeps()?;
        Ok(Ok(()))
    }

    /// Starts background work: interrupted work resumes, and `autotrim` applies if it is on.
    pub fn run_sweeps(&self) -> Result<()> {
        self.shared.load_sweeps()?;
        self.shared.background.sweeps.state.lock().runs = true;
        self.shared.start_sweeps()?;
        self.shared.start_autotrim()
    }

    /// Whether the work is active on one of these leaves, or ended in a txg that is not on disk
    /// yet. An empty list means all leaves.
    pub fn is_working(&self, work: Work, leaves: &[u64]) -> bool {
        let tree = self.shared.store.tree();
        let is_meant = |top: &u64| {
            let top = tree.tops.iter().find(|t| t.guid == *top);
            leaves.is_empty() || top.is_some_and(|top| top.leaves().iter().any(|leaf| leaves.contains(&leaf.guid)))
        };
        let state = self.shared.background.sweeps.state.lock();
        let mut active = state.leaves.iter().filter(|((_, w), p)| *w == work && p.state == WorkState::Active);
        active.any(|((guid, _), _)| leaves.is_empty() || leaves.contains(guid))
            || state.running.iter().any(|(top, w)| *w == work && is_meant(top))
    }

    /// Waits for a change of [`Writer::is_working`], at most `longest`.
    pub fn wait_for_work(&self, longest: Duration) {
        let mut state = self.shared.background.sweeps.state.lock();
        self.shared.background.sweeps.changed.wait_for(&mut state, longest);
    }

    /// Trims all ranges that were freed since the last round of `autotrim`, now.
    pub fn trim_freed(&self) -> Result<()> {
        autotrim::all(&self.shared)
    }
}

impl Shared {
    fn load_sweeps(&self) -> Result<()> {
        let mut state = self.background.sweeps.state.lock();
        if !state.is_loaded {
            // A copy: reading may wait for the end of a txg, which needs the configuration.
            let root = self.config.root.lock().clone();
            state.leaves = progress::load(&self.mos, &root)?;
            state.is_loaded = true;
        }
        Ok(())
    }

    /// Devices are in use again: starts the threads of active work that ended without them.
    pub(crate) fn resume_sweeps(self: &Arc<Self>) -> Result<()> {
        let runs = self.background.sweeps.state.lock().runs;
        if runs { self.start_sweeps() } else { Ok(()) }
    }

    fn refusal_of_work(&self, work: Work, guid: u64, order: Order) -> Option<WorkRefused> {
        let tree = self.store.tree();
        let (top, leaf) = match find_leaf(&tree, guid) {
            Ok(found) => found,
            Err(_) if tree.find(guid).is_some() => return Some(WorkRefused::BadDevice),
            Err(_) => return Some(WorkRefused::NoDevice),
        };
        if !leaf.is_open() || leaf.has_failed() {
            return Some(WorkRefused::BadDevice);
        }
        let root = self.config.root.lock();
        let moves = |top: &VdevConfig| top.number(ondisk::pool_dir::config::REMOVING) != 0 || is_expanding(top);
        let moves = root.top_of(guid).is_some_and(moves);
        drop(root);
        let state = self.background.sweeps.state.lock();
        let now = state.leaves.get(&(guid, work)).map_or(WorkState::None, |p| p.state);
        let runs = now == WorkState::Active && state.running.contains(&(top.guid, work));
        match order {
            Order::Start { .. } if moves || runs => Some(WorkRefused::Busy),
            Order::Start { .. } if work == Work::Trim && !leaf.can_discard() => Some(WorkRefused::Unsupported),
            Order::Cancel if !matches!(now, WorkState::Active | WorkState::Suspended) => Some(WorkRefused::NotActive),
            Order::Suspend if now != WorkState::Active => Some(WorkRefused::NotActive),
            Order::Forget if runs => Some(WorkRefused::Busy),
            _ => None,
        }
    }

    fn start_autotrim(self: &Arc<Self>) -> Result<()> {
        let mut state = self.background.sweeps.state.lock();
        if state.stop || std::mem::replace(&mut state.trims_by_itself, true) {
            return Ok(());
        }
        let on = self.views.base.as_ref().is_some_and(|base| base.is_on("autotrim").unwrap_or(false));
        self.allocator.note_untrimmed(on);
        let shared = self.clone();
        let spawned = host::threads::spawn("autotrim", move || autotrim::run(&shared));
        self.background.sweeps.threads.lock().push(spawned.map_err(|e| Error::io(self.store.name(), e))?);
        Ok(())
    }
}

impl Background for Sweeps {
    fn stop(&self, _: &Shared) {
        self.state.lock().stop = true;
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads.into_iter().filter(|t| !t.is_current()) {
            let _ = thread.join();
        }
    }
}

fn is_expanding(top: &VdevConfig) -> bool {
    top.all.contains(ondisk::pool_dir::config::RAIDZ_EXPANDING)
}
