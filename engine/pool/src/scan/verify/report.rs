//! What verifying finds: plain data.

use crate::Bookmark;
use std::collections::BTreeMap;

/// Entries kept of each list; the counts go on.
pub const LISTED_MAX: usize = 100_000;

/// Something that cannot be read, or not walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub at: Bookmark,
    /// Bytes of the object that one block of that level spans, from `at.blkid` times this; 0 when unknown.
    pub span_bytes: u64,
    /// Why.
    pub error: String,
    /// Further datasets (object numbers) that use the same block at the same place: later snapshots, the head, clones.
    pub also_in: Vec<u64>,
}

/// Wrong copies and columns of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFaults {
    /// Blocks for which the device was not there.
    pub missing: u64,
    /// Blocks that could not be read from it.
    pub unreadable: u64,
    /// Blocks of which it holds wrong bytes.
    pub wrong: u64,
    /// Blocks written while it was away.
    pub stale: u64,
}

/// Space that is not what the space maps say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leak {
    /// Top-level device.
    pub vdev: u64,
    /// Offset on it.
    pub offset_bytes: u64,
    /// Length.
    pub size_bytes: u64,
}

/// A dataset's accounting and its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// The dataset's object number.
    pub objset: u64,
    /// What it says it references.
    pub says_bytes: u64,
    /// What its blocks add up to.
    pub found_bytes: u64,
}

/// A shared block that is used more or less often than the tables of dedup and clones say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongReferences {
    /// Top-level device.
    pub vdev: u64,
    /// Offset on it.
    pub offset_bytes: u64,
    /// References that the tables count.
    pub says: u64,
    /// References found.
    pub found: u64,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Blocks visited.
    pub blocks: u64,
    /// Bytes before compression.
    pub logical_bytes: u64,
    /// Bytes allocated, parity included.
    pub allocated_bytes: u64,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Blocks with at least one wrong or missing copy or column that are readable all the same.
    pub repairable_blocks: u64,
    /// Blocks that cannot be read at all.
    pub lost_blocks: u64,
    /// Those of them whose checksum is right, but which do not decrypt or decompress: they were written so.
    pub malformed_blocks: u64,
    /// Encrypted blocks whose key is not loaded: their copies are right, and whether they decrypt and decompress is not known.
    pub sealed_blocks: u64,
    /// The first of them.
    pub damage: Vec<Damage>,
    /// Wrong copies and columns by device guid.
    pub devices: BTreeMap<u64, DeviceFaults>,
    /// Allocated, but nothing leads there.
    pub leaked: Vec<Leak>,
    /// Bytes of it.
    pub leaked_bytes: u64,
    /// In use, but free by the space maps: the next write would destroy it.
    pub unallocated: Vec<Leak>,
    /// Bytes of it.
    pub unallocated_bytes: u64,
    /// Used by two blocks that do not know of each other.
    pub doubly_used: Vec<Leak>,
    /// Bytes of it.
    pub doubly_used_bytes: u64,
    /// Entries of space maps and of the tables of shared blocks that cannot be.
    pub space_anomalies: Vec<String>,
    /// Shared blocks whose count of references is wrong.
    pub wrong_references: Vec<WrongReferences>,
    /// How many there are.
    pub wrong_references_count: u64,
    /// Why space and accounting could not be compared, if so.
    pub space_unknown: Option<String>,
    /// Datasets whose accounting does not fit.
    pub accounting: Vec<Accounting>,
    /// Blocks seen again: dedup and clones.
    pub shared_blocks: u64,
    /// Synced blocks of intent logs.
    pub log_blocks: u64,
    /// Verifying was ended early.
    pub stopped: bool,
}

impl Report {
    /// Everything is readable and as it should be.
    pub fn is_clean(&self) -> bool {
        self.repairable_blocks == 0 && self.lost_blocks == 0 && self.is_consistent() && !self.stopped
    }

    /// Space and accounting fit what was found.
    pub fn is_consistent(&self) -> bool {
        self.leaked_bytes == 0
            && self.unallocated_bytes == 0
            && self.doubly_used_bytes == 0
            && self.space_anomalies.is_empty()
            && self.wrong_references_count == 0
            && self.space_unknown.is_none()
            && self.accounting.is_empty()
    }

    pub(super) fn unallocated(&mut self, leak: Leak) {
        self.unallocated_bytes = self.unallocated_bytes.saturating_add(leak.size_bytes);
        push(&mut self.unallocated, leak);
    }

    pub(super) fn doubly_used(&mut self, leak: Leak) {
        self.doubly_used_bytes = self.doubly_used_bytes.saturating_add(leak.size_bytes);
        push(&mut self.doubly_used, leak);
    }

    pub(super) fn lost(&mut self, damage: Damage) {
        self.lost_blocks += 1;
        push(&mut self.damage, damage);
    }

    /// Adds what another worker found.
    pub(super) fn merge(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.logical_bytes = self.logical_bytes.saturating_add(more.logical_bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(more.allocated_bytes);
        self.read_bytes = self.read_bytes.saturating_add(more.read_bytes);
        self.repairable_blocks += more.repairable_blocks;
        self.lost_blocks += more.lost_blocks;
        self.malformed_blocks += more.malformed_blocks;
        self.sealed_blocks += more.sealed_blocks;
        self.shared_blocks += more.shared_blocks;
        self.log_blocks += more.log_blocks;
        for (guid, faults) in more.devices {
            let all = self.devices.entry(guid).or_default();
            all.missing += faults.missing;
            all.unreadable += faults.unreadable;
            all.wrong += faults.wrong;
            all.stale += faults.stale;
        }
        self.unallocated_bytes = self.unallocated_bytes.saturating_add(more.unallocated_bytes);
        self.doubly_used_bytes = self.doubly_used_bytes.saturating_add(more.doubly_used_bytes);
        extend(&mut self.damage, more.damage);
        extend(&mut self.unallocated, more.unallocated);
        extend(&mut self.doubly_used, more.doubly_used);
    }
}

pub(super) fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < LISTED_MAX {
        list.push(item);
    }
}

fn extend<T>(list: &mut Vec<T>, more: Vec<T>) {
    let room = LISTED_MAX.saturating_sub(list.len());
    list.extend(more.into_iter().take(room));
}
