//! Transaction groups: the duration of their phases, and how much they write.

use super::statistic::{Shown, Statistic, sampled};
use crate::name::Field;

const CATEGORY: &str = "Transaction groups";

/// Time for which a group was open, quiescing and syncing.
pub const PHASES: Statistic = sampled(
    "txg.phases",
    CATEGORY,
    "Transaction group phases",
    "phases",
    Shown::Rate,
    &[Field::Phase, Field::Pool, Field::Latency],
    "Phases of transaction groups, counted when the group is on disk: open, quiesce (closed, waiting for running operations), sync.",
);

/// Bytes written by syncing.
pub const BYTES: Statistic = sampled(
    "txg.bytes",
    CATEGORY,
    "Transaction group bytes",
    "bytes",
    Shown::Rate,
    &[Field::Pool],
    "Bytes written to devices to sync transaction groups, including copies and parity, counted when their group is on disk.",
);

/// Data waiting to be synced.
pub const DIRTY: Statistic = sampled(
    "txg.dirty",
    CATEGORY,
    "Dirty bytes",
    "bytes",
    Shown::Level,
    &[Field::Pool],
    "Changed bytes that are not yet on disk, except in intent logs.",
);
