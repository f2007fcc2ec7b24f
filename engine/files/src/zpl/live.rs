//! Files in use, and the locks on them.
//!
//! ```text
//!   begin a transaction -> (renames of directories: the one lock on the shape of the tree) -> locks of nodes, lowest number
//!   first -> look again whether names still lead to those nodes -> change -> unlock -> end the transaction
//! ```
//! A transaction is begun before any lock is taken: beginning may wait for a txg to be closed, which waits for all who hold
//! one; so nobody may wait to begin while he has a lock that a holder waits for. Nobody begins a second one within the first.
//!
//! Invariants:
//!   * all nodes that an operation changes are locked at once, lowest number first, so that there are no circles; what is
//!     locked for reading is locked alone
//!   * an object number has one [`Node`]; one whose object was freed is [`Slot::Gone`] for whoever still holds it
//!   * the objects of a hidden directory of extended attributes are no nodes: the lock of their file covers them (but while
//!     the log is replayed, alone, they are)
//!   * an operation that failed leaves its nodes unloaded, so that memory never says more than the object set

use super::state::State;
use super::{FileSystem, backing::Backing};
use crate::{Refusal, Result};
use ondisk::znode::Flags;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Files kept in memory before those that nobody uses are dropped: about 700 bytes each.
const NODES_MAX: usize = 32 << 10;
const SHARDS: usize = 16;

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
}

impl Node {
    fn new(id: u64) -> Arc<Self> {
        let (slot, opens) = (RwLock::new(Slot::Unloaded), AtomicU32::new(0));
        Arc::new(Self { id, slot, opens, unnamed: AtomicBool::new(false), replaced: AtomicBool::new(false) })
    }
}

/// What a file system has when it can be written.
pub(super) struct Live {
    pub backing: Arc<dyn Backing>,
    shards: [Mutex<HashMap<u64, Arc<Node>>>; SHARDS],
    /// Held while a directory moves to another one: nobody else changes which directory is in which.
    pub shape: Mutex<()>,
    /// The log is being replayed: nothing is recorded again.
    pub replaying: AtomicBool,
}

impl Live {
    pub fn new(backing: Arc<dyn Backing>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { backing, shards, shape: Mutex::new(()), replaying: AtomicBool::new(false) }
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Arc<Node>>> {
        &self.shards[(id % SHARDS as u64) as usize]
    }

    /// The node of an object number, whether or not there is such a file.
    pub fn node(&self, id: u64) -> Arc<Node> {
        let mut shard = self.shard(id).lock();
        if let Some(node) = shard.get(&id) {
            return node.clone();
        }
        if shard.len() >= NODES_MAX / SHARDS {
            // Nobody can take a node up while this shard is locked.
            shard.retain(|_, n| {
                let clean = n.slot.try_read().is_some_and(|s| !matches!(&*s, Slot::Loaded(s) if s.atime_dirty));
                Arc::strong_count(n) > 1 || n.opens.load(Ordering::Relaxed) > 0 || !clean
            });
        }
        let node = Node::new(id);
        shard.insert(id, node.clone());
        node
    }

    /// The node is open once more; made under the lock under which unused nodes are dropped.
    pub fn open(&self, id: u64) -> Arc<Node> {
        let node = self.node(id);
        node.opens.fetch_add(1, Ordering::SeqCst);
        node
    }

    /// The node of `id`, if it is in memory.
    pub fn known(&self, id: u64) -> Option<Arc<Node>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// A new object got this number: whoever asked for it before sees a file that is gone.
    pub fn forget(&self, id: u64) {
        if let Some(old) = self.shard(id).lock().remove(&id) {
            old.replaced.store(true, Ordering::SeqCst);
        }
    }

    /// Nothing of what is in memory is believed any more. Nobody may be using it.
    pub fn forget_all(&self) {
        for shard in &self.shards {
            for node in shard.lock().values() {
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

    fn load(&self, node: &Node, slot: &mut Slot) -> Result<()> {
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
            *slot = Slot::Loaded(Box::new(state));
        }
        Ok(())
    }

    /// The state of one node, to look at.
    pub(super) fn look<'n>(&self, node: &'n Node) -> Result<MappedRwLockReadGuard<'n, State>> {
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
        let mut ordered: Vec<&Node> = nodes.iter().map(|n| &***n).collect();
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
