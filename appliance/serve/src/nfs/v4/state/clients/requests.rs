//! Requests about clients as a whole, and the removal of clients.

use super::{Caller, Client, ExchangeAnswer, ExchangeId, host_part};
use crate::nfs::figures::Refusal;
use crate::nfs::locks::LockOwner;
use crate::nfs::v4::state::{Chore, Entry, OwnerKey, State};
use crate::nfs::v4::status::{Result, Status};
use std::net::IpAddr;
use std::sync::Arc;

impl State {
    fn find(&self, name: &[u8], has_sessions: bool, confirmed: bool) -> Option<&Client> {
        self.clients.values().find(|c| c.confirmed == confirmed && c.has_sessions == has_sessions && *c.name == *name)
    }

    fn has_state(&self, client: u64) -> bool {
        self.states.values().any(|s| match s {
            Entry::Open(open) => open.client == client,
            Entry::Lock(lock) => lock.client == client,
            Entry::Closed(_) => false,
        })
    }

    fn add_client(
        &mut self,
        name: &[u8],
        verifier: [u8; 8],
        principal: u64,
        host_of_sessions: Option<IpAddr>,
    ) -> Result<u64> {
        if self.clients.len() >= self.limits.clients && !self.make_room() {
            tracing::warn!(limit = self.limits.clients, "there are too many NFSv4 clients");
            self.chores.push(Chore::Refuse(Refusal::Clients));
            return Err(Status::DELAY);
        }
        let number = self.number();
        let id = u64::from(self.epoch) << 32 | number & 0xffff_ffff;
        let may_reclaim = self.grace.as_ref().is_some_and(|g| g.waiting.contains(name));
        self.clients.insert(
            id,
            Client {
                id,
                has_sessions: host_of_sessions.is_some(),
                name: Arc::from(name),
                verifier,
                principal,
                hosts: host_of_sessions.map(host_part).into_iter().collect(),
                confirmed: false,
                confirm: number.to_be_bytes(),
                new_confirm: None,
                renewed: self.now,
                sequence: 0,
                create_reply: None,
                sessions: Vec::new(),
                reclaim_complete: false,
                may_reclaim,
                recorded: false,
            },
        );
        Ok(id)
    }

    /// Removes a client with all its state.
    pub(in crate::nfs::v4::state) fn remove_client(&mut self, id: u64, because_expired: bool) {
        let Some(client) = self.clients.remove(&id) else { return };
        for session in &client.sessions {
            self.drop_session(session);
        }
        let of_client = |entry: &Entry| match entry {
            Entry::Open(open) => open.client == id,
            Entry::Lock(lock) => lock.client == id,
            Entry::Closed(owner) => owner.client() == id,
        };
        let states: Vec<u64> = self.states.iter().filter(|(_, e)| of_client(e)).map(|(index, _)| *index).collect();
        if !states.is_empty() {
            for index in &states {
                self.forget_open_of_file(*index);
            }
            for index in states {
                self.drop_state(index, because_expired);
            }
            self.locks.release(|owner| matches!(owner, LockOwner::V4 { client, .. } if *client == id));
        }
        self.owners.retain(|key, _| key.client() != id);
        let lives_on = |c: &Client| c.name == client.name && c.recorded;
        if client.recorded && !self.clients.values().any(lives_on) {
            self.chores.push(Chore::Forget(client.name.to_vec()));
        }
    }

    /// SETCLIENTID: returns the client ID and the verifier that confirms it.
    pub fn set_client_id(&mut self, name: &[u8], verifier: [u8; 8], principal: u64) -> Result<(u64, [u8; 8])> {
        let confirmed = self.find(name, false, true).map(|c| (c.id, c.principal, c.verifier));
        if let Some((id, whose, _)) = confirmed
            && whose != principal
            && self.has_state(id)
            && !self.has_lapsed(id)
        {
            return Err(Status::CLID_INUSE);
        }
        if let Some(unconfirmed) = self.find(name, false, false).map(|c| c.id) {
            self.remove_client(unconfirmed, false);
        }
        if let Some((id, whose, old)) = confirmed
            && old == verifier
            && whose == principal
        {
            // The client is active and changes its callback.
            let confirm = self.number().to_be_bytes();
            if let Some(client) = self.clients.get_mut(&id) {
                client.new_confirm = Some(confirm);
            }
            return Ok((id, confirm));
        }
        let id = self.add_client(name, verifier, principal, None)?;
        Ok((id, self.clients.get(&id).map_or([0; 8], |c| c.confirm)))
    }

    /// SETCLIENTID_CONFIRM.
    pub fn confirm_client_id(&mut self, id: u64, confirm: [u8; 8], principal: u64) -> Result<()> {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id).filter(|c| !c.has_sessions) else {
            return Err(Status::STALE_CLIENTID);
        };
        if client.principal != principal {
            return Err(Status::CLID_INUSE);
        }
        if client.confirmed {
            if client.new_confirm == Some(confirm) {
                (client.confirm, client.new_confirm) = (confirm, None);
            }
            client.renewed = now;
            return if client.confirm == confirm { Ok(()) } else { Err(Status::STALE_CLIENTID) };
        }
        if client.confirm != confirm {
            return Err(Status::STALE_CLIENTID);
        }
        let name = client.name.clone();
        let before = self.find(&name, false, true).map(|c| (c.id, c.principal));
        if let Some((old, whose)) = before {
            if whose != principal && self.has_state(old) && !self.has_lapsed(old) {
                return Err(Status::CLID_INUSE);
            }
            self.replace_client(old);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            (client.confirmed, client.renewed) = (true, now);
        }
        Ok(())
    }

    /// The client restarted: its old state is removed, and requests that still use it get an
    /// "expired" error.
    fn replace_client(&mut self, old: u64) {
        self.remove_client(old, true);
    }

    /// Checks the client ID in OPEN, LOCK or RENEW of 4.0, and renews its lease.
    pub fn known_client(&mut self, id: u64) -> Result<()> {
        let now = self.now;
        match self.clients.get_mut(&id) {
            Some(client) if client.confirmed && !client.has_sessions => {
                client.renewed = now;
                Ok(())
            }
            Some(_) => Err(Status::STALE_CLIENTID),
            // An ID of this run, whose lease has expired.
            None if id >> 32 == u64::from(self.epoch) && id & 0xffff_ffff <= self.next => Err(Status::EXPIRED),
            None => Err(Status::STALE_CLIENTID),
        }
    }

    /// EXCHANGE_ID. A new client remains unconfirmed until its first CREATE_SESSION.
    pub fn exchange_id(&mut self, args: &ExchangeId<'_>) -> Result<ExchangeAnswer> {
        let confirmed = self.find(args.name, true, true).map(|c| (c.id, c.principal, c.verifier, c.sequence));
        if args.update {
            let Some((client, whose, verifier, sequence)) = confirmed else { return Err(Status::NOENT) };
            if verifier != args.verifier {
                return Err(Status::NOT_SAME);
            }
            if whose != args.caller.principal {
                return Err(Status::PERM);
            }
            self.came_back(client, args.caller.host);
            return Ok(ExchangeAnswer { client, sequence: sequence.wrapping_add(1), confirmed: true });
        }
        if let Some((client, whose, verifier, sequence)) = confirmed {
            if whose != args.caller.principal {
                if self.has_state(client) && !self.has_lapsed(client) {
                    return Err(Status::CLID_INUSE);
                }
                self.remove_client(client, false);
            } else if verifier == args.verifier {
                self.came_back(client, args.caller.host);
                return Ok(ExchangeAnswer { client, sequence: sequence.wrapping_add(1), confirmed: true });
            }
        }
        if let Some(unconfirmed) = self.find(args.name, true, false).map(|c| c.id) {
            self.remove_client(unconfirmed, false);
        }
        let client = self.add_client(args.name, args.verifier, args.caller.principal, Some(args.caller.host))?;
        Ok(ExchangeAnswer { client, sequence: 1, confirmed: false })
    }

    /// A known client sent EXCHANGE_ID again: renews its lease and records its host.
    fn came_back(&mut self, id: u64, host: IpAddr) {
        self.renew_client(id);
        if let Some(client) = self.clients.get_mut(&id) {
            client.add_host(host);
        }
    }

    /// Confirms a client ID with its first session. Removes the previous incarnation of the same
    /// client.
    pub(in crate::nfs::v4::state) fn confirm_by_session(&mut self, id: u64) -> Result<()> {
        let Some(client) = self.clients.get(&id) else { return Err(Status::STALE_CLIENTID) };
        if client.confirmed {
            return Ok(());
        }
        let name = client.name.clone();
        if let Some(old) = self.find(&name, true, true).map(|c| c.id) {
            self.replace_client(old);
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.confirmed = true;
        }
        Ok(())
    }

    /// DESTROY_CLIENTID. Fails with `CLIENTID_BUSY` while the client has sessions or other state.
    pub fn destroy_client_id(&mut self, id: u64, caller: Caller) -> Result<()> {
        let client = self.clients.get(&id).filter(|c| c.has_sessions).ok_or(Status::STALE_CLIENTID)?;
        // The operation has no error for a host that does not belong to the client.
        client.check_caller(caller).map_err(|_| Status::WRONG_CRED)?;
        if !client.sessions.is_empty() || self.has_state(id) {
            return Err(Status::CLIENTID_BUSY);
        }
        self.remove_client(id, false);
        Ok(())
    }

    /// RECLAIM_COMPLETE for all file systems.
    pub fn reclaim_complete(&mut self, id: u64) -> Result<()> {
        let client = self.clients.get_mut(&id).ok_or(Status::STALE_CLIENTID)?;
        if client.reclaim_complete {
            return Err(Status::COMPLETE_ALREADY);
        }
        client.reclaim_complete = true;
        let name = client.name.clone();
        self.record(id);
        if let Some(grace) = &mut self.grace {
            grace.waiting.remove(&*name);
        }
        self.end_grace_when_over();
        Ok(())
    }

    /// Requests that this client is recorded as one that may reclaim.
    pub(in crate::nfs::v4::state) fn record(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id)
            && !client.recorded
        {
            client.recorded = true;
            self.chores.push(Chore::Record(client.name.to_vec()));
        }
    }

    /// Whether a client may open or lock now, or may only reclaim.
    pub(in crate::nfs::v4::state) fn check_grace(&self, id: u64, reclaims: bool) -> Result<()> {
        let client = self.clients.get(&id).ok_or(Status::STALE_CLIENTID)?;
        match (reclaims, self.in_grace()) {
            (true, true) if client.may_reclaim && !client.reclaim_complete => Ok(()),
            (true, _) => Err(Status::NO_GRACE),
            (false, true) => Err(Status::GRACE),
            // A client with sessions must send RECLAIM_COMPLETE first.
            (false, false) if client.has_sessions && !client.reclaim_complete => Err(Status::GRACE),
            (false, false) => Ok(()),
        }
    }

    /// Removes owners that have been idle for a lease and hold no state.
    pub(in crate::nfs::v4::state) fn forget_idle_owners(&mut self) {
        let (now, lease) = (self.now, self.lease_ms);
        let mut closed = Vec::new();
        self.owners.retain(|_, owner| {
            let stays = owner.uses > 0 || now.saturating_sub(owner.used) <= lease;
            if !stays {
                closed.extend(owner.closed);
            }
            stays
        });
        closed.into_iter().for_each(|index| self.drop_state(index, false));
    }

    /// Renews the lease of an owner's client.
    pub(in crate::nfs::v4::state) fn touch_owner_client(&mut self, key: &OwnerKey) {
        self.renew_client(key.client());
    }
}
