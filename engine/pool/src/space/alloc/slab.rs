//! One metaslab as its writer sees it: its free space, and the changes of each txg that is not
//! synced yet.
//!
//! ```text
//!         allocate                   sync               synced
//!   free ─────────> allocating[txg] ─────> (space map) ───────>
//!
//!    free                sync                       synced                    synced of txg + 2
//!   ─────> freeing[txg] ─────> (space map) + freed ───────> deferred[txg % 2] ─────────────> free
//! ```
//! On a pool with log space maps, `sync` adds both to the txg's log and to `unflushed`, and a flush
//! writes `unflushed` to the metaslab's own map.
//!
//! A range that is allocated and freed again within a txg, before its sync, goes straight back to
//! `free`. This does not apply to blocks of the intent log, to which a crash leads even if their
//! txg was never synced.
//!
//! Invariants:
//!   * a metaslab with ranges in `allocating` is loaded
//!   * `free`, `held`, `allocating`, `freed`, `deferred` and the space allocated in the map with
//!     `unflushed` (which includes `freeing`) have no unit in common, in a damaged pool either: a
//!     free that contradicts them is refused, and a map that does is read without those units
//!   * the changes that a flush writes to the map stay in `flushing` until its txg is synced: a
//!     thread that reads the map meanwhile may see it with or without them
//!   * no metaslab lock is held while its space map is read or written: syncing the MOS allocates

use super::delta::Delta;
use super::maps::MapReader;
use super::totals::Totals;
use crate::space::ranges::{FreeSpace, Ranges};
use errors::{Error, Result};
#[cfg(not(test))]
use host::sync::{Condvar, Mutex, MutexGuard};
use ondisk::spacemap::HISTOGRAM_BUCKETS;
#[cfg(test)]
use rig::schedule::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Txgs that exist at once: open, quiescing, syncing, and one that was just synced.
pub(super) const TXGS: usize = 4;
/// Number of txgs for which freed space is deferred.
pub(super) const DEFERS: usize = 2;
/// Allocations below this size move forward from a cursor of their own, so that metadata does not
/// fragment the space for data. Half the size of the default indirect block; guessed.
const SMALL_BYTES: u64 = 16 << 10;
/// Best fit is used when less than 1/`TIGHT_PART` of the units is free. As OpenZFS (4 %).
const TIGHT_PART: u64 = 25;

/// In [`Slab::flags`]: freed or changed ranges wait for [`Slab::synced`]. Bits 0 to 3 mark changes
/// in the txg of that number modulo [`TXGS`].
const PENDING: u8 = 1 << 4;
/// In [`Slab::flags`]: freed ranges are not yet in the checkpoint's space map.
const CHECKPOINTED: u8 = 1 << 5;

/// The object of a space map, as last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapState {
    pub object: u64,
    /// Block size of the object.
    pub block_bytes: u64,
    /// Bytes of entries.
    pub length_bytes: u64,
    /// Allocated bytes according to the entries.
    pub allocated_bytes: i64,
    /// Free segments by size, if the object has a histogram.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

/// The free space of a metaslab, if it is in memory.
enum Free {
    /// The map was not read yet, or the metaslab was unloaded.
    Unloaded,
    /// A thread is reading the map.
    Loading,
    /// The free space in memory.
    Loaded(Box<FreeSpace>),
    /// The map cannot be read or is invalid: nothing is allocated.
    Broken,
}

pub(super) struct Inner {
    pub map: Option<MapState>,
    free: Free,
    /// Incremented when a txg is synced. A thread that was reading the map then reads it again.
    epoch: u64,
    pub allocating: [Ranges; TXGS],
    /// The ranges of `allocating` that the intent log refers to: a crash leads to them even before
    /// their txg is synced.
    allocating_log: [Ranges; TXGS],
    pub freeing: [Ranges; TXGS],
    /// Freed ranges that belong to the pool's checkpoint. They stay allocated and are added to the
    /// checkpoint's space map.
    checkpointing: [Ranges; TXGS],
    /// The same, taken by the syncing txg.
    checkpointed: Ranges,
    pub freed: Ranges,
    pub deferred: [Ranges; DEFERS],
    /// Free ranges that must not be allocated for a short time, because their devices are being
    /// trimmed or initialized.
    held: Ranges,
    /// Free ranges that were not trimmed yet (`ms_trim`).
    untrimmed: Ranges,
    /// Changes that log space maps add to the map.
    pub unflushed: Delta,
    /// Changes that the syncing txg writes to the map.
    flushing: Option<Box<Delta>>,
    /// Log entries from this txg on apply; 0: none do.
    pub unflushed_txg: u64,
    /// The last txg whose log has an entry of this metaslab.
    pub logged_txg: u64,
    /// The map has entries that the last synced txg does not know: it cannot be re-read until that
    /// txg is synced.
    is_ahead: bool,
    cursors: [u32; 2],
}

/// A metaslab, with its free space once that is loaded.
pub(super) struct Slab {
    pub id: u32,
    /// First unit on the device.
    pub start_units: u64,
    pub units: u32,
    pub ashift: u8,
    /// Upper bound for the largest free segment, in units.
    pub largest: AtomicU32,
    /// Allocatable units, also while the map is not loaded.
    pub free_units: AtomicU32,
    /// Reserved for the intent log.
    pub is_log: AtomicBool,
    /// `largest` was computed from the free ranges, not from the map's histogram.
    exact: AtomicBool,
    flags: AtomicU8,
    pub last_used_txg: AtomicU64,
    inner: Mutex<Inner>,
    loaded: Condvar,
}

/// Returns the current source of space maps.
pub(super) type Reader<'a> = &'a dyn Fn() -> Arc<dyn MapReader>;

/// Result of a free.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// Units that are free at once, and units that are deferred.
    Some(u64, u64),
    /// The range was free already; nothing was changed.
    Twice,
}

impl Inner {
    /// Notes that free units were allocated in `txg`.
    fn note_allocated(&mut self, txg: u64, start: u32, len: u32, place: impl Fn() -> String) {
        let already = self.allocating[txg as usize % TXGS].add(start, len);
        assert!(already == 0, "{}: {already} of {len} units were allocated already in txg {txg}", place());
        let others = self.deferred.iter().chain(&self.freeing).chain(&self.checkpointing);
        let others = others.chain([&self.freed, &self.held, &self.checkpointed]);
        debug_assert!(
            others.map(|other| other.overlap(start, len)).sum::<u64>() == 0,
            "{}: some of {len} units are allocated that are not free yet",
            place()
        );
    }
}

/// A thread reads the map. Dropped if that panics: the next thread that needs the map reads it.
struct Loading<'s>(&'s Slab);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().free = Free::Unloaded;
        self.0.loaded.notify_all();
    }
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
                untrimmed: Ranges::default(),
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

    /// Whether it may have a free segment of `need` units: for sure, or (`hopefully`) as far as its
    /// counters show.
    pub fn may_hold(&self, need: u32, hopefully: bool) -> bool {
        let fits = self.largest.load(Ordering::Relaxed) >= need;
        fits || (hopefully && !self.exact.load(Ordering::Relaxed) && self.free_units.load(Ordering::Relaxed) >= need)
    }

    /// Allocates `need` consecutive units and returns the first. `None`: there is no such segment,
    /// or the map is broken. Reads the map if it is not loaded.
    pub fn allocate(&self, reader: Reader<'_>, need: u32, txg: u64, is_log: bool) -> Result<Option<u32>> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(None) };
        let cursor = usize::from(u64::from(need) << self.ashift >= SMALL_BYTES);
        let tight = free.ranges().units() * TIGHT_PART < u64::from(self.units);
        let found = free.find(need, inner.cursors[cursor], tight);
        if let Some(at) = found {
            let was_free = free.remove(at, need);
            assert!(was_free == u64::from(need), "{}: {was_free} of {need} allocated units were free", self.place(at));
            inner.untrimmed.remove(at, need);
            inner.cursors[cursor] = at + need;
            self.note(free);
            inner.note_allocated(txg, at, need, || self.place(at));
            if is_log {
                inner.allocating_log[txg as usize % TXGS].add(at, need);
            }
            self.flags.fetch_or(1 << (txg as usize % TXGS), Ordering::Relaxed);
            self.last_used_txg.store(txg, Ordering::Relaxed);
        } else {
            self.largest.store(free.largest(), Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Allocates the given range. Returns false if it is not free.
    pub fn claim(&self, reader: Reader<'_>, start: u32, len: u32, txg: u64) -> Result<bool> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(false) };
        if free.ranges().overlap(start, len) < u64::from(len) {
            return Ok(false);
        }
        free.remove(start, len);
        inner.untrimmed.remove(start, len);
        self.note(free);
        inner.note_allocated(txg, start, len, || self.place(start));
        self.flags.fetch_or(1 << (txg as usize % TXGS), Ordering::Relaxed);
        Ok(true)
    }

    /// Names a unit in the message of an assertion.
    fn place(&self, unit: u32) -> String {
        format!("metaslab {} at unit {unit:#x}", self.id)
    }

    fn note(&self, free: &FreeSpace) {
        self.largest.store(free.largest(), Ordering::Relaxed);
        self.free_units.store(free.ranges().units() as u32, Ordering::Relaxed);
        self.exact.store(true, Ordering::Relaxed);
    }

    /// Frees a range. `was_named`: if the block belongs to the intent log, a pointer to it may be
    /// on disk. Blocks born in the txg of the pool's `checkpoint` or before stay allocated.
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
        // A block is new as a whole or not at all: a pointer that says otherwise is damaged, and
        // would free a part of a new block.
        let is_part = |young: &Ranges| (1..u64::from(len)).contains(&young.overlap(start, len));
        if twice > 0 || inner.allocating.iter().any(is_part) {
            return Freed::Twice;
        }
        // Read under the lock: the thread that sets it visits all metaslabs afterwards.
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
            let Free::Loaded(free) = &mut inner.free else {
                panic!("{}: it has new blocks, and is not loaded", self.place(start));
            };
            free.add(start, len);
            self.note(free);
        } else {
            // The intent log allocates for later txgs: a map must not record a free before the
            // allocation.
            let ahead = (0..TXGS).find(|s| inner.allocating[*s].overlap(start, len) == u64::from(len));
            let slot = ahead.unwrap_or(slot);
            inner.freeing[slot].add(start, len);
            self.flags.fetch_or(1 << slot, Ordering::Relaxed);
        }
        Freed::Some(at_once, u64::from(len) - at_once)
    }

    /// The pool got a checkpoint of the last synced txg: blocks of it that are being freed stay
    /// allocated. Returns the number of units that are no longer deferred.
    pub fn checkpoint(&self) -> u64 {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut units = 0;
        for slot in 0..TXGS {
            let mut kept = inner.freeing[slot].clone();
            // Ranges that are not in any synced map are younger than the checkpoint.
            inner.allocating.iter().for_each(|young| kept.remove_all(young));
            inner.freeing[slot].remove_all(&kept);
            inner.checkpointing[slot].add_all(&kept);
            units += kept.units();
        }
        units
    }

    /// Takes the ranges to write to the checkpoint's space map.
    pub fn take_checkpointed(&self) -> Ranges {
        // The syncing thread asks each metaslab in each pass, and no other thread changes this
        // flag.
        if self.flags.load(Ordering::Relaxed) & CHECKPOINTED == 0 {
            return Ranges::default();
        }
        self.flags.fetch_and(!CHECKPOINTED, Ordering::Relaxed);
        std::mem::take(&mut self.inner.lock().checkpointed)
    }

    /// Undoes [`Slab::take_checkpointed`] after a failed write.
    pub fn put_back_checkpointed(&self, ranges: &Ranges) {
        self.inner.lock().checkpointed.add_all(ranges);
        self.flags.fetch_or(CHECKPOINTED, Ordering::Relaxed);
    }

    /// Holds the first free range that ends after `from`, at most `max` units of it; with
    /// `untrimmed`, only ranges that were not trimmed. Ranges are cut to multiples of `align`,
    /// counted from their start.
    pub fn hold(
        &self,
        reader: Reader<'_>,
        from: u32,
        max: u32,
        align: u32,
        untrimmed: bool,
    ) -> Result<Option<(u32, u32)>> {
        let mut inner = self.load(reader)?;
        let inner = &mut *inner;
        let Free::Loaded(free) = &mut inner.free else { return Ok(None) };
        let mut from = from;
        loop {
            let found = if untrimmed { inner.untrimmed.next_from(from) } else { free.ranges().next_from(from) };
            let Some((start, len)) = found else { return Ok(None) };
            let start = start.next_multiple_of(align).min(start + len);
            let len = (len - (start - found.map_or(start, |f| f.0))).min(max) / align * align;
            if len == 0 || free.ranges().overlap(start, len) < u64::from(len) {
                // Smaller than the alignment, or trimmed or allocated meanwhile.
                from = start.saturating_add(len.max(1));
                continue;
            }
            free.remove(start, len);
            inner.held.add(start, len);
            self.note(free);
            return Ok(Some((start, len)));
        }
    }

    /// Makes a [held](Slab::hold) range allocatable again; `trimmed`: it was trimmed.
    pub fn release(&self, start: u32, len: u32, trimmed: bool) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let was_held = inner.held.remove(start, len);
        if trimmed {
            inner.untrimmed.remove(start, len);
        }
        if std::thread::panicking() {
            // What is wrong was reported.
            return;
        }
        assert!(was_held == u64::from(len), "{}: {was_held} of {len} released units were held", self.place(start));
        let Free::Loaded(free) = &mut inner.free else {
            panic!("{}: a range of it is held, and it is not loaded", self.place(start));
        };
        let already = free.add(start, len);
        assert!(already == 0, "{}: {already} of {len} held units were free", self.place(start));
        self.note(free);
    }

    /// Units of the ranges that are [held](Slab::hold).
    pub fn held_units(&self) -> u64 {
        self.inner.lock().held.units()
    }

    /// Loads the map if it is not loaded.
    pub fn make_known(&self, reader: Reader<'_>) -> Result<()> {
        self.load(reader).map(drop)
    }

    /// Ranges that cannot be allocated now; the whole metaslab if it is not loaded.
    pub fn not_free(&self) -> Vec<(u32, u32)> {
        match &self.inner.lock().free {
            Free::Loaded(free) => free.ranges().complement(self.units).iter().collect(),
            _ => vec![(0, self.units)],
        }
    }

    /// Drops the ranges that were noted for a later trim.
    pub fn forget_untrimmed(&self) {
        self.inner.lock().untrimmed = Ranges::default();
    }

    /// Loads the map if it is not loaded; waits while another thread does.
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
                    let loading = Loading(self);
                    let found = self.read(&*reader(), object);
                    std::mem::forget(loading);
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

    /// The free ranges in the map of the last synced txg.
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

    /// Updates the counters by the changes in logs. Returns those changes in units.
    pub fn count_unflushed(&self) -> i64 {
        let units = self.lock().unflushed.units();
        let now = i64::from(self.free_units.load(Ordering::Relaxed)) - units;
        self.free_units.store(now.clamp(0, i64::from(self.units)) as u32, Ordering::Relaxed);
        units
    }

    /// Removes ranges that are free in the map but not allocatable yet; adds ranges freed in logs.
    fn usable(&self, mut found: Ranges, inner: &Inner) -> Free {
        for delta in inner.flushing.as_deref().into_iter().chain([&inner.unflushed]) {
            delta.apply(&mut found);
        }
        for waits in inner.deferred.iter().chain([&inner.freed, &inner.held]).chain(&inner.allocating) {
            found.remove_all(waits);
        }
        // None of these is free in the map, unless the pool is damaged.
        for allocated in inner.freeing.iter().chain(&inner.checkpointing).chain([&inner.checkpointed]) {
            found.remove_all(allocated);
        }
        Free::Loaded(Box::new(FreeSpace::from(found)))
    }

    /// The allocated ranges including the changes of the syncing txg, for a metaslab that takes no
    /// new blocks.
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

    /// Whether `txg` has changes to sync.
    pub fn is_dirty(&self, txg: u64) -> bool {
        self.flags.load(Ordering::Relaxed) & ((1 << (txg as usize % TXGS)) | CHECKPOINTED) != 0
    }

    /// Takes the changes of `txg` so far: allocated and freed ranges.
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

    /// Takes the changes to write to the map in the syncing txg. Only in its first pass, before any
    /// change of the txg is taken.
    pub fn start_flush(&self, inner: &mut Inner) -> Delta {
        let is_first = inner.freed.is_empty() && inner.flushing.is_none();
        assert!(is_first, "{}: its map is flushed twice in a txg", self.place(0));
        self.flags.fetch_or(PENDING, Ordering::Relaxed);
        inner.is_ahead = true;
        let delta = std::mem::take(&mut inner.unflushed);
        inner.flushing = Some(Box::new(delta.clone()));
        delta
    }

    /// Undoes [`Slab::start_flush`] after a failed write.
    pub fn undo_flush(&self, inner: &mut Inner) {
        inner.unflushed = inner.flushing.take().map_or_else(Delta::default, |delta| *delta);
    }

    /// Undoes [`Slab::take`] after a failed write.
    pub fn put_back(&self, inner: &mut Inner, txg: u64, (allocated, freed): (Ranges, Ranges)) {
        let slot = txg as usize % TXGS;
        inner.allocating[slot].add_all(&allocated);
        inner.freeing[slot].add_all(&freed);
        self.flags.fetch_or(1 << slot, Ordering::Relaxed);
    }

    /// The free ranges to write when the whole map is rewritten: all space that is not allocated as
    /// of the syncing txg, whose frees `freeing` were just taken; or as of the previous txg, while
    /// nothing of the syncing one was taken. `None` if the metaslab is not loaded.
    pub fn free_on_disk(&self, inner: &Inner, freeing: &Ranges) -> Option<Ranges> {
        let Free::Loaded(free) = &inner.free else { return None };
        let mut all = free.ranges().clone();
        for more in inner.deferred.iter().chain([&inner.freed, &inner.held, freeing]).chain(&inner.allocating) {
            all.add_all(more);
        }
        Some(all)
    }

    /// Free segments by size: exact if loaded, else the map's histogram plus `freeing`.
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

    /// Number of ranges in memory.
    pub fn ranges(&self) -> usize {
        match &self.inner.lock().free {
            Free::Loaded(free) => free.ranges().count(),
            _ => 0,
        }
    }

    /// Called when the txg is on disk. Ranges freed two txgs ago become allocatable, unless `keep`;
    /// ranges freed in this one are deferred, unless `at_once`.
    ///
    /// With `note_freed`, ranges that become allocatable are noted for a later trim.
    pub fn synced(&self, txg: u64, at_once: bool, keep: bool, note_freed: bool, totals: &Totals) {
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
        if note_freed {
            inner.untrimmed.add_all(&ready);
            inner.untrimmed.add_all(&ready_too);
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
                // Neighbouring segments may have merged: the size of the largest is known when the
                // map is loaded.
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

    /// Unloads the metaslab if its free ranges can be read from the map. Returns whether it did.
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

#[cfg(test)]
mod tests {
    use super::super::maps::NoMaps;
    use super::*;
    use crate::space::Entry;

    const UNITS: u32 = 1000;
    static NO_CHECKPOINT: AtomicU64 = AtomicU64::new(0);

    fn no_maps() -> Arc<dyn MapReader> {
        Arc::new(NoMaps)
    }

    fn slab() -> Slab {
        Slab::new(3, 0, UNITS, 12, None)
    }

    fn allocate(slab: &Slab, len: u32, txg: u64) -> u32 {
        slab.allocate(&no_maps, len, txg, false).unwrap().unwrap()
    }

    #[test]
    fn a_range_that_is_new_in_part_is_not_freed() {
        // As a damaged pointer may request.
        let slab = slab();
        let old = allocate(&slab, 8, 4);
        let (allocated, _) = slab.take(&mut slab.lock(), 4);
        assert_eq!(allocated.units(), 8);
        let new = allocate(&slab, 8, 5);
        assert_eq!(new, old + 8);
        for (start, len) in [(old, 16), (old + 4, 8), (old + 7, 2)] {
            assert_eq!(slab.free(start, len, 5, 1, false, &NO_CHECKPOINT), Freed::Twice, "{start}+{len}");
        }
        assert_eq!(slab.free(old, 8, 5, 4, false, &NO_CHECKPOINT), Freed::Some(0, 8));
        assert_eq!(slab.free(new, 8, 5, 5, false, &NO_CHECKPOINT), Freed::Some(8, 0));
    }

    #[test]
    #[should_panic(expected = "metaslab 3 at unit 0x0: 8 of 8 units were allocated already in txg 5")]
    fn space_that_is_allocated_twice_panics() {
        let slab = slab();
        slab.lock().allocating[1].add(0, 100);
        allocate(&slab, 8, 5);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "metaslab 3 at unit 0x0: some of 8 units are allocated that are not free yet")]
    fn space_that_is_allocated_before_its_free_is_old_enough_panics() {
        let slab = slab();
        slab.lock().deferred[0].add(4, 100);
        allocate(&slab, 8, 5);
    }

    #[test]
    #[should_panic(expected = "metaslab 3 at unit 0x10: 0 of 8 released units were held")]
    fn a_range_that_is_released_and_was_not_held_panics() {
        slab().release(16, 8, false);
    }

    #[test]
    #[should_panic(expected = "metaslab 3 at unit 0x0: it has new blocks, and is not loaded")]
    fn a_metaslab_that_is_unloaded_with_new_blocks_panics() {
        let slab = slab();
        let at = allocate(&slab, 8, 5);
        slab.lock().free = Free::Unloaded;
        slab.free(at, 8, 5, 5, false, &NO_CHECKPOINT);
    }

    /// A map in which units 32 to 40 are allocated. Other threads run while it is read.
    struct Shown;

    impl MapReader for Shown {
        fn read_map(&self, _: u64, sink: &mut dyn FnMut(Entry)) -> Result<()> {
            rig::schedule::yield_now();
            sink(Entry { is_alloc: true, offset: 32, run: 8, vdev: None });
            rig::schedule::yield_now();
            Ok(())
        }
    }

    fn shown() -> Arc<dyn MapReader> {
        Arc::new(Shown)
    }

    #[test]
    fn no_unit_is_allocated_twice_while_a_map_loads_and_a_txg_ends_under_any_schedule() {
        rig::schedule::explore(400, || {
            let (object, block_bytes, length_bytes) = (7, 4096, 8);
            let map = MapState { object, block_bytes, length_bytes, allocated_bytes: 8 << 12, histogram: None };
            let slab = Arc::new(Slab::new(3, 0, 64, 12, Some(map)));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let slab = slab.clone();
                    rig::schedule::spawn(move || {
                        let allocate = |_| slab.allocate(&shown, 8, 5, false).unwrap();
                        (0..2).filter_map(allocate).collect::<Vec<u32>>()
                    })
                })
                .collect();
            // The block in the map is freed in txg 4, which is synced meanwhile.
            assert_eq!(slab.free(32, 8, 4, 1, false, &NO_CHECKPOINT), Freed::Some(0, 8));
            let (allocated, freed) = slab.take(&mut slab.lock(), 4);
            assert!(allocated.is_empty());
            slab.lock().freed.add_all(&freed);
            rig::schedule::yield_now();
            let totals = Totals::new(64 << 12);
            totals.allocated(8 << 12);
            totals.freed(0, 8 << 12);
            slab.synced(4, false, false, false, &totals);
            let mut all: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            all.sort_unstable();
            assert_eq!(all.len(), 6);
            assert!(all.windows(2).all(|two| two[0] + 8 <= two[1]), "{all:?}");
            assert!(all.iter().all(|at| at + 8 <= 32 || *at >= 40), "{all:?} with space freed in the last txg");
        });
    }

    /// A map that is empty. Reading it panics for the first time.
    struct Panicking(AtomicBool);

    impl MapReader for Panicking {
        fn read_map(&self, _: u64, _: &mut dyn FnMut(Entry)) -> Result<()> {
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(self.0.swap(true, Ordering::SeqCst), "in the middle of a map");
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_panics_while_it_loads_leaves_the_map_to_the_next() {
        // The next thread once waited for ever.
        let map = MapState { object: 7, block_bytes: 4096, length_bytes: 0, allocated_bytes: 0, histogram: None };
        let slab = Slab::new(3, 0, UNITS, 12, Some(map));
        let maps: Arc<dyn MapReader> = Arc::new(Panicking(false.into()));
        let panics = std::thread::scope(|scope| {
            let load = || scope.spawn(|| slab.allocate(&|| maps.clone(), 8, 5, false).map(|at| at.is_some()));
            [load(), load()].map(|thread| thread.join().is_err())
        });
        assert_eq!(panics.iter().filter(|panicked| **panicked).count(), 1);
        assert_eq!(slab.free_units.load(Ordering::Relaxed), UNITS - 8);
    }
}
