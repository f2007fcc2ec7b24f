//! Snapshots: taking them, holds and clones that keep them, rollback, and what destroying them
//! would lose.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// `zfs snapshot`: takes snapshots, all of the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshots {
    /// Full names, `pool/a@name`, all in one pool: 1 to 1,000.
    pub names: Vec<String>,
    /// Also of all descendants, under the same names (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// User properties of the snapshots (`-o`).
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// `zfs destroy`: destroys a dataset, a bookmark, or snapshots of one dataset.
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
    /// Destroy a snapshot later if it is held or cloned: after its last hold and clone are gone
    /// (`-d`).
    #[serde(default)]
    pub deferred: bool,
    /// Unmount file systems even if they are in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// What a destroy request would destroy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DestroyPreview {
    /// Number of datasets, snapshots and bookmarks.
    pub count: u64,
    /// Names of the first 1,000, in the order of destruction.
    pub names: Vec<String>,
    /// Bytes that destroying snapshots would free; absent for file systems and volumes, where it is
    /// not known in advance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed_bytes: Option<u64>,
}

/// `zfs rollback`: reverts a dataset to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// Full name of the snapshot, repeated to confirm that later changes are lost.
    pub confirm: String,
    /// Destroy newer snapshots and bookmarks (`-r`).
    #[serde(default)]
    pub recursive: bool,
    /// Destroy newer snapshots and bookmarks, and clones of them (`-R`).
    #[serde(default)]
    pub clones: bool,
    /// Unmount file systems even if they are in use (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// `zfs clone`: creates a file system or volume from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneSnapshot {
    /// Full name of the clone, in the same pool.
    pub to: String,
    /// Create missing parents (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// Properties to set on the clone (`-o`), by name; values as in `zfs set`.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// `zfs bookmark`: creates a bookmark of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBookmark {
    /// Full name of the bookmark, such as `pool/a#name`.
    pub name: String,
    /// Also for the snapshots of the same name below (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// `zfs hold` and `zfs release`: a hold protects a snapshot from being destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldSnapshot {
    /// Tag of the hold.
    pub tag: String,
    /// Also for the snapshots of the same name below (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// A hold on a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// Full name of the snapshot, `pool/a@name`.
    pub snapshot: String,
    /// Tag of the hold; unique for each snapshot.
    pub tag: String,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
}
