//! Kills the process that serves a mounted pool, on a real file system, and judges what is there when the pool comes back.
//!
//! ```text
//!   rounds: server (a process of its own) <── /dev/fuse ── writer threads ── model: what was done, what was acknowledged
//!             └ SIGKILL └ verify, zdb └ again: replay ──> what the model says must be there
//! ```
//! Some kills hit the server while it opens the pool and replays its log.
//!
//! Invariants:
//!   * nothing that was acknowledged by fsync, fdatasync or a write with O_SYNC is ever missing
//!   * names and each file are as they were at some moment; see [`model`]
//!   * at every moment the pool as it lies there has no leak and no bad checksum

pub mod model;
pub mod rounds;
pub mod serve;
pub mod writer;

pub use rounds::{Plan, Totals};
pub use serve::{LAYOUTS, Layout};
