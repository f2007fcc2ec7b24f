//! Open and lock owners with the seqids of 4.0: each request of an owner is executed once, and a
//! repeated one gets the cached reply (RFC 7530 sections 9.1.7 to 9.1.9). In 4.1, sessions replace
//! this, and owners have no seqid.

mod requests;

use super::clock::Millis;
use crate::nfs::v4::status::Status;
use std::sync::Arc;

/// An open owner or lock owner of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKey {
    Open(u64, Arc<[u8]>),
    Lock(u64, Arc<[u8]>),
}

impl OwnerKey {
    pub fn client(&self) -> u64 {
        match self {
            Self::Open(client, _) | Self::Lock(client, _) => *client,
        }
    }

    pub fn name(&self) -> &Arc<[u8]> {
        match self {
            Self::Open(_, name) | Self::Lock(_, name) => name,
        }
    }
}

#[derive(Default)]
pub(super) struct Owner {
    pub seqid: u32,
    /// Confirmed by OPEN_CONFIRM.
    pub confirmed: bool,
    reply: Option<Reply>,
    /// A request is in progress.
    busy: bool,
    /// The state that was closed last.
    pub closed: Option<u64>,
    pub used: Millis,
    /// Number of opens or lock states.
    pub uses: usize,
}

/// The reply to an owner's last request: the result of the operation, and the current file handle
/// after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub op: u32,
    pub status: Status,
    pub body: Vec<u8>,
    pub handle: Option<Vec<u8>>,
}

/// How to proceed with an owner's request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// A new request: execute it, then call [`State::end`](super::State::end).
    Go,
    /// A retry, with its cached reply.
    Repeat(Reply),
}
