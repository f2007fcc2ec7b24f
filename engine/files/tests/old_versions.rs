//! File systems of ZPL versions 1 to 4, and their upgrade: what is written has the form that
//! OpenZFS's kernel module gives it, and reads the same after syncs and crashes.

use crate::support::Fixture;
use errors::Error;
use files::nfs4_acl;
use files::vfs::{Caller, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, Time, Vfs};
use files::zpl::backing::{Backing, Estimate, Settings};
use files::zpl::{CreateOptions, Version};
use object::Zap;
use object::zap::ZapSpec;
use ondisk::acl::{Ace, Who};
use ondisk::znode::{DirEntryValue, LEGACY_BYTES};
use ondisk::{Endian, ObjectType};

fn root() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

fn fixture(version: u64) -> Fixture {
    let options = CreateOptions { version: Version(version), ..CreateOptions::default() };
    let f = Fixture::new(Settings { posix_acl: true, ..Settings::default() }, &options);
    f.sync();
    f
}

fn make(f: &Fixture, name: &str, new: &NewNode) -> NodeId {
    f.fs.create(&root(), f.fs.root(), name.as_bytes(), new, 0o644, 0).unwrap().node
}

fn bonus_type(f: &Fixture, node: NodeId) -> ObjectType {
    f.objset.object(node.0).unwrap().dnode().bonus_type
}

fn list(entries: u32) -> Vec<Ace> {
    let named =
        (0..entries).map(|i| Ace { kind: 0, flags: 0, mask: nfs4_acl::READ, who: Who::User(1000 + u64::from(i)) });
    let rest = [
        Ace { kind: 1, flags: 0, mask: nfs4_acl::WRITE, who: Who::Group(77) },
        Ace { kind: 0, flags: 0, mask: nfs4_acl::READ | nfs4_acl::WRITE, who: Who::Owner },
        Ace { kind: 0, flags: 0, mask: nfs4_acl::READ, who: Who::Everyone },
    ];
    named.chain(rest).map(Ace::with_who_flags).collect()
}

/// The object with the entries of a file's ACL, and its type.
fn entries_object(f: &Fixture, node: NodeId) -> Option<(u64, ObjectType)> {
    let object = f.objset.object(node.0).unwrap();
    let id = Endian::Little.u64(&object.bonus()[0xb0..]);
    (id != 0).then(|| (id, f.objset.object(id).unwrap().dnode().object_type))
}

#[test]
fn files_of_old_versions_have_znodes_and_outlive_syncs_and_crashes() {
    for version in 1..=4 {
        let f = fixture(version);
        let plain = make(&f, "plain", &NewNode::Regular);
        f.fs.write(&root(), plain, 0, &[7; 5000]).unwrap();
        let targets: Vec<Vec<u8>> = [1usize, 56, 57, 600, 4095].iter().map(|len| vec![b't'; *len]).collect();
        let mut all = vec![(plain, FileKind::Regular)];
        for (i, target) in targets.iter().enumerate() {
            all.push((make(&f, &format!("link{i}"), &NewNode::Symlink(target.clone())), FileKind::Symlink));
        }
        all.push((make(&f, "dir", &NewNode::Directory), FileKind::Directory));
        all.push((make(&f, "fifo", &NewNode::Fifo), FileKind::Fifo));
        all.push((make(&f, "null", &NewNode::CharDevice { major: 1, minor: 3 }), FileKind::CharDevice));
        f.fs.link(&root(), plain, f.fs.root(), b"again").unwrap();
        for (name, value) in [(&b"user.a"[..], vec![1; 9]), (b"user.long", vec![2; 50_000])] {
            f.fs.set_xattr(&root(), plain, name, &value, SetXattr::Either).unwrap();
        }
        let check = |f: &Fixture, when: &str| {
            for (node, kind) in &all {
                let attr = f.fs.attr(*node).unwrap();
                assert_eq!(attr.kind, *kind, "version {version}, {when}");
                assert_eq!(bonus_type(f, *node), ObjectType::ZNODE, "version {version}, {when}");
                let object = f.objset.object(node.0).unwrap();
                let flags = Endian::Little.u64(&object.bonus()[0x78..]);
                assert_eq!(flags >> 32 != 0, version >= 3, "DOS flags {flags:#x} of version {version}, {when}");
                let entries = Endian::Little.u16(&object.bonus()[0xb0 + 12..]);
                assert_eq!(entries, u16::from(version >= 3), "version of the entries, version {version}, {when}");
            }
            for (target, (node, _)) in targets.iter().zip(&all[1..]) {
                assert_eq!(f.fs.read_link(*node).unwrap(), *target, "version {version}, {when}");
                let bonus = f.objset.object(node.0).unwrap().bonus().len();
                assert_eq!(bonus, LEGACY_BYTES + if target.len() <= 56 { target.len() } else { 0 });
            }
            assert_eq!(f.fs.attr(plain).unwrap().links, 2);
            assert_eq!(f.fs.get_xattr(plain, b"user.long").unwrap(), Some(vec![2; 50_000]));
            assert_eq!(&f.fs.read(plain, 0, 9000).unwrap()[..], &[7; 5000]);
            let top = Zap::open(f.objset.object(f.fs.root().0).unwrap()).unwrap();
            for entry in top.entries().unwrap() {
                let kind = DirEntryValue::unpack(entry.value.ints[0]).kind;
                assert_eq!(kind != 0, version >= 2, "entry of version {version}, {when}");
            }
        };
        check(&f, "as made");
        check(&f.crashed(), "replayed");
        f.sync();
        check(&f.reopened_cold(), "synced");
    }
}

#[test]
fn access_lists_that_are_long_are_in_objects_of_their_own() {
    for version in 1..=4 {
        let f = fixture(version);
        let node = make(&f, "a", &NewNode::Regular);
        let object_type = if version < 3 { ObjectType::OLDACL } else { ObjectType::ACL };
        f.fs.set_nfs4_acl(&root(), node, &list(1)).unwrap();
        assert_eq!(entries_object(&f, node), None);
        assert_eq!(f.crashed().fs.nfs4_acl(node).unwrap(), list(1), "version {version}, replayed");
        f.fs.set_nfs4_acl(&root(), node, &list(500)).unwrap();
        let (first, found) = entries_object(&f, node).expect("too long for the znode");
        assert_eq!(found, object_type);
        assert!(f.backing.has_unlogged(), "replay would need a number for the object");
        f.sync();
        assert_eq!(f.reopened_cold().fs.nfs4_acl(node).unwrap(), list(500), "version {version}");
        f.fs.set_nfs4_acl(&root(), node, &list(20)).unwrap();
        let (second, _) = entries_object(&f, node).expect("still too long");
        assert!(f.objset.object(first).is_err(), "the former object is leaked");
        f.sync();
        assert_eq!(f.reopened_cold().fs.nfs4_acl(node).unwrap(), list(20));
        f.fs.set_attr(&root(), node, &SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
        assert_eq!((entries_object(&f, node), f.fs.nfs4_acl_beyond_mode(node).unwrap()), (None, None));
        assert!(f.objset.object(second).is_err(), "the former object is leaked");
        f.fs.set_nfs4_acl(&root(), node, &list(500)).unwrap();
        let (third, _) = entries_object(&f, node).unwrap();
        f.fs.unlink(&root(), f.fs.root(), b"a").unwrap();
        assert!(f.objset.object(third).is_err(), "the object of a removed file is leaked");
    }
}

#[test]
fn a_file_gets_system_attributes_when_it_changes_after_an_upgrade() {
    for version in 1..=4 {
        let f = fixture(version);
        let (a, b, link) = (
            make(&f, "a", &NewNode::Regular),
            make(&f, "b", &NewNode::Regular),
            make(&f, "link", &NewNode::Symlink(b"to".to_vec())),
        );
        let device = make(&f, "null", &NewNode::CharDevice { major: 1, minor: 3 });
        f.fs.write(&root(), a, 0, b"contents").unwrap();
        f.fs.set_xattr(&root(), a, b"user.a", b"value", SetXattr::Either).unwrap();
        f.fs.set_nfs4_acl(&root(), a, &list(100)).unwrap();
        let (entries, _) = entries_object(&f, a).unwrap();
        f.sync();
        let before = f.fs.attr(a).unwrap();
        f.fs.upgrade(Version(5)).unwrap();
        assert!(f.backing.has_unlogged(), "records that follow need the upgrade");
        assert!(matches!(f.fs.upgrade(Version(4)), Err(Error::Invalid { .. })));
        f.fs.upgrade(Version(5)).unwrap();
        let made = make(&f, "made", &NewNode::Regular);
        assert_eq!(bonus_type(&f, made), ObjectType::SA);
        assert_eq!(bonus_type(&f, a), ObjectType::ZNODE);
        f.sync();

        let f = f.reopened_cold();
        assert_eq!(f.fs.version(), Version(5));
        f.fs.write(&root(), a, 8, b", more").unwrap();
        for node in [link, device] {
            f.fs.set_attr(&root(), node, &SetAttr { uid: Some(5), ..SetAttr::default() }).unwrap();
        }
        assert_eq!(bonus_type(&f, a), ObjectType::SA);
        assert_eq!(bonus_type(&f, device), ObjectType::SA);
        assert_eq!(bonus_type(&f, b), ObjectType::ZNODE, "it did not change");
        assert_eq!(bonus_type(&f, link), ObjectType::ZNODE, "OpenZFS does not convert links");
        assert!(f.objset.object(entries).is_err(), "the object with the entries is leaked");
        // Now it may have a project, and attributes among its own.
        f.fs.set_attr(&root(), b, &SetAttr { project: Some(9), ..SetAttr::default() }).unwrap();
        f.fs.set_xattr(&root(), b, b"user.b", b"packed", SetXattr::Either).unwrap();
        let check = |f: &Fixture| {
            let after = f.fs.attr(a).unwrap();
            assert_eq!((after.mode, after.uid, after.links, after.size), (before.mode, before.uid, 1, 14));
            assert_eq!((after.btime, after.generation), (before.btime, before.generation));
            assert_eq!(f.fs.nfs4_acl(a).unwrap(), list(100));
            assert_eq!(f.fs.get_xattr(a, b"user.a").unwrap(), Some(b"value".to_vec()));
            assert_eq!(&f.fs.read(a, 0, 20).unwrap()[..], b"contents, more");
            assert_eq!(f.fs.read_link(link).unwrap(), b"to");
            assert_eq!((f.fs.attr(link).unwrap().uid, f.fs.attr(device).unwrap().uid), (5, 5));
            assert_eq!(f.fs.attr(device).unwrap().rdev_minor, 3);
            assert_eq!((bonus_type(f, b), f.fs.attr(b).unwrap().project), (ObjectType::SA, 9));
            assert_eq!(f.fs.get_xattr(b, b"user.b").unwrap(), Some(b"packed".to_vec()));
        };
        check(&f);
        check(&f.crashed());
        f.sync();
        check(&f.reopened_cold());
    }
}

#[test]
fn what_a_version_lacks_is_refused_by_name() {
    for version in 1..=4 {
        let f = fixture(version);
        let node = make(&f, "a", &NewNode::Regular);
        let refused = |set: SetAttr| match f.fs.set_attr(&root(), node, &set) {
            Err(Error::Unsupported { what, .. }) => Some(what),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        };
        let btime = refused(SetAttr { btime: Some(Time::default()), ..SetAttr::default() });
        assert_eq!(btime.is_some(), version < 3, "{btime:?}");
        assert!(refused(SetAttr { project: Some(7), ..SetAttr::default() }).is_some());
        let quota = f.fs.set_quota(dataset::quota::Principal::User, 7, false, 0);
        assert_eq!(quota.err().is_some_and(|e| e.to_string().contains("before ZPL version 4")), version < 4);
    }
}

/// Entries in the form of version 1: for the owner, and for types of objects.
fn list_for_objects() -> Vec<u8> {
    let mut bytes = vec![0; 56];
    let le = Endian::Little;
    le.put_u16(&mut bytes[2..], Ace::FLAG_OWNER);
    le.put_u32(&mut bytes[4..], nfs4_acl::READ);
    le.put_u16(&mut bytes[8..], 5);
    le.put_u32(&mut bytes[12..], nfs4_acl::WRITE);
    le.put_u64(&mut bytes[16..], 1234);
    bytes[24..].fill(0xab);
    bytes
}

/// A file whose znode has this ACL header and these entries, in a file system just upgraded to
/// version 5.
fn upgraded_with(version: u64, first: u32, acl_version: u16, second: u16, entries: &[u8]) -> (Fixture, NodeId) {
    let f = fixture(version);
    let node = make(&f, "a", &NewNode::Regular);
    let object = f.objset.object(node.0).unwrap();
    let mut bonus = object.bonus().to_vec();
    let le = Endian::Little;
    bonus[0xb0..LEGACY_BYTES].fill(0);
    le.put_u32(&mut bonus[0xb8..], first);
    le.put_u16(&mut bonus[0xbc..], acl_version);
    le.put_u16(&mut bonus[0xbe..], second);
    bonus[0xc0..0xc0 + entries.len()].copy_from_slice(entries);
    let tx = f.backing.begin(Estimate { bytes: 0, frees: false }).unwrap();
    object.set_bonus(&tx, bonus).unwrap();
    drop(tx);
    f.sync();
    let f = f.reopened_cold();
    f.fs.upgrade(Version(5)).unwrap();
    f.fs.write(&root(), node, 0, b"contents").unwrap();
    f.sync();
    let f = f.reopened_cold();
    assert_eq!(&f.fs.read(node, 0, 20).unwrap()[..], b"contents");
    (f, node)
}

#[test]
fn entries_for_objects_are_carried_unchanged() {
    let bytes = list_for_objects();
    let (f, node) = upgraded_with(4, bytes.len() as u32, 1, 2, &bytes);
    assert_eq!(bonus_type(&f, node), ObjectType::SA);
    assert!(f.objset.object(node.0).unwrap().bonus().windows(bytes.len()).any(|part| part == bytes));
    let list = f.fs.acl(node).unwrap().unwrap();
    assert_eq!((list.len(), list[1].kind, list[1].who), (2, 5, Who::User(1234)));
}

#[test]
fn a_file_whose_list_cannot_be_carried_keeps_its_znode_and_can_be_written() {
    let for_objects = list_for_objects();
    let mut of_version_0 = [0; 12];
    Endian::Little.put_u16(&mut of_version_0[10..], 5);
    let cases = [
        (2, 1, 0, 0, &of_version_0[..]),   // for objects, without their types
        (4, 56, 7, 2, &for_objects[..]),   // no such version
        (4, 5000, 1, 2, &for_objects[..]), // longer than its place
        (4, 50, 1, 2, &for_objects[..50]), // ends within an entry
        (4, 56, 1, 3, &for_objects[..]),   // another count
    ];
    for (version, first, acl_version, second, entries) in cases {
        let (f, node) = upgraded_with(version, first, acl_version, second, entries);
        assert_eq!(bonus_type(&f, node), ObjectType::ZNODE);
        let bonus = f.objset.object(node.0).unwrap().bonus().to_vec();
        assert_eq!(bonus[0xc0..0xc0 + entries.len()], *entries);
        f.fs.set_attr(&root(), node, &SetAttr { uid: Some(5), ..SetAttr::default() }).unwrap();
        f.fs.set_xattr(&root(), node, b"user.a", b"value", SetXattr::Either).unwrap();
        f.fs.rename(&root(), f.fs.root(), b"a", f.fs.root(), b"b", RenameFlags::default()).unwrap();
        assert_eq!((bonus_type(&f, node), f.fs.attr(node).unwrap().uid), (ObjectType::ZNODE, 5));
        assert!(f.fs.set_attr(&root(), node, &SetAttr { project: Some(9), ..SetAttr::default() }).is_err());
        f.fs.unlink(&root(), f.fs.root(), b"b").unwrap();
    }
}

#[test]
fn an_empty_list_stays_empty() {
    for (version, acl_version) in [(2, 0), (4, 1)] {
        let (f, node) = upgraded_with(version, 0, acl_version, 0, &[]);
        assert_eq!(bonus_type(&f, node), ObjectType::SA);
        assert_eq!(f.fs.acl(node).unwrap(), Some(Vec::new()), "version {version}");
    }
}

#[test]
fn upgrades_at_once_never_lower_the_version() {
    for _ in 0..10 {
        let f = fixture(3);
        f.backing.hold_back();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| f.fs.upgrade(Version(5)).unwrap());
                scope.spawn(|| match f.fs.upgrade(Version(4)) {
                    Ok(()) | Err(Error::Invalid { .. }) => {}
                    Err(error) => panic!("{error}"),
                });
            }
            f.backing.begin_at_once(6);
        });
        f.sync();
        let f = f.reopened_cold();
        assert_eq!(f.fs.version(), Version(5));
        let made = make(&f, "made", &NewNode::Regular);
        assert_eq!(bonus_type(&f, made), ObjectType::SA);
    }
}

#[test]
fn lists_that_are_set_during_an_upgrade_are_kept() {
    for _ in 0..10 {
        let f = fixture(4);
        let nodes: Vec<_> = (0..8).map(|i| make(&f, &format!("file{i}"), &NewNode::Regular)).collect();
        for node in &nodes {
            f.fs.set_nfs4_acl(&root(), *node, &list(100)).unwrap();
        }
        f.backing.hold_back();
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| f.fs.set_nfs4_acl(&root(), *node, &list(200)).unwrap());
            }
            scope.spawn(|| f.fs.upgrade(Version(5)).unwrap());
            f.backing.begin_at_once(nodes.len() as u64 + 1);
        });
        f.sync();
        let f = f.reopened_cold();
        for node in &nodes {
            assert_eq!(f.fs.nfs4_acl(*node).unwrap(), list(200));
        }
    }
}

#[test]
fn an_upgrade_uses_the_tables_of_attributes_that_exist() {
    let f = fixture(4);
    let tx = f.backing.begin(Estimate { bytes: 0, frees: false }).unwrap();
    let master = Zap::open(f.objset.object(1).unwrap()).unwrap();
    let spec = ZapSpec::new(ObjectType::SA_MASTER_NODE);
    let tables = Zap::create_linked(&f.objset, &tx, &spec, &master, "SA_ATTRS").unwrap();
    drop(tx);
    f.sync();
    let f = f.reopened_cold();
    f.fs.upgrade(Version(5)).unwrap();
    let made = make(&f, "made", &NewNode::Regular);
    assert_eq!(bonus_type(&f, made), ObjectType::SA);
    let master = Zap::open(f.objset.object(1).unwrap()).unwrap();
    assert_eq!(master.lookup_u64("SA_ATTRS").unwrap(), tables.object().map(|o| o.id()));
}
