//! Shares and their clients.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Protocol over which a share is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// NFS, by the property `sharenfs`.
    Nfs,
    /// SMB, by the property `sharesmb`.
    Smb,
}

/// A file system that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// Name of the file system.
    pub dataset: String,
    /// Protocol over which it is served.
    pub protocol: Protocol,
    /// Where clients find it: the path, or the name of the SMB share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Value of `sharenfs` (`on`, or options as in exports(5)) or of `sharesmb`.
    pub options: String,
    /// Dataset that sets the property; absent if it is set on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<String>,
    /// Whether clients can use the share now.
    pub active: bool,
    /// Why clients cannot use it; absent if they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who may access it. For NFS, in the order in which hosts are compared.
    pub hosts: Vec<ShareHost>,
}

/// Hosts and their access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareHost {
    /// An address, a network, a name or `*`. For SMB: `everybody` or `users`, those with a
    /// password.
    pub hosts: String,
    /// Whether they may write; false: they may only read.
    pub writable: bool,
    /// Users that are mapped to `nobody`: `none`, `root` or `all`.
    pub squash: String,
}

/// Sets `sharenfs` or `sharesmb` of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetShare {
    /// `on`, `off` or options; `inherit` resets it to the parent's value.
    pub options: String,
    /// Which property to set; absent: `nfs`. Only administrators may set `smb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// A client of the NFS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Client {
    /// IP address of the client.
    pub address: String,
    /// Versions of NFS that the client has used: `nfs3`, `nfs4.0`, `nfs4.1`, `nfs4.2`.
    pub protocols: Vec<String>,
    /// Number of open connections.
    pub connections: u64,
    /// Time when the client was first seen, in seconds since 1970.
    pub since: u64,
    /// Time of its last call, in seconds since 1970; the current time while it is connected.
    pub last_seen: u64,
    /// Number of calls answered.
    pub operations: u64,
    /// Bytes of file contents read.
    pub read_bytes: u64,
    /// Bytes of file contents written.
    pub written_bytes: u64,
    /// Current rate of calls.
    pub operations_per_second: f64,
    /// Current rate of reads, in bytes per second.
    pub read_bytes_per_second: f64,
    /// Current rate of writes, in bytes per second.
    pub written_bytes_per_second: f64,
}
