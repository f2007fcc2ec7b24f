//! The permissions of a user on a node: from its NFSv4 ACL if that says more than the mode,
//! otherwise as in version 3. For each right, the first entry that matches the right and the user
//! decides, as in OpenZFS (zfs_zaccess).

use super::node::Node;
use super::status::{Result, Status};
use crate::nfs::access;
use files::nfs4_acl;
use files::vfs::{Attr, FileKind};

pub(super) use files::nfs4_acl::{
    APPEND, DELETE, DELETE_CHILD, EXECUTE, READ, WRITE, WRITE_ACL, WRITE_ATTRIBUTES, WRITE_OWNER,
};

/// The rights in `want` that the user has.
pub(super) fn granted(node: &Node, attr: &Attr, want: u32) -> Result<u32> {
    let who = node.who();
    if who.privileged {
        let may_execute = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return Ok(if may_execute { want } else { want & !EXECUTE });
    }
    if let Some(list) = node.vfs().nfs4_acl_beyond_mode(attr.node)? {
        return Ok(nfs4_acl::granted(&list, (attr.uid, attr.gid), who, want));
    }
    let classes = [(READ, access::READ), (WRITE | APPEND | DELETE_CHILD, access::WRITE), (EXECUTE, access::EXECUTE)];
    let mut given = if who.uid == attr.uid { want & (WRITE_ACL | WRITE_ATTRIBUTES) } else { 0 };
    for (rights, bit) in classes {
        if want & rights != 0 && access::permits(node.vfs(), attr, who, bit).map_err(|e| Status(e.0))? {
            given |= want & rights;
        }
    }
    Ok(given)
}

/// Fails unless the user has all rights in `want`.
pub(super) fn check(node: &Node, attr: &Attr, want: u32) -> Result<()> {
    if granted(node, attr, want)? == want { Ok(()) } else { Err(Status::ACCESS) }
}

/// Fails unless the user may read the file, or execute it, which implies reading. The owner always
/// may: permissions were checked when the file was opened.
pub(super) fn check_read(node: &Node, attr: &Attr) -> Result<()> {
    if attr.uid == node.who().uid { Ok(()) } else { check(node, attr, READ).or_else(|_| check(node, attr, EXECUTE)) }
}

/// Fails unless the user may write. The owner always may.
pub(super) fn check_write(node: &Node, attr: &Attr) -> Result<()> {
    if attr.uid == node.who().uid { Ok(()) } else { check(node, attr, WRITE) }
}

/// Fails unless the user owns the node or is root.
pub(super) fn check_owner(node: &Node, attr: &Attr) -> Result<()> {
    let who = node.who();
    if who.privileged || who.uid == attr.uid { Ok(()) } else { Err(Status::PERM) }
}

/// Fails unless the user may remove `victim` from `dir`: the ACL of either must allow it, and in a
/// sticky directory the user must own one of them.
pub(super) fn check_remove(dir: &Node, dir_attr: &Attr, victim: &Attr) -> Result<()> {
    let who = dir.who();
    check(dir, dir_attr, EXECUTE)?;
    if granted(dir, dir_attr, DELETE_CHILD)? == 0 {
        let list = dir.vfs().nfs4_acl_beyond_mode(victim.node)?;
        let gives = list.is_some_and(|l| nfs4_acl::granted(&l, (victim.uid, victim.gid), who, DELETE) == DELETE);
        if !gives {
            return Err(Status::ACCESS);
        }
    }
    let is_sticky = dir_attr.mode & 0o1000 != 0;
    if is_sticky && !who.privileged && who.uid != dir_attr.uid && who.uid != victim.uid {
        return Err(Status::PERM);
    }
    Ok(())
}
