//! Operations on names: create, link, unlink, rmdir, rename.
//!
//! Locks: see [`live`](super::live). Facts: zfs_create, zfs_link, zfs_remove, zfs_rmdir,
//! zfs_rename.

use super::backing::{Estimate, Settings};
use super::live::{Live, Locked};
use super::log::Group;
use super::make::Forced;
use super::state::State;
use super::{CaseSensitivity, FileSystem};
use crate::vfs::{Attr, Caller, FileKind, NewNode, RenameFlags, SetAttr, SetTime, Time};
use crate::{Error, Refusal, Result};
use object::{Tx, ZapValue};
use ondisk::znode::Flags;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of links to a file: the limit of the kernel's counter.
const LINKS_MAX: u64 = (1 << 31) - 1;
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
        let tx = live.backing.begin(Estimate { bytes, frees: frees || replaying })?;
        let result = op(&tx, live, &settings)?;
        drop(tx);
        if settings.sync_always && !replaying {
            live.backing.commit(None)?;
        }
        Ok(result)
    }

    /// Checks that a file may get this name.
    fn check_name(&self, name: &[u8], settings: &Settings) -> Result<()> {
        let shown = || format!("{:?}", String::from_utf8_lossy(name));
        if name == b"." || name == b".." {
            return Err(Refusal::Exists.at(shown()));
        }
        if name.is_empty() || name.contains(&0) || name.contains(&b'/') {
            return Err(Error::invalid(shown(), "is no name for a file"));
        }
        check_length(name, settings.long_names)?;
        if self.utf8_only && std::str::from_utf8(name).is_err() {
            return Err(Refusal::NameNotUtf8.at(shown()));
        }
        Ok(())
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
        let value = id | super::make::kind_bits(kind) >> 12 << 60;
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
        self.dir_zap(parent.object.id())?.remove(tx, name)?;
        parent.size = parent.size.saturating_sub(1);
        parent.links -= u64::from(kind == FileKind::Directory && parent.links > 0);
        parent.touch_contents(now);
        parent.store(self, tx, &[])
    }

    /// Makes `name`, exactly as stored, lead to another file than before; the earlier one is of
    /// type `old`.
    fn replace(
        &self,
        tx: &Tx,
        parent: &mut State,
        name: &[u8],
        old: FileKind,
        (id, kind): (u64, FileKind),
        now: Time,
    ) -> Result<()> {
        let value = id | super::make::kind_bits(kind) >> 12 << 60;
        self.dir_zap(parent.object.id())?.update(tx, name, &ZapValue::one(value))?;
        parent.links = parent.links.saturating_add(u64::from(kind == FileKind::Directory));
        parent.links -= u64::from(old == FileKind::Directory && parent.links > 0);
        parent.touch_contents(now);
        parent.store(self, tx, &[])
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
                let mut made = self.make_in(tx, settings, who, parent, (name, new), (mode, umask, forced))?;
                let target = match new {
                    NewNode::Symlink(target) => Some(&target[..]),
                    _ => None,
                };
                let mut group = Group::default();
                group.create(tx, &made.state, name, target, made.slots);
                let stored = match (times, forced.and_then(|f| f.attributes)) {
                    (None, None) => Ok(()),
                    (_, Some(set)) => {
                        self.set_attributes_in(tx, (live, settings), who, &mut made.state, &set, true).inspect_err(
                            |_| {
                                // Creating it can be retried.
                                let _ = self.leave(tx, parent, name, made.state.kind, live.backing.now());
                                let _ = self.objset.free_object(tx, made.state.object.id());
                            },
                        )
                    }
                    (Some((atime, mtime)), None) => {
                        (made.state.atime, made.state.mtime) = (atime, mtime);
                        let (atime, mtime) = (Some(SetTime::To(atime)), Some(SetTime::To(mtime)));
                        group.set_attr(tx, &made.state, &SetAttr { atime, mtime, ..SetAttr::default() });
                        made.state.store(self, tx, &[])
                    }
                };
                let stored = stored.and_then(|()| self.store_lists(tx, settings, &mut made, &mut group));
                if stored.is_ok() || !self.is_replaying() {
                    self.log_group(tx, &made.state, group);
                }
                stored?;
                self.attr_of(&made.state, settings.record_bytes)
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
                self.enter(tx, parent, name, id, kind, now)?;
                let file = l.get(id);
                file.links += 1;
                file.parent = dir;
                file.touch(now);
                if let Err(error) = file.store(self, tx, &[]) {
                    // A name that the link count does not include would be left dangling when the
                    // last counted name is removed.
                    self.leave(tx, l.get(dir), name, kind, now)?;
                    return Err(error);
                }
                if is_first {
                    // The log does not record how the file was created. All commits wait for the
                    // txg: any record about this name, including its removal, requires a tree that
                    // has it.
                    live.backing.unloggable_for_all(tx);
                    self.unqueue(tx, id)?;
                    node.unnamed.store(false, Ordering::SeqCst);
                } else {
                    self.log_link(tx, dir, id, name);
                }
                self.attr_of(file, settings.record_bytes)
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
                    let orphan = self.drop_link(tx, l, (dir, &stored), id, now)?;
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

    /// Removes a name, as stored, from a file, and frees the file if it was the last. Returns the
    /// hidden directory that must then be dismantled, if there is one.
    fn drop_link(
        &self,
        tx: &Tx,
        l: &mut Locked<'_>,
        (dir, stored): (u64, &[u8]),
        id: u64,
        now: Time,
    ) -> Result<Option<u64>> {
        let file = l.get(id);
        if file.is_dir() && self.dir_zap(id)?.count()? > 0 {
            return Err(Refusal::NotEmpty.at(quoted(dir, stored)));
        }
        let kind = file.kind;
        self.leave(tx, l.get(dir), stored, kind, now)?;
        let dropped = self.count_down(tx, l, id, now);
        if dropped.is_err() {
            // Removing it can be retried.
            let _ = self.enter(tx, l.get(dir), stored, id, kind, now);
        }
        dropped
    }

    /// Decrements the link count of a file.
    fn count_down(&self, tx: &Tx, l: &mut Locked<'_>, id: u64, now: Time) -> Result<Option<u64>> {
        let file = l.get(id);
        file.links = file.links.saturating_sub(1);
        if file.links > file.links_of_nameless() {
            file.touch(now);
            file.store(self, tx, &[])?;
            return Ok(None);
        }
        file.links = 0;
        if l.is_open(id) {
            let file = l.get(id);
            file.ctime = now;
            file.store(self, tx, &[])?;
            self.queue_unlinked(tx, id)?;
            return Ok(None);
        }
        self.free_file(tx, l, id, false)
    }

    /// [`Vfs::rename`](crate::vfs::Vfs::rename). `whiteout` holds the fixed properties of a
    /// whiteout that is replayed from the intent log.
    pub(super) fn rename_named(
        &self,
        who: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
        whiteout: Option<&Forced>,
    ) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return Err(Error::invalid("", "rename that exchanges can do nothing else"));
        }
        for (dir, name) in [from, to] {
            if name == b"." || name == b".." {
                return Err(Refusal::Busy.at(quoted(dir, name)));
            }
        }
        let orphan = self.operate(NAMES_BYTES, false, |tx, live, settings| {
            self.check_name(to.1, settings)?;
            loop {
                let source = self.peek(live, from.0, from.1)?;
                let target = match self.peek(live, to.0, to.1) {
                    Ok(id) => Some(id),
                    Err(Error::NotFound { .. }) => None,
                    Err(e) => return Err(e),
                };
                // In the order in which Linux checks for errors.
                if flags.no_replace && target.is_some() {
                    return Err(Refusal::Exists.at(quoted(to.0, to.1)));
                }
                if flags.exchange && target.is_none() {
                    return Err(Error::not_found("", quoted(to.0, to.1)));
                }
                // Directories change their parents: the shape of the tree is locked meanwhile.
                let moves_dirs = from.0 != to.0
                    && (self.is_directory(live, source)?
                        || flags.exchange && target.map_or(Ok(false), |id| self.is_directory(live, id))?);
                let _shape = moves_dirs.then(|| live.shape.lock());
                if moves_dirs {
                    self.check_no_loop(live, source, to.0, to)?;
                    if let Some(target) = target.filter(|_| flags.exchange) {
                        self.check_no_loop(live, target, from.0, from)?;
                    }
                }
                let mut nodes: Vec<Arc<_>> = [from.0, to.0, source].map(|id| live.node(id)).into();
                nodes.extend(target.map(|id| live.node(id)));
                let nodes: Vec<&Arc<_>> = nodes.iter().collect();
                let ids = Ids { source, target, moves_dirs };
                let moved = |l: &mut Locked<'_>| {
                    self.rename_locked((tx, live, settings, who), l, from, to, ids, (flags, whiteout))
                };
                if let Some(orphan) = retried(self.change(&nodes, moved))? {
                    return Ok(orphan);
                }
            }
        })?;
        self.reap_orphan(orphan);
        Ok(())
    }

    fn is_directory(&self, live: &Live, id: u64) -> Result<bool> {
        Ok(self.look(&live.node(id))?.is_dir())
    }

    /// Fails if directory `moved` would be moved into itself: `dir` must not be inside it. The
    /// shape of the tree is locked.
    fn check_no_loop(&self, live: &Live, moved: u64, dir: u64, name: (u64, &[u8])) -> Result<()> {
        let mut at = dir;
        // A deeper tree than this is a cycle on disk.
        for _ in 0..1 << 20 {
            if at == moved {
                return Err(Error::invalid(quoted(name.0, name.1), "a directory cannot be moved into itself"));
            }
            if at == self.root {
                return Ok(());
            }
            at = self.look(&live.node(at))?.parent;
        }
        Err(Error::corrupt(format!("object {dir}"), "its parents lead nowhere, without end"))
    }

    /// Returns `None` if names lead elsewhere by now and must be looked up again.
    fn rename_locked(
        &self,
        (tx, live, settings, who): (&Tx, &Live, &Settings, &Caller),
        l: &mut Locked<'_>,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        ids: Ids,
        (flags, whiteout): (RenameFlags, Option<&Forced>),
    ) -> Result<Option<Option<u64>>> {
        check_directory(l.get(from.0))?;
        check_directory(l.get(to.0))?;
        let found = self.find_stored(from.0, from.1)?;
        let over = self.find_stored(to.0, to.1)?;
        let Some((_, from_stored)) = found.filter(|(v, _)| v.object == ids.source) else { return Ok(None) };
        if over.as_ref().map(|(v, _)| v.object) != ids.target {
            return Ok(None);
        }
        let is_dir = |l: &mut Locked<'_>, id| l.get(id).is_dir();
        let moves = is_dir(l, ids.source) || flags.exchange && ids.target.is_some_and(|id| is_dir(l, id));
        if from.0 != to.0 && moves && !ids.moves_dirs {
            // Their numbers were reused for directories meanwhile.
            return Ok(None);
        }
        // The same entry under two spellings: only the spelling changes.
        let respells = from.0 == to.0 && over.as_ref().is_some_and(|(_, stored)| *stored == from_stored);
        if respells && (from_stored == to.1 || self.case == CaseSensitivity::Sensitive && self.norm.is_empty()) {
            return Ok(Some(None));
        }
        let over = over.filter(|_| !respells);
        if flags.no_replace && over.is_some() {
            return Err(Refusal::Exists.at(quoted(to.0, to.1)));
        }
        if flags.exchange && over.is_none() {
            return Err(Error::not_found("", quoted(to.0, to.1)));
        }
        let source = l.get(ids.source);
        let (source_kind, source_project) = (source.kind, source.project);
        check_may_leave(source, Some(from.1))?;
        check_may_leave(l.get(from.0), None)?;
        check_may_enter(l.get(to.0))?;
        let to_dir = l.get(to.0);
        if from.0 != to.0 && to_dir.flags.contains(Flags::PROJINHERIT) && to_dir.project != source_project {
            return Err(Refusal::CrossDevice.at(quoted(to.0, to.1)));
        }
        let target_kind = ids.target.filter(|_| over.is_some()).map(|id| l.get(id).kind);
        if let (Some(kind), false) = (target_kind, flags.exchange) {
            match (source_kind == FileKind::Directory, kind == FileKind::Directory) {
                (true, false) => return Err(Refusal::NotDirectory.at(quoted(to.0, to.1))),
                (false, true) => return Err(Refusal::IsDirectory.at(quoted(to.0, to.1))),
                _ => {}
            }
        }
        if over.is_some() && ids.target == Some(ids.source) {
            // Two names of one file: POSIX requires that nothing happens.
            return Ok(Some(None));
        }
        if let Some(target) = ids.target.filter(|_| over.is_some()) {
            check_may_leave(l.get(target), Some(to.1))?;
        }
        let grows = source_kind == FileKind::Directory && from.0 != to.0 && target_kind != Some(FileKind::Directory);
        if grows && l.get(to.0).links >= LINKS_MAX {
            return Err(Refusal::TooManyLinks.at(quoted(to.0, to.1)));
        }
        let now = live.backing.now();
        let mut orphan = None;
        if let (Some((_, stored)), Some(target), false) = (&over, ids.target, flags.exchange) {
            // The step that can fail comes first: the directory may not be empty.
            orphan = self.drop_link(tx, l, (to.0, stored), target, now)?;
        }
        let source = (ids.source, source_kind);
        match (&over, ids.target.zip(target_kind)) {
            (Some((_, stored)), Some(target)) if flags.exchange => {
                self.replace(tx, l.get(to.0), stored, target.1, source, now)?;
                if let Err(e) = self.replace(tx, l.get(from.0), &from_stored, source_kind, target, now) {
                    self.replace(tx, l.get(to.0), stored, source_kind, target, now)?;
                    return Err(e);
                }
                self.moved(tx, l, target.0, from.0, now)?;
            }
            _ if respells => {
                self.leave(tx, l.get(from.0), &from_stored, source_kind, now)?;
                if let Err(e) = self.enter(tx, l.get(to.0), to.1, ids.source, source_kind, now) {
                    self.enter(tx, l.get(from.0), &from_stored, ids.source, source_kind, now)?;
                    return Err(e);
                }
            }
            _ => {
                // The new name is added first: a file that loses its only name cannot be found
                // again.
                self.enter(tx, l.get(to.0), to.1, ids.source, source_kind, now)?;
                if let Err(e) = self.leave(tx, l.get(from.0), &from_stored, source_kind, now) {
                    self.leave(tx, l.get(to.0), to.1, source_kind, now)?;
                    return Err(e);
                }
            }
        }
        self.moved(tx, l, ids.source, to.0, now)?;
        let mut white = match flags.whiteout {
            true => {
                let device = NewNode::CharDevice { major: 0, minor: 0 };
                let options = (whiteout.map_or(0, |f| f.mode), 0, whiteout);
                let (dir, name) = (from.0, &from_stored[..]);
                Some(self.make_in(tx, settings, who, l.get(dir), (name, &device), options)?)
            }
            false => None,
        };
        let mut group = Group::default();
        group.rename(tx, from, to, flags.exchange, white.as_ref());
        let stored = white.as_mut().map_or(Ok(()), |white| self.store_lists(tx, settings, white, &mut group));
        if stored.is_ok() || !self.is_replaying() {
            self.log_group(tx, l.get(ids.source), group);
        }
        stored.map(|()| Some(orphan))
    }

    /// Updates a file after it moved to another directory.
    fn moved(&self, tx: &Tx, l: &mut Locked<'_>, id: u64, dir: u64, now: Time) -> Result<()> {
        let inherits = l.get(dir).flags & Flags::PROJINHERIT;
        let file = l.get(id);
        file.parent = dir;
        file.flags |= Flags::AV_MODIFIED | inherits;
        file.touch(now);
        file.store(self, tx, &[])
    }
}

/// Retries the lookup if the file that a name led to was freed before it was locked.
fn retried<R>(result: Result<Option<R>>) -> Result<Option<R>> {
    match result {
        Err(Error::Refused { why: Refusal::Stale, .. }) => Ok(None),
        other => other,
    }
}

/// Objects that a rename involves, as they were looked up.
#[derive(Clone, Copy)]
struct Ids {
    source: u64,
    target: Option<u64>,
    /// The shape of the tree is locked, because directories change their parents.
    moves_dirs: bool,
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

fn check_may_enter(dir: &State) -> Result<()> {
    if dir.flags.contains(Flags::IMMUTABLE) {
        return Err(Refusal::NotPermitted.at(dir.object.place()));
    }
    Ok(())
}

/// `name` is that of the file itself; `None` for its directory.
fn check_may_leave(state: &State, name: Option<&[u8]>) -> Result<()> {
    let forbidding = match name {
        Some(_) => Flags::IMMUTABLE | Flags::APPENDONLY | Flags::NOUNLINK,
        None => Flags::IMMUTABLE | Flags::APPENDONLY,
    };
    if state.flags.intersects(forbidding) {
        return Err(Refusal::NotPermitted.at(state.object.place()));
    }
    Ok(())
}
