//! The tests of this crate in one program, because each would link the engine again.

mod pages;
mod pool_verbs;
mod schedule;
mod snapshot_directory;
mod verbs;
