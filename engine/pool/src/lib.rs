//! A pool: its devices, the MOS, its features and its space.
//!
//! **Invariant: an open pool shows the state of one synced txg. Labels, uberblock and MOS must be
//! consistent, or opening fails with an error that names the place.**
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod cache_file;
mod checkpoint;
pub mod clones;
pub mod config;
mod dedup;
pub mod devices;
mod expansion;
mod facts;
pub mod feature;
mod import;
pub mod mmp;
mod pool;
pub mod property;
mod removal;
pub mod scan;
pub mod space;
pub mod stats;
pub mod status;
mod trim;
mod txg;
pub mod usable;
pub mod writer;

pub use facts::LoggedError;
pub use import::open::{OpenOptions, packed_list, uberblocks};
pub use import::search::{FoundDevice, FoundPool, PoolState, Search, Skipped, search, search_devices};

pub use pool::Pool;
pub use space::alloc::SpaceCheck;
pub use writer::{Participant, SyncTx, Writer};
