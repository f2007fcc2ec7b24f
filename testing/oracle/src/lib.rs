//! Compares what the kernel module recorded of a pool with what Weir reads from it.
//!
//! **Invariant: a comparison never adjusts recorded data; the caller names each intended
//! difference.**

pub mod datasets;
pub mod recordings;
pub mod tree;
