//! Tracks what the kernel references: nodes whose number it knows, and files that are open for
//! writing.
//!
//! A node whose last name was removed must live as long as it is in use, and only the kernel knows
//! when that ends: it counts how often it was given the node's number, and sends FORGET when it
//! drops those references. In between, the node stays open in the `Vfs`.
//!
//! Writers matter in two places. Code that stores unrequested pages in the kernel
//! ([`super::ahead`]) must never overwrite newer ones. Code that reports where data is (`lseek`)
//! uses our state, which lacks pages that only the kernel has. While pages are being stored for a
//! file, new writers are queued and released afterwards.
//!
//! Invariants:
//!   * `open_node` was called once more than `close_node` for each node with lookups
//!   * no pages are being stored for a file that has writers

use errors::Result;
use files::vfs::{NodeId, Vfs};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Number of locks, so that threads rarely contend. Guessed.
const SHARDS: usize = 32;

/// Called once no pages are being stored.
pub(super) type Then = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    lookups: u64,
    writers: u64,
    storing: bool,
    waiting: Vec<Then>,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lookups == 0 && self.writers == 0 && !self.storing
    }
}

/// References and writers of all nodes.
pub(super) struct KernelRefs {
    vfs: Arc<dyn Vfs>,
    shards: Vec<Mutex<HashMap<NodeId, State>>>,
}

impl KernelRefs {
    pub fn new(vfs: Arc<dyn Vfs>) -> Self {
        Self { vfs, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, node: NodeId) -> &Mutex<HashMap<NodeId, State>> {
        let hash = node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
        // The hash has 5 bits, which select one of 32 shards.
        self.shards.get(hash as usize).unwrap_or(&self.shards[0])
    }

    /// Records that the kernel is about to be given the number of `node`, and opens it on the first
    /// reference.
    pub fn hold(&self, node: NodeId) -> Result<()> {
        let mut shard = self.shard(node).lock();
        match shard.entry(node) {
            Entry::Occupied(mut held) if held.get().lookups > 0 => held.get_mut().lookups += 1,
            entry => {
                self.vfs.open_node(node)?;
                entry.or_default().lookups = 1;
            }
        }
        Ok(())
    }

    /// Records that the kernel dropped `times` references. Closes the node with the last one.
    pub fn forget(&self, node: NodeId, times: u64) {
        {
            let mut shard = self.shard(node).lock();
            let Entry::Occupied(mut held) = shard.entry(node) else { return };
            let state = held.get_mut();
            let before = state.lookups;
            state.lookups = before.saturating_sub(times);
            let is_last = before > 0 && state.lookups == 0;
            if state.is_idle() {
                held.remove();
            }
            if !is_last {
                return;
            }
        }
        // Not under the lock: closing may free a file, which takes time. A lookup that comes in
        // meanwhile has opened the node again.
        self.vfs.close_node(node);
    }

    /// Registers a writer of `node` until [`Self::done_writing`] is called. Calls `then` once
    /// writing is allowed: immediately and on this thread, unless pages are being stored.
    pub fn writing(&self, node: NodeId, then: impl FnOnce() + Send + 'static) {
        {
            let mut shard = self.shard(node).lock();
            let state = shard.entry(node).or_default();
            state.writers += 1;
            if state.storing {
                return state.waiting.push(Box::new(then));
            }
        }
        then();
    }

    /// Unregisters a writer; pairs with [`Self::writing`].
    pub fn done_writing(&self, node: NodeId) {
        let mut shard = self.shard(node).lock();
        if let Entry::Occupied(mut held) = shard.entry(node) {
            held.get_mut().writers = held.get().writers.saturating_sub(1);
            if held.get().is_idle() {
                held.remove();
            }
        }
    }

    /// Whether the kernel may have newer data than we do.
    pub fn has_writers(&self, node: NodeId) -> bool {
        self.shard(node).lock().get(&node).is_some_and(|s| s.writers > 0)
    }

    /// Runs `store`, which stores pages of `node` in the kernel, unless the node has writers or the
    /// kernel has forgotten it.
    pub fn store(&self, node: NodeId, store: impl FnOnce()) {
        match self.shard(node).lock().get_mut(&node) {
            Some(state) if state.writers == 0 && state.lookups > 0 => state.storing = true,
            _ => return,
        }
        store();
        let waiting = {
            let mut shard = self.shard(node).lock();
            let Entry::Occupied(mut held) = shard.entry(node) else { return };
            held.get_mut().storing = false;
            let waiting = std::mem::take(&mut held.get_mut().waiting);
            if held.get().is_idle() {
                held.remove();
            }
            waiting
        };
        for then in waiting {
            then();
        }
    }

    /// The nodes that the kernel knows.
    pub fn known(&self) -> Vec<NodeId> {
        let mut known = Vec::new();
        for shard in &self.shards {
            known.extend(shard.lock().iter().filter(|(_, state)| state.lookups > 0).map(|(node, _)| *node));
        }
        known
    }

    /// Closes all nodes when the connection to the kernel ends.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            for (node, state) in std::mem::take(&mut *shard.lock()) {
                if state.lookups > 0 {
                    self.vfs.close_node(node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;
    use files::vfs::{Caller, NewNode};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn file() -> (Arc<MemoryVfs>, NodeId) {
        let vfs = Arc::new(MemoryVfs::new().writable());
        let made = vfs.create(&Caller::default(), vfs.root(), b"f", &NewNode::Regular, 0o644, 0).expect("makes");
        (vfs, made.node)
    }

    #[test]
    fn a_node_without_a_name_lives_until_the_kernel_forgets_it() {
        let (vfs, node) = file();
        let held = KernelRefs::new(vfs.clone());
        held.hold(node).expect("there");
        held.hold(node).expect("there");
        vfs.unlink(&Caller::default(), vfs.root(), b"f").expect("unlinks");
        held.forget(node, 1);
        assert!(vfs.attr(node).is_ok());
        held.forget(node, 1);
        assert!(vfs.attr(node).is_err());
        assert!(held.hold(node).is_err(), "what is gone cannot be given again");
    }

    #[test]
    fn everything_is_released_when_the_kernel_disconnects() {
        let (vfs, node) = file();
        let held = KernelRefs::new(vfs.clone());
        held.hold(node).expect("there");
        vfs.unlink(&Caller::default(), vfs.root(), b"f").expect("unlinks");
        held.forget_all();
        assert_eq!(vfs.node_count(), 1);
    }

    #[test]
    fn a_writer_waits_for_pages_in_flight_and_excludes_others() {
        let (vfs, node) = file();
        let held = KernelRefs::new(vfs);
        held.hold(node).expect("there");
        let (stores, writers) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let store = || {
            stores.fetch_add(1, Ordering::Relaxed);
        };
        held.store(node, || {
            store();
            let writers = writers.clone();
            held.writing(node, move || {
                writers.fetch_add(1, Ordering::Relaxed);
            });
            assert!(held.has_writers(node));
        });
        assert_eq!(writers.load(Ordering::Relaxed), 1, "released once the pages are cached");
        held.store(node, store);
        assert_eq!(stores.load(Ordering::Relaxed), 1, "not while it is open for writing");
        held.done_writing(node);
        held.store(node, store);
        assert_eq!(stores.load(Ordering::Relaxed), 2);
    }
}
