//! Load generator: operations at full speed or at a rate, on files, over NFS and over NBD. It
//! reports what its clients see; the server's view is measured on the server.
//!
//! ```text
//! Plan ─┬─ thread ─ Pace (when) ─ Pattern (what) ─ Session (file | connection, several in flight)
//!       └─ thread …                                            └─> Seen (counts, latencies)
//! ```
//!
//! With a rate, the load is open: each operation has a due time, whether or not the previous one
//! has completed, and its latency counts from then. A server that stalls therefore does not receive
//! fewer requests and appear faster.

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
