//! The dataset tree: file systems, volumes, their snapshots and bookmarks, and their properties.
//!
//! **Invariant: this crate knows a dataset's name, size and keys; it never interprets its
//! contents.** Files are the responsibility of `files`.
//!
//! ```text
//!   Datasets ── Dir ── Dataset (head) ── Dataset (snapshots) ── Bookmark
//!                │        └ objset(keys) -> object::ObjectSet
//!                └ children, properties, quota, reservation
//! ```
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod bookmark;
mod contents;
pub mod dataset;
pub mod deadlist;
pub mod delegation;
pub mod diff;
pub mod dir;
pub mod intent_log;
pub mod keys;
pub mod live;
pub mod name;
pub mod pages;
pub mod property;
pub mod quota;
pub mod receive;
pub mod redact;
pub mod resume;
pub mod send;
mod space;
pub mod stream;
pub mod tree;
pub mod write;
mod zap;

pub use bookmark::Bookmark;
pub use dataset::{Dataset, DatasetKind, Hold};
pub use delegation::Credentials;
pub use diff::ObjectChange;
pub use dir::{Dir, SnapshotNames};
pub use keys::{KeyLocation, KeyStore};
pub use live::{LiveDataset, LiveDatasets, Settings};

pub use property::{Mounts, Property, PropertyDef, PropertyValue, Source, View};
pub use quota::{Accounts, Principal, Usage};
pub use tree::{Datasets, Entry, ListOptions, Listing};
