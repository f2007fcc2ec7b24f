//! Permission checks that NFS servers must do themselves and the kernel does for FUSE.
//!
//! A file's mode decides, or its ACL if that says more than the mode: a ZFS (NFSv4) ACL or a POSIX
//! ACL. Root may do everything except execute a file without any execute permission. The `Vfs`
//! handles what belongs to the file system: quotas, set-id bits that a change clears, and group
//! inheritance of directories.

use super::status::{Result, Status};
use files::namespace::is_synthetic;
use files::nfs4_acl;
use files::posix_acl::{ACCESS, PosixAcl};
use files::vfs::{Attr, Caller, FileKind, SetAttr, SetTime, Vfs};

/// Read a file or list a directory.
pub const READ: u32 = 4;
/// Write a file or change the entries of a directory.
pub const WRITE: u32 = 2;
/// Execute a file or look up names in a directory.
pub const EXECUTE: u32 = 1;

/// Whether the caller is a member of group `gid`.
pub fn is_in_group(who: &Caller, gid: u32) -> bool {
    who.gid == gid || who.groups.contains(&gid)
}

/// Whether the caller has all permissions in `want` ([`READ`], [`WRITE`], [`EXECUTE`]) on a node.
pub fn permits(vfs: &dyn Vfs, attr: &Attr, who: &Caller, want: u32) -> Result<bool> {
    if who.privileged {
        let may_execute = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return Ok(want & EXECUTE == 0 || may_execute);
    }
    if want & WRITE != 0 && is_synthetic(attr.node) {
        // The mode of `.zfs/snapshot` leaves the decision to what was delegated, which counts for
        // users of this machine only.
        return Ok(false);
    }
    if let Some(list) = vfs.nfs4_acl_beyond_mode(attr.node)? {
        let rights = rights(want, attr.kind == FileKind::Directory);
        return Ok(nfs4_acl::granted(&list, (attr.uid, attr.gid), who, rights) == rights);
    }
    let class = if who.uid == attr.uid {
        attr.mode >> 6
    } else {
        // With a POSIX ACL, the group bits of the mode are the ACL's mask: they limit its entries
        // and grant nothing themselves.
        if let Some(list) = list(vfs, attr)? {
            return Ok(list.permits(attr.uid, attr.gid, who.uid, |gid| is_in_group(who, gid), want));
        }
        if is_in_group(who, attr.gid) { attr.mode >> 3 } else { attr.mode }
    };
    Ok(class & want == want)
}

/// The ACL rights that correspond to permission bits of a mode.
fn rights(want: u32, is_dir: bool) -> u32 {
    let write = nfs4_acl::WRITE | nfs4_acl::APPEND | if is_dir { nfs4_acl::DELETE_CHILD } else { 0 };
    let pairs = [(READ, nfs4_acl::READ), (WRITE, write), (EXECUTE, nfs4_acl::EXECUTE)];
    pairs.iter().filter(|(bit, _)| want & bit != 0).fold(0, |all, (_, rights)| all | rights)
}

/// Whether a ZFS ACL grants `right` to the caller; `None` if the node has no ACL beyond its mode.
fn given(vfs: &dyn Vfs, attr: &Attr, who: &Caller, right: u32) -> Result<Option<bool>> {
    let list = vfs.nfs4_acl_beyond_mode(attr.node)?;
    Ok(list.map(|list| nfs4_acl::granted(&list, (attr.uid, attr.gid), who, right) == right))
}

fn list(vfs: &dyn Vfs, attr: &Attr) -> Result<Option<PosixAcl>> {
    if attr.kind == FileKind::Symlink {
        return Ok(None);
    }
    match vfs.get_xattr(attr.node, ACCESS)? {
        Some(value) => Ok(PosixAcl::parse(&value)?),
        None => Ok(None),
    }
}

/// Fails with [`Status::ACCES`] unless the caller has all permissions in `want`.
pub fn check(vfs: &dyn Vfs, attr: &Attr, who: &Caller, want: u32) -> Result<()> {
    if permits(vfs, attr, who, want)? { Ok(()) } else { Err(Status::ACCES) }
}

/// Checks permission to read a file's contents. Its owner always may: the file may have been opened
/// before its mode changed, which a version 3 server does not know. A user who may execute the file
/// may read it too, because the client reads pages of a program as it runs.
pub fn check_read(vfs: &dyn Vfs, attr: &Attr, who: &Caller) -> Result<()> {
    let may = who.uid == attr.uid || permits(vfs, attr, who, READ)? || permits(vfs, attr, who, EXECUTE)?;
    if may { Ok(()) } else { Err(Status::ACCES) }
}

/// Checks permission to write a file's contents. Its owner always may, for the same reason.
pub fn check_write(vfs: &dyn Vfs, attr: &Attr, who: &Caller) -> Result<()> {
    if who.uid == attr.uid || permits(vfs, attr, who, WRITE)? { Ok(()) } else { Err(Status::ACCES) }
}

/// Checks permission to create a name in a directory. ACLs distinguish directories (`is_dir`) from
/// other files.
pub fn check_add(vfs: &dyn Vfs, dir: &Attr, who: &Caller, is_dir: bool) -> Result<()> {
    if dir.kind != FileKind::Directory {
        return Err(Status::NOTDIR);
    }
    let right = nfs4_acl::EXECUTE | if is_dir { nfs4_acl::APPEND } else { nfs4_acl::WRITE };
    check_entries(vfs, dir, who, right)
}

fn check_entries(vfs: &dyn Vfs, dir: &Attr, who: &Caller, right: u32) -> Result<()> {
    match if who.privileged { None } else { given(vfs, dir, who, right)? } {
        Some(true) => Ok(()),
        Some(false) => Err(Status::ACCES),
        None => check(vfs, dir, who, WRITE | EXECUTE),
    }
}

/// Checks permission to remove `child` from a directory. Either the directory's permissions or
/// `DELETE` in the child's own ACL allow it. In a sticky directory, only the owner of the directory
/// or of the child may.
pub fn check_remove(vfs: &dyn Vfs, dir: &Attr, child: &Attr, who: &Caller) -> Result<()> {
    if dir.kind != FileKind::Directory {
        return Err(Status::NOTDIR);
    }
    if let Err(status) = check_entries(vfs, dir, who, nfs4_acl::EXECUTE | nfs4_acl::DELETE_CHILD) {
        let may_look = permits(vfs, dir, who, EXECUTE)?;
        if !may_look || given(vfs, child, who, nfs4_acl::DELETE)? != Some(true) {
            return Err(status);
        }
    }
    let is_sticky = dir.mode & 0o1000 != 0;
    if is_sticky && !who.privileged && who.uid != dir.uid && who.uid != child.uid { Err(Status::PERM) } else { Ok(()) }
}

/// Checks permission to set attributes, with the rules of chmod(2), chown(2), truncate(2) and
/// utimensat(2). Removes the setgid bit from `set` if the caller may not set it.
pub fn check_set(vfs: &dyn Vfs, attr: &Attr, who: &Caller, set: &mut SetAttr) -> Result<()> {
    let is_owner = who.privileged || who.uid == attr.uid;
    if set.size.is_some() {
        match attr.kind {
            FileKind::Regular => check_write(vfs, attr, who)?,
            FileKind::Directory => return Err(Status::ISDIR),
            _ => return Err(Status::INVAL),
        }
    }
    // An owner who sets the same uid changes nothing, which is always allowed.
    let gives_away = set.uid.is_some_and(|uid| uid != attr.uid || !is_owner);
    if gives_away && !who.privileged {
        return Err(Status::PERM);
    }
    if let Some(gid) = set.gid {
        let may = who.privileged || is_owner && (gid == attr.gid || is_in_group(who, gid));
        if !may {
            return Err(Status::PERM);
        }
    }
    if let Some(mode) = &mut set.mode {
        if !is_owner {
            return Err(Status::PERM);
        }
        let gid = set.gid.unwrap_or(attr.gid);
        if !who.privileged && *mode & 0o2000 != 0 && !is_in_group(who, gid) {
            *mode &= !0o2000;
        }
    }
    let times = [set.atime, set.mtime];
    if !is_owner && times.iter().flatten().any(|t| matches!(t, SetTime::To(_))) {
        return Err(Status::PERM);
    }
    if !is_owner && times.iter().flatten().count() > 0 && set.size.is_none() {
        check(vfs, attr, who, WRITE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    fn user(uid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid: 900 + uid, groups: groups.to_vec(), ..Caller::default() }
    }

    fn root() -> Caller {
        Caller { privileged: true, ..Caller::default() }
    }

    fn file(mode: u32) -> (MemoryVfs, Attr) {
        let mut vfs = MemoryVfs::new();
        let node = vfs.add_file(vfs.root(), "f", "text");
        *vfs.attr_mut(node) = Attr { mode, uid: 1, gid: 50, ..*vfs.attr_mut(node) };
        let attr = vfs.attr(node).expect("it was created");
        (vfs, attr)
    }

    #[test]
    fn the_first_class_that_fits_decides_even_when_a_later_one_gives_more() {
        let (vfs, attr) = file(0o047);
        let may = |who: &Caller, want| permits(&vfs, &attr, who, want).expect("no list");
        assert!(!may(&user(1, &[50]), READ), "the owner");
        assert!(may(&user(2, &[50]), READ) && !may(&user(2, &[50]), WRITE), "the group");
        assert!(may(&user(2, &[]), READ | WRITE | EXECUTE), "others");
        assert!(may(&root(), READ | WRITE));
    }

    #[test]
    fn a_list_gives_to_those_it_names_within_its_mask() {
        let (mut vfs, _) = file(0o670);
        let node = vfs.lookup(vfs.root(), b"f").expect("it was created").node;
        let mut list = vec![2, 0, 0, 0];
        for (tag, bits, id) in [
            (1_u16, 6_u16, u32::MAX),
            (2, 7, 7),
            (4, 0, u32::MAX),
            (8, 4, 60),
            (0x10, 6, u32::MAX),
            (0x20, 0, u32::MAX),
        ] {
            list.extend([&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
        }
        vfs.put_xattr(node, ACCESS, &list);
        let attr = vfs.attr(node).expect("it was created");
        let may = |who: &Caller, want| permits(&vfs, &attr, who, want).expect("a list");
        assert!(may(&user(7, &[]), READ | WRITE) && !may(&user(7, &[]), EXECUTE), "the mask takes x");
        assert!(!may(&user(8, &[50]), READ), "the owning group has no access, despite the mode");
        assert!(may(&user(8, &[50, 60]), READ) && !may(&user(8, &[60]), WRITE));
        assert!(!may(&user(8, &[]), READ));
    }

    #[test]
    fn native_acls_distinguish_creating_files_directories_and_removing() {
        let (vfs, child) = file(0o600);
        let root_dir = vfs.root();
        let vfs = vfs.writable();
        let entry =
            |mask, flags| ondisk::acl::Ace { kind: nfs4_acl::ALLOW, flags, mask, who: ondisk::acl::Who::User(7) };
        let list = [entry(nfs4_acl::WRITE | nfs4_acl::EXECUTE, 0).with_who_flags()];
        vfs.set_nfs4_acl(&root(), root_dir, &list).expect("set");
        let dir = vfs.attr(root_dir).expect("root");
        let who = user(7, &[]);
        assert_eq!(check_add(&vfs, &dir, &who, false), Ok(()));
        assert_eq!(check_add(&vfs, &dir, &who, true), Err(Status::ACCES));
        assert_eq!(check_add(&vfs, &dir, &user(8, &[]), false), Err(Status::ACCES));
        assert_eq!(check_remove(&vfs, &dir, &child, &who), Err(Status::ACCES));
        let gives = [entry(nfs4_acl::DELETE | nfs4_acl::READ, 0).with_who_flags()];
        vfs.set_nfs4_acl(&root(), child.node, &gives).expect("set");
        let child = vfs.attr(child.node).expect("it was created");
        assert_eq!(check_remove(&vfs, &dir, &child, &who), Ok(()));
        assert_eq!(permits(&vfs, &child, &who, READ), Ok(true));
        assert_eq!(permits(&vfs, &child, &who, WRITE), Ok(false));
    }

    #[test]
    fn root_executes_only_files_with_an_execute_bit() {
        assert!(!permits(&file(0o600).0, &file(0o600).1, &root(), EXECUTE).expect("no list"));
        assert!(permits(&file(0o601).0, &file(0o601).1, &root(), EXECUTE).expect("no list"));
    }

    #[test]
    fn owners_and_executors_can_read() {
        let (vfs, attr) = file(0o010);
        assert_eq!(check_read(&vfs, &attr, &user(1, &[])), Ok(()));
        assert_eq!(check_write(&vfs, &attr, &user(1, &[])), Ok(()));
        assert_eq!(check_read(&vfs, &attr, &user(2, &[50])), Ok(()));
        assert_eq!(check_read(&vfs, &attr, &user(2, &[])), Err(Status::ACCES));
        assert_eq!(check_write(&vfs, &attr, &user(2, &[50])), Err(Status::ACCES));
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let (mut vfs, child) = file(0o666);
        let top = vfs.root();
        *vfs.attr_mut(top) = Attr { mode: 0o1777, uid: 0, ..*vfs.attr_mut(top) };
        let dir = vfs.attr(top).expect("root");
        assert_eq!(check_remove(&vfs, &dir, &child, &user(1, &[])), Ok(()));
        assert_eq!(check_remove(&vfs, &dir, &child, &user(2, &[])), Err(Status::PERM));
        assert_eq!(check_remove(&vfs, &dir, &child, &root()), Ok(()));
    }

    #[test]
    fn attributes_are_set_only_with_permission() {
        let (vfs, attr) = file(0o620);
        let set = |who: &Caller, set: SetAttr| {
            let mut set = set;
            check_set(&vfs, &attr, who, &mut set).map(|()| set)
        };
        let mode = SetAttr { mode: Some(0o2755), ..SetAttr::default() };
        assert_eq!(set(&user(1, &[50]), mode), Ok(mode));
        assert_eq!(set(&user(1, &[]), mode).map(|s| s.mode), Ok(Some(0o755)), "not the user's group");
        assert_eq!(set(&user(2, &[50]), mode), Err(Status::PERM));
        let owner = |uid| SetAttr { uid: Some(uid), ..SetAttr::default() };
        assert_eq!(set(&user(1, &[]), owner(2)), Err(Status::PERM));
        assert_eq!(set(&user(1, &[]), owner(1)), Ok(owner(1)));
        assert_eq!(set(&root(), owner(2)), Ok(owner(2)));
        let group = |gid| SetAttr { gid: Some(gid), ..SetAttr::default() };
        assert_eq!(set(&user(1, &[60]), group(60)), Ok(group(60)));
        assert_eq!(set(&user(1, &[]), group(60)), Err(Status::PERM));
        let now = SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() };
        let then = SetAttr { mtime: Some(SetTime::To(attr.mtime)), ..SetAttr::default() };
        assert_eq!(set(&user(2, &[50]), now), Ok(now), "write access allows setting times to now");
        assert_eq!(set(&user(2, &[50]), then), Err(Status::PERM));
        assert_eq!(set(&user(2, &[]), now), Err(Status::ACCES));
        let size = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(set(&user(2, &[50]), size), Ok(size));
        assert_eq!(set(&user(2, &[]), size), Err(Status::ACCES));
    }
}
