//! Judges of the NFS server over the network: our own clients, a server that is killed while they
//! work, many concurrent clients, malformed calls.
//!
//! ```text
//!   kills  ─┐                                        ┌─ `weir serve` on a real pool, killed
//!   load   ─┼─ client: version 3 over TCP ── filer ──┤
//!   mutate ─┤                                        │
//!   ledger ─┴─ clients: 4.2 over TCP, NBD ───────────┴─ devices that lose unflushed writes (cut)
//! ```
//! The clients share only XDR with the server.

pub mod cut;
pub mod filer;
pub mod kills;
pub mod ledger;
pub mod load;
pub mod mutate;

pub use filer::{Filer, Server};
