//! From files and disks to an open pool.
//!
//! ZFS name: zutil_import, spa_load.

pub(crate) mod build;
pub mod open;
mod parity;
pub(crate) mod removed;
pub mod search;
mod stale;
