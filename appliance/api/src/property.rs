//! Properties of pools and datasets.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A property, its value and the source of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Property {
    /// Name, as `zfs get` and `zpool get` show it.
    pub name: String,
    /// Value for programs: numbers are unabbreviated, as with `-p`.
    pub value: String,
    /// Value for people: numbers are abbreviated, such as `1.50G`.
    pub text: String,
    /// Where the value comes from.
    pub source: Source,
    /// Dataset from which it is inherited; absent for other sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<String>,
    /// Whether it can be set on this object.
    pub editable: bool,
}

/// Where the value of a property comes from, as in the column `SOURCE` of `zfs get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `-`: a read-only value.
    None,
    /// The default value: neither the object nor an ancestor sets it.
    Default,
    /// Overridden until the next mount or import.
    Temporary,
    /// Set on this object.
    Local,
    /// Set on an ancestor.
    Inherited,
    /// Received with a stream.
    Received,
}

/// Description of a property, for forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PropertyDefinition {
    /// Name, as `zfs get` and `zpool get` show it.
    pub name: String,
    /// Whether pools or datasets have it.
    pub of: PropertyOf,
    /// Type of its values.
    pub kind: ValueKind,
    /// Words that are accepted; empty unless `kind` is `choice`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub choices: Vec<String>,
    /// Value if nothing is set; absent if there is no fixed default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Values that are accepted, in one line.
    pub values: String,
    /// Meaning of the property in one sentence.
    pub help: String,
    /// Whether it can be set at any time.
    pub editable: bool,
    /// Whether it can only be set at creation.
    pub set_once: bool,
    /// Whether descendants inherit it.
    pub inheritable: bool,
    /// Kinds of dataset that have it: `filesystem`, `volume`, `snapshot`, `bookmark`. Empty for
    /// pools.
    pub kinds: Vec<String>,
}

/// Type of object that has a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PropertyOf {
    /// A property of pools (`zpool get`).
    Pool,
    /// A property of datasets (`zfs get`).
    Dataset,
}

/// Type of a property's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// A decimal number without unit, or a percentage.
    Number,
    /// A size in bytes. Suffixes such as `10G` are accepted.
    Bytes,
    /// A factor, such as `1.50`.
    Ratio,
    /// A time, in seconds since 1970.
    Time,
    /// One of the words in `choices`.
    Choice,
    /// Any text.
    Text,
}

/// Changes of properties; all of them, or none if one is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeProperties {
    /// Properties to set, by name; values as in `zfs set`.
    pub set: BTreeMap<String, String>,
    /// Properties to reset to the inherited value or the default (`zfs inherit`), after `set`.
    /// Pools do not inherit.
    pub inherit: Vec<String>,
}
