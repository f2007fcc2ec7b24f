//! (opens with the crate invariant)
pub use object::{Error, Place, Result};
