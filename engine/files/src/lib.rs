//! The contents of a dataset: directories and files, or a volume.
//!
//! **Invariant: this crate knows nothing of FUSE, NFS or NBD; [`vfs::Vfs`] is the only interface
//! that servers see.**
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod diff;
pub mod memory;
pub mod namespace;
pub mod nfs4_acl;
pub mod posix_acl;
pub mod vfs;
pub mod volume;
mod volume_file;
pub mod zpl;

pub use volume::Volume;
pub use volume_file::VolumeFile;
pub use zpl::FileSystem;
