//! Transaction groups: how long each of their phases is, and how much they carry.

use super::{Field, Shown, Statistic, sampled};

const CATEGORY: &str = "Transaction groups";

/// How long a group was open, waited for those inside to leave, and was written.
pub const PHASES: Statistic = sampled(
    "txg.phases",
    CATEGORY,
    "Transaction group phases",
    "phases",
    Shown::Rate,
    &[Field::Phase, Field::Pool, Field::Latency],
    "Phases of transaction groups, counted when the group is on disk: open, quiesce (closed, waiting for running operations), sync.",
);

/// What syncing them wrote.
pub const BYTES: Statistic = sampled(
    "txg.bytes",
    CATEGORY,
    "Transaction group bytes",
    "bytes",
    Shown::Rate,
    &[Field::Pool],
    "Bytes written to devices to sync transaction groups, copies and parity included, counted when their group is on disk.",
);

/// What waits for them.
pub const DIRTY: Statistic = sampled(
    "txg.dirty",
    CATEGORY,
    "Dirty bytes",
    "bytes",
    Shown::Level,
    &[Field::Pool],
    "Bytes that were changed and are not on disk yet, intent logs aside.",
);
