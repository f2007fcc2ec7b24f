//! Snapshots: taking them, what keeps them, going back to them, and what would be lost without them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// `zfs snapshot`: all of them at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshots {
    /// Full names, `pool/a@name`, all in one pool.
    pub names: Vec<String>,
    /// Of all datasets below them too, under the same names (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// User properties of the snapshots (`-o`).
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// `zfs destroy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DestroyDataset {
    /// The name of what is lost, repeated.
    pub confirm: String,
    /// Also what is below it; of a snapshot: also those of the same name below (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// Also clones, with what hangs on them (`-R`).
    #[serde(default)]
    pub clones: bool,
    /// A snapshot that is held or cloned goes once it is not any more (`-d`).
    #[serde(default)]
    pub deferred: bool,
    /// Also what is in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// What would be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DestroyPreview {
    /// How many datasets, snapshots and bookmarks.
    pub count: u64,
    /// Their names: the first 1000, in the order in which they would go.
    pub names: Vec<String>,
    /// Bytes that snapshots would give back. Of file systems and volumes nobody counts that before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed_bytes: Option<u64>,
}

/// `zfs rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// The snapshot's name, repeated: what was changed since is lost.
    pub confirm: String,
    /// Destroys snapshots and bookmarks that are newer (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// Destroys these and clones of them (`-R`).
    #[serde(default)]
    pub clones: bool,
    /// Also when something is in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zfs clone`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneSnapshot {
    /// Full name of the clone, in the same pool.
    pub to: String,
    /// Makes what is above it too (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// Properties of the clone.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// `zfs bookmark`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBookmark {
    /// Full name, `pool/a#name`.
    pub name: String,
    /// Of the snapshots of the same name below too (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// `zfs hold` and `zfs release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldSnapshot {
    /// What the hold is called.
    pub tag: String,
    /// Of the snapshots of the same name below too (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// What keeps a snapshot from being destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// The snapshot.
    pub snapshot: String,
    /// What it is called.
    pub tag: String,
    /// Since when: seconds since 1970.
    pub created: u64,
}
