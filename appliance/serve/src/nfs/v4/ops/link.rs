//! Operations that change directories: CREATE, LINK, REMOVE, RENAME; and READLINK.

use super::super::attr::NewAttrs;
use super::super::node::Place;
use super::super::rights;
use super::super::status::{Result, Status};
use super::set::{mode_of_new, set_new};
use super::{Compound, check_name, component};
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{FileKind, NewNode, RenameFlags};

/// Maximum length of a symbolic link's target. The `Vfs` has its own limit.
const TARGET_BYTES_MAX: usize = 1 << 16;

impl Compound<'_> {
    pub(super) fn create(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let kind = r.u32()?;
        let new = match kind {
            2 => Some(NewNode::Directory),
            3 => Some(NewNode::BlockDevice { major: r.u32()?, minor: r.u32()? }),
            4 => Some(NewNode::CharDevice { major: r.u32()?, minor: r.u32()? }),
            5 => Some(NewNode::Symlink(r.opaque(TARGET_BYTES_MAX)?.to_vec())),
            6 => Some(NewNode::Socket),
            7 => Some(NewNode::Fifo),
            _ => None,
        };
        let name = component(r)?;
        let attrs = NewAttrs::read(r, self.minor)?;
        let new = new.ok_or(Status::BADTYPE)?;
        let dir = match self.current()? {
            Place::Pseudo(_) => return Err(Status::ROFS),
            Place::Node(node) => node,
        };
        let before = dir.is_directory()?;
        check_name(name)?;
        if let NewNode::Symlink(target) = &new
            && target.is_empty()
        {
            return Err(Status::INVAL);
        }
        let attrs = attrs?;
        if attrs.set.size.is_some() {
            return Err(Status::INVAL);
        }
        dir.check_writable()?;
        let add = if matches!(new, NewNode::Directory) { rights::APPEND } else { rights::WRITE };
        rights::check(dir, &before, rights::EXECUTE | add)?;
        if matches!(new, NewNode::BlockDevice { .. } | NewNode::CharDevice { .. }) && !dir.who().privileged {
            return Err(Status::PERM);
        }
        let (mode, umask) = mode_of_new(&attrs, 0o777);
        let old = self.before(dir, &before);
        dir.changes();
        let made = dir.vfs().create(dir.who(), dir.id, name, &new, mode, umask)?;
        let place = self.node_from(dir, made)?;
        if let Place::Node(node) = &place {
            let without_size = NewAttrs { set: files::vfs::SetAttr { size: None, ..attrs.set }, ..attrs.clone() };
            set_new(node, &without_size)?;
            self.settle(node)?;
        }
        Self::change_info(w, old, self.changed(dir)?);
        attrs.given.write(w);
        self.put(place);
        Ok(())
    }

    pub(super) fn link(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let name = component(r)?;
        let (dir, node) = (self.node()?, self.saved_node()?);
        let before = dir.is_directory()?;
        let attr = node.attr()?;
        if attr.kind == FileKind::Directory {
            return Err(Status::ISDIR);
        }
        check_name(name)?;
        if dir.key.fs_guid != node.key.fs_guid {
            return Err(Status::XDEV);
        }
        dir.check_writable()?;
        rights::check(dir, &before, rights::EXECUTE | rights::WRITE)?;
        let old = self.before(dir, &before);
        dir.changes();
        node.changes();
        dir.vfs().link(dir.who(), node.id, dir.id, name)?;
        self.settle(node)?;
        self.changed(node)?;
        Self::change_info(w, old, self.changed(dir)?);
        Ok(())
    }

    /// During the grace period it is unknown whether another client will reclaim an open of the
    /// file.
    fn check_no_grace(&self) -> Result<()> {
        if self.server.with(|state| state.in_grace()) { Err(Status::GRACE) } else { Ok(()) }
    }

    pub(super) fn remove(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let name = component(r)?;
        let dir = self.node()?;
        let before = dir.is_directory()?;
        check_name(name)?;
        self.check_no_grace()?;
        dir.check_writable()?;
        let victim = dir.vfs().lookup(dir.id, name)?;
        rights::check_remove(dir, &before, &victim)?;
        let old = self.before(dir, &before);
        dir.changes();
        if victim.kind == FileKind::Directory {
            if dir.vfs().handle(victim.node)?.fs_guid != dir.key.fs_guid {
                return Err(Status::XDEV);
            }
            dir.vfs().rmdir(dir.who(), dir.id, name)?;
        } else {
            dir.vfs().unlink(dir.who(), dir.id, name)?;
        }
        self.settle(dir)?;
        Self::change_info(w, old, self.changed(dir)?);
        Ok(())
    }

    pub(super) fn rename(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (name, to_name) = (component(r)?, component(r)?);
        let (from, to) = (self.saved_node()?, self.node()?);
        let (from_before, to_before) = (from.is_directory()?, to.is_directory()?);
        check_name(name)?;
        check_name(to_name)?;
        if from.key.fs_guid != to.key.fs_guid {
            return Err(Status::XDEV);
        }
        self.check_no_grace()?;
        from.check_writable()?;
        let moved = from.vfs().lookup(from.id, name)?;
        rights::check_remove(from, &from_before, &moved)?;
        let is_dir = moved.kind == FileKind::Directory;
        rights::check(to, &to_before, rights::EXECUTE | if is_dir { rights::APPEND } else { rights::WRITE })?;
        if let Ok(over) = to.vfs().lookup(to.id, to_name) {
            // RFC 7530 section 16.27: an existing target must be of the same type, otherwise EXIST
            // is returned.
            if (over.kind == FileKind::Directory) != is_dir {
                return Err(Status::EXIST);
            }
            if over.node == moved.node {
                // Both names are links to the same file: nothing to do (RFC 7530 section 16.27.4).
                let (from_old, to_old) = (self.before(from, &from_before), self.before(to, &to_before));
                Self::change_info(w, from_old, from_old);
                Self::change_info(w, to_old, to_old);
                return Ok(());
            }
            rights::check_remove(to, &to_before, &over)?;
        }
        let (from_old, to_old) = (self.before(from, &from_before), self.before(to, &to_before));
        from.changes();
        to.changes();
        let renamed = from.vfs().rename(from.who(), from.id, name, to.id, to_name, RenameFlags::default());
        renamed.map_err(Status::from).map_err(|e| if e == Status::NOTEMPTY { Status::EXIST } else { e })?;
        self.settle(to)?;
        let from_new = self.changed(from)?;
        let to_new = if from.key == to.key { from_new } else { self.changed(to)? };
        Self::change_info(w, from_old, from_new);
        Self::change_info(w, to_old, to_new);
        Ok(())
    }

    pub(super) fn readlink(&mut self, w: &mut Writer) -> Result<()> {
        match self.current()? {
            Place::Node(node) if node.attr()?.kind == FileKind::Symlink => {
                w.opaque(&node.vfs().read_link(node.id)?);
                Ok(())
            }
            _ if self.minor == 0 => Err(Status::INVAL),
            _ => Err(Status::WRONG_TYPE),
        }
    }
}
