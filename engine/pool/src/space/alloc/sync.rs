//! Writes the changes of a txg to the space maps, pass by pass, and releases deferred frees when
//! the txg is on disk.
//!
//! Pools with `log_spacemap` get a log for each txg ([`super::logs`]); on others the changes are
//! appended to each metaslab's own map. A map much longer than necessary is rewritten (condensed).
//! Facts: `metaslab_sync`, `metaslab_should_condense` (module/zfs/metaslab.c).
//!
//! Invariants:
//!   * the maps after txg T, including logs, contain exactly the space allocated in T, without the
//!     blocks freed in T

use super::Allocator;
use super::group::Group;
use super::maps::{MapReader, MapWriter};
use super::round::Round;
use super::slab::{Inner, MapState, Slab};
use crate::space::entries::{self, Spot};
use crate::space::ranges::Ranges;
use block::Class;
use errors::Result;
use ondisk::spacemap::{Action, HISTOGRAM_BUCKETS, Header};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Block size of a new space map. Small, because the last block is rewritten in each txg that
/// changes the metaslab: the size that OpenZFS uses on pools without log space maps.
const BLOCK_BYTES: u32 = 16 << 10;
/// A map of at most `CONDENSE_BLOCKS` blocks is never condensed; a longer one is when it is
/// `CONDENSE_FACTOR` times as long as necessary. As OpenZFS.
const CONDENSE_BLOCKS: u64 = 4;
const CONDENSE_FACTOR: u64 = 2;

impl Allocator {
    /// Writes the allocations and frees of `txg` since the last pass. Returns whether there were
    /// any. Each pass changes the MOS, whose blocks are allocated too: call it until nothing is
    /// written.
    pub fn sync_maps(&self, txg: u64, maps: &dyn MapWriter) -> Result<bool> {
        let mut round = self.rounds.lock();
        if round.txg != txg {
            (round.txg, round.pass) = (txg, 0);
        }
        round.pass += 1;
        let table = self.table();
        if self.options.logs {
            let wrote = self.sync_logged(&table, &mut round, maps)?;
            return Ok(self.sync_checkpoint(&table, (txg, round.pass), maps)? | wrote);
        }
        let mut wrote = false;
        for group in table.groups() {
            for slab in group.slabs.iter().filter(|slab| slab.is_dirty(txg)) {
                wrote |= self.sync_slab(group, slab, &round, maps)?;
            }
        }
        Ok(self.sync_checkpoint(&table, (txg, round.pass), maps)? | wrote)
    }

    /// Whether `txg` has changes that are not in the space maps yet.
    pub fn is_dirty(&self, txg: u64) -> bool {
        self.evacuated.is_dirty(txg) || self.table().groups().any(|g| g.slabs.iter().any(|s| s.is_dirty(txg)))
    }

    fn sync_slab(&self, group: &Group, slab: &Slab, round: &Round, maps: &dyn MapWriter) -> Result<bool> {
        let txg = round.txg;
        let mut inner = slab.lock();
        let taken = slab.take(&mut inner, txg);
        if taken.0.is_empty() && taken.1.is_empty() {
            return Ok(false);
        }
        let before = inner.map.clone();
        let rewrite = match &before {
            Some(map) if round.pass == 1 => self.condensed(slab, &inner, map, &taken.1),
            _ => None,
        };
        let histogram = slab.histogram(&inner, &taken.1);
        // Before the map is written: a thread that reads it meanwhile must know that these ranges
        // are deferred.
        inner.freed.add_all(&taken.1);
        drop(inner);

        let map = before.map_or_else(|| self.new_map(group, slab, maps), Ok);
        let written = map
            .and_then(|map| self.append(slab, (txg, round.pass), maps, map, (&taken.0, &taken.1), rewrite, histogram));
        let mut inner = slab.lock();
        match written {
            Ok(map) => {
                inner.map = Some(map);
                Ok(true)
            }
            Err(e) => {
                inner.freed.remove_all(&taken.1);
                slab.put_back(&mut inner, txg, taken);
                Err(e.at(&format!("{}: {}: metaslab {}", self.name, group.name, slab.id)))
            }
        }
    }

    /// Creates a metaslab's own map.
    pub(super) fn new_map(&self, group: &Group, slab: &Slab, maps: &dyn MapWriter) -> Result<MapState> {
        let object = maps.create_map(BLOCK_BYTES, self.options.histograms)?;
        maps.write_array(group.objects.array.load(Ordering::Relaxed), u64::from(slab.id), object)?;
        Ok(MapState {
            object,
            block_bytes: u64::from(BLOCK_BYTES),
            length_bytes: 0,
            allocated_bytes: 0,
            histogram: self.options.histograms.then_some([0; HISTOGRAM_BUCKETS]),
        })
    }

    /// Appends allocations and frees to a metaslab's own map, or rewrites it if `rewrite` gives the
    /// free ranges.
    #[allow(clippy::too_many_arguments)] // What a map is written from; it has no better name together.
    pub(super) fn append(
        &self,
        slab: &Slab,
        (txg, pass): (u64, u16),
        maps: &dyn MapWriter,
        mut map: MapState,
        (allocated, freed): (&Ranges, &Ranges),
        rewrite: Option<Ranges>,
        histogram: [u64; HISTOGRAM_BUCKETS],
    ) -> Result<MapState> {
        let spot = |length_bytes| Spot {
            txg,
            pass,
            length_bytes,
            block_bytes: map.block_bytes,
            two_words: self.options.two_words,
            start_units: 0,
        };
        let (mut bytes, units);
        if let Some(free) = rewrite {
            tracing::debug!("{}: map {}: {} bytes are rewritten", self.name, map.object, map.length_bytes);
            maps.truncate_map(map.object)?;
            let all = free.complement(slab.units);
            (bytes, units) = (entries::encode(&all, Action::Alloc, &spot(0)), all.units() as i64);
            (map.length_bytes, map.allocated_bytes) = (0, 0);
        } else {
            (bytes, units) = (Vec::new(), allocated.units() as i64 - freed.units() as i64);
            for (ranges, action) in [(allocated, Action::Alloc), (freed, Action::Free)] {
                bytes.extend(entries::encode(ranges, action, &spot(map.length_bytes + bytes.len() as u64)));
            }
        }
        if !bytes.is_empty() {
            maps.write_map(map.object, map.length_bytes, &bytes)?;
        }
        map.length_bytes += bytes.len() as u64;
        map.allocated_bytes += units << slab.ashift;
        map.histogram = map.histogram.map(|_| histogram);
        maps.set_header(map.object, &map.header())?;
        Ok(map)
    }

    /// The free ranges, if the map is much longer than necessary and so must be rewritten.
    /// `freeing`: see [`Slab::free_on_disk`].
    pub(super) fn condensed(&self, slab: &Slab, inner: &Inner, map: &MapState, freeing: &Ranges) -> Option<Ranges> {
        let record = map.block_bytes.max(1 << slab.ashift);
        if map.length_bytes <= CONDENSE_BLOCKS * record {
            return None;
        }
        let free = slab.free_on_disk(inner, freeing)?;
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        // There are as many allocated segments as free ones, and the map may store either.
        free.add_to_histogram(&mut histogram);
        let is_too_long = map.length_bytes >= CONDENSE_FACTOR * entries::estimate(&histogram, self.options.two_words);
        is_too_long.then_some(free)
    }

    /// The object that lists a device's space maps, created if there is none. The caller writes its
    /// number to the configuration.
    pub fn metaslab_array(&self, vdev: u32, maps: &dyn MapWriter) -> Result<u64> {
        let table = self.table();
        let group =
            table.group(vdev).ok_or_else(|| errors::Error::not_found(self.name.clone(), format!("device {vdev}")))?;
        let known = group.objects.array.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let made = maps.create_array(group.slabs.len() as u64)?;
        group.objects.array.store(made, Ordering::Relaxed);
        Ok(made)
    }

    /// Called when the uberblock of `txg` is on disk. `maps` reads the MOS as of that txg or a
    /// later one. It is held weakly: the pool's writer owns it.
    ///
    /// Blocks freed two txgs ago become allocatable. When the pool is full up to its slop, blocks
    /// freed in this txg do too, as in OpenZFS: being able to rewind to an older uberblock is then
    /// worth less than being able to write at all.
    pub fn synced(&self, txg: u64, maps: Arc<dyn MapReader>) {
        *self.reader.write() = Arc::downgrade(&maps);
        let totals = self.totals();
        let normal = totals.class(Class::Normal);
        let is_full = normal.free_bytes() + normal.deferred_bytes <= totals.slop_bytes && !self.keeps.is_frozen();
        // Space kept for readers may be at most half of the free space.
        let is_short = totals.classes.iter().any(|class| class.deferred_bytes > class.free_bytes() / 2);
        let keep = self.keeps.wanted(is_full || is_short);
        let note_freed = self.notes_untrimmed();
        for group in self.table().groups() {
            for slab in &group.slabs {
                slab.synced(txg, is_full, keep, note_freed, &group.totals);
            }
            group.availability.set_new(false);
        }
        self.grow();
        self.rounds.set_last_txg(txg);
        self.trim(super::RANGES_MAX);
    }
}

impl MapState {
    /// Contents of the object's bonus buffer.
    pub fn header(&self) -> Header {
        Header {
            object: self.object,
            length_bytes: self.length_bytes,
            allocated_bytes: self.allocated_bytes,
            histogram: self.histogram,
        }
    }
}
