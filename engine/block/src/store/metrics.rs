//! The metrics of a store: its cache, cache devices, and the leaves of its vdev tree; for one that
//! writes also the dirty data.

use super::{Store, WriteStore};
use observe::{Collector, Info, Source, Unit, Value};
use std::sync::atomic::Ordering;

static HITS: Info = Info { name: "cache_hits", unit: Unit::Number, help: "Block reads answered from memory." };
static PREFETCHED: Info = Info {
    name: "cache_prefetched_hits",
    unit: Unit::Number,
    help: "Cache hits on blocks that were read ahead, counted at their first use.",
};
static MISSES: Info =
    Info { name: "cache_misses", unit: Unit::Number, help: "Block reads that had to go to the devices." };
static PREFETCHES: Info = Info { name: "cache_prefetches", unit: Unit::Number, help: "Blocks read ahead." };
static GHOST_HITS: Info = Info {
    name: "cache_ghost_hits",
    unit: Unit::Number,
    help: "Misses of recently evicted blocks, which a larger cache would still hold.",
};
static EVICTIONS: Info =
    Info { name: "cache_evictions", unit: Unit::Number, help: "Blocks evicted to make room for others." };
static SIZE: Info = Info { name: "cache_size", unit: Unit::Bytes, help: "Bytes of blocks in memory." };
static CAP: Info = Info { name: "cache_cap", unit: Unit::Bytes, help: "Maximum size of the cache." };
static TARGET: Info = Info {
    name: "cache_recent_target",
    unit: Unit::Bytes,
    help: "Target size of the part of the cache for blocks that were used once; it adapts to the workload.",
};
static WAITING: Info = Info { name: "waiting", unit: Unit::Bytes, help: "Changed bytes that are not yet written." };

impl Source for Store {
    fn collect(&self, out: &mut Collector<'_>) {
        let c = self.cache.counters();
        for (info, count) in [
            (&HITS, c.hits),
            (&PREFETCHED, c.prefetched_hits),
            (&MISSES, c.misses),
            (&PREFETCHES, c.prefetches),
            (&EVICTIONS, c.evictions),
        ] {
            out.put(info, &[], Value::Count(count));
        }
        for (list, count) in [("recent", c.ghost_recent_hits), ("frequent", c.ghost_frequent_hits)] {
            out.put(&GHOST_HITS, &[("list", list)], Value::Count(count));
        }
        for (info, bytes) in [(&SIZE, c.size_bytes), (&CAP, c.cap_bytes), (&TARGET, c.recent_target_bytes)] {
            out.put(info, &[], Value::Level(bytes));
        }
        self.second.collect(out);
        let tree = self.tree();
        for leaf in tree.leaves() {
            out.within(&[("device", leaf.path.as_str())], leaf);
        }
    }
}

impl Source for WriteStore {
    fn collect(&self, out: &mut Collector<'_>) {
        self.store.collect(out);
        out.put(&WAITING, &[], Value::Level(self.waiting_bytes().load(Ordering::Relaxed)));
    }
}
