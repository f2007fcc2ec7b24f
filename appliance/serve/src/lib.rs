//! Servers that export file systems and volumes to clients: FUSE, NFS and NBD.
//!
//! **Invariant: a server uses `files::vfs` and its own protocol, never a dataset, a pool or an
//! on-disk format.**

pub mod fuse;
pub mod nbd;
mod net;
pub mod network;
pub mod nfs;
