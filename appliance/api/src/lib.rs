//! The types of `weir serve`'s HTTP+JSON interface: requests, responses, and the role each request
//! requires.
//!
//! This crate contains types only; the daemon converts the engine's data to them. `openapi.json`
//! next to this crate is generated from the types and the table of operations ([`operations`]), and
//! a test checks the file against both.
//!
//! Invariants:
//!   * 64-bit identities are strings, since JavaScript's numbers are exact only up to 2^53
//!   * sizes are bytes, times are seconds since 1970 (`_ms`: milliseconds)
//!   * every operation is one row of the table, with the lowest role that may call it

mod account;
mod alert;
mod analytics;
mod command;
mod dataset;
mod document;
mod error;
mod event;
mod health;
mod job;
mod list;
mod operation;
mod pool;
mod property;
mod share;
mod snapshot;
mod system;
mod verify;
mod worksheet;

pub use account::*;
pub use alert::*;
pub use analytics::*;
pub use command::*;
pub use dataset::*;
pub use document::document;
pub use error::*;
pub use event::*;
pub use health::*;
pub use job::*;
pub use list::*;
pub use operation::{Method, Operation, Param, Place, Reply, operations};
pub use pool::*;
pub use property::*;
pub use share::*;
pub use snapshot::*;
pub use system::*;
pub use verify::*;
pub use worksheet::*;
