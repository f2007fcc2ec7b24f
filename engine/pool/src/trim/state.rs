//! Trim and initialize in memory: orders, and the progress of all leaves.

use super::progress::{Progress, Work, WorkState};
use block::vdev::Leaf;
use host::sync::{Condvar, Mutex};
use host::threads::JoinHandle;
use std::collections::{HashMap, HashSet};

/// A command for a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Start or resume.
    Start {
        /// For trim: limit in bytes per second, 0 for no limit.
        rate: u64,
    },
    Cancel,
    Suspend,
    /// Clear the state as if it had never run (`zpool initialize -u`); only for initialize.
    Forget,
}

/// Why an order is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkRefused {
    /// There is no such leaf.
    NoDevice,
    /// The device is not a leaf that holds blocks, or is unavailable.
    BadDevice,
    /// The work is already active.
    Busy,
    /// The work is not active.
    NotActive,
    /// The device does not support it.
    Unsupported,
}

/// Trim and initialize of a pool.
#[derive(Default)]
pub(crate) struct Sweeps {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
pub(super) struct State {
    pub leaves: HashMap<(u64, Work), Progress>,
    /// Top-level devices that have a thread.
    pub running: HashSet<(u64, Work)>,
    /// Incremented when a leaf joins or leaves.
    pub generation: u64,
    pub is_loaded: bool,
    /// Background work is enabled.
    pub runs: bool,
    pub trims_by_itself: bool,
    pub stop: bool,
}

impl State {
    /// Whether the work is active on an available leaf.
    pub fn wants(&self, work: Work, leaf: &Leaf) -> bool {
        let is_active = self.leaves.get(&(leaf.guid, work)).is_some_and(|p| p.state == WorkState::Active);
        is_active && is_there(leaf)
    }
}

/// Whether the leaf's device can be used.
pub(super) fn is_there(leaf: &Leaf) -> bool {
    leaf.is_open() && !leaf.has_failed()
}

impl Sweeps {
    /// Devices came back, or the tree changed: active passes start again and skip what is done.
    pub fn begin_again(&self) {
        self.state.lock().generation += 1;
        self.changed.notify_all();
    }
}
