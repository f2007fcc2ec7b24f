//! Asks OpenZFS, and compares: what the kernel module recorded of a pool, against what Weir reads of it.
//!
//! **Invariant: a comparison never adjusts what was recorded; where Weir is meant to differ, the caller says so by name.**

pub mod datasets;
pub mod recorded;
pub mod tree;
