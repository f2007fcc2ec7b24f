//! The syncing txg's state in the allocator, and what later txgs have to do.

use host::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of recent logs from which the growth per txg is estimated. Guessed.
const RECENT: usize = 4;

/// A log space map.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub object: u64,
    pub length_bytes: u64,
    pub allocated_bytes: i64,
}

/// All logs, and the fraction of metaslabs still to flush.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Logs by txg.
    pub all: BTreeMap<u64, Log>,
    /// Thousandths of a metaslab carried over from earlier txgs.
    pub credit: u64,
}

impl Logs {
    pub fn bytes(&self) -> u64 {
        self.all.values().map(|log| log.length_bytes).sum()
    }

    pub fn incoming_bytes(&self) -> u64 {
        let recent = || self.all.values().rev().take(RECENT).map(|log| log.length_bytes);
        recent().sum::<u64>() / recent().count().max(1) as u64
    }
}

/// The syncing txg and its current pass.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub txg: u64,
    pub pass: u16,
    /// Log space maps, including that of the txg.
    pub logs: Logs,
}

/// The syncing txg, the last one, and what is due in a coming one.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    syncing: Mutex<Round>,
    /// Txg of the last uberblock on disk; 0 in a pool that is being created.
    last_txg: AtomicU64,
    /// The next txg flushes all metaslabs.
    flush_all: AtomicBool,
    /// Devices that become larger in the syncing txg, with their new sizes in bytes.
    growing: Mutex<Vec<(u32, u64)>>,
}

impl Rounds {
    /// The syncing txg. Its lock is held until the result is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Round> {
        self.syncing.lock()
    }

    pub fn get_mut(&mut self) -> &mut Round {
        self.syncing.get_mut()
    }

    pub fn last_txg(&self) -> u64 {
        self.last_txg.load(Ordering::Relaxed)
    }

    pub fn set_last_txg(&self, txg: u64) {
        self.last_txg.store(txg, Ordering::Relaxed);
    }

    /// Whether the next txg flushes all metaslabs.
    pub fn flushes_all(&self) -> bool {
        self.flush_all.load(Ordering::Relaxed)
    }

    pub fn set_flush_all(&self, yes: bool) {
        self.flush_all.store(yes, Ordering::Relaxed);
    }

    /// The syncing txg makes a device larger.
    pub fn grow(&self, vdev: u32, asize_bytes: u64) {
        self.growing.lock().push((vdev, asize_bytes));
    }

    /// Takes the devices that the syncing txg made larger, with their new sizes in bytes.
    pub fn take_growing(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.growing.lock())
    }
}
