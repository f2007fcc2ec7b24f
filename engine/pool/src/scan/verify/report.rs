//! The result of a verification: plain data.

use block::Bookmark;
use std::collections::BTreeMap;

/// Limit for the entries kept in each list; the counts include all.
pub const LISTED_MAX: usize = 100_000;

/// A block that cannot be read, or below which the walk cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Bookmark of the block.
    pub at: Bookmark,
    /// Bytes of the object that one block of that level spans: the range begins at `at.blkid` times
    /// this value. 0 if unknown.
    pub span_bytes: u64,
    /// Why the block could not be read.
    pub error: String,
    /// Object numbers of other datasets that use the same block at the same place: later snapshots,
    /// the head, clones.
    pub also_in: Vec<u64>,
}

/// Wrong copies and columns of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFaults {
    /// Blocks for which the device was missing.
    pub missing: u64,
    /// Blocks that could not be read from it.
    pub unreadable: u64,
    /// Blocks of which it holds wrong bytes.
    pub wrong: u64,
    /// Blocks written while it was unavailable.
    pub stale: u64,
}

/// A range of space that disagrees with the space maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leak {
    /// Number of the top-level device.
    pub vdev: u64,
    /// Offset on that device.
    pub offset_bytes: u64,
    pub size_bytes: u64,
}

/// A dataset whose accounting disagrees with its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// The dataset's object number.
    pub objset: u64,
    /// Bytes that it references according to its accounting.
    pub says_bytes: u64,
    /// Sum of its blocks.
    pub found_bytes: u64,
}

/// A shared block that is referenced more or less often than the dedup and clone tables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongReferences {
    /// Number of the top-level device.
    pub vdev: u64,
    /// Offset on that device.
    pub offset_bytes: u64,
    /// References in the tables.
    pub says: u64,
    /// References that the walk found.
    pub found: u64,
}

/// The result of a verification.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Pointers to stored blocks; a shared block counts once for each reference.
    pub blocks: u64,
    /// Size of the blocks before compression.
    pub logical_bytes: u64,
    /// Bytes allocated, including parity.
    pub allocated_bytes: u64,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Readable blocks with at least one wrong or missing copy or column.
    pub repairable_blocks: u64,
    /// Blocks that cannot be read at all.
    pub lost_blocks: u64,
    /// Lost blocks whose checksum is correct, but which do not decrypt or decompress: they were
    /// written so.
    pub malformed_blocks: u64,
    /// Encrypted blocks whose key is not loaded: their copies are correct, but it is unknown
    /// whether they decrypt and decompress.
    pub sealed_blocks: u64,
    /// The first [`LISTED_MAX`] lost blocks.
    pub damage: Vec<Damage>,
    /// Wrong copies and columns by device guid.
    pub devices: BTreeMap<u64, DeviceFaults>,
    /// Allocated ranges that no block pointer refers to.
    pub leaked: Vec<Leak>,
    /// Sum of the leaked ranges.
    pub leaked_bytes: u64,
    /// Ranges in use that are free in the space maps: the next write could destroy them.
    pub unallocated: Vec<Leak>,
    /// Sum of the unallocated ranges.
    pub unallocated_bytes: u64,
    /// Ranges used by two independent blocks.
    pub doubly_used: Vec<Leak>,
    /// Sum of the doubly used ranges.
    pub doubly_used_bytes: u64,
    /// Impossible entries in space maps and in the tables of shared blocks.
    pub space_anomalies: Vec<String>,
    /// Shared blocks with a wrong number of references, cut at [`LISTED_MAX`].
    pub wrong_references: Vec<WrongReferences>,
    /// Number of all blocks with a wrong number of references.
    pub wrong_references_count: u64,
    /// Why space and accounting could not be compared, if so.
    pub space_unknown: Option<String>,
    /// Datasets whose accounting is wrong.
    pub accounting: Vec<Accounting>,
    /// Further references to shared blocks (dedup and clones).
    pub shared_blocks: u64,
    /// Synced blocks of intent logs.
    pub log_blocks: u64,
    /// The verification was ended early.
    pub stopped: bool,
}

impl Report {
    /// Whether everything is readable, redundant and consistent.
    pub fn is_clean(&self) -> bool {
        self.repairable_blocks == 0 && self.lost_blocks == 0 && self.is_consistent() && !self.stopped
    }

    /// Whether space and accounting agree with the blocks found.
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

    /// Adds the results of another worker.
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
