//! Intent logs: who waits until what he did is safe, and what is written for that.

use super::{Field, Layer, Origin, Statistic, Weight, ops};

const LAYERS: &[Layer] = &[Layer::Log];

/// Commits, and blocks written for them.
pub const OPS: Statistic = Statistic {
    fields: &[Field::Op, Field::Share, Field::Pool, Field::Latency, Field::Size],
    help: "Commits, timed until their data is durable, and blocks written to intent logs, each of which can serve several commits.",
    ..ops("zil.ops", "Intent log", "Intent log: operations", LAYERS)
};

/// Bytes of those blocks.
pub const BYTES: Statistic = Statistic {
    name: "zil.bytes",
    title: "Intent log: bytes",
    unit: "bytes",
    help: "Bytes of records written to intent logs.",
    origin: Origin::Events(LAYERS, Weight::Bytes),
    fields: &[Field::Share, Field::Pool, Field::Latency, Field::Size],
    ..OPS
};
