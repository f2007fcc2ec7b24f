//! NBD: exports volumes over the network block device protocol.
//!
//! ```text
//!   client ── TCP, Unix socket, TLS ─> one thread per connection: handshake ─> requests
//!     ├ cached: answered directly
//!     └ all else: threads shared by all connections
//! ```
//! Protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed newstyle,
//! structured replies, `base:allocation`, STARTTLS. [`proto`] and [`handshake`] convert between
//! bytes and values; `connection` does the work.
//!
//! Invariants:
//!   * what a client may send is bounded, and memory grows with the bytes received, not with the
//!     length announced
//!   * a client that does not read its answers is not served any more, and memory is left for
//!     others
//!   * malformed input closes that connection and affects nothing else
//!   * a request that waits for a device does not delay others: answers are sent in the order in
//!     which they are ready
//!   * a flush on any connection covers all writes to the volume that were answered before, on any
//!     connection (`CAN_MULTI_CONN`)

mod connection;
mod export;
mod figures;
mod handshake;
mod proto;
mod reply;
mod request;
mod server;
mod stream;
mod threads;
mod waits;

#[cfg(test)]
mod tests;

pub use connection::Tls;
pub use export::{Export, Exports, Found, Listed, Opened};
pub use figures::Figures;
pub use server::{Config, Server};

/// Standard port of NBD servers.
pub const PORT: u16 = 10809;
