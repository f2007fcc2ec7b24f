//! Every structure that ZFS puts on disk: bytes in, checked value out, and back.
//!
//! **Invariant: no I/O, no unsafe, no panic on any bytes, and no allocation larger than the input calls for.**
//! Whoever calls knows where the bytes came from and has verified their checksum; this crate only says what they mean.
//!
//! # A walk through a pool
//!
//! ZFS never writes over data in use. A change makes new blocks, up to the root, and the last write of a round, of 8
//! KiB at most, makes the new root valid. So everything hangs on a chain of pointers, each with the checksum of what
//! it points at, and a pool is read by following that chain from a disk's first bytes to a file's last:
//!
//! ```text
//! disk       label ──────────────────────────────────┐ who am I, which pool, which other disks
//!              └ uberblock (newest valid one)        │ the root: one pointer
//!                  └ object set "MOS" ◄──────────────┘ what belongs to the pool as a whole
//!                      └ object 1, the object directory: names ─► objects
//!                          ├ config, features, history, scan, errors, dedup, space maps ..
//!                          └ root_dataset ─► directory ─► dataset ─► object set of a file system
//!                                                                      └ object 1, the master node
//!                                                                          └ ROOT ─► directory ─► file ─► data
//! ```
//!
//! **1. A disk says who it is.** Four copies of a [`label`], two at each end of the device, hold an [`nvlist`]: the
//! pool's name and guid, and the tree of devices that this one belongs to (names of its fields: [`pool_dir::config`]).
//! What else one must know to read this pool: [`feature`].
//!
//! **2. The root.** In each label a ring of [`uberblock`]s, one for each write round (*transaction group*, [`Txg`]).
//! The newest whose checksum is right is the pool. It is little more than one pointer.
//!
//! **3. Pointers.** A block pointer ([`blkptr`]) has up to three addresses of the same block, its size before and
//! after [`Compression`], the [`Checksum`] of its contents, and when it was born. If no hole was large enough, an address
//! is that of a [`gang`] header; if the device was removed since, [`indirect`] says where the block went.
//!
//! **4. Objects.** The uberblock's pointer leads to an object set ([`objset`]), this one being the *meta object set*.
//! An object set is an array of [`dnode`]s. A dnode describes an object, a row of equal blocks: its [`ObjectType`],
//! its size, the tree of pointers to its blocks, and a *bonus*, some bytes of its own. Objects that are tables are
//! [`zap`]s: names to numbers.
//!
//! **5. What the pool keeps.** Object 1 of the MOS is a ZAP; [`pool_dir::directory`] lists its names:
//! what is allocated ([`spacemap`]), what is to be freed ([`bpobj`]), what happened ([`history`]), how scrub and resilver
//! stand ([`scan`]), removals ([`removal`]), which blocks could not be read ([`errlog`]), and blocks that are used more
//! than once ([`ddt`], [`brt`]).
//!
//! **6. Datasets.** `root_dataset` is a directory ([`dsl_dir`]): a node of the tree of names, with properties, quotas
//! and children. Its head, and every snapshot, is a dataset ([`dsl_dataset`]): a state, that is, a pointer to an
//! object set. Each state has a [`deadlist`], the blocks that only snapshots still need; a [`dsl_bookmark`] remembers
//! a snapshot that is gone.
//!
//! **7. Files.** Object 1 of a file system's object set, the master node, names the root directory. A directory is a
//! ZAP of names to object numbers ([`znode`]). Mode, owner, times and the like are system attributes ([`sa`]) in the
//! bonus, or in old file systems a [`znode`]; permissions beyond the mode are an [`acl`]. The object's blocks are the
//! file's contents.
//!
//! **8. What the round did not catch.** Synchronous writes since the last round are in the intent log ([`zil`]), a
//! chain of blocks that begins in the object set. A cache device has a header of its own ([`l2arc`]). A dataset on its
//! way to another pool is a stream of [`send_record`]s.
//!
//! # How to read these pages
//!
//! Each module opens with the structure's table (offset, bytes, the format's name of the field, since which version or
//! feature) and some bytes that OpenZFS wrote; a test holds the bytes shown against the golden files in `testdata/`.
//! Numbers are in the order of the host that wrote them ([`Endian`]), which magics and block pointers tell. In the
//! structs, fields have names of ours, with units.
//!
//! What is refused comes back as [`Error`]: `Corrupt` when the bytes cannot be right, `Unsupported` when they may be,
//! but Weir does not know the variant.

#![forbid(unsafe_code)]

pub mod acl;
pub mod blkptr;
mod blkptr_build;
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
pub use blkptr_build::NewBlock;
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
