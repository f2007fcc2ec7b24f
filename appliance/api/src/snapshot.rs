//! Snapshots: taking them, holds and clones that keep them, rollback, and what destroying them
//! would lose.

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
    /// Name of the object to destroy, repeated to confirm.
    pub confirm: String,
    /// Also descendants; for a snapshot, also those of the same name below (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// Also clones and their dependents (`-R`).
    #[serde(default)]
    pub clones: bool,
    /// A snapshot that is held or cloned goes once it is not any more (`-d`).
    #[serde(default)]
    pub deferred: bool,
    /// Also datasets in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// Datasets and snapshots that would be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DestroyPreview {
    /// How many datasets, snapshots and bookmarks.
    pub count: u64,
    /// Their names: the first 1000, in the order in which they would go.
    pub names: Vec<String>,
    /// Bytes that snapshots would free. Not known in advance for file systems and volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed_bytes: Option<u64>,
}

/// `zfs rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// The snapshot's name, repeated to confirm that later changes are lost.
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
    /// Also creates missing parents (`-p`).
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
    /// Tag of the hold.
    pub tag: String,
    /// Of the snapshots of the same name below too (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// A hold on a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// The snapshot.
    pub snapshot: String,
    /// What it is called.
    pub tag: String,
    /// Since when: seconds since 1970.
    pub created: u64,
}
