//! The tests of this crate in one program, because each would link the engine again.

mod encryption;
mod labels;
mod later;
mod placement;
mod second;
mod support;
mod write;
