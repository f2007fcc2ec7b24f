//! Worksheets: statistics that are viewed together.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Contents of a worksheet that users can change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveWorksheet {
    /// Title, 1 to 200 bytes.
    pub title: String,
    /// Comment, up to 4096 bytes.
    #[serde(default)]
    pub comment: String,
    /// Its graphs, from above: up to 64. Saving it archives their statistics.
    pub graphs: Vec<WorksheetGraph>,
    /// Time span that it shows.
    pub span: WorksheetSpan,
}

/// A graph of a worksheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorksheetGraph {
    /// Its statistic, such as `nfs3.ops[latency]`.
    pub name: String,
    /// Display settings of the page: stored unchanged, up to 4096 bytes.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub view: serde_json::Map<String, serde_json::Value>,
}

/// Time span of a worksheet: the last `seconds`, or always `from` to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorksheetSpan {
    /// The last so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// First second, since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The first second that is not shown any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// A worksheet that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worksheet {
    /// Number.
    pub id: u32,
    /// What it is called.
    pub title: String,
    /// Comment.
    pub comment: String,
    /// Owner.
    pub owner: String,
    /// When.
    pub created: u64,
    /// When it was changed last.
    pub changed: u64,
    /// Its graphs, from above.
    pub graphs: Vec<WorksheetGraph>,
    /// Time span that it shows.
    pub span: WorksheetSpan,
}

/// Worksheets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorksheetList {
    /// They, by title.
    pub items: Vec<Worksheet>,
}
