//! Changes to a tree in memory: the rules of POSIX and Linux, all checked before anything is
//! changed.

use super::{Node, State, missing, now};
use crate::nfs4_acl;
use crate::posix_acl::{ACCESS, DEFAULT, PosixAcl};
use crate::vfs::{Allocate, Attr, Caller, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetTime, SetXattr, Time};
use errors::{Error, Refusal, Result};
use ondisk::acl::Ace;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;
const NAME_BYTES_MAX: usize = 255;
/// `XATTR_SIZE_MAX` of Linux.
const XATTR_BYTES_MAX: usize = 65_536;

fn refuse<T>(why: Refusal) -> Result<T> {
    Err(why.at("memory"))
}

fn invalid<T>(what: &str) -> Result<T> {
    Err(Error::invalid("memory", what))
}

/// A valid name for a new entry.
fn check_new_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(missing("a file without a name")),
        b"." | b".." => refuse(Refusal::Exists),
        name if name.len() > NAME_BYTES_MAX => refuse(Refusal::NameTooLong),
        name if name.contains(&b'/') || name.contains(&0) => invalid("name with a slash or a zero byte"),
        _ => Ok(()),
    }
}

impl Node {
    fn is_dir(&self) -> bool {
        self.attr.kind == FileKind::Directory
    }

    /// Updates mtime and ctime after a change of contents.
    fn touch(&mut self) {
        self.attr.mtime = now();
        self.attr.ctime = self.attr.mtime;
    }

    /// A change of contents by a user other than root clears setuid and setgid, which would
    /// otherwise apply to the new contents.
    fn drop_setid(&mut self, who: &Caller) {
        if !who.privileged {
            self.attr.mode &= !SETUID;
            if self.attr.mode & GROUP_EXECUTE != 0 {
                self.attr.mode &= !SETGID;
            }
        }
    }

    fn count_blocks(&mut self) {
        self.attr.blocks_512 = 1 + self.data.used_bytes() / 512;
    }

    fn acl(&self, name: &[u8]) -> Result<Option<PosixAcl>> {
        self.xattrs.get(name).map_or(Ok(None), |value| PosixAcl::parse(value))
    }
}

impl State {
    pub fn used_bytes(&self) -> u64 {
        self.nodes.values().map(|n| n.data.used_bytes()).sum()
    }

    /// The node called `name` in `dir`.
    pub fn find(&self, dir: NodeId, name: &[u8]) -> Result<NodeId> {
        let node = self.node(dir)?;
        if !node.is_dir() {
            return refuse(Refusal::NotDirectory);
        }
        match name {
            b"." => Ok(dir),
            b".." => Ok(node.parent),
            name if name.len() > NAME_BYTES_MAX => refuse(Refusal::NameTooLong),
            name => node
                .index
                .get(name)
                .and_then(|cookie| node.entries.get(cookie))
                .map(|(_, node)| *node)
                .ok_or_else(|| missing(String::from_utf8_lossy(name))),
        }
    }

    /// A directory in which the new name `name` can be created; it must not exist yet.
    fn check_room(&self, dir: NodeId, name: &[u8]) -> Result<()> {
        let parent = self.node(dir)?;
        if !parent.is_dir() {
            return refuse(Refusal::NotDirectory);
        }
        if parent.attr.links == 0 {
            return Err(missing("the directory was removed"));
        }
        check_new_name(name)?;
        if parent.index.contains_key(name) { refuse(Refusal::Exists) } else { Ok(()) }
    }

    /// The reverse of [`State::enter`].
    fn leave(&mut self, dir: NodeId, name: &[u8]) -> Result<NodeId> {
        let node = self.find(dir, name)?;
        let is_dir = self.node(node)?.is_dir();
        let parent = self.node_mut(dir)?;
        if let Some(cookie) = parent.index.remove(name) {
            parent.entries.remove(&cookie);
        }
        parent.attr.size -= 1;
        parent.attr.links -= u32::from(is_dir);
        Ok(node)
    }

    pub fn create(
        &mut self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        new: &NewNode,
        mode: u32,
        umask: u32,
    ) -> Result<Attr> {
        self.check_room(dir, name)?;
        let node = self.make(who, dir, new, mode, umask)?;
        self.enter(dir, name, node)?;
        self.node_mut(dir)?.touch();
        Ok(self.node(node)?.attr)
    }

    pub fn create_unnamed(&mut self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        let parent = self.node(dir)?;
        if !parent.is_dir() {
            return refuse(Refusal::NotDirectory);
        }
        let node = self.make(who, dir, &NewNode::Regular, mode, umask)?;
        let made = self.node_mut(node)?;
        (made.attr.links, made.unnamed) = (0, true);
        Ok(made.attr)
    }

    /// Creates a node without a name, as if in `dir`.
    fn make(&mut self, who: &Caller, dir: NodeId, new: &NewNode, mode: u32, umask: u32) -> Result<NodeId> {
        let parent = self.node(dir)?;
        let (kind, target, rdev) = match new {
            NewNode::Regular => (FileKind::Regular, Vec::new(), (0, 0)),
            NewNode::Directory => (FileKind::Directory, Vec::new(), (0, 0)),
            NewNode::Symlink(target) => (FileKind::Symlink, target.clone(), (0, 0)),
            NewNode::Fifo => (FileKind::Fifo, Vec::new(), (0, 0)),
            NewNode::Socket => (FileKind::Socket, Vec::new(), (0, 0)),
            NewNode::CharDevice { major, minor } => (FileKind::CharDevice, Vec::new(), (*major, *minor)),
            NewNode::BlockDevice { major, minor } => (FileKind::BlockDevice, Vec::new(), (*major, *minor)),
        };
        // Only the server knows whether a file may keep setgid for a group that its creator is not
        // in.
        let (mut mode, gid) = match parent.attr.mode & SETGID {
            0 => (mode, who.gid),
            _ if kind == FileKind::Directory => (mode | SETGID, parent.attr.gid),
            _ => (mode, parent.attr.gid),
        };
        let is_plain = matches!(kind, FileKind::Regular | FileKind::Directory);
        let (project, project_inherit) =
            if parent.project_inherit { (parent.attr.project, is_plain) } else { (0, false) };
        let mut lists = Vec::new();
        match parent.acl(DEFAULT)? {
            _ if kind == FileKind::Symlink => mode = 0o777,
            Some(default) => {
                let (access, with_acl) = default.inherited(mode);
                mode = with_acl;
                if !access.is_mode_alone() {
                    lists.push((ACCESS.to_vec(), access.to_bytes()));
                }
                if kind == FileKind::Directory {
                    lists.push((DEFAULT.to_vec(), default.to_bytes()));
                }
            }
            None => mode &= !umask,
        }
        let node = self.insert(dir, kind, mode & 0o7777, now());
        let made = self.node_mut(node)?;
        (made.attr.uid, made.attr.gid) = (who.uid, gid);
        (made.attr.rdev_major, made.attr.rdev_minor) = rdev;
        (made.attr.project, made.project_inherit) = (project, project_inherit);
        if kind == FileKind::Symlink {
            made.attr.size = target.len() as u64;
        }
        made.target = target;
        made.xattrs.extend(lists);
        Ok(node)
    }

    pub fn link(&mut self, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let source = self.node(node)?;
        if source.is_dir() {
            return refuse(Refusal::NotPermitted);
        }
        if source.attr.links == 0 && !source.unnamed {
            return Err(missing("the file was removed"));
        }
        self.check_room(dir, name)?;
        self.check_project(node, dir)?;
        self.enter(dir, name, node)?;
        self.node_mut(dir)?.touch();
        let source = self.node_mut(node)?;
        source.attr.links += 1;
        source.unnamed = false;
        source.attr.ctime = now();
        Ok(source.attr)
    }

    /// Files cannot be moved into a directory whose project they would have to inherit.
    fn check_project(&self, node: NodeId, dir: NodeId) -> Result<()> {
        let (node, dir) = (self.node(node)?, self.node(dir)?);
        if dir.project_inherit && dir.attr.project != node.attr.project {
            return refuse(Refusal::CrossDevice);
        }
        Ok(())
    }

    pub fn unlink(&mut self, dir: NodeId, name: &[u8]) -> Result<()> {
        if matches!(name, b"." | b"..") || self.node(self.find(dir, name)?)?.is_dir() {
            return refuse(Refusal::IsDirectory);
        }
        let node = self.leave(dir, name)?;
        self.node_mut(dir)?.touch();
        self.lose_name(node)
    }

    pub fn rmdir(&mut self, dir: NodeId, name: &[u8]) -> Result<()> {
        match name {
            b"." => return invalid("a directory cannot be removed from within"),
            b".." => return refuse(Refusal::NotEmpty),
            _ => {}
        }
        let node = self.node(self.find(dir, name)?)?;
        if !node.is_dir() {
            return refuse(Refusal::NotDirectory);
        }
        if !node.entries.is_empty() {
            return refuse(Refusal::NotEmpty);
        }
        let node = self.leave(dir, name)?;
        self.node_mut(dir)?.touch();
        self.lose_name(node)
    }

    fn lose_name(&mut self, node: NodeId) -> Result<()> {
        let lost = self.node_mut(node)?;
        lost.attr.links = if lost.is_dir() { 0 } else { lost.attr.links - 1 };
        lost.attr.ctime = now();
        self.drop_unused(node);
        Ok(())
    }

    pub fn close(&mut self, node: NodeId) {
        if let Ok(closed) = self.node_mut(node) {
            closed.opens = closed.opens.saturating_sub(1);
        }
        self.drop_unused(node);
    }

    fn drop_unused(&mut self, node: NodeId) {
        if self.nodes.get(&node).is_some_and(|n| n.attr.links == 0 && n.opens == 0) {
            self.nodes.remove(&node);
        }
    }

    pub fn rename(
        &mut self,
        who: &Caller,
        (dir, name): (NodeId, &[u8]),
        (to_dir, to_name): (NodeId, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return invalid("RENAME_EXCHANGE cannot be combined with RENAME_NOREPLACE or RENAME_WHITEOUT");
        }
        if matches!(name, b"." | b"..") || matches!(to_name, b"." | b"..") {
            return refuse(Refusal::Busy);
        }
        let node = self.find(dir, name)?;
        let there = match self.find(to_dir, to_name) {
            Ok(there) => Some(there),
            Err(Error::NotFound { .. }) => None,
            Err(e) => return Err(e),
        };
        if there.is_some() && flags.no_replace {
            return refuse(Refusal::Exists);
        }
        if there.is_none() {
            if flags.exchange {
                return Err(missing(String::from_utf8_lossy(to_name)));
            }
            self.check_room(to_dir, to_name)?;
        }
        if there == Some(node) {
            return Ok(());
        }
        self.check_no_loop(node, to_dir)?;
        self.check_project(node, to_dir)?;
        let is_dir = self.node(node)?.is_dir();
        if let Some(there) = there {
            let other = self.node(there)?;
            if flags.exchange {
                self.check_no_loop(there, dir)?;
                self.check_project(there, dir)?;
            } else if is_dir && !other.is_dir() {
                return refuse(Refusal::NotDirectory);
            } else if !is_dir && other.is_dir() {
                return refuse(Refusal::IsDirectory);
            } else if !other.entries.is_empty() {
                return refuse(Refusal::NotEmpty);
            }
        }
        // Nothing fails from here on.
        self.leave(dir, name)?;
        if let Some(there) = there {
            self.leave(to_dir, to_name)?;
            if flags.exchange {
                self.arrive(there, dir, name)?;
            } else {
                self.lose_name(there)?;
            }
        }
        self.arrive(node, to_dir, to_name)?;
        if flags.whiteout {
            self.create(who, dir, name, &NewNode::CharDevice { major: 0, minor: 0 }, 0, 0)?;
        }
        self.node_mut(dir)?.touch();
        self.node_mut(to_dir)?.touch();
        Ok(())
    }

    fn arrive(&mut self, node: NodeId, dir: NodeId, name: &[u8]) -> Result<()> {
        self.enter(dir, name, node)?;
        let moved = self.node_mut(node)?;
        moved.attr.ctime = now();
        moved.parent = dir;
        Ok(())
    }

    /// Checks that `dir` does not lie within `node`.
    fn check_no_loop(&self, node: NodeId, dir: NodeId) -> Result<()> {
        let mut at = dir;
        loop {
            if at == node {
                return invalid("a directory cannot move into itself");
            }
            let parent = self.node(at)?.parent;
            if parent == at {
                return Ok(());
            }
            at = parent;
        }
    }

    /// The node, if it is a regular file. Fails for any other.
    pub fn regular(&self, node: NodeId) -> Result<&Node> {
        match self.node(node)? {
            n if n.is_dir() => refuse(Refusal::IsDirectory),
            n if n.attr.kind != FileKind::Regular => invalid("not a file with contents"),
            n => Ok(n),
        }
    }

    fn check_end(offset: u64, len: u64) -> Result<u64> {
        match offset.checked_add(len) {
            Some(end) if i64::try_from(end).is_ok() => Ok(end),
            _ => refuse(Refusal::TooLarge),
        }
    }

    pub fn set_attr(&mut self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            self.regular(node)?;
            Self::check_end(size, 0)?;
        }
        let node = self.node_mut(node)?;
        let time = now();
        let value = |time_set: SetTime| match time_set {
            SetTime::Now => time,
            SetTime::To(t) => t,
        };
        if let Some(size) = set.size {
            if size != node.attr.size {
                node.attr.mtime = time;
                node.drop_setid(who);
            }
            node.data.cut(size.min(node.attr.size));
            node.attr.size = size;
            node.count_blocks();
        }
        if (set.uid.is_some() || set.gid.is_some()) && !node.is_dir() {
            // Also when root does it: a program must not keep rights that it had under another
            // owner.
            node.drop_setid(&Caller::default());
        }
        node.attr.uid = set.uid.unwrap_or(node.attr.uid);
        node.attr.gid = set.gid.unwrap_or(node.attr.gid);
        if let Some(mode) = set.mode {
            node.attr.mode = mode & 0o7777;
            node.aces = None;
            if let Some(acl) = node.acl(ACCESS)? {
                node.xattrs.insert(ACCESS.to_vec(), acl.with_mode(mode).to_bytes());
            }
        }
        node.attr.project = set.project.unwrap_or(node.attr.project);
        node.project_inherit = set.project_inherit.unwrap_or(node.project_inherit);
        node.flags = (node.flags | set.set_flags).difference(set.clear_flags);
        node.attr.atime = set.atime.map_or(node.attr.atime, value);
        node.attr.mtime = set.mtime.map_or(node.attr.mtime, value);
        node.attr.ctime = set.ctime.map_or(time, value);
        node.attr.btime = set.btime.unwrap_or(node.attr.btime);
        Ok(node.attr)
    }

    pub fn write(&mut self, who: &Caller, node: NodeId, offset: u64, data: &[u8], limit: Option<u64>) -> Result<()> {
        let file = self.regular(node)?;
        let end = Self::check_end(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        if let Some(limit) = limit
            && self.used_bytes() + file.data.missing_bytes(offset..end) > limit
        {
            return refuse(Refusal::NoSpace);
        }
        let file = self.node_mut(node)?;
        file.data.write(offset, data);
        file.attr.size = file.attr.size.max(end);
        file.drop_setid(who);
        file.touch();
        file.count_blocks();
        Ok(())
    }

    pub fn set_times(&mut self, node: NodeId, mtime: Time, ctime: Time) -> Result<()> {
        let attr = &mut self.node_mut(node)?.attr;
        (attr.mtime, attr.ctime) = (mtime, ctime);
        Ok(())
    }

    pub fn allocate(&mut self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        self.regular(node)?;
        let end = Self::check_end(offset, len)?;
        if len == 0 {
            return invalid("nothing to allocate");
        }
        let file = self.node_mut(node)?;
        let grows = match what {
            Allocate::Reserve { keep_size } => !keep_size,
            Allocate::Punch => {
                file.data.punch(offset..end);
                false
            }
            Allocate::Zero { keep_size } => {
                file.data.punch(offset..end);
                !keep_size
            }
        };
        if grows {
            file.attr.size = file.attr.size.max(end);
        }
        file.drop_setid(who);
        file.touch();
        file.count_blocks();
        Ok(())
    }

    /// Sets the list and the corresponding mode.
    pub fn set_entries(&mut self, node: NodeId, list: &[Ace]) -> Result<()> {
        let node = self.node_mut(node)?;
        nfs4_acl::check(list, node.is_dir()).map_err(|why| Error::invalid("access list", why))?;
        node.attr.mode = node.attr.mode & !0o777 | crate::zpl::mode_of_list(list, node.attr.uid, node.attr.gid);
        node.attr.ctime = now();
        node.aces = Some(list.to_vec());
        Ok(())
    }

    pub fn set_xattr(&mut self, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let node = self.node_mut(node)?;
        let there = node.xattrs.contains_key(name);
        match how {
            SetXattr::Create if there => return refuse(Refusal::Exists),
            SetXattr::Replace if !there => return refuse(Refusal::NoAttribute),
            _ => {}
        }
        if value.len() > XATTR_BYTES_MAX {
            return refuse(Refusal::AttributeTooLarge);
        }
        if name == ACCESS || name == DEFAULT {
            return node.set_acl(name, PosixAcl::parse(value)?);
        }
        node.xattrs.insert(name.to_vec(), value.to_vec());
        node.attr.ctime = now();
        Ok(())
    }

    pub fn remove_xattr(&mut self, node: NodeId, name: &[u8]) -> Result<()> {
        let node = self.node_mut(node)?;
        if node.xattrs.remove(name).is_none() {
            return refuse(Refusal::NoAttribute);
        }
        node.attr.ctime = now();
        Ok(())
    }
}

impl Node {
    fn set_acl(&mut self, name: &[u8], acl: Option<PosixAcl>) -> Result<()> {
        if self.attr.kind == FileKind::Symlink {
            return Err(Error::unsupported("memory", "ACL of a symbolic link"));
        }
        if name == DEFAULT && acl.is_some() && !self.is_dir() {
            return refuse(Refusal::PermissionDenied);
        }
        let stored = match acl {
            Some(acl) if name == ACCESS => {
                self.attr.mode = self.attr.mode & 0o7000 | acl.mode();
                Some(acl).filter(|a| !a.is_mode_alone())
            }
            acl => acl,
        };
        match stored {
            Some(acl) => self.xattrs.insert(name.to_vec(), acl.to_bytes()),
            None => self.xattrs.remove(name),
        };
        self.attr.ctime = now();
        Ok(())
    }
}
