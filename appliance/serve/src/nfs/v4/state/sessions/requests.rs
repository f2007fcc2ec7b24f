//! Requests of sessions.

use super::{ChannelAttrs, SequenceAnswer, SequenceArgs, Session, SessionState, Slot};
use crate::nfs::figures::Refusal;
use crate::nfs::v4::state::clients::Caller;
use crate::nfs::v4::state::{Chore, State};
use crate::nfs::v4::status::{Result, Status};
use bytes::Bytes;

/// Limits of one session. The number of slots is what Linux requests.
const SLOTS_MAX: u32 = 64;

const CACHED_BYTES_MAX: u32 = 4096;
const OPERATIONS_MAX: u32 = 128;
const MESSAGE_BYTES_MAX: u32 = (1 << 20) + 4096;

/// Useful requests and replies are at least this long.
const MESSAGE_BYTES_MIN: u32 = 200;

/// Size of the reply to SEQUENCE alone.
const SEQUENCE_REPLY_BYTES: u32 = 56;

/// Maximum number of sessions of one client.
const SESSIONS_OF_CLIENT_MAX: usize = 64;

impl State {
    /// CREATE_SESSION (RFC 8881 section 18.36). `encode` turns the session into the reply, which is
    /// cached for retries of the client's own principal: it has the ID of the session.
    pub fn create_session(
        &mut self,
        client: u64,
        sequence: u32,
        (wanted, back): (ChannelAttrs, ChannelAttrs),
        caller: Caller,
        encode: impl FnOnce(&Session) -> Vec<u8>,
    ) -> Result<Vec<u8>> {
        let known = self.clients.get(&client).filter(|c| c.has_sessions).ok_or(Status::STALE_CLIENTID)?;
        // A confirmed client without state protection may create sessions as other principals too.
        let is_own = known.principal == caller.principal;
        if !is_own && !known.confirmed {
            return Err(Status::CLID_INUSE);
        }
        if !known.is_of_host(caller.host) {
            // The client must send EXCHANGE_ID from this host first, which proves that it is the
            // same client.
            return Err(Status::STALE_CLIENTID);
        }
        if sequence == known.sequence
            && is_own
            && let Some(reply) = &known.create_reply
        {
            return Ok(reply.clone());
        }
        if sequence != known.sequence.wrapping_add(1) {
            return Err(Status::SEQ_MISORDERED);
        }
        if [wanted, back].iter().any(|c| c.request_bytes_max.min(c.response_bytes_max) < MESSAGE_BYTES_MIN) {
            return Err(Status::TOOSMALL);
        }
        if wanted.slots == 0 || wanted.operations_max == 0 {
            return Err(Status::INVAL);
        }
        if known.sessions.len() >= SESSIONS_OF_CLIENT_MAX
            || self.sessions.len() >= self.limits.sessions && !self.make_room()
        {
            tracing::warn!(client, "there are too many NFSv4 sessions");
            self.chores.push(Chore::Refuse(Refusal::Sessions));
            return Err(Status::RESOURCE);
        }
        self.confirm_by_session(client)?;
        let left = self.limits.slots.saturating_sub(self.slots) as u32;
        let slots = wanted.slots.min(SLOTS_MAX).min(left.max(1));
        let fore = ChannelAttrs {
            request_bytes_max: wanted.request_bytes_max.min(MESSAGE_BYTES_MAX),
            response_bytes_max: wanted.response_bytes_max.min(MESSAGE_BYTES_MAX),
            cached_bytes_max: wanted.cached_bytes_max.min(CACHED_BYTES_MAX),
            operations_max: wanted.operations_max.min(OPERATIONS_MAX),
            slots,
        };
        let id = self.session_id(client);
        self.slots += slots as usize;
        self.sessions.insert(id, SessionState { client, fore, slots: vec![Slot::default(); slots as usize] });
        let reply = encode(&Session { id, fore });
        let now = self.now;
        if let Some(known) = self.clients.get_mut(&client) {
            known.sessions.push(id);
            known.sequence = sequence;
            known.create_reply = Some(reply.clone());
            known.renewed = now;
        }
        Ok(reply)
    }

    pub(in crate::nfs::v4::state) fn drop_session(&mut self, id: &[u8; 16]) {
        if let Some(session) = self.sessions.remove(id) {
            self.slots -= session.slots.len();
        }
    }

    /// Creates a session ID that other hosts cannot guess: with SP4_NONE, it is the only thing that
    /// SEQUENCE proves (RFC 8881 section 2.10.8.3).
    fn session_id(&mut self, client: u64) -> [u8; 16] {
        let number = self.number();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&client.to_be_bytes());
        let hash = blake3::keyed_hash(&self.session_key, &number.to_be_bytes());
        id[8..].copy_from_slice(&hash.as_bytes()[..8]);
        id
    }

    /// Whether the session exists.
    #[cfg(test)]
    pub fn has_session(&self, id: &[u8; 16]) -> bool {
        self.sessions.contains_key(id)
    }

    /// BIND_CONN_TO_SESSION: allows the client to use the session from this host too.
    pub fn bind(&mut self, id: &[u8; 16], caller: Caller) -> Result<()> {
        let session = self.sessions.get(id).ok_or(Status::BADSESSION)?;
        let client = self.clients.get_mut(&session.client).ok_or(Status::BADSESSION)?;
        if client.principal != caller.principal {
            return Err(Status::WRONG_CRED);
        }
        client.add_host(caller.host);
        Ok(())
    }

    /// DESTROY_SESSION. Fails unless the caller is the client that owns the session.
    pub fn destroy_session(&mut self, id: &[u8; 16], caller: Caller) -> Result<()> {
        let session = self.sessions.get(id).ok_or(Status::BADSESSION)?;
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.check_caller(caller)?;
            client.sessions.retain(|s| s != id);
        }
        self.drop_session(id);
        Ok(())
    }

    /// SEQUENCE. A new request renews the lease. Fails with `DELAY` while the slot is busy.
    pub fn sequence(&mut self, args: &SequenceArgs) -> Result<SequenceAnswer> {
        let session = self.sessions.get_mut(&args.session).ok_or(Status::BADSESSION)?;
        if self.clients.get(&session.client).is_some_and(|client| !client.is_of_host(args.host)) {
            return Err(Status::CONN_NOT_BOUND_TO_SESSION);
        }
        let highest_slot = session.slots.len() as u32 - 1;
        let slot = session.slots.get_mut(args.slot as usize).ok_or(Status::BADSLOT)?;
        let (client, fore) = (session.client, session.fore);
        if args.sequence == slot.sequence.wrapping_add(1) {
            if slot.busy {
                return Err(Status::DELAY);
            }
            // A request that is refused leaves the slot unchanged (RFC 8881 section 2.10.6.1).
            if args.operations > fore.operations_max {
                return Err(Status::TOO_MANY_OPS);
            }
            if args.request_bytes > fore.request_bytes_max as usize {
                return Err(Status::REQ_TOO_BIG);
            }
            if args.cache && fore.cached_bytes_max < SEQUENCE_REPLY_BYTES {
                return Err(Status::REP_TOO_BIG_TO_CACHE);
            }
            *slot = Slot { sequence: args.sequence, busy: true, reply: None, fingerprint: args.fingerprint };
            self.renew_client(client);
            return Ok(SequenceAnswer::Go { client, fore });
        }
        if args.sequence != slot.sequence || slot.sequence == 0 {
            return Err(Status::SEQ_MISORDERED);
        }
        if slot.busy {
            return Err(Status::DELAY);
        }
        if args.fingerprint != slot.fingerprint {
            return Err(Status::SEQ_FALSE_RETRY);
        }
        Ok(slot.reply.clone().map_or(SequenceAnswer::Uncached { highest_slot }, SequenceAnswer::Repeat))
    }

    /// Releases the slot after its request was answered, and caches `reply` for retries.
    pub fn end_sequence(&mut self, session: &[u8; 16], slot: u32, reply: Option<Bytes>) {
        if let Some(slot) = self.sessions.get_mut(session).and_then(|s| s.slots.get_mut(slot as usize)) {
            (slot.busy, slot.reply) = (false, reply);
        }
    }
}
