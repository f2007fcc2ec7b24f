//! Requests of owners, in the order of their seqids.

use super::{Begin, Owner, OwnerKey, Reply};
use crate::nfs::figures::Refusal;
use crate::nfs::v4::state::{Chore, Entry, State, StateId};
use crate::nfs::v4::status::{Result, Status};

/// Statuses that do not advance the seqid.
const UNCOUNTED: [Status; 8] = [
    Status::STALE_CLIENTID,
    Status::STALE_STATEID,
    Status::BAD_STATEID,
    Status::BAD_SEQID,
    Status::BADXDR,
    Status::RESOURCE,
    Status::NOFILEHANDLE,
    Status::DELAY,
];

/// Maximum size of a cached result. Only a denied LOCK with a long owner comes close.
const REPLY_BYTES_MAX: usize = 2048;

impl State {
    fn owner_entry(&mut self, key: &OwnerKey) -> Result<&mut Owner> {
        if !self.owners.contains_key(key) && self.owners.len() >= self.limits.owners {
            self.forget_idle_owners();
            if self.owners.len() >= self.limits.owners && !self.make_room() {
                tracing::warn!(limit = self.limits.owners, "NFSv4 clients have too many open and lock owners");
                self.chores.push(Chore::Refuse(Refusal::Owners));
                return Err(Status::RESOURCE);
            }
        }
        Ok(self.owners.entry(key.clone()).or_default())
    }

    pub(in crate::nfs::v4::state) fn owner_uses(&mut self, key: &OwnerKey, more: bool) {
        let now = self.now;
        if more {
            self.owners.entry(key.clone()).or_default().uses += 1;
        } else if let Some(owner) = self.owners.get_mut(key) {
            owner.uses = owner.uses.saturating_sub(1);
            owner.used = now;
        }
    }

    /// Begins a request of an owner (4.0). `is_first`: the request may be an owner's first, which
    /// is true for OPEN, and for LOCK with a new owner.
    pub fn begin(&mut self, key: &OwnerKey, op: u32, seqid: u32, is_first: bool) -> Result<Begin> {
        let now = self.now;
        let is_new = !self.owners.contains_key(key);
        if is_new && !is_first {
            return Err(Status::BAD_SEQID);
        }
        self.touch_owner_client(key);
        let owner = self.owner_entry(key)?;
        owner.used = now;
        if owner.busy {
            return Err(Status::DELAY);
        }
        let is_open_owner = matches!(key, OwnerKey::Open(..));
        if is_new {
            owner.busy = true;
            owner.confirmed = !is_open_owner;
            return Ok(Begin::Go);
        }
        if is_first && !is_open_owner && owner.uses == 0 {
            // The owner has no lock, so its client has forgotten it and starts again, often with
            // the same name. Retries are recognised by the seqid of the open.
            *owner = Owner { busy: true, confirmed: true, used: now, ..Owner::default() };
            return Ok(Begin::Go);
        }
        if let Some(reply) = owner.reply.as_ref().filter(|r| seqid == owner.seqid && r.op == op) {
            return Ok(Begin::Repeat(reply.clone()));
        }
        if is_first && is_open_owner && !owner.confirmed {
            // The owner never confirmed its first OPEN, which is therefore discarded (RFC 7530
            // section 16.18.5).
            let key = key.clone();
            self.cancel_opens(&key);
            let owner = self.owner_entry(&key)?;
            *owner = Owner { busy: true, used: now, ..Owner::default() };
            return Ok(Begin::Go);
        }
        if owner.reply.is_some() && seqid != owner.seqid.wrapping_add(1) {
            return Err(Status::BAD_SEQID);
        }
        owner.busy = true;
        let closed = owner.closed.take();
        if let Some(index) = closed {
            self.drop_state(index, false);
        }
        Ok(Begin::Go)
    }

    /// Ends a request for which [`State::begin`] returned `Go`.
    pub fn end(&mut self, key: &OwnerKey, seqid: u32, reply: Reply) {
        let now = self.now;
        let Some(owner) = self.owners.get_mut(key) else { return };
        (owner.busy, owner.used) = (false, now);
        if !UNCOUNTED.contains(&reply.status) {
            owner.seqid = seqid;
            owner.reply = (reply.body.len() <= REPLY_BYTES_MAX).then_some(reply);
        } else if owner.reply.is_none() && owner.uses == 0 {
            self.owners.remove(key);
        }
    }

    /// The owner whose seqid applies to an operation on this stateid.
    pub fn owner_of(&self, id: &StateId) -> Result<OwnerKey> {
        let index = self.index_of(id)?;
        match self.states.get(&index) {
            Some(Entry::Open(open)) => Ok(open.owner.clone()),
            Some(Entry::Lock(lock)) => Ok(lock.owner.clone()),
            Some(Entry::Closed(owner)) => Ok(owner.clone()),
            None => Err(Status::BAD_STATEID),
        }
    }

    /// Whether the owner still has to confirm its first OPEN.
    pub fn must_confirm(&self, key: &OwnerKey) -> bool {
        self.owners.get(key).is_some_and(|o| !o.confirmed)
    }
}
