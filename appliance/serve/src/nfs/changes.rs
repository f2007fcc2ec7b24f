//! What the change attribute of NFSv4 is made of: the time of a node's last change, and how many changes there were within one
//! tick of the clock.
//!
//! Times of files have the grain of the system's tick, some milliseconds: a client that reads a file between two changes of one
//! tick would take the old contents for the new. So changes that a server makes are counted here, by node, as long as the
//! time of its last change stays the same.
//!
//! Invariant: of two changes that went through a server, the later has the greater value.

use files::vfs::{Attr, FileHandle};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Nodes that are remembered at most; beyond it those are forgotten whose last change is older than the newest.
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
    /// A node was changed through the server; `attr` is how it is now.
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

    /// The change attribute.
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
    fn changes_within_one_tick_are_told_apart() {
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
