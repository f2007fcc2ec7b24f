//! What a connection waits for.

use std::time::Instant;

/// What a connection waits for, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waits {
    /// The client must choose an export.
    Handshake(Instant),
    /// The rest of a request is missing.
    Rest(Instant),
    /// The first request: the client has chosen an export but never used it.
    First(Instant),
    /// The next request, which may take days; or something other than the client.
    Nothing,
}
