//! Files without names: kept while they are open, queued so that a crash does not leak them, and
//! freed.
//!
//! The queue (`DELETE_QUEUE`) is a ZAP of object numbers, in hexadecimal. A hidden directory of
//! extended attributes is queued when its file is freed, and dismantled in transactions of its own.
//! Facts: zfs_rmnode, zfs_purgedir, zfs_unlinked_drain.

use super::FileSystem;
use super::live::Locked;
use super::log::Group;
use super::names::{NAMES_BYTES, check_directory};
use super::state::State;
use crate::vfs::{Attr, Caller, NewNode};
use errors::{Error, Result};
use object::{Tx, Zap};
use ondisk::zap::Value as ZapValue;
use ondisk::znode::{DirEntryValue, Flags};
use std::sync::atomic::Ordering;

/// Extended attributes freed in one transaction. Guessed.
const ATTRIBUTES_AT_ONCE: usize = 64;
/// Bytes that freeing a file may write. Guessed.
const FREEING_BYTES: u64 = 64 << 10;

impl FileSystem {
    fn queue(&self) -> Result<Zap> {
        let id = self.master.delete_queue.ok_or_else(|| Error::corrupt("", "the master node has no DELETE_QUEUE"))?;
        self.object(id).and_then(Zap::open)
    }

    /// Queues an open file whose last name was removed.
    pub(super) fn queue_unlinked(&self, tx: &Tx, id: u64) -> Result<()> {
        self.queue()?.insert(tx, format!("{id:x}").as_bytes(), &ZapValue::one(id))
    }

    /// [`Vfs::create_unnamed`](crate::vfs::Vfs::create_unnamed). The file is in the delete queue
    /// from the start, so that a crash does not leak it.
    pub(super) fn make_unnamed(&self, who: &Caller, dir: u64, mode: u32, umask: u32) -> Result<Attr> {
        self.operate(NAMES_BYTES, false, |tx, live, settings| {
            let node = live.node(dir);
            let mut made = self.change(&[&node], |l| {
                let parent = l.get(dir);
                check_directory(parent)?;
                self.make_alone(tx, settings, who, parent, &NewNode::Regular, (mode, umask, None))
            })?;
            let id = made.state.object.id();
            made.state.links = 0;
            // Nothing is recorded for a file without a name.
            let stored = self
                .store_lists(tx, settings, &mut made, &mut Group::default())
                .and_then(|()| made.state.store(self, tx, &[]))
                .and_then(|()| self.queue_unlinked(tx, id));
            if let Err(e) = stored {
                let _ = self.unmake(tx, id);
                return Err(e);
            }
            live.node(id).unnamed.store(true, Ordering::SeqCst);
            self.attr_of(&made.state, settings.record_bytes)
        })
    }

    pub(super) fn unqueue(&self, tx: &Tx, id: u64) -> Result<()> {
        match self.queue()?.remove(tx, format!("{id:x}").as_bytes()) {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// Reads what freeing an object reads while the txg syncs, when an error suspends the pool.
    pub(super) fn check_freeable(&self, id: u64) -> Result<()> {
        let checked = self.object(id).and_then(|object| object.check_indirect(0..u64::MAX));
        checked.inspect_err(|error| {
            tracing::warn!(dataset = self.options.name, object = id, %error, "a removed file is damaged: its space is not freed");
        })
    }

    /// Frees a file that has no name and is not open. Returns its hidden directory, which is now
    /// queued. On failure nothing is changed.
    pub(super) fn free_file(&self, tx: &Tx, l: &mut Locked<'_>, id: u64, is_queued: bool) -> Result<Option<u64>> {
        let file = l.get(id);
        let hidden = file.xattr_dir;
        // Objects that are held can be freed without reading their dnodes.
        let list = file.entries_object(self)?;
        let mut dir = if hidden == 0 { None } else { Some(self.load_state(hidden)?) };
        let before = dir.clone();
        if let Some(dir) = &mut dir {
            self.queue_hidden(tx, dir)?;
        }
        if is_queued && let Err(error) = self.unqueue(tx, id) {
            if let (Some(mut dir), Some(before)) = (dir, before) {
                let _ = self.unqueue(tx, hidden).and_then(|()| dir.put_back(self, tx, before));
            }
            return Err(error);
        }
        if let Some(list) = list {
            self.objset.free_object(tx, list.id())?;
        }
        self.objset.free_object(tx, id)?;
        self.live()?.backing.forget(id);
        l.set_gone(id);
        Ok((hidden != 0).then_some(hidden))
    }

    /// Queues the hidden directory of a file that is about to be freed.
    fn queue_hidden(&self, tx: &Tx, dir: &mut State) -> Result<()> {
        let before = dir.clone();
        dir.links = 0;
        dir.store(self, tx, &[])?;
        self.queue_unlinked(tx, dir.object.id()).inspect_err(|_| {
            let _ = dir.put_back(self, tx, before);
        })
    }

    /// Dismantles the hidden directory of a file that was freed. Whatever fails stays in the queue
    /// until the file system is opened again.
    pub(super) fn reap_orphan(&self, hidden: Option<u64>) {
        if let Some(hidden) = hidden
            && let Err(error) = self.take_apart(hidden)
        {
            tracing::warn!(dataset = self.options.name, %error, "extended attributes of a removed file are not freed yet");
        }
    }

    fn take_apart(&self, hidden: u64) -> Result<()> {
        loop {
            let is_done = self.operate(FREEING_BYTES, true, |tx, live, _| {
                let zap = self.dir_zap(hidden)?;
                let entries = zap.cursor(0).take(ATTRIBUTES_AT_ONCE).collect::<Result<Vec<_>>>()?;
                if entries.is_empty() {
                    self.unqueue(tx, hidden)?;
                    self.objset.free_object(tx, hidden)?;
                    live.forget(hidden);
                    return Ok(true);
                }
                for (entry, _) in entries {
                    let value = entry.value.ints.first().copied().unwrap_or(0);
                    let id = DirEntryValue::unpack(value).object;
                    match self.check_freeable(id) {
                        Err(Error::NotFound { .. }) | Ok(()) => {}
                        Err(e) => return Err(e),
                    }
                    zap.remove(tx, &entry.name)?;
                    match self.objset.free_object(tx, id) {
                        Err(Error::NotFound { .. }) | Ok(()) => {
                            live.backing.forget(id);
                            live.forget(id);
                        }
                        Err(e) => return Err(e),
                    }
                }
                Ok(false)
            })?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Frees a file if it has no name and is not open.
    fn reap(&self, id: u64) -> Result<()> {
        let orphan = self.operate(FREEING_BYTES, true, |tx, live, _| {
            let node = live.node(id);
            self.change(&[&node], |l| match l.get(id).links == 0 && !l.is_open(id) {
                true if self.check_freeable(id).is_err() => Ok(None),
                true => self.free_file(tx, l, id, true),
                false => Ok(None),
            })
        })?;
        self.reap_orphan(orphan);
        Ok(())
    }

    pub(super) fn opened(&self, id: u64) -> Result<()> {
        let Some(live) = &self.live else { return Ok(()) };
        let node = live.open(id);
        let is_there = self.look(&node).map(|_| ());
        if is_there.is_err() {
            node.opens.fetch_sub(1, Ordering::SeqCst);
        }
        is_there
    }

    pub(super) fn closed(&self, id: u64) -> Result<()> {
        let Some(live) = &self.live else { return Ok(()) };
        let Some(node) = live.known(id) else { return Ok(()) };
        let before = node.opens.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if before != Ok(1) {
            return Ok(());
        }
        if node.rests() {
            // It has no references any more and is in no ring.
            live.enter(&node);
            return Ok(());
        }
        let is_nameless = self.look(&node)?.links == 0;
        if is_nameless { self.reap(id) } else { Ok(()) }
    }

    /// Frees files that were removed while open when the file system was last in use. Returns their
    /// number.
    pub fn drain_unlinked(&self) -> Result<u64> {
        let mut freed = 0;
        for id in self.unlinked()? {
            let is_hidden = match self.load_state(id) {
                Ok(file) => file.is_dir() && file.flags.contains(Flags::XATTR),
                Err(Error::NotFound { .. }) => {
                    self.operate(FREEING_BYTES, true, |tx, _, _| self.unqueue(tx, id))?;
                    continue;
                }
                Err(e) => return Err(e),
            };
            if is_hidden {
                self.take_apart(id)?
            } else {
                self.reap(id)?
            }
            freed += 1;
        }
        Ok(freed)
    }
}
