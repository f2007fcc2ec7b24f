//! Every structure that ZFS stores on disk: bytes in, validated value out, and back.
//!
//! **Invariant: no I/O, no unsafe, no panic on any input, and no allocation larger than the input
//! justifies.** The caller knows where the bytes came from and has verified their checksum; this
//! crate only interprets them.
//!
//! # A tour of a pool
//!
//! ZFS never overwrites data in use. A change writes new blocks, up to the root; the last write of
//! a transaction group, at most 8 KiB, makes the new root valid. Everything is therefore reached
//! through a chain of pointers, each with the checksum of its target. A pool is read by following
//! that chain from the first bytes of a disk to the last bytes of a file:
//!
//! ```text
//! disk     label ──────────────────────────────┐ which device, which pool, which other devices
//!            └ uberblock (newest valid one)    │ the root: one pointer
//!                └ object set "MOS" ◄──────────┘ objects of the pool as a whole
//!                    └ object 1, the object directory: names ─► objects
//!                        ├ config, features, history, scan, errors, dedup, space maps ..
//!                        └ root_dataset ─► directory ─► dataset ─► object set of a file system
//!                                                                    └ object 1, the master node
//!                                               data ◄─ file ◄─ directory ◄─ ROOT ◄─┘
//! ```
//!
//! **1. The label identifies the disk.** Four copies of a [`label`], two at each end of the device,
//! hold an [`nvlist`]: the pool's name and GUID, the vdev tree that this device belongs to (field
//! names: [`pool_dir::config`]), and the features required to read the MOS ([`feature`]).
//!
//! **2. The root.** Each label contains a ring of [`uberblock`]s, one for each *transaction group*
//! ([`Txg`]). The newest one with a valid checksum is the current state of the pool. It is little
//! more than one pointer.
//!
//! **3. Pointers.** A block pointer ([`blkptr`]) holds up to three addresses of the same block, its
//! size before and after [`Compression`], the [`Checksum`] of its contents, and its birth txg. If
//! no free range was large enough, an address refers to a [`gang`] header; if the vdev was removed
//! since, [`indirect`] maps it to the block's current location.
//!
//! **4. Objects.** The uberblock's pointer leads to an object set ([`objset`]), the *meta object
//! set* (MOS). An object set is an array of [`dnode`]s. A dnode describes an object, a sequence of
//! blocks of equal size: its [`ObjectType`], its size, the tree of pointers to its blocks, and a
//! *bonus*, a few bytes of inline data. Objects that are tables are [`zap`]s: names to numbers.
//!
//! **5. Pool-wide data.** Object 1 of the MOS is a ZAP; [`pool_dir::directory`] lists its names:
//! allocated space ([`spacemap`]), blocks to be freed ([`bpobj`]), [`history`], the state of scrub
//! and resilver ([`scan`]), removals ([`removal`]), unreadable blocks ([`errlog`]), and blocks with
//! several references ([`ddt`], [`brt`]).
//!
//! **6. Datasets.** `root_dataset` is a directory ([`dsl_dir`]): a node of the dataset tree, with
//! properties, quotas and children. Its head and each snapshot is a dataset ([`dsl_dataset`]): a
//! pointer to an object set. Each dataset has a [`deadlist`], the blocks that only snapshots still
//! reference. A [`dsl_bookmark`] records a snapshot that may be gone, and may list blocks that a
//! redacted stream of it leaves out ([`redaction_list`]).
//!
//! **7. Files.** Object 1 of a file system's object set, the master node, names the root directory.
//! A directory is a ZAP that maps names to object numbers ([`znode`]). Mode, owner, times and so on
//! are system attributes ([`sa`]) in the bonus, or in old file systems a [`znode`]; permissions
//! beyond the mode are an [`acl`]. The object's blocks are the contents of the file.
//!
//! **8. Outside the tree.** Synchronous writes since the last txg are in the intent log ([`zil`]),
//! a chain of blocks that starts in the object set. A cache device has its own header ([`l2arc`]).
//! A dataset in transit to another pool is a stream of [`send_record`]s.
//!
//! # How to read these modules
//!
//! Each module begins with the structure's table (offset, bytes, the format's name of the field,
//! the version or feature that introduced it) and some bytes that OpenZFS wrote; a test compares
//! these bytes with the golden files in `testdata/`. Numbers are in the byte order of the host that
//! wrote them ([`Endian`]), which magic numbers and block pointers reveal. The structs use Weir's
//! own field names, with units.
//!
//! Rejected input is returned as an [`Error`]: `Corrupt` if the bytes cannot be valid,
//! `Unsupported` if they may be but Weir does not support the variant.

#![forbid(unsafe_code)]

pub mod acl;
pub mod blkptr;
mod blkptr_build;
pub mod bpobj;
pub mod brt;
pub mod byteswap;
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
pub mod redaction_list;
pub mod removal;
pub mod sa;
pub mod scan;
pub mod send_record;
pub mod spacemap;
pub mod types;
pub mod uberblock;
pub mod version;
pub mod zap;
pub mod zil;
pub mod znode;

#[cfg(test)]
mod testing;

pub use blkptr::{BlkPtr, Dva};
pub use blkptr_build::NewBlock;
pub use deadlist::DeadlistHeader;
pub use dnode::Dnode;
pub use dsl_bookmark::{DslBookmark, SpaceTriple};
pub use dsl_dataset::DslDataset;
pub use dsl_dir::{DslDir, UsedBreakdown};
pub use endian::Endian;
pub use error::{Error, Result};
pub use nvlist::Nvlist;
pub use objset::{Objset, ObjsetKind, ZilHeader};
pub use redaction_list::{RedactBlock, RedactionList};
pub use types::{Checksum, Compression, ObjectType, Txg};
pub use uberblock::Uberblock;
