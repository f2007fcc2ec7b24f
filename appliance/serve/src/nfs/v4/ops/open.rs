//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE.

use super::super::Server;
use super::super::attr::NewAttrs;
use super::super::bitmap::{self, Bitmap};
use super::super::node::{KeptOpen, Node, Place};
use super::super::op;
use super::super::rights;
use super::super::state::{Begin, Held, OpenRequest, OwnerKey, Reply, StateId};
use super::super::status::{Result, Status};
use super::set::{mode_of_new, set_attrs, set_new};
use super::{Compound, check_name, component};
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{Attr, FileKind, NewNode, SetAttr, SyncKind, Time};
use std::sync::Arc;

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
/// Bits of `share_access` in 4.1 that request or decline delegations, which are never granted.
const WANTS: u32 = 0x3_ff00;

const WANT_MASK: u32 = 0xff00;
const WANT_NONE: u32 = 0x400;
const WANT_CANCEL: u32 = 0x500;
/// `open_delegation_type4` and `why_no_delegation4`.
const NO_DELEGATION: u32 = 0;
const NO_DELEGATION_BECAUSE: u32 = 3;
const NOT_WANTED: u32 = 0;
const NO_RESOURCES: u32 = 2;

const CLAIM_NULL: u32 = 0;
const CLAIM_PREVIOUS: u32 = 1;
const CLAIM_DELEGATE_CUR: u32 = 2;
const CLAIM_DELEGATE_PREV: u32 = 3;
const CLAIM_FH: u32 = 4;
const CLAIM_DELEG_CUR_FH: u32 = 5;
const CLAIM_DELEG_PREV_FH: u32 = 6;

const RESULT_CONFIRM: u32 = 2;
/// `OPEN4_RESULT_LOCKTYPE_POSIX`: an owner's locks replace each other, as in POSIX.
const RESULT_LOCKTYPE_POSIX: u32 = 4;

/// Maximum length of an owner (`NFS4_OPAQUE_LIMIT`).
pub(super) const OWNER_BYTES_MAX: usize = 1024;

/// How to create a file that does not exist.
enum Create {
    No,
    Unchecked(NewAttrs),
    Guarded(NewAttrs),
    Exclusive([u8; 8], NewAttrs),
}

struct Args {
    access: u32,
    deny: u32,
    create: Create,
    claim: u32,
    name: Vec<u8>,
    /// The delegation flags of the request (4.1).
    wants: u32,
}

/// The file that OPEN found or created.
struct Opened {
    place: Place,
    attr: Attr,
    /// The directory of the name, and its change attribute before.
    dir: Option<(Node, u64)>,
    made: Made,
    set: Bitmap,
}

/// Whether OPEN created the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    No,
    Now,
    /// The file carries the verifier of this exclusive create, so an earlier attempt of the same
    /// request probably created it. Times that were set explicitly could look the same.
    Before,
}

/// The times in which an exclusive create stores its verifier.
fn verifier_times(verifier: [u8; 8]) -> (Time, Time) {
    let half = |bytes: &[u8]| {
        let seconds = bytes.iter().fold(0_i64, |n, b| n << 8 | i64::from(*b));
        Time { seconds, nanoseconds: 0 }
    };
    (half(&verifier[..4]), half(&verifier[4..]))
}

pub(super) fn name_of_owner(r: &mut Reader<'_>) -> Result<Arc<[u8]>> {
    Ok(Arc::from(r.opaque(OWNER_BYTES_MAX)?))
}

/// An owner with a request in progress. Dropping this ends the request, even after a panic: an
/// owner that remains busy would have all further requests refused.
struct OwnerInUse<'a> {
    server: &'a Server,
    key: &'a OwnerKey,
    seqid: u32,
    number: u32,
    is_ended: bool,
}

impl OwnerInUse<'_> {
    fn end(mut self, reply: Reply) {
        self.is_ended = true;
        self.server.with(|state| state.end(self.key, self.seqid, reply));
    }
}

impl Drop for OwnerInUse<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            let reply = Reply { op: self.number, status: Status::SERVERFAULT, body: Vec::new(), handle: None };
            self.server.with(|state| state.end(self.key, self.seqid, reply));
        }
    }
}

impl Compound<'_> {
    /// Executes a request that is subject to an owner's seqid: exactly once in 4.0, unconditionally
    /// in 4.1.
    pub(super) fn in_sequence(
        &mut self,
        (key, number, seqid, is_first): (&OwnerKey, u32, u32, bool),
        w: &mut Writer,
        act: impl FnOnce(&mut Self, &mut Writer) -> Result<Status>,
    ) -> Result<Status> {
        if self.minor > 0 {
            return act(self, w);
        }
        match self.server.with(|state| state.begin(key, number, seqid, is_first))? {
            Begin::Repeat(reply) => {
                w.fixed(&reply.body);
                if let Some(handle) = &reply.handle {
                    let place = self.find(handle)?;
                    self.put(place);
                }
                Ok(reply.status)
            }
            Begin::Go => {
                let in_use = OwnerInUse { server: self.server, key, seqid, number, is_ended: false };
                let mut own = Writer::new();
                let result = act(self, &mut own);
                let (status, body) = match result {
                    Ok(status) => (status, own.to_vec()),
                    Err(status) => (status, Vec::new()),
                };
                let handle = match (&self.current, number, status) {
                    (Some(place), op::OPEN, Status::OK) => self.handle_of(place).ok(),
                    _ => None,
                };
                w.fixed(&body);
                in_use.end(Reply { op: number, status, body, handle });
                Ok(status)
            }
        }
    }

    pub(super) fn open(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (seqid, access, deny) = (r.u32()?, r.u32()?, r.u32()?);
        let (client, owner) = (r.u64()?, name_of_owner(r)?);
        let args = self.open_args(r, access, deny);
        if args.as_ref().is_err_and(|e| *e == Status::BADXDR) {
            return Err(Status::BADXDR);
        }
        let client = match self.client {
            Some(client) => client,
            None => {
                self.server.with(|state| state.known_client(client))?;
                client
            }
        };
        self.current()?;
        let key = OwnerKey::Open(client, owner);
        self.in_sequence((&key, op::OPEN, seqid, true), w, |this, w| this.open_new(&key, args?, w))
    }

    /// Decodes the remaining arguments. All are decoded before any is rejected, so that the
    /// following operation can be found.
    fn open_args(&self, r: &mut Reader<'_>, access: u32, deny: u32) -> Result<Args> {
        let mut wrong = Ok(());
        let create = match r.u32()? {
            0 => Create::No,
            1 => {
                let mode = r.u32()?;
                let mut attrs = |r: &mut Reader<'_>| -> Result<NewAttrs> {
                    Ok(NewAttrs::read(r, self.minor)?.unwrap_or_else(|status| {
                        wrong = Err(status);
                        NewAttrs::default()
                    }))
                };
                match mode {
                    0 => Create::Unchecked(attrs(r)?),
                    1 => Create::Guarded(attrs(r)?),
                    2 => Create::Exclusive(r.fixed()?, NewAttrs::default()),
                    3 if self.minor > 0 => Create::Exclusive(r.fixed()?, attrs(r)?),
                    _ => return Err(Status::BADXDR),
                }
            }
            _ => return Err(Status::BADXDR),
        };
        let claim = r.u32()?;
        let name = match claim {
            CLAIM_NULL | CLAIM_DELEGATE_PREV => component(r)?.to_vec(),
            CLAIM_PREVIOUS => {
                r.u32()?;
                Vec::new()
            }
            CLAIM_DELEGATE_CUR => {
                self.state_id(r)?;
                component(r)?.to_vec()
            }
            CLAIM_FH | CLAIM_DELEG_PREV_FH if self.minor > 0 => Vec::new(),
            CLAIM_DELEG_CUR_FH if self.minor > 0 => {
                self.state_id(r)?;
                Vec::new()
            }
            _ => return Err(Status::BADXDR),
        };
        wrong?;
        let wants = if self.minor > 0 { access & WANTS } else { 0 };
        let access = access & !wants;
        if access == 0 || access & !BOTH != 0 || deny & !BOTH != 0 {
            return Err(Status::INVAL);
        }
        if let Create::Exclusive(_, attrs) = &create
            && !attrs.given.minus(bitmap::EXCLUSIVE_CREATE).is_empty()
        {
            return Err(Status::INVAL);
        }
        Ok(Args { access, deny, create, claim, name, wants })
    }

    fn open_new(&mut self, key: &OwnerKey, args: Args, w: &mut Writer) -> Result<Status> {
        let reclaims = args.claim == CLAIM_PREVIOUS;
        match args.claim {
            CLAIM_NULL | CLAIM_PREVIOUS | CLAIM_FH => {}
            // Delegations are never granted.
            CLAIM_DELEGATE_CUR | CLAIM_DELEG_CUR_FH => return Err(Status::BAD_STATEID),
            _ => return Err(Status::RECLAIM_BAD),
        }
        self.server.with(|state| state.may_open(key.client(), reclaims))?;
        let found = match args.claim {
            CLAIM_NULL => self.open_by_name(&args)?,
            _ => {
                let place = self.current()?.clone();
                let attr = self.attr_of(&place)?;
                Opened { place, attr, dir: None, made: Made::No, set: Bitmap::default() }
            }
        };
        let node = match &found.place {
            Place::Node(node) => node,
            Place::Pseudo(_) => return Err(Status::ISDIR),
        };
        match found.attr.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Status::ISDIR),
            FileKind::Symlink => return Err(Status::SYMLINK),
            _ if self.minor == 0 => return Err(Status::SYMLINK),
            _ => return Err(Status::WRONG_TYPE),
        }
        if args.access & WRITE != 0 {
            node.check_writable()?;
        }
        // The user who created the file gets the requested access, whatever the mode is.
        let may_have_made = match found.made {
            Made::No => false,
            Made::Now => true,
            Made::Before => found.attr.uid == node.who().uid,
        };
        if !may_have_made && !reclaims {
            if args.access & READ != 0 {
                check_open_read(node, &found.attr)?;
            }
            if args.access & WRITE != 0 {
                rights::check(node, &found.attr, rights::WRITE)?;
            }
        }
        node.vfs().open_node(node.id)?;
        let held: Held = Arc::new(KeptOpen::of(node));
        let request = OpenRequest { owner: key, file: node.key, access: args.access, deny: args.deny, reclaims, held };
        let (id, confirm) = self.server.with(|state| {
            let id = state.open(&request)?;
            Ok::<_, Status>((id, state.must_confirm(key)))
        })?;
        // Truncate only now, after no share reservation has refused the open.
        let mut set = found.set;
        if let Create::Unchecked(attrs) = &args.create
            && found.made == Made::No
            && args.claim == CLAIM_NULL
            && attrs.set.size == Some(0)
        {
            let cut = NewAttrs {
                given: Bitmap::of(&[bitmap::SIZE]),
                set: SetAttr { size: Some(0), ..SetAttr::default() },
                ..NewAttrs::default()
            };
            let is_open = args.access & WRITE != 0;
            set_attrs(node, &node.attr()?, &cut, is_open, &mut set)?;
            self.changed(node)?;
        }
        let made = found.made != Made::No;
        write_state(w, &id);
        match &found.dir {
            Some((dir, before)) => {
                let after = if made { self.changed(dir)? } else { *before };
                Self::change_info(w, *before, after);
            }
            None => {
                let change = self.change_of(&found.place, &found.attr);
                Self::change_info(w, change, change);
            }
        }
        w.u32(RESULT_LOCKTYPE_POSIX | if confirm && self.minor == 0 { RESULT_CONFIRM } else { 0 });
        set.write(w);
        write_no_delegation(w, args.wants);
        self.put(found.place);
        self.current_state = Some(id);
        Ok(Status::OK)
    }

    fn open_by_name(&self, args: &Args) -> Result<Opened> {
        let dir = match self.current()? {
            Place::Node(node) => node,
            Place::Pseudo(_) => {
                check_name(&args.name)?;
                return match self.step(self.current()?, &args.name) {
                    Ok(_) => Err(Status::ISDIR),
                    Err(Status::NOENT) if !matches!(args.create, Create::No) => Err(Status::ROFS),
                    Err(status) => Err(status),
                };
            }
        };
        let attr = dir.is_directory()?;
        let before = self.before(dir, &attr);
        check_name(&args.name)?;
        let found = match self.step(self.current()?, &args.name) {
            Ok(place) => Some(place),
            Err(Status::NOENT) if !matches!(args.create, Create::No) => None,
            Err(status) => return Err(status),
        };
        if let Some(place) = found {
            return self.open_existing(dir, before, place, args);
        }
        dir.check_writable()?;
        rights::check(dir, &attr, rights::EXECUTE | rights::WRITE)?;
        let none = NewAttrs::default();
        let (attrs, verifier) = match &args.create {
            Create::Unchecked(attrs) | Create::Guarded(attrs) => (attrs, None),
            Create::Exclusive(verifier, attrs) => (attrs, Some(*verifier)),
            Create::No => (&none, None),
        };
        let (mode, umask) = mode_of_new(attrs, 0o644);
        dir.changes();
        let made = match verifier.map(verifier_times) {
            None => dir.vfs().create(dir.who(), dir.id, &args.name, &NewNode::Regular, mode, umask),
            // The verifier is stored in the same transaction, so that it survives a crash of this
            // server.
            Some(times) => dir.vfs().create_marked(dir.who(), dir.id, &args.name, (mode, umask), times),
        };
        let made = match made.map_err(Status::from) {
            // Another client was faster.
            Err(Status::EXIST) => {
                let place = self.step(self.current()?, &args.name)?;
                return self.open_existing(dir, before, place, args);
            }
            made => made?,
        };
        let place = self.node_from(dir, made)?;
        let Place::Node(node) = &place else { return Err(Status::SERVERFAULT) };
        let mut set = attrs.given;
        set_new(node, attrs)?;
        if verifier.is_some() && self.minor == 0 {
            // Attributes that the client must set again after the verifier is no longer needed (RFC
            // 7530 section 16.16.5).
            set = Bitmap::of(&[bitmap::TIME_ACCESS_SET, bitmap::TIME_MODIFY_SET]);
        }
        if !node.granted.is_async {
            node.vfs().sync_node(node.id, SyncKind::All)?;
        }
        let attr = node.vfs().attr(node.id)?;
        Ok(Opened { place, attr, dir: Some((dir.clone(), before)), made: Made::Now, set })
    }

    fn open_existing(&self, dir: &Node, before: u64, place: Place, args: &Args) -> Result<Opened> {
        let attr = self.attr_of(&place)?;
        let mut made = Made::No;
        match &args.create {
            Create::Guarded(_) => return Err(Status::EXIST),
            Create::Exclusive(verifier, _) => {
                let (atime, mtime) = verifier_times(*verifier);
                if attr.kind != FileKind::Regular || (attr.atime, attr.mtime) != (atime, mtime) {
                    return Err(Status::EXIST);
                }
                made = Made::Before;
            }
            Create::No | Create::Unchecked(_) => {}
        }
        Ok(Opened { place, attr, dir: Some((dir.clone(), before)), made, set: Bitmap::default() })
    }

    pub(super) fn open_confirm(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (id, seqid) = (self.state_id(r)?, r.u32()?);
        let file = self.open_file()?;
        let key = self.server.with(|state| state.owner_of(&id))?;
        self.in_sequence((&key, op::OPEN_CONFIRM, seqid, false), w, |this, w| {
            let id = this.server.with(|state| state.open_confirm(&id, file))?;
            write_state(w, &id);
            Ok(Status::OK)
        })
    }

    pub(super) fn open_downgrade(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (id, seqid, access, deny) = (self.state_id(r)?, r.u32()?, r.u32()?, r.u32()?);
        let access = if self.minor > 0 { access & !WANTS } else { access };
        let file = self.open_file()?;
        let key = self.server.with(|state| state.owner_of(&id))?;
        self.in_sequence((&key, op::OPEN_DOWNGRADE, seqid, false), w, |this, w| {
            if access & !BOTH != 0 || deny & !BOTH != 0 {
                return Err(Status::INVAL);
            }
            let asker = this.asker();
            let id = this.server.with(|state| state.downgrade(asker, &id, file, access, deny))?;
            write_state(w, &id);
            this.current_state = Some(id);
            Ok(Status::OK)
        })
    }

    pub(super) fn close(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (seqid, id) = (r.u32()?, self.state_id(r)?);
        let file = self.open_file()?;
        let key = self.server.with(|state| state.owner_of(&id))?;
        self.in_sequence((&key, op::CLOSE, seqid, false), w, |this, w| {
            let asker = this.asker();
            let id = this.server.with(|state| state.close(asker, &id, file))?;
            write_state(w, &id);
            this.current_state = Some(id);
            Ok(Status::OK)
        })
    }

    /// The file of the current file handle.
    pub(super) fn open_file(&self) -> Result<files::vfs::FileHandle> {
        match self.current()? {
            Place::Node(node) => Ok(node.key),
            Place::Pseudo(_) => Err(Status::BAD_STATEID),
        }
    }
}

/// Opening for reading requires read or execute permission.
fn check_open_read(node: &Node, attr: &Attr) -> Result<()> {
    rights::check(node, attr, rights::READ).or_else(|_| rights::check(node, attr, rights::EXECUTE))
}

/// Writes "no delegation", with the reason if the client asked for one.
fn write_no_delegation(w: &mut Writer, wants: u32) {
    match wants & WANT_MASK {
        0 => w.u32(NO_DELEGATION),
        WANT_NONE | WANT_CANCEL => {
            w.u32(NO_DELEGATION_BECAUSE);
            w.u32(NOT_WANTED);
        }
        _ => {
            w.u32(NO_DELEGATION_BECAUSE);
            w.u32(NO_RESOURCES);
            // `ond_server_will_signal_avail`: no delegation will become available later.
            w.bool(false);
        }
    }
}

pub(super) fn write_state(w: &mut Writer, id: &StateId) {
    w.u32(id.seqid);
    w.fixed(&id.other);
}
