//! The `weir` program: commands, tables, progress.
//!
//! **Invariant: a command parses, calls the layers below, and prints; it knows no on-disk format (but for `inspect`).**

pub mod commands;
pub mod copy;
pub mod source;
pub mod state;
pub mod text;
pub mod tree;
