//! Who gets which part of the devices: the writing half of `space`.
//!
//! ```text
//!   Allocator ── class ── Group (a top-level device) ── Slab (a metaslab) ── FreeSpace, and what each txg did
//!       │ rotor                 │ metaslab in use              │ loaded on demand from the last synced txg
//!       └ falls back to normal  └ one for each copy            └ unloaded when idle
//! ```
//! Policy: top-level devices of a class take turns, the emptier one longer; in a device the emptiest metaslab is used until it
//! holds no block of the size asked for; in a metaslab allocations go forward, until space is tight and the best fit counts.
//! A block's copies go to different devices, or to metaslabs far apart.
//!
//! Below: [`crate::space::ranges`]. Above: `block::Store`, which knows the trait only, and `Writer`, which calls
//! [`Allocator::sync`] in each pass of a txg and [`Allocator::synced`] behind its uberblock.
//!
//! Invariants:
//!   * a unit is handed out once until it is freed and that free has been synced, and stayed so for two more txgs
//!   * who allocates waits for nothing but a search in memory and the reading of a space map

mod checkpoint;
mod delta;
mod evacuated;
mod group;
mod hold;
mod keep;
mod live;
mod load;
mod logs;
mod size;
mod slab;
mod stats;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use evacuated::Gone;
pub use group::Shape;
pub(crate) use group::is_writable;
pub use hold::{Held, Meant, Sweep};
pub use keep::Kept;
pub use live::LiveMaps;
pub use load::NewDevice;
pub use logs::LogStats;
pub use size::{METASLAB_SHIFT_MIN, metaslab_count, metaslab_shift};
pub use slab::MapState;
pub use stats::{ClassSpace, SpaceCheck, SpaceStats};
pub use sync::MapWriter;

use super::Entry;
use crate::{Error, Result};
use block::{Allocate, Class, Refusal, Want};
use group::{Group, LOG_SLOT, Part, Search};
use ondisk::Dva;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Bytes that a device takes before it is the next one's turn, when all have as much free. Large enough that a file's
/// neighbouring blocks stay together, small enough that all devices work at once. Guessed.
const TURN_BYTES: u64 = 1 << 20;
/// Ranges that loaded metaslabs may have together before idle ones are unloaded: 24 MiB. Guessed.
const RANGES_MAX: usize = 768 << 10;
/// Part of the special devices, in percent, that only metadata may fill beyond. As OpenZFS.
const SPECIAL_DATA_PERCENT: u64 = 75;

/// Reads a space map as of the last synced txg.
pub trait MapReader: Send + Sync {
    /// Calls `sink` with each entry of the map in `object`, in the order of writing.
    fn read_map(&self, object: u64, sink: &mut dyn FnMut(Entry)) -> Result<()>;
}

impl MapReader for object::ObjectSet {
    fn read_map(&self, object: u64, sink: &mut dyn FnMut(Entry)) -> Result<()> {
        super::for_each_entry(&self.object(object)?, sink).map(drop)
    }
}

/// Bytes of a device, kept as they change.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    size: AtomicU64,
    /// Not to be handed out: allocated, or freed and waiting.
    used: AtomicU64,
    /// Freed and waiting.
    waiting: AtomicU64,
}

impl Totals {
    fn new(size: u64) -> Self {
        Self { size: size.into(), ..Self::default() }
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn allocated(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What waited is part of a checkpoint: it stays allocated.
    fn kept(&self, bytes: u64) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn freed(&self, at_once: u64, later: u64) {
        self.used.fetch_sub(at_once, Ordering::Relaxed);
        self.waiting.fetch_add(later, Ordering::Relaxed);
    }

    fn released(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// All devices, by number and by class.
#[derive(Default)]
struct Table {
    /// By number of the top-level device.
    by_vdev: Vec<Option<Arc<Group>>>,
    by_class: [Vec<Arc<Group>>; 4],
}

impl Table {
    fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.by_vdev.iter().flatten()
    }

    fn group(&self, vdev: u32) -> Option<&Arc<Group>> {
        self.by_vdev.get(vdev as usize)?.as_ref()
    }
}

/// Whose turn it is.
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
    /// Weak: these objects are read through a store, which has this allocator.
    reader: RwLock<Weak<dyn MapReader>>,
    options: Options,
    rounds: Mutex<sync::Round>,
    last_txg: AtomicU64,
    /// The next txg brings all that is in logs only into the metaslabs' own maps.
    flush_all: AtomicBool,
    anomalies: Mutex<Vec<String>>,
    /// Who wants what is freed to stay as it is.
    keeps: keep::Keeps,
    /// A writer waits for what was freed.
    needs_room: AtomicBool,
    /// Devices, and bytes of them, that the syncing txg says have become larger.
    growing: Mutex<Vec<(u32, u64)>>,
    /// Devices that are being removed or were, and what is freed on them.
    evacuated: evacuated::Evacuated,
    /// What was born in this txg or before is part of the pool's checkpoint; 0: it has none.
    checkpoint_txg: AtomicU64,
    /// What is freed is noted for whoever tells the devices.
    tells: AtomicBool,
}

/// What of the pool's features matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `spacemap_v2`: long ranges take one entry.
    pub two_words: bool,
    /// `spacemap_histogram`: new maps have one.
    pub histograms: bool,
    /// `log_spacemap`: one log for the changes of all metaslabs in a txg.
    pub logs: bool,
}

impl Allocator {
    /// An allocator without devices, for a pool that is being made.
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
            rounds: Mutex::default(),
            last_txg: AtomicU64::new(0),
            flush_all: AtomicBool::new(false),
            anomalies: Mutex::default(),
            keeps: keep::Keeps::default(),
            needs_room: AtomicBool::new(false),
            growing: Mutex::default(),
            evacuated: Default::default(),
            checkpoint_txg: AtomicU64::new(0),
            tells: AtomicBool::new(false),
        }
    }

    fn maps(&self) -> Arc<dyn MapReader> {
        self.reader.read().upgrade().unwrap_or_else(|| Arc::new(NoMaps))
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }

    /// Bytes that a block takes on a device; `None`: there is no such device.
    pub fn asize_bytes(&self, vdev: u32, psize_bytes: u64, txg: u64) -> Option<u64> {
        Some(self.table().group(vdev)?.asize_bytes(psize_bytes, txg))
    }

    /// Tells the store in which units blocks are allocated: the smallest and the greatest common divisor of what normal devices
    /// take. Others do not count, as in OpenZFS: what is compressed for them may as well go to a normal one.
    pub fn tell_units(&self, store: &block::Store) {
        let table = self.table();
        let units = table.by_class[Class::Normal as usize].iter().map(|g| g.shape.minimum_psize_bytes(g.ashift));
        let both = units.map(|n| (n, n)).reduce(|(least, common), (n, _)| (least.min(n), gcd(common, n)));
        if let Some((least, common)) = both {
            store.set_units(least as usize, common as usize);
        }
    }

    /// log2 of the units of allocation of normal devices, each once.
    pub fn normal_ashifts(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self.table().by_class[Class::Normal as usize].iter().map(|g| g.ashift).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What a device is for; `None`: it holds no blocks.
    pub fn class_of(&self, vdev: u32) -> Option<Class> {
        Some(self.table().group(vdev)?.class)
    }

    /// Whether a normal device beside `vdev` takes blocks.
    pub fn has_other_open(&self, vdev: u32) -> bool {
        self.table().by_class[Class::Normal as usize].iter().any(|g| g.vdev != vdev && g.is_open())
    }

    /// A device is to take new blocks, or is not any more, because somebody said so.
    pub fn set_allocating(&self, vdev: u32, yes: bool) {
        if let Some(g) = self.table().group(vdev) {
            g.is_allocating.store(yes, Ordering::Relaxed);
        }
    }

    /// New blocks go to a device, or do not any more, for it is faulted.
    pub fn set_writable(&self, vdev: u32, yes: bool) {
        if let Some(g) = self.table().group(vdev) {
            g.is_writable.store(yes, Ordering::Relaxed);
        }
    }

    /// Whether nothing is on a device, nor waits to be handed out again.
    pub fn is_empty(&self, vdev: u32) -> bool {
        self.table().group(vdev).is_none_or(|g| g.totals.used.load(Ordering::Relaxed) == 0)
    }

    /// Forgets a device on which nothing is.
    pub(crate) fn remove_device(&self, vdev: u32) {
        let mut shared = self.table.write();
        let mut table = Table { by_vdev: shared.by_vdev.clone(), by_class: shared.by_class.clone() };
        if let Some(slot) = table.by_vdev.get_mut(vdev as usize) {
            *slot = None;
        }
        table.by_class.iter_mut().for_each(|groups| groups.retain(|g| g.vdev != vdev));
        *shared = Arc::new(table);
    }

    /// What cannot be and was met nevertheless: space freed twice, addresses beyond a device. Emptied by the call.
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

    /// Classes to try, in order, and which part of their devices.
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
                // Copies of all blocks on neighbours: then only two devices lost together lose data.
                Some((d, _)) => groups.iter().position(|g| g.vdev == d.vdev).map_or(0, |i| i + 1),
                None => self.turn(groups, class),
            };
            let slot = if part == Part::Log { LOG_SLOT } else { copy };
            match self.allocate_copy(groups, first, want, slot, part, &taken) {
                Ok(Some(found)) => taken.push(found),
                failed => {
                    for (dva, _) in &taken {
                        self.give_back(table, want.txg, want.txg, dva, false);
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

    /// One address: on a device without a copy, else in a metaslab without one, else anywhere.
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
                    let is_gang = want.gang == block::Gang::Header;
                    return Ok(Some((Dva { vdev: group.vdev, offset_bytes, asize_bytes, is_gang }, slab)));
                }
            }
        }
        Ok(None)
    }

    fn give_back(&self, table: &Table, txg: u64, birth: u64, dva: &Dva, was_named: bool) {
        if self.evacuated.put_down(txg, birth, dva) {
            return;
        }
        self.give_back_here(table, txg, birth, dva, was_named);
    }

    fn give_back_here(&self, table: &Table, txg: u64, birth: u64, dva: &Dva, was_named: bool) {
        if !table.group(dva.vdev).is_some_and(|group| group.free(dva, txg, birth, was_named, &self.checkpoint_txg)) {
            // What is not freed is lost until the pool is repaired; what is freed twice would be handed out twice.
            let at = format!("{}:{:#x}+{:#x}", dva.vdev, dva.offset_bytes, dva.asize_bytes);
            self.anomaly(format!("{at} (born in txg {birth}) was to be freed in txg {txg} and is not allocated"));
        }
    }

    /// The device whose turn it is.
    fn turn(&self, groups: &[Arc<Group>], class: Class) -> usize {
        let mut rotor = self.rotors[class as usize].lock();
        if rotor.left_bytes == 0 || rotor.at >= groups.len() {
            rotor.at = (rotor.at + 1) % groups.len();
            // By free space beside that of the others: devices fill up to the same degree in the end.
            let all: u64 = groups.iter().map(|g| g.free_and_size().0).sum();
            let mean = all / groups.len() as u64 + 1;
            let turn = u128::from(TURN_BYTES) * u128::from(groups[rotor.at].free_and_size().0) / u128::from(mean);
            rotor.left_bytes = (turn as u64).clamp(TURN_BYTES / 8, TURN_BYTES * 8);
        }
        rotor.at
    }

    /// Forgets what is free in all metaslabs that nothing happened in since the last txg: for when memory is short.
    pub fn unload_idle(&self) {
        self.trim(0);
    }

    /// Unloads idle metaslabs, those first that were used longest ago, until few enough ranges are in memory.
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

impl Table {
    /// Whether the normal devices are full, but for half of what is kept back.
    fn is_in_reserve(&self) -> bool {
        let totals = stats::sums(self);
        totals.class(Class::Normal).free_bytes() <= totals.slop_bytes / 2
    }

    fn has_room_for_data_on_special(&self) -> bool {
        let (free, size) = self.by_class[Class::Special as usize]
            .iter()
            .map(|g| g.free_and_size())
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        size - free < size / 100 * SPECIAL_DATA_PERCENT
    }
}

impl Allocate for Allocator {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let table = self.table();
        for (class, part) in Self::chain(&table, want) {
            // What no txg promised must leave enough for the txgs to be synced, and a way out of a full pool.
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

/// Before a pool has space maps, and when it is closed.
struct NoMaps;

impl MapReader for NoMaps {
    fn read_map(&self, object: u64, _: &mut dyn FnMut(Entry)) -> Result<()> {
        Err(Error::not_found("a pool that is being made or closed", format!("space map {object}")))
    }
}
