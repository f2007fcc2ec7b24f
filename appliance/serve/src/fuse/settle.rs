//! Invalidates the kernel's cached attributes of files when what was written to them is on disk.
//!
//! The space that a file uses is known only when its data is compressed and allocated, in the
//! transaction group that writes it to disk, seconds after the kernel received the attributes. The
//! kernel caches them indefinitely, so `du` would keep showing the state at the time of the last
//! write. Attributes that the kernel may not cache until then would be worse: with its write-back
//! cache, it asks for the mode of a file before each write.

use super::inode::InodeMap;
use super::reply::Notifier;
use files::vfs::{NodeId, Txgs, Vfs};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For trees without transaction groups.
const SETTLED_AFTER: Duration = Duration::from_secs(7);
/// How often [`Settle::run`] looks for files to invalidate, if there are some: `du` after `zpool
/// sync` is right this much later.
const EVERY: Duration = Duration::from_millis(50);

/// A file's last write.
#[derive(Debug, Clone, Copy)]
struct Written {
    at: Instant,
    /// Transaction group that it belongs to, or an earlier one.
    txg: Option<u64>,
}

impl Written {
    fn is_settled(&self, txgs: Option<Txgs>) -> bool {
        match (self.txg, txgs) {
            (Some(txg), Some(now)) => now.synced >= txg,
            _ => self.at.elapsed() >= SETTLED_AFTER,
        }
    }
}

#[derive(Default)]
struct State {
    written: HashMap<NodeId, Written>,
    ended: bool,
}

/// Files whose attributes are not invalidated yet, with their last write.
#[derive(Clone, Default)]
pub(super) struct Settle(Arc<(Mutex<State>, Condvar)>);

impl Settle {
    /// Records that `node` of `vfs` was written.
    pub fn written(&self, vfs: &dyn Vfs, node: NodeId) {
        self.note(node, Written { at: Instant::now(), txg: vfs.txgs().map(|txgs| txgs.open) });
    }

    fn note(&self, node: NodeId, written: Written) {
        let mut state = self.0.0.lock();
        let is_first = state.written.is_empty();
        state.written.insert(node, written);
        if is_first {
            self.0.1.notify_all();
        }
    }

    /// Makes [`Self::run`] return. The remaining files are not invalidated.
    pub fn end(&self) {
        self.0.0.lock().ended = true;
        self.0.1.notify_all();
    }

    /// Runs until [`Self::end`] is called.
    pub fn run(&self, vfs: &dyn Vfs, inodes: InodeMap, kernel: &Notifier) {
        let (lock, changed) = &*self.0;
        let mut synced = None;
        loop {
            let mut state = lock.lock();
            if !state.ended && state.written.is_empty() {
                changed.wait(&mut state);
            } else if !state.ended {
                let _ = changed.wait_for(&mut state, EVERY);
            }
            if state.ended {
                return;
            }
            drop(state);
            let txgs = vfs.txgs();
            let before = std::mem::replace(&mut synced, txgs.map(|txgs| txgs.synced));
            if synced.is_some() && synced == before {
                continue;
            }
            for node in self.take_settled(txgs) {
                // A negative offset invalidates only attributes, no pages. Nodes that the kernel
                // has forgotten meanwhile are not an error.
                if let Err(error) = kernel.invalidate(inodes.to_fuse(node), -1) {
                    tracing::debug!(%error, "the kernel rejected it");
                }
            }
        }
    }

    /// Removes the files whose last write is on disk, and returns them.
    fn take_settled(&self, txgs: Option<Txgs>) -> Vec<NodeId> {
        let mut state = self.0.0.lock();
        state.written.extract_if(|_, written| written.is_settled(txgs)).map(|(node, _)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_when_the_txg_of_its_last_write_is_on_disk() {
        let settle = Settle::default();
        let write = |node, txg| settle.note(NodeId(node), Written { at: Instant::now(), txg });
        let settled = |open, synced| {
            let mut nodes = settle.take_settled(Some(Txgs { open, synced }));
            nodes.sort_unstable();
            nodes
        };
        write(1, Some(5));
        write(2, Some(5));
        write(2, Some(6));
        write(3, None);
        assert_eq!(settled(6, 4), []);
        assert_eq!(settled(7, 5), [NodeId(1)]);
        assert_eq!(settled(8, 6), [NodeId(2)]);
        // Its file system has no transaction groups.
        assert_eq!(settled(9, 7), []);
    }
}
