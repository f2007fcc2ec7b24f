//! Files in use, and the locks on them.
//!
//! ```text
//!   begin a transaction -> (renames of directories: the one lock on the shape of the tree) -> locks of nodes, lowest number
//!   first -> look again whether names still lead to those nodes -> change -> unlock -> end the transaction
//! ```
//! A transaction is begun before any lock is taken: beginning may wait for a txg to be closed, which waits for all who hold
//! one; so nobody may wait to begin while he has a lock that a holder waits for. Nobody begins a second one within the first.
//!
//! What is in memory is bounded by a clock for each shard: a ring of the nodes that have attributes in memory or are new. Each
//! node that enters a full ring moves the hand by a few places. A node that was used since the hand came by stays; one that
//! was not loses its attributes, which are read again when they are asked for; and what nobody refers to goes. So a node that
//! the kernel knows, of which there may be millions, costs its number and counters only.
//!
//! Invariants:
//!   * all nodes that an operation changes are locked at once, lowest number first, so that there are no circles; what is
//!     locked for reading is locked alone
//!   * an object number has one [`Node`]; one whose object was freed is [`Slot::Gone`] for whoever still holds it
//!   * the objects of a hidden directory of extended attributes are no nodes: the lock of their file covers them (but while
//!     the log is replayed, alone, they are)
//!   * what has attributes in memory is in a ring; attributes that are not stored yet stay in memory
//!   * an operation that failed leaves its nodes unloaded, so that memory never says more than the object set

use super::state::State;
use super::{FileSystem, backing::Backing};
use crate::{Refusal, Result};
use ondisk::znode::Flags;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Files whose attributes are kept in memory: some kilobytes each, with what the object below keeps.
const NODES_MAX: usize = 32 << 10;
const SHARDS: usize = 16;
/// Places that the hand moves for each node that enters a full ring: more than one, so that it gets ahead of those that stay.
const SWEEP: usize = 4;

/// A file in memory.
pub(super) enum Slot {
    /// Its attributes were not asked for yet, or are to be read anew.
    Unloaded,
    Loaded(Box<State>),
    /// Its object was freed.
    Gone,
}

/// A file in use.
pub(super) struct Node {
    pub id: u64,
    pub slot: RwLock<Slot>,
    /// How often it is open: then it is kept when its last name goes.
    pub opens: AtomicU32,
    /// It was made without a name, and may get one.
    pub unnamed: AtomicBool,
    /// The object number was given to another file.
    replaced: AtomicBool,
    /// Somebody asked for it since the hand came by.
    used: AtomicBool,
    /// It is in its shard's ring. Changes under the lock of the shard.
    in_ring: AtomicBool,
    /// Its attributes were dropped, and it had a name: there is nothing to be done when it is closed.
    rests: AtomicBool,
    /// It is among those whose access times are to be stored.
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

    /// Whether closing it has nothing to look at: it has a name, and all of it is stored.
    pub fn rests(&self) -> bool {
        self.slot.try_read().is_some_and(|slot| matches!(&*slot, Slot::Unloaded)) && self.rests.load(Ordering::SeqCst)
    }
}

/// The nodes of some numbers.
#[derive(Default)]
struct Shard {
    nodes: HashMap<u64, Arc<Node>>,
    /// Those with attributes, and new ones, the next one that the hand looks at first. A node that left `nodes` may still be
    /// in it.
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

    /// Looks at the next node.
    fn sweep(&mut self) {
        let Some(node) = self.ring.pop_front() else { return };
        let is_known = self.nodes.get(&node.id).is_some_and(|known| Arc::ptr_eq(known, &node));
        if !is_known {
            return node.in_ring.store(false, Ordering::SeqCst);
        }
        // Never waited for: who has the slot may be waiting for this shard.
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
        // Before looking whether it is open: closing it enters it again.
        node.in_ring.store(false, Ordering::SeqCst);
        if node.opens.load(Ordering::SeqCst) > 0 {
            return;
        }
        // Nobody can take it up while this shard is locked: the map and we have it.
        if Arc::strong_count(&node) == 2 {
            self.nodes.remove(&node.id);
        } else {
            node.in_ring.store(true, Ordering::SeqCst);
            self.ring.push_back(node);
        }
    }
}

/// What a file system has when it can be written.
pub(super) struct Live {
    pub backing: Arc<dyn Backing>,
    shards: [Mutex<Shard>; SHARDS],
    /// Files whose access times moved, and are not stored. Those that wait the longest are first.
    atimes: Mutex<VecDeque<Arc<Node>>>,
    /// Held while a directory moves to another one: nobody else changes which directory is in which.
    pub shape: Mutex<()>,
    /// The log is being replayed: nothing is recorded again.
    pub replaying: AtomicBool,
}

impl Live {
    pub fn new(backing: Arc<dyn Backing>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let (atimes, shape, replaying) = (Mutex::default(), Mutex::new(()), AtomicBool::new(false));
        Self { backing, shards, atimes, shape, replaying }
    }

    fn shard(&self, id: u64) -> &Mutex<Shard> {
        &self.shards[(id % SHARDS as u64) as usize]
    }

    /// The node of an object number, whether or not there is such a file.
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

    /// A node got its attributes, or was closed without them: the hand looks at it when its time comes.
    pub fn enter(&self, node: &Arc<Node>) {
        // Always under the lock: the hand may be about to drop it from the ring.
        self.shard(node.id).lock().enter(node);
    }

    /// The access time of a node moved.
    pub fn note_atime(&self, node: &Arc<Node>) {
        if !node.atime_pending.swap(true, Ordering::SeqCst) {
            self.atimes.lock().push_back(node.clone());
        }
    }

    /// Access times that moved and are not stored.
    pub fn waiting_atimes(&self) -> usize {
        self.atimes.lock().len()
    }

    /// Some of the nodes whose access times moved, and whether there are more. Those that stay as they are must be noted again.
    pub fn take_atimes(&self, max: usize) -> (Vec<Arc<Node>>, bool) {
        let mut all = self.atimes.lock();
        let count = max.min(all.len());
        let taken: Vec<_> = all.drain(..count).collect();
        taken.iter().for_each(|node| node.atime_pending.store(false, Ordering::SeqCst));
        (taken, !all.is_empty())
    }

    /// Nodes in memory, and those of them in rings.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let both = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            (shard.nodes.len(), shard.ring.len())
        });
        both.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// The node is open once more; made under the lock under which unused nodes are dropped.
    pub fn open(&self, id: u64) -> Arc<Node> {
        let node = self.node(id);
        node.opens.fetch_add(1, Ordering::SeqCst);
        node
    }

    /// The node of `id`, if it is in memory.
    pub fn known(&self, id: u64) -> Option<Arc<Node>> {
        self.shard(id).lock().nodes.get(&id).cloned()
    }

    /// A new object got this number: whoever asked for it before sees a file that is gone.
    pub fn forget(&self, id: u64) {
        if let Some(old) = self.shard(id).lock().nodes.remove(&id) {
            old.replaced.store(true, Ordering::SeqCst);
        }
    }

    /// Nothing of what is in memory is believed any more. Nobody may be using it.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            // Not under its lock: who has a slot may be waiting for it.
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

/// Nodes locked for a change, lowest number first.
pub(super) struct Locked<'a> {
    live: &'a Live,
    nodes: Vec<(&'a Node, RwLockWriteGuard<'a, Slot>)>,
}

impl Locked<'_> {
    /// The state of a node among those locked.
    pub fn get(&mut self, id: u64) -> &mut State {
        let slot = self.nodes.iter_mut().find(|(n, _)| n.id == id).map(|(_, slot)| &mut **slot);
        match slot {
            Some(Slot::Loaded(state)) => state,
            _ => unreachable!("operations lock and load every node that they change"),
        }
    }

    /// Whether a file is open.
    pub fn is_open(&self, id: u64) -> bool {
        self.nodes.iter().any(|(n, _)| n.id == id && n.opens.load(Ordering::SeqCst) > 0)
    }

    /// The object of a node was freed.
    pub fn set_gone(&mut self, id: u64) {
        if let Some((_, slot)) = self.nodes.iter_mut().find(|(n, _)| n.id == id) {
            **slot = Slot::Gone;
            self.live.forget(id);
        }
    }

    fn unload(&mut self) {
        for (_, slot) in &mut self.nodes {
            if matches!(**slot, Slot::Loaded(_)) {
                **slot = Slot::Unloaded;
            }
        }
    }
}

impl FileSystem {
    /// What there is only when the file system can be written.
    pub(super) fn live(&self) -> Result<&Live> {
        self.live.as_ref().ok_or_else(|| Refusal::ReadOnly.at(""))
    }

    fn load(&self, node: &Arc<Node>, slot: &mut Slot) -> Result<()> {
        if matches!(slot, Slot::Gone) || node.replaced.load(Ordering::SeqCst) {
            return Err(Refusal::Stale.at(format!("object {}", node.id)));
        }
        if matches!(slot, Slot::Unloaded) {
            let state = State::load(self.sa.attributes(&self.object(node.id)?)?)?;
            if state.flags.contains(Flags::XATTR) && !self.is_replaying() {
                // Whoever asks holds the number of a file that is gone: the lock of this node covers nothing.
                return Err(Refusal::Stale.at(format!("object {}", node.id)));
            }
            if node.replaced.load(Ordering::SeqCst) {
                return Err(Refusal::Stale.at(format!("object {}", node.id)));
            }
            node.rests.store(false, Ordering::SeqCst);
            *slot = Slot::Loaded(Box::new(state));
            self.live()?.enter(node);
        }
        Ok(())
    }

    /// The state of one node, to look at.
    pub(super) fn look<'n>(&self, node: &'n Arc<Node>) -> Result<MappedRwLockReadGuard<'n, State>> {
        loop {
            let guard = node.slot.read();
            match RwLockReadGuard::try_map(guard, |slot| match slot {
                Slot::Loaded(state) => Some(&**state),
                _ => None,
            }) {
                Ok(state) => return Ok(state),
                Err(guard) => drop(guard),
            }
            self.load(node, &mut node.slot.write())?;
        }
    }

    /// Locks `nodes` (in any order; repetitions count once), does `change`, unlocks. When it fails, they are read anew.
    pub(super) fn change<R>(
        &self,
        nodes: &[&Arc<Node>],
        change: impl FnOnce(&mut Locked<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut ordered: Vec<&Arc<Node>> = nodes.to_vec();
        ordered.sort_unstable_by_key(|n| n.id);
        ordered.dedup_by_key(|n| n.id);
        let mut locked = Locked { live: self.live()?, nodes: Vec::with_capacity(ordered.len()) };
        for node in ordered {
            let mut slot = node.slot.write();
            self.load(node, &mut slot)?;
            locked.nodes.push((node, slot));
        }
        let result = change(&mut locked);
        if result.is_err() {
            locked.unload();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zpl::backing::{Encoded, Estimate, Reach, Settings};
    use object::Tx;
    use ondisk::zil::{Body, RecordType};

    /// Nothing is written here.
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
        // The kernel knows all of them: they cannot leave. Each new one once looked at all others, so that this took hours.
        let live = Live::new(Arc::new(Nothing));
        let count = 16 * NODES_MAX as u64;
        for id in 0..count {
            live.open(id);
        }
        let (nodes, ring) = live.counts();
        assert_eq!(nodes as u64, count);
        assert!(ring <= NODES_MAX, "{ring} in rings, which are for those with attributes in memory");
        // Closed again they leave, though they are in no ring.
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
