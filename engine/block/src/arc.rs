//! The in-memory block cache: ARC, the adaptive replacement cache of Megiddo and Modha (FAST 2003),
//! counted in bytes.
//!
//! ```text
//!   ghosts of recent | recent <- p -> frequent | ghosts of frequent
//!                    '------ at most c bytes --'
//! ```
//! A block seen once is *recent*; seen again, *frequent*. An evicted block leaves a ghost (its
//! key). A ghost hit shows which of the two lists was too short, and moves the target `p` of the
//! recent list.
//!
//! Above: `store`. ZFS name: ARC (module/zfs/arc.c). As there, the first use of a prefetched block
//! does not make it frequent.
//!
//! Invariants:
//!   * recent + frequent never exceed the cap `c`; ghosts hold no data
//!   * recent + its ghosts stay within c, all four within 2c
//!   * at most one thread loads a block; the others wait for it. If it panics, the next one loads
//!     the block: none gets an error for a read that did not happen

use crate::Block;
use errors::Result;
use host::clock::Stopwatch;
#[cfg(not(test))]
use host::sync::{Condvar, Mutex};
use observe::event::note;
use ondisk::BlkPtr;
#[cfg(test)]
use rig::schedule::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc as Shared;

/// Identity of a cached block: first address and birth, as in OpenZFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Top-level vdev of the first address.
    pub vdev: u32,
    /// Offset on that vdev.
    pub offset_bytes: u64,
    /// Physical birth txg, since an address is reused after a free.
    pub birth: u64,
}

/// Why a block is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A caller waits for it.
    Demand,
    /// It may be needed soon.
    Prefetch,
}

/// Counters and sizes of the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Demand reads served from memory.
    pub hits: u64,
    /// Demand hits that were the first use of a prefetched block.
    pub prefetched_hits: u64,
    /// Demand reads that had to read a device.
    pub misses: u64,
    /// Prefetches that read a device.
    pub prefetches: u64,
    /// Misses with a ghost in the recent list.
    pub ghost_recent_hits: u64,
    /// Misses with a ghost in the frequent list.
    pub ghost_frequent_hits: u64,
    pub evictions: u64,
    /// Bytes evicted: data, and metadata.
    pub evicted_bytes: [u64; 2],
    /// Bytes of cached blocks.
    pub size_bytes: u64,
    /// Bytes of cached metadata, part of `size_bytes`.
    pub metadata_bytes: u64,
    /// Bytes of the cache's bookkeeping, ghosts included.
    pub header_bytes: u64,
    /// Target size of the recent list.
    pub recent_target_bytes: u64,
    /// Upper limit of `size_bytes`.
    pub cap_bytes: u64,
}

/// An evicted block that may go to the L2ARC.
#[derive(Debug, Clone)]
pub struct Evicted {
    /// Its pointer in the pool.
    pub bp: BlkPtr,
    pub block: Block,
    pub is_metadata: bool,
    /// Whether it was used more than once.
    pub is_frequent: bool,
}

/// Evicted blocks that wait for the L2ARC, at most [`EVICTED_BYTES_MAX`].
#[derive(Default)]
struct Outgoing {
    wanted: bool,
    blocks: VecDeque<Evicted>,
    bytes: u64,
    /// Number of blocks dropped for lack of room.
    refused: u64,
}

/// Limit of the evicted blocks that wait for the L2ARC, in bytes, and as a percentage of the cap.
const EVICTED_BYTES_MAX: u64 = 32 << 20;
const EVICTED_PERCENT: u64 = 12;

/// Blocks of a cache, for another one.
#[derive(Clone)]
pub struct Contents(Vec<(Key, bool, Block)>);

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks", self.0.len())
    }
}

/// The pool's cache in memory: ZFS's ARC, not the standard library's pointer type.
pub struct Arc {
    inner: Mutex<Inner>,
}

const RECENT: usize = 0;
const FREQUENT: usize = 1;
const GHOST_RECENT: usize = 2;
const GHOST_FREQUENT: usize = 3;
const NIL: u32 = u32::MAX;

struct Slot {
    key: Key,
    bytes: u64,
    /// `None` for a ghost.
    block: Option<Block>,
    list: usize,
    is_metadata: bool,
    prefetched: bool,
    /// Pointer in the pool, if the L2ARC accepts the block.
    origin: Option<Box<BlkPtr>>,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct List {
    /// Most recently used end.
    head: u32,
    tail: u32,
    bytes: u64,
    /// Bytes of metadata, part of `bytes`.
    metadata_bytes: u64,
}

enum Where {
    Slot(u32),
    Loading(Shared<Flight>),
}

#[derive(Default)]
struct Flight {
    done: Mutex<Option<Landed>>,
    landed: Condvar,
}

#[derive(Clone)]
enum Landed {
    Loaded(Result<Block>),
    /// The loading thread panicked.
    Lost,
}

impl Flight {
    /// Waits for the thread that loads the block.
    fn wait(&self) -> Landed {
        let mut done = self.done.lock();
        loop {
            match &*done {
                Some(landed) => return landed.clone(),
                None => self.landed.wait(&mut done),
            }
        }
    }

    fn end(&self, landed: Landed) {
        let before = self.done.lock().replace(landed);
        self.landed.notify_all();
        assert!(before.is_none(), "a read of a block ends a second time");
    }
}

struct Inner {
    map: HashMap<Key, Where>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    lists: [List; 4],
    /// Target size of the recent list, `p` in the paper.
    target: u64,
    cap: u64,
    count: Counters,
    outgoing: Outgoing,
}

/// How a block enters the cache.
#[derive(Clone, Copy)]
struct Came<'o> {
    want: Want,
    is_metadata: bool,
    was_ghost: bool,
    /// Pointer in the pool, if the L2ARC accepts the block.
    origin: Option<&'o BlkPtr>,
}

impl Arc {
    /// A cache of at most `cap_bytes` of block data.
    pub fn new(cap_bytes: u64) -> Self {
        let empty = List { head: NIL, tail: NIL, bytes: 0, metadata_bytes: 0 };
        Self {
            inner: Mutex::new(Inner {
                map: HashMap::new(),
                slots: Vec::new(),
                free: Vec::new(),
                lists: [empty; 4],
                target: cap_bytes / 2,
                cap: cap_bytes,
                count: Counters::default(),
                outgoing: Outgoing::default(),
            }),
        }
    }

    /// Changes the cap, and evicts blocks that exceed it.
    pub fn set_cap(&self, cap_bytes: u64) {
        let mut i = self.inner.lock();
        i.cap = cap_bytes;
        i.target = i.target.min(cap_bytes);
        i.make_room(0, RECENT);
        i.check();
    }

    /// Starts or stops collecting evicted blocks for [`Arc::take_evicted`].
    pub fn collect_evicted(&self, yes: bool) {
        let mut i = self.inner.lock();
        if i.outgoing.wanted != yes {
            i.outgoing = Outgoing { wanted: yes, ..Outgoing::default() };
        }
    }

    /// Takes evicted blocks, oldest first, of at most `bytes_max` bytes (but at least one block).
    /// The second value is the number of blocks dropped for lack of room since the last call.
    pub fn take_evicted(&self, bytes_max: u64) -> (Vec<Evicted>, u64) {
        let mut i = self.inner.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(one) = i.outgoing.blocks.front() {
            let size = one.block.data.len() as u64;
            if !taken.is_empty() && bytes + size > bytes_max {
                break;
            }
            bytes += size;
            taken.extend(i.outgoing.blocks.pop_front());
        }
        i.outgoing.bytes -= bytes;
        (taken, std::mem::take(&mut i.outgoing.refused))
    }

    /// Evicts all blocks and drops their ghosts. The size limit stays.
    pub fn clear(&self) {
        let mut i = self.inner.lock();
        let cap = std::mem::take(&mut i.cap);
        i.make_room(0, RECENT);
        i.check();
        i.cap = cap;
    }

    /// The blocks in the cache.
    pub fn contents(&self) -> Contents {
        let i = self.inner.lock();
        let blocks = i.slots.iter().filter_map(|slot| Some((slot.key, slot.is_metadata, slot.block.clone()?)));
        Contents(blocks.collect())
    }

    /// Adds blocks, which must be of the same pool.
    pub fn fill(&self, contents: &Contents) {
        for (key, is_metadata, block) in &contents.0 {
            self.insert(*key, *is_metadata, block.clone());
        }
    }

    /// Current counters and sizes.
    pub fn counters(&self) -> Counters {
        let i = self.inner.lock();
        Counters {
            size_bytes: i.lists[RECENT].bytes + i.lists[FREQUENT].bytes,
            metadata_bytes: i.lists[RECENT].metadata_bytes + i.lists[FREQUENT].metadata_bytes,
            // A hash map uses one more byte per entry.
            header_bytes: (i.slots.capacity() * size_of::<Slot>() + i.map.capacity() * (size_of::<(Key, Where)>() + 1))
                as u64,
            recent_target_bytes: i.target,
            cap_bytes: i.cap,
            ..i.count
        }
    }

    /// Returns the block if it is cached, without reading or waiting.
    pub fn peek(&self, key: &Key) -> Option<Block> {
        self.inner.lock().hit(key, Want::Demand)
    }

    /// Whether the block is cached or being read.
    pub fn knows(&self, key: &Key) -> bool {
        let i = self.inner.lock();
        match i.map.get(key) {
            Some(Where::Slot(s)) => i.slots[*s as usize].block.is_some(),
            Some(Where::Loading(_)) => true,
            None => false,
        }
    }

    /// Returns the block from memory or from `load`, which runs once even if several threads ask
    /// for the block. Errors are not cached.
    pub fn get_or_load(&self, key: Key, want: Want, load: impl FnOnce() -> Result<Block>) -> Result<Block> {
        self.look(key, want, false, load).0
    }

    /// As [`Arc::get_or_load`], and returns what the lookup found.
    pub fn look(
        &self,
        key: Key,
        want: Want,
        is_metadata: bool,
        load: impl FnOnce() -> Result<Block>,
    ) -> (Result<Block>, Met) {
        self.look_from(key, want, is_metadata, || None, load)
    }

    /// As [`Arc::look`]. `origin` is called on a miss and returns the block's pointer if the L2ARC
    /// accepts the block once it is evicted.
    pub fn look_from(
        &self,
        key: Key,
        want: Want,
        is_metadata: bool,
        origin: impl FnOnce() -> Option<BlkPtr>,
        load: impl FnOnce() -> Result<Block>,
    ) -> (Result<Block>, Met) {
        let mut clock = None;
        let (flight, was_ghost) = loop {
            let mut i = self.inner.lock();
            let before = i.count.prefetched_hits;
            if let Some(block) = i.hit(&key, want) {
                let was_prefetched = i.count.prefetched_hits != before;
                return (Ok(block), if was_prefetched { Met::Prefetched } else { Met::Hit });
            }
            let clock = clock.get_or_insert_with(Stopwatch::start);
            let waiting = match i.map.get(&key) {
                Some(Where::Loading(f)) => Some(f.clone()),
                _ => None,
            };
            if let Some(flight) = waiting {
                drop(i);
                match flight.wait() {
                    Landed::Loaded(result) => return (result, Met::Miss { waited_ns: clock.ns() }),
                    // The next thread loads it, perhaps this one.
                    Landed::Lost => continue,
                }
            }
            match want {
                Want::Demand => i.count.misses += 1,
                Want::Prefetch => i.count.prefetches += 1,
            }
            let f = Shared::new(Flight::default());
            let was_ghost = i.start(key, f.clone());
            break (f, was_ghost);
        };
        let mut guard = Landing { cache: self, key, flight: &flight, armed: true };
        let origin = origin();
        let result = load();
        guard.armed = false;
        let came = Came { want, is_metadata, was_ghost, origin: origin.as_ref() };
        self.inner.lock().land(key, came, &result, &flight);
        flight.end(Landed::Loaded(result.clone()));
        (result, Met::Miss { waited_ns: clock.map_or(0, |clock| clock.ns()) })
    }
}

impl Arc {
    /// Inserts a block that was just written, replacing whatever was cached under its key. If a
    /// read of the old contents is in progress, its result goes to the threads that wait for it,
    /// but not into the cache.
    pub fn insert(&self, key: Key, is_metadata: bool, block: Block) {
        self.insert_from(key, is_metadata, None, block);
    }

    /// As [`Arc::insert`]; `origin` as for [`Arc::look_from`].
    pub fn insert_from(&self, key: Key, is_metadata: bool, origin: Option<&BlkPtr>, block: Block) {
        let mut i = self.inner.lock();
        i.forget(&key);
        i.keep(key, Came { want: Want::Demand, is_metadata, was_ghost: false, origin }, &block);
    }

    /// Drops a block whose space was freed.
    pub fn remove(&self, key: &Key) {
        self.inner.lock().forget(key);
    }
}

/// Result of a cache lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// The block was cached.
    Hit,
    /// The block was cached by a prefetch, and this was its first use.
    Prefetched,
    /// The block had to be read, by this thread or another one.
    Miss {
        /// Time spent waiting for the read.
        waited_ns: u64,
    },
}

impl Met {
    /// Records the result in the statistics of the operation that this thread works on.
    pub fn note(self, is_metadata: bool) {
        note::change(|n| {
            let count = match (self, is_metadata) {
                (Self::Hit | Self::Prefetched, true) => &mut n.cache.metadata_hits,
                (Self::Hit, false) => &mut n.cache.data_hits,
                (Self::Prefetched, false) => &mut n.cache.prefetched,
                (Self::Miss { .. }, true) => &mut n.cache.metadata_misses,
                (Self::Miss { .. }, false) => &mut n.cache.data_misses,
            };
            *count = count.saturating_add(1);
        });
        if let Self::Miss { waited_ns } = self {
            note::wait(waited_ns, |n| &mut n.disk_wait);
        }
    }
}

/// Has another thread load the block if the loading thread panics.
struct Landing<'a> {
    cache: &'a Arc,
    key: Key,
    flight: &'a Shared<Flight>,
    armed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.cache.inner.lock().take_off(&self.key, self.flight);
            self.flight.end(Landed::Lost);
        }
    }
}

impl Inner {
    fn hit(&mut self, key: &Key, want: Want) -> Option<Block> {
        let Some(Where::Slot(s)) = self.map.get(key) else { return None };
        let s = *s;
        let block = self.slots[s as usize].block.clone()?;
        if want == Want::Demand {
            self.count.hits += 1;
            let slot = &mut self.slots[s as usize];
            let list = if std::mem::take(&mut slot.prefetched) {
                self.count.prefetched_hits += 1;
                RECENT
            } else {
                FREQUENT
            };
            self.unlink(s);
            self.push(s, list);
        }
        Some(block)
    }

    /// Marks `key` as being read. If it has a ghost, adapts the target. Returns whether there was a
    /// ghost.
    fn start(&mut self, key: Key, flight: Shared<Flight>) -> bool {
        let before = self.map.insert(key, Where::Loading(flight));
        let s = match before {
            None => return false,
            Some(Where::Slot(s)) => s,
            Some(Where::Loading(_)) => panic!("two threads load {key:?}"),
        };
        let Slot { list, bytes, ref block, .. } = self.slots[s as usize];
        assert!(block.is_none(), "{key:?} is loaded, and is in the cache");
        let (recent, frequent) = (self.lists[GHOST_RECENT].bytes, self.lists[GHOST_FREQUENT].bytes);
        if list == GHOST_RECENT {
            self.count.ghost_recent_hits += 1;
            let step = bytes * (frequent / recent.max(1)).max(1);
            self.target = (self.target + step).min(self.cap);
        } else {
            self.count.ghost_frequent_hits += 1;
            let step = bytes * (recent / frequent.max(1)).max(1);
            self.target = self.target.saturating_sub(step);
        }
        self.unlink(s);
        self.release(s);
        true
    }

    /// Ends a read that was started for `key`. Returns false if something was written there
    /// meanwhile.
    fn take_off(&mut self, key: &Key, flight: &Shared<Flight>) -> bool {
        let is_current = matches!(self.map.get(key), Some(Where::Loading(f)) if Shared::ptr_eq(f, flight));
        if is_current {
            self.map.remove(key);
        }
        is_current
    }

    fn land(&mut self, key: Key, came: Came<'_>, result: &Result<Block>, flight: &Shared<Flight>) {
        // If something was written there meanwhile, the result is the old contents.
        if self.take_off(&key, flight)
            && let Ok(block) = result
        {
            self.keep(key, came, block);
        }
    }

    /// Removes everything known about `key`, including ghosts and reads in progress.
    fn forget(&mut self, key: &Key) {
        if let Some(Where::Slot(s)) = self.map.remove(key) {
            self.unlink(s);
            self.release(s);
        }
    }

    fn keep(&mut self, key: Key, came: Came<'_>, block: &Block) {
        let Came { want, is_metadata, was_ghost, origin } = came;
        let bytes = block.data.len() as u64;
        if bytes > self.cap {
            return;
        }
        // A prefetch is no use: as OpenZFS.
        let list = if was_ghost && want == Want::Demand { FREQUENT } else { RECENT };
        self.make_room(bytes, list);
        let s = self.alloc(Slot {
            key,
            bytes,
            block: Some(block.clone()),
            list: RECENT,
            is_metadata,
            prefetched: want == Want::Prefetch,
            origin: origin.copied().map(Box::new),
            prev: NIL,
            next: NIL,
        });
        self.push(s, list);
        let before = self.map.insert(key, Where::Slot(s));
        assert!(before.is_none(), "{key:?} enters the cache, and is in it");
        self.check();
    }

    /// Asserts the limits of the lists.
    fn check(&self) {
        let [recent, frequent, ghost_recent, ghost_frequent] = self.lists.map(|list| list.bytes);
        let cap = self.cap;
        assert!(recent + frequent <= cap, "the cache holds {recent} + {frequent} bytes, and its limit is {cap}");
        let remembered = recent + ghost_recent;
        assert!(remembered <= cap, "the recent list and its ghosts have {remembered} bytes, and their limit is {cap}");
        let all = remembered + frequent + ghost_frequent;
        assert!(all <= 2 * cap, "all lists have {all} bytes, and their limit is twice {cap}");
    }

    /// Makes room for `bytes` that enter `list`.
    fn make_room(&mut self, bytes: u64, list: usize) {
        while self.lists[RECENT].bytes + self.lists[FREQUENT].bytes + bytes > self.cap {
            let from_recent = self.lists[RECENT].tail != NIL
                && (self.lists[RECENT].bytes + bytes > self.target || self.lists[FREQUENT].tail == NIL);
            let from = if from_recent { RECENT } else { FREQUENT };
            let s = self.lists[from].tail;
            if s == NIL {
                break;
            }
            self.unlink(s);
            let slot = &mut self.slots[s as usize];
            let (block, origin) = (slot.block.take(), slot.origin.take());
            let (is_metadata, was_used) = (slot.is_metadata, !slot.prefetched);
            self.count.evictions += 1;
            self.count.evicted_bytes[usize::from(slot.is_metadata)] += slot.bytes;
            if let (Some(block), Some(bp), true) = (block, origin, was_used) {
                self.send_out(Evicted { bp: *bp, block, is_metadata, is_frequent: from == FREQUENT });
            }
            self.push(s, if from == RECENT { GHOST_RECENT } else { GHOST_FREQUENT });
        }
        let recent = if list == RECENT { bytes } else { 0 };
        while self.lists[RECENT].bytes + self.lists[GHOST_RECENT].bytes + recent > self.cap
            && self.drop_ghost(GHOST_RECENT)
        {}
        while self.lists.iter().map(|l| l.bytes).sum::<u64>() + bytes > 2 * self.cap
            && (self.drop_ghost(GHOST_FREQUENT) || self.drop_ghost(GHOST_RECENT))
        {}
    }

    fn send_out(&mut self, one: Evicted) {
        if !self.outgoing.wanted {
            return;
        }
        let bytes = one.block.data.len() as u64;
        let most = EVICTED_BYTES_MAX.min(self.cap / 100 * EVICTED_PERCENT).max(1 << 20);
        if self.outgoing.bytes + bytes > most {
            self.outgoing.refused += 1;
            return;
        }
        self.outgoing.bytes += bytes;
        self.outgoing.blocks.push_back(one);
    }

    fn drop_ghost(&mut self, list: usize) -> bool {
        let s = self.lists[list].tail;
        if s == NIL {
            return false;
        }
        let Slot { key, ref block, .. } = self.slots[s as usize];
        assert!(block.is_none(), "the ghost of {key:?} holds its data");
        self.unlink(s);
        self.release(s);
        if matches!(self.map.get(&key), Some(Where::Slot(at)) if *at == s) {
            self.map.remove(&key);
        }
        true
    }

    fn alloc(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(s) => {
                self.slots[s as usize] = slot;
                s
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn release(&mut self, s: u32) {
        self.slots[s as usize].block = None;
        self.free.push(s);
    }

    fn unlink(&mut self, s: u32) {
        let Slot { prev, next, list, bytes, is_metadata, .. } = self.slots[s as usize];
        match prev {
            NIL => self.lists[list].head = next,
            p => self.slots[p as usize].next = next,
        }
        match next {
            NIL => self.lists[list].tail = prev,
            n => self.slots[n as usize].prev = prev,
        }
        self.lists[list].bytes -= bytes;
        self.lists[list].metadata_bytes -= if is_metadata { bytes } else { 0 };
    }

    fn push(&mut self, s: u32, list: usize) {
        let head = self.lists[list].head;
        let slot = &mut self.slots[s as usize];
        (slot.list, slot.prev, slot.next) = (list, NIL, head);
        self.lists[list].bytes += slot.bytes;
        self.lists[list].metadata_bytes += if slot.is_metadata { slot.bytes } else { 0 };
        match head {
            NIL => self.lists[list].tail = s,
            h => self.slots[h as usize].prev = s,
        }
        self.lists[list].head = s;
    }
}

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
