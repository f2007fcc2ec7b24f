//! One live object: its latest dnode, its changes by txg, and its tree on disk.

use super::ranges::Ranges;
use crate::readahead::ReadAhead;
use block::RawBlock;
use bytes::Bytes;
use host::sync::{Mutex, RwLock};
use ondisk::{BlkPtr, Dnode, Endian};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Contents of a block, shared between changes, readers and the cache. Modified only while not
/// shared.
#[derive(Debug, Clone)]
pub(crate) struct Buffer(Arc<Vec<u8>>);

impl Buffer {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }

    /// Mutable access; copies the bytes first if they are shared.
    pub fn make_mut(&mut self) -> &mut Vec<u8> {
        Arc::make_mut(&mut self.0)
    }

    /// The same bytes for readers, without a copy.
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(self.clone())
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// New contents of a block.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Contents that are compressed and encrypted only when they are written.
    Plain(Buffer),
    /// A block as received from a stream.
    Raw(Arc<RawBlock>),
}

impl Content {
    /// The decoded contents. Fails for an encrypted block.
    pub fn bytes(&self) -> errors::Result<Bytes> {
        match self {
            Self::Plain(buffer) => Ok(buffer.bytes()),
            Self::Raw(block) => block.contents(),
        }
    }
}

/// Changes of one txg to an object.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    pub txg: u64,
    /// Everything older is gone: the object was freed, and perhaps created again.
    pub wiped: bool,
    /// New contents of blocks; they take precedence over `holes`.
    pub blocks: BTreeMap<u64, Buffer>,
    /// Cloned blocks: pointers with their physical births. Disjoint from `blocks`; they take
    /// precedence over `holes`.
    pub pointers: BTreeMap<u64, BlkPtr>,
    /// Blocks written as received. Disjoint from the other two; they take precedence over `holes`.
    raw: BTreeMap<u64, Arc<RawBlock>>,
    taken_bytes: u64,
    /// Minimum number of levels of the tree at the end of the txg.
    pub levels_min: u8,
    /// Blocks that become holes.
    pub holes: Ranges,
    /// A new spill block, or its removal.
    pub spill: Option<Option<Content>>,
    /// Size of the changes when last counted, in bytes.
    counted: u64,
    /// The dnode at the end of the txg; `None` if the object does not exist then. Set when the txg
    /// is closed.
    pub head: Option<Arc<Dnode>>,
}

impl Delta {
    /// Drops the changes so far, and marks everything older as gone.
    pub fn wipe(&mut self) {
        self.wiped = true;
        self.blocks.clear();
        self.pointers.clear();
        self.raw.clear();
        self.taken_bytes = 0;
        self.levels_min = 0;
        self.holes = Ranges::default();
        self.spill = None;
    }

    /// Sets new contents of a block.
    pub fn put(&mut self, blkid: u64, buffer: Buffer) {
        self.pointers.remove(&blkid);
        self.forget_raw(blkid);
        self.blocks.insert(blkid, buffer);
    }

    /// Sets a block as received.
    pub fn put_raw(&mut self, blkid: u64, block: Arc<RawBlock>) {
        self.pointers.remove(&blkid);
        self.blocks.remove(&blkid);
        self.forget_raw(blkid);
        self.taken_bytes += block.bytes.len() as u64;
        self.raw.insert(blkid, block);
    }

    /// Drops the received block `blkid`. Returns whether there was one.
    pub fn forget_raw(&mut self, blkid: u64) -> bool {
        let gone = self.raw.remove(&blkid);
        self.taken_bytes -= gone.as_ref().map_or(0, |block| block.bytes.len() as u64);
        gone.is_some()
    }

    /// Blocks that are written as received.
    pub fn raw(&self) -> &BTreeMap<u64, Arc<RawBlock>> {
        &self.raw
    }

    /// Turns blocks into holes.
    pub fn punch(&mut self, range: std::ops::Range<u64>) {
        fn forget<V>(map: &mut BTreeMap<u64, V>, range: &std::ops::Range<u64>) {
            let gone: Vec<u64> = map.range(range.clone()).map(|(blkid, _)| *blkid).collect();
            gone.iter().for_each(|blkid| drop(map.remove(blkid)));
        }
        forget(&mut self.blocks, &range);
        forget(&mut self.pointers, &range);
        let gone: Vec<u64> = self.raw.range(range.clone()).map(|(blkid, _)| *blkid).collect();
        for blkid in gone {
            self.forget_raw(blkid);
        }
        self.holes.add(range);
    }

    /// Estimated size in bytes: all blocks have one size, except one that was resized. A pointer
    /// counts for itself and its place in the map.
    fn bytes(&self) -> u64 {
        let pointers = self.pointers.len() as u64 * 256;
        pointers
            + self.taken_bytes
            + self.blocks.first_key_value().map_or(0, |(_, b)| b.as_ref().len() as u64) * self.blocks.len() as u64
    }
}

/// Location of the contents of a block.
pub(crate) enum Found {
    Data(Bytes),
    Hole,
    /// A clone of a block on disk.
    At(BlkPtr),
    /// Not on disk yet, as received.
    Raw(Arc<RawBlock>),
    /// Under this dnode on disk.
    Disk(Arc<Dnode>),
}

pub(crate) struct State {
    /// The latest dnode. Pointers, levels and used space are those of the tree on disk. `None` if
    /// the object does not exist.
    pub head: Option<Arc<Dnode>>,
    /// The tree on disk.
    pub synced: Option<Arc<Dnode>>,
    pub open: Option<Delta>,
    pub syncing: Option<Arc<Delta>>,
    /// Counts changes of `head`, so that views can detect that they are stale.
    pub version: u64,
}

pub(crate) struct LiveObject {
    pub id: u64,
    pub state: RwLock<State>,
    pub ahead: Arc<Mutex<ReadAhead>>,
    /// Serialises writers of structured contents (a ZAP).
    pub writer: Mutex<()>,
    /// Number of the indirect block of level 1 that was found readable last, plus 1; 0: none yet.
    pub readable: AtomicU64,
    /// Cached state of a ZAP in this object.
    pub zap: Arc<crate::zap::Shared>,
    pub dirty: Arc<Dirty>,
}

/// Objects with changes, by txg.
///
/// The default lists none: it is for objects that each sync checks anyway. Nothing removes such
/// objects from a list, so each txg would add to it, and the object would keep itself alive.
#[derive(Default)]
pub(crate) struct Dirty {
    /// Counts the bytes of dirty blocks.
    pub waiting: Arc<AtomicU64>,
    is_listing: bool,
    by_txg: Mutex<BTreeMap<u64, BTreeMap<u64, Arc<LiveObject>>>>,
}

impl Dirty {
    pub fn new(waiting: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { waiting, is_listing: true, by_txg: Mutex::default() })
    }

    pub fn note(&self, txg: u64, object: &Arc<LiveObject>) {
        if self.is_listing {
            self.by_txg.lock().entry(txg).or_default().insert(object.id, object.clone());
        }
    }

    pub fn list(&self, txg: u64) -> Vec<Arc<LiveObject>> {
        self.by_txg.lock().get(&txg).map(|m| m.values().cloned().collect()).unwrap_or_default()
    }

    pub fn take(&self, txg: u64) -> Vec<Arc<LiveObject>> {
        self.by_txg.lock().remove(&txg).map(|m| m.into_values().collect()).unwrap_or_default()
    }

    pub fn is_empty(&self, txg: u64) -> bool {
        self.by_txg.lock().get(&txg).is_none_or(BTreeMap::is_empty)
    }

    pub fn is_clean(&self) -> bool {
        self.by_txg.lock().values().all(BTreeMap::is_empty)
    }
}

impl LiveObject {
    pub fn new(id: u64, dnode: Option<Arc<Dnode>>, dirty: Arc<Dirty>) -> Arc<Self> {
        let state = State { head: dnode.clone(), synced: dnode, open: None, syncing: None, version: 0 };
        Arc::new(Self {
            id,
            state: RwLock::new(state),
            ahead: Arc::default(),
            writer: Mutex::new(()),
            readable: AtomicU64::new(0),
            zap: Arc::default(),
            dirty,
        })
    }

    pub fn find(&self, blkid: u64) -> Found {
        self.state.read().find(blkid)
    }

    /// The first block at or after `blkid` with new data that is not on disk yet.
    pub fn next_changed(&self, blkid: u64) -> Option<u64> {
        let state = self.state.read();
        let first = |delta: &Delta| {
            let written = delta.blocks.range(blkid..).next().map(|(b, _)| *b);
            let cloned = delta.pointers.range(blkid..).next().map(|(b, _)| *b);
            let raw = delta.raw.range(blkid..).next().map(|(b, _)| *b);
            written.into_iter().chain(cloned).chain(raw).min()
        };
        state.deltas().filter_map(first).min()
    }

    /// Changes the object in `txg`, and adds it to the dirty list.
    pub fn change<R>(self: &Arc<Self>, txg: u64, change: impl FnOnce(&mut State, &mut bool) -> R) -> R {
        let mut state = self.state.write();
        let fresh = state.open.as_ref().is_none_or(|d| d.txg != txg);
        if fresh {
            assert!(state.open.is_none(), "object {} has changes of a txg that was not closed", self.id);
            state.open = Some(Delta { txg, ..Delta::default() });
        }
        let before = state.open_mut().counted;
        let mut head_changed = false;
        let result = change(&mut state, &mut head_changed);
        let delta = state.open_mut();
        delta.counted = delta.bytes();
        // Wraps around below zero and back: sums of such differences are right.
        self.dirty.waiting.fetch_add(delta.counted.wrapping_sub(before), Ordering::Relaxed);
        if head_changed {
            state.version += 1;
        }
        drop(state);
        if fresh {
            self.dirty.note(txg, self);
        }
        result
    }

    /// Closes `txg` for this object: moves its changes to `syncing`.
    pub fn quiesce(&self, txg: u64) {
        let mut state = self.state.write();
        if state.open.as_ref().is_some_and(|d| d.txg == txg) {
            assert!(state.syncing.is_none(), "object {} is still being synced", self.id);
            let mut delta = state.open.take().expect("looked at above");
            delta.head = state.head.clone();
            state.syncing = Some(Arc::new(delta));
        }
    }

    /// Publishes the tree of the txg that was synced; `None` if the object was freed.
    pub fn publish(&self, tree: Option<Dnode>) {
        let mut state = self.state.write();
        if let Some(done) = state.syncing.take() {
            self.dirty.waiting.fetch_sub(done.counted, Ordering::Relaxed);
        }
        state.synced = tree.map(Arc::new);
        // Changes by a later txg are kept; only the location of the tree changes.
        let gone_since = state.open.as_ref().is_some_and(|d| d.wiped);
        if let (Some(head), Some(synced), false) = (&state.head, &state.synced, gone_since) {
            let mut head = Dnode::clone(head);
            let pointers = head.blkptrs.len().max(synced.blkptrs.len());
            head.blkptrs.clone_from(&synced.blkptrs);
            head.blkptrs.resize(pointers, BlkPtr::HOLE);
            head.levels = synced.levels;
            head.used_bytes = synced.used_bytes;
            head.flags = synced.flags;
            if head.spill.is_some() {
                head.spill = synced.spill.or(head.spill);
            }
            state.head = Some(Arc::new(head));
        }
        state.version += 1;
    }
}

impl State {
    /// Whether there is no such object, on disk or in any txg.
    pub fn is_gone(&self) -> bool {
        self.head.is_none() && self.synced.is_none() && self.open.is_none() && self.syncing.is_none()
    }

    pub fn deltas(&self) -> impl Iterator<Item = &Delta> {
        self.open.as_ref().into_iter().chain(self.syncing.as_deref())
    }

    pub fn find(&self, blkid: u64) -> Found {
        for delta in self.deltas() {
            if let Some(buffer) = delta.blocks.get(&blkid) {
                return Found::Data(buffer.bytes());
            }
            if let Some(bp) = delta.pointers.get(&blkid) {
                return Found::At(*bp);
            }
            if let Some(block) = delta.raw.get(&blkid) {
                return Found::Raw(block.clone());
            }
            if delta.wiped || delta.holes.contains(blkid) {
                return Found::Hole;
            }
        }
        match &self.synced {
            Some(tree) => Found::Disk(tree.clone()),
            None => Found::Hole,
        }
    }

    /// The spill block among the changes: `None` if they do not affect it.
    pub fn changed_spill(&self) -> Option<Option<Content>> {
        for delta in self.deltas() {
            if let Some(spill) = &delta.spill {
                return Some(spill.clone());
            }
            if delta.wiped {
                return Some(None);
            }
        }
        None
    }

    pub fn open_mut(&mut self) -> &mut Delta {
        self.open.as_mut().expect("changes are made inside `LiveObject::change`")
    }
}

/// Byte order of everything written.
pub(crate) const WRITTEN: Endian = Endian::Little;
