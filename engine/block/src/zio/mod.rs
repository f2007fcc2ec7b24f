//! The block pipeline. Reading: addresses -> copies -> gang members -> checksum -> MAC and
//! decryption -> decompression. Writing ([`write`](mod@write)) goes the other way.
//!
//! Below: `vdev`, `transform`, and the state of the [`Store`](crate::Store). Above: the store's
//! operations. ZFS name: zio.
//!
//! ```text
//!   check   checksums, decompression               put     a block's checksum; bytes to addresses
//!   gang    headers and members of gang blocks     place   allocates addresses; gang_write, once
//!   copies  stored bytes, from any good copy       write   compresses, encrypts; raw, log
//!   read, verify, repair, heal, free               flight, prefetch  work in the background
//! ```

pub(crate) mod check;
mod copies;
mod flight;
pub(crate) mod free;
mod gang;
mod gang_write;
mod heal;
pub(crate) mod log;
mod once;
mod place;
mod prefetch;
mod put;
mod raw;
mod read;
mod repair;
mod verify;
mod write;

pub use check::{Salt, compress, decompress};
pub(crate) use flight::Flight;
pub use gang::members as gang_members;
pub(crate) use heal::heal;
pub use prefetch::Prefetcher;
pub(crate) use raw::write_raw;
pub use raw::{CryptParams, RawBlock};
pub(crate) use read::{in_pool as stored_in_pool, matches, read, read_unopened, stored};
pub(crate) use repair::{look_at_run, repair};
pub(crate) use verify::{verify, verify_contents};
pub(crate) use write::{Replaced, Seal, Written, write};
