//! The duplicate request cache (RFC 1813, section 4.5): a non-idempotent call is executed once, and
//! a client that missed the answer gets the same answer again. Bounded; the oldest entries are
//! dropped first.
//!
//! Two calls are the same if the XID, the client's address and port, the procedure, and the
//! checksum of the arguments match.

use super::message::{Accept, put_accepted};
use crate::nfs::xdr::Writer;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Maximum number of entries. A client has at most some hundred calls in flight and retransmits
/// within a minute.
const KEPT_MAX: usize = 8192;
/// Maximum bytes of cached answers.
const BYTES_MAX: usize = 8 << 20;
/// Number of argument bytes in the checksum: two different calls with one XID differ early.
const CHECKED_BYTES: usize = 256;
const SHARDS: usize = 16;

/// Completes the entry of a call in progress, however the call ends. Otherwise a call whose thread
/// panics would stay in progress, and a client that retransmits it over its next connection would
/// never get an answer.
pub(super) struct Doing<'d> {
    duplicates: &'d Duplicates,
    key: Key,
    is_ended: bool,
}

impl<'d> Doing<'d> {
    /// For a call that [`Duplicates::begin`] reported as new.
    pub fn new(duplicates: &'d Duplicates, key: Key) -> Self {
        Self { duplicates, key, is_ended: false }
    }

    /// See [`Duplicates::done`].
    pub fn done(mut self, answer: Option<Vec<u8>>) {
        self.is_ended = true;
        self.duplicates.done(self.key, answer);
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        // It is unknown how much of the call was executed, so it is not executed again: the client
        // gets an error.
        let mut answer = Writer::new();
        put_accepted(&mut answer, self.key.xid, Accept::SystemError);
        self.duplicates.done(self.key, Some(answer.to_vec()));
    }
}

/// Identity of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub xid: u32,
    pub client: SocketAddr,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    sum: u64,
    len: usize,
}

impl Key {
    pub fn new(call: &super::Call<'_>, args: &[u8]) -> Self {
        let h = &call.header;
        let head = &args[..args.len().min(CHECKED_BYTES)];
        let sum =
            head.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &b| (sum ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let (program, version, procedure) = (h.program, h.version, h.procedure);
        Self { xid: h.xid, client: call.peer.address, program, version, procedure, sum, len: args.len() }
    }
}

/// State of a call in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// A new call. The caller must execute it and call [`Duplicates::done`].
    New,
    /// In progress on another thread.
    UnderWay,
    /// Completed with this answer.
    Done(Vec<u8>),
}

#[derive(Default)]
struct Shard {
    calls: HashMap<Key, Option<Vec<u8>>>,
    order: VecDeque<Key>,
    bytes: usize,
}

#[derive(Default)]
pub(super) struct Duplicates {
    shards: [Mutex<Shard>; SHARDS],
}

impl Duplicates {
    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[(key.xid as usize ^ key.client.port() as usize) % SHARDS]
    }

    pub fn begin(&self, key: Key) -> Known {
        let mut shard = self.shard(&key).lock();
        match shard.calls.get(&key) {
            Some(Some(answer)) => return Known::Done(answer.clone()),
            Some(None) => return Known::UnderWay,
            None => {}
        }
        shard.calls.insert(key, None);
        Known::New
    }

    /// Stores the answer. `None`: the call was not executed and may be repeated.
    pub fn done(&self, key: Key, answer: Option<Vec<u8>>) {
        let shard = &mut *self.shard(&key).lock();
        let Some(answer) = answer else {
            shard.calls.remove(&key);
            return;
        };
        shard.bytes += answer.len();
        shard.calls.insert(key, Some(answer));
        shard.order.push_back(key);
        while shard.order.len() > KEPT_MAX / SHARDS || shard.bytes > BYTES_MAX / SHARDS {
            let Some(oldest) = shard.order.pop_front() else { break };
            if let Some(Some(answer)) = shard.calls.remove(&oldest) {
                shard.bytes -= answer.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(xid: u32, sum: u64) -> Key {
        let client = SocketAddr::from(([10, 0, 0, 1], 700));
        Key { xid, client, program: 100_003, version: 3, procedure: 12, sum, len: 4 }
    }

    #[test]
    fn a_retransmitted_call_is_dropped_while_in_progress_and_answered_afterwards() {
        let d = Duplicates::default();
        assert_eq!(d.begin(key(1, 5)), Known::New);
        assert_eq!(d.begin(key(1, 5)), Known::UnderWay);
        assert_eq!(d.begin(key(1, 6)), Known::New, "other arguments under the same number");
        d.done(key(1, 5), Some(vec![9]));
        assert_eq!(d.begin(key(1, 5)), Known::Done(vec![9]));
        d.done(key(1, 6), None);
        assert_eq!(d.begin(key(1, 6)), Known::New, "it was not done");
    }

    #[test]
    fn old_answers_make_room_for_new_ones() {
        let d = Duplicates::default();
        for xid in 0..100_000 {
            assert_eq!(d.begin(key(xid, 0)), Known::New);
            d.done(key(xid, 0), Some(vec![0; 500]));
        }
        let kept: usize = d.shards.iter().map(|s| s.lock().calls.len()).sum();
        let bytes: usize = d.shards.iter().map(|s| s.lock().bytes).sum();
        assert!(kept <= KEPT_MAX && bytes <= BYTES_MAX, "{kept} {bytes}");
        assert_eq!(bytes, kept * 500);
        assert_eq!(d.begin(key(99_999, 0)), Known::Done(vec![0; 500]));
    }
}
