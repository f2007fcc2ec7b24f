//! Operations on names: create, link, unlink, rmdir. Rename: see [`rename`](super::rename).
//!
//! Locks: see [`live`](super::live). Facts: zfs_create, zfs_link, zfs_remove, zfs_rmdir.

use super::FileSystem;
use super::backing::{Estimate, Settings};
use super::live::{InTransaction, Live, Locked, assert_unlocked};
use super::log::Group;
use super::make::Forced;
use super::state::State;
use crate::vfs::{Attr, Caller, FileKind, NewNode, SetAttr, SetTime, Time};
use errors::{Error, Refusal, Result};
use object::Tx;
use ondisk::zap::Value as ZapValue;
use ondisk::znode::{DirEntryValue, Flags};
use std::sync::atomic::Ordering;

/// Maximum number of links to a file: the limit of the kernel's counter.
pub(super) const LINKS_MAX: u64 = (1 << 31) - 1;
/// Longest name, and longest name with `longname`.
const NAME_BYTES_MAX: usize = 255;
const LONG_NAME_BYTES_MAX: usize = 1023;
/// Bytes that an operation on names may write: some blocks of directories and attributes. Guessed.
pub(super) const NAMES_BYTES: u64 = 128 << 10;

impl FileSystem {
    /// Runs `op` in a transaction, and commits its result to stable storage if the dataset requires
    /// that.
    pub(super) fn operate<R>(
        &self,
        bytes: u64,
        frees: bool,
        op: impl FnOnce(&Tx, &Live, &Settings) -> Result<R>,
    ) -> Result<R> {
        let live = self.live()?;
        let settings = live.backing.settings();
        let replaying = live.replaying.load(Ordering::Relaxed);
        if settings.read_only && !replaying {
            return Err(Refusal::ReadOnly.at(""));
        }
        // Operations in the log were admitted before the crash, and must be admitted again.
        let in_transaction = InTransaction::begin();
        let tx = live.backing.begin(Estimate { bytes, frees: frees || replaying })?;
        let one_version = self.version_lock.read();
        let result = op(&tx, live, &settings)?;
        drop((one_version, tx, in_transaction));
        assert_unlocked("a commit waits for the intent log");
        if settings.sync_always && !replaying {
            live.backing.commit(None)?;
        }
        Ok(result)
    }

    /// Checks that a file may get this name.
    pub(super) fn check_name(&self, name: &[u8], settings: &Settings) -> Result<()> {
        let shown = || format!("{:?}", String::from_utf8_lossy(name));
        if name == b"." || name == b".." {
            return Err(Refusal::Exists.at(shown()));
        }
        if name.is_empty() || name.contains(&0) || name.contains(&b'/') {
            return Err(Error::invalid(shown(), "is no name for a file"));
        }
        check_length(name, settings.long_names)?;
        if !self.master.names.allow(name) {
            return Err(Refusal::NameNotUtf8.at(shown()));
        }
        Ok(())
    }

    /// The value of a new directory entry for a file.
    pub(super) fn new_entry(&self, id: u64, kind: FileKind) -> u64 {
        match self.version().has_entry_types() {
            true => id | super::make::kind_bits(kind) >> 12 << 60,
            false => id,
        }
    }

    /// Adds `name` to directory `parent`, for the file whose object is `id`.
    pub(super) fn enter(
        &self,
        tx: &Tx,
        parent: &mut State,
        name: &[u8],
        id: u64,
        kind: FileKind,
        now: Time,
    ) -> Result<()> {
        let value = self.new_entry(id, kind);
        self.dir_zap(parent.object.id())?.insert(tx, name, &ZapValue::one(value))?;
        if name.len() > NAME_BYTES_MAX {
            self.live()?.backing.uses_long_name();
        }
        parent.size = parent.size.saturating_add(1);
        parent.links = parent.links.saturating_add(u64::from(kind == FileKind::Directory));
        parent.touch_contents(now);
        // A partial change would prevent a retry.
        parent.store(self, tx, &[]).inspect_err(|_| {
            let _ = self.dir_zap(parent.object.id()).and_then(|zap| zap.remove(tx, name));
        })
    }

    /// Removes `name`, exactly as stored, from directory `parent`.
    pub(super) fn leave(&self, tx: &Tx, parent: &mut State, name: &[u8], kind: FileKind, now: Time) -> Result<()> {
        let zap = self.dir_zap(parent.object.id())?;
        let before = parent.clone();
        parent.size = parent.size.saturating_sub(1);
        parent.links -= u64::from(kind == FileKind::Directory && parent.links > 0);
        parent.touch_contents(now);
        parent.store(self, tx, &[])?;
        zap.remove(tx, name).inspect_err(|_| {
            let _ = parent.put_back(self, tx, before);
        })
    }

    /// [`Vfs::create`](crate::vfs::Vfs::create); `forced` if it is replayed from the intent log.
    pub(super) fn make_named(
        &self,
        who: &Caller,
        dir: u64,
        name: &[u8],
        new: &NewNode,
        how: (u32, u32, Option<&Forced>),
    ) -> Result<Attr> {
        self.make_with(who, dir, name, new, how, None)
    }

    /// [`Vfs::create_marked`](crate::vfs::Vfs::create_marked).
    pub(super) fn make_marked(
        &self,
        who: &Caller,
        dir: u64,
        name: &[u8],
        (mode, umask): (u32, u32),
        times: (Time, Time),
    ) -> Result<Attr> {
        self.make_with(who, dir, name, &NewNode::Regular, (mode, umask, None), Some(times))
    }

    fn make_with(
        &self,
        who: &Caller,
        dir: u64,
        name: &[u8],
        new: &NewNode,
        (mode, umask, forced): (u32, u32, Option<&Forced>),
        times: Option<(Time, Time)>,
    ) -> Result<Attr> {
        self.operate(NAMES_BYTES, false, |tx, live, settings| {
            self.check_name(name, settings)?;
            let node = live.node(dir);
            self.change(&[&node], |l| {
                let parent = l.get(dir);
                check_directory(parent)?;
                if self.find_entry(dir, name)?.is_some() {
                    return Err(Refusal::Exists.at(quoted(dir, name)));
                }
                check_may_enter(parent)?;
                if *new == NewNode::Directory && parent.links >= LINKS_MAX {
                    return Err(Refusal::TooManyLinks.at(quoted(dir, name)));
                }
                self.in_steps(tx, l, &[dir], |l, undo| {
                    let how = (mode, umask, forced);
                    let mut made = self.make_in(tx, settings, who, l.get(dir), (name, new), how)?;
                    undo.made(made.state.object.id());
                    undo.entered(dir, name);
                    let target = match new {
                        NewNode::Symlink(target) => Some(&target[..]),
                        _ => None,
                    };
                    let mut group = Group::default();
                    group.create(tx, &made.state, name, target, made.slots);
                    match (times, forced.and_then(|f| f.attributes)) {
                        (None, None) => {}
                        (_, Some(set)) => {
                            self.set_attributes_in(tx, (live, settings), who, &mut made.state, &set, true)?;
                        }
                        (Some((atime, mtime)), None) => {
                            (made.state.atime, made.state.mtime) = (atime, mtime);
                            let (atime, mtime) = (Some(SetTime::To(atime)), Some(SetTime::To(mtime)));
                            group.set_attr(tx, &made.state, &SetAttr { atime, mtime, ..SetAttr::default() });
                            made.state.store(self, tx, &[])?;
                        }
                    }
                    self.store_lists(tx, settings, &mut made, &mut group)?;
                    let attr = self.attr_of(&made.state, settings.record_bytes)?;
                    self.log_group(tx, &made.state, group);
                    Ok(attr)
                })
            })
        })
    }

    pub(super) fn link_named(&self, id: u64, dir: u64, name: &[u8]) -> Result<Attr> {
        self.operate(NAMES_BYTES, false, |tx, live, settings| {
            self.check_name(name, settings)?;
            let (node, dir_node) = (live.node(id), live.node(dir));
            self.change(&[&node, &dir_node], |l| {
                let file = l.get(id);
                if file.is_dir() {
                    return Err(Refusal::NotPermitted.at(file.object.place()));
                }
                let is_first = file.links == 0;
                if is_first && !node.unnamed.load(Ordering::SeqCst) {
                    return Err(Error::not_found("", format!("object {id}")));
                }
                if file.links >= LINKS_MAX {
                    return Err(Refusal::TooManyLinks.at(file.object.place()));
                }
                if file.flags.intersects(Flags::IMMUTABLE | Flags::APPENDONLY) {
                    return Err(Refusal::NotPermitted.at(file.object.place()));
                }
                let (kind, project) = (file.kind, file.project);
                let parent = l.get(dir);
                check_directory(parent)?;
                if self.find_entry(dir, name)?.is_some() {
                    return Err(Refusal::Exists.at(quoted(dir, name)));
                }
                check_may_enter(parent)?;
                if parent.flags.contains(Flags::PROJINHERIT) && parent.project != project {
                    return Err(Refusal::CrossDevice.at(quoted(dir, name)));
                }
                let now = live.backing.now();
                self.in_steps(tx, l, &[id, dir], |l, undo| {
                    self.enter(tx, l.get(dir), name, id, kind, now)?;
                    undo.entered(dir, name);
                    let file = l.get(id);
                    file.links += 1;
                    file.parent = dir;
                    file.touch(now);
                    file.store(self, tx, &[])?;
                    let attr = self.attr_of(file, settings.record_bytes)?;
                    if is_first {
                        self.unqueue(tx, id)?;
                        // The log does not record how the file was created. All commits wait for
                        // the txg: any record about this name, including its removal, requires a
                        // tree that has it.
                        live.backing.unloggable_for_all(tx);
                        node.unnamed.store(false, Ordering::SeqCst);
                    } else {
                        self.log_link(tx, dir, id, name);
                    }
                    Ok(attr)
                })
            })
        })
    }

    /// The object that `name` leads to, looked up under the directory's lock. Once the lock is
    /// released, the name may lead elsewhere.
    pub(super) fn peek(&self, live: &Live, dir: u64, name: &[u8]) -> Result<u64> {
        let node = live.node(dir);
        let parent = self.look(&node)?;
        check_directory(&parent)?;
        check_length(name, live.backing.settings().long_names)?;
        self.find_entry(dir, name)?.ok_or_else(|| Error::not_found("", quoted(dir, name)))
    }

    /// Removes `name`, which must be a directory if `want_dir`.
    pub(super) fn remove_named(&self, dir: u64, name: &[u8], want_dir: bool) -> Result<()> {
        match name {
            b"." | b".." if !want_dir => return Err(Refusal::IsDirectory.at(quoted(dir, name))),
            b"." => return Err(Error::invalid(quoted(dir, name), "a directory cannot be removed from within")),
            b".." => return Err(Refusal::NotEmpty.at(quoted(dir, name))),
            _ => {}
        }
        let orphan = self.operate(NAMES_BYTES, true, |tx, live, _| {
            loop {
                let id = self.peek(live, dir, name)?;
                let (node, dir_node) = (live.node(id), live.node(dir));
                let done = retried(self.change(&[&dir_node, &node], |l| {
                    check_directory(l.get(dir))?;
                    let Some((value, stored)) = self.find_stored(dir, name)? else {
                        return Err(Error::not_found("", quoted(dir, name)));
                    };
                    if value.object != id {
                        return Ok(None);
                    }
                    let file = l.get(id);
                    match (want_dir, file.is_dir()) {
                        (true, false) => return Err(Refusal::NotDirectory.at(quoted(dir, name))),
                        (false, true) => return Err(Refusal::IsDirectory.at(quoted(dir, name))),
                        _ => {}
                    }
                    check_may_leave(l.get(dir), None)?;
                    check_may_leave(l.get(id), Some(name))?;
                    let now = live.backing.now();
                    let orphan = self.drop_link(tx, l, dir, (value, &stored), now)?;
                    self.log_remove(tx, dir, id, name, want_dir);
                    Ok(Some(orphan))
                }))?;
                if let Some(orphan) = done {
                    return Ok(orphan);
                }
            }
        })?;
        self.reap_orphan(orphan);
        Ok(())
    }

    /// Removes an entry, under its name as stored, and frees the file if it was the last. Returns
    /// the hidden directory that must then be dismantled, if there is one.
    fn drop_link(
        &self,
        tx: &Tx,
        l: &mut Locked<'_>,
        dir: u64,
        (value, stored): (DirEntryValue, &[u8]),
        now: Time,
    ) -> Result<Option<u64>> {
        let id = value.object;
        self.check_empty(l.get(id), (dir, stored))?;
        self.in_steps(tx, l, &[dir, id], |l, undo| {
            let kind = l.get(id).kind;
            self.leave(tx, l.get(dir), stored, kind, now)?;
            undo.changed(dir, stored, value);
            self.count_down(tx, l, id, now)
        })
    }

    /// Fails if the file of this entry is a directory that is not empty.
    pub(super) fn check_empty(&self, file: &State, (dir, name): (u64, &[u8])) -> Result<()> {
        if file.is_dir() && self.dir_zap(file.object.id())?.count()? > 0 {
            return Err(Refusal::NotEmpty.at(quoted(dir, name)));
        }
        Ok(())
    }

    /// Decrements the link count of a file, and frees it if no name is left. The last of an
    /// operation's steps: a file that was freed does not come back.
    pub(super) fn count_down(&self, tx: &Tx, l: &mut Locked<'_>, id: u64, now: Time) -> Result<Option<u64>> {
        let file = l.get(id);
        file.links = file.links.saturating_sub(1);
        if file.links > file.links_of_nameless() {
            file.touch(now);
            file.store(self, tx, &[])?;
            return Ok(None);
        }
        file.links = 0;
        // Of a file with damage, the space cannot be found. It stays in the queue.
        let is_kept = l.is_open(id) || self.check_freeable(id).is_err();
        if is_kept {
            let file = l.get(id);
            file.ctime = now;
            file.store(self, tx, &[])?;
            self.queue_unlinked(tx, id)?;
            return Ok(None);
        }
        self.free_file(tx, l, id, false)
    }
}

/// Retries the lookup if the file that a name led to was freed before it was locked.
pub(super) fn retried<R>(result: Result<Option<R>>) -> Result<Option<R>> {
    match result {
        Err(Error::Refused { why: Refusal::Stale, .. }) => Ok(None),
        other => other,
    }
}

/// Rejects names that no file can have.
pub(super) fn check_length(name: &[u8], long_names: bool) -> Result<()> {
    let most = if long_names { LONG_NAME_BYTES_MAX } else { NAME_BYTES_MAX };
    if name.len() > most { Err(Refusal::NameTooLong.at(String::from_utf8_lossy(name))) } else { Ok(()) }
}

/// A name in a directory, formatted for messages.
pub(super) fn quoted(dir: u64, name: &[u8]) -> String {
    format!("{:?} in object {dir}", String::from_utf8_lossy(name))
}

pub(super) fn check_directory(state: &State) -> Result<()> {
    if !state.is_dir() {
        return Err(Refusal::NotDirectory.at(state.object.place()));
    }
    if state.links == 0 {
        return Err(Error::not_found("", state.object.place()));
    }
    Ok(())
}

pub(super) fn check_may_enter(dir: &State) -> Result<()> {
    if dir.flags.contains(Flags::IMMUTABLE) {
        return Err(Refusal::NotPermitted.at(dir.object.place()));
    }
    Ok(())
}

/// `name` is that of the file itself; `None` for its directory.
pub(super) fn check_may_leave(state: &State, name: Option<&[u8]>) -> Result<()> {
    let forbidding = match name {
        Some(_) => Flags::IMMUTABLE | Flags::APPENDONLY | Flags::NOUNLINK,
        None => Flags::IMMUTABLE | Flags::APPENDONLY,
    };
    if state.flags.intersects(forbidding) {
        return Err(Refusal::NotPermitted.at(state.object.place()));
    }
    Ok(())
}
