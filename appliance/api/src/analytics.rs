//! Analytics: statistics, their history, and what distinguishes a set of operations.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A statistic that can be asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Statistic {
    /// Such as `nfs3.ops`: names are made of it by brackets, `nfs3.ops[op=read][latency]`.
    pub name: String,
    /// Category.
    pub category: String,
    /// As titles have it.
    pub title: String,
    /// Unit: `ops`, `bytes`, `percent`.
    pub unit: String,
    /// What it means.
    pub help: String,
    /// Whether its values are levels (averaged over time) and not rates (a second).
    pub level: bool,
    /// Possible breakdowns.
    pub fields: Vec<StatisticField>,
}

/// A possible breakdown of a statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticField {
    /// As it is written in names.
    pub name: String,
    /// As titles have it.
    pub title: String,
    /// Whether it is numeric, which makes a heat map.
    pub heat_map: bool,
}

/// Statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticList {
    /// They.
    pub items: Vec<Statistic>,
}

/// A statistic that is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// Number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The name in words.
    pub title: String,
    /// Since when.
    pub created: u64,
    /// Whether counting is suspended.
    pub suspended: bool,
    /// Whether it is kept on disk.
    pub archived: bool,
    /// Whether it is counted only while a client reads it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
    /// Bytes in memory.
    pub incore_bytes: u64,
    /// Bytes on disk.
    pub ondisk_bytes: u64,
    /// Recent processor time for counting it, in nanoseconds per operation.
    pub cost_ns: f64,
}

/// Statistics that are counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CountedList {
    /// They.
    pub items: Vec<Counted>,
}

/// Counts a statistic from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CountStatistic {
    /// Its name.
    pub name: String,
    /// Whether it is kept on disk, over restarts; only in memory else.
    #[serde(default)]
    pub archived: bool,
}

/// Changes how a statistic is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCounted {
    /// Whether counting is suspended; existing data is kept.
    pub suspended: bool,
}

/// Deletes data of a statistic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneCounted {
    /// Before this second.
    pub before: u64,
}

/// Values of a statistic over a time span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticData {
    /// Its name.
    pub name: String,
    /// The name in words.
    pub title: String,
    /// Unit.
    pub unit: String,
    /// Whether values are levels: divide by `seconds` for the average. Rates: divide by `step`.
    pub level: bool,
    /// Seconds of a column.
    pub step: u64,
    /// Seconds before this one are complete. A time before it without a column was not recorded; a
    /// later one is not recorded yet.
    #[serde(default)]
    pub closed: u64,
    /// Recorded columns in ascending order. A time without a column was not recorded, which is not
    /// the same as zero.
    pub columns: Vec<StatisticColumn>,
    /// Meaning of the cells' keys: names, or for a heat map the first number and the one after the
    /// last.
    pub keys: BTreeMap<String, CellKey>,
}

/// Meaning of a cell key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum CellKey {
    /// A client, a file …
    Name(String),
    /// A row of a heat map.
    Range {
        /// The first number in it.
        from: u64,
        /// The first that is not in it any more; absent for the last row, which has no end.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
}

/// A span of time of a statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticColumn {
    /// Start, in seconds since 1970.
    pub start: u64,
    /// How many of its seconds were recorded.
    pub seconds: u32,
    /// All of it. The cells add up to it.
    pub total: u64,
    /// Of a heat map: the average of what is broken down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average: Option<f64>,
    /// Of a heat map: the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Key and count, one after the other.
    pub cells: Vec<u64>,
}

/// Values of statistics in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveColumns {
    /// Which: seconds since 1970.
    pub second: u64,
    /// In the order in which they were asked for.
    pub statistics: Vec<LiveStatistic>,
}

/// Value of a statistic in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveStatistic {
    /// Its name.
    pub name: String,
    /// Its column; nothing if it was not counted.
    pub column: Option<StatisticColumn>,
    /// Meaning of the keys of its cells.
    pub keys: BTreeMap<String, CellKey>,
}

/// A line of an exported statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExportedValue {
    /// Start of the column, in seconds since 1970.
    pub start: u64,
    /// The same for people, in UTC.
    pub time: String,
    /// How many of the column's seconds were recorded.
    pub seconds: u32,
    /// Value of the breakdown, such as a client or a file; missing for a heat map or without a
    /// breakdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Of a heat map: the first number of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Of a heat map: the first number above it; nothing for the last row, which has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Amount.
    pub count: u64,
    /// A second (rates), or on average (levels).
    pub value: f64,
}

/// What distinguishes the operations in a rectangle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticExplanation {
    /// Operations in the range.
    pub inside: u64,
    /// Operations they were compared with.
    pub outside: u64,
    /// Fields, the most telling first.
    pub fields: Vec<ExplainedField>,
    /// Where the selected spent their time, on average.
    pub times_inside: OperationTimes,
    /// Where the others did.
    pub times_outside: OperationTimes,
}

/// A field, with its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedField {
    /// As it is written in names.
    pub field: String,
    /// As titles have it.
    pub title: String,
    /// From 0, nothing special, to 1.
    pub score: f64,
    /// The most special values.
    pub values: Vec<ExplainedValue>,
    /// Values that are not listed.
    pub more: u64,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedValue {
    /// What it is called.
    pub value: String,
    /// Operations with it in the rectangle.
    pub inside: u64,
    /// Others.
    pub outside: u64,
    /// From 0, as everywhere, to 1.
    pub score: f64,
}

/// Average nanoseconds per operation, by what they were spent on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationTimes {
    /// From request to answer.
    pub latency_ns: f64,
    /// Part of it: waiting in the queue.
    pub queue_wait_ns: f64,
    /// Part of it: waiting for the intent log.
    pub log_wait_ns: f64,
    /// Part of it: waiting for a transaction group.
    pub txg_wait_ns: f64,
    /// Part of it: waiting for devices.
    pub disk_wait_ns: f64,
}

/// One operation, of the last minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedOperation {
    /// End, in nanoseconds since 1970 (JavaScript rounds them to a quarter of a microsecond).
    pub ended_ns: u64,
    /// `nfs3`, `nfs4`, `nfs4-1`, `fuse`, `disk` or `nbd`.
    pub layer: String,
    /// What it was.
    pub op: String,
    /// Client; for a device, its pool.
    pub client: String,
    /// For whom; empty for devices.
    pub user: String,
    /// Of which share; the device.
    pub share: String,
    /// Which file; empty for devices.
    pub file: String,
    /// Its number; 0 if unknown.
    pub object: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// How long it took.
    pub latency_ns: u64,
    /// Part of it: NFS calls waiting behind others of their connection.
    pub queue_wait_ns: u64,
    /// Waiting for the intent log.
    pub log_wait_ns: u64,
    /// Waiting for a transaction group.
    pub txg_wait_ns: u64,
    /// Waiting for devices.
    pub disk_wait_ns: u64,
    /// Result of the cache lookup: `data hits`, `data misses` …, `no lookup`.
    pub cache: String,
    /// `ok`, or the error.
    pub result: String,
    /// In a stream: number of operations missing before this one, because the client read more
    /// slowly than they occurred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedOperationList {
    /// They, the newest last.
    pub items: Vec<RecordedOperation>,
}
