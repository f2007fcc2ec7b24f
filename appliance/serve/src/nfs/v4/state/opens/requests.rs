//! Requests that open and close files.

use super::{BOTH, IoWant, Open, OpenRequest, READ, WRITE, combination, next};
use crate::nfs::v4::state::{Asker, Entry, FileState, OwnerKey, State, StateId};
use crate::nfs::v4::status::{Result, Status};
use files::vfs::FileHandle;

impl State {
    /// Whether a client may open now. Checked before a file is created for it.
    pub fn may_open(&self, client: u64, reclaims: bool) -> Result<()> {
        self.check_grace(client, reclaims)
    }

    /// OPEN, after the file was found or created.
    pub fn open(&mut self, request: &OpenRequest<'_>) -> Result<StateId> {
        let (file, client) = (request.file, request.owner.client());
        self.check_grace(client, request.reclaims)?;
        self.check_shares(request.file, request.access, request.deny)?;
        // An open that is reclaimed must not require confirmation (RFC 7530 section 9.1.11): Linux
        // then sends OPEN_CONFIRM with an empty handle and loses its files.
        if request.reclaims
            && let Some(owner) = self.owners.get_mut(request.owner)
        {
            owner.confirmed = true;
        }
        let mine = self.opens_of(file).find(|(_, open)| open.owner == *request.owner).map(|(index, _)| index);
        if let Some(index) = mine
            && let Some(Entry::Open(open)) = self.states.get_mut(&index)
        {
            open.access |= request.access;
            open.deny |= request.deny;
            open.seen |= combination(request.access, request.deny);
            open.seqid = next(open.seqid);
            let seqid = open.seqid;
            return Ok(self.state_id(index, seqid));
        }
        self.room_for_state()?;
        if !self.clients.contains_key(&client) {
            return Err(Status::STALE_CLIENTID);
        }
        let index = self.number();
        let (access, deny) = (request.access, request.deny);
        let seen = combination(access, deny);
        let owner = request.owner.clone();
        self.owner_uses(&owner, true);
        self.states
            .insert(index, Entry::Open(Open { client, owner, file, access, deny, seen, seqid: 1, locks: Vec::new() }));
        let held = || FileState { opens: Vec::new(), held: request.held.clone() };
        self.files.entry(file).or_insert_with(held).opens.push(index);
        // In 4.0 this is the first sign that a client holds state.
        if self.clients.get(&client).is_some_and(|c| !c.has_sessions) && !self.must_confirm(request.owner) {
            self.record(client);
        }
        Ok(self.state_id(index, 1))
    }

    pub(in crate::nfs::v4::state) fn opens_of(&self, file: FileHandle) -> impl Iterator<Item = (u64, &Open)> {
        let opens = self.files.get(&file).map_or(&[][..], |f| &f.opens);
        opens.iter().filter_map(|index| match self.states.get(index) {
            Some(Entry::Open(open)) => Some((*index, open)),
            _ => None,
        })
    }

    /// Fails if a share reservation conflicts, after removing clients whose lease has expired. The
    /// owner's own reservations count too (RFC 7530 section 9.7, RFC 8881 section 9.7).
    fn check_shares(&mut self, file: FileHandle, access: u32, deny: u32) -> Result<()> {
        loop {
            let other = self
                .opens_of(file)
                .find(|(_, open)| open.deny & access != 0 || open.access & deny != 0)
                .map(|(_, open)| open.client);
            match other {
                None => return Ok(()),
                Some(client) if self.expire_if_lapsed(client) => {}
                Some(_) => return Err(Status::SHARE_DENIED),
            }
        }
    }

    fn open_mut(&mut self, asker: Asker, id: &StateId) -> Result<(u64, &mut Open)> {
        let index = self.index_of(id)?;
        match self.states.get_mut(&index) {
            Some(Entry::Open(open)) => {
                Self::check_owner(asker, open.client)?;
                Self::check_sequence(asker, id.seqid, open.seqid)?;
                Ok((index, open))
            }
            _ => Err(Status::BAD_STATEID),
        }
    }

    /// OPEN_CONFIRM (4.0). Fails with `BAD_STATEID` if the owner is already confirmed.
    pub fn open_confirm(&mut self, id: &StateId, file: FileHandle) -> Result<StateId> {
        let (index, open) = self.open_mut(Asker::Any, id)?;
        if open.file != file {
            return Err(Status::BAD_STATEID);
        }
        let (key, client) = (open.owner.clone(), open.client);
        match self.owners.get_mut(&key) {
            Some(owner) if !owner.confirmed => owner.confirmed = true,
            _ => return Err(Status::BAD_STATEID),
        }
        self.record(client);
        let (_, open) = self.open_mut(Asker::Any, id)?;
        open.seqid = next(open.seqid);
        let seqid = open.seqid;
        Ok(self.state_id(index, seqid))
    }

    /// OPEN_DOWNGRADE. Fails with `INVAL` unless the new values are the union of some earlier
    /// opens.
    pub fn downgrade(
        &mut self,
        asker: Asker,
        id: &StateId,
        file: FileHandle,
        access: u32,
        deny: u32,
    ) -> Result<StateId> {
        self.check_confirmed(id)?;
        let (index, open) = self.open_mut(asker, id)?;
        if open.file != file {
            return Err(Status::BAD_STATEID);
        }
        let is_less = access & !open.access == 0 && deny & !open.deny == 0;
        // The new values must be the union of some of the previous opens.
        let union = (0..16u16).filter(|n| open.seen & 1 << n != 0).map(u32::from);
        let (a, d) = union
            .filter(|n| n & BOTH & !access == 0 && n >> 2 & !deny == 0)
            .fold((0, 0), |(a, d), n| (a | n & BOTH, d | n >> 2));
        if access == 0 || !is_less || (a, d) != (access, deny) {
            return Err(Status::INVAL);
        }
        (open.access, open.deny) = (access, deny);
        open.seen = (0..16u16)
            .filter(|n| u32::from(n & 3) & !access == 0 && u32::from(n >> 2) & !deny == 0)
            .map(|n| 1 << n)
            .fold(0, |all, bit: u16| all | bit & open.seen);
        open.seqid = next(open.seqid);
        let seqid = open.seqid;
        Ok(self.state_id(index, seqid))
    }

    fn check_confirmed(&self, id: &StateId) -> Result<()> {
        match self.owner_of(id)? {
            key @ OwnerKey::Open(..) if self.clients.get(&key.client()).is_some_and(|c| c.has_sessions) => Ok(()),
            key if self.must_confirm(&key) => Err(Status::BAD_STATEID),
            _ => Ok(()),
        }
    }

    /// CLOSE. Clients of 4.1 get [`StateId::INVALID`] back.
    pub fn close(&mut self, asker: Asker, id: &StateId, file: FileHandle) -> Result<StateId> {
        self.check_confirmed(id)?;
        let (index, open) = self.open_mut(asker, id)?;
        if open.file != file {
            return Err(Status::BAD_STATEID);
        }
        let (seqid, key) = (next(open.seqid), open.owner.clone());
        self.drop_open(index, false);
        if asker != Asker::Any {
            return Ok(StateId::INVALID);
        }
        if let Some(owner) = self.owners.get_mut(&key) {
            owner.closed = Some(index);
            self.states.insert(index, Entry::Closed(key));
        }
        Ok(self.state_id(index, seqid))
    }

    /// Removes an open with its lock states and their locks.
    pub(in crate::nfs::v4::state) fn drop_open(&mut self, index: u64, because_expired: bool) {
        let locks = match self.states.get_mut(&index) {
            Some(Entry::Open(open)) => std::mem::take(&mut open.locks),
            _ => Vec::new(),
        };
        locks.into_iter().for_each(|lock| self.drop_lock_state(lock, because_expired));
        self.forget_open_of_file(index);
        if let Some(Entry::Open(open)) = self.states.get(&index) {
            let owner = open.owner.clone();
            self.owner_uses(&owner, false);
        }
        self.drop_state(index, because_expired);
    }

    /// Removes an open from its file's list. The file is released with the last one.
    pub(in crate::nfs::v4::state) fn forget_open_of_file(&mut self, index: u64) {
        let Some(Entry::Open(open)) = self.states.get(&index) else { return };
        let file = open.file;
        if let Some(opens) = self.files.get_mut(&file).map(|f| &mut f.opens) {
            opens.retain(|i| *i != index);
            if opens.is_empty()
                && let Some(gone) = self.files.remove(&file)
            {
                self.released.push(gone.held);
            }
        }
    }

    /// Removes the opens of an owner that never confirmed.
    pub(in crate::nfs::v4::state) fn cancel_opens(&mut self, key: &OwnerKey) {
        let is_of = |entry: &Entry| matches!(entry, Entry::Open(open) if open.owner == *key);
        let opens: Vec<u64> = self.states.iter().filter(|(_, e)| is_of(e)).map(|(index, _)| *index).collect();
        opens.into_iter().for_each(|index| self.drop_open(index, false));
    }

    /// Whether a stateid permits I/O to `file`. Renews the lease.
    pub fn check_io(&mut self, asker: Asker, id: &StateId, file: FileHandle, want: IoWant) -> Result<()> {
        let access = if want == IoWant::Read { READ } else { WRITE };
        if *id == StateId::ANONYMOUS || *id == StateId::BYPASS {
            if self.in_grace() {
                return Err(Status::GRACE);
            }
            if *id == StateId::BYPASS && want == IoWant::Read {
                return Ok(());
            }
            return self.check_shares(file, access, 0).map_err(|_| Status::LOCKED);
        }
        let index = self.index_of(id)?;
        let (client, open) = match self.states.get(&index) {
            Some(Entry::Open(open)) => {
                Self::check_sequence(asker, id.seqid, open.seqid)?;
                (open.client, index)
            }
            Some(Entry::Lock(lock)) => {
                Self::check_sequence(asker, id.seqid, lock.seqid)?;
                (lock.client, lock.open)
            }
            _ => return Err(Status::BAD_STATEID),
        };
        Self::check_owner(asker, client)?;
        let Some(Entry::Open(open)) = self.states.get(&open) else { return Err(Status::BAD_STATEID) };
        if open.file != file || self.must_confirm(&open.owner) && asker == Asker::Any {
            return Err(Status::BAD_STATEID);
        }
        // An open for writing may also read: clients read pages before they modify them.
        if want == IoWant::Write && open.access & WRITE == 0 {
            return Err(Status::OPENMODE);
        }
        self.renew_client(client);
        Ok(())
    }
}
