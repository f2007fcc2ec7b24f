//! Log space maps: the changes of a txg in all metaslabs go into one map of their own. Each
//! metaslab's own map is updated later, for many txgs at once.
//!
//! ```text
//!   txg 7 8 9 10 11      a log contains device and range of all that its txg allocated and freed
//!    A  . f . .  .       A was flushed in txg 8: entries of the logs 8, 9, 10 and 11 apply
//!    B  . . . f  .       B in txg 10: logs 10 and 11
//!    C  f . . .  .       C in txg 7: until C is flushed again, no log can be destroyed; it is next
//! ```
//! In memory each metaslab keeps the sum of the entries that apply to it ([`super::delta`]).
//!
//! **What is flushed.** In the first pass of a txg, before anything of that txg is written: the
//! metaslabs flushed longest ago. A metaslab without unflushed changes needs only a new txg number,
//! and gets it when its turn comes along with others. A log older than all metaslabs need is
//! destroyed. The number of metaslabs to flush is chosen so that each metaslab's turn comes before
//! there are too many logs ([`LOGS_MAX`]), by number or bytes, at the rate of the last txgs. That
//! is often less than one in a txg; the fraction is carried over to the next. If there is too much
//! already, or too much in memory ([`RANGES_MAX`]), an eighth of all metaslabs is flushed in each
//! txg, so that a txg stays bounded.
//!
//! The limits on logs also limit the time to open a pool, because opening reads all of them.
//!
//! Facts: module/zfs/spa_log_spacemap.c, `metaslab_sync` and `metaslab_flush` (metaslab.c). OpenZFS
//! has other limits, and a finer forecast. It flushes all metaslabs when a pool is exported, as
//! Weir does ([`Allocator::flush_all_next`]).
//!
//! Invariants:
//!   * a metaslab's own map and the logs from its txg on together give the allocated space
//!   * a metaslab's txg refers to an existing log: OpenZFS refuses a pool where it does not

use super::Allocator;
use super::delta::Delta;
use super::group::Group;
use super::maps::MapWriter;
use super::round::{Log, Logs, Round};
use super::slab::{MapState, Slab};
use super::table::Table;
use crate::space::entries::{self, LogSpot};
use crate::space::ranges::Ranges;
use errors::{Error, Result};
use ondisk::spacemap::{Action, HISTOGRAM_BUCKETS, Header};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Block size of a log. As OpenZFS: most logs are one block.
pub(super) const LOG_BLOCK_BYTES: u32 = 128 << 10;
/// Limit for the number of logs, on a pool of more than 1 GiB. Each takes two reads when a pool is
/// opened: on a hard disk about 2 s for all.
const LOGS_MAX: u64 = 128;
/// Limit for the bytes of all logs, on a pool of more than 16 GiB: a million entries, which are
/// read in less than a second.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Limit for the unflushed ranges in memory, for all metaslabs: about 10 MiB. Guessed.
const RANGES_MAX: usize = 512 << 10;
/// Small pools have fewer logs: the dozen KiB that a log takes with its three copies matters there.
const POOL_BYTES_PER_LOG: u64 = 8 << 20;
const POOL_BYTES_PER_LOG_BYTE: u64 = 1 << 10;
/// At most 1/`FLUSH_PART` of the metaslabs with unflushed changes is flushed in a txg.
const FLUSH_PART: u64 = 8;

/// Amount of changes that are only in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogStats {
    /// Number of log space maps.
    pub logs: u64,
    /// Bytes of their entries.
    pub log_bytes: u64,
    /// Metaslabs whose own maps lack changes.
    pub metaslabs: usize,
    /// Ranges that those maps lack.
    pub ranges: usize,
}

/// A metaslab to which logs apply.
struct Turn<'a> {
    since: u64,
    group: &'a Arc<Group>,
    slab: &'a Slab,
    ranges: usize,
}

/// Changes in a metaslab since the last pass.
struct Change<'a> {
    group: &'a Arc<Group>,
    slab: &'a Slab,
    taken: (Ranges, Ranges),
    map: Option<MapState>,
    histogram: [u64; HISTOGRAM_BUCKETS],
    /// Logs apply to the metaslab from this txg on.
    starts: bool,
}

/// Metaslabs, by device, to which logs apply from another txg on.
type Moved = BTreeMap<u32, Vec<u32>>;

/// Input for the decision how much to flush.
#[derive(Debug, Clone, Copy)]
struct Pressure {
    /// Size of all devices.
    pool_bytes: u64,
    /// Bytes that a txg adds to the logs.
    incoming_bytes: u64,
    stats: LogStats,
}

impl Pressure {
    /// Number of metaslabs to flush in a txg, in thousandths.
    fn rate(&self) -> u64 {
        let logs_max = (self.pool_bytes / POOL_BYTES_PER_LOG).clamp(8, LOGS_MAX);
        let bytes_max = (self.pool_bytes / POOL_BYTES_PER_LOG_BYTE).clamp(64 << 10, LOG_BYTES_MAX);
        // Even if there is nothing to flush, logs must be destroyed now and then.
        let all = self.stats.metaslabs.max(1) as u64;
        let most = all.div_ceil(FLUSH_PART) * 1000;
        let too_much = self.stats.logs > logs_max || self.stats.log_bytes > bytes_max || self.stats.ranges > RANGES_MAX;
        if too_much {
            return most;
        }
        // Aim at three quarters of the limits: rates change, and the purpose is to avoid too much
        // at once.
        let aim = |max: u64| u128::from(max / 4 * 3);
        let by_logs = (u128::from(all) * 1000).div_ceil(aim(logs_max));
        let by_bytes = u128::from(all) * 1000 * u128::from(self.incoming_bytes) / aim(bytes_max);
        by_logs.max(by_bytes).min(u128::from(most)) as u64
    }
}

impl Allocator {
    /// Makes the next txg flush all metaslabs, so that little must be read when the pool is opened.
    pub fn flush_all_next(&self) {
        self.rounds.set_flush_all(true);
    }

    /// Amount of changes that are only in logs.
    pub fn log_stats(&self) -> LogStats {
        let logs = &self.rounds.lock().logs;
        let mut stats = LogStats { logs: logs.all.len() as u64, log_bytes: logs.bytes(), ..LogStats::default() };
        turns(&self.table()).iter().for_each(|turn| stats.add(turn));
        stats
    }

    /// Writes one pass of a txg, on a pool with logs.
    pub(super) fn sync_logged(&self, table: &Table, round: &mut Round, maps: &dyn MapWriter) -> Result<bool> {
        let flushed = round.pass == 1 && self.flush(table, round, maps)?;
        Ok(self.log(table, round, maps)? | flushed)
    }

    /// Flushes some metaslabs: updates their own maps to the state of the previous txg.
    fn flush(&self, table: &Table, round: &mut Round, maps: &dyn MapWriter) -> Result<bool> {
        let (txg, is_all) = (round.txg, self.rounds.flushes_all());
        // A txg without changes does not touch the logs.
        if !is_all && !table.groups().any(|g| g.slabs.iter().any(|s| s.is_dirty(txg))) {
            return Ok(false);
        }
        let mut turns = turns(table);
        turns.sort_by_key(|turn| (turn.since, turn.group.vdev, turn.slab.id));
        let mut left = if is_all { usize::MAX } else { self.how_many(table, &mut round.logs, &turns) };
        if left == 0 {
            return Ok(false);
        }
        let (mut moved, mut oldest) = (Moved::new(), txg);
        for turn in &turns {
            if turn.ranges > 0 {
                if left == 0 {
                    oldest = turn.since;
                    break;
                }
                left -= 1;
                self.flush_slab(turn.group, turn.slab, txg, maps)?;
            }
            turn.slab.lock().unflushed_txg = txg;
            moved.entry(turn.group.vdev).or_default().push(turn.slab.id);
        }
        if !moved.is_empty() {
            round.log(maps, self.options.histograms)?;
            write_moved(table, &moved, txg, maps)?;
        }
        let gone: Vec<_> = round.logs.all.range(..oldest).map(|(txg, log)| (*txg, log.object)).collect();
        for (txg, object) in &gone {
            maps.remove_log(*txg, *object)?;
            round.logs.all.remove(txg);
        }
        self.rounds.set_flush_all(false);
        Ok(!moved.is_empty() || !gone.is_empty())
    }

    fn how_many(&self, table: &Table, logs: &mut Logs, turns: &[Turn<'_>]) -> usize {
        let mut stats = LogStats { logs: logs.all.len() as u64, log_bytes: logs.bytes(), ..LogStats::default() };
        turns.iter().for_each(|turn| stats.add(turn));
        let pool_bytes = table.groups().map(|g| g.totals.size()).sum();
        logs.credit += Pressure { pool_bytes, incoming_bytes: logs.incoming_bytes(), stats }.rate();
        let many = logs.credit / 1000;
        logs.credit %= 1000;
        many as usize
    }

    fn flush_slab(&self, group: &Group, slab: &Slab, txg: u64, maps: &dyn MapWriter) -> Result<()> {
        let place = || format!("{}: {}: metaslab {}", self.name, group.name, slab.id);
        let mut inner = slab.lock();
        let Some(before) = inner.map.clone() else {
            return Err(Error::corrupt(place(), "it is in a log space map and has no space map of its own"));
        };
        let none = Ranges::default();
        let rewrite = self.condensed(slab, &inner, &before, &none);
        let delta = slab.start_flush(&mut inner);
        let histogram = slab.histogram(&inner, &none);
        drop(inner);
        let written = self.append(slab, (txg, 1), maps, before, (&delta.allocated, &delta.freed), rewrite, histogram);
        let mut inner = slab.lock();
        match written {
            Ok(map) => inner.map = Some(map),
            Err(e) => {
                slab.undo_flush(&mut inner);
                return Err(e.at(&place()));
            }
        }
        Ok(())
    }

    /// Writes the changes since the last pass to the log of the txg.
    fn log(&self, table: &Table, round: &mut Round, maps: &dyn MapWriter) -> Result<bool> {
        let txg = round.txg;
        let mut changes = Vec::new();
        for group in table.groups() {
            for slab in group.slabs.iter().filter(|slab| slab.is_dirty(txg)) {
                let mut inner = slab.lock();
                let taken = slab.take(&mut inner, txg);
                if taken.0.is_empty() && taken.1.is_empty() {
                    continue;
                }
                let histogram = slab.histogram(&inner, &taken.1);
                inner.freed.add_all(&taken.1);
                // Without unflushed changes from before, only this txg's log applies.
                let starts = inner.logged_txg != txg
                    && inner.unflushed_txg != txg
                    && (inner.unflushed_txg == 0 || inner.unflushed.is_empty());
                changes.push(Change { group, slab, taken, map: inner.map.clone(), histogram, starts });
            }
        }
        if changes.is_empty() {
            return Ok(false);
        }
        let written = self.write_log(table, round, &mut changes, maps);
        for change in changes {
            let mut inner = change.slab.lock();
            if written.is_err() {
                inner.freed.remove_all(&change.taken.1);
                change.slab.put_back(&mut inner, txg, change.taken);
                continue;
            }
            inner.map = change.map;
            inner.logged_txg = txg;
            if change.starts {
                inner.unflushed_txg = txg;
            }
            if !inner.unflushed.add_all(&change.taken.0, &change.taken.1) {
                let at = format!("{}: metaslab {}", change.group.name, change.slab.id);
                drop(inner);
                self.anomaly(format!("{at}: txg {txg} allocates allocated space, or frees free space"));
            }
        }
        written.map(|()| true)
    }

    fn write_log(
        &self,
        table: &Table,
        round: &mut Round,
        changes: &mut [Change<'_>],
        maps: &dyn MapWriter,
    ) -> Result<()> {
        let (txg, pass) = (round.txg, round.pass);
        let mut moved = Moved::new();
        for change in &mut *changes {
            let is_new = change.map.is_none();
            let mut map = match change.map.take() {
                Some(map) => map,
                None => self.new_map(change.group, change.slab, maps)?,
            };
            map.histogram = map.histogram.map(|_| change.histogram);
            // The map on disk may claim that the largest free segments are smaller than they are,
            // but never larger. If space was only freed, the header stays as it is. This saves a
            // write for each metaslab that a txg of random writes touches.
            if is_new || !change.taken.0.is_empty() {
                maps.set_header(map.object, &map.header())?;
            }
            change.map = Some(map);
            if change.starts {
                moved.entry(change.group.vdev).or_default().push(change.slab.id);
            }
        }
        let log = round.log(maps, self.options.histograms)?;
        // The buffer begins with the used part of the last block, so that entries find the block's
        // end.
        let before = (log.length_bytes % u64::from(LOG_BLOCK_BYTES)) as usize;
        let mut bytes = vec![0; before];
        for Change { group, slab, taken, .. } in &*changes {
            let spot = LogSpot {
                txg,
                pass,
                block_bytes: LOG_BLOCK_BYTES as usize,
                vdev: group.vdev,
                start_units: slab.start_units,
                ashift: slab.ashift,
            };
            for (ranges, action) in [(&taken.0, Action::Alloc), (&taken.1, Action::Free)] {
                entries::encode_log(&mut bytes, ranges, action, &spot);
            }
            log.allocated_bytes += (taken.0.units() as i64 - taken.1.units() as i64) << slab.ashift;
        }
        maps.write_map(log.object, log.length_bytes, &bytes[before..])?;
        log.length_bytes += (bytes.len() - before) as u64;
        let header = Header {
            object: log.object,
            length_bytes: log.length_bytes,
            allocated_bytes: log.allocated_bytes,
            histogram: self.options.histograms.then_some([0; HISTOGRAM_BUCKETS]),
        };
        maps.set_header(log.object, &header)?;
        write_moved(table, &moved, txg, maps)
    }
}

impl Round {
    /// The log of the txg, created if there is none.
    fn log(&mut self, maps: &dyn MapWriter, histograms: bool) -> Result<&mut Log> {
        let Self { txg, logs, .. } = self;
        if !logs.all.contains_key(txg) {
            let object = maps.create_log(*txg, LOG_BLOCK_BYTES, histograms)?;
            logs.all.insert(*txg, Log { object, length_bytes: 0, allocated_bytes: 0 });
        }
        Ok(logs.all.get_mut(txg).expect("it was just put there"))
    }
}

impl LogStats {
    fn add(&mut self, turn: &Turn<'_>) {
        self.metaslabs += usize::from(turn.ranges > 0);
        self.ranges += turn.ranges;
    }
}

/// All metaslabs to which logs apply.
fn turns(table: &Table) -> Vec<Turn<'_>> {
    table.groups().flat_map(|group| group.slabs.iter().filter_map(move |slab| Turn::of(group, slab))).collect()
}

impl<'a> Turn<'a> {
    fn of(group: &'a Arc<Group>, slab: &'a Slab) -> Option<Self> {
        let inner = slab.lock();
        let (since, ranges) = (inner.unflushed_txg, Delta::ranges(&inner.unflushed));
        (since != 0 || ranges > 0).then_some(Self { since, group, slab, ranges })
    }
}

/// Records for these metaslabs that logs apply from `txg` on.
fn write_moved(table: &Table, moved: &Moved, txg: u64, maps: &dyn MapWriter) -> Result<()> {
    for (vdev, slabs) in moved {
        let Some(group) = table.group(*vdev) else { continue };
        maps.write_unflushed(group.objects.top_zap, group.slabs.len() as u64, slabs, txg)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(metaslabs: usize, logs: u64, log_bytes: u64, ranges: usize, incoming_bytes: u64) -> u64 {
        let stats = LogStats { logs, log_bytes, metaslabs, ranges };
        Pressure { pool_bytes: 1 << 40, incoming_bytes, stats }.rate()
    }

    #[test]
    fn each_metaslab_is_flushed_before_there_are_too_many_logs() {
        assert_eq!(rate(960, 50, 1 << 20, 1000, 1000), 10_000, "ten in each of 96 txgs");
        assert_eq!(rate(3, 50, 1 << 20, 1000, 1000), 32, "one in 32 txgs");
        assert_eq!(rate(0, 50, 0, 0, 0), 11, "to free logs that are no longer needed");
    }

    #[test]
    fn much_that_comes_in_is_flushed_faster_and_not_without_bound() {
        assert_eq!(rate(1200, 10, 1 << 20, 1000, 1 << 20), 100_000, "twelve such txgs are the target");
        assert_eq!(rate(1600, 10, 1 << 20, 1000, 1 << 30), 200_000);
        for too_much in [rate(1600, 129, 0, 0, 0), rate(1600, 1, 17 << 20, 0, 0), rate(1600, 1, 0, 600 << 10, 0)] {
            assert_eq!(too_much, 200_000);
        }
        assert_eq!(rate(3, 129, 0, 0, 0), 1000);
    }

    #[test]
    fn small_pools_keep_few_logs() {
        let stats = LogStats { logs: 9, log_bytes: 0, metaslabs: 16, ranges: 100 };
        assert_eq!(Pressure { pool_bytes: 64 << 20, incoming_bytes: 0, stats }.rate(), 2000);
    }
}
