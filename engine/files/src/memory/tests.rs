//! What system calls expect of a tree that changes, one rule per test. The same rules apply to any
//! other `Vfs`.

use super::*;
use crate::vfs::SetTime;

fn root_user() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

fn user() -> Caller {
    Caller { uid: 1000, gid: 1000, ..Caller::default() }
}

fn tree() -> MemoryVfs {
    MemoryVfs::new().writable()
}

fn make(t: &MemoryVfs, dir: NodeId, name: &str, new: NewNode, mode: u32) -> Attr {
    t.create(&user(), dir, name.as_bytes(), &new, mode, 0o022).expect("can be created")
}

fn why<T: std::fmt::Debug>(result: Result<T>) -> Refusal {
    result.expect_err("must be refused").refusal().expect("refused, not failed")
}

fn names(t: &MemoryVfs, dir: NodeId) -> Vec<String> {
    let mut names = Vec::new();
    t.read_dir(dir, 0, &mut |e| {
        names.push(String::from_utf8_lossy(&e.name).into_owned());
        true
    })
    .expect("lists");
    names.sort();
    names.split_off(2)
}

#[test]
fn nothing_changes_unless_it_is_writable() {
    let t = MemoryVfs::new();
    assert!(t.is_read_only());
    let made = t.create(&root_user(), t.root(), b"x", &NewNode::Regular, 0o644, 0);
    assert_eq!(why(made), Refusal::ReadOnly);
}

#[test]
fn a_setgid_directory_gives_its_group_and_directories_its_bit() {
    let t = tree();
    let root = t.root();
    t.set_attr(&root_user(), root, &SetAttr { mode: Some(0o2777), gid: Some(50), ..SetAttr::default() })
        .expect("chmod");
    assert_eq!(make(&t, root, "f", NewNode::Regular, 0o666).gid, 50);
    let dir = make(&t, root, "d", NewNode::Directory, 0o777);
    assert_eq!((dir.gid, dir.mode), (50, 0o2755));
    assert_eq!(make(&t, root, "l", NewNode::Symlink(b"f".to_vec()), 0).mode, 0o777);
}

#[test]
fn writing_and_changing_the_owner_clear_setuid() {
    let t = tree();
    let f = make(&t, t.root(), "f", NewNode::Regular, 0o6755).node;
    t.write(&root_user(), f, 0, b"x").expect("writes");
    assert_eq!(t.attr(f).expect("there").mode, 0o6755, "root's writing leaves it");
    t.write(&user(), f, 0, b"x").expect("writes");
    assert_eq!(t.attr(f).expect("there").mode, 0o755);
    let set = |mode| t.set_attr(&root_user(), f, &SetAttr { mode: Some(mode), ..SetAttr::default() }).expect("chmod");
    set(0o4755);
    t.set_attr(&user(), f, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncates");
    assert_eq!(t.attr(f).expect("there").mode, 0o755);
    set(0o6745);
    let owned = t.set_attr(&root_user(), f, &SetAttr { uid: Some(5), ..SetAttr::default() }).expect("chown");
    assert_eq!((owned.uid, owned.mode), (5, 0o2745), "setgid without group execute is a lock mode, and stays");
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let t = tree();
    let f = make(&t, t.root(), "f", NewNode::Regular, 0o644).node;
    t.open_node(f).expect("there");
    t.open_node(f).expect("there");
    t.unlink(&user(), t.root(), b"f").expect("unlinks");
    t.write(&user(), f, 0, b"still").expect("is open");
    assert_eq!(t.attr(f).expect("is open").links, 0);
    let linked = t.link(&user(), f, t.root(), b"again");
    assert!(matches!(linked, Err(Error::NotFound { .. })), "removed entries do not return");
    t.close_node(f);
    assert_eq!(&t.read(f, 0, 9).expect("is open once")[..], b"still");
    t.close_node(f);
    assert!(matches!(t.attr(f), Err(Error::NotFound { .. })));
    assert_eq!(t.node_count(), 1);
}

#[test]
fn a_file_made_without_a_name_may_get_one() {
    let t = tree();
    let open = || {
        let node = t.create_unnamed(&user(), t.root(), 0o666, 0o022).expect("makes").node;
        t.open_node(node).expect("there");
        node
    };
    let (kept, dropped) = (open(), open());
    assert_eq!((t.attr(kept).expect("there").links, t.attr(kept).expect("there").mode), (0, 0o644));
    assert_eq!(t.link(&user(), kept, t.root(), b"f").expect("links").links, 1);
    t.close_node(kept);
    t.close_node(dropped);
    assert_eq!((names(&t, t.root()), t.node_count()), (vec!["f".to_owned()], 2));
}

#[test]
fn rename_replaces_only_allowed_targets() {
    let t = tree();
    let root = t.root();
    let d = make(&t, root, "d", NewNode::Directory, 0o755).node;
    let e = make(&t, root, "e", NewNode::Directory, 0o755).node;
    let f = make(&t, d, "f", NewNode::Regular, 0o644).node;
    let rename = |a: (NodeId, &str), b: (NodeId, &str), flags| {
        t.rename(&user(), a.0, a.1.as_bytes(), b.0, b.1.as_bytes(), flags)
    };
    let plain = RenameFlags::default();
    assert_eq!(why(rename((root, "e"), (root, "d"), plain)), Refusal::NotEmpty);
    assert_eq!(why(rename((d, "f"), (root, "e"), plain)), Refusal::IsDirectory);
    assert_eq!(why(rename((root, "e"), (d, "f"), plain)), Refusal::NotDirectory);
    assert!(matches!(rename((root, "d"), (d, "x"), plain), Err(Error::Invalid { .. })), "into itself");
    assert_eq!(why(rename((root, "d"), (root, "e"), RenameFlags { no_replace: true, ..plain })), Refusal::Exists);
    let exchange = RenameFlags { exchange: true, ..plain };
    rename((d, "f"), (root, "e"), exchange).expect("they change places");
    assert_eq!((t.lookup(d, b"f").expect("there").node, t.lookup(root, b"e").expect("there").node), (e, f));
    assert_eq!(t.lookup(e, b"..").expect("there").node, d);
    assert_eq!((t.attr(root).expect("there").links, t.attr(d).expect("there").links), (3, 3));
    rename((root, "d"), (root, "new"), plain).expect("moves");
    assert_eq!(names(&t, root), ["e", "new"]);
    t.link(&user(), f, root, b"f2").expect("links");
    rename((root, "e"), (root, "f2"), plain).expect("both are the same file");
    assert_eq!(names(&t, root), ["e", "f2", "new"], "nothing is done");
    rename((root, "e"), (root, "g"), RenameFlags { whiteout: true, ..plain }).expect("moves");
    assert_eq!(t.lookup(root, b"e").expect("a whiteout").kind, FileKind::CharDevice);
}

#[test]
fn a_directory_is_removed_only_when_empty_and_takes_no_more_names() {
    let t = tree();
    let d = make(&t, t.root(), "d", NewNode::Directory, 0o755).node;
    make(&t, d, "f", NewNode::Regular, 0o644);
    assert_eq!(why(t.rmdir(&user(), t.root(), b"d")), Refusal::NotEmpty);
    assert_eq!(why(t.unlink(&user(), t.root(), b"d")), Refusal::IsDirectory);
    assert_eq!(why(t.rmdir(&user(), d, b"f")), Refusal::NotDirectory);
    t.unlink(&user(), d, b"f").expect("unlinks");
    t.open_node(d).expect("there");
    t.rmdir(&user(), t.root(), b"d").expect("empty");
    assert_eq!(t.attr(t.root()).expect("there").links, 2);
    let made = t.create(&user(), d, b"x", &NewNode::Regular, 0o644, 0);
    assert!(matches!(made, Err(Error::NotFound { .. })));
}

#[test]
fn listing_continues_where_it_was_while_names_change() {
    let t = tree();
    for i in 0..10 {
        make(&t, t.root(), &format!("{i}"), NewNode::Regular, 0o644);
    }
    let mut cookie = 0;
    let mut seen = Vec::new();
    loop {
        let mut entry = None;
        t.read_dir(t.root(), cookie, &mut |e| {
            entry = Some(e);
            false
        })
        .expect("lists");
        let Some(entry) = entry else { break };
        cookie = entry.next_cookie;
        let name = String::from_utf8(entry.name).expect("text");
        if !name.starts_with('.') {
            t.unlink(&user(), t.root(), name.as_bytes()).expect("unlinks");
            seen.push(name);
        }
    }
    assert_eq!(seen.len(), 10);
}

#[test]
fn cutting_and_growing_leave_zeros() {
    let t = tree();
    let f = make(&t, t.root(), "f", NewNode::Regular, 0o644).node;
    t.write(&user(), f, RECORD_BYTES - 2, b"abcd").expect("writes");
    let size = |n| t.set_attr(&user(), f, &SetAttr { size: Some(n), ..SetAttr::default() }).expect("truncates");
    size(RECORD_BYTES - 1);
    size(RECORD_BYTES + 10);
    assert_eq!(&t.read(f, RECORD_BYTES - 2, 99).expect("reads")[..], b"a\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(t.append(&user(), f, b"end").expect("appends"), RECORD_BYTES + 10);
    t.allocate(&user(), f, Allocate::Zero { keep_size: false }, 5, 5 * RECORD_BYTES).expect("zeros");
    assert_eq!(t.attr(f).expect("there").size, 5 * RECORD_BYTES + 5);
    assert_eq!(t.seek_data(f, RECORD_BYTES).expect("seeks"), None);
    assert_eq!(why(t.write(&user(), f, i64::MAX as u64, b"x")), Refusal::TooLarge);
}

#[test]
fn a_range_is_copied_up_to_the_end() {
    let t = tree();
    let a = make(&t, t.root(), "a", NewNode::Regular, 0o644).node;
    let b = make(&t, t.root(), "b", NewNode::Regular, 0o644).node;
    t.write(&user(), a, 0, b"0123456789").expect("writes");
    assert_eq!(t.copy_range(&user(), a, 4, b, 2, 100).expect("copies"), 6);
    assert_eq!(&t.read(b, 0, 99).expect("reads")[..], b"\0\x00456789");
    assert!(matches!(t.copy_range(&user(), a, 0, a, 5, 6), Err(Error::Invalid { .. })));
    assert_eq!(t.copy_range(&user(), a, 0, a, 5, 5).expect("do not overlap"), 5);
}

#[test]
fn a_full_file_system_refuses_data_and_stays_as_it_was() {
    let t = tree().limit(2 * RECORD_BYTES);
    let f = make(&t, t.root(), "f", NewNode::Regular, 0o644).node;
    t.write(&user(), f, 0, &[1; 2 * RECORD_BYTES as usize]).expect("fits");
    assert_eq!(why(t.write(&user(), f, 2 * RECORD_BYTES - 1, b"xy")), Refusal::NoSpace);
    assert_eq!(t.attr(f).expect("there").size, 2 * RECORD_BYTES);
    assert_eq!(t.stat_fs(f).expect("space").blocks_free, 0);
    t.set_attr(&user(), f, &SetAttr { size: Some(1), ..SetAttr::default() }).expect("truncates");
    t.write(&user(), f, RECORD_BYTES, b"xy").expect("fits again");
}

#[test]
fn lists_of_access_follow_the_mode_and_the_mode_them() {
    use crate::posix_acl::tests::bytes as acl;
    let t = tree();
    let root = t.root();
    let none = u32::MAX;
    let default = acl(&[(1, 7, none), (2, 7, 5), (4, 5, none), (16, 7, none), (32, 0, none)]);
    t.set_xattr(&user(), root, crate::posix_acl::DEFAULT, &default, SetXattr::Either).expect("a directory");
    let f = make(&t, root, "f", NewNode::Regular, 0o666);
    assert_eq!(f.mode, 0o660, "the list decides, not the umask");
    let name = crate::posix_acl::ACCESS;
    assert!(t.get_xattr(f.node, name).expect("reads").is_some());
    let d = make(&t, root, "d", NewNode::Directory, 0o777).node;
    assert_eq!(t.get_xattr(d, crate::posix_acl::DEFAULT).expect("reads"), Some(default.clone()));
    let refused = t.set_xattr(&user(), f.node, crate::posix_acl::DEFAULT, &default, SetXattr::Either);
    assert_eq!(why(refused), Refusal::PermissionDenied);
    t.set_attr(&user(), f.node, &SetAttr { mode: Some(0o604), ..SetAttr::default() }).expect("chmod");
    t.set_xattr(&user(), f.node, name, &acl(&[(1, 6, none), (4, 4, none), (32, 0, none)]), SetXattr::Either)
        .expect("a plain list");
    assert_eq!(t.attr(f.node).expect("there").mode, 0o640);
    assert_eq!(t.get_xattr(f.node, name).expect("reads"), None, "the mode is equivalent");
}

#[test]
fn attributes_are_created_and_replaced_as_requested() {
    let t = tree();
    let root = t.root();
    let set = |value: &[u8], how| t.set_xattr(&user(), root, b"user.a", value, how);
    assert_eq!(why(set(b"1", SetXattr::Replace)), Refusal::NoAttribute);
    set(b"1", SetXattr::Create).expect("is new");
    assert_eq!(why(set(b"2", SetXattr::Create)), Refusal::Exists);
    assert_eq!(why(set(&[0; 65_537], SetXattr::Either)), Refusal::AttributeTooLarge);
    t.remove_xattr(&user(), root, b"user.a").expect("existed");
    assert_eq!(why(t.remove_xattr(&user(), root, b"user.a")), Refusal::NoAttribute);
}

#[test]
fn a_project_is_inherited_and_keeps_others_out() {
    let t = tree();
    let root = t.root();
    let d = make(&t, root, "d", NewNode::Directory, 0o755).node;
    let set = SetAttr { project: Some(7), project_inherit: Some(true), ..SetAttr::default() };
    t.set_attr(&root_user(), d, &set).expect("sets");
    assert_eq!(make(&t, d, "in", NewNode::Regular, 0o644).project, 7);
    let f = make(&t, root, "f", NewNode::Regular, 0o644).node;
    assert_eq!(why(t.link(&user(), f, d, b"f")), Refusal::CrossDevice);
    assert_eq!(why(t.rename(&user(), root, b"f", d, b"f", RenameFlags::default())), Refusal::CrossDevice);
}

#[test]
fn times_are_updated_by_changes() {
    let t = tree();
    let root = t.root();
    let f = make(&t, root, "f", NewNode::Regular, 0o644).node;
    let old = Time { seconds: -5, nanoseconds: 7 };
    let set = SetAttr { atime: Some(SetTime::To(old)), mtime: Some(SetTime::To(old)), ..SetAttr::default() };
    let attr = t.set_attr(&user(), f, &set).expect("sets");
    assert_eq!((attr.atime, attr.mtime), (old, old));
    assert!(attr.ctime > old);
    t.accessed(f);
    assert!(t.attr(f).expect("there").atime > old);
    t.set_attr(&user(), f, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("same size");
    assert_eq!(t.attr(f).expect("there").mtime, old, "nothing was cut");
    t.set_attr(&user(), root, &set).expect("sets");
    t.link(&user(), f, root, b"g").expect("links");
    assert!(t.attr(root).expect("there").mtime > old);
}
