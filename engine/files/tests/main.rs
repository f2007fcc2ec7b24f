//! The tests of this crate in one program, because each would link the engine again.

mod common;
mod damage;
mod dedup;
mod diff;
mod old_versions;
mod pool_versions;
mod random;
mod replay;
mod saved_streams;
mod skipped_records;
mod speed;
mod support;
mod together;
mod undo;
mod volume;
mod whole_pools;
mod write;
