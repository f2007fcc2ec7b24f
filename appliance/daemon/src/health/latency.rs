//! Latencies of disks in the last minutes: differences of their histograms, which count from the
//! opening of the pool.

use super::inputs::DiskTimes;
use block::Store;
use observe::Spread;
use pool::status::{PoolStatus, VdevStatus};
use std::collections::{BTreeMap, VecDeque};

/// Seconds between snapshots.
const EVERY_SECONDS: u64 = 60;
/// Snapshots that are kept. Guessed: 10 minutes are long enough for 99th percentiles of slow disks,
/// and short enough that a repaired one is soon forgotten.
const KEPT: usize = 11;
/// Operations that make a 99th percentile. Guessed: with 200, it is the third-slowest.
const OPERATIONS: u64 = 200;

/// Histograms of each disk by guid: reads, writes.
type Snapshot = BTreeMap<u64, [Spread; 2]>;

/// Snapshots of the disks of all pools.
#[derive(Debug, Default)]
pub struct Latencies {
    /// Second of each snapshot, oldest first.
    kept: VecDeque<(u64, Snapshot)>,
}

impl Latencies {
    /// Takes a snapshot, unless the last one is recent.
    pub fn note(&mut self, second: u64, snapshot: impl FnOnce() -> Snapshot) {
        if self.kept.back().is_some_and(|(last, _)| (*last..last + EVERY_SECONDS).contains(&second)) {
            return;
        }
        self.kept.push_back((second, snapshot()));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// 99th percentiles of reads and writes of a disk since the oldest snapshot that has it.
    fn percentiles(&self, guid: u64, now: &[Spread; 2]) -> [Option<u64>; 2] {
        let Some(before) = self.kept.iter().find_map(|(_, disks)| disks.get(&guid)) else { return [None; 2] };
        let percentile = |now: &Spread, before: &Spread| {
            // A counter that became smaller has restarted from 0: the pool was opened again.
            let recent = if now.count < before.count { now.clone() } else { now.since(before) };
            (recent.count >= OPERATIONS).then(|| recent.percentile(99.0))
        };
        [percentile(&now[0], &before[0]), percentile(&now[1], &before[1])]
    }

    /// Latencies of the disks of a pool.
    pub fn of_pool(&self, status: &PoolStatus, store: &Store) -> Vec<DiskTimes> {
        let now = times(store);
        let mut found = Vec::new();
        for top in &status.root.children {
            let is_alone = top.is_leaf();
            let siblings = if is_alone { top.class.json_name().to_owned() } else { top.name.clone() };
            leaves(top, &mut |leaf| {
                let Some(now) = now.get(&leaf.guid) else { return };
                let [read_p99_ns, write_p99_ns] = self.percentiles(leaf.guid, now);
                let (name, siblings) = (leaf.name.clone(), siblings.clone());
                found.push(DiskTimes { name, siblings, read_p99_ns, write_p99_ns });
            });
        }
        found
    }
}

fn leaves(vdev: &VdevStatus, found: &mut impl FnMut(&VdevStatus)) {
    if vdev.is_leaf() {
        found(vdev);
    }
    vdev.children.iter().for_each(|child| leaves(child, found));
}

/// Histograms of the disks of a pool.
pub fn times(store: &Store) -> Snapshot {
    store.tree().all_leaves().map(|leaf| (leaf.guid, leaf.times())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::Histogram;

    #[test]
    fn only_recent_operations_count_and_only_if_there_are_enough() {
        let (reads, writes) = (Histogram::default(), Histogram::default());
        let spreads = || [reads.spread(), writes.spread()];
        let mut latencies = Latencies::default();
        (0..1000).for_each(|_| reads.record(90_000_000));
        let snapshot = spreads();
        latencies.note(60, || BTreeMap::from([(7, snapshot)]));
        latencies.note(70, || unreachable!("the last one is recent"));
        assert_eq!(latencies.percentiles(7, &spreads()), [None, None]);
        (0..OPERATIONS).for_each(|_| reads.record(1_000_000));
        (1..OPERATIONS).for_each(|_| writes.record(5));
        let [read, write] = latencies.percentiles(7, &spreads());
        assert!(read.is_some_and(|ns| (1_000_000..1_100_000).contains(&ns)), "{read:?}");
        assert_eq!((write, latencies.percentiles(8, &spreads())), (None, [None, None]));
        for second in 2..30 {
            latencies.note(second * 60, Snapshot::new);
        }
        assert_eq!((latencies.kept.len(), latencies.percentiles(7, &spreads())), (KEPT, [None, None]));
    }
}
