//! The words of `weir serve`'s HTTP+JSON interface: what is asked, what is answered, and by whom it may be asked.
//!
//! Types only; the daemon turns the engine's into these. `openapi.json` beside this crate is made from them and from the
//! table of operations ([`operations`]), and a test holds the file against both.
//!
//! Invariants:
//!   * identities of 64 bits are text, since JavaScript's numbers end at 2^53
//!   * sizes are bytes, times are seconds since 1970 (`_ms`: milliseconds)
//!   * every operation is one row of the table, with the least role that may ask for it

mod account;
mod alert;
mod analytics;
mod command;
mod dataset;
mod document;
mod error;
mod event;
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
