//! The tests of this crate in one program, because each would link the engine again.

mod cuts;
mod failing;
mod multihost;
mod volumes;
