//! The network as the servers of this process see it.

use super::{Field, Shown, Statistic, sampled};

/// Bytes by client.
pub const BYTES: Statistic = sampled(
    "ip.bytes",
    "Network",
    "Network: IP bytes",
    "bytes",
    Shown::Rate,
    &[Field::Hostname, Field::Client, Field::Direction],
    "Bytes that came from NFS clients and went to them, without the headers of TCP and IP. A client that no name leads back to is told by its address.",
);
