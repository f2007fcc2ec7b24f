//! Calls that came again (RFC 1813, 4.5): what changes something is done once, and a client that did not hear the answer hears it
//! again. Bounded; the oldest goes first.
//!
//! A call is the same if XID, address and port of the client, procedure, and the checksum of its arguments are.

use super::message::{Accept, put_accepted};
use crate::nfs::xdr::Writer;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Answers kept. A client has at most some hundred calls under way, and asks again within a minute.
const KEPT_MAX: usize = 8192;
/// Bytes of answers kept.
const BYTES_MAX: usize = 8 << 20;
/// Arguments beyond this do not count: two calls with one XID differ early.
const CHECKED_BYTES: usize = 256;
const SHARDS: usize = 16;

/// Ends the entry of a call that is being done, however that ends: a call whose thread panics would else stay "under way", and
/// its client, which repeats it over its next connection, would never be answered.
pub(super) struct Doing<'d> {
    duplicates: &'d Duplicates,
    key: Key,
    is_ended: bool,
}

impl<'d> Doing<'d> {
    /// Of the call that [`Duplicates::begin`] found to be new.
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
        // How much of it was done is not known, so it is not done again: the client learns that it failed.
        let mut answer = Writer::new();
        put_accepted(&mut answer, self.key.xid, Accept::SystemError);
        self.duplicates.done(self.key, Some(answer.to_vec()));
    }
}

/// What makes two calls one.
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

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It is new; whoever asked does it, and calls [`Duplicates::done`].
    New,
    /// Somebody is doing it.
    UnderWay,
    /// It was done, and this was the answer.
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

    /// The answer; `None`: it was not done, and may come again.
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
    fn a_call_that_comes_again_is_dropped_while_under_way_and_answered_afterwards() {
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
