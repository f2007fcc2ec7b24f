//! COMPOUND: executes operations in sequence until one fails (RFC 7530 section 15.2, RFC 8881
//! section 16.2).
//!
//! The arguments of an operation are decoded when its turn comes, and its result is appended. The
//! output of a failed operation is discarded, except for a few operations that return details of
//! the failure.
//!
//! Below: the operations in `ops`. Above: [`super::Server`].

use super::Server;
use super::attr::IO_BYTES_MAX;
use super::node::{Granted, Place};
use super::op;
use super::pseudo::PseudoTree;
use super::state::{Asker, Caller, ChannelAttrs, SequenceAnswer, SequenceArgs, StateId};
use super::status::{Result, Status};
use crate::nfs::exports::{Share, Table};
use crate::nfs::figures::Figures;
use crate::nfs::rpc::Call;
use crate::nfs::xdr::{Reader, Writer};
use host::clock::Stopwatch;
use observe::Layer;
use observe::event::note;
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Maximum number of operations in a compound of 4.0; sessions of 4.1 negotiate their own. Guessed.
const OPERATIONS_MAX: u32 = 256;
/// Maximum length of a tag.
const TAG_BYTES_MAX: usize = 1024;
/// Maximum length of a reply of 4.0: the largest READ and the operations around it. Sessions of 4.1
/// negotiate their own.
const REPLY_BYTES_MAX: usize = IO_BYTES_MAX as usize + (64 << 10);
/// Replies up to this size are cached even if the client did not request it, since that costs
/// little.
const KEPT_BYTES: usize = 256;
/// Number of argument bytes that distinguish a repeated request from a new one.
const FINGERPRINT_BYTES: usize = 512;
/// Size of the RPC header of a reply, and minimum of a call's.
const RPC_BYTES: usize = 24;

/// One request in progress.
pub(super) struct Compound<'a> {
    pub server: &'a Server,
    pub call: &'a Call<'a>,
    pub minor: u32,
    pub shares: Arc<Table>,
    pub tree: Arc<PseudoTree>,
    pub current: Option<Place>,
    pub saved: Option<Place>,
    pub current_state: Option<StateId>,
    pub saved_state: Option<StateId>,
    /// The client that owns the session.
    pub client: Option<u64>,
    pub session: Option<SlotInUse<'a>>,
    pub last_share: RefCell<Option<LastShare>>,
    /// Number of operations, and index of the current one.
    pub count: u32,
    pub at: u32,
    /// Position of the reply in the writer.
    pub start: crate::nfs::xdr::Mark,
}

/// (pool GUID, file system GUID), its share, and the client's permissions there.
pub(super) type LastShare = ((u64, u64), Arc<Share>, Arc<Granted>);

/// The slot of the request. Dropping this releases it, even if the request panics: a slot that
/// remains in use would refuse all further requests.
pub(super) struct SlotInUse<'a> {
    server: &'a Server,
    pub session: [u8; 16],
    pub slot: u32,
    pub cache: bool,
    pub fore: ChannelAttrs,
    reply: Option<bytes::Bytes>,
}

impl Drop for SlotInUse<'_> {
    fn drop(&mut self) {
        let reply = self.reply.take();
        self.server.with(|state| state.end_sequence(&self.session, self.slot, reply));
    }
}

impl Compound<'_> {
    /// The identity that stateids are checked against.
    pub fn asker(&self) -> Asker {
        self.client.map_or(Asker::Any, Asker::Client)
    }

    /// The principal that client IDs are checked against.
    pub fn principal(&self) -> u64 {
        match &self.call.header.credential {
            crate::nfs::rpc::Credential::None => u64::MAX,
            crate::nfs::rpc::Credential::Sys(sys) => u64::from(sys.uid),
        }
    }

    /// The principal and host, for operations on a client ID or session.
    pub fn caller(&self) -> Caller {
        Caller { principal: self.principal(), host: self.call.peer.address.ip() }
    }

    /// Reads a stateid, and replaces the special "current stateid" with its value.
    pub fn state_id(&self, r: &mut Reader<'_>) -> Result<StateId> {
        let id = StateId { seqid: r.u32()?, other: r.fixed()? };
        if self.minor > 0 && id == StateId::CURRENT {
            return self.current_state.ok_or(Status::BAD_STATEID);
        }
        Ok(id)
    }

    /// Number of bytes that a result may still use.
    pub fn room(&self, w: &Writer) -> usize {
        let limit = self.session.as_ref().map_or(REPLY_BYTES_MAX, |s| s.fore.response_bytes_max as usize);
        limit.saturating_sub(w.since(self.start) + RPC_BYTES)
    }

    /// The status of an operation whose result does not fit into the reply.
    pub fn too_big(&self) -> Status {
        if self.minor == 0 { Status::RESOURCE } else { Status::REP_TOO_BIG }
    }
}

/// Executes a COMPOUND. Fails only if its header cannot be decoded.
pub(super) fn answer(
    server: &Server,
    call: &Call<'_>,
    r: &mut Reader<'_>,
    w: &mut Writer,
) -> std::result::Result<(), crate::nfs::xdr::Malformed> {
    let request_bytes = r.rest().len();
    let tag = r.opaque(TAG_BYTES_MAX)?;
    let minor = r.u32()?;
    let count = r.u32()?;
    let start = w.mark();
    w.u32(Status::OK.0);
    w.opaque(tag);
    let count_at = w.mark();
    w.u32(0);
    let finish = |w: &mut Writer, status: Status, done: u32| {
        w.patch(start, status.0);
        w.patch(count_at, done);
    };
    if !usize::try_from(minor).is_ok_and(|m| server.config.minor_versions.get(m) == Some(&true)) {
        finish(w, Status::MINOR_VERS_MISMATCH, 0);
        return Ok(());
    }
    call.peer.client.used_v4(minor);
    if std::str::from_utf8(tag).is_err() {
        finish(w, Status::INVAL, 0);
        return Ok(());
    }
    if minor == 0 && count > OPERATIONS_MAX {
        finish(w, Status::RESOURCE, 0);
        return Ok(());
    }
    let (shares, tree) = server.tree();
    let mut compound = Compound {
        server,
        call,
        minor,
        shares,
        tree,
        current: None,
        saved: None,
        current_state: None,
        saved_state: None,
        client: None,
        session: None,
        last_share: RefCell::new(None),
        count,
        at: 0,
        start,
    };
    let (status, done) = match compound.run(r, w, request_bytes) {
        Outcome::Done(status, done) => (status, done),
        Outcome::Repeat(reply) => {
            w.rollback(start);
            w.fixed(&reply);
            return Ok(());
        }
    };
    finish(w, status, done);
    if let Some(mut slot) = compound.session.take() {
        let len = w.since(start);
        let keep = len <= KEPT_BYTES || slot.cache && len <= slot.fore.cached_bytes_max as usize;
        slot.reply = keep.then(|| w.copy_since(start).into());
    }
    Ok(())
}

enum Outcome {
    Done(Status, u32),
    /// The complete reply from the cache.
    Repeat(bytes::Bytes),
}

impl Compound<'_> {
    fn run(&mut self, r: &mut Reader<'_>, w: &mut Writer, request_bytes: usize) -> Outcome {
        for at in 0..self.count {
            self.at = at;
            let Ok(number) = r.u32() else { return Outcome::Done(Status::BADXDR, at) };
            let events = self.server.core.figures.events().map(|events| {
                note::clear();
                // The wait before the compound started is charged to its first operation.
                let begun = if at == 0 { self.call.arrived } else { Stopwatch::start() };
                note::wait(begun.ns(), |n| &mut n.queue_wait);
                (events.clone(), begun)
            });
            let known = op::is_known(number, self.minor);
            let mark = w.mark();
            w.u32(if known { number } else { op::ILLEGAL });
            let status_at = w.mark();
            w.u32(0);
            let body = w.mark();
            let result = if !known {
                Err(Status::OP_ILLEGAL)
            } else if number == op::SEQUENCE {
                match self.sequence(r, w, request_bytes) {
                    Ok(Some(reply)) => return Outcome::Repeat(reply),
                    Ok(None) => Ok(Status::OK),
                    // The sequence ID was correct, but the reply is no longer cached: the next
                    // operation returns that error.
                    Err(Status::RETRY_UNCACHED_REP) if self.count > 1 => {
                        let next = r.u32().unwrap_or(op::ILLEGAL);
                        w.u32(next);
                        w.u32(Status::RETRY_UNCACHED_REP.0);
                        return Outcome::Done(Status::RETRY_UNCACHED_REP, 2);
                    }
                    Err(status) => Err(status),
                }
            } else {
                self.check_position(number).and_then(|()| self.dispatch(number, r, w))
            };
            let mut status = match result {
                Ok(status) => status,
                Err(status) => {
                    w.rollback(body);
                    status
                }
            };
            if let Some(too_big) = self.check_reply(w).filter(|_| number != op::SEQUENCE && !op::changes(number)) {
                w.rollback(body);
                status = too_big;
            }
            debug_assert!(w.since(mark) >= 8);
            w.patch(status_at, status.0);
            if let Some((events, clock)) = events {
                note::result(status.0.cast_signed());
                if let Some(Place::Node(node)) = &self.current {
                    node.note(&self.server.core.figures);
                }
                let layer = if self.minor == 0 { Layer::Nfs4 } else { Layer::Nfs41 };
                let user = self.call.header.credential.user();
                Figures::record_call(&events, layer, number, &self.call.peer.client, user, clock.ns());
            }
            if status != Status::OK {
                tracing::trace!(op = number, status = status.0, "NFSv4 operation failed");
                return Outcome::Done(status, at + 1);
            }
        }
        Outcome::Done(Status::OK, self.count)
    }

    /// Returns an error if the reply exceeds the limits of the session, or of 4.0.
    fn check_reply(&self, w: &Writer) -> Option<Status> {
        let len = w.since(self.start) + RPC_BYTES;
        let Some(slot) = &self.session else { return (len > REPLY_BYTES_MAX).then(|| self.too_big()) };
        if len > slot.fore.response_bytes_max as usize {
            return Some(self.too_big());
        }
        (slot.cache && len > slot.fore.cached_bytes_max as usize + RPC_BYTES).then_some(Status::REP_TOO_BIG_TO_CACHE)
    }

    fn check_position(&self, number: u32) -> Result<()> {
        if self.minor == 0 {
            return Ok(());
        }
        let alone = matches!(
            number,
            op::EXCHANGE_ID
                | op::CREATE_SESSION
                | op::DESTROY_SESSION
                | op::BIND_CONN_TO_SESSION
                | op::DESTROY_CLIENTID
        );
        match (self.session.is_some(), alone) {
            (true, _) => Ok(()),
            (false, true) if self.count == 1 => Ok(()),
            (false, true) => Err(Status::NOT_ONLY_OP),
            (false, false) => Err(Status::OP_NOT_IN_SESSION),
        }
    }

    /// SEQUENCE. Returns the cached reply if this is a retry.
    fn sequence(&mut self, r: &mut Reader<'_>, w: &mut Writer, request_bytes: usize) -> Result<Option<bytes::Bytes>> {
        let (session, sequence, slot, highest) = (r.fixed()?, r.u32()?, r.u32()?, r.u32()?);
        let cache = r.bool()?;
        if self.at != 0 {
            return Err(Status::SEQUENCE_POS);
        }
        let mut hasher = DefaultHasher::new();
        let rest = r.rest();
        (self.principal(), self.count, rest.len(), &rest[..rest.len().min(FINGERPRINT_BYTES)]).hash(&mut hasher);
        let (request_bytes, operations, host) = (request_bytes + RPC_BYTES, self.count, self.call.peer.address.ip());
        let args = SequenceArgs {
            session,
            host,
            sequence,
            slot,
            cache,
            request_bytes,
            operations,
            fingerprint: hasher.finish(),
        };
        let (highest_slot, outcome) = match self.server.with(|state| state.sequence(&args))? {
            SequenceAnswer::Repeat(reply) => return Ok(Some(reply)),
            SequenceAnswer::Uncached { highest_slot } => (highest_slot, Err(Status::RETRY_UNCACHED_REP)),
            SequenceAnswer::Go { client, fore } => {
                self.client = Some(client);
                self.session = Some(SlotInUse { server: self.server, session, slot, cache, fore, reply: None });
                (fore.slots - 1, Ok(None))
            }
        };
        let _ = highest;
        w.fixed(&session);
        w.u32(sequence);
        w.u32(slot);
        w.u32(highest_slot);
        w.u32(highest_slot);
        w.u32(0);
        outcome
    }
}
