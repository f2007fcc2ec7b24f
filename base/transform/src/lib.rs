//! (opens with the crate's invariant)
pub mod parity;
