//! Rename, exchange and whiteouts.
//!
//! Locks: see [`live`](super::live). Facts: zfs_rename.

use super::FileSystem;
use super::backing::Settings;
use super::live::{Live, Locked};
use super::log::Group;
use super::make::Forced;
use super::names::{LINKS_MAX, NAMES_BYTES, check_directory, check_may_enter, check_may_leave, quoted, retried};
use super::state::State;
use super::undo::Undo;
use crate::vfs::{Caller, FileKind, NewNode, RenameFlags, Time};
use errors::{Error, Refusal, Result};
use object::Tx;
use ondisk::zap::Value as ZapValue;
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
                let _shape = moves_dirs.then(|| live.lock_shape());
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
            if at == self.master.root {
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
        let Some((found, from_stored)) = found.filter(|(v, _)| v.object == ids.source) else { return Ok(None) };
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
        if respells && (from_stored == to.1 || self.master.names.are_exact()) {
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
        if let Some((old, stored)) = over.as_ref().filter(|_| !flags.exchange) {
            self.check_empty(l.get(old.object), (to.0, stored))?;
        }
        let now = live.backing.now();
        let source = (ids.source, source_kind);
        let changed: Vec<u64> = [from.0, to.0, ids.source].into_iter().chain(ids.target).collect();
        self.in_steps(tx, l, &changed, |l, undo| {
            match (&over, target_kind) {
                (Some((old, stored)), Some(kind)) if flags.exchange => {
                    self.replace(tx, l.get(to.0), stored, kind, source, now)?;
                    undo.changed(to.0, stored, *old);
                    self.replace(tx, l.get(from.0), &from_stored, source_kind, (old.object, kind), now)?;
                    undo.changed(from.0, &from_stored, found);
                    self.moved(tx, l, old.object, from.0, now)?;
                }
                _ => {
                    if let (Some((old, stored)), Some(kind)) = (&over, target_kind) {
                        self.leave(tx, l.get(to.0), stored, kind, now)?;
                        undo.changed(to.0, stored, *old);
                    }
                    // The new name is added first: a file that loses its only name cannot be found
                    // again. Two spellings of one name cannot exist at once.
                    let leave = |l: &mut Locked<'_>, undo: &mut Undo| {
                        self.leave(tx, l.get(from.0), &from_stored, source_kind, now)?;
                        undo.changed(from.0, &from_stored, found);
                        Result::Ok(())
                    };
                    if respells {
                        leave(l, undo)?;
                    }
                    self.enter(tx, l.get(to.0), to.1, ids.source, source_kind, now)?;
                    undo.entered(to.0, to.1);
                    if !respells {
                        leave(l, undo)?;
                    }
                }
            }
            self.moved(tx, l, ids.source, to.0, now)?;
            let mut white = None;
            if flags.whiteout {
                let device = NewNode::CharDevice { major: 0, minor: 0 };
                let how = (whiteout.map_or(0, |f| f.mode), 0, whiteout);
                let made = self.make_in(tx, settings, who, l.get(from.0), (&from_stored, &device), how)?;
                undo.made(made.state.object.id());
                undo.entered(from.0, &from_stored);
                white = Some(made);
            }
            let mut group = Group::default();
            group.rename(tx, from, to, flags.exchange, white.as_ref().map(|made| (&made.state, made.slots)));
            if let Some(white) = &mut white {
                self.store_lists(tx, settings, white, &mut group)?;
            }
            let orphan = match &over {
                Some((old, _)) if !flags.exchange => self.count_down(tx, l, old.object, now)?,
                _ => None,
            };
            self.log_group(tx, l.get(ids.source), group);
            Ok(Some(orphan))
        })
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
        let value = self.new_entry(id, kind);
        let zap = self.dir_zap(parent.object.id())?;
        let before = parent.clone();
        parent.links = parent.links.saturating_add(u64::from(kind == FileKind::Directory));
        parent.links -= u64::from(old == FileKind::Directory && parent.links > 0);
        parent.touch_contents(now);
        parent.store(self, tx, &[])?;
        zap.update(tx, name, &ZapValue::one(value)).inspect_err(|_| {
            let _ = parent.put_back(self, tx, before);
        })
    }

    /// Updates a file after it moved to another directory.
    fn moved(&self, tx: &Tx, l: &mut Locked<'_>, id: u64, dir: u64, now: Time) -> Result<()> {
        let inherits = l.get(dir).flags & Flags::PROJINHERIT;
        let file = l.get(id);
        file.parent = dir;
        file.flags |= inherits;
        file.mark_contents();
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
