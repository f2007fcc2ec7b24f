//! What a process that owns pools has, for everybody in it.

use crate::command::{Commands, Questions};
use crate::flows::Flows;
use crate::mounts::Mounts;
use admin::House;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Lets go of a dataset and what is below it.
pub type LetGo = Box<dyn Fn(&str) + Send + Sync>;

/// Who is at the other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process, if it is known.
    pub pid: Option<i32>,
}

impl Peer {
    /// Whether it may do all that this process may: it is the same user, or root.
    pub fn is_owner(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// The pools of this process, and what goes on in it.
pub struct Owner {
    /// The pools.
    pub house: Arc<House>,
    /// What of them is mounted.
    pub mounts: Mounts,
    /// File systems that `zfs unshare` took from NFS clients, until `zfs share` or a restart.
    pub unshared: Mutex<BTreeSet<String>>,
    /// The same, for SMB.
    pub unshared_smb: Mutex<BTreeSet<String>>,
    /// Told of a dataset before it and what is below it are unmounted: who serves it from its mount lets go of it.
    pub before_unmount: OnceLock<LetGo>,
    /// Streams that are sent and received.
    pub flows: Arc<Flows>,
    pub(crate) commands: Arc<dyn Commands>,
    pub(crate) questions: Questions,
    work: Mutex<Work>,
    changed: Condvar,
}

/// What goes on.
#[derive(Debug, Default)]
struct Work {
    /// All pools that could be opened at the start are.
    ready: bool,
    /// Nothing new begins.
    stopping: bool,
    /// Commands that run.
    running: usize,
}

/// A command that runs; stopping waits for its end.
pub struct Running(Arc<Owner>);

impl Owner {
    /// With the pools of `house`; nothing runs before [`Owner::ready`].
    pub fn new(house: Arc<House>, mounts: Mounts, commands: Arc<dyn Commands>) -> Arc<Self> {
        let questions = Questions::default();
        Arc::new(Self {
            house,
            mounts,
            unshared: Mutex::default(),
            unshared_smb: Mutex::default(),
            before_unmount: OnceLock::new(),
            flows: Arc::default(),
            commands,
            questions,
            work: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Lets commands run, also those that came before.
    pub fn ready(&self) {
        self.work.lock().ready = true;
        self.changed.notify_all();
    }

    /// Whether commands run.
    pub fn is_ready(&self) -> bool {
        let work = self.work.lock();
        work.ready && !work.stopping
    }

    /// Waits until commands may run; `None`: none may any more.
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

    /// Lets no command begin any more, and waits for those that run, but no longer than this. Whether all ended.
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

impl Drop for Running {
    fn drop(&mut self) {
        self.0.work.lock().running -= 1;
        self.0.changed.notify_all();
    }
}
