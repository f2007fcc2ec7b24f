//! Properties of pools and datasets.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A property, its value and the source of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Property {
    /// Name.
    pub name: String,
    /// Value for programs: numbers in full.
    pub value: String,
    /// Value for people.
    pub text: String,
    /// Its source.
    pub source: Source,
    /// The dataset that it is inherited from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<String>,
    /// Whether it can be set here.
    pub editable: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It is what it is.
    None,
    /// Nothing is set.
    Default,
    /// Overridden for now, by the mount or the import.
    Temporary,
    /// Set here.
    Local,
    /// Set above.
    Inherited,
    /// Came with a stream.
    Received,
}

/// Description of a property, for forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyDefinition {
    /// Name.
    pub name: String,
    /// Of pools or of datasets.
    pub of: PropertyOf,
    /// What values are.
    pub kind: ValueKind,
    /// The words it can be, if it is one of some.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub choices: Vec<String>,
    /// The value when nothing is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Values that are accepted, in one line.
    pub values: String,
    /// What it means, in one sentence.
    pub help: String,
    /// It can be set at any time.
    pub editable: bool,
    /// It is chosen when the dataset or pool is created.
    pub set_once: bool,
    /// Datasets below take it over.
    pub inheritable: bool,
    /// Kinds of dataset that have it: `filesystem`, `volume`, `snapshot`, `bookmark`.
    pub kinds: Vec<String>,
}

/// Whose a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PropertyOf {
    /// Pools.
    Pool,
    /// Datasets.
    Dataset,
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A number.
    Number,
    /// A number of bytes.
    Bytes,
    /// A factor, such as `1.50`.
    Ratio,
    /// Seconds since 1970.
    Time,
    /// One of `choices`.
    Choice,
    /// Text.
    Text,
}

/// Changes of properties; all of them, or none if one is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeProperties {
    /// New values.
    pub set: BTreeMap<String, String>,
    /// Properties that shall hold what is set above, or the default. Done after `set`.
    pub inherit: Vec<String>,
}
