//! The allocator: the writing half of `space`. It decides where blocks go.
//!
//! ```text
//!   Allocator ── class ── Group (a top-level device) ── Slab (a metaslab) ── FreeSpace, and the changes of each txg
//!       │ rotor                 │ active metaslab              │ loaded on demand from the last synced txg
//!       └ falls back to normal  └ one for each copy            └ unloaded when idle
//! ```
//! Policy: the top-level devices of a class take turns, the emptier ones longer. In a device the
//! emptiest metaslab is used until it has no free segment of the requested size. In a metaslab
//! allocations move forward, until space is tight; then the best fit is used. The copies of a block
//! go to different devices, or to metaslabs far apart.
//!
//! Below: [`crate::space::ranges`]. Above: `block::WriteStore`, which knows only the trait, and
//! `Writer`, which calls [`Allocator::sync_maps`] in each pass of a txg and [`Allocator::synced`]
//! after its uberblock is written.
//!
//! Invariants:
//!   * an allocated unit is not reallocated before its free was synced and two more txgs were
//!     synced
//!   * an allocating thread waits only for a search in memory and for reading a space map

mod availability;
mod checkpoint;
mod delta;
mod group;
mod hold;
mod keep;
mod live;
mod load;
mod logs;
mod maps;
mod removal;
mod removal_frees;
mod round;
mod size;
mod slab;
mod stats;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod totals;

pub use group::Shape;
pub(crate) use group::is_writable;
pub use hold::{Held, RangeKind, Sweep};
pub use keep::Kept;
pub use live::LiveMaps;
pub use load::NewDevice;
pub use logs::LogStats;
pub use maps::{MapReader, MapWriter};
pub(crate) use removal_frees::RemovalFree;
pub use size::{METASLAB_SHIFT_MIN, metaslab_count, metaslab_shift};
pub use slab::MapState;
pub use stats::{ClassSpace, SpaceCheck, SpaceStats};

use block::{Allocate, Class, Gang, Want};
use errors::{Error, Refusal, Result};
use group::{Group, LOG_SLOT, Part, Search};
use host::sync::{Mutex, RwLock};
use maps::NoMaps;
use ondisk::Dva;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use table::Table;

/// Bytes allocated on a device before the next one's turn, if all have the same free space. Large
/// enough that neighbouring blocks of a file stay together, small enough that all devices work at
/// once. Guessed.
const TURN_BYTES: u64 = 1 << 20;
/// Limit for the ranges in all loaded metaslabs before idle ones are unloaded: 24 MiB. Guessed.
const RANGES_MAX: usize = 768 << 10;

/// The device whose turn it is, and the bytes left of its turn.
#[derive(Default)]
struct Rotor {
    at: usize,
    left_bytes: u64,
}

/// The pool's free space. See the head of this file.
pub struct Allocator {
    name: String,
    table: RwLock<Arc<Table>>,
    rotors: [Mutex<Rotor>; 4],
    /// Weak: the pool's writer owns the MOS, and the allocator may be held for longer.
    reader: RwLock<Weak<dyn MapReader>>,
    options: Options,
    rounds: round::Rounds,
    anomalies: Mutex<Vec<String>>,
    /// Readers that need freed space to be kept.
    keeps: keep::Keeps,
    /// Devices that are being or were removed, and the frees on them.
    evacuated: removal_frees::RemovalFrees,
    /// Blocks born in this txg or before belong to the pool's checkpoint; 0: there is none.
    checkpoint_txg: AtomicU64,
    /// Freed space is noted for a later trim.
    tracks_untrimmed: AtomicBool,
    /// Data that is larger than this gets no place in one piece.
    ganging_above_bytes: AtomicU64,
}

/// The pool features that matter to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `spacemap_v2`: a long range takes one entry of two words.
    pub two_words: bool,
    /// `spacemap_histogram`: new maps have a histogram.
    pub histograms: bool,
    /// `log_spacemap`: one log for the changes of all metaslabs in a txg.
    pub logs: bool,
}

impl Allocator {
    /// An allocator without devices, for a pool that is being created.
    pub fn new(name: &str, options: Options) -> Arc<Self> {
        Arc::new(Self::empty(name, options, Weak::<NoMaps>::new()))
    }

    fn empty(name: &str, options: Options, reader: Weak<dyn MapReader>) -> Self {
        Self {
            name: name.to_owned(),
            table: RwLock::default(),
            rotors: Default::default(),
            reader: RwLock::new(reader),
            options,
            rounds: round::Rounds::default(),
            anomalies: Mutex::default(),
            keeps: keep::Keeps::default(),
            evacuated: Default::default(),
            checkpoint_txg: AtomicU64::new(0),
            tracks_untrimmed: AtomicBool::new(false),
            ganging_above_bytes: AtomicU64::new(u64::MAX),
        }
    }

    fn maps(&self) -> Arc<dyn MapReader> {
        self.reader.read().upgrade().unwrap_or_else(|| Arc::new(NoMaps))
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }

    /// Allocated size of a block on a device, in bytes; `None` if there is no such device.
    pub fn asize_bytes(&self, vdev: u32, psize_bytes: u64, txg: u64) -> Option<u64> {
        Some(self.table().group(vdev)?.asize_bytes(psize_bytes, txg))
    }

    /// Passes the allocation units of the normal devices to the store: the smallest, and the
    /// greatest common divisor. Other devices do not count, as in OpenZFS: a block compressed for
    /// them may fall back to a normal one.
    pub fn publish_units(&self, store: &block::WriteStore) {
        let table = self.table();
        let units = table.by_class[Class::Normal as usize].iter().map(|g| g.shape.minimum_psize_bytes(g.ashift));
        let both = units.map(|n| (n, n)).reduce(|(least, common), (n, _)| (least.min(n), gcd(common, n)));
        if let Some((least, common)) = both {
            store.set_units(least as usize, common as usize);
        }
    }

    /// The distinct ashifts of the normal devices, in order.
    pub fn normal_ashifts(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self.table().by_class[Class::Normal as usize].iter().map(|g| g.ashift).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Allocation class of a device; `None` if it holds no blocks.
    pub fn class_of(&self, vdev: u32) -> Option<Class> {
        Some(self.table().group(vdev)?.class)
    }

    /// Whether a normal device other than `vdev` takes new blocks.
    pub fn has_other_open(&self, vdev: u32) -> bool {
        self.table().by_class[Class::Normal as usize].iter().any(|g| g.vdev != vdev && g.is_open())
    }

    /// Configures whether a device takes new blocks.
    pub fn set_allocating(&self, vdev: u32, yes: bool) {
        if let Some(g) = self.table().group(vdev) {
            g.availability.set_allocating(yes);
        }
    }

    /// Sets whether a device can be written to. New blocks avoid one that cannot.
    pub fn set_writable(&self, vdev: u32, yes: bool) {
        if let Some(g) = self.table().group(vdev) {
            g.availability.set_writable(yes);
        }
    }

    /// Whether no block is on a device, including deferred frees.
    pub fn is_empty(&self, vdev: u32) -> bool {
        self.table().group(vdev).is_none_or(|g| g.totals.used.load(Ordering::Relaxed) == 0)
    }

    /// Removes an empty device.
    pub(crate) fn remove_device(&self, vdev: u32) {
        let mut shared = self.table.write();
        let mut table = Table { by_vdev: shared.by_vdev.clone(), by_class: shared.by_class.clone() };
        if let Some(slot) = table.by_vdev.get_mut(vdev as usize) {
            *slot = None;
        }
        table.by_class.iter_mut().for_each(|groups| groups.retain(|g| g.vdev != vdev));
        *shared = Arc::new(table);
    }

    /// Takes the list of impossible events, such as space freed twice and addresses beyond a
    /// device.
    pub fn take_anomalies(&self) -> Vec<String> {
        std::mem::take(&mut self.anomalies.lock())
    }

    fn anomaly(&self, what: String) {
        tracing::error!("{}: {what}", self.name);
        let mut all = self.anomalies.lock();
        if all.len() < 1000 {
            all.push(what);
        }
    }

    fn no_space(&self) -> Error {
        Refusal::NoSpace.at(self.name.clone())
    }

    /// Classes to try, in order, each with the part of its devices.
    fn chain(table: &Table, want: &Want) -> SmallVec<[(Class, Part); 5]> {
        let mut chain = SmallVec::new();
        let exists = |c: Class| !table.by_class[c as usize].is_empty();
        match want.class {
            Class::Normal => {}
            Class::Log => chain.extend([(Class::Log, Part::Main), (Class::Normal, Part::Log)]),
            Class::Special => {
                if want.is_metadata || table.has_room_for_data_on_special() {
                    chain.push((Class::Special, Part::Main));
                }
            }
            Class::Dedup if exists(Class::Dedup) => chain.push((Class::Dedup, Part::Main)),
            Class::Dedup => chain.push((Class::Special, Part::Main)),
        }
        chain.push((Class::Normal, Part::Main));
        chain.retain(|(c, _)| exists(*c));
        chain
    }

    fn allocate_in(&self, table: &Table, want: &Want, class: Class, part: Part) -> Result<Option<SmallVec<[Dva; 3]>>> {
        let groups = &table.by_class[class as usize];
        let mut taken: SmallVec<[(Dva, u32); 3]> = SmallVec::new();
        for copy in 0..usize::from(want.copies.clamp(1, 3)) {
            let first = match taken.last() {
                // The copies of all blocks go to neighbouring devices: then only the loss of two
                // neighbours loses data.
                Some((d, _)) => groups.iter().position(|g| g.vdev == d.vdev).map_or(0, |i| i + 1),
                None => self.turn(groups, class),
            };
            let slot = if part == Part::Log { LOG_SLOT } else { copy };
            match self.allocate_copy(groups, first, want, slot, part, &taken) {
                Ok(Some(found)) => taken.push(found),
                failed => {
                    for (dva, _) in &taken {
                        let is_freed = self.give_back(table, want.txg, want.txg, dva, false);
                        assert!(is_freed, "{dva:?} was just allocated in txg {}, and is not allocated", want.txg);
                    }
                    return failed.map(|_| None);
                }
            }
        }
        let bytes = taken.first().map_or(0, |(d, _)| d.asize_bytes);
        let mut rotor = self.rotors[class as usize].lock();
        rotor.left_bytes = rotor.left_bytes.saturating_sub(bytes);
        Ok(Some(taken.into_iter().map(|(d, _)| d).collect()))
    }

    /// Allocates one copy: on a device without a copy of the block, else in a metaslab without one,
    /// else anywhere.
    fn allocate_copy(
        &self,
        groups: &[Arc<Group>],
        first: usize,
        want: &Want,
        slot: usize,
        part: Part,
        taken: &[(Dva, u32)],
    ) -> Result<Option<(Dva, u32)>> {
        let reader = || self.maps();
        let rounds = if taken.is_empty() { 0..1 } else { 0..3 };
        for round in rounds {
            for i in 0..groups.len() {
                let group = &groups[(first + i) % groups.len()];
                let mut used: SmallVec<[u32; 3]> =
                    taken.iter().filter(|(d, _)| d.vdev == group.vdev).map(|(_, slab)| *slab).collect();
                let has_copy = !used.is_empty();
                if !group.is_open() || (round == 0) == has_copy {
                    continue;
                }
                if round == 2 {
                    used.clear();
                }
                let search = Search {
                    reader: &reader,
                    psize_bytes: want.psize_bytes,
                    txg: want.txg,
                    slot,
                    is_log: want.class == Class::Log,
                    part,
                    avoid: &used,
                };
                if let Some((offset_bytes, asize_bytes, slab)) = group.allocate(&search)? {
                    let is_gang = want.gang == Gang::Header;
                    return Ok(Some((Dva { vdev: group.vdev, offset_bytes, asize_bytes, is_gang }, slab)));
                }
            }
        }
        Ok(None)
    }

    /// Frees a DVA. Returns false if it is not allocated, which is an anomaly and not a broken
    /// invariant: two pointers of a damaged pool may lead there.
    fn give_back(&self, table: &Table, txg: u64, birth: u64, dva: &Dva, was_named: bool) -> bool {
        self.evacuated.defer(txg, birth, dva) || self.give_back_here(table, txg, birth, dva, was_named)
    }

    fn give_back_here(&self, table: &Table, txg: u64, birth: u64, dva: &Dva, was_named: bool) -> bool {
        let group = table.group(dva.vdev);
        let is_freed = group.is_some_and(|group| group.free(dva, txg, birth, was_named, &self.checkpoint_txg));
        if !is_freed {
            // Space that is not freed is lost until the pool is repaired; space that is freed twice
            // would be allocated twice.
            let at = format!("{}:{:#x}+{:#x}", dva.vdev, dva.offset_bytes, dva.asize_bytes);
            self.anomaly(format!("{at} (born in txg {birth}) was to be freed in txg {txg} and is not allocated"));
        }
        is_freed
    }

    /// Index of the device whose turn it is.
    fn turn(&self, groups: &[Arc<Group>], class: Class) -> usize {
        let mut rotor = self.rotors[class as usize].lock();
        if rotor.left_bytes == 0 || rotor.at >= groups.len() {
            rotor.at = (rotor.at + 1) % groups.len();
            // In proportion to its free space relative to the others': in the end all devices are
            // equally full.
            let all: u64 = groups.iter().map(|g| g.free_and_size().0).sum();
            let mean = all / groups.len() as u64 + 1;
            let turn = u128::from(TURN_BYTES) * u128::from(groups[rotor.at].free_and_size().0) / u128::from(mean);
            rotor.left_bytes = (turn as u64).clamp(TURN_BYTES / 8, TURN_BYTES * 8);
        }
        rotor.at
    }

    /// From now on freed space is kept. Views of the pool that are taken after this call stay
    /// intact.
    pub fn keep_freed(&self) -> Kept {
        self.keeps.keep()
    }

    /// From now on no freed space is reallocated any more, for as long as the pool is open.
    pub fn freeze(&self) {
        self.keeps.freeze();
    }

    /// From now on data of more than `above_bytes` is written as gang blocks, as if no larger piece
    /// of space were free: for tests. ZFS name: metaslab_force_ganging.
    pub fn force_ganging(&self, above_bytes: u64) {
        self.ganging_above_bytes.store(above_bytes, Ordering::Relaxed);
    }

    fn must_gang(&self, want: &Want) -> bool {
        want.psize_bytes > self.ganging_above_bytes.load(Ordering::Relaxed)
            && want.gang != Gang::Header
            && !want.is_metadata
    }

    /// A writer has no space left until freed space becomes free: from the end of this txg on,
    /// nothing is kept for readers.
    pub fn needs_room(&self) {
        self.keeps.await_room();
    }

    /// Space by class, including txgs in flight.
    pub fn stats(&self) -> SpaceStats {
        let table = self.table();
        let mut stats = stats::sums(&table);
        for (class, groups) in stats.classes.iter_mut().zip(&table.by_class) {
            let (mut weighted, mut all, mut known) = (0u128, 0u128, !groups.is_empty());
            for group in groups {
                match group.fragmentation_percent(self.options.histograms) {
                    Some(p) => weighted += u128::from(p) * u128::from(group.totals.size()),
                    None => known = false,
                }
                all += u128::from(group.totals.size());
            }
            class.fragmentation_percent = known.then(|| weighted.checked_div(all)).flatten().map(|p| p as u64);
        }
        stats
    }

    /// The same without fragmentation, cheap enough to be computed at each change.
    pub fn totals(&self) -> SpaceStats {
        stats::sums(&self.table())
    }

    /// Space that is reserved so that a full pool can be freed.
    pub fn slop_bytes(&self) -> u64 {
        self.totals().slop_bytes
    }

    /// Unloads all metaslabs without changes since the last txg, to save memory.
    pub fn unload_idle(&self) {
        self.trim(0);
    }

    /// Unloads idle metaslabs, the least recently used ones first, until the number of ranges in
    /// memory is below the limit.
    fn trim(&self, ranges_max: usize) {
        let table = self.table();
        let mut loaded: Vec<_> = table
            .groups()
            .flat_map(|g| g.slabs.iter())
            .map(|s| (s.last_used_txg.load(Ordering::Relaxed), s.ranges(), s))
            .filter(|(_, ranges, _)| *ranges > 0)
            .collect();
        let mut all: usize = loaded.iter().map(|(_, ranges, _)| ranges).sum();
        if all <= ranges_max {
            return;
        }
        loaded.sort_by_key(|(txg, ranges, _)| (*txg, std::cmp::Reverse(*ranges)));
        for (_, ranges, slab) in loaded {
            if all > ranges_max && slab.unload() {
                all -= ranges;
            }
        }
    }
}

impl Allocate for Allocator {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        if self.must_gang(want) {
            return Err(self.no_space());
        }
        let table = self.table();
        for (class, part) in Self::chain(&table, want) {
            // Blocks outside of any txg's budget must leave enough space to sync the txgs, and to
            // free space in a full pool.
            if !want.may_use_slop && (class, part) == (Class::Normal, Part::Main) && table.is_in_reserve() {
                continue;
            }
            if let Some(found) = self.allocate_in(&table, want, class, part)? {
                return Ok(found);
            }
        }
        Err(self.no_space())
    }

    fn free(&self, txg: u64, birth: u64, dva: &Dva) {
        self.give_back(&self.table(), txg, birth, dva, true);
    }

    fn claim(&self, txg: u64, dva: &Dva) -> Result<()> {
        let at = || format!("{}: {}:{:#x}+{:#x}", self.name, dva.vdev, dva.offset_bytes, dva.asize_bytes);
        let reader = || self.maps();
        let table = self.table();
        let group = table
            .group(dva.vdev)
            .ok_or_else(|| Error::corrupt(at(), "claimed by the intent log, on no device of the pool"))?;
        match group.claim(&reader, dva.offset_bytes, dva.asize_bytes, txg)? {
            true => Ok(()),
            false => Err(Error::corrupt(at(), "claimed by the intent log and not free")),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
