//! File systems, volumes, snapshots and bookmarks.

use crate::Property;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Kinds of dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A file system.
    Filesystem,
    /// A volume.
    Volume,
    /// A snapshot of either.
    Snapshot,
    /// A bookmark, from which an incremental stream can start.
    Bookmark,
}

/// A dataset, in a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dataset {
    /// Full name: `pool/a/b`, `pool/a@snapshot`, `pool/a#bookmark`.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// Identity: a decimal number.
    pub guid: String,
    /// Time of creation.
    pub created: u64,
    /// Bytes that it and all below it use.
    pub used_bytes: u64,
    /// Bytes that can still be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Bytes that it can reach.
    pub referenced_bytes: u64,
    /// Most bytes that it and all below it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Size of a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
    /// Logical to physical bytes of what it references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress_ratio: Option<f64>,
    /// Where it would be mounted, or `none` or `legacy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mountpoint: Option<String>,
    /// Whether it is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<bool>,
    /// The snapshot that it was cloned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether it is encrypted, and if so, whether its key is there.
    pub key: KeyState,
    /// Datasets directly below it.
    pub children: u64,
    /// Snapshots that it has.
    pub snapshots: u64,
    /// Of a snapshot: tags of its holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// Of a snapshot: datasets that were cloned from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clones: Option<u64>,
}

/// Keys of encrypted datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It is not encrypted.
    NotEncrypted,
    /// Its key is loaded.
    Available,
    /// Its key is not loaded.
    Unavailable,
}

/// A dataset with its properties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatasetDetail {
    /// The line.
    #[serde(flatten)]
    pub dataset: Dataset,
    /// As `zfs get all` lists them.
    pub properties: Vec<Property>,
}

/// `zfs create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDataset {
    /// Full name.
    pub name: String,
    /// A volume of this size; without: a file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
    /// Reserve no space for the volume (`-s`).
    #[serde(default)]
    pub sparse: bool,
    /// Also create missing parents (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// Properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Passphrase or key, when properties ask for encryption with `keylocation=prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
}

/// `zfs rename`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameDataset {
    /// New full name.
    pub to: String,
    /// Create missing parents (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// Of a snapshot: those of the same name below too (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// `zfs load-key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadKey {
    /// Passphrase or key; without: it is read where `keylocation` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
}
