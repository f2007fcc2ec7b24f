//! Network statistics, as seen by the servers of this process.

use super::statistic::{Shown, Statistic, sampled};
use crate::name::Field;

/// `ip.bytes`: bytes received from and sent to NFS clients.
pub const BYTES: Statistic = sampled(
    "ip.bytes",
    "Network",
    "Network: IP bytes",
    "bytes",
    Shown::Rate,
    &[Field::Hostname, Field::Client, Field::Direction],
    "Bytes received from and sent to NFS clients, without TCP and IP headers. A client without a host name is shown by its address.",
);
