//! Files in use, and their locks.
//!
//! ```text
//!   begin a transaction
//!     -> the version, shared (an upgrade: exclusively)
//!     -> (renames of directories: the single lock on the shape of the tree)
//!     -> node locks, lowest number first
//!     -> check again that the names still lead to those nodes
//!     -> change -> unlock -> end the transaction
//! ```
//!
//! A transaction begins before any lock is taken. Beginning may wait for a txg to close, which
//! waits for every transaction in it, so no thread may wait to begin while it holds a lock that a
//! transaction holder waits for. Transactions never nest.
//!
//! An operation thus sees one version from start to end. This cannot deadlock: a thread takes the
//! lock of the version once, in its transaction and before any other lock. An upgrade waits only
//! for operations that have it. Their transactions have begun, and the locks that they wait for are
//! held by such operations too, or by readers, which wait for nothing. Meanwhile the txg of the
//! upgrade stays open, but only threads without locks wait for it to close.
//!
//! Memory is bounded by a clock for each shard: a ring of the nodes that are new or have attributes
//! in memory. Each node that enters a full ring moves the hand by a few places. A node that was
//! used since the hand last passed stays. Any other node loses its attributes, which are read again
//! when needed, and nodes without references are dropped. A node that the kernel knows, of which
//! there may be millions, therefore costs only its number and counters.
//!
//! Invariants:
//!   * An operation locks all nodes that it changes at once, lowest number first, so that there are
//!     no lock cycles. A node that is locked for reading is locked alone.
//!   * An object number has one [`Node`]. If its object was freed, references that are still held
//!     see [`Slot::Gone`].
//!   * The objects of a hidden directory of extended attributes are not nodes: the lock of their
//!     file covers them. During log replay, which runs alone, they are nodes.
//!   * Every node with attributes in memory is in a ring. Attributes that are not stored yet stay
//!     in memory.
//!   * An operation that fails leaves its nodes unloaded, so that memory never differs from the
//!     object set.

mod locks;
mod order;

pub(super) use locks::Locked;
pub(super) use order::{InTransaction, assert_unlocked};

use super::backing::Backing;
use super::state::State;
use host::sync::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Maximum number of files whose attributes are kept in memory. Each takes some kilobytes,
/// including what the object below caches.
const NODES_MAX: usize = 32 << 10;
const SHARDS: usize = 16;
/// Places that the hand moves for each node that enters a full ring. More than one, so that it gets
/// ahead of the nodes that stay.
const SWEEP: usize = 4;

/// A file in memory.
pub(super) enum Slot {
    /// The attributes were not read yet, or must be read again.
    Unloaded,
    Loaded(Box<State>),
    /// Its object was freed.
    Gone,
}

/// A file in use.
pub(super) struct Node {
    pub id: u64,
    pub slot: RwLock<Slot>,
    /// Open count. While it is not zero, the file is kept after its last name is removed.
    pub opens: AtomicU32,
    /// Created without a name; may get one later.
    pub unnamed: AtomicBool,
    /// The object number was reused for another file.
    replaced: AtomicBool,
    /// Used since the hand last passed.
    used: AtomicBool,
    /// In its shard's ring. Changes only under the lock of the shard.
    in_ring: AtomicBool,
    /// The attributes were dropped and the file had a name: closing it requires no work.
    rests: AtomicBool,
    /// Queued for storing its access time.
    atime_pending: AtomicBool,
}

impl Node {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            slot: RwLock::new(Slot::Unloaded),
            opens: AtomicU32::new(0),
            unnamed: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            used: AtomicBool::new(true),
            in_ring: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            atime_pending: AtomicBool::new(false),
        })
    }

    /// Whether closing the node requires no work: it has a name, and everything is stored.
    pub fn rests(&self) -> bool {
        self.slot.try_read().is_some_and(|slot| matches!(&*slot, Slot::Unloaded)) && self.rests.load(Ordering::SeqCst)
    }
}

/// One shard of the nodes, selected by object number.
#[derive(Default)]
struct Shard {
    nodes: HashMap<u64, Arc<Node>>,
    /// New nodes and nodes with attributes. The front is the next node that the hand examines. May
    /// still contain nodes that were removed from `nodes`.
    ring: VecDeque<Arc<Node>>,
}

impl Shard {
    fn enter(&mut self, node: &Arc<Node>) {
        if !node.in_ring.swap(true, Ordering::SeqCst) {
            self.ring.push_back(node.clone());
        }
        for _ in 0..SWEEP {
            if self.ring.len() <= NODES_MAX / SHARDS {
                return;
            }
            self.sweep();
        }
    }

    /// Examines the next node.
    fn sweep(&mut self) {
        let Some(node) = self.ring.pop_front() else { return };
        let is_known = self.nodes.get(&node.id).is_some_and(|known| Arc::ptr_eq(known, &node));
        if !is_known {
            return node.in_ring.store(false, Ordering::SeqCst);
        }
        // Never waits: the thread that holds the slot may be waiting for this shard.
        let is_dropped = !node.used.swap(false, Ordering::Relaxed)
            && node.slot.try_write().is_some_and(|mut slot| {
                if let Slot::Loaded(file) = &*slot {
                    if file.atime_dirty {
                        return false;
                    }
                    node.rests.store(file.links != 0, Ordering::SeqCst);
                    *slot = Slot::Unloaded;
                }
                true
            });
        if !is_dropped {
            return self.ring.push_back(node);
        }
        // Cleared before checking whether the node is open: closing it enters it again.
        node.in_ring.store(false, Ordering::SeqCst);
        if node.opens.load(Ordering::SeqCst) > 0 {
            return;
        }
        // Only the map and this function hold it, so no thread can take a reference while the shard
        // is locked.
        if Arc::strong_count(&node) == 2 {
            self.nodes.remove(&node.id);
        } else {
            node.in_ring.store(true, Ordering::SeqCst);
            self.ring.push_back(node);
        }
    }
}

/// State that exists only for a writable file system.
pub(super) struct Live {
    pub backing: Arc<dyn Backing>,
    shards: [Mutex<Shard>; SHARDS],
    /// Files whose access times changed and are not stored yet, oldest first.
    atimes: Mutex<VecDeque<Arc<Node>>>,
    /// Held while a directory moves to another parent: no other thread changes which directory is
    /// in which.
    shape: Mutex<()>,
    /// The log is being replayed: operations are not recorded again.
    pub replaying: AtomicBool,
}

impl Live {
    pub fn new(backing: Arc<dyn Backing>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let (atimes, shape, replaying) = (Mutex::default(), Mutex::new(()), AtomicBool::new(false));
        Self { backing, shards, atimes, shape, replaying }
    }

    /// Keeps directories from moving to other parents, before any node is locked.
    pub fn lock_shape(&self) -> MutexGuard<'_, ()> {
        assert_unlocked("the shape of the tree is locked");
        self.shape.lock()
    }

    fn shard(&self, id: u64) -> &Mutex<Shard> {
        &self.shards[(id % SHARDS as u64) as usize]
    }

    /// The node of an object number, whether or not such a file exists.
    pub fn node(&self, id: u64) -> Arc<Node> {
        let mut shard = self.shard(id).lock();
        if let Some(node) = shard.nodes.get(&id) {
            node.used.store(true, Ordering::Relaxed);
            return node.clone();
        }
        let node = Node::new(id);
        shard.nodes.insert(id, node.clone());
        shard.enter(&node);
        node
    }

    /// Enters a node into the ring after it got its attributes, or was closed without them. The
    /// hand examines it later.
    pub fn enter(&self, node: &Arc<Node>) {
        // Always under the lock: the hand may be about to remove it from the ring.
        self.shard(node.id).lock().enter(node);
    }

    /// Records that the access time of a node changed.
    pub fn note_atime(&self, node: &Arc<Node>) {
        if !node.atime_pending.swap(true, Ordering::SeqCst) {
            self.atimes.lock().push_back(node.clone());
        }
    }

    /// Number of access times that changed and are not stored.
    pub fn waiting_atimes(&self) -> usize {
        self.atimes.lock().len()
    }

    /// Takes up to `max` nodes whose access times changed, and returns whether there are more.
    /// Nodes that are not stored must be noted again.
    pub fn take_atimes(&self, max: usize) -> (Vec<Arc<Node>>, bool) {
        let mut all = self.atimes.lock();
        let count = max.min(all.len());
        let taken: Vec<_> = all.drain(..count).collect();
        taken.iter().for_each(|node| node.atime_pending.store(false, Ordering::SeqCst));
        (taken, !all.is_empty())
    }

    /// Number of nodes in memory, and of nodes in rings.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let both = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            (shard.nodes.len(), shard.ring.len())
        });
        both.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Increments the open count, under the lock under which unused nodes are dropped.
    pub fn open(&self, id: u64) -> Arc<Node> {
        let node = self.node(id);
        node.opens.fetch_add(1, Ordering::SeqCst);
        node
    }

    /// The node of `id`, if it is in memory.
    pub fn known(&self, id: u64) -> Option<Arc<Node>> {
        self.shard(id).lock().nodes.get(&id).cloned()
    }

    /// Detaches the node of a number that a new object got: earlier references see a file that is
    /// gone.
    pub fn forget(&self, id: u64) {
        if let Some(old) = self.shard(id).lock().nodes.remove(&id) {
            old.replaced.store(true, Ordering::SeqCst);
        }
    }

    /// Discards everything in memory. No other thread may be using it.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            // Not under the shard lock: the thread that holds a slot may be waiting for it.
            let nodes: Vec<_> = shard.lock().nodes.values().cloned().collect();
            for node in nodes {
                let mut slot = node.slot.write();
                if matches!(*slot, Slot::Loaded(_)) {
                    *slot = Slot::Unloaded;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zpl::backing::{Estimate, Settings};
    use dataset::intent_log::{Encoded, Reach};
    use errors::{Refusal, Result};
    use object::Tx;
    use ondisk::zil::{Body, RecordType};

    /// A backing that stores nothing.
    struct Nothing;

    impl Backing for Nothing {
        fn begin(&self, _: Estimate) -> Result<Tx> {
            Err(Refusal::ReadOnly.at(""))
        }
        fn record(&self, _: &Tx, _: u64, _: RecordType, _: &Body<'_>) {}
        fn record_together(&self, _: &Tx, _: u64, _: Reach, _: Vec<Encoded>) {}
        fn commit(&self, _: Option<u64>) -> Result<()> {
            Ok(())
        }
        fn settings(&self) -> Arc<Settings> {
            Arc::default()
        }
        fn space(&self) -> crate::zpl::Space {
            crate::zpl::Space { referenced_bytes: 0, available_bytes: 0, objects: 0, fsid_guid: 0 }
        }
    }

    #[test]
    fn nodes_that_nobody_uses_leave_as_others_come() {
        let live = Live::new(Arc::new(Nothing));
        for id in 0..10 * NODES_MAX as u64 {
            live.node(id);
        }
        let (nodes, ring) = live.counts();
        assert!(nodes <= NODES_MAX && ring <= NODES_MAX, "{nodes} nodes, {ring} in rings");
        assert!(live.known(0).is_none() && live.known(10 * NODES_MAX as u64 - 1).is_some());
    }

    #[test]
    fn nodes_that_are_open_stay_and_each_new_one_looks_at_a_few_only() {
        // The kernel knows all of them, so they cannot be dropped. Each new node once examined all
        // others, which made this take hours.
        let live = Live::new(Arc::new(Nothing));
        let count = 16 * NODES_MAX as u64;
        for id in 0..count {
            live.open(id);
        }
        let (nodes, ring) = live.counts();
        assert_eq!(nodes as u64, count);
        assert!(ring <= NODES_MAX, "{ring} in rings, which are for those with attributes in memory");
        // Once closed they are dropped, although they are in no ring.
        for id in 0..count {
            let node = live.known(id).unwrap();
            node.opens.fetch_sub(1, Ordering::SeqCst);
            node.used.store(false, Ordering::Relaxed);
            live.enter(&node);
        }
        for id in count..count + 2 * NODES_MAX as u64 {
            live.node(id);
        }
        let (nodes, _) = live.counts();
        assert!(nodes <= NODES_MAX, "{nodes} nodes are left");
    }

    #[test]
    fn numbers_that_are_given_again_leave_nothing_behind() {
        let live = Live::new(Arc::new(Nothing));
        for _ in 0..4 * NODES_MAX {
            live.node(7);
            live.forget(7);
        }
        let (nodes, ring) = live.counts();
        assert!(nodes == 0 && ring <= NODES_MAX, "{nodes} nodes, {ring} in rings");
    }
}
