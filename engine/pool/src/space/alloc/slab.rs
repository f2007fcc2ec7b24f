//! One metaslab as its writer sees it: what may be handed out, and what happened in each txg that is not synced yet.
//!
//! ```text
//!            allocate                        sync                synced
//!   free ───────────────> allocating[txg] ─────────> (space map) ──────>
//!                                                                             synced of the txg after next
//!   freeing[txg] ───────> (space map) + freed ─────────> deferred[txg % 2] ──────────────────────────────> free
//!      ^ free
//! ```
//! On a pool with log space maps, `sync` puts both into the txg's log and into `unflushed`, and a flush brings `unflushed` into the
//! metaslab's own map.
//!
//! Allocated and freed again within a txg, before its sync, a range goes straight back to `free`; not so blocks of the intent
//! log, which a crash leads to even if their txg never was.
//!
//! Invariants:
//!   * a metaslab with ranges in `allocating` is loaded
//!   * `free`, `held`, `allocating`, `freed`, `deferred` and what the map with `unflushed` says is allocated (`freeing` with it) share no
//!     unit
//!   * what a flush brings into the map stays in `flushing` until its txg is synced: who reads the map meanwhile may get it with or
//!     without
//!   * no lock of a metaslab is held while its space map is read or written: the sync of the pool's own objects allocates

use super::delta::Delta;
use super::{MapReader, Totals};
use crate::space::ranges::{FreeSpace, Ranges};
use crate::{Error, Result};
use ondisk::spacemap::HISTOGRAM_BUCKETS;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Txgs in flight at once: open, quiescing, syncing, and one that is just done.
pub(super) const TXGS: usize = 4;
/// Rounds that freed space waits for.
pub(super) const DEFERS: usize = 2;
/// Allocations of fewer bytes than this go forward from a place of their own, so that metadata does not tear up the room
/// for data. The size of the default indirect block's compressed half; guessed.
const SMALL_BYTES: u64 = 16 << 10;
/// Below one in this many units free, the smallest range that fits is taken. As OpenZFS (4 %).
const TIGHT_PART: u64 = 25;

/// In [`Slab::flags`]: something happened in the txg of that number modulo [`TXGS`].
const PENDING: u8 = 1 << 4;
/// In [`Slab::flags`]: something was freed that the checkpoint's space map does not have yet.
const CHECKPOINTED: u8 = 1 << 5;

/// The object of a metaslab's space map, as written last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapState {
    /// Number of the object.
    pub object: u64,
    /// Bytes of its blocks.
    pub block_bytes: u64,
    /// Bytes of entries.
    pub length_bytes: u64,
    /// Bytes allocated, by its entries.
    pub allocated_bytes: i64,
    /// Free ranges by size, if the object has room for them.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

/// What may be handed out.
enum Free {
    /// The map was not read yet, or was forgotten.
    Unloaded,
    /// A thread reads it.
    Loading,
    /// As is.
    Loaded(Box<FreeSpace>),
    /// The map cannot be read or cannot be true: nothing is handed out.
    Broken,
}

pub(super) struct Inner {
    pub map: Option<MapState>,
    free: Free,
    /// Rises when synced state moves on; who read the map meanwhile reads again.
    epoch: u64,
    pub allocating: [Ranges; TXGS],
    /// Those of `allocating` that the intent log names: a crash leads to them even before their txg is synced.
    allocating_log: [Ranges; TXGS],
    pub freeing: [Ranges; TXGS],
    /// Freed, and part of the pool's checkpoint: stays allocated, and goes into the checkpoint's space map.
    checkpointing: [Ranges; TXGS],
    /// The same, of the txg that syncs.
    checkpointed: Ranges,
    pub freed: Ranges,
    pub deferred: [Ranges; DEFERS],
    /// Free, and not to be handed out for a moment: something is done to the device there.
    held: Ranges,
    /// Free, and not told to the devices yet (`ms_trim`).
    untold: Ranges,
    /// What log space maps add to the map.
    pub unflushed: Delta,
    /// What the syncing txg brings into the map.
    flushing: Option<Box<Delta>>,
    /// Entries of logs from this txg on count; 0: none does.
    pub unflushed_txg: u64,
    /// The last txg whose log has an entry of this metaslab.
    pub logged_txg: u64,
    /// The map has entries that the last synced txg does not know: it cannot be read again until that txg is synced.
    is_ahead: bool,
    cursors: [u32; 2],
}

/// A metaslab.
pub(super) struct Slab {
    pub id: u32,
    /// First unit on the device.
    pub start_units: u64,
    pub units: u32,
    pub ashift: u8,
    /// Units of its largest free range at most, as far as is known.
    pub largest: AtomicU32,
    /// Units that may be handed out.
    pub free_units: AtomicU32,
    /// Set apart for the intent log.
    pub is_log: AtomicBool,
    /// `largest` comes from counting, not from the map's histogram.
    exact: AtomicBool,
    flags: AtomicU8,
    pub last_used_txg: AtomicU64,
    inner: Mutex<Inner>,
    loaded: Condvar,
}

/// Where space maps are read from at the moment.
pub(super) type Reader<'a> = &'a dyn Fn() -> Arc<dyn MapReader>;

/// What became of a free.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// Units that may be handed out again, and units that wait.
    Some(u64, u64),
    /// They were free already; nothing was changed.
    Twice,
}

impl Slab {
    pub fn new(id: u32, start_units: u64, units: u32, ashift: u8, map: Option<MapState>) -> Self {
        let allocated = map.as_ref().map_or(0, |m| m.allocated_bytes.max(0) as u64 >> ashift);
        let free_units = u64::from(units).saturating_sub(allocated) as u32;
        let largest = match map.as_ref().and_then(|m| m.histogram.as_ref()) {
            Some(h) => h.iter().rposition(|n| *n > 0).map_or(0, |i| u32::MAX >> (31 - i.min(31))).min(free_units),
            None => free_units,
        };
        let free = match map {
            None => Free::Loaded(Box::new(FreeSpace::from(Ranges::of(0, units)))),
            Some(_) => Free::Unloaded,
        };
        Self {
            id,
            start_units,
            units,
            ashift,
            largest: largest.into(),
            free_units: free_units.into(),
            is_log: false.into(),
            exact: AtomicBool::new(matches!(free, Free::Loaded(_))),
            flags: AtomicU8::new(0),
            last_used_txg: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                map,
                free,
                epoch: 0,
                allocating: Default::default(),
                allocating_log: Default::default(),
                freeing: Default::default(),
                checkpointing: Default::default(),
                checkpointed: Ranges::default(),
                freed: Ranges::default(),
                deferred: Default::default(),
                held: Ranges::default(),
                untold: Ranges::default(),
                unflushed: Delta::default(),
                flushing: None,
                unflushed_txg: 0,
                logged_txg: 0,
                is_ahead: false,
                cursors: [0; 2],
            }),
            loaded: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether it may hold `need` units in one piece, for sure or (`hopefully`) as far as its numbers tell.
    pub fn may_hold(&self, need: u32, hopefully: bool) -> bool {
        let fits = self.largest.load(Ordering::Relaxed) >= need;
        fits || (hopefully && !self.exact.load(Ordering::Relaxed) && self.free_units.load(Ordering::Relaxed) >= need)
    }

    /// Takes `need` units.
    pub fn allocate(&self, reader: Reader<'_>, need: u32, txg: u64, is_log: bool) -> Result<Option<u32>> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(None) };
        let cursor = usize::from(u64::from(need) << self.ashift >= SMALL_BYTES);
        let tight = free.ranges().units() * TIGHT_PART < u64::from(self.units);
        let found = free.find(need, inner.cursors[cursor], tight);
        if let Some(at) = found {
            free.remove(at, need);
            inner.untold.remove(at, need);
            inner.cursors[cursor] = at + need;
            inner.allocating[txg as usize % TXGS].add(at, need);
            if is_log {
                inner.allocating_log[txg as usize % TXGS].add(at, need);
            }
            self.flags.fetch_or(1 << (txg as usize % TXGS), Ordering::Relaxed);
            self.last_used_txg.store(txg, Ordering::Relaxed);
            self.note(free);
        } else {
            self.largest.store(free.largest(), Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Takes a range that must be free.
    pub fn claim(&self, reader: Reader<'_>, start: u32, len: u32, txg: u64) -> Result<bool> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(false) };
        if free.ranges().overlap(start, len) < u64::from(len) {
            return Ok(false);
        }
        free.remove(start, len);
        inner.untold.remove(start, len);
        inner.allocating[txg as usize % TXGS].add(start, len);
        self.flags.fetch_or(1 << (txg as usize % TXGS), Ordering::Relaxed);
        self.note(free);
        Ok(true)
    }

    fn note(&self, free: &FreeSpace) {
        self.largest.store(free.largest(), Ordering::Relaxed);
        self.free_units.store(free.ranges().units() as u32, Ordering::Relaxed);
        self.exact.store(true, Ordering::Relaxed);
    }

    /// Gives a range back. `was_named`: a pointer to it may be on disk, if it is of the intent log. What was born in the txg of the
    /// pool's `checkpoint` or before stays allocated.
    pub fn free(&self, start: u32, len: u32, txg: u64, birth: u64, was_named: bool, checkpoint: &AtomicU64) -> Freed {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let slot = txg as usize % TXGS;
        let waiting =
            inner.deferred.iter().chain(&inner.freeing).chain(&inner.checkpointing).chain([&inner.checkpointed]);
        let twice = inner.freed.overlap(start, len)
            + waiting.map(|r| r.overlap(start, len)).sum::<u64>()
            + inner.held.overlap(start, len)
            + if let Free::Loaded(free) = &inner.free { free.ranges().overlap(start, len) } else { 0 };
        if twice > 0 {
            return Freed::Twice;
        }
        // Read under the lock: who sets it goes over all metaslabs then.
        let checkpoint = checkpoint.load(Ordering::SeqCst);
        if checkpoint != 0 && birth <= checkpoint {
            inner.checkpointing[slot].add(start, len);
            self.flags.fetch_or(1 << slot, Ordering::Relaxed);
            return Freed::Some(0, 0);
        }
        let mut at_once = 0;
        let is_ours = birth == txg && inner.allocating[slot].overlap(start, len) == u64::from(len);
        if is_ours && !(was_named && inner.allocating_log[slot].overlap(start, len) > 0) {
            inner.allocating_log[slot].remove(start, len);
            at_once = inner.allocating[slot].remove(start, len);
            if let Free::Loaded(free) = &mut inner.free {
                free.add(start, len);
                self.note(free);
            }
        } else {
            // The intent log allocates for txgs to come: a map must not say freed before it says allocated.
            let ahead = (0..TXGS).find(|s| inner.allocating[*s].overlap(start, len) == u64::from(len));
            let slot = ahead.unwrap_or(slot);
            inner.freeing[slot].add(start, len);
            self.flags.fetch_or(1 << slot, Ordering::Relaxed);
        }
        Freed::Some(at_once, u64::from(len) - at_once)
    }

    /// The pool got a checkpoint as of the last synced txg: what it has and is being freed stays allocated. Units that do not wait any
    /// more.
    pub fn checkpoint(&self) -> u64 {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut units = 0;
        for slot in 0..TXGS {
            let mut kept = inner.freeing[slot].clone();
            // What is not in any synced map yet is younger.
            inner.allocating.iter().for_each(|young| kept.remove_all(young));
            inner.freeing[slot].remove_all(&kept);
            inner.checkpointing[slot].add_all(&kept);
            units += kept.units();
        }
        units
    }

    /// Takes what is to be brought into the checkpoint's space map.
    pub fn take_checkpointed(&self) -> Ranges {
        // The thread that syncs asks each metaslab in each pass, and is the only one to set the flag or take it away.
        if self.flags.load(Ordering::Relaxed) & CHECKPOINTED == 0 {
            return Ranges::default();
        }
        self.flags.fetch_and(!CHECKPOINTED, Ordering::Relaxed);
        std::mem::take(&mut self.inner.lock().checkpointed)
    }

    /// Undoes [`Slab::take_checkpointed`]: it could not be written.
    pub fn put_back_checkpointed(&self, ranges: &Ranges) {
        self.inner.lock().checkpointed.add_all(ranges);
        self.flags.fetch_or(CHECKPOINTED, Ordering::Relaxed);
    }

    /// Sets aside the first free range that ends behind `from`, `max` units of it at most; with `untold`, of those that devices were
    /// not told of. Ranges are cut to multiples of `align`, counted from their start.
    pub fn hold(
        &self,
        reader: Reader<'_>,
        from: u32,
        max: u32,
        align: u32,
        untold: bool,
    ) -> Result<Option<(u32, u32)>> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(None) };
        let mut from = from;
        loop {
            let found = if untold { inner.untold.next_from(from) } else { free.ranges().next_from(from) };
            let Some((start, len)) = found else { return Ok(None) };
            let start = start.next_multiple_of(align).min(start + len);
            let len = (len - (start - found.map_or(start, |f| f.0))).min(max) / align * align;
            if len == 0 || free.ranges().overlap(start, len) < u64::from(len) {
                // Smaller than anything is made of, or told and taken meanwhile.
                from = start.saturating_add(len.max(1));
                continue;
            }
            free.remove(start, len);
            inner.held.add(start, len);
            self.note(free);
            return Ok(Some((start, len)));
        }
    }

    /// What was [held](Slab::hold) may be handed out again; `told`: its devices know that it is free.
    pub fn release(&self, start: u32, len: u32, told: bool) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.held.remove(start, len);
        if told {
            inner.untold.remove(start, len);
        }
        if let Free::Loaded(free) = &mut inner.free {
            free.add(start, len);
            self.note(free);
        }
    }

    /// Reads the map, if that was not done yet.
    pub fn make_known(&self, reader: Reader<'_>) -> Result<()> {
        self.load(reader).map(drop)
    }

    /// What may not be handed out now; all of it where that is not known.
    pub fn not_free(&self) -> Vec<(u32, u32)> {
        match &self.inner.lock().free {
            Free::Loaded(free) => free.ranges().complement(self.units).iter().collect(),
            _ => vec![(0, self.units)],
        }
    }

    /// Nobody tells devices what is free any more.
    pub fn forget_untold(&self) {
        self.inner.lock().untold = Ranges::default();
    }

    /// Loads the map if it is not; waits while another thread does.
    fn load(&self, reader: Reader<'_>) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = self.inner.lock();
        loop {
            match inner.free {
                Free::Loaded(_) | Free::Broken => return Ok(inner),
                Free::Loading => self.loaded.wait(&mut inner),
                Free::Unloaded => {
                    inner.free = Free::Loading;
                    let epoch = inner.epoch;
                    let object = inner.map.as_ref().map(|m| m.object);
                    drop(inner);
                    let found = self.read(&*reader(), object);
                    inner = self.inner.lock();
                    self.loaded.notify_all();
                    if inner.epoch != epoch {
                        inner.free = Free::Unloaded;
                        continue;
                    }
                    inner.free = match found {
                        Ok(found) => self.usable(found, &inner),
                        Err(e) => {
                            let is_broken = matches!(e, Error::Corrupt { .. });
                            inner.free = if is_broken { Free::Broken } else { Free::Unloaded };
                            if is_broken {
                                self.largest.store(0, Ordering::Relaxed);
                                self.free_units.store(0, Ordering::Relaxed);
                                self.exact.store(true, Ordering::Relaxed);
                            }
                            return Err(e);
                        }
                    };
                    if let Free::Loaded(free) = &inner.free {
                        self.note(free);
                    }
                }
            }
        }
    }

    /// What the map of the last synced txg says is free.
    fn read(&self, reader: &dyn MapReader, object: Option<u64>) -> Result<Ranges> {
        let mut free = Ranges::of(0, self.units);
        let mut wrong = None;
        let Some(object) = object else { return Ok(free) };
        reader.read_map(object, &mut |e| {
            let fits = e.offset.checked_add(e.run).is_some_and(|end| end <= u64::from(self.units));
            if !fits {
                wrong.get_or_insert(format!("entry {:#x}+{:#x} of {:#x} units", e.offset, e.run, self.units));
                return;
            }
            let (start, len) = (e.offset as u32, e.run as u32);
            let right = if e.is_alloc { free.remove(start, len) == e.run } else { free.add(start, len) == 0 };
            if !right {
                let what = if e.is_alloc { "allocated twice" } else { "freed when free" };
                wrong.get_or_insert(format!("units {start:#x}+{len:#x} are {what}"));
            }
        })?;
        match wrong {
            Some(what) => Err(Error::corrupt(format!("space map {object}"), what)),
            None => Ok(free),
        }
    }

    /// Brings the numbers up to what logs add to the map, and says how much that is.
    pub fn count_unflushed(&self) -> i64 {
        let units = self.lock().unflushed.units();
        let now = i64::from(self.free_units.load(Ordering::Relaxed)) - units;
        self.free_units.store(now.clamp(0, i64::from(self.units)) as u32, Ordering::Relaxed);
        units
    }

    /// Takes out what is free by the map and not to be handed out yet; adds what logs freed.
    fn usable(&self, mut found: Ranges, inner: &Inner) -> Free {
        for delta in inner.flushing.as_deref().into_iter().chain([&inner.unflushed]) {
            delta.apply(&mut found);
        }
        for waits in inner.deferred.iter().chain([&inner.freed, &inner.held]).chain(&inner.allocating) {
            found.remove_all(waits);
        }
        Free::Loaded(Box::new(FreeSpace::from(found)))
    }

    /// What is allocated as the txg that syncs has it so far, of a metaslab in which nothing is allocated any more.
    pub fn allocated(&self, reader: Reader<'_>) -> Result<Ranges> {
        let inner = self.load(reader)?;
        match self.free_on_disk(&inner, &Ranges::default()) {
            Some(mut free) => {
                inner.freeing.iter().for_each(|waits| free.add_all(waits));
                Ok(free.complement(self.units))
            }
            None => Err(Error::corrupt(format!("metaslab {}", self.id), "its space map cannot be read")),
        }
    }

    /// Whether there is something to sync in `txg`.
    pub fn is_dirty(&self, txg: u64) -> bool {
        self.flags.load(Ordering::Relaxed) & ((1 << (txg as usize % TXGS)) | CHECKPOINTED) != 0
    }

    /// Takes what happened in `txg` so far.
    pub fn take(&self, inner: &mut Inner, txg: u64) -> (Ranges, Ranges) {
        let slot = txg as usize % TXGS;
        self.flags.fetch_and(!(1 << slot), Ordering::Relaxed);
        inner.allocating_log[slot] = Ranges::default();
        let kept = std::mem::take(&mut inner.checkpointing[slot]);
        if !kept.is_empty() {
            inner.checkpointed.add_all(&kept);
            self.flags.fetch_or(CHECKPOINTED, Ordering::Relaxed);
        }
        let taken = (std::mem::take(&mut inner.allocating[slot]), std::mem::take(&mut inner.freeing[slot]));
        if !taken.0.is_empty() || !taken.1.is_empty() {
            self.flags.fetch_or(PENDING, Ordering::Relaxed);
            inner.is_ahead = true;
        }
        taken
    }

    /// Takes what is to be brought into the map in the syncing txg. Its first pass only, before anything of the txg is taken.
    pub fn start_flush(&self, inner: &mut Inner) -> Delta {
        debug_assert!(inner.freed.is_empty() && inner.flushing.is_none());
        self.flags.fetch_or(PENDING, Ordering::Relaxed);
        inner.is_ahead = true;
        let delta = std::mem::take(&mut inner.unflushed);
        inner.flushing = Some(Box::new(delta.clone()));
        delta
    }

    /// Undoes [`Slab::start_flush`]: it could not be written.
    pub fn undo_flush(&self, inner: &mut Inner) {
        inner.unflushed = inner.flushing.take().map_or_else(Delta::default, |delta| *delta);
    }

    /// Undoes [`Slab::take`]: it could not be written.
    pub fn put_back(&self, inner: &mut Inner, txg: u64, (allocated, freed): (Ranges, Ranges)) {
        let slot = txg as usize % TXGS;
        inner.allocating[slot].add_all(&allocated);
        inner.freeing[slot].add_all(&freed);
        self.flags.fetch_or(1 << slot, Ordering::Relaxed);
    }

    /// What is written as free when the whole map is written anew: all that is not allocated as of the syncing txg, `freeing`
    /// of which was just taken, or, while nothing of it was taken, as of the txg before. `None` when it is not loaded.
    pub fn free_on_disk(&self, inner: &Inner, freeing: &Ranges) -> Option<Ranges> {
        let Free::Loaded(free) = &inner.free else { return None };
        let mut all = free.ranges().clone();
        for more in inner.deferred.iter().chain([&inner.freed, &inner.held, freeing]).chain(&inner.allocating) {
            all.add_all(more);
        }
        Some(all)
    }

    /// Free ranges by size: exact when loaded, else the map's with what is being freed.
    pub fn histogram(&self, inner: &Inner, freeing: &Ranges) -> [u64; HISTOGRAM_BUCKETS] {
        let mut histogram = match &inner.free {
            Free::Loaded(free) => {
                let mut h = *free.histogram();
                inner.deferred.iter().chain([&inner.freed, &inner.held]).for_each(|r| r.add_to_histogram(&mut h));
                h
            }
            _ => inner.map.as_ref().and_then(|m| m.histogram).unwrap_or_default(),
        };
        freeing.add_to_histogram(&mut histogram);
        histogram
    }

    /// Ranges held when it is loaded.
    pub fn ranges(&self) -> usize {
        match &self.inner.lock().free {
            Free::Loaded(free) => free.ranges().count(),
            _ => 0,
        }
    }

    /// The txg is on disk: what was freed two txgs ago may be handed out, unless it is to be kept; what was freed in this one waits,
    /// unless `at_once`.
    ///
    /// With `tell`, what may be handed out now is noted as not told to the devices.
    pub fn synced(&self, txg: u64, at_once: bool, keep: bool, tell: bool, totals: &Totals) {
        if self.flags.load(Ordering::Relaxed) & PENDING == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.epoch += 1;
        inner.is_ahead = false;
        let freed = std::mem::take(&mut inner.freed);
        let (mut waits, ready_too) = if at_once { (Ranges::default(), freed) } else { (freed, Ranges::default()) };
        if keep {
            waits.add_all(&std::mem::take(&mut inner.deferred[txg as usize % DEFERS]));
        }
        let ready = std::mem::replace(&mut inner.deferred[txg as usize % DEFERS], waits);
        let units = ready.units() + ready_too.units();
        if tell {
            inner.untold.add_all(&ready);
            inner.untold.add_all(&ready_too);
        }
        totals.released(units << self.ashift);
        match &mut inner.free {
            Free::Loaded(free) => {
                for (start, len) in ready.iter().chain(ready_too.iter()) {
                    free.add(start, len);
                }
                self.note(free);
            }
            Free::Broken => {}
            Free::Unloaded | Free::Loading if units > 0 => {
                // Neighbours may have joined: how large the largest is shows when it is loaded.
                self.free_units.fetch_add(units as u32, Ordering::Relaxed);
                let longest = ready.iter().chain(ready_too.iter()).map(|(_, l)| l).max().unwrap_or(0);
                self.largest.fetch_max(longest, Ordering::Relaxed);
                self.exact.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
        inner.flushing = None;
        if inner.deferred.iter().all(Ranges::is_empty) {
            self.flags.fetch_and(!PENDING, Ordering::Relaxed);
        }
    }

    /// Forgets what is free, if the map tells it.
    pub fn unload(&self) -> bool {
        let mut inner = self.inner.lock();
        let idle = inner.map.is_some()
            && !inner.is_ahead
            && matches!(inner.free, Free::Loaded(_))
            && inner.allocating.iter().chain(&inner.freeing).chain([&inner.freed, &inner.held]).all(Ranges::is_empty);
        if idle {
            inner.free = Free::Unloaded;
        }
        idle
    }
}
