//! Invalidates the kernel's cached attributes of files some time after they were written.
//!
//! The space that a file uses is known only when its data is compressed and allocated, in the
//! transaction group that writes it to disk, seconds after the kernel received the attributes. The
//! kernel caches them indefinitely, so `du` would keep showing the state at the time of the last
//! write. Until then it asks for them each time: the txg may be synced sooner.

use super::inode::InodeMap;
use super::reply::Notifier;
use files::vfs::NodeId;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A transaction group starts every 5 s and takes a while to sync.
const SETTLED_AFTER: Duration = Duration::from_secs(7);
/// How often [`Settle::run`] looks for files to invalidate.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    written: HashMap<NodeId, Instant>,
    ended: bool,
}

/// Files whose attributes are not invalidated yet, with the time of their last write.
#[derive(Clone, Default)]
pub(super) struct Settle(Arc<(Mutex<State>, Condvar)>);

impl Settle {
    /// Records that `node` was written.
    pub fn written(&self, node: NodeId) {
        self.0.0.lock().written.insert(node, Instant::now());
    }

    /// Whether `node` was written, and its attributes are not invalidated yet.
    pub fn is_waiting(&self, node: NodeId) -> bool {
        self.0.0.lock().written.contains_key(&node)
    }

    /// Makes [`Self::run`] return. The remaining files are not invalidated.
    pub fn end(&self) {
        self.0.0.lock().ended = true;
        self.0.1.notify_all();
    }

    /// Runs until [`Self::end`] is called.
    pub fn run(&self, inodes: InodeMap, kernel: &Notifier) {
        let (lock, changed) = &*self.0;
        loop {
            let mut state = lock.lock();
            if !state.ended {
                let _ = changed.wait_for(&mut state, EVERY);
            }
            if state.ended {
                return;
            }
            let settled: Vec<NodeId> =
                state.written.extract_if(|_, at| at.elapsed() >= SETTLED_AFTER).map(|(node, _)| node).collect();
            drop(state);
            for node in settled {
                // A negative offset invalidates only attributes, no pages. Nodes that the kernel
                // has forgotten meanwhile are not an error.
                if let Err(error) = kernel.invalidate(inodes.to_fuse(node), -1) {
                    tracing::debug!(%error, "the kernel rejected it");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_written_files_wait_for_their_space() {
        let settle = Settle::default();
        assert!(!settle.is_waiting(NodeId(7)));
        settle.written(NodeId(7));
        assert!(settle.is_waiting(NodeId(7)) && !settle.is_waiting(NodeId(8)));
    }
}
