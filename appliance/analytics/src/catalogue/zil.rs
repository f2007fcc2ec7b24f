//! Intent logs: operations that wait for durability, and the log blocks written for them.

use super::statistic::{Origin, Statistic, Weight, ops};
use crate::name::Field;
use observe::Layer;

const LAYERS: &[Layer] = &[Layer::Log];

/// Commits, and log blocks written for them.
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
