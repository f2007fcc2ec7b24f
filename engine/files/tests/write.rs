//! Writing a file system: each operation by itself, against the rules of POSIX and OpenZFS.

use crate::support::Fixture;
use errors::{Error, Refusal};
use files::nfs4_acl;
use files::vfs::{Caller, FileHandle, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetTime, SetXattr, Time, Vfs};
use files::zpl::CreateOptions;
use files::zpl::backing::{AclInherit, AclMode, Settings};
use ondisk::acl::{Ace, Who};
use ondisk::znode::Flags;

fn root() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

fn fixture() -> Fixture {
    Fixture::new(Settings { posix_acl: true, ..Settings::default() }, &CreateOptions::default())
}

fn file(f: &Fixture, dir: NodeId, name: &str) -> NodeId {
    f.fs.create(&root(), dir, name.as_bytes(), &NewNode::Regular, 0o644, 0).unwrap().node
}

fn dir(f: &Fixture, parent: NodeId, name: &str) -> NodeId {
    f.fs.create(&root(), parent, name.as_bytes(), &NewNode::Directory, 0o755, 0).unwrap().node
}

fn why<T: std::fmt::Debug>(result: errors::Result<T>) -> Refusal {
    result.unwrap_err().refusal().expect("a refusal")
}

#[test]
fn a_file_is_made_written_read_and_still_there_after_a_sync() {
    let f = fixture();
    let top = f.fs.root();
    let node = file(&f, top, "a");
    f.fs.write(&root(), node, 0, b"hello").unwrap();
    f.fs.write(&root(), node, 200_000, b"far").unwrap();
    let check = |f: &Fixture| {
        let attr = f.fs.lookup(top, b"a").unwrap();
        assert_eq!((attr.size, attr.kind, attr.mode, attr.links), (200_003, FileKind::Regular, 0o644, 1));
        assert_eq!(&f.fs.read(node, 0, 7).unwrap()[..], b"hello\0\0");
        assert_eq!(&f.fs.read(node, 199_999, 100).unwrap()[..], b"\0far");
        assert_eq!(f.fs.attr(top).unwrap().size, 3);
    };
    check(&f);
    f.sync();
    check(&f);
    check(&f.reopened());
}

#[test]
fn a_file_created_without_a_name_is_linked_or_removed() {
    let f = fixture();
    let top = f.fs.root();
    let open = |text: &[u8]| {
        let node = f.fs.create_unnamed(&root(), top, 0o666, 0o022).unwrap().node;
        f.fs.open_node(node).unwrap();
        f.fs.write(&root(), node, 0, text).unwrap();
        node
    };
    let (kept, dropped, lost) = (open(b"kept"), open(b"dropped"), open(b"lost"));
    let attr = f.fs.attr(kept).unwrap();
    assert_eq!((attr.links, attr.mode, attr.size), (0, 0o644, 4));
    assert_eq!(f.fs.unlinked().unwrap().len(), 3);
    assert_eq!(f.fs.link(&root(), kept, top, b"a").unwrap().links, 1);
    f.fs.close_node(kept);
    f.fs.close_node(dropped);
    assert!(f.fs.attr(dropped).is_err());
    f.sync();
    assert_eq!(f.fs.unlinked().unwrap(), [lost.0], "it is open, and a crash removes it");
    let f = f.reopened();
    f.fs.drain_unlinked().unwrap();
    assert!(f.fs.attr(lost).is_err());
    assert_eq!(f.fs.unlinked().unwrap(), []);
    let node = f.fs.lookup(top, b"a").unwrap().node;
    assert_eq!(&f.fs.read(node, 0, 99).unwrap()[..], b"kept");
    // An unlinked file stays unlinked, even while it is open.
    f.fs.open_node(node).unwrap();
    f.fs.unlink(&root(), top, b"a").unwrap();
    assert!(matches!(f.fs.link(&root(), node, top, b"b"), Err(Error::NotFound { .. })));
}

#[test]
fn every_kind_is_made_and_read_back() {
    let f = fixture();
    let top = f.fs.root();
    let long = vec![b'x'; 4000];
    let kinds = [
        (NewNode::Directory, FileKind::Directory),
        (NewNode::Symlink(b"short".to_vec()), FileKind::Symlink),
        (NewNode::Symlink(long.clone()), FileKind::Symlink),
        (NewNode::Fifo, FileKind::Fifo),
        (NewNode::Socket, FileKind::Socket),
        (NewNode::CharDevice { major: 8, minor: 300 }, FileKind::CharDevice),
        (NewNode::BlockDevice { major: 259, minor: 1 }, FileKind::BlockDevice),
    ];
    for (i, (new, kind)) in kinds.iter().enumerate() {
        let name = format!("n{i}");
        let made = f.fs.create(&root(), top, name.as_bytes(), new, 0o777, 0o22).unwrap();
        assert_eq!(made.kind, *kind);
        assert_eq!(made.mode, if *kind == FileKind::Symlink { 0o777 } else { 0o755 });
    }
    f.sync();
    let f = f.reopened();
    assert_eq!(f.fs.read_link(f.fs.lookup(top, b"n2").unwrap().node).unwrap(), long);
    let device = f.fs.lookup(top, b"n5").unwrap();
    assert_eq!((device.rdev_major, device.rdev_minor), (8, 300));
    assert_eq!(f.fs.attr(top).unwrap().links, 3);
    let too_long = NewNode::Symlink(vec![b'x'; 5000]);
    assert_eq!(why(f.fs.create(&root(), top, b"z", &too_long, 0o777, 0)), Refusal::NameTooLong);
}

#[test]
fn names_are_refused_as_linux_refuses_them() {
    let f = fixture();
    let top = f.fs.root();
    let a = file(&f, top, "a");
    let d = dir(&f, top, "d");
    let make = |dir, name: &[u8]| f.fs.create(&root(), dir, name, &NewNode::Regular, 0o644, 0);
    assert_eq!(why(make(top, b"a")), Refusal::Exists);
    assert_eq!(why(make(top, &[b'n'; 256])), Refusal::NameTooLong);
    assert_eq!(why(make(a, b"x")), Refusal::NotDirectory);
    assert!(matches!(make(NodeId(9999), b"x"), Err(Error::NotFound { .. })));
    assert_eq!(why(f.fs.unlink(&root(), top, b"d")), Refusal::IsDirectory);
    assert_eq!(why(f.fs.rmdir(&root(), top, b"a")), Refusal::NotDirectory);
    assert!(matches!(f.fs.unlink(&root(), top, b"none"), Err(Error::NotFound { .. })));
    assert_eq!(why(f.fs.link(&root(), d, top, b"l")), Refusal::NotPermitted);
    file(&f, d, "inside");
    assert_eq!(why(f.fs.rmdir(&root(), top, b"d")), Refusal::NotEmpty);
    let into_itself = f.fs.rename(&root(), top, b"d", d, b"e", RenameFlags::default());
    assert!(matches!(into_itself, Err(Error::Invalid { .. })));
    assert_eq!(why(f.fs.rename(&root(), d, b"inside", top, b"d", RenameFlags::default())), Refusal::IsDirectory);
    assert_eq!(why(f.fs.rename(&root(), top, b"d", top, b"a", RenameFlags::default())), Refusal::NotDirectory);
    let keep = RenameFlags { no_replace: true, ..RenameFlags::default() };
    assert_eq!(why(f.fs.rename(&root(), d, b"inside", top, b"a", keep)), Refusal::Exists);
    let whole = why(f.fs.write(&root(), d, 0, b"x"));
    assert_eq!(whole, Refusal::IsDirectory);
}

#[test]
fn a_file_that_is_open_outlives_its_name_and_is_freed_when_closed() {
    let f = fixture();
    let top = f.fs.root();
    let node = file(&f, top, "a");
    f.fs.set_xattr(&root(), node, b"user.big", &[7; 40_000], SetXattr::Either).unwrap();
    f.fs.open_node(node).unwrap();
    f.fs.unlink(&root(), top, b"a").unwrap();
    f.fs.write(&root(), node, 0, b"still here").unwrap();
    assert_eq!(f.fs.attr(node).unwrap().links, 0);
    assert_eq!(f.fs.unlinked().unwrap(), [node.0]);
    f.sync();
    // After a crash, the next open frees it.
    let after = f.reopened();
    assert_eq!(after.fs.drain_unlinked().unwrap(), 1);
    assert!(after.fs.unlinked().unwrap().is_empty());
    assert!(matches!(after.fs.attr(node), Err(Error::NotFound { .. })));
    // Without a crash, closing frees it.
    f.fs.close_node(node);
    assert!(f.fs.unlinked().unwrap().is_empty());
    assert!(f.fs.attr(node).is_err());
    f.sync();
    let left = std::iter::successors(f.objset.next_object(0).unwrap(), |id| f.objset.next_object(*id).unwrap()).count();
    assert!(left <= 6, "{left} objects: those of the extended attribute are freed too");
}

#[test]
fn renames_replace_exchange_and_leave_whiteouts() {
    let f = fixture();
    let top = f.fs.root();
    let (a, d) = (file(&f, top, "a"), dir(&f, top, "d"));
    let b = file(&f, d, "b");
    let rename = |from, name: &str, to, to_name: &str, flags| {
        f.fs.rename(&root(), from, name.as_bytes(), to, to_name.as_bytes(), flags)
    };
    rename(top, "a", d, "b", RenameFlags { exchange: true, ..RenameFlags::default() }).unwrap();
    assert_eq!((f.fs.lookup(top, b"a").unwrap().node, f.fs.lookup(d, b"b").unwrap().node), (b, a));
    rename(top, "d", top, "a2", RenameFlags { whiteout: true, ..RenameFlags::default() }).unwrap();
    let white = f.fs.lookup(top, b"d").unwrap();
    assert_eq!((white.kind, white.rdev_major, white.rdev_minor), (FileKind::CharDevice, 0, 0));
    rename(d, "b", top, "a", RenameFlags::default()).unwrap();
    assert!(f.fs.attr(b).is_err(), "the replaced file is removed");
    let e = dir(&f, top, "e");
    rename(top, "a2", e, "d", RenameFlags::default()).unwrap();
    assert_eq!(f.fs.lookup(d, b"..").unwrap().node, e);
    assert_eq!((f.fs.attr(top).unwrap().links, f.fs.attr(e).unwrap().links), (3, 3));
    // A second name of the same file: nothing happens.
    f.fs.link(&root(), a, top, b"again").unwrap();
    rename(top, "again", top, "a", RenameFlags::default()).unwrap();
    assert_eq!(f.fs.lookup(top, b"again").unwrap().links, 2);
}

#[test]
fn names_without_case_can_be_respelled() {
    let create = CreateOptions { case: files::zpl::CaseSensitivity::Insensitive, ..CreateOptions::default() };
    let f = Fixture::new(Settings::default(), &create);
    let top = f.fs.root();
    let a = file(&f, top, "Name");
    assert_eq!(f.fs.lookup(top, b"nAME").unwrap().node, a);
    assert_eq!(why(f.fs.create(&root(), top, b"NAME", &NewNode::Regular, 0o644, 0)), Refusal::Exists);
    f.fs.rename(&root(), top, b"name", top, b"NAME", RenameFlags::default()).unwrap();
    let mut names = Vec::new();
    f.fs.read_dir(top, 2, &mut |e| {
        names.push(e.name);
        true
    })
    .unwrap();
    assert_eq!(names, [b"NAME"]);
    f.fs.unlink(&root(), top, b"name").unwrap();
    assert_eq!(f.fs.attr(top).unwrap().size, 2);
}

/// A client takes as many names as fit in its reply and continues with the last cookie; entries are
/// read under the lock in batches that grow.
#[test]
fn a_listing_in_pieces_of_any_length_returns_each_name_once() {
    let f = fixture();
    let top = f.fs.root();
    let all: Vec<Vec<u8>> = (0..600).map(|i| format!("name {i}").into_bytes()).collect();
    for (i, name) in all.iter().enumerate() {
        // From here on it is not a micro ZAP: this name is too long for one.
        let long = if i == 100 { "x".repeat(60) } else { String::new() };
        let name = [&name[..], long.as_bytes()].concat();
        f.fs.create(&root(), top, &name, &NewNode::Regular, 0o644, 0).unwrap();
        if ![15, 16, 17, 47, 48, 49, 99, 599].contains(&i) {
            continue;
        }
        for piece in [1, 14, 15, 16, 17, 40, 300, 1000] {
            let (mut names, mut cookie, mut is_all) = (std::collections::BTreeSet::new(), 0, false);
            while !is_all {
                let mut count = 0;
                is_all = true;
                f.fs.read_dir(top, cookie, &mut |entry| {
                    if count == piece {
                        is_all = false;
                        return false;
                    }
                    count += 1;
                    cookie = entry.next_cookie;
                    assert!(names.insert(entry.name.clone()), "{:?} again", entry.name);
                    true
                })
                .unwrap();
            }
            assert_eq!(names.len(), i + 1 + 2, "in pieces of {piece}");
        }
    }
}

#[test]
fn set_id_bits_and_groups_follow_the_rules() {
    let f = fixture();
    let top = f.fs.root();
    let someone = Caller { uid: 1000, gid: 1000, ..Caller::default() };
    let node = file(&f, top, "a");
    let set = |node, set: SetAttr| f.fs.set_attr(&root(), node, &set).unwrap();
    set(node, SetAttr { mode: Some(0o6755), ..SetAttr::default() });
    f.fs.write(&root(), node, 0, b"x").unwrap();
    assert_eq!(f.fs.attr(node).unwrap().mode, 0o6755, "root may");
    f.fs.write(&someone, node, 0, b"x").unwrap();
    assert_eq!(f.fs.attr(node).unwrap().mode, 0o755);
    set(node, SetAttr { mode: Some(0o6755), ..SetAttr::default() });
    assert_eq!(set(node, SetAttr { uid: Some(5), ..SetAttr::default() }).mode, 0o755, "chown, even by root");
    let d = dir(&f, top, "d");
    set(d, SetAttr { mode: Some(0o2775), gid: Some(77), ..SetAttr::default() });
    let inside = f.fs.create(&someone, d, b"x", &NewNode::Directory, 0o755, 0o22).unwrap();
    assert_eq!((inside.gid, inside.uid, inside.mode), (77, 1000, 0o2755));
    let plain = f.fs.create(&someone, d, b"y", &NewNode::Regular, 0o2755, 0o22).unwrap();
    assert_eq!((plain.gid, plain.mode), (77, 0o755), "no setgid for a group that one is not in");
}

#[test]
fn new_entries_inherit_the_project_of_their_directory() {
    let f = fixture();
    let top = f.fs.root();
    let d = dir(&f, top, "d");
    let set = SetAttr { project: Some(42), project_inherit: Some(true), ..SetAttr::default() };
    f.fs.set_attr(&root(), d, &set).unwrap();
    let a = file(&f, d, "a");
    assert_eq!(f.fs.attr(a).unwrap().project, 42);
    let link = f.fs.create(&root(), d, b"s", &NewNode::Symlink(b"a".to_vec()), 0o777, 0).unwrap();
    assert_eq!(link.project, 42);
    file(&f, top, "b");
    assert_eq!(why(f.fs.rename(&root(), top, b"b", d, b"b", RenameFlags::default())), Refusal::CrossDevice);
    *f.backing.over_quota.lock() = Some((dataset::Principal::Project, 42));
    assert_eq!(why(f.fs.write(&root(), a, 0, b"x")), Refusal::QuotaExceeded);
    assert_eq!(why(f.fs.create(&root(), d, b"c", &NewNode::Regular, 0o644, 0)), Refusal::QuotaExceeded);
}

#[test]
fn dos_flags_change_alone_and_a_read_only_file_is_truncated_by_root_only() {
    let f = fixture();
    let node = file(&f, f.fs.root(), "a");
    f.sync();
    assert_eq!(f.fs.dos_flags(node).unwrap(), Flags::ARCHIVE);
    let set = |set_flags, clear_flags| {
        f.fs.set_attr(&root(), node, &SetAttr { set_flags, clear_flags, ..SetAttr::default() })
    };
    // A change of attributes sets the archive flag, unless it clears that flag.
    set(Flags::READONLY | Flags::SPARSE, Flags::ARCHIVE).unwrap();
    assert_eq!(f.fs.dos_flags(node).unwrap(), Flags::READONLY | Flags::SPARSE);
    assert_eq!(why(set(Flags::REPARSE, Flags::empty())), Refusal::NotPermitted);
    let size = SetAttr { size: Some(0), ..SetAttr::default() };
    let owner = Caller { privileged: false, ..root() };
    assert_eq!(why(f.fs.set_attr(&owner, node, &size)), Refusal::NotPermitted);
    assert_eq!(f.crashed().fs.dos_flags(node).unwrap(), Flags::READONLY | Flags::SPARSE);
    f.fs.set_attr(&root(), node, &size).unwrap();
}

#[test]
fn times_and_offsets_at_the_ends_of_their_range_are_errors_at_most() {
    use ondisk::zil::{Body, Record, RecordType};
    let f = fixture();
    let node = file(&f, f.fs.root(), "a");
    let at = |seconds| Some(SetTime::To(Time { seconds, nanoseconds: 0 }));
    for seconds in [i64::MIN, i64::MAX] {
        // Newer than the last change, so that its age is checked.
        let (atime, mtime) = (at(seconds.saturating_add(1)), at(i64::MIN));
        f.fs.set_attr(&root(), node, &SetAttr { atime, mtime, ctime: mtime, ..SetAttr::default() }).unwrap();
        f.fs.accessed(node);
    }
    // A block that a record points to is written as a whole, and may begin before the record's
    // offset.
    let pointer = ondisk::BlkPtr::HOLE;
    let packed =
        Body::Write { object: node.0, offset: 0, length: 1, pointer, data: b"x" }.encode(RecordType::WRITE, 10);
    let record = Record::parse(&packed, ondisk::Endian::Little).unwrap();
    for (offset, length) in [(u64::MAX - 100, 50), (u64::MAX, 1), (i64::MAX as u64, 1)] {
        let body = Body::Write { object: node.0, offset, length, pointer, data: &[1; 512] };
        assert_eq!(why(f.fs.replaying(|| f.fs.replay_record(&record, &body))), Refusal::TooLarge);
    }
}

#[test]
fn writes_that_exhausted_a_quota_are_replayed() {
    // A txg synced during the replay had counted the usage, so that every later mount failed.
    use dataset::Principal;
    for over in [(Principal::User, 1000), (Principal::Group, 100), (Principal::Project, 42)] {
        let f = fixture();
        let node = file(&f, f.fs.root(), "a");
        f.sync();
        let set = |set: SetAttr| f.fs.set_attr(&root(), node, &set).unwrap();
        set(SetAttr { uid: Some(1000), gid: Some(100), project: Some(42), ..SetAttr::default() });
        set(SetAttr { size: Some(1 << 20), ..SetAttr::default() });
        *f.backing.over_quota.lock() = Some(over);
        let attr = f.crashed().fs.attr(node).unwrap();
        assert_eq!((attr.uid, attr.gid, attr.project, attr.size), (1000, 100, 42, 1 << 20));
    }
}

#[test]
fn extended_attributes_live_among_the_attributes_or_in_a_hidden_directory() {
    for xattr in [files::zpl::backing::XattrMode::Sa, files::zpl::backing::XattrMode::Dir] {
        let f = Fixture::new(Settings { xattr, posix_acl: true, ..Settings::default() }, &CreateOptions::default());
        let top = f.fs.root();
        let node = file(&f, top, "a");
        let set = |name: &[u8], value: &[u8], how| f.fs.set_xattr(&root(), node, name, value, how);
        set(b"user.a", b"1", SetXattr::Create).unwrap();
        assert_eq!(why(set(b"user.a", b"1", SetXattr::Create)), Refusal::Exists);
        assert_eq!(why(set(b"user.b", b"1", SetXattr::Replace)), Refusal::NoAttribute);
        set(b"user.a", b"", SetXattr::Replace).unwrap();
        set(b"security.selinux", b"x", SetXattr::Either).unwrap();
        set(b"user.large", &[3; 50_000], SetXattr::Either).unwrap();
        set(b"user.large", &[4; 60_000], SetXattr::Either).unwrap();
        assert_eq!(why(set(b"user.x", &[0; 70_000], SetXattr::Either)), Refusal::AttributeTooLarge);
        assert!(set(b"bogus.x", b"", SetXattr::Either).is_err());
        f.sync();
        let f = f.reopened();
        let mut names = f.fs.list_xattr(node).unwrap();
        names.sort();
        assert_eq!(names, [&b"security.selinux"[..], b"user.a", b"user.large"], "{xattr:?}");
        assert_eq!(f.fs.get_xattr(node, b"user.a").unwrap().unwrap(), b"");
        assert_eq!(f.fs.get_xattr(node, b"user.large").unwrap().unwrap(), [4; 60_000]);
        set(b"user.large", b"small now", SetXattr::Replace).unwrap();
        f.fs.remove_xattr(&root(), node, b"user.a").unwrap();
        assert_eq!(why(f.fs.remove_xattr(&root(), node, b"user.a")), Refusal::NoAttribute);
    }
}

#[test]
fn a_handle_refers_to_its_file_after_reopening_and_is_stale_once_it_is_removed() {
    let f = fixture();
    let top = f.fs.root();
    let node = file(&f, top, "a");
    f.fs.set_xattr(&root(), node, b"user.long", &[7; 40_000], SetXattr::Either).unwrap();
    let handle = f.fs.handle(node).unwrap();
    f.fs.rename(&root(), top, b"a", top, b"b", RenameFlags::default()).unwrap();
    assert_eq!(f.fs.by_handle(&handle).unwrap(), f.fs.lookup(top, b"b").unwrap());
    f.sync();
    let f = f.reopened();
    assert_eq!(f.fs.by_handle(&handle).unwrap().node, node);
    assert_eq!(f.fs.by_handle(&FileHandle::root_of(handle.fs_guid)).unwrap().node, f.fs.root());

    // Object numbers that are not files: the master node, the object that holds the attribute,
    // numbers that were never used.
    for object in (1..20).chain([node.0 + 1, node.0 + 2, 1 << 40]).filter(|&o| o != top.0 && o != node.0) {
        for generation in [0, handle.generation, handle.generation + 1] {
            assert_eq!(why(f.fs.by_handle(&FileHandle { object, generation, ..handle })), Refusal::Stale, "{object}");
        }
    }
    // While it is open it can be found even without a name.
    f.fs.open_node(node).unwrap();
    f.fs.unlink(&root(), f.fs.root(), b"b").unwrap();
    assert_eq!(f.fs.by_handle(&handle).unwrap().links, 0);
    f.fs.close_node(node);
    assert_eq!(why(f.fs.by_handle(&handle)), Refusal::Stale);
}

fn ace(kind: u16, flags: u16, mask: u32, who: Who) -> Ace {
    Ace { kind, flags, mask, who }.with_who_flags()
}

#[test]
fn an_access_list_brings_its_mode_and_outlives_syncs_and_crashes() {
    let f = fixture();
    f.backing.keeps_records.store(true, std::sync::atomic::Ordering::SeqCst);
    f.sync();
    let (top, read) = (f.fs.root(), nfs4_acl::READ);
    let node = file(&f, top, "a");
    assert_eq!(f.fs.nfs4_acl_beyond_mode(node).unwrap(), None);
    assert_eq!(f.fs.nfs4_acl(node).unwrap(), nfs4_acl::of_mode(f.fs.attr(node).unwrap().mode, false));
    let list = vec![
        ace(nfs4_acl::DENY, 0, nfs4_acl::WRITE, Who::User(7)),
        ace(nfs4_acl::ALLOW, 0, read | nfs4_acl::WRITE, Who::Owner),
        ace(nfs4_acl::ALLOW, 0, read, Who::Group(60)),
        ace(nfs4_acl::ALLOW, 0, read | nfs4_acl::EXECUTE, Who::Everyone),
    ];
    f.fs.set_nfs4_acl(&root(), node, &list).unwrap();
    let check = |f: &Fixture| {
        assert_eq!(f.fs.nfs4_acl(node).unwrap(), list);
        assert_eq!(f.fs.attr(node).unwrap().mode, 0o755);
    };
    check(&f);
    let f = f.crashed();
    check(&f);
    f.sync();
    let f = f.reopened();
    check(&f);
    // The maximum number of entries, which takes its own block.
    let long: Vec<_> = (0..1024).map(|i| ace(nfs4_acl::ALLOW, 0, read, Who::User(1000 + i))).collect();
    f.fs.set_nfs4_acl(&root(), node, &long).unwrap();
    f.sync();
    let f = f.reopened();
    assert_eq!(f.fs.nfs4_acl(node).unwrap(), long);
    assert_eq!(f.fs.attr(node).unwrap().mode, 0, "the mode grants nothing");
    assert!(f.fs.set_nfs4_acl(&root(), node, &[]).is_err());
    assert!(f.fs.set_nfs4_acl(&root(), node, &[ace(0, nfs4_acl::FILE_INHERIT, read, Who::Everyone)]).is_err());
    // chmod discards the list, as aclmode=discard requires.
    f.fs.set_attr(&root(), node, &SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
    assert_eq!(f.fs.nfs4_acl_beyond_mode(node).unwrap(), None);
}

#[test]
fn clearing_set_id_bits_by_a_write_keeps_the_access_list_also_after_a_crash() {
    // With aclmode=restricted, replay refused the record, and all later writes to the file in the
    // log were skipped; with the other modes, replay changed the list.
    let someone = Caller { uid: 1000, gid: 1000, ..Caller::default() };
    for acl_mode in [AclMode::Restricted, AclMode::Discard, AclMode::GroupMask, AclMode::Passthrough] {
        let f = Fixture::new(Settings { acl_mode, ..Settings::default() }, &CreateOptions::default());
        let node = file(&f, f.fs.root(), "a");
        f.fs.set_attr(&root(), node, &SetAttr { mode: Some(0o6755), ..SetAttr::default() }).unwrap();
        let rights = nfs4_acl::READ | nfs4_acl::EXECUTE;
        let list = vec![
            ace(nfs4_acl::ALLOW, 0, rights | nfs4_acl::WRITE, Who::User(1000)),
            ace(nfs4_acl::ALLOW, 0, rights | nfs4_acl::WRITE, Who::Owner),
            ace(nfs4_acl::ALLOW, 0, rights, Who::Everyone),
        ];
        f.fs.set_nfs4_acl(&root(), node, &list).unwrap();
        assert_eq!(f.fs.attr(node).unwrap().mode, 0o6755);
        f.sync();
        f.fs.write(&someone, node, 0, b"written").unwrap();
        let check = |f: &Fixture| {
            assert_eq!(f.fs.attr(node).unwrap().mode, 0o755, "{acl_mode:?}");
            assert_eq!(f.fs.nfs4_acl(node).unwrap(), list, "{acl_mode:?}");
            assert_eq!(&f.fs.read(node, 0, 9).unwrap()[..], b"written");
        };
        check(&f);
        check(&f.crashed());
    }
    // Setting the mode changes the list, even if it only clears set-id bits.
    let f = fixture();
    let node = file(&f, f.fs.root(), "a");
    f.fs.set_attr(&root(), node, &SetAttr { mode: Some(0o4000), ..SetAttr::default() }).unwrap();
    let list = [ace(nfs4_acl::ALLOW, 0, nfs4_acl::READ, Who::User(7)), ace(nfs4_acl::ALLOW, 0, 0, Who::Everyone)];
    f.fs.set_nfs4_acl(&root(), node, &list).unwrap();
    f.sync();
    f.fs.set_attr(&root(), node, &SetAttr { mode: Some(0), ..SetAttr::default() }).unwrap();
    assert_eq!(f.fs.nfs4_acl_beyond_mode(node).unwrap(), None);
    assert_eq!(f.crashed().fs.nfs4_acl_beyond_mode(node).unwrap(), None);
}

#[test]
fn new_files_inherit_by_aclinherit_and_chmod_follows_aclmode() {
    let passed = nfs4_acl::FILE_INHERIT | nfs4_acl::DIRECTORY_INHERIT;
    let rights = nfs4_acl::READ | nfs4_acl::WRITE | nfs4_acl::WRITE_ACL;
    for (acl_inherit, named, mode) in [
        (AclInherit::Discard, None, 0o644),
        (AclInherit::NoAllow, None, 0o644),
        (AclInherit::Restricted, Some(nfs4_acl::READ | nfs4_acl::WRITE), 0o664),
        (AclInherit::Passthrough, Some(rights), 0o664),
    ] {
        let settings = Settings { acl_inherit, acl_mode: AclMode::Passthrough, ..Settings::default() };
        let f = Fixture::new(settings, &CreateOptions::default());
        f.backing.keeps_records.store(true, std::sync::atomic::Ordering::SeqCst);
        f.sync();
        let parent = dir(&f, f.fs.root(), "d");
        let list = [
            ace(nfs4_acl::ALLOW, passed, rights, Who::User(7)),
            ace(nfs4_acl::ALLOW, passed, rights, Who::Owner),
            ace(nfs4_acl::ALLOW, passed, rights, Who::OwningGroup),
            ace(nfs4_acl::ALLOW, passed, nfs4_acl::READ, Who::Everyone),
        ];
        f.fs.set_nfs4_acl(&root(), parent, &list).unwrap();
        let made = f.fs.create(&root(), parent, b"f", &NewNode::Regular, 0o644, 0).unwrap();
        assert_eq!(made.mode, mode, "{acl_inherit:?}");
        let entry = |f: &Fixture, node| {
            let list = f.fs.nfs4_acl(node).unwrap();
            list.iter().find(|a| a.who == Who::User(7)).map(|a| a.mask)
        };
        assert_eq!(entry(&f, made.node), named, "{acl_inherit:?}");
        let f = f.crashed();
        assert_eq!((entry(&f, made.node), f.fs.attr(made.node).unwrap().mode), (named, mode), "replayed");
        f.fs.set_attr(&root(), made.node, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        assert_eq!(entry(&f, made.node), named, "aclmode=passthrough keeps what others were given");
        let child = f.fs.create(&root(), parent, b"sub", &NewNode::Directory, 0o755, 0).unwrap().node;
        assert_eq!(entry(&f, child), named);
    }
}
