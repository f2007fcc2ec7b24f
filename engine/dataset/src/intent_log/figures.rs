//! What the intent logs of a pool did.

use observe::{Collector, Counter, Histogram, Info, Source, Unit};

static COMMIT_TIME: Info = Info {
    name: "intent_log_commit_time",
    unit: Unit::Nanoseconds,
    help: "How long it took until what was asked for was safe, as by fsync; its count is the number of such requests.",
};
static BATCHES: Info = Info {
    name: "intent_log_batches",
    unit: Unit::Number,
    help: "Times that a log was written, for all that asked meanwhile.",
};
static WAITS: Info = Info {
    name: "intent_log_waits",
    unit: Unit::Number,
    help: "Of those, times that waited for the txg instead: a new chain, what has no record, or too much to be written twice.",
};
static BLOCKS: Info = Info { name: "intent_log_blocks", unit: Unit::Number, help: "Blocks of intent logs written." };
static BYTES: Info =
    Info { name: "intent_log_written", unit: Unit::Bytes, help: "Bytes of records written to intent logs." };

/// Figures of all logs of a pool.
#[derive(Default)]
pub struct LogFigures {
    pub(super) commit_time: Histogram,
    pub(super) batches: Counter,
    pub(super) waits: Counter,
    pub(super) blocks: Counter,
    pub(super) bytes: Counter,
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
