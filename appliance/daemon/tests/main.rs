//! The tests of this crate in one program, because each would link the engine again.

mod alerts;
mod document;
mod health;
mod rig;
mod running;
mod schedules;
mod security;
mod statistics;
