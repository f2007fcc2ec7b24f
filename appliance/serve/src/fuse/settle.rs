//! Lets the kernel ask again for the attributes of files that were written.
//!
//! How much space a file takes is known only when its data is compressed and placed, with the write round that takes it to
//! disk: seconds after the kernel was told of the file. It keeps what it was told for good, so it must be made to ask; `du`
//! would show what was true at the time of the last write.

use super::inode::InodeMap;
use super::reply::Notifier;
use files::vfs::NodeId;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A write round begins every 5 s, and takes a while.
const SETTLED_AFTER: Duration = Duration::from_secs(7);
/// How often it is looked.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    written: HashMap<NodeId, Instant>,
    ended: bool,
}

/// Files written lately.
#[derive(Clone, Default)]
pub(super) struct Settle(Arc<(Mutex<State>, Condvar)>);

impl Settle {
    /// `node` was written.
    pub fn written(&self, node: NodeId) {
        self.0.0.lock().written.insert(node, Instant::now());
    }

    /// The server ends.
    pub fn end(&self) {
        self.0.0.lock().ended = true;
        self.0.1.notify_all();
    }

    /// Works until the server ends.
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
                // A negative offset: attributes alone, no pages. One that the kernel has forgotten meanwhile is no error.
                if let Err(error) = kernel.invalidate(inodes.to_fuse(node), -1) {
                    tracing::debug!(%error, "the kernel does not take it");
                }
            }
        }
    }
}
