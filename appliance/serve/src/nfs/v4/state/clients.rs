//! Client IDs: how clients register with either version, return after a restart, and are removed.
//!
//! RFC 7530 sections 16.33 and 16.34 (SETCLIENTID), RFC 8881 sections 18.35 (EXCHANGE_ID), 18.50
//! (DESTROY_CLIENTID), 18.51 (RECLAIM_COMPLETE).

mod requests;

use super::clock::Millis;
use crate::nfs::v4::status::{Result, Status};
use std::net::IpAddr;
use std::sync::Arc;

/// The sender of a request about a client as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub principal: u64,
    pub host: IpAddr,
}

/// Maximum number of hosts known for one client. Above it, the first one is dropped and must bind
/// its connection to the session again. Guessed: more addresses than trunking clients have.
const HOSTS_MAX: usize = 64;

/// The stable part of an address: IPv6 hosts change the lower half (RFC 8981).
fn host_part(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
    }
}

pub(super) struct Client {
    pub id: u64,
    /// A client of 4.1 or later, which uses sessions.
    pub has_sessions: bool,
    /// The client's `co_ownerid`, or `id` in 4.0.
    pub name: Arc<[u8]>,
    /// Verifier: changes when the client restarts.
    verifier: [u8; 8],
    pub principal: u64,
    /// Hosts from which the client sent EXCHANGE_ID or bound a connection to a session; the newest
    /// last.
    hosts: Vec<IpAddr>,
    pub confirmed: bool,
    /// The verifier that confirms the client ID (4.0), and the one that would confirm a changed
    /// callback.
    confirm: [u8; 8],
    new_confirm: Option<[u8; 8]>,
    pub renewed: Millis,
    /// Sequence ID of the last CREATE_SESSION, with its reply.
    pub sequence: u32,
    pub create_reply: Option<Vec<u8>>,
    pub sessions: Vec<[u8; 16]>,
    pub reclaim_complete: bool,
    pub may_reclaim: bool,
    /// The client is on record in stable storage.
    pub recorded: bool,
}

impl Client {
    /// Whether the client has used this host before.
    pub fn is_of_host(&self, host: IpAddr) -> bool {
        self.hosts.contains(&host_part(host))
    }

    pub fn add_host(&mut self, host: IpAddr) {
        let host = host_part(host);
        if self.hosts.contains(&host) {
            return;
        }
        if self.hosts.len() >= HOSTS_MAX {
            self.hosts.remove(0);
        }
        self.hosts.push(host);
    }

    /// Fails unless the caller is the client itself.
    pub fn check_caller(&self, caller: Caller) -> Result<()> {
        if self.principal != caller.principal {
            return Err(Status::WRONG_CRED);
        }
        if self.is_of_host(caller.host) { Ok(()) } else { Err(Status::CONN_NOT_BOUND_TO_SESSION) }
    }
}

/// The relevant arguments of EXCHANGE_ID.
pub(crate) struct ExchangeId<'a> {
    pub name: &'a [u8],
    pub verifier: [u8; 8],
    pub update: bool,
    pub caller: Caller,
}

/// Result of EXCHANGE_ID.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExchangeAnswer {
    pub client: u64,
    pub sequence: u32,
    pub confirmed: bool,
}
