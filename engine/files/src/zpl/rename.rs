//! Rename, exchange and whiteouts.
//!
//! Locks: see [`live`](super::live). Facts: zfs_rename.

use super::backing::Settings;
use super::live::{Live, Locked};
use super::log::Group;
use super::make::Forced;
use super::names::{LINKS_MAX, NAMES_BYTES, check_directory, check_may_enter, check_may_leave, quoted, retried};
use super::state::State;
use super::{CaseSensitivity, FileSystem};
use crate::vfs::{Caller, FileKind, NewNode, RenameFlags, Time};
use crate::{Error, Refusal, Result};
use object::{Tx, ZapValue};
use ondisk::znode::Flags;
use std::sync::Arc;

impl FileSystem {
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

/// Objects that a rename involves, as they were looked up.
#[derive(Clone, Copy)]
struct Ids {
    source: u64,
    target: Option<u64>,
    /// The shape of the tree is locked, because directories change their parents.
    moves_dirs: bool,
}
