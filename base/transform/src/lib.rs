//! (opens with the crate's invariant)
pub mod checksum;
pub mod parity;
