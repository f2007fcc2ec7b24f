//! Statistics of the L2ARC.

use observe::{Collector, Counter, Info, Unit, Value};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Counts {
    pub hits: Counter,
    pub misses: Counter,
    pub read_bytes: Counter,
    pub feeds: Counter,
    pub writes: Counter,
    pub written_bytes: Counter,
    pub write_errors: Counter,
    pub wrong: Counter,
    pub read_errors: Counter,
    pub log_blocks: Counter,
    pub rebuilds: Counter,
    pub rebuild_failures: Counter,
    pub rebuilt_blocks: Counter,
    pub rebuilt_bytes: Counter,
    pub rebuilt_log_blocks: Counter,
    pub refused: Counter,
    pub size_bytes: AtomicU64,
    pub stored_bytes: AtomicU64,
}

/// Counters and sizes of the L2ARC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Misses of the first level that hit here.
    pub hits: u64,
    /// Misses of both levels.
    pub misses: u64,
    /// Bytes read for hits.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Uncompressed bytes of the blocks held.
    pub size_bytes: u64,
    /// Bytes of the blocks held, as stored.
    pub stored_bytes: u64,
    /// Bytes of memory used by the index.
    pub index_bytes: u64,
    /// Reads whose checksum did not match.
    pub wrong: u64,
    pub read_errors: u64,
    /// Blocks rebuilt from the devices after the pool was opened.
    pub rebuilt_blocks: u64,
}

macro_rules! infos {
    ($($name:ident = $text:literal, $unit:ident, $help:literal;)*) => {
        $(static $name: Info = Info { name: $text, unit: Unit::$unit, help: $help };)*
    };
}

infos! {
    HITS = "l2_hits", Number, "ARC misses answered from a cache device.";
    MISSES = "l2_misses", Number, "ARC misses that were not on a cache device either.";
    READ = "l2_read", Bytes, "Bytes read from cache devices for hits.";
    FEEDS = "l2_feeds", Number, "Searches for blocks to write to cache devices.";
    WRITES = "l2_writes", Number, "Blocks written to cache devices.";
    WRITTEN = "l2_written", Bytes, "Bytes written to cache devices.";
    WRITE_ERRORS = "l2_write_errors", Number, "Writes to cache devices that failed.";
    WRONG = "l2_checksum_errors", Number, "Blocks with a wrong checksum on a cache device; they were read from the pool instead.";
    READ_ERRORS = "l2_read_errors", Number, "Failed reads of cache devices; the pool was read instead.";
    LOG_BLOCKS = "l2_log_blocks", Number, "Log blocks written to cache devices, from which their index is rebuilt.";
    REBUILDS = "l2_rebuilds", Number, "Cache devices whose index was rebuilt.";
    REBUILD_FAILURES = "l2_rebuild_failures", Number, "Cache devices whose index was rebuilt only in part or not at all.";
    REBUILT = "l2_rebuilt_blocks", Number, "Blocks found on cache devices when their index was rebuilt.";
    REBUILT_BYTES = "l2_rebuilt", Bytes, "Size of the blocks found when the index of cache devices was rebuilt, as they are in memory.";
    REBUILT_LOGS = "l2_rebuilt_log_blocks", Number, "Log blocks read to rebuild the index of cache devices.";
    REFUSED = "l2_refused", Number, "Evicted blocks that were not written to a cache device, because there were too many at once.";
    SIZE = "l2_size", Bytes, "Size of the blocks on cache devices, as they are in memory.";
    STORED = "l2_stored", Bytes, "Size of the blocks on cache devices, as stored there.";
    INDEX = "l2_index", Bytes, "Memory used by the index of the cache devices.";
}

impl Counts {
    pub fn figures(&self, index_bytes: u64) -> Figures {
        Figures {
            hits: self.hits.get(),
            misses: self.misses.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            size_bytes: self.size_bytes.load(Ordering::Relaxed),
            stored_bytes: self.stored_bytes.load(Ordering::Relaxed),
            index_bytes,
            wrong: self.wrong.get(),
            read_errors: self.read_errors.get(),
            rebuilt_blocks: self.rebuilt_blocks.get(),
        }
    }

    pub fn collect(&self, index_bytes: u64, out: &mut Collector<'_>) {
        let c = self;
        for (info, counter) in [
            (&HITS, &c.hits),
            (&MISSES, &c.misses),
            (&READ, &c.read_bytes),
            (&FEEDS, &c.feeds),
            (&WRITES, &c.writes),
            (&WRITTEN, &c.written_bytes),
            (&WRITE_ERRORS, &c.write_errors),
            (&WRONG, &c.wrong),
            (&READ_ERRORS, &c.read_errors),
            (&LOG_BLOCKS, &c.log_blocks),
            (&REBUILDS, &c.rebuilds),
            (&REBUILD_FAILURES, &c.rebuild_failures),
            (&REBUILT, &c.rebuilt_blocks),
            (&REBUILT_BYTES, &c.rebuilt_bytes),
            (&REBUILT_LOGS, &c.rebuilt_log_blocks),
            (&REFUSED, &c.refused),
        ] {
            out.counter(info, &[], counter);
        }
        let figures = self.figures(index_bytes);
        for (info, bytes) in
            [(&SIZE, figures.size_bytes), (&STORED, figures.stored_bytes), (&INDEX, figures.index_bytes)]
        {
            out.put(info, &[], Value::Level(bytes));
        }
    }
}
