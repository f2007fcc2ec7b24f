//! The tests of this crate in one program, because each would link the engine again.

mod allocator;
mod common;
mod dtl;
mod encryption;
mod foreign;
mod panics;
mod scan;
mod space_maps;
mod writer;
