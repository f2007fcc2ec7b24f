//! Volumes over NBD, the network block device protocol.
//!
//! ```text
//!   client ── TCP, Unix socket, TLS ─> a thread for each connection: handshake ─> requests ─┬ in memory: answered at once
//!                                                                                           └ all else: threads of all connections
//! ```
//! Protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed newstyle, structured replies,
//! `base:allocation`, STARTTLS. [`proto`] and [`handshake`] are bytes to values and back; `connection` does the work.
//!
//! Invariants:
//!   * what a client may send is bounded, and memory grows with the bytes that came, not with the length that they announce
//!   * what is malformed ends that connection and nothing else
//!   * a request that waits for a device keeps no other waiting: answers go out in the order in which they are ready
//!   * a flush, on any connection, covers all writes of the volume that were answered before, on any other (`CAN_MULTI_CONN`)

mod connection;
mod export;
mod figures;
mod handshake;
mod memory;
mod proto;
mod reply;
mod request;
mod server;
mod stream;
mod threads;

#[cfg(test)]
mod tests;

pub use export::{Export, Exports, Found, Listed, Opened};
pub use figures::Figures;
pub use server::{Config, Server, Tls};

/// Where clients look for a server.
pub const PORT: u16 = 10809;
