//! SETATTR, and the initial attributes of new files.

use super::super::attr::NewAttrs;
use super::super::bitmap::{self, Bitmap};
use super::super::node::Node;
use super::super::rights;
use super::super::state::{IoWant, StateId};
use super::super::status::{Result, Status};
use super::Compound;
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{Attr, FileKind, SetAttr, SetTime};

impl Compound<'_> {
    pub(super) fn setattr(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let mut set = Bitmap::default();
        let done = self.setattr_steps(r, &mut set);
        // The bitmap of attributes that were set is returned in any case.
        set.write(w);
        Ok(done.err().unwrap_or(Status::OK))
    }

    fn setattr_steps(&mut self, r: &mut Reader<'_>, done: &mut Bitmap) -> Result<()> {
        let id = self.state_id(r)?;
        let new = NewAttrs::read(r, self.minor)??;
        let node = self.node()?;
        node.check_writable()?;
        let attr = node.attr()?;
        if new.set.size.is_some() {
            node.is_regular()?;
            let key = node.key;
            self.check_io(&id, key, IoWant::Write)?;
        }
        let node = self.node()?;
        set_attrs(node, &attr, &new, id != StateId::ANONYMOUS && id != StateId::BYPASS, done)?;
        self.changed(node)?;
        self.settle(node)
    }
}

/// Sets attributes of a node, as far as the user may. `is_open`: the file is open for writing, so
/// truncating it was already permitted.
pub(super) fn set_attrs(node: &Node, attr: &Attr, new: &NewAttrs, is_open: bool, done: &mut Bitmap) -> Result<()> {
    check_rights(node, attr, new, is_open)?;
    node.changes();
    let mut set = new.set;
    if let Some((value, mask)) = new.mode_masked {
        if set.mode.is_some() {
            return Err(Status::INVAL);
        }
        set.mode = Some(attr.mode & !mask | value & mask);
    }
    if new.given.has(bitmap::MODE_UMASK) {
        // A umask applies only to new files.
        return Err(Status::INVAL);
    }
    if set != SetAttr::default() {
        node.vfs().set_attr(node.who(), node.id, &set)?;
        *done = new.given.minus(Bitmap::of(&[bitmap::ACL]));
    }
    if let Some(list) = &new.acl {
        node.vfs().set_nfs4_acl(node.who(), node.id, list)?;
        done.insert(bitmap::ACL);
    }
    Ok(())
}

fn check_rights(node: &Node, attr: &Attr, new: &NewAttrs, is_open: bool) -> Result<()> {
    let (who, set) = (node.who(), &new.set);
    if who.privileged {
        return Ok(());
    }
    let has = |want| rights::check(node, attr, want);
    if set.mode.is_some() || new.mode_masked.is_some() || new.acl.is_some() {
        rights::check_owner(node, attr).or_else(|e| has(rights::WRITE_ACL).map_err(|_| e))?;
    }
    if set.uid.is_some_and(|uid| uid != attr.uid) {
        return Err(Status::PERM);
    }
    if let Some(gid) = set.gid.filter(|gid| *gid != attr.gid) {
        let member = who.gid == gid || who.groups.contains(&gid);
        if !member {
            return Err(Status::PERM);
        }
        rights::check_owner(node, attr).or_else(|e| has(rights::WRITE_OWNER).map_err(|_| e))?;
    }
    if set.size.is_some() && !is_open {
        rights::check_write(node, attr)?;
    }
    if set.btime.is_some() {
        rights::check_owner(node, attr)?;
    }
    let times = [set.atime, set.mtime];
    if times.iter().any(|t| matches!(t, Some(SetTime::To(_)))) {
        rights::check_owner(node, attr).or_else(|e| has(rights::WRITE_ATTRIBUTES).map_err(|_| e))?;
    } else if times.iter().any(Option::is_some) && rights::check_owner(node, attr).is_err() {
        // Setting the times to the current time requires only write permission.
        has(rights::WRITE)?;
    }
    if attr.kind == FileKind::Symlink && set.mode.is_some() {
        return Err(Status::INVAL);
    }
    Ok(())
}

/// Sets the attributes of a new file other than its mode. Mode bits that were removed at creation
/// stay removed.
pub(super) fn set_new(node: &Node, new: &NewAttrs) -> Result<()> {
    let attr = node.attr()?;
    node.changes();
    let mut set = SetAttr { mode: None, ..new.set };
    let who = node.who();
    if !who.privileged && set.uid.is_some_and(|uid| uid != attr.uid) {
        return Err(Status::PERM);
    }
    if let Some(gid) = set.gid.filter(|gid| *gid != attr.gid)
        && !who.privileged
        && who.gid != gid
        && !who.groups.contains(&gid)
    {
        return Err(Status::PERM);
    }
    set.uid = set.uid.filter(|uid| *uid != attr.uid);
    set.gid = set.gid.filter(|gid| *gid != attr.gid);
    // A new file is already empty.
    set.size = set.size.filter(|size| *size != attr.size);
    if set != SetAttr::default() {
        node.vfs().set_attr(who, node.id, &set)?;
    }
    if let Some(list) = &new.acl {
        node.vfs().set_nfs4_acl(who, node.id, list)?;
    }
    Ok(())
}

/// The mode and umask for creating a file.
pub(super) fn mode_of_new(new: &NewAttrs, otherwise: u32) -> (u32, u32) {
    let masked = new.mode_masked.map(|(value, mask)| value & mask);
    (new.set.mode.or(masked).unwrap_or(otherwise), new.umask)
}
