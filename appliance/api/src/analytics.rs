//! Analytics: statistics, their history, and what distinguishes a set of operations.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A statistic that can be queried and counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Statistic {
    /// Base name, such as `nfs3.ops`. Brackets select and break down: `nfs3.ops[op=read][latency]`.
    pub name: String,
    /// Heading under which the statistic is listed, such as `Protocol`.
    pub category: String,
    /// Title for people, without breakdown.
    pub title: String,
    /// Unit: `ops`, `bytes`, `percent`.
    pub unit: String,
    /// Meaning of the statistic in one sentence.
    pub help: String,
    /// True if values are levels, which are averaged over time; false if they are rates per second.
    pub level: bool,
    /// Fields by which the statistic can be broken down or selected.
    pub fields: Vec<StatisticField>,
}

/// A possible breakdown of a statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticField {
    /// Name of the field, as written in the brackets of statistic names.
    pub name: String,
    /// Name of the field, for people.
    pub title: String,
    /// Whether it is numeric, which makes a heat map.
    pub heat_map: bool,
}

/// All statistics that the daemon can count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticList {
    /// Statistics, in the order in which forms show them.
    pub items: Vec<Statistic>,
}

/// A statistic that is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Number of the counted statistic, used in paths.
    pub id: u32,
    /// Name of the statistic, with its selections and breakdown.
    pub name: String,
    /// Title for people, derived from the name.
    pub title: String,
    /// Time since which it is counted, in seconds since 1970.
    pub created: u64,
    /// Whether counting is suspended. Values recorded before can still be queried.
    pub suspended: bool,
    /// Whether its values are stored on disk and survive a restart.
    pub archived: bool,
    /// Whether it is counted only while a client reads it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
    /// Memory that its values occupy, in bytes.
    pub incore_bytes: u64,
    /// Disk space that its values occupy, in bytes; 0 if it is not archived.
    pub ondisk_bytes: u64,
    /// Recent processor time for counting it, in nanoseconds per operation.
    pub cost_ns: f64,
}

/// Statistics that are counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CountedList {
    /// Counted statistics, including suspended ones.
    pub items: Vec<Counted>,
}

/// A statistic to count from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CountStatistic {
    /// Name of the statistic, such as `nfs3.ops[op=read][latency]`.
    pub name: String,
    /// Whether values are stored on disk, so that they survive a restart. Default false: only in
    /// memory.
    #[serde(default)]
    pub archived: bool,
}

/// Suspends or resumes a counted statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCounted {
    /// Whether counting is suspended. Values recorded before are kept.
    pub suspended: bool,
}

/// Deletes recorded values of a statistic up to a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneCounted {
    /// Values before this second, since 1970, are deleted.
    pub before: u64,
}

/// Values of a statistic over a time span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticData {
    /// Name of the statistic in canonical form.
    pub name: String,
    /// Title for people, derived from the name.
    pub title: String,
    /// Unit of `total` and of the cells, such as `ops`, `bytes` or `percent`.
    pub unit: String,
    /// True if values are levels: divide them by `seconds` for the average. False if they are
    /// rates: divide by `step`.
    pub level: bool,
    /// Length of a column, in seconds.
    pub step: u64,
    /// Seconds before this one are complete. A time before it without a column was not recorded; a
    /// later one is not recorded yet.
    #[serde(default)]
    pub closed: u64,
    /// Recorded columns in ascending order. A time without a column was not recorded, which is not
    /// the same as zero.
    pub columns: Vec<StatisticColumn>,
    /// Meaning of the keys in `cells`: names, or for a heat map the range of a row.
    pub keys: BTreeMap<String, CellKey>,
}

/// Meaning of a cell key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum CellKey {
    /// Name of a value, such as a client or a file.
    Name(String),
    /// Row of a heat map.
    Range {
        /// Lower edge of the row, inclusive, in the unit of the breakdown (nanoseconds, bytes).
        from: u64,
        /// Upper edge of the row, exclusive; absent for the last row, which has no end.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
}

/// One column: the values of a statistic in `step` seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticColumn {
    /// Start, in seconds since 1970.
    pub start: u64,
    /// Number of its seconds that were recorded.
    pub seconds: u32,
    /// Sum over the recorded seconds; the cells add up to it.
    pub total: u64,
    /// Of a heat map: average of the breakdown field. Absent for other statistics, and without
    /// operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// Of a heat map: largest value of the breakdown field; absent for other statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Keys and counts in turn: `[key, count, key, count, …]`. `keys` has the meaning of each key.
    pub cells: Vec<u64>,
}

/// Values of several statistics in one second: a message of the live stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveColumns {
    /// The second, since 1970.
    pub second: u64,
    /// One entry per statistic, in the order of the request.
    pub statistics: Vec<LiveStatistic>,
}

/// Value of a statistic in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveStatistic {
    /// Name of the statistic in canonical form.
    pub name: String,
    /// Values of this second; null if it was not recorded.
    pub column: Option<StatisticColumn>,
    /// Meaning of the keys in `cells`: names, or for a heat map the range of a row.
    pub keys: BTreeMap<String, CellKey>,
}

/// A line of an exported statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExportedValue {
    /// Start of the column, in seconds since 1970.
    pub start: u64,
    /// The same time for people, in UTC.
    pub time: String,
    /// Number of the column's seconds that were recorded.
    pub seconds: u32,
    /// Value of the breakdown, such as a client or a file; absent for a heat map or without a
    /// breakdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Of a heat map: lower edge of the row, inclusive; absent for other statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Of a heat map: upper edge of the row, exclusive; absent for the last row, which has no end,
    /// and for other statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Sum over the recorded seconds, in the unit of the statistic.
    pub count: u64,
    /// Count per second for rates, average for levels.
    pub value: f64,
}

/// What distinguishes the operations in a rectangle of a graph from the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticExplanation {
    /// Number of operations in the rectangle.
    pub inside: u64,
    /// Number of operations with which they were compared.
    pub outside: u64,
    /// Fields that distinguish them, the most significant first.
    pub fields: Vec<ExplainedField>,
    /// Average times of the operations in the rectangle.
    pub times_inside: OperationTimes,
    /// Average times of the operations with which they were compared.
    pub times_outside: OperationTimes,
}

/// A field and how its values differ between the rectangle and the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedField {
    /// Name of the field, as written in the brackets of statistic names.
    pub field: String,
    /// Name of the field, for people.
    pub title: String,
    /// Significance from 0 (no difference) to 1: the score of its most significant value.
    pub score: f64,
    /// The most significant values, at most 20.
    pub values: Vec<ExplainedValue>,
    /// Number of values that are not listed.
    pub more: u64,
}

/// A value of a field and how often it occurs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedValue {
    /// Name of the value, such as a client or a file.
    pub value: String,
    /// Number of operations with this value in the rectangle.
    pub inside: u64,
    /// Number of operations with this value among those compared with.
    pub outside: u64,
    /// Significance: 0 if as frequent as elsewhere, 1 if all operations in the rectangle and no
    /// others have it.
    pub score: f64,
}

/// Average time per operation, in nanoseconds, and the parts of it spent waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationTimes {
    /// Time from request to reply.
    pub latency_ns: f64,
    /// Part of the latency: waiting in the queue of the connection.
    pub queue_wait_ns: f64,
    /// Part of the latency: waiting for the intent log.
    pub log_wait_ns: f64,
    /// Part of the latency: waiting for a transaction group.
    pub txg_wait_ns: f64,
    /// Part of the latency: waiting for devices.
    pub disk_wait_ns: f64,
}

/// One recorded operation. Only recent ones are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedOperation {
    /// Completion time, in nanoseconds since 1970 (JavaScript rounds it to a quarter of a
    /// microsecond).
    pub ended_ns: u64,
    /// Module of the statistics that count it: `nfs3`, `nfs4`, `nfs4-1`, `fuse`, `disk`, `nbd`,
    /// `zil`, `send` or `receive`.
    pub layer: String,
    /// Type of the operation, such as `read`.
    pub op: String,
    /// Client; for a device, a log or a stream, the pool.
    pub client: String,
    /// User; empty for devices and logs.
    pub user: String,
    /// Share; for a device, its name.
    pub share: String,
    /// File as `DATASET/PATH`; empty for devices and logs. `<hidden>` if the caller may not see
    /// file names.
    pub file: String,
    /// Object number of the file; 0 if unknown or if the caller may not see file names.
    pub object: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
    /// Time from request to reply, in nanoseconds.
    pub latency_ns: u64,
    /// Part of the latency, in nanoseconds: NFS calls waiting behind others of their connection.
    pub queue_wait_ns: u64,
    /// Part of the latency, in nanoseconds: waiting for the intent log.
    pub log_wait_ns: u64,
    /// Part of the latency, in nanoseconds: waiting for a transaction group.
    pub txg_wait_ns: u64,
    /// Part of the latency, in nanoseconds: waiting for devices.
    pub disk_wait_ns: u64,
    /// Slowest cache lookup of the operation: `data hits`, `data misses`, `prefetched data hits`,
    /// `metadata hits`, `metadata misses`, `L2ARC hits`, or `no lookup`.
    pub cache: String,
    /// `ok`, or the error.
    pub result: String,
    /// In a stream: number of operations omitted before this one, because the client read more
    /// slowly than they occurred; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Recorded operations of a statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedOperationList {
    /// Operations in order of completion, the newest last.
    pub items: Vec<RecordedOperation>,
}
