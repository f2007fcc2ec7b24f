//! Judges of the NFS server over the wire: clients of our own, a server that is killed under them, many that ask at once, calls that are
//! none.
//!
//! ```text
//!   kills  ─┐                                        ┌─ `weir serve` on a real pool, killed
//!   load   ─┼─ client: version 3 over TCP ── filer ──┤
//!   mutate ─┤                                        │
//!   ledger ─┴─ clients: 4.2 over TCP, NBD ───────────┴─ a process over devices that forget what was not flushed (cut)
//! ```
//! The clients share only XDR with the server.

pub mod cut;
pub mod filer;
pub mod kills;
pub mod ledger;
pub mod load;
pub mod mutate;

pub use filer::{Filer, Server};
