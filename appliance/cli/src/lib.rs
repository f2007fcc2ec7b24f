//! (opens with the crate's invariant)
