//! Worksheets: statistics that are viewed together.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The part of a worksheet that users edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveWorksheet {
    /// Title, 1 to 200 bytes.
    pub title: String,
    /// Comment, up to 4096 bytes.
    #[serde(default)]
    pub comment: String,
    /// Graphs from top to bottom, at most 64. Saving the worksheet archives their statistics.
    pub graphs: Vec<WorksheetGraph>,
    /// Time span of all graphs.
    pub span: WorksheetSpan,
}

/// A graph of a worksheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorksheetGraph {
    /// Name of the statistic, such as `nfs3.ops[latency]`.
    pub name: String,
    /// Display settings of the page: stored unchanged, up to 4096 bytes.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub view: serde_json::Map<String, serde_json::Value>,
}

/// Time span of a worksheet: either the last `seconds`, or the fixed span `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorksheetSpan {
    /// Length in seconds of a span that ends now; absent for a fixed span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// First second of a fixed span, since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// End of a fixed span (exclusive), in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A stored worksheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worksheet {
    /// Number of the worksheet; never reused.
    pub id: u32,
    /// Title, 1 to 200 bytes; not unique.
    pub title: String,
    /// Comment, up to 4096 bytes; may be empty.
    pub comment: String,
    /// User who created it.
    pub owner: String,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
    /// Time of the last change, in seconds since 1970.
    pub changed: u64,
    /// Graphs from top to bottom.
    pub graphs: Vec<WorksheetGraph>,
    /// Time span of all graphs.
    pub span: WorksheetSpan,
}

/// All worksheets, in one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorksheetList {
    /// Worksheets, sorted by title.
    pub items: Vec<Worksheet>,
}
