//! The tests of this crate in one program, because each would link the engine again.

mod devices;
mod labels;
mod leak;
