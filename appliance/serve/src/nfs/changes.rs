//! The change attribute of NFSv4: the time of a node's last change, plus the number of changes
//! within one tick of the clock.
//!
//! File timestamps have the resolution of the system's tick, some milliseconds. A client that reads
//! a file between two changes within one tick would take the old contents for the new. So changes
//! made through a server are counted here, by node, as long as the time of the last change stays
//! the same.
//!
//! Invariant: of two changes made through a server, the later one has the greater value.

use files::vfs::{Attr, FileHandle};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Maximum number of nodes. Above it, nodes whose last change is older than the newest are dropped.
const NODES_MAX: usize = 1 << 16;

/// Counts changes within a tick.
#[derive(Default)]
pub struct Changes {
    counts: Mutex<HashMap<FileHandle, (u64, u64)>>,
}

fn stamp(attr: &Attr) -> u64 {
    (attr.ctime.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(attr.ctime.nanoseconds))
}

impl Changes {
    /// Records that a node was changed through the server; `attr` is its state after the change.
    pub fn note(&self, node: FileHandle, attr: &Attr) {
        let now = stamp(attr);
        let mut counts = self.counts.lock();
        if counts.len() >= NODES_MAX && !counts.contains_key(&node) {
            counts.retain(|_, (at, _)| *at >= now);
            if counts.len() >= NODES_MAX {
                counts.clear();
            }
        }
        let entry = counts.entry(node).or_insert((now, 0));
        *entry = if entry.0 == now { (now, entry.1 + 1) } else { (now, 0) };
    }

    /// The change attribute of a node.
    pub fn of(&self, node: FileHandle, attr: &Attr) -> u64 {
        let at = stamp(attr);
        match self.counts.lock().get(&node) {
            Some((when, count)) if *when == at => at.wrapping_add(*count),
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;
    use files::vfs::{Time, Vfs};

    #[test]
    fn changes_within_one_tick_are_distinguished() {
        let vfs = MemoryVfs::new();
        let mut attr = vfs.attr(vfs.root()).unwrap();
        let node = FileHandle { fs_guid: 1, object: 2, generation: 3 };
        let changes = Changes::default();
        attr.ctime = Time { seconds: 100, nanoseconds: 4_000_000 };
        changes.note(node, &attr);
        let first = changes.of(node, &attr);
        changes.note(node, &attr);
        let second = changes.of(node, &attr);
        attr.ctime.nanoseconds = 8_000_000;
        changes.note(node, &attr);
        let third = changes.of(node, &attr);
        assert!(first < second && second < third);
        assert_eq!(changes.of(FileHandle { object: 9, ..node }, &attr), third);
    }
}
