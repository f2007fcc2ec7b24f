//! Setting and removing extended attributes, including POSIX ACLs.
//!
//! The lock of a file covers its hidden directory and everything in it. Facts: zpl_xattr.c,
//! zfs_make_xattrdir.

use super::backing::{Settings, XattrMode};
use super::data::Times;
use super::live::Live;
use super::log::Group;
use super::make::{NewFile, new_flags};
use super::state::State;
use super::xattr::{NAMESPACES, USER};
use super::{FileSystem, Znode};
use crate::posix_acl::{ACCESS, DEFAULT, PosixAcl};
use crate::vfs::{Caller, FileKind, NewNode, SetAttr, SetXattr};
use errors::{Error, Refusal, Result};
use object::Tx;
use ondisk::Endian;
use ondisk::nvlist::{Nvlist, Pair, Value};
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Longest value that Linux passes.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Longest value that is stored among a file's attributes, and the length of their list at which it
/// accepts no more.
const PACKED_VALUE_BYTES_MAX: usize = 32 << 10;
const PACKED_BYTES_MAX: usize = 64 << 10;
/// Longest attribute whose length the format can express.
const ATTRIBUTE_BYTES_MAX: usize = 0xffff;
/// Bytes that a change may write: a value and, in the worst case, a hidden directory and a file
/// with it.
const XATTR_BYTES: u64 = 192 << 10;

impl FileSystem {
    /// [`Vfs::set_xattr`](crate::vfs::Vfs::set_xattr), or with no value
    /// [`Vfs::remove_xattr`](crate::vfs::Vfs::remove_xattr).
    pub(super) fn change_xattr(
        &self,
        who: &Caller,
        id: u64,
        name: &[u8],
        value: Option<&[u8]>,
        how: SetXattr,
    ) -> Result<()> {
        if value.is_some_and(|v| v.len() > VALUE_BYTES_MAX) {
            return Err(Refusal::AttributeTooLarge.at(shown(name)));
        }
        self.operate(XATTR_BYTES, value.is_none(), |tx, live, settings| {
            let node = live.node(id);
            self.change(&[&node], |l| {
                let file = l.get(id);
                if file.flags.intersects(Flags::IMMUTABLE | Flags::APPENDONLY) {
                    return Err(Refusal::NotPermitted.at(file.object.place()));
                }
                if name == ACCESS || name == DEFAULT {
                    return self.change_list(tx, (live, settings), file, name, value);
                }
                self.check_namespace(settings, who, file, name)?;
                let old_name = name.strip_prefix(USER);
                let is_there = self.has_xattr(file, name)?;
                let is_there_bare = old_name.map_or(Ok(false), |old| self.has_xattr(file, old))?;
                match (is_there || is_there_bare, how) {
                    (true, SetXattr::Create) => return Err(Refusal::Exists.at(shown(name))),
                    (false, SetXattr::Replace) => return Err(Refusal::NoAttribute.at(shown(name))),
                    (false, _) if value.is_none() => return Err(Refusal::NoAttribute.at(shown(name))),
                    _ => {}
                }
                self.grouped(tx, file, |file, group| {
                    // The same attribute under the name that older systems use.
                    if let Some(old_name) = old_name.filter(|_| is_there_bare) {
                        self.store_xattr(tx, settings, file, group, (old_name, None))?;
                    }
                    if value.is_some() || is_there {
                        self.store_xattr(tx, settings, file, group, (name, value))?;
                    }
                    Ok(())
                })
            })
        })
    }

    fn check_namespace(&self, settings: &Settings, who: &Caller, file: &State, name: &[u8]) -> Result<()> {
        if let Some(bare) = name.strip_prefix(USER) {
            if settings.xattr == XattrMode::Off {
                return Err(Error::unsupported(shown(name), "attributes of users: the dataset has xattr=off"));
            }
            if !matches!(file.kind, FileKind::Regular | FileKind::Directory) {
                return Err(Refusal::NotPermitted.at(shown(name)));
            }
            if bare.is_empty() || NAMESPACES.iter().any(|n| bare.starts_with(n)) {
                return Err(Error::invalid(shown(name), "is no name of an attribute"));
            }
            return Ok(());
        }
        if name.starts_with(b"trusted.") {
            return if who.privileged { Ok(()) } else { Err(Refusal::NotPermitted.at(shown(name))) };
        }
        if name.starts_with(b"security.") {
            return Ok(());
        }
        Err(Error::unsupported(shown(name), "namespace of attributes"))
    }

    fn change_list(
        &self,
        tx: &Tx,
        (live, settings): (&Live, &Settings),
        file: &mut State,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        if !settings.posix_acl || file.kind == FileKind::Symlink {
            return Err(Error::unsupported(shown(name), "POSIX access lists: the dataset has acltype=off"));
        }
        let list = value.map(PosixAcl::parse).transpose()?.flatten();
        if name == DEFAULT && !file.is_dir() {
            return if list.is_some() { Err(Refusal::PermissionDenied.at(shown(name))) } else { Ok(()) };
        }
        let mut value = value.filter(|_| list.is_some());
        self.grouped(tx, file, |file, group| {
            if let Some(list) = list.filter(|_| name == ACCESS) {
                let bits = list.mode();
                if list.is_mode_alone() {
                    value = None;
                }
                if file.mode & 0o777 != u64::from(bits) {
                    let mode = file.mode & 0o7000 | u64::from(bits);
                    file.check_mode(self, settings.acl_mode)?;
                    file.touch(live.backing.now());
                    file.set_mode(self, tx, mode, settings.acl_mode)?;
                    group.set_attr(tx, file, &SetAttr { mode: Some(mode as u32), ..SetAttr::default() });
                }
            }
            if value.is_some() || self.has_xattr(file, name)? {
                self.store_xattr(tx, settings, file, group, (name, value))?;
            }
            Ok(())
        })
    }

    fn has_xattr(&self, file: &State, name: &[u8]) -> Result<bool> {
        let file = Znode::new(file.attributes(self)?)?;
        if self.packed_xattrs(&file)?.is_some_and(|list| list.get(name).is_some()) {
            return Ok(true);
        }
        Ok(match self.xattr_dir(&file)? {
            Some(dir) => self.find_entry(dir, name)?.is_some(),
            None => false,
        })
    }

    /// The stored POSIX ACL of a file that is locked.
    pub(super) fn stored_list(&self, file: &State, name: &[u8]) -> Result<Option<PosixAcl>> {
        let value = self.stored_xattr(&Znode::new(file.attributes(self)?)?, name)?;
        value.map(|bytes| PosixAcl::parse(&bytes)).transpose().map(Option::flatten)
    }

    /// Stores or removes an attribute under exactly this name. It is stored among the file's
    /// attributes if the dataset requests that and it fits, else in the hidden directory, and is
    /// removed from the other place. The log records go into `group`: everything, including
    /// contents, is one change, which is complete or absent after a crash.
    pub(super) fn store_xattr(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        group: &mut Group,
        (name, value): (&[u8], Option<&[u8]>),
    ) -> Result<()> {
        let now = self.live()?.backing.now();
        let packed = {
            let attributes = Znode::new(file.attributes(self)?)?;
            self.packed_xattrs(&attributes)?
        };
        let was_packed = packed.as_ref().is_some_and(|list| list.get(name).is_some());
        let mut list = packed.unwrap_or_default();
        list.remove(name);
        if let Some(value) = value
            && file.is_sa
            && settings.xattr == XattrMode::Sa
            && value.len() <= PACKED_VALUE_BYTES_MAX
            && list.to_xdr(Endian::Little).len() <= PACKED_BYTES_MAX
        {
            list.pairs.push(Pair { name: name.to_vec(), value: Value::ByteArray(value.to_vec()) });
            if self.store_packed(tx, file, &list, now)? {
                group.set_sa_xattr(tx, file, name, Some(value));
                return self.remove_hidden(tx, file, group, name);
            }
            list.remove(name);
        }
        match value {
            Some(value) => self.store_hidden(tx, settings, file, group, (name, value))?,
            None => self.remove_hidden(tx, file, group, name)?,
        }
        if was_packed {
            self.store_packed(tx, file, &list, now)?;
            group.set_sa_xattr(tx, file, name, None);
        } else {
            file.touch(now);
            file.store(self, tx, &[])?;
        }
        Ok(())
    }

    /// Replays the part of [`FileSystem::store_xattr`] that concerns the file's own attributes. The
    /// rest has its own records.
    pub(super) fn replay_packed_xattr(
        &self,
        tx: &Tx,
        file: &mut State,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let packed = {
            let attributes = Znode::new(file.attributes(self)?)?;
            self.packed_xattrs(&attributes)?
        };
        let mut list = packed.unwrap_or_default();
        list.remove(name);
        if let Some(value) = value {
            list.pairs.push(Pair { name: name.to_vec(), value: Value::ByteArray(value.to_vec()) });
        }
        if !self.store_packed(tx, file, &list, self.live()?.backing.now())? {
            return Err(Refusal::AttributeTooLarge.at(shown(name)));
        }
        self.grouped(tx, file, |file, group| {
            group.set_sa_xattr(tx, file, name, value);
            Ok(())
        })
    }

    /// Stores `list` among the file's attributes. Returns whether it fitted.
    fn store_packed(&self, tx: &Tx, file: &mut State, list: &Nvlist, now: crate::vfs::Time) -> Result<bool> {
        let bytes = list.to_xdr(Endian::Little);
        if bytes.len() > ATTRIBUTE_BYTES_MAX {
            return Ok(false);
        }
        file.touch(now);
        file.store(self, tx, &[(Sa::Dxattr, Some(&bytes))])?;
        Ok(true)
    }

    /// The state of a file's hidden directory, which is created if it is missing.
    fn hidden_dir(&self, tx: &Tx, settings: &Settings, file: &mut State, group: &mut Group) -> Result<State> {
        if file.xattr_dir != 0 {
            return self.load_state(file.xattr_dir);
        }
        self.make_hidden_dir(tx, settings, file, group, None)
    }

    /// Creates the hidden directory of a file that has none.
    pub(super) fn make_hidden_dir(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        group: &mut Group,
        forced: Option<&super::make::Forced>,
    ) -> Result<State> {
        let live = self.live()?;
        let version = self.version();
        let has_project = settings.projects && version.has_system_attributes() && file.flags.contains(Flags::PROJID);
        let project_flag = if has_project { Flags::PROJID } else { Flags::empty() };
        let new = NewFile {
            kind: FileKind::Directory,
            mode: 0o41777,
            uid: file.uid,
            gid: file.gid,
            parent: file.object.id(),
            flags: new_flags(true, version) | Flags::XATTR | project_flag,
            project: has_project.then_some(file.project),
            rdev: 0,
            target: None,
            time: forced.map_or_else(|| live.backing.now(), |f| f.time),
            generation: forced.map_or(tx.txg(), |f| f.generation),
            slots: forced.map_or(settings.dnode_slots, |f| f.slots).max(1),
            object: forced.map(|f| f.object),
            norm: self.master.names.norm(),
            version,
        };
        let id = new.make(&self.objset, &self.sa, tx, |id| live.forget(id))?;
        file.xattr_dir = id;
        if let Err(error) = file.store(self, tx, &[]) {
            file.xattr_dir = 0;
            let _ = self.objset.free_object(tx, id);
            return Err(error);
        }
        let hidden = self.load_state(id)?;
        group.create_hidden(tx, &hidden, b"", new.slots);
        Ok(hidden)
    }

    fn store_hidden(
        &self,
        tx: &Tx,
        settings: &Settings,
        file: &mut State,
        group: &mut Group,
        (name, value): (&[u8], &[u8]),
    ) -> Result<()> {
        let now = self.live()?.backing.now();
        let mut hidden = self.hidden_dir(tx, settings, file, group)?;
        let mut attribute = match self.find_entry(file.xattr_dir, name)? {
            Some(id) => self.load_state(id)?,
            None => {
                let owner =
                    Caller { uid: file.uid as u32, gid: file.gid as u32, privileged: true, ..Caller::default() };
                let options = (0o644, 0, None);
                let made = self.make_in(tx, settings, &owner, &mut hidden, (name, &NewNode::Regular), options)?;
                group.create_hidden(tx, &made.state, name, made.slots);
                made.state
            }
        };
        let was_empty = attribute.size == 0;
        group.contents(tx, &attribute, was_empty, value);
        if !was_empty {
            self.free_range_unlogged(tx, settings, &mut attribute, (0, 0), now)?;
        }
        if !value.is_empty() {
            self.write_unlogged(tx, settings, &mut attribute, (true, Times::Move), 0, value)?;
        }
        Ok(())
    }

    fn remove_hidden(&self, tx: &Tx, file: &mut State, group: &mut Group, name: &[u8]) -> Result<()> {
        if file.xattr_dir == 0 {
            return Ok(());
        }
        let Some((value, stored)) = self.find_stored(file.xattr_dir, name)? else { return Ok(()) };
        let live = self.live()?;
        let mut hidden = self.load_state(file.xattr_dir)?;
        self.leave(tx, &mut hidden, &stored, FileKind::Regular, live.backing.now())?;
        self.objset.free_object(tx, value.object)?;
        live.backing.forget(value.object);
        live.forget(value.object);
        group.remove_hidden(tx, file.xattr_dir, &stored);
        Ok(())
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
