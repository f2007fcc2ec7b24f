//! The block pipeline, read side: addresses -> copies -> gang members -> checksum -> MAC and decryption -> decompression.
//!
//! Below: `vdev`, `transform`. Above: `store`. ZFS name: zio.

pub(crate) mod check;
mod gang;
mod prefetch;
mod read;
mod verify;

pub use check::{Salt, decompress};
pub use gang::members as gang_members;
pub use prefetch::Prefetcher;
pub(crate) use read::{read, read_unopened};
pub(crate) use verify::verify;
