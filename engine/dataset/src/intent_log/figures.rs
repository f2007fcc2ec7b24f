//! Metrics of the intent logs of a pool.

use observe::event::Note;
use observe::{Collector, Counter, Event, Events, Histogram, Info, Layer, Source, Unit};
use std::sync::{Arc, OnceLock};

static COMMIT_TIME: Info = Info {
    name: "intent_log_commit_time",
    unit: Unit::Nanoseconds,
    help: "Duration of commits, such as fsync, until their data is durable; the count is the number of commits.",
};
static BATCHES: Info = Info {
    name: "intent_log_batches",
    unit: Unit::Number,
    help: "Batches of commits, each written to an intent log together or waiting for the txg.",
};
static WAITS: Info = Info {
    name: "intent_log_waits",
    unit: Unit::Number,
    help: "Batches that waited for the txg to sync: a new log chain, a change without a record, or too much data to write twice.",
};
static BLOCKS: Info = Info { name: "intent_log_blocks", unit: Unit::Number, help: "Blocks written to intent logs." };
static BYTES: Info =
    Info { name: "intent_log_written", unit: Unit::Bytes, help: "Bytes of records written to intent logs." };

/// Metrics of all logs of a pool.
#[derive(Default)]
pub struct LogFigures {
    pub(super) commit_time: Histogram,
    pub(super) batches: Counter,
    pub(super) waits: Counter,
    pub(super) blocks: Counter,
    pub(super) bytes: Counter,
    target: OnceLock<(Arc<Events>, u32)>,
}

/// Operations of [`Layer::Log`], by their codes.
const COMMIT: u8 = 0;
const WRITE: u8 = 1;

impl LogFigures {
    /// Reports each commit and each block to `events` from now on, under pool name `pool`. Only
    /// the first call has an effect.
    pub fn record_to(&self, events: &Arc<Events>, pool: &str) {
        self.target.get_or_init(|| (events.clone(), events.clients.number(pool)));
    }

    /// A commit was acknowledged as durable.
    pub(super) fn committed(&self, dataset: impl FnOnce() -> String, ns: u64) {
        self.commit_time.record(ns);
        self.log_operation(COMMIT, dataset, 0, ns);
    }

    /// A block with this many bytes of records was written.
    pub(super) fn wrote(&self, dataset: impl FnOnce() -> String, bytes: usize, ns: u64) {
        self.blocks.increment();
        self.bytes.add(bytes as u64);
        self.log_operation(WRITE, dataset, bytes, ns);
    }

    fn log_operation(&self, op: u8, dataset: impl FnOnce() -> String, bytes: usize, latency: u64) {
        let Some((events, pool)) = self.target.get().filter(|(events, _)| events.is_on()) else { return };
        let place = events.places.number(&dataset());
        let note = Note { place, size: u32::try_from(bytes).unwrap_or(u32::MAX), ..Note::default() };
        let done = host::clock::nanoseconds();
        events.record(Event { done, latency, layer: Layer::Log, op, client: *pool, user: 0, note });
    }
}

impl Source for LogFigures {
    fn collect(&self, out: &mut Collector<'_>) {
        out.histogram(&COMMIT_TIME, &[], &self.commit_time);
        out.counter(&BATCHES, &[], &self.batches);
        out.counter(&WAITS, &[], &self.waits);
        out.counter(&BLOCKS, &[], &self.blocks);
        out.counter(&BYTES, &[], &self.bytes);
    }
}
