//! A pool: its devices, its own objects, its features and its space.
//!
//! **Invariant: a pool is shown as one synced txg left it. What the labels, the uberblock and the MOS say must fit
//! together, or opening fails with the place where they do not.**

pub mod clones;
pub mod config;
mod dedup;
pub mod devices;
mod facts;
pub mod feature;
mod import;
mod pool;
pub mod property;
pub mod scan;
pub mod space;
pub mod stats;
pub mod status;
pub mod usable;
pub mod writer;

pub use block::inject;
pub use block::l2;
pub use block::vdev::set_slow;
pub use block::zevent;
pub use block::{Block, Bookmark, Class, Stopwatch, Store, nanoseconds};
pub use facts::LoggedError;
pub use import::open::{OpenOptions, packed_list, uberblocks};
pub use import::search::{FoundDevice, FoundPool, PoolState, Search, Skipped, search, search_devices};
pub use object::{Error, Place, Refusal, Result};
pub use pool::Pool;
pub use space::alloc::SpaceCheck;
pub use writer::{Participant, SyncTx, Writer};
