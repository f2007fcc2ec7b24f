//! Serving file systems and volumes to clients: the kernel's FUSE, NFS and NBD.
//!
//! **Invariant: a server knows `files::vfs` and its protocol; never a dataset, a pool or an on-disk format.**

pub mod fuse;
pub mod nbd;
pub mod network;
pub mod nfs;
