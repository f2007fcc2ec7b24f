//! `weir load`: see the crate of that name.

pub use ::load::command::{command, run};
