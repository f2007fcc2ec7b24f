//! Serving file systems to clients: the kernel's FUSE for now.
//!
//! **Invariant: a server knows `files::vfs` and its protocol; never a dataset, a pool or an on-disk format.**

pub mod fuse;
pub mod nfs;
