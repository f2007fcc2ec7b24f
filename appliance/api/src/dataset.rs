//! File systems, volumes, snapshots and bookmarks.

use crate::Property;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Type of a dataset, as the property `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A file system (`zfs create`).
    Filesystem,
    /// A volume: a block device of fixed size (`zfs create -V`).
    Volume,
    /// A snapshot of a file system or volume.
    Snapshot,
    /// A bookmark, from which an incremental stream can start.
    Bookmark,
}

/// A dataset in short form, as in lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dataset {
    /// Full name: `pool/a/b`, `pool/a@snapshot`, `pool/a#bookmark`.
    pub name: String,
    /// Type of the dataset.
    pub kind: DatasetKind,
    /// GUID, a decimal number of 64 bits.
    pub guid: String,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
    /// Property `used`: bytes that it and its descendants occupy.
    pub used_bytes: u64,
    /// Property `available`: bytes that can still be written; absent for snapshots and bookmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Property `referenced`: bytes accessible through it, shared with other datasets or not.
    pub referenced_bytes: u64,
    /// Property `quota`: limit for the bytes of it and its descendants; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Property `volsize`: size of a volume, or of the volume when a snapshot was taken, in bytes;
    /// absent for file systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
    /// Property `compressratio`: logical divided by physical bytes of what it references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress_ratio: Option<f64>,
    /// Property `mountpoint`: a path, `none` or `legacy`; only of file systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mountpoint: Option<String>,
    /// Whether it is mounted on this machine; only of file systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<bool>,
    /// Snapshot from which it was cloned; absent if it is not a clone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether it is encrypted, and whether its key is loaded.
    pub key: KeyState,
    /// Number of direct children.
    pub children: u64,
    /// Number of its own snapshots.
    pub snapshots: u64,
    /// Of a snapshot: number of holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<u64>,
    /// Of a snapshot: number of its clones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clones: Option<u64>,
}

/// State of a dataset's encryption key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// The dataset is not encrypted.
    NotEncrypted,
    /// The key is loaded (`keystatus=available`).
    Available,
    /// The key is not loaded (`keystatus=unavailable`): the dataset cannot be mounted.
    Unavailable,
}

/// A dataset with its properties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DatasetDetail {
    /// The short form.
    #[serde(flatten)]
    pub dataset: Dataset,
    /// All its properties, as `zfs get all` lists them.
    pub properties: Vec<Property>,
}

/// `zfs create`: creates a file system or volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDataset {
    /// Full name, such as `pool/a/b`.
    pub name: String,
    /// Size of the volume in bytes; absent: create a file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
    /// Reserve no space for the volume (`-s`).
    #[serde(default)]
    pub sparse: bool,
    /// Also create missing parents (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// Properties to set (`-o`), by name; values as in `zfs create`.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Passphrase or key, required if the properties enable encryption with `keylocation=prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
}

/// `zfs rename`: renames a dataset or snapshot within its pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameDataset {
    /// New full name, in the same pool.
    pub to: String,
    /// Create missing parents (`-p`).
    #[serde(default)]
    pub parents: bool,
    /// For a snapshot: also rename those of the same name below (`-r`).
    #[serde(default)]
    pub recursive: bool,
}

/// `zfs load-key`: loads the key of an encryption root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadKey {
    /// Passphrase or key; absent: it is read from `keylocation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<String>,
}
