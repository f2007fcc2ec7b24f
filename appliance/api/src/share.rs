//! Shares and their clients.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How clients reach a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `sharenfs`.
    Nfs,
    /// `sharesmb`.
    Smb,
}

/// A file system that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The dataset.
    pub dataset: String,
    /// How clients reach it.
    pub protocol: Protocol,
    /// Where clients find it: the path, or the name of the SMB share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `sharenfs`, `on` or options as in exports(5); or `sharesmb`.
    pub options: String,
    /// The dataset that sets it, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<String>,
    /// Whether clients can use it now.
    pub active: bool,
    /// Why not, if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Clients with access, in the order in which hosts are compared; over SMB, users with
    /// passwords.
    pub hosts: Vec<ShareHost>,
}

/// Hosts and their access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShareHost {
    /// An address, a network, a name or `*`.
    pub hosts: String,
    /// Whether they may write.
    pub writable: bool,
    /// Users that are mapped to `nobody`: `none`, `root` or `all`.
    pub squash: String,
}

/// Sets `sharenfs` or `sharesmb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetShare {
    /// `on`, `off` or options; `inherit`: the parent's value.
    pub options: String,
    /// Which of them; NFS when not given. SMB is for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// A client of the file servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Client {
    /// Its address.
    pub address: String,
    /// `nfs3`, `nfs4.0`, `nfs4.1` or `nfs4.2`; empty if versions are not distinguished.
    pub protocols: Vec<String>,
    /// Connections that are open.
    pub connections: u64,
    /// When the first of them was opened.
    pub since: u64,
    /// When it last asked for something.
    pub last_seen: u64,
    /// Calls answered.
    pub operations: u64,
    /// Calls answered with an error, where that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Bytes of files that it read.
    pub read_bytes: u64,
    /// Bytes of files that it wrote.
    pub written_bytes: u64,
    /// Recent calls per second.
    pub operations_per_second: f64,
    /// Recent bytes per second.
    pub read_bytes_per_second: f64,
    /// Recent bytes per second.
    pub written_bytes_per_second: f64,
}
