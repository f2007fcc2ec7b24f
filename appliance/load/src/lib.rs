//! Load: operations as fast as they go, or at a rate, on files and over NFS. It generates, and says what its clients saw; what the server
//! saw is measured there.
//!
//! ```text
//!   Plan ─┬─ thread ─ Pace (when) ─ Pattern (what) ─ Session (file | NFS connection, several operations under way) ─┐
//!         └─ thread …                                                                          Seen <───────────────┘
//! ```
//! With a rate the load is open: an operation has a time at which it should begin, whether the one before is done or not, and its
//! latency counts from then. So a server that stalls is not asked less and thereby found faster.

pub mod bench;
pub mod clients;
pub mod command;
pub mod draw;
mod drive;
pub mod fio;
pub mod flow;
mod nbd;
pub mod nfs;
mod number;
mod pace;
mod pattern;
pub mod report;
mod run;
mod session;
mod target;
mod tree;
pub mod vdb;
mod watch;

pub use drive::{Control, Report};
pub use pattern::Kind;
pub use run::{Arrivals, Plan, Steps, together};
pub use target::{Nbd, Nfs, Place, Target};
pub use watch::{COLUMNS, Second, Total, What};
