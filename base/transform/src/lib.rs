//! Bytes to bytes: checksums, compression, encryption and parity, as pure functions.
//!
//! **Invariant: no I/O, no knowledge of on-disk structures; a result depends only on the
//! arguments.** Where vector instructions are used, a scalar implementation stays, the choice is
//! made at run time, and a property test compares them.

pub mod checksum;
pub mod compress;
pub mod crypt;
pub mod parity;
