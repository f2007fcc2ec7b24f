//! Requests for byte-range locks.

use super::{LockAnswer, LockState, LockWho};
use crate::nfs::locks::{HeldLock, LockOwner, LockRange, LockRefusal};
use crate::nfs::v4::state::opens::{READ, WRITE, next};
use crate::nfs::v4::state::{Asker, Entry, OwnerKey, State, StateId};
use crate::nfs::v4::status::{Result, Status};
use files::vfs::FileHandle;
use std::sync::Arc;

impl State {
    /// LOCK. The file's existing lock states determine the owner.
    pub fn lock(
        &mut self,
        asker: Asker,
        who: &LockWho,
        file: FileHandle,
        range: LockRange,
        exclusive: bool,
        reclaims: bool,
    ) -> Result<LockAnswer> {
        let (index, open, client) = match who {
            LockWho::New { open: id, owner } => {
                let open_index = self.index_of(id)?;
                let Some(Entry::Open(open)) = self.states.get(&open_index) else { return Err(Status::BAD_STATEID) };
                Self::check_owner(asker, open.client)?;
                Self::check_sequence(asker, id.seqid, open.seqid)?;
                if open.file != file || asker == Asker::Any && self.must_confirm(&open.owner) {
                    return Err(Status::BAD_STATEID);
                }
                let client = open.client;
                let key = OwnerKey::Lock(client, owner.clone());
                let mut known = self.opens_of(file).flat_map(|(_, open)| open.locks.iter().copied());
                let mine = |i: &u64| matches!(self.states.get(i), Some(Entry::Lock(l)) if l.owner == key);
                let index = known.find(mine);
                (index, open_index, client)
            }
            LockWho::Known(id) => {
                let (index, lock) = self.known_lock(asker, id, file)?;
                (Some(index), lock.open, lock.client)
            }
        };
        let Some(Entry::Open(held)) = self.states.get(&open) else { return Err(Status::BAD_STATEID) };
        if held.access & (if exclusive { WRITE } else { READ }) == 0 {
            return Err(Status::OPENMODE);
        }
        self.check_grace(client, reclaims)?;
        if self.v3_reclaims && !reclaims {
            return Err(Status::GRACE);
        }
        self.renew_client(client);
        let key = match (who, index.and_then(|i| self.states.get(&i))) {
            (LockWho::New { owner, .. }, _) => OwnerKey::Lock(client, owner.clone()),
            (_, Some(Entry::Lock(lock))) => lock.owner.clone(),
            _ => return Err(Status::BAD_STATEID),
        };
        if index.is_none() {
            self.room_for_state()?;
        }
        let owner = Self::lock_owner(client, key.name());
        loop {
            match self.locks.lock(file, &owner, range, exclusive) {
                Ok(()) => break,
                Err(LockRefusal::Full) => return Err(Status::RESOURCE),
                Err(LockRefusal::Conflict(held)) => {
                    if !self.goes_away(&held) {
                        return Ok(LockAnswer::Denied(held));
                    }
                }
            }
        }
        let index = match index {
            Some(index) => index,
            None => {
                let index = self.number();
                self.owner_uses(&key, true);
                self.states.insert(index, Entry::Lock(LockState { client, owner: key, open, file, seqid: 0 }));
                if let Some(Entry::Open(open)) = self.states.get_mut(&open) {
                    open.locks.push(index);
                }
                index
            }
        };
        Ok(LockAnswer::Locked(self.step_lock(index)))
    }

    /// Whether a conflicting lock belonged to a client whose lease has expired, and was therefore
    /// released.
    fn goes_away(&mut self, held: &HeldLock) -> bool {
        match held.owner {
            LockOwner::V4 { client, .. } => self.expire_if_lapsed(client),
            LockOwner::Nlm { .. } => false,
        }
    }

    fn step_lock(&mut self, index: u64) -> StateId {
        let seqid = match self.states.get_mut(&index) {
            Some(Entry::Lock(lock)) => {
                lock.seqid = next(lock.seqid);
                lock.seqid
            }
            _ => 0,
        };
        self.state_id(index, seqid)
    }

    /// LOCKT.
    pub fn test_lock(
        &mut self,
        client: u64,
        owner: &Arc<[u8]>,
        file: FileHandle,
        range: LockRange,
        exclusive: bool,
    ) -> Result<LockAnswer> {
        if self.in_grace() || self.v3_reclaims {
            return Err(Status::GRACE);
        }
        let owner = Self::lock_owner(client, owner);
        loop {
            match self.locks.test(file, &owner, range, exclusive) {
                None => return Ok(LockAnswer::Free),
                Some(held) if self.goes_away(&held) => {}
                Some(held) => return Ok(LockAnswer::Denied(held)),
            }
        }
    }

    /// The lock state that a stateid names, with its index, if `asker` may use it for `file`.
    fn known_lock(&self, asker: Asker, id: &StateId, file: FileHandle) -> Result<(u64, &LockState)> {
        let index = self.index_of(id)?;
        let Some(Entry::Lock(lock)) = self.states.get(&index) else { return Err(Status::BAD_STATEID) };
        Self::check_owner(asker, lock.client)?;
        Self::check_sequence(asker, id.seqid, lock.seqid)?;
        match lock.file == file {
            true => Ok((index, lock)),
            false => Err(Status::BAD_STATEID),
        }
    }

    /// LOCKU.
    pub fn unlock(&mut self, asker: Asker, id: &StateId, file: FileHandle, range: LockRange) -> Result<StateId> {
        let (index, lock) = self.known_lock(asker, id, file)?;
        let (client, owner) = (lock.client, Self::lock_owner(lock.client, lock.owner.name()));
        self.renew_client(client);
        self.locks.unlock(file, &owner, range).map_err(|_| Status::RESOURCE)?;
        Ok(self.step_lock(index))
    }

    pub(in crate::nfs::v4::state) fn drop_lock_state(&mut self, index: u64, because_expired: bool) {
        if let Some(Entry::Lock(lock)) = self.states.get(&index) {
            let (file, key, open) = (lock.file, lock.owner.clone(), lock.open);
            let owner = Self::lock_owner(lock.client, key.name());
            // Unlocking everything splits no lock, so the table cannot be full.
            let _ = self.locks.unlock(file, &owner, LockRange::ALL);
            self.owner_uses(&key, false);
            if let Some(Entry::Open(open)) = self.states.get_mut(&open) {
                open.locks.retain(|i| *i != index);
            }
            self.drop_state(index, because_expired);
        }
    }

    /// RELEASE_LOCKOWNER. Fails with `LOCKS_HELD` while the owner holds a lock.
    pub fn release_lock_owner(&mut self, client: u64, owner: &Arc<[u8]>) -> Result<()> {
        let key = OwnerKey::Lock(client, owner.clone());
        let states: Vec<(u64, FileHandle)> = self
            .states
            .iter()
            .filter_map(|(i, e)| match e {
                Entry::Lock(l) if l.owner == key => Some((*i, l.file)),
                _ => None,
            })
            .collect();
        let held = Self::lock_owner(client, owner);
        if states.iter().any(|(_, file)| self.locks.holds(*file, &held)) {
            return Err(Status::LOCKS_HELD);
        }
        states.into_iter().for_each(|(index, _)| self.drop_lock_state(index, false));
        self.owners.remove(&key);
        Ok(())
    }

    /// FREE_STATEID. Fails with `LOCKS_HELD` for an open, and for a lock owner that holds locks on
    /// the file.
    pub fn free_state(&mut self, asker: Asker, id: &StateId) -> Result<()> {
        let index = self.index_of(id)?;
        match self.states.get(&index) {
            Some(Entry::Lock(lock)) => {
                Self::check_owner(asker, lock.client)?;
                Self::check_sequence(asker, id.seqid, lock.seqid)?;
                if self.locks.holds(lock.file, &Self::lock_owner(lock.client, lock.owner.name())) {
                    return Err(Status::LOCKS_HELD);
                }
                self.drop_lock_state(index, false);
                Ok(())
            }
            Some(Entry::Open(open)) => {
                Self::check_owner(asker, open.client)?;
                Err(Status::LOCKS_HELD)
            }
            _ => Err(Status::BAD_STATEID),
        }
    }

    /// TEST_STATEID for one stateid.
    pub fn test_state(&self, asker: Asker, id: &StateId) -> Result<()> {
        let index = self.index_of(id)?;
        let (client, seqid) = match self.states.get(&index) {
            Some(Entry::Open(open)) => (open.client, open.seqid),
            Some(Entry::Lock(lock)) => (lock.client, lock.seqid),
            _ => return Err(Status::BAD_STATEID),
        };
        Self::check_owner(asker, client)?;
        Self::check_sequence(asker, id.seqid, seqid)
    }
}
