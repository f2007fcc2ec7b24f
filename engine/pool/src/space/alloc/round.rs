//! The syncing txg's state in the allocator.

use std::collections::BTreeMap;

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
