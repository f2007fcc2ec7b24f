//! Programs and webhooks for pool events: the counterpart of OpenZFS's zed.
//!
//! ```text
//!   block::zevent::Queue ─┬─> run: programs of a directory, selected by their names, with limits on number and time
//!                        └─> hooks: a document by HTTP POST, to each URL in order
//! ```
//!
//! Invariants:
//!   * a program runs as this process's user, who must be the only one able to change it or its
//!     directory; no part of an event is read by a shell or passed as an argument
//!   * a slow program or webhook never delays a pool: it is killed, or misses events, and this is
//!     logged

mod delivery;
mod environment;
mod hooks;
mod run;

pub use delivery::Programs;

use std::time::Duration;

/// Interval at which threads check whether they must stop.
const TURN: Duration = Duration::from_millis(200);
