//! Writing what happened in a txg to the space maps, pass by pass, and going on when it is on disk.
//!
//! Each metaslab's own map is appended, as OpenZFS does on pools without `log_spacemap`; on pools with it, the logs that
//! another writer left are brought into the maps and destroyed in the first txg. A map much longer than needed is written
//! anew. Facts: `metaslab_sync`, `metaslab_should_condense` (module/zfs/metaslab.c).
//!
//! Invariants:
//!   * what a map says after txg T is exactly what is allocated in T, frees of T left out

use super::group::Group;
use super::slab::{MapState, Slab};
use super::{Allocator, MapReader};
use crate::Result;
use crate::space::entries::{self, Spot};
use crate::space::ranges::Ranges;
use block::Class;
use ondisk::spacemap::{Action, HISTOGRAM_BUCKETS, Header};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a block of a new space map. Small, for the last one is written anew in each txg that touches the metaslab: what
/// OpenZFS takes on pools without log space maps.
const BLOCK_BYTES: u32 = 16 << 10;
/// A map shorter than this many blocks is never written anew, one this many times longer than needed is. As OpenZFS.
const CONDENSE_BLOCKS: u64 = 4;
const CONDENSE_FACTOR: u64 = 2;

/// The pool's own objects as space maps need them, in the txg that syncs.
pub trait MapWriter {
    /// A new, empty space map; one with a histogram counts for the feature.
    fn create_map(&self, block_bytes: u32, with_histogram: bool) -> Result<u64>;
    /// Appends bytes at `offset`, or writes them over what is there.
    fn write_map(&self, object: u64, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Empties a map.
    fn truncate_map(&self, object: u64) -> Result<()>;
    /// The object's bonus.
    fn set_header(&self, object: u64, header: &Header) -> Result<()>;
    /// A new list of `count` space maps, all missing.
    fn create_array(&self, count: u64) -> Result<u64>;
    /// Puts a space map in the list.
    fn write_array(&self, array: u64, index: u64, object: u64) -> Result<()>;
    /// Destroys all log space maps; nothing is unflushed any more. Top-level devices by their ZAP and number of metaslabs,
    /// whose unflushed txgs become 0: OpenZFS refuses a pool in which another number names a log that is not there.
    fn destroy_logs(&self, devices: &[(u64, u64)]) -> Result<()>;
}

/// The txg that syncs, and which pass of it.
#[derive(Debug, Default)]
pub(super) struct Round {
    txg: u64,
    pass: u16,
}

/// What is to be written to one map. Pairs: allocated, freed.
struct Batch<'a> {
    unflushed: Option<&'a (Ranges, Ranges)>,
    changes: &'a (Ranges, Ranges),
    /// The map is written anew: all else is allocated.
    free: Option<Ranges>,
    histogram: [u64; HISTOGRAM_BUCKETS],
}

impl Batch<'_> {
    /// The entries, and how many units they allocate on the whole.
    fn entries(&self, units: u32, spot: Spot) -> (Vec<u8>, i64) {
        if let Some(free) = &self.free {
            let all = free.complement(units);
            return (entries::encode(&all, Action::Alloc, &spot), all.units() as i64);
        }
        let (mut bytes, mut sum) = (Vec::new(), 0);
        for (allocated, freed) in self.unflushed.into_iter().chain([self.changes]) {
            for (ranges, action) in [(allocated, Action::Alloc), (freed, Action::Free)] {
                let length_bytes = spot.length_bytes + bytes.len() as u64;
                bytes.extend(entries::encode(ranges, action, &Spot { length_bytes, ..spot }));
            }
            sum += allocated.units() as i64 - freed.units() as i64;
        }
        (bytes, sum)
    }
}

impl Allocator {
    /// Writes what was allocated and freed in `txg` since the last pass; says whether there was anything. Each pass makes the
    /// pool's own objects dirty, whose blocks are allocated too: call it until nothing is written.
    pub fn sync_maps(&self, txg: u64, maps: &dyn MapWriter) -> Result<bool> {
        let mut round = self.rounds.lock();
        if round.txg != txg {
            *round = Round { txg, pass: 0 };
        }
        round.pass += 1;
        let table = self.table();
        let flushes = self.has_logs.load(Ordering::Relaxed);
        let mut wrote = false;
        for group in table.groups() {
            for slab in &group.slabs {
                if slab.is_dirty(txg) || flushes {
                    wrote |= self.sync_slab(group, slab, &round, maps)?;
                }
            }
        }
        if flushes {
            let devices: Vec<_> = table.groups().map(|g| (g.top_zap, g.slabs.len() as u64)).collect();
            maps.destroy_logs(&devices)?;
            self.has_logs.store(false, Ordering::Relaxed);
            wrote = true;
        }
        Ok(wrote)
    }

    /// Whether `txg` has anything that is not in the space maps yet.
    pub fn is_dirty(&self, txg: u64) -> bool {
        let is_any = || self.table().groups().any(|g| g.slabs.iter().any(|s| s.is_dirty(txg)));
        self.has_logs.load(Ordering::Relaxed) || is_any()
    }

    fn sync_slab(&self, group: &Group, slab: &Slab, round: &Round, maps: &dyn MapWriter) -> Result<bool> {
        let txg = round.txg;
        let mut inner = slab.lock();
        let taken = slab.take(&mut inner, txg);
        let unflushed = if inner.is_flushed { None } else { inner.unflushed.as_deref().cloned() };
        if taken.0.is_empty() && taken.1.is_empty() && unflushed.is_none() {
            return Ok(false);
        }
        let before = inner.map.clone();
        let free = if round.pass == 1 { slab.free_on_disk(&inner, &taken.1) } else { None };
        let anew = free.filter(|free| before.as_ref().is_some_and(|map| self.is_too_long(map, free, slab.ashift)));
        let histogram = slab.histogram(&inner, &taken.1);
        // Before the map says so: who reads it meanwhile must know that these wait.
        inner.freed.add_all(&taken.1);
        drop(inner);

        let batch = Batch { unflushed: unflushed.as_ref(), changes: &taken, free: anew, histogram };
        let written = self.write(group, slab, round, maps, before, &batch);
        let mut inner = slab.lock();
        match written {
            Ok(map) => {
                inner.map = Some(map);
                inner.is_flushed |= unflushed.is_some();
                Ok(true)
            }
            Err(e) => {
                inner.freed.remove_all(&taken.1);
                slab.put_back(&mut inner, txg, taken);
                Err(e.at(&format!("{}: {}: metaslab {}", self.name, group.name, slab.id)))
            }
        }
    }

    /// Writes a batch to a map, which is made when there is none.
    fn write(
        &self,
        group: &Group,
        slab: &Slab,
        round: &Round,
        maps: &dyn MapWriter,
        before: Option<MapState>,
        batch: &Batch<'_>,
    ) -> Result<MapState> {
        let mut map = match before {
            Some(map) => map,
            None => {
                let object = maps.create_map(BLOCK_BYTES, self.options.histograms)?;
                maps.write_array(group.array.load(Ordering::Relaxed), u64::from(slab.id), object)?;
                MapState {
                    object,
                    block_bytes: u64::from(BLOCK_BYTES),
                    length_bytes: 0,
                    allocated_bytes: 0,
                    histogram: self.options.histograms.then_some(batch.histogram),
                }
            }
        };
        if batch.free.is_some() {
            tracing::debug!("{}: metaslab {}: {} bytes are written anew", group.name, slab.id, map.length_bytes);
            maps.truncate_map(map.object)?;
            (map.length_bytes, map.allocated_bytes) = (0, 0);
        }
        let (bytes, units) = batch.entries(
            slab.units,
            Spot {
                txg: round.txg,
                pass: round.pass,
                length_bytes: map.length_bytes,
                block_bytes: map.block_bytes,
                two_words: self.options.two_words,
            },
        );
        if !bytes.is_empty() {
            maps.write_map(map.object, map.length_bytes, &bytes)?;
        }
        map.length_bytes += bytes.len() as u64;
        map.allocated_bytes += units << slab.ashift;
        map.histogram = map.histogram.map(|_| batch.histogram);
        maps.set_header(map.object, &map.header())?;
        Ok(map)
    }

    fn is_too_long(&self, map: &MapState, free: &Ranges, ashift: u8) -> bool {
        let record = map.block_bytes.max(1 << ashift);
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        // Ranges between the free ones are as many, and the map may name either.
        free.add_to_histogram(&mut histogram);
        map.length_bytes > CONDENSE_BLOCKS * record
            && map.length_bytes >= CONDENSE_FACTOR * entries::estimate(&histogram, self.options.two_words)
    }

    /// The object that lists the space maps of a device, made when there is none: to be written to the configuration.
    pub fn metaslab_array(&self, vdev: u32, maps: &dyn MapWriter) -> Result<u64> {
        let table = self.table();
        let group =
            table.group(vdev).ok_or_else(|| crate::Error::not_found(self.name.clone(), format!("device {vdev}")))?;
        let known = group.array.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let made = maps.create_array(group.slabs.len() as u64)?;
        group.array.store(made, Ordering::Relaxed);
        Ok(made)
    }

    /// The uberblock of `txg` is on disk, and `maps` reads the pool's own objects as it shows them, or as later txgs do. They
    /// are not kept: who writes the pool has them.
    ///
    /// What was freed two txgs ago may be handed out now. When the pool is full to its reserve, what was freed in this one may
    /// too, as in OpenZFS: going back to an older uberblock is then worth less than being able to write at all.
    pub fn synced(&self, txg: u64, maps: Arc<dyn MapReader>) {
        *self.reader.write() = Arc::downgrade(&maps);
        let totals = self.totals();
        let normal = totals.class(Class::Normal);
        let is_full = normal.free_bytes() + normal.deferred_bytes <= totals.slop_bytes;
        for group in self.table().groups() {
            for slab in &group.slabs {
                slab.synced(txg, is_full, &group.totals);
            }
            group.is_new.store(false, Ordering::Relaxed);
        }
        self.last_txg.store(txg, Ordering::Relaxed);
        self.trim(super::RANGES_MAX);
    }
}

impl MapState {
    /// What the object's bonus says.
    pub fn header(&self) -> Header {
        Header {
            object: self.object,
            length_bytes: self.length_bytes,
            allocated_bytes: self.allocated_bytes,
            histogram: self.histogram,
        }
    }
}
