//! What tests of several crates need: random numbers, devices that fail, image files, zdb, locks
//! whose order a test chooses, and a store without a pool.
//!
//! Only ever a dev-dependency, except in the other crates of `testing/`. `sync` needs the feature
//! `engine`, and `schedule` the feature `schedule`. A crate may use `sync` in its folder `tests/`
//! but not in the unit tests in `src/`: there its own types are not those that this crate was built
//! with.

mod chance;
mod disk;
mod hex;
pub mod images;
#[cfg(feature = "schedule")]
pub mod schedule;
#[cfg(feature = "engine")]
pub mod sync;
pub mod zdb;

pub use chance::{Chance, noise};
pub use disk::Disk;
pub use hex::{hex, unhex, unhex_array};
