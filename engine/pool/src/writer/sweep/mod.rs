//! What is done to all free space of a device: trimming it, writing a pattern to it.
//!
//! ```text
//!   commands ──> state of each leaf (in its ZAP, changed in the thread that syncs)
//!                   │ active                                   ▲ how far, with each txg that has news of it
//!                   v                                          │
//!   a thread for each top-level device: next free range is held ─> on each active leaf: discard, or write ─> let go of
//! ```
//! A range is held once for all leaves of a device. A leaf that began later, or was away, has the device's sweep begin anew, which passes
//! by what others have had.
//!
//! Format: the leaf's ZAP, as OpenZFS has it; who imports the pool next goes on. Facts: module/zfs/vdev_trim.c, vdev_initialize.c.
//!
//! Invariants:
//!   * only what is held is touched: free in this txg and in those that may be gone back to
//!   * how far a leaf is, is noted after that was done

mod autotrim;
mod kept;
mod run;

pub(crate) use kept::read as read_work;

use super::tree::find_leaf;
use super::{Shared, Writer};
use crate::config::VdevConfig;
use crate::{Error, Result};
use block::vdev::Leaf;
use kept::Progress;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Devices are told what is free.
    Trim,
    /// A pattern is written to what is free.
    Initialize,
}

/// How far it is with a leaf: the numbers are those on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum WorkState {
    /// Never begun.
    #[default]
    None = 0,
    /// Under way.
    Active = 1,
    /// Ended before its time.
    Cancelled = 2,
    /// It waits to be told to go on.
    Suspended = 3,
    /// Done.
    Complete = 4,
}

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Begin, or go on. Trimming: bytes in a second at most, 0 for no limit.
    Start {
        /// See above.
        rate: u64,
    },
    /// End it.
    Cancel,
    /// Wait to be told to go on.
    Suspend,
    /// Forget that it was ever done: initializing only.
    Forget,
}

/// Why it cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkRefused {
    /// There is no such leaf.
    NoDevice,
    /// It is none that holds blocks, or not there.
    BadDevice,
    /// It is being done.
    Busy,
    /// It is not being done.
    NotActive,
    /// The device cannot.
    Unsupported,
}

/// All of a pool.
#[derive(Default)]
pub(super) struct Sweeps {
    state: Mutex<State>,
    changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    leaves: HashMap<(u64, Work), Progress>,
    /// Top-level devices that have a thread.
    running: HashSet<(u64, Work)>,
    /// Rises when some leaf joins or leaves.
    generation: u64,
    is_loaded: bool,
    /// Work goes on in the background.
    runs: bool,
    trims_by_itself: bool,
    stop: bool,
}

impl State {
    /// Whether a leaf that is there wants the work.
    fn wants(&self, work: Work, leaf: &Leaf) -> bool {
        let is_active = self.leaves.get(&(leaf.guid, work)).is_some_and(|p| p.state == WorkState::Active);
        is_active && leaf.is_open() && !leaf.has_failed()
    }
}

impl Writer {
    /// Begins, suspends or ends something for a leaf, with the next txg.
    pub fn order_work(&self, work: Work, guid: u64, order: Order) -> Result<std::result::Result<(), WorkRefused>> {
        let shared = &self.shared;
        shared.load_sweeps()?;
        if let Some(why) = shared.refusal_of_work(work, guid, order) {
            return Ok(Err(why));
        }
        self.task(move |cx| cx.all_or_nothing(|| kept::change(cx, work, guid, order)))?;
        shared.sweeps.changed.notify_all();
        shared.start_sweeps()?;
        Ok(Ok(()))
    }

    /// Has what is under way go on in the background from now on, and trims by itself if the pool is to.
    pub fn run_sweeps(&self) -> Result<()> {
        self.shared.load_sweeps()?;
        self.shared.sweeps.state.lock().runs = true;
        self.shared.start_sweeps()?;
        self.shared.start_autotrim()
    }

    /// Whether some of it is under way for one of these leaves, or ended with a txg that is not on disk yet: for all when none is named.
    pub fn is_working(&self, work: Work, leaves: &[u64]) -> bool {
        let tree = self.shared.store.tree();
        let is_meant = |top: &u64| {
            let top = tree.tops.iter().find(|t| t.guid == *top);
            leaves.is_empty() || top.is_some_and(|top| top.leaves().iter().any(|leaf| leaves.contains(&leaf.guid)))
        };
        let state = self.shared.sweeps.state.lock();
        let mut active = state.leaves.iter().filter(|((_, w), p)| *w == work && p.state == WorkState::Active);
        active.any(|((guid, _), _)| leaves.is_empty() || leaves.contains(guid))
            || state.running.iter().any(|(top, w)| *w == work && is_meant(top))
    }

    /// Waits for a change of [`Writer::is_working`], but no longer than this.
    pub fn wait_for_work(&self, longest: Duration) {
        let mut state = self.shared.sweeps.state.lock();
        self.shared.sweeps.changed.wait_for(&mut state, longest);
    }

    /// Tells devices now what was freed since they were last told (`autotrim`).
    pub fn trim_freed(&self) -> Result<()> {
        autotrim::all(&self.shared)
    }
}

impl Shared {
    fn load_sweeps(&self) -> Result<()> {
        let mut state = self.sweeps.state.lock();
        if !state.is_loaded {
            // A copy: reading may wait for the end of a txg, which needs the configuration.
            let root = self.root.lock().clone();
            state.leaves = kept::load(&self.mos, &root)?;
            state.is_loaded = true;
        }
        Ok(())
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
        let root = self.root.lock();
        let moves = |top: &VdevConfig| top.number(ondisk::pool_dir::config::REMOVING) != 0 || is_expanding(top);
        let moves = root.top_of(guid).is_some_and(moves);
        drop(root);
        let state = self.sweeps.state.lock();
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

    /// Gives each top-level device with active leaves a thread, if it has none.
    fn start_sweeps(self: &Arc<Self>) -> Result<()> {
        let tree = self.store.tree();
        let mut state = self.sweeps.state.lock();
        for work in [Work::Trim, Work::Initialize] {
            for top in &tree.tops {
                let is_wanted = top.leaves().into_iter().any(|leaf| state.wants(work, leaf));
                if state.stop || !is_wanted || !state.running.insert((top.guid, work)) {
                    continue;
                }
                let (shared, top) = (self.clone(), top.guid);
                let spawned = std::thread::Builder::new().name("sweep".into()).spawn(move || {
                    run::sweep(&shared, top, work);
                });
                match spawned {
                    Ok(thread) => {
                        let mut threads = self.sweeps.threads.lock();
                        threads.retain(|thread| !thread.is_finished());
                        threads.push(thread);
                    }
                    Err(e) => {
                        state.running.remove(&(top, work));
                        return Err(Error::io(self.store.name(), e));
                    }
                }
            }
        }
        Ok(())
    }

    fn start_autotrim(self: &Arc<Self>) -> Result<()> {
        let mut state = self.sweeps.state.lock();
        if state.stop || std::mem::replace(&mut state.trims_by_itself, true) {
            return Ok(());
        }
        let on = self.base.as_ref().is_some_and(|base| base.is_on("autotrim").unwrap_or(false));
        self.allocator.note_untold(on);
        let shared = self.clone();
        let spawned = std::thread::Builder::new().name("autotrim".into()).spawn(move || autotrim::run(&shared));
        self.sweeps.threads.lock().push(spawned.map_err(|e| Error::io(self.store.name(), e))?);
        Ok(())
    }

    /// Devices came back, or the tree is another one: what is under way begins anew, which passes by what was done.
    pub(super) fn sweep_anew(&self) {
        self.sweeps.state.lock().generation += 1;
        self.sweeps.changed.notify_all();
    }

    /// Ends what runs in the background, and waits for it; it goes on when the pool is opened again.
    pub(super) fn stop_sweeps(&self) {
        self.sweeps.state.lock().stop = true;
        self.sweeps.changed.notify_all();
        let threads = std::mem::take(&mut *self.sweeps.threads.lock());
        for thread in threads.into_iter().filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

fn is_expanding(top: &VdevConfig) -> bool {
    top.all.contains(ondisk::pool_dir::config::RAIDZ_EXPANDING)
}
