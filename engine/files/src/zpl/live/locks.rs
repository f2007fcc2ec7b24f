//! Locks nodes, and loads their attributes. The order of locks is described in the parent module,
//! and asserted in [`super::order`].

use super::order::HoldsNodes;
use super::{Live, Node, Slot};
use crate::zpl::FileSystem;
use crate::zpl::state::State;
use errors::{Refusal, Result};
use host::sync::{MappedRwLockReadGuard, RwLockReadGuard, RwLockWriteGuard};
use ondisk::znode::Flags;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A node locked for reading.
pub(in crate::zpl) struct Seen<'n> {
    // Dropped first.
    state: MappedRwLockReadGuard<'n, State>,
    _holds: HoldsNodes,
}

impl Deref for Seen<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

/// Nodes locked for a change, lowest number first.
pub(in crate::zpl) struct Locked<'a> {
    live: &'a Live,
    nodes: Vec<(&'a Node, RwLockWriteGuard<'a, Slot>)>,
    _holds: HoldsNodes,
}

impl Locked<'_> {
    /// The state of a locked node.
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

    /// Records that the object of a node was freed.
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
    /// The state of a writable file system; an error if this one is read-only.
    pub(in crate::zpl) fn live(&self) -> Result<&Live> {
        self.live.as_ref().ok_or_else(|| Refusal::ReadOnly.at(""))
    }

    fn load(&self, node: &Arc<Node>, slot: &mut Slot) -> Result<()> {
        if matches!(slot, Slot::Gone) || node.replaced.load(Ordering::SeqCst) {
            return Err(Refusal::Stale.at(format!("object {}", node.id)));
        }
        if matches!(slot, Slot::Unloaded) {
            let state = self.load_state(node.id)?;
            if state.flags.contains(Flags::XATTR) && !self.is_replaying() {
                // The caller holds the number of a file that is gone: the lock of this node covers
                // nothing.
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

    /// Locks the state of one node for reading.
    pub(in crate::zpl) fn look<'n>(&self, node: &'n Arc<Node>) -> Result<Seen<'n>> {
        let holds = HoldsNodes::begin("a file is locked for reading");
        loop {
            let guard = node.slot.read();
            match RwLockReadGuard::try_map(guard, |slot| match slot {
                Slot::Loaded(state) => Some(&**state),
                _ => None,
            }) {
                Ok(state) => return Ok(Seen { state, _holds: holds }),
                Err(guard) => drop(guard),
            }
            self.load(node, &mut node.slot.write())?;
        }
    }

    /// Locks `nodes` (in any order; duplicates count once), runs `change`, and unlocks. If it
    /// fails, the nodes are read again.
    pub(in crate::zpl) fn change<R>(
        &self,
        nodes: &[&Arc<Node>],
        change: impl FnOnce(&mut Locked<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut ordered: Vec<&Arc<Node>> = nodes.to_vec();
        ordered.sort_unstable_by_key(|n| n.id);
        ordered.dedup_by_key(|n| n.id);
        let live = self.live()?;
        let holds = HoldsNodes::begin("files are locked for a change");
        let mut locked = Locked { live, nodes: Vec::with_capacity(ordered.len()), _holds: holds };
        for node in ordered {
            if let Some((last, _)) = locked.nodes.last() {
                assert!(last.id < node.id, "file {} is locked after file {}", node.id, last.id);
            }
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
