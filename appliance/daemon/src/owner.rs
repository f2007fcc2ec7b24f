//! State of a process that owns pools, shared by all its parts.

use crate::command::{Io, Questions};
use crate::flows::Flows;
use crate::mounts::Mounts;
use admin::mounts::{Mounted, Mounter, NotUnmounted, Plan};
use admin::{House, OwnedPool};
use api::CommandRequest;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Releases a dataset and its descendants.
pub type LetGo = Box<dyn Fn(&str) + Send + Sync>;

/// The commands `zpool`, `zfs` and `weir`, which the program provides.
pub trait Commands: Send + Sync {
    /// Runs a command and returns its exit code. Called in a thread that may block.
    fn run(&self, owner: &Arc<Owner>, request: &CommandRequest, io: &Io) -> u8;

    /// Whether a command only reads: any user who reaches the process may run it.
    fn only_looks(&self, request: &CommandRequest) -> bool;

    /// Whether the command checks by itself, when it runs, what was delegated to its caller.
    fn checks_delegation(&self, request: &CommandRequest) -> bool;
}

/// The pools of this process, and its activity.
pub struct Owner {
    pub house: Arc<House>,
    /// Mounts of their file systems.
    pub mounts: Mounts,
    /// File systems removed from NFS by `zfs unshare`, until `zfs share` or a restart.
    pub unshared: Mutex<BTreeSet<String>>,
    /// The same, for SMB.
    pub unshared_smb: Mutex<BTreeSet<String>>,
    /// Called for a dataset before it and its descendants are unmounted, so that servers of the
    /// mount release it.
    pub before_unmount: OnceLock<LetGo>,
    /// Active sends and receives.
    pub flows: Arc<Flows>,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) questions: Arc<Questions>,
    work: Mutex<Work>,
    changed: Condvar,
}

/// Whether commands may run, and how many do.
#[derive(Debug, Default)]
struct Work {
    /// All pools that can be opened at the start are open.
    ready: bool,
    /// No new command begins.
    stopping: bool,
    /// Number of running commands.
    running: usize,
}

/// A running command; stopping waits for its end.
pub struct Running(Arc<Owner>);

impl Owner {
    /// For the pools of `house`. Commands wait until [`Owner::ready`] is called.
    pub fn new(house: Arc<House>, mounts: Mounts, commands: Arc<dyn Commands>) -> Arc<Self> {
        Arc::new(Self {
            house,
            mounts,
            unshared: Mutex::default(),
            unshared_smb: Mutex::default(),
            before_unmount: OnceLock::new(),
            flows: Arc::default(),
            commands,
            questions: Arc::default(),
            work: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Starts running commands, including waiting ones.
    pub fn ready(&self) {
        self.work.lock().ready = true;
        self.changed.notify_all();
    }

    /// Whether commands run: the pools are open, and the process is not stopping.
    pub fn is_ready(&self) -> bool {
        let work = self.work.lock();
        work.ready && !work.stopping
    }

    /// Makes servers of mounts release a dataset and its descendants.
    fn release(&self, dataset: &str) {
        if let Some(before) = self.before_unmount.get() {
            before(dataset);
        }
    }

    /// Unmounts a dataset, but not file systems mounted inside it. Fails if it is in use.
    pub fn unmount(&self, dataset: &str) -> io::Result<()> {
        self.release(dataset);
        self.mounts.unmount(dataset, false)
    }

    /// Waits until commands may run; `None`: the process is stopping.
    pub fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut work = self.work.lock();
        while !work.ready && !work.stopping {
            self.changed.wait(&mut work);
        }
        if work.stopping {
            return None;
        }
        work.running += 1;
        Some(Running(self.clone()))
    }

    /// Refuses new commands and waits for running ones, at most `longest`. Returns whether all have
    /// ended.
    pub fn stop(&self, longest: Duration) -> bool {
        let deadline = Instant::now() + longest;
        let mut work = self.work.lock();
        work.stopping = true;
        self.changed.notify_all();
        while work.running > 0 {
            if self.changed.wait_until(&mut work, deadline).timed_out() {
                return work.running == 0;
            }
        }
        true
    }
}

impl Mounter for Owner {
    fn is_automatic(&self) -> bool {
        self.mounts.is_automatic()
    }

    fn below(&self, pool: u64, dataset: &str) -> Vec<Mounted> {
        self.mounts.below(pool, dataset)
    }

    fn mount(&self, pool: &OwnedPool, dataset: &str, plan: &Plan) -> io::Result<()> {
        self.mounts.mount(pool, dataset, plan)
    }

    fn unmount_below(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.release(dataset);
        self.mounts.unmount_below(pool, dataset, force)
    }

    fn unmount_placed(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.release(dataset);
        self.mounts.unmount_placed(pool, dataset, force)
    }

    fn renamed(&self, pool: u64, from: &str, to: &str) {
        self.mounts.renamed(pool, from, to);
    }

    fn forget(&self, pool: &OwnedPool, destroyed: &[Mounted]) {
        self.mounts.forget(pool, destroyed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.work.lock().running -= 1;
        self.0.changed.notify_all();
    }
}
