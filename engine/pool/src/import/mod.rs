//! From files and disks to an open pool.
//!
//! ZFS name: zutil_import, spa_load.

pub(crate) mod build;
pub(crate) mod indirect_mapping;
pub mod open;
mod parity;
pub mod search;
mod stale;
mod warm;
