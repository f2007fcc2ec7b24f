//! LOCK, LOCKT, LOCKU, and the operations that free lock state.

use super::super::node::Place;
use super::super::op;
use super::super::state::{LockAnswer, LockWho, OwnerKey, StateId};
use super::super::status::{Result, Status};
use super::Compound;
use super::open::{name_of_owner, write_state};
use crate::nfs::locks::{HeldLock, LockOwner, LockRange};
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{FileHandle, FileKind};
use std::sync::Arc;

/// Reads `nfs_lock_type4`: `READ_LT` or `WRITE_LT`. The blocking variants are treated the same,
/// because clients retry.
fn is_exclusive(r: &mut Reader<'_>) -> Result<bool> {
    match r.u32()? {
        1 | 3 => Ok(false),
        2 | 4 => Ok(true),
        _ => Err(Status::BADXDR),
    }
}

fn range(offset: u64, length: u64) -> Result<LockRange> {
    LockRange::new(offset, length).ok_or(Status::INVAL)
}

fn write_denied(w: &mut Writer, held: &HeldLock) {
    w.u64(held.range.start);
    w.u64(held.range.length());
    w.u32(if held.exclusive { 2 } else { 1 });
    match &held.owner {
        LockOwner::V4 { client, owner } => {
            w.u64(*client);
            w.opaque(owner);
        }
        LockOwner::Nlm { owner, .. } => {
            w.u64(0);
            w.opaque(owner);
        }
    }
}

impl Compound<'_> {
    /// The current file, which must be a regular file.
    fn lockable(&self) -> Result<FileHandle> {
        match self.current()? {
            Place::Pseudo(_) => Err(Status::ISDIR),
            Place::Node(node) => match node.attr()?.kind {
                FileKind::Regular => Ok(node.key),
                FileKind::Directory => Err(Status::ISDIR),
                _ => Err(Status::INVAL),
            },
        }
    }

    pub(super) fn lock(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (exclusive, reclaims, offset, length) = (is_exclusive(r)?, r.bool()?, r.u64()?, r.u64()?);
        let who = match r.bool()? {
            true => {
                let (open_seqid, open, lock_seqid) = (r.u32()?, self.state_id(r)?, r.u32()?);
                let (client, owner) = (r.u64()?, name_of_owner(r)?);
                Locker::New { open_seqid, open, lock_seqid, client, owner }
            }
            false => Locker::Known { id: self.state_id(r)?, seqid: r.u32()? },
        };
        let file = self.lockable()?;
        let range = range(offset, length)?;
        let act = move |this: &mut Self, w: &mut Writer, who: &LockWho| {
            let asker = this.asker();
            match this.server.with(|state| state.lock(asker, who, file, range, exclusive, reclaims))? {
                LockAnswer::Locked(id) => {
                    write_state(w, &id);
                    this.current_state = Some(id);
                    Ok(Status::OK)
                }
                LockAnswer::Denied(held) => {
                    write_denied(w, &held);
                    Ok(Status::DENIED)
                }
                LockAnswer::Free => Err(Status::SERVERFAULT),
            }
        };
        match who {
            Locker::Known { id, seqid } => {
                let key = self.server.with(|state| state.owner_of(&id))?;
                if !matches!(key, OwnerKey::Lock(..)) {
                    return Err(Status::BAD_STATEID);
                }
                self.in_sequence((&key, op::LOCK, seqid, false), w, |this, w| act(this, w, &LockWho::Known(id)))
            }
            Locker::New { open_seqid, open, lock_seqid, client, owner } => {
                let key = self.server.with(|state| state.owner_of(&open))?;
                if !matches!(key, OwnerKey::Open(..)) {
                    return Err(Status::BAD_STATEID);
                }
                if self.minor == 0 {
                    self.server.with(|state| state.known_client(client))?;
                    if client != key.client() {
                        return Err(Status::BAD_STATEID);
                    }
                }
                let lock_key = OwnerKey::Lock(key.client(), owner.clone());
                // The request counts in both sequences.
                self.in_sequence((&key, op::LOCK, open_seqid, false), w, |this, w| {
                    this.in_sequence((&lock_key, op::LOCK, lock_seqid, true), w, |this, w| {
                        act(this, w, &LockWho::New { open, owner })
                    })
                })
            }
        }
    }

    pub(super) fn lockt(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (exclusive, offset, length) = (is_exclusive(r)?, r.u64()?, r.u64()?);
        let (client, owner) = (r.u64()?, name_of_owner(r)?);
        let file = self.lockable()?;
        let range = range(offset, length)?;
        let client = match self.client {
            Some(client) => client,
            None => {
                self.server.with(|state| state.known_client(client))?;
                client
            }
        };
        match self.server.with(|state| state.test_lock(client, &owner, file, range, exclusive))? {
            LockAnswer::Denied(held) => {
                write_denied(w, &held);
                Ok(Status::DENIED)
            }
            _ => Ok(Status::OK),
        }
    }

    pub(super) fn locku(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let (_exclusive, seqid) = (is_exclusive(r)?, r.u32()?);
        let (id, offset, length) = (self.state_id(r)?, r.u64()?, r.u64()?);
        let file = self.lockable()?;
        let range = range(offset, length)?;
        let key = self.server.with(|state| state.owner_of(&id))?;
        if !matches!(key, OwnerKey::Lock(..)) {
            return Err(Status::BAD_STATEID);
        }
        self.in_sequence((&key, op::LOCKU, seqid, false), w, |this, w| {
            let asker = this.asker();
            let id = this.server.with(|state| state.unlock(asker, &id, file, range))?;
            write_state(w, &id);
            this.current_state = Some(id);
            Ok(Status::OK)
        })
    }

    pub(super) fn release_lockowner(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let (client, owner) = (r.u64()?, name_of_owner(r)?);
        self.server.with(|state| {
            state.known_client(client)?;
            state.release_lock_owner(client, &owner)
        })
    }

    pub(super) fn free_stateid(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let (id, asker) = (self.state_id(r)?, self.asker());
        self.server.with(|state| state.free_state(asker, &id))
    }

    pub(super) fn test_stateid(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let count = r.list(usize::MAX, 16)?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(StateId { seqid: r.u32()?, other: r.fixed()? });
        }
        let asker = self.asker();
        w.u32(ids.len() as u32);
        self.server.with(|state| {
            for id in &ids {
                w.u32(state.test_state(asker, id).err().unwrap_or(Status::OK).0);
            }
        });
        Ok(())
    }
}

/// `locker4`.
enum Locker {
    New { open_seqid: u32, open: StateId, lock_seqid: u32, client: u64, owner: Arc<[u8]> },
    Known { id: StateId, seqid: u32 },
}
