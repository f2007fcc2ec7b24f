//! Kills the process that serves a mounted pool, on a real file system, and checks the pool when it
//! is opened again.
//!
//! ```text
//!   rounds: server (a separate process) <── /dev/fuse ── writer threads
//!             └ SIGKILL └ verify, zdb └ again: replay      └ model: what was done and acknowledged
//!                                                ─> what the model requires
//! ```
//! Some kills hit the server while it opens the pool and replays its log.
//!
//! Invariants:
//!   * nothing that was acknowledged by fsync, fdatasync or a write with O_SYNC is ever missing
//!   * names and each file are in the state of some moment; see [`model`]
//!   * after each kill, the pool on disk has no leak and no bad checksum

pub mod model;
pub mod rounds;
pub mod serve;
pub mod writer;

pub use rounds::{Plan, Totals};
pub use serve::{LAYOUTS, Layout};
