//! Every structure that ZFS puts on disk: bytes in, checked value out, and back.
//!
//! **Invariant: no I/O, no unsafe, no panic on any bytes, and no allocation larger than the input calls for.**
//! Whoever calls knows where the bytes came from and has verified their checksum; this crate only says what they mean.

#![forbid(unsafe_code)]

pub mod acl;
pub mod blkptr;
pub mod bpobj;
pub mod brt;
pub mod ddt;
pub mod deadlist;
pub mod dnode;
pub mod dsl_bookmark;
pub mod dsl_dataset;
pub mod dsl_dir;
pub mod endian;
pub mod errlog;
pub mod error;
pub mod feature;
pub mod gang;
pub mod history;
pub mod indirect;
pub mod l2arc;
pub mod label;
pub mod nvlist;
pub mod objset;
pub mod pool_dir;
pub mod removal;
pub mod sa;
pub mod scan;
pub mod send_record;
pub mod spacemap;
pub mod types;
pub mod uberblock;
pub mod zap;
pub mod zil;
pub mod znode;

#[cfg(test)]
mod testing;

pub use blkptr::{BlkPtr, Dva};
pub use deadlist::DeadlistHeader;
pub use dnode::Dnode;
pub use dsl_bookmark::{DslBookmark, RedactionList, SpaceTriple};
pub use dsl_dataset::DslDataset;
pub use dsl_dir::{DslDir, UsedBreakdown};
pub use endian::Endian;
pub use error::{Error, Result};
pub use nvlist::Nvlist;
pub use objset::{Objset, ObjsetKind, ZilHeader};
pub use types::{Checksum, Compression, ObjectType, Txg};
pub use uberblock::Uberblock;
