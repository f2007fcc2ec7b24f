//! Administration of pools and datasets, one function per operation, for the command line and other
//! front ends.
//!
//! **Invariant: nothing here prints or prompts. Prompts are passed in as functions.**

pub mod add;
pub mod advice;
pub mod attach;
pub mod autoreplace;
pub mod cache_file;
pub mod clear;
pub mod compatibility;
pub mod create;
pub mod environments;
pub mod errata;
pub mod health;
pub mod house;
pub mod import;
pub mod kept_keys;
pub mod keys;
pub mod latest;
pub mod layout;
pub mod mounts;
pub mod new_key;
pub mod open;
pub mod plan;
pub mod pool_properties;
pub mod principals;
mod provider;
pub mod remove;
pub mod schedule;
pub mod spares;
pub mod split;
pub mod state;
pub mod states;
pub mod vdev_names;
pub mod vdev_properties;
pub mod verbs;
pub mod verify;
pub mod view;
mod volume_use;
mod volumes;
pub mod write;

pub use house::{House, OwnedPool};
pub use keys::{KeyFile, KeySource};
pub use open::{OpenPool, open_pool};
pub use volume_use::OpenVolume;
