//! The tests of this crate in one program, because each would link the engine again.

mod bpobj;
mod byte_order;
mod live;
mod sa;
mod zap;
