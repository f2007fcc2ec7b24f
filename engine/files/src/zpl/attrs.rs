//! Setting attributes: mode, owner, size, times, project; and access time updates on read.
//!
//! Facts: zfs_setattr, Linux chown_common and setattr_prepare for the bits that a change clears.

use super::FileSystem;
use super::Znode;
use super::backing::{AtimeMode, Settings};
use super::live::{Live, Slot};
use super::log::{Group, time_of};
use super::state::{BEFORE_ACL, State};
use crate::posix_acl::ACCESS;
use crate::vfs::{Attr, Caller, FileKind, NodeId, SetAttr};
use dataset::quota::Principal;
use errors::{Error, Refusal, Result};
use object::Tx;
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Bytes that a change of attributes may write. Guessed.
const ATTRIBUTES_BYTES: u64 = 64 << 10;
/// A relative access time is updated at least this often.
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Access times that are stored before one txg closes. Guessed: some 20 ms.
const ATIMES_AT_ONCE: usize = 10_000;
/// Access times that wait in memory. If txgs cannot keep up, or the pool is suspended, further
/// access times are not updated. Guessed: some hundred MB.
const ATIMES_MAX: usize = 100_000;
/// Bytes that storing one access time may write: a dnode.
const ATIME_BYTES: u64 = 512;
/// `ZFS_INVALID_PROJID`.
const PROJECT_INVALID: u64 = u64::MAX;

impl FileSystem {
    /// The stat attributes of a file that is locked.
    pub(super) fn attr_of(&self, file: &State, record_bytes: u32) -> Result<Attr> {
        let dnode = file.object.dnode_now();
        let rdev = match file.kind {
            FileKind::CharDevice | FileKind::BlockDevice => file.rdev as u32,
            _ => 0,
        };
        Ok(Attr {
            node: NodeId(file.object.id()),
            ino: file.object.id(),
            generation: file.generation,
            kind: file.kind,
            mode: (file.mode & 0o7777) as u32,
            links: file.links as u32,
            uid: file.uid as u32,
            gid: file.gid as u32,
            project: file.project,
            rdev_major: rdev >> 20,
            rdev_minor: rdev & 0xf_ffff,
            size: file.size,
            blocks_512: (dnode.used_bytes.saturating_add(256) >> 9) + u64::from(dnode.slots),
            block_bytes: if dnode.data_block_bytes == 0 { record_bytes } else { dnode.data_block_bytes },
            atime: file.atime,
            mtime: file.mtime,
            ctime: file.ctime,
            btime: file.crtime,
        })
    }

    /// [`Vfs::set_attr`](crate::vfs::Vfs::set_attr). `replayed`: from the intent log. The change
    /// was admitted before the crash, with bits already cleared, so neither user quotas nor
    /// `aclmode` reject it now.
    pub(super) fn set_attributes(&self, who: &Caller, id: u64, set: &SetAttr, replayed: bool) -> Result<Attr> {
        // Truncating a file frees space; extending it allocates none.
        self.operate(ATTRIBUTES_BYTES, set.size.is_some(), |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                self.set_attributes_in(tx, (live, settings), who, file, set, replayed)?;
                self.attr_of(file, settings.record_bytes)
            })
        })
    }

    pub(super) fn set_attributes_in(
        &self,
        tx: &Tx,
        (live, settings): (&Live, &Settings),
        who: &Caller,
        file: &mut State,
        set: &SetAttr,
        replayed: bool,
    ) -> Result<()> {
        let now = live.backing.now();
        let mut set = *set;
        let place = || file.object.place();
        let is_plain = matches!(file.kind, FileKind::Regular | FileKind::Directory);
        match (set.size, file.kind) {
            (Some(_), FileKind::Directory) => return Err(Refusal::IsDirectory.at(place())),
            (Some(_), FileKind::Regular) | (None, _) => {}
            (Some(_), kind) => return Err(Error::invalid(place(), format!("is {kind:?}, which has no size to set"))),
        }
        if set.project == Some(PROJECT_INVALID) {
            return Err(Error::invalid(place(), "project is out of range"));
        }
        if (set.project.is_some_and(|p| p != file.project) || set.project_inherit == Some(true))
            && !(settings.projects && is_plain && self.version().has_system_attributes())
        {
            return Err(Error::unsupported(place(), "projects: not of this kind of file, or not of this dataset"));
        }
        if set.btime.is_some() && !self.version().has_fuids() {
            return Err(Error::unsupported(place(), "setting the time of creation before ZPL version 3"));
        }
        let flags = set.set_flags | set.clear_flags;
        if !flags.is_empty() && !self.version().has_fuids() {
            return Err(Error::invalid(place(), "flags before ZPL version 3"));
        }
        if flags.contains(Flags::REPARSE) && !replayed {
            return Err(Refusal::NotPermitted.at(place()));
        }
        let owner = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        if file.flags.contains(Flags::IMMUTABLE)
            && (owner || set.size.is_some() || set.mtime.is_some() || set.btime.is_some())
            || file.flags.contains(Flags::READONLY) && set.size.is_some() && !who.privileged && !replayed
            || file.flags.contains(Flags::APPENDONLY) && set.size.is_some_and(|size| size < file.size)
        {
            return Err(Refusal::NotPermitted.at(place()));
        }
        if !replayed {
            self.check_new_owner(live, file, &set)?;
        }

        let mut mode = file.mode & 0o7777;
        if !replayed && set.mode.is_none() && file.kind != FileKind::Directory {
            let drops = set.uid.is_some() || set.gid.is_some() || set.size.is_some() && !who.privileged;
            if drops && file.mode_without_set_id() != file.mode {
                mode = file.mode_without_set_id() & 0o7777;
                set.mode = Some(mode as u32);
            }
        } else if let Some(wanted) = set.mode {
            mode = u64::from(wanted & 0o7777);
            let gid = set.gid.map_or(file.gid, u64::from);
            let knows_groups = gid == u64::from(who.gid) || !who.groups.is_empty();
            if !replayed && !who.privileged && knows_groups && !super::make::is_member(who, gid) {
                mode &= !0o2000;
            }
        }
        if set.mode.is_some() && !replayed {
            // Before the size changes: truncated contents could not be restored.
            file.check_mode(self, settings.acl_mode)?;
        }
        if let Some(size) = set.size {
            if size > file.size && !replayed {
                self.check_space(live, file)?;
            }
            self.resize_in(tx, settings, file, size)?;
            file.touch_contents(now);
        }
        if set.uid.is_some() || set.gid.is_some() || set.project.is_some_and(|p| p != file.project) {
            self.set_owner(tx, file, &set)?;
        }
        if let Some(inherits) = set.project_inherit {
            file.flags.set(Flags::PROJINHERIT, inherits);
        }
        file.atime = set.atime.map_or(file.atime, |t| time_of(t, now));
        file.mtime = set.mtime.map_or(file.mtime, |t| time_of(t, now));
        file.crtime = set.btime.unwrap_or(file.crtime);
        file.touch(now);
        file.ctime = set.ctime.map_or(now, |t| time_of(t, now));
        // After `touch`, which sets the archive flag.
        file.flags = (file.flags | set.set_flags).difference(set.clear_flags);
        // Mode and ACL change together. Otherwise a crash could leave an ACL that allows more, or
        // less, than either.
        self.grouped(tx, file, |file, group| {
            match set.mode {
                Some(_) => {
                    file.set_mode(self, tx, mode, settings.acl_mode)?;
                    if settings.posix_acl && !replayed {
                        self.sync_list(tx, settings, file, group)?;
                    }
                }
                None => file.store(self, tx, &[])?,
            }
            group.set_attr(tx, file, &set);
            Ok(())
        })
    }

    fn check_space(&self, live: &Live, file: &State) -> Result<()> {
        match live.backing.is_over_quota(Principal::User, file.uid, false)? {
            true => Err(Refusal::QuotaExceeded.at(file.object.place())),
            false => Ok(()),
        }
    }

    fn check_new_owner(&self, live: &Live, file: &State, set: &SetAttr) -> Result<()> {
        let changed = [
            (Principal::User, set.uid.map(u64::from).filter(|id| *id != file.uid)),
            (Principal::Group, set.gid.map(u64::from).filter(|id| *id != file.gid)),
            (Principal::Project, set.project.filter(|id| *id != file.project)),
        ];
        for (principal, id) in changed {
            if let Some(id) = id
                && (live.backing.is_over_quota(principal, id, false)?
                    || live.backing.is_over_quota(principal, id, true)?)
            {
                return Err(Refusal::QuotaExceeded.at(format!("{principal:?} {id}")));
            }
        }
        Ok(())
    }

    /// Sets owner, group and project of a file, and of the objects that hold its extended
    /// attributes.
    fn set_owner(&self, tx: &Tx, file: &mut State, set: &SetAttr) -> Result<()> {
        self.set_owner_of_one(tx, file, set)?;
        if file.xattr_dir == 0 {
            return Ok(());
        }
        let mut hidden = self.load_state(file.xattr_dir)?;
        self.set_owner_of_one(tx, &mut hidden, set)?;
        hidden.store(self, tx, &[])?;
        for entry in self.dir_zap(file.xattr_dir)?.entries()? {
            let Some(value) = entry.value.ints.first() else { continue };
            let mut attribute = self.load_state(ondisk::znode::DirEntryValue::unpack(*value).object)?;
            self.set_owner_of_one(tx, &mut attribute, set)?;
            attribute.store(self, tx, &[])?;
        }
        Ok(())
    }

    fn set_owner_of_one(&self, tx: &Tx, file: &mut State, set: &SetAttr) -> Result<()> {
        file.uid = set.uid.map_or(file.uid, u64::from);
        file.gid = set.gid.map_or(file.gid, u64::from);
        if let Some(project) = set.project {
            match file.upgrade(self, tx)? {
                Some(_) if project == file.project => return Ok(()),
                Some(why) => return Err(why),
                None => {}
            }
            file.project = project;
            if !file.flags.contains(Flags::PROJID) {
                file.flags |= Flags::PROJID;
                self.give_project(tx, file)?;
            }
        }
        Ok(())
    }

    /// Repacks a file's attributes with its project among them, where space accounting expects it.
    fn give_project(&self, tx: &Tx, file: &mut State) -> Result<()> {
        if !file.is_sa {
            return Err(Error::unsupported(file.object.place(), "projects of old znodes"));
        }
        file.store_fields(tx)?;
        let object = self.object(file.object.id())?;
        let attributes = self.sa.attributes(&object)?;
        let others = [Sa::DaclCount, Sa::DaclAces, Sa::Xattr, Sa::Symlink, Sa::Scanstamp, Sa::Dxattr];
        let mut packed = Vec::with_capacity(BEFORE_ACL.len() + others.len());
        for attr in BEFORE_ACL.into_iter().chain(others) {
            if attr == Sa::Projid {
                packed.push((attr, file.project.to_le_bytes().to_vec()));
            } else if let Some((bytes, endian)) = attributes.get(attr)? {
                if endian != ondisk::Endian::Little {
                    return Err(Error::unsupported(object.place(), "projects of files of a big-endian host"));
                }
                packed.push((attr, bytes.to_vec()));
            }
        }
        drop(attributes);
        self.sa.build(tx, &object, &packed)?;
        file.reload_places(self)
    }

    /// Updates the POSIX ACL to match the mode.
    pub(super) fn sync_list(&self, tx: &Tx, settings: &Settings, file: &mut State, group: &mut Group) -> Result<()> {
        if file.kind == FileKind::Symlink {
            return Ok(());
        }
        let Some(list) = self.stored_list(file, ACCESS)? else { return Ok(()) };
        let changed = list.with_mode(file.mode as u32);
        if changed != list {
            self.store_xattr(tx, settings, file, group, (ACCESS, Some(&changed.to_bytes())))?;
        }
        Ok(())
    }

    /// Updates the access time of a file after a read, in memory, if the dataset requires it. It is
    /// stored with the next change of the file, or just before a txg closes. Closing the file does
    /// not wait for that.
    pub(super) fn note_access(&self, id: u64) -> Result<()> {
        let live = self.live()?;
        let settings = live.backing.settings();
        if settings.atime == AtimeMode::Off || settings.read_only {
            return Ok(());
        }
        let (node, now) = (live.node(id), live.backing.now());
        let moves = |file: &State| match settings.atime {
            AtimeMode::Off => false,
            AtimeMode::Always => file.atime != now,
            AtimeMode::Relative => {
                file.atime <= file.mtime
                    || file.atime <= file.ctime
                    || now.seconds.saturating_sub(file.atime.seconds) >= DAY_SECONDS
            }
        };
        if !moves(&*self.look(&node)?) || live.waiting_atimes() >= ATIMES_MAX {
            return Ok(());
        }
        self.change(&[&node], |l| {
            let file = l.get(id);
            (file.atime, file.atime_dirty) = (now, true);
            live.note_atime(&node);
            Ok(())
        })?;
        // Waiting access times use memory.
        if live.waiting_atimes() > ATIMES_AT_ONCE {
            live.backing.sync_soon();
        }
        Ok(())
    }

    /// Stores changed access times in a transaction that `begin` starts for the given number of
    /// bytes. Returns whether more are waiting that can be stored now. Does not wait for any file:
    /// a file in use is handled in the next txg.
    pub(super) fn store_accesses(&self, begin: &dyn Fn(u64) -> Result<Tx>) -> bool {
        let Ok(live) = self.live() else { return false };
        if self.is_replaying() || live.backing.settings().read_only {
            return false;
        }
        let (nodes, has_more) = live.take_atimes(ATIMES_AT_ONCE);
        if nodes.is_empty() {
            return false;
        }
        let tx = begin(nodes.len() as u64 * ATIME_BYTES);
        let Some(_one_version) = self.version_lock.try_read() else {
            // An upgrade waits for its turn, possibly longer than this thread may wait.
            nodes.iter().for_each(|node| live.note_atime(node));
            return false;
        };
        let has_no_room =
            matches!(&tx, Err(e) if matches!(e.refusal(), Some(Refusal::NoSpace | Refusal::QuotaExceeded)));
        for node in nodes {
            let Some(mut slot) = node.slot.try_write() else {
                live.note_atime(&node);
                continue;
            };
            let Slot::Loaded(file) = &mut *slot else { continue };
            if !file.atime_dirty {
                continue;
            }
            let stored = match &tx {
                Ok(tx) => file.store(self, tx, &[]),
                // Access times are not worth an error later.
                Err(e) if has_no_room => Err(e.clone()),
                Err(_) => {
                    live.note_atime(&node);
                    continue;
                }
            };
            if let Err(error) = stored {
                tracing::debug!(object = node.id, %error, "an access time is lost");
                *slot = Slot::Unloaded;
            }
        }
        has_more && (tx.is_ok() || has_no_room)
    }

    /// Loads a state that belongs to no node: that of a hidden directory, or of an object in it.
    pub(super) fn load_state(&self, id: u64) -> Result<State> {
        State::load(self.sa.attributes(&self.object(id)?)?, self.version())
    }

    /// The ZFS ACL of a file.
    pub(super) fn aces(&self, file: &Znode<'_>) -> Result<Option<Vec<ondisk::acl::Ace>>> {
        self.acl_of_znode(file)
    }
}
