//! The state of NFSv4 clients: client IDs, sessions, opens with their share reservations, and
//! locks.
//!
//! A pure state machine: requests come in and answers go out, and the time is an input. Work that
//! needs I/O (client records, released files) is returned by [`State::take_chores`], to be done
//! after the lock is released. Below: the table of byte-range locks in
//! [`locks`](crate::nfs::locks). Above: the operations.
//!
//! ```text
//!   client ID ─┬─ sessions ── slots, each with its last reply        (4.1 and later)
//!              ├─ open owners ── opens, one for each file ── lock states, one for each lock owner
//!              └─ lease, renewed by each request of the client
//! ```
//!
//! A client whose lease has expired keeps its state until another client needs it, memory is short,
//! or a day has passed: a network outage does not cost any client its locks.
//!
//! Invariants:
//!   * numbers of stateids are never reused, and stateids of an earlier run are recognised by their
//!     epoch
//!   * an open's lock states are removed with it, a client's opens with the client, a held file
//!     with its last open
//!   * nothing here grows beyond [`Limits`]

mod clients;
mod clock;
mod locking;
mod opens;
mod seqid;
mod sessions;
mod stateid;
#[cfg(test)]
mod tests;

pub(crate) use clients::{Caller, ExchangeId};
pub(crate) use locking::{LockAnswer, LockWho};
pub(crate) use opens::{Held, IoWant, OpenRequest};
pub(crate) use seqid::{Begin, OwnerKey, Reply};
pub(crate) use sessions::{ChannelAttrs, SequenceAnswer, SequenceArgs};
pub(crate) use stateid::{Asker, StateId};

use super::status::{Result, Status};
use crate::nfs::figures::Refusal;
use crate::nfs::locks::{LockOwner, LockTable};
use clock::Millis;
use files::vfs::FileHandle;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Limits on the state of all clients. Guessed, for about 200 MB at the very worst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub clients: usize,
    pub sessions: usize,
    /// Slots of all sessions. When they are used up, a new session gets few.
    pub slots: usize,
    /// Open and lock owners.
    pub owners: usize,
    /// Opens and lock states.
    pub states: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: 4096, sessions: 8192, slots: 32_768, owners: 131_072, states: 262_144 }
    }
}

/// Initial parameters of the state machine.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// Differs from run to run; part of client IDs and stateids.
    pub epoch: u32,
    pub lease_ms: Millis,
    /// Names of clients that may reclaim: those of [`Chore::Record`] in the previous run.
    pub may_reclaim: HashSet<Vec<u8>>,
    pub limits: Limits,
    /// Random key from which session IDs are derived, so that they cannot be guessed.
    pub session_key: [u8; 32],
}

/// Work to do after the state's lock is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Record on stable storage that this client may reclaim after a restart.
    Record(Vec<u8>),
    /// Remove the record of this client.
    Forget(Vec<u8>),
    /// Count that a client was refused, because this table is full.
    Refuse(Refusal),
}

/// The state of all clients.
pub(crate) struct State {
    epoch: u32,
    lease_ms: Millis,
    limits: Limits,
    session_key: [u8; 32],
    locks: Arc<LockTable>,
    now: Millis,
    /// When leases were last checked.
    looked: Millis,
    next: u64,
    clients: HashMap<u64, clients::Client>,
    sessions: HashMap<[u8; 16], sessions::SessionState>,
    slots: usize,
    states: HashMap<u64, Entry>,
    files: HashMap<FileHandle, FileState>,
    owners: HashMap<OwnerKey, seqid::Owner>,
    /// Stateids that were removed because a lease expired, so that their users get the right error.
    expired: VecDeque<u64>,
    grace: Option<Grace>,
    /// Version 3 clients are reclaiming locks.
    v3_reclaims: bool,
    chores: Vec<Chore>,
    released: Vec<Held>,
}

struct Grace {
    ends: Millis,
    /// Clients that may reclaim and have not completed it.
    waiting: HashSet<Vec<u8>>,
}

/// The state behind a stateid.
enum Entry {
    Open(opens::Open),
    Lock(locking::LockState),
    /// Closed (4.0): kept until the owner's next request, so that a repeated CLOSE finds its owner.
    Closed(OwnerKey),
}

struct FileState {
    opens: Vec<u64>,
    held: Held,
}

/// Number of remembered expired stateids: 512 KB.
const EXPIRED_MAX: usize = 65_536;
/// How long a silent client keeps state that no other client needs.
const COURTESY_MS: Millis = 24 * 60 * 60 * 1000;
/// Interval between checks of leases.
const LOOK_MS: Millis = 1000;

impl State {
    pub fn new(start: Start, locks: Arc<LockTable>) -> Self {
        let waiting = start.may_reclaim;
        Self {
            epoch: start.epoch,
            lease_ms: start.lease_ms,
            limits: start.limits,
            session_key: start.session_key,
            locks,
            now: 0,
            looked: 0,
            next: 1,
            clients: HashMap::new(),
            sessions: HashMap::new(),
            slots: 0,
            states: HashMap::new(),
            files: HashMap::new(),
            owners: HashMap::new(),
            expired: VecDeque::new(),
            // The grace period lasts one lease: clients renew their leases at two thirds of it.
            grace: (!waiting.is_empty()).then_some(Grace { ends: start.lease_ms, waiting }),
            v3_reclaims: false,
            chores: Vec::new(),
            released: Vec::new(),
        }
    }

    /// Advances the clock, which starts at 0 with the server, and handles what has expired.
    pub fn tick(&mut self, now: Millis) {
        self.now = now.max(self.now);
        if self.now < self.looked + LOOK_MS {
            return;
        }
        self.looked = self.now;
        self.end_grace_when_over();
        let wanted = self.locks.take_blockers();
        let over: Vec<u64> = self
            .clients
            .values()
            .filter(|c| {
                let silent = self.now.saturating_sub(c.renewed);
                silent > self.lease_ms && (!c.confirmed || wanted.contains(&c.id)) || silent > COURTESY_MS
            })
            .map(|c| c.id)
            .collect();
        over.into_iter().for_each(|id| self.expire(id));
        self.forget_idle_owners();
    }

    /// Sets whether version 3 clients are reclaiming locks. Others get no new locks meanwhile.
    pub fn wait_for_v3(&mut self, reclaims: bool) {
        self.v3_reclaims = reclaims;
    }

    /// Whether only opens and locks from before a restart may be reclaimed.
    pub fn in_grace(&self) -> bool {
        self.grace.as_ref().is_some_and(|g| self.now < g.ends)
    }

    fn end_grace_when_over(&mut self) {
        if let Some(grace) = &self.grace
            && (self.now >= grace.ends || grace.waiting.is_empty())
        {
            let gone = self.grace.take().map(|g| g.waiting).unwrap_or_default();
            // A client that did not return may not reclaim after the next restart, because others
            // may have held its locks since.
            let known: HashSet<_> = self.clients.values().filter(|c| c.recorded).map(|c| c.name.to_vec()).collect();
            self.chores.extend(gone.into_iter().filter(|name| !known.contains(name)).map(Chore::Forget));
        }
    }

    /// Takes the pending work: first do the I/O, then drop the released files.
    pub fn take_chores(&mut self) -> (Vec<Chore>, Vec<Held>) {
        (std::mem::take(&mut self.chores), std::mem::take(&mut self.released))
    }

    /// Releases files that can no longer be reached, as `is_gone` reports of what keeps them.
    /// Clients have them open until they close them, and get an error at their next access.
    pub fn release_opens(&mut self, is_gone: impl Fn(&Held) -> bool) {
        for file in self.files.values_mut().filter(|file| is_gone(&file.held)) {
            self.released.push(std::mem::replace(&mut file.held, Arc::new(())));
        }
    }

    /// Numbers of clients, of sessions, and of opens and lock states together.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.clients.len(), self.sessions.len(), self.states.len())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn state_id(&self, index: u64, seqid: u32) -> StateId {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.epoch.to_be_bytes());
        other[4..].copy_from_slice(&index.to_be_bytes());
        StateId { seqid, other }
    }

    /// The index of a stateid, regardless of its seqid.
    fn index_of(&self, id: &StateId) -> Result<u64> {
        if id.is_special() {
            return Err(Status::BAD_STATEID);
        }
        let (epoch, index) = id.index();
        if epoch != self.epoch {
            return Err(Status::STALE_STATEID);
        }
        if !self.states.contains_key(&index) {
            return Err(if self.expired.contains(&index) { Status::EXPIRED } else { Status::BAD_STATEID });
        }
        Ok(index)
    }

    /// Checks that a stateid's seqid is the current one.
    fn check_sequence(asker: Asker, given: u32, current: u32) -> Result<()> {
        match given {
            0 if asker != Asker::Any => Ok(()),
            n if n < current => Err(Status::OLD_STATEID),
            n if n > current => Err(Status::BAD_STATEID),
            _ => Ok(()),
        }
    }

    fn check_owner(asker: Asker, client: u64) -> Result<()> {
        match asker {
            Asker::Client(id) if id != client => Err(Status::BAD_STATEID),
            _ => Ok(()),
        }
    }

    fn renew_client(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.renewed = self.now;
        }
    }

    fn has_lapsed(&self, client: u64) -> bool {
        self.clients.get(&client).is_none_or(|c| self.now.saturating_sub(c.renewed) > self.lease_ms)
    }

    /// Removes a client whose lease has expired and whose state conflicts with a request. Returns
    /// whether it had expired.
    fn expire_if_lapsed(&mut self, client: u64) -> bool {
        let lapsed = self.has_lapsed(client);
        if lapsed {
            self.expire(client);
        }
        lapsed
    }

    fn expire(&mut self, client: u64) {
        tracing::info!(client, "lease of an NFSv4 client expired");
        self.remove_client(client, true);
    }

    /// Makes room by removing the client that has been silent for the longest time, if its lease
    /// has expired.
    fn make_room(&mut self) -> bool {
        let oldest = self.clients.values().min_by_key(|c| c.renewed).map(|c| c.id);
        oldest.is_some_and(|id| self.expire_if_lapsed(id))
    }

    fn room_for_state(&mut self) -> Result<()> {
        if self.states.len() < self.limits.states || self.make_room() {
            return Ok(());
        }
        tracing::warn!(limit = self.limits.states, "NFSv4 clients hold too many opens and locks");
        self.chores.push(Chore::Refuse(Refusal::Opens));
        Err(Status::RESOURCE)
    }

    fn drop_state(&mut self, index: u64, because_expired: bool) {
        if self.states.remove(&index).is_some() && because_expired {
            if self.expired.len() == EXPIRED_MAX {
                self.expired.pop_front();
            }
            self.expired.push_back(index);
        }
    }

    fn lock_owner(client: u64, owner: &Arc<[u8]>) -> LockOwner {
        LockOwner::V4 { client, owner: owner.clone() }
    }
}
