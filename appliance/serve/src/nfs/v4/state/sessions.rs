//! Sessions, which execute each request of 4.1 exactly once (RFC 8881 sections 2.10, 18.36, 18.37,
//! 18.46).

mod requests;

use bytes::Bytes;
use std::net::IpAddr;

/// `channel_attrs4` without RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelAttrs {
    pub request_bytes_max: u32,
    pub response_bytes_max: u32,
    pub cached_bytes_max: u32,
    pub operations_max: u32,
    pub slots: u32,
}

/// A session created by CREATE_SESSION.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub id: [u8; 16],
    pub fore: ChannelAttrs,
}

pub(super) struct SessionState {
    client: u64,
    fore: ChannelAttrs,
    slots: Vec<Slot>,
}

#[derive(Default, Clone)]
struct Slot {
    sequence: u32,
    busy: bool,
    reply: Option<Bytes>,
    /// Fingerprint of the last request.
    fingerprint: u64,
}

/// Arguments of SEQUENCE. `fingerprint` detects different requests with the same sequence ID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceArgs {
    pub session: [u8; 16],
    /// Source address of the request.
    pub host: IpAddr,
    pub sequence: u32,
    pub slot: u32,
    /// The reply must be cached.
    pub cache: bool,
    /// Length of the request, and its number of operations.
    pub request_bytes: usize,
    pub operations: u32,
    pub fingerprint: u64,
}

/// Result of SEQUENCE.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SequenceAnswer {
    /// A new request: execute it, then call [`State::end_sequence`](super::State::end_sequence).
    Go { client: u64, fore: ChannelAttrs },
    /// A retry, with its cached reply.
    Repeat(Bytes),
    /// A retry whose reply is not cached.
    Uncached { highest_slot: u32 },
}
