//! Replay of the intent log of whole pools, after a power cut that keeps all that was written:
//! nothing that an fsync acknowledged is missing, and `verify` and OpenZFS's `zdb` find nothing
//! wrong.

use crate::common::{Rig, noted, root};
use files::vfs::{NewNode, SetXattr, SyncKind, Vfs};
use files::zpl::FileSystem;

/// A log that contains clones, as OpenZFS writes it: each block has one more reference from the
/// claim until the log is freed, whether or not it is replayed.
#[test]
fn clones_in_a_log_are_claimed_and_replayed() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::Body;
    let rig = Rig::new();
    let fs = rig.make("tank/fs", &[("recordsize", "4K"), ("compression", "off")]);
    let who = root();
    let make = |name: &[u8]| fs.create(&who, fs.root(), name, &NewNode::Regular, 0o644, 0).unwrap().node;
    let source = make(b"source");
    let data: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    fs.write(&who, source, 0, &data).unwrap();
    fs.write(&who, source, 20 << 12, &data).unwrap();
    let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
    // The first commit creates the log, which takes a txg.
    live.log().commit(None).unwrap();
    rig.live().writer().sync().unwrap();
    let target = make(b"target");
    let object = live.objset().object(source.0).unwrap();
    let pointers = (0..30).map(|blkid| object.block_pointer(0, blkid).unwrap()).collect();
    let length = fs.attr(source).unwrap().size.min(30 << 12);
    let body = Body::CloneRange { object: target.0, offset: 0, length, block_bytes: 4096, pointers };
    let tx = live.begin(1 << 20).unwrap();
    live.log().record(&tx, target.0, RecordType::CLONE_RANGE, &body);
    drop(tx);
    live.log().commit(None).unwrap();

    // The source is removed as soon as the file system is mounted.
    let mut after = rig.cut();
    let again = after.mount("tank/fs");
    let target = again.lookup(again.root(), b"target").unwrap();
    let cloned = |fs: &FileSystem| fs.read(target.node, 0, 1 << 20).unwrap();
    assert_eq!(target.size, length);
    assert!(cloned(&again)[..data.len()] == data && cloned(&again)[20 << 12..] == data[..length as usize - (20 << 12)]);
    again.unlink(&who, again.root(), b"source").unwrap();
    (0..3).for_each(|_| after.live().writer().sync().unwrap());
    assert_eq!(after.live().writer().pool().unwrap().stats().unwrap().clone_saved_bytes, 0);
    assert!(cloned(&again)[..data.len()] == data);
    drop(again);
    after.export();
    after.judge();

    // Claimed, written to, not claimed a second time, and never replayed.
    let mut after = rig.cut();
    after.make("tank/other", &[]);
    let stats = after.live().writer().pool().unwrap().stats().unwrap();
    assert_eq!(stats.clone_saved_bytes, length.next_multiple_of(4096) - (10 << 12));
    after.export();
    after.open();
    dataset::write::destroy(after.live(), "tank/fs").unwrap();
    after.live().writer().sync().unwrap();
    assert_eq!(after.live().writer().pool().unwrap().stats().unwrap().clone_saved_bytes, 0);
    after.export();
    after.judge();
}

/// An ACL that grants `bits` to user `named`, in addition to the owner, group and others.
fn posix_list(bits: u16, named: u32) -> Vec<u8> {
    let entries =
        [(1u16, 6, u32::MAX), (2, bits, named), (4, 4, u32::MAX), (0x10, bits | 4, u32::MAX), (0x20, 0, u32::MAX)];
    let bytes = entries
        .iter()
        .flat_map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
    2u32.to_le_bytes().into_iter().chain(bytes).collect()
}

/// Attributes in the hidden directory were empty after setxattr, fsync and a crash: the log had
/// created their files, but the data written to them waited for a commit of the attribute file
/// itself, which no client can request.
#[test]
fn an_fsync_makes_extended_attributes_safe_in_both_forms() {
    let who = root();
    for form in ["sa", "dir"] {
        let rig = Rig::new();
        let fs = rig.make("tank/fs", &[("xattr", form)]);
        let make = |name: &[u8]| fs.create(&who, fs.root(), name, &NewNode::Regular, 0o644, 0).unwrap().node;
        // The first commit creates the log, which takes a txg.
        let old = make(b"old");
        for (name, size) in [(&b"user.shrinks"[..], 50_000), (b"user.goes", 40_000), (b"user.grows", 10)] {
            fs.set_xattr(&who, old, name, &vec![1; size], SetXattr::Either).unwrap();
        }
        fs.sync_all().unwrap();
        let new = make(b"new");
        let sizes = [1, 100, 5000, 32 << 10, (32 << 10) + 1, 64 << 10];
        for size in sizes {
            let name = format!("user.{size}");
            fs.set_xattr(&who, new, name.as_bytes(), &vec![size as u8 | 1; size], SetXattr::Either).unwrap();
        }
        fs.set_xattr(&who, old, b"user.shrinks", &[2; 7], SetXattr::Either).unwrap();
        fs.remove_xattr(&who, old, b"user.goes").unwrap();
        fs.set_xattr(&who, old, b"user.grows", &vec![3; 60_000], SetXattr::Either).unwrap();
        let before = rig.live().writer().synced_txg();
        fs.sync_node(new, SyncKind::All).unwrap();
        fs.sync_node(old, SyncKind::All).unwrap();
        assert_eq!(rig.live().writer().synced_txg(), before, "{form}: the log is enough");

        let mut after = rig.cut();
        let again = after.mount("tank/fs");
        let find = |name: &[u8]| again.lookup(again.root(), name).unwrap().node;
        let get = |node, name: &[u8]| again.get_xattr(node, name).unwrap();
        for size in sizes {
            let value = get(find(b"new"), format!("user.{size}").as_bytes());
            assert_eq!(value.as_ref().map(Vec::len), Some(size), "{form}");
            assert!(value.unwrap().iter().all(|b| *b == size as u8 | 1), "{form}: {size}");
        }
        assert_eq!(get(find(b"old"), b"user.shrinks"), Some(vec![2; 7]), "{form}");
        assert_eq!(get(find(b"old"), b"user.goes"), None, "{form}");
        assert_eq!(get(find(b"old"), b"user.grows"), Some(vec![3; 60_000]), "{form}");
        drop(again);
        after.export();
        after.judge();
    }
}

/// After a crash a file had an ACL of 0 bytes, which could be neither read nor replaced, or lacked
/// its inherited ACL, so that its group had rights that only the ACL's mask allows.
#[test]
fn an_fsync_of_another_file_leaves_no_half_of_an_access_list() {
    const ACCESS: &[u8] = b"system.posix_acl_access";
    const DEFAULT: &[u8] = b"system.posix_acl_default";
    let who = root();
    for form in ["sa", "dir"] {
        let rig = Rig::new();
        let fs = rig.make("tank/fs", &[("xattr", form), ("acltype", "posix")]);
        let make = |dir, name: &[u8]| fs.create(&who, dir, name, &NewNode::Regular, 0o664, 0o022).unwrap().node;
        let dir = fs.create(&who, fs.root(), b"dir", &NewNode::Directory, 0o755, 0).unwrap().node;
        fs.set_xattr(&who, dir, DEFAULT, &posix_list(6, 1234), SetXattr::Either).unwrap();
        let (old, other) = (make(fs.root(), b"old"), make(fs.root(), b"other"));
        fs.sync_all().unwrap();
        let new = make(dir, b"new");
        fs.create(&who, dir, b"below", &NewNode::Directory, 0o755, 0).unwrap();
        fs.set_xattr(&who, old, ACCESS, &posix_list(4, 77), SetXattr::Either).unwrap();
        fs.write(&who, other, 0, b"else").unwrap();
        fs.sync_node(other, SyncKind::All).unwrap();

        let mut after = rig.cut();
        let again = after.mount("tank/fs");
        let find = |dir, name: &[u8]| again.lookup(dir, name).unwrap().node;
        let dir = find(again.root(), b"dir");
        for (name, lists) in [(&b"new"[..], &[ACCESS][..]), (b"below", &[ACCESS, DEFAULT])] {
            for list in lists {
                let expected =
                    fs.get_xattr(fs.lookup(fs.lookup(fs.root(), b"dir").unwrap().node, name).unwrap().node, list);
                let found = again.get_xattr(find(dir, name), list).unwrap();
                assert_eq!(found, expected.unwrap(), "{form}: {}", String::from_utf8_lossy(name));
                assert!(found.is_some());
            }
        }
        assert_eq!(again.attr(find(dir, b"new")).unwrap().mode, fs.attr(new).unwrap().mode);
        let old = find(again.root(), b"old");
        match again.get_xattr(old, ACCESS).unwrap() {
            None => assert_eq!(again.attr(old).unwrap().mode, 0o644, "{form}: list and mode are one change"),
            Some(list) => assert_eq!((list, again.attr(old).unwrap().mode), (posix_list(4, 77), 0o640), "{form}"),
        }
        again.set_xattr(&who, old, ACCESS, &posix_list(2, 78), SetXattr::Either).unwrap();
        drop(again);
        after.export();
        after.judge();
    }
}

/// Giving an unnamed file its first name is not logged, so replay could not apply a later record
/// that removed that name.
#[test]
fn a_name_given_to_a_file_without_one_is_on_disk_before_records_about_it() {
    let who = root();
    let rig = Rig::new();
    let fs = rig.make("tank/fs", &[]);
    let other = fs.create(&who, fs.root(), b"other", &NewNode::Regular, 0o644, 0).unwrap().node;
    fs.sync_all().unwrap();
    let unnamed = fs.create_unnamed(&who, fs.root(), 0o600, 0).unwrap().node;
    fs.open_node(unnamed).unwrap();
    fs.link(&who, unnamed, fs.root(), b"now").unwrap();
    fs.unlink(&who, fs.root(), b"now").unwrap();
    fs.write(&who, other, 0, b"kept").unwrap();
    fs.sync_node(other, SyncKind::All).unwrap();
    let after = rig.cut();
    let again = after.mount("tank/fs");
    let other = again.lookup(again.root(), b"other").unwrap();
    assert_eq!(&again.read(other.node, 0, 9).unwrap()[..], b"kept");
    assert!(again.lookup(again.root(), b"now").is_err());
}

/// Attributes were set in a separate transaction: when that failed, the second attempt found the
/// file, and skipped the record for good.
#[test]
fn a_file_is_made_with_its_attributes_or_not_at_all_when_the_log_is_replayed() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::{Attributes, Body, Create};
    const CREATED: u32 = 1;
    const PROJECT: u32 = 0x4_0000;
    let who = root();
    for has_projects in [true, false] {
        let rig = Rig::with_features(|name| has_projects || name != "project_quota");
        let fs = rig.make("tank/fs", &[]);
        fs.create(&who, fs.root(), b"old", &NewNode::Regular, 0o644, 0).unwrap();
        fs.sync_all().unwrap();
        let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
        let mut scan_stamp = [0; 32];
        scan_stamp[0] = 7;
        let create = Create {
            directory: fs.root().0,
            object: 1000,
            slots: 1,
            mode: 0o100640,
            uid: 5,
            gid: 6,
            generation: 77,
            created: [50, 0],
            rdev: 0,
            attributes: Some(Attributes {
                mask: vec![CREATED | PROJECT, 0, 0],
                flags: 0,
                created: [40, 0],
                scan_stamp,
            }),
            acl: None,
            domains: Vec::new(),
            name: b"new",
            target: None,
        };
        let tx = live.begin(1 << 20).unwrap();
        live.log().record(&tx, 1000, RecordType::CREATE, &Body::Create(create));
        drop(tx);
        fs.sync_all().unwrap();

        let mut pool = rig.cut();
        if has_projects {
            let again = pool.mount("tank/fs");
            let attr = again.lookup(again.root(), b"new").unwrap();
            assert_eq!((attr.project, attr.btime.seconds, attr.mode & 0o777), (7, 40, 0o640));
            drop(again);
        } else {
            for _ in 0..2 {
                let live = pool.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
                let error = FileSystem::mount(&live).map(drop).unwrap_err();
                assert!(matches!(error, errors::Error::Unsupported { .. }), "{error}");
                pool.live().close(&live).unwrap();
            }
        }
        pool.export();
        pool.judge();
        let fs = pool.read("tank/fs");
        assert_eq!(fs.lookup(fs.root(), b"new").is_ok(), has_projects);
        assert_eq!(noted(&pool), 0);
    }
}

/// A log whose device disappeared after the import seemed to have no records, and was freed at
/// mount.
#[test]
fn a_claimed_log_on_a_missing_device_waits_for_it_or_is_discarded() {
    let who = root();
    let rig = Rig::with_log_device();
    let fs = rig.make("tank/fs", &[]);
    fs.create(&who, fs.root(), b"old", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();
    fs.create(&who, fs.root(), b"promised", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();
    let mount = |rig: &Rig| {
        let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
        let mounted = FileSystem::mount(&live);
        if mounted.is_err() {
            rig.live().close(&live).unwrap();
        }
        mounted
    };
    for comes_back in [true, false] {
        let mut pool = rig.cut();
        pool.live().writer().sync().unwrap();
        pool.export();
        let log = pool.devices.pop().unwrap();
        pool.open();
        for _ in 0..3 {
            let error = mount(&pool).map(drop).unwrap_err().to_string();
            assert!(error.contains("tank/fs") && error.contains("records 1 to"), "{error}");
            assert!(error.contains("\"zpool clear tank\""), "{error}");
        }
        let unread = |tree: &std::sync::Arc<dataset::Datasets>| {
            dataset::intent_log::read(&tree.dataset("tank/fs").unwrap(), None, &mut |_| {}).unwrap().unread
        };
        let found = unread(&pool.live().synced().unwrap()).expect("it ends early");
        assert!(found.claim_txg > 0 && found.record == 0 && found.last_record > Some(0), "{found:?}");
        let expected = found.last_record.unwrap();
        let text = found.to_string();
        assert!(text.contains(&format!("the last record found is 0, expected {expected}, which the import")), "{text}");
        // The replay was tried three times, and is reported once.
        let events = |pool: &Rig, name: &str| -> Vec<String> {
            pool.live().writer().sync().unwrap();
            let history = pool.live().writer().pool().unwrap().history().unwrap();
            let of_name = history.iter().filter(|e| e.get_str("internal_name") == Some(name));
            of_name.map(|e| e.get_str("history internal str").unwrap().to_owned()).collect()
        };
        let event = format!("claim_txg={} {text}", found.claim_txg);
        let reported = events(&pool, "intent log ends early");
        assert_eq!(reported.iter().filter(|e| **e == event).count(), 1, "{reported:?}");
        if !comes_back {
            assert_eq!(pool.live().discard_unread_logs().unwrap(), ["tank/fs"]);
            assert_eq!(events(&pool, "intent log records discarded"), [event]);
            assert_eq!(unread(&pool.live().synced().unwrap()), None);
            assert_eq!(pool.live().discard_unread_logs().unwrap(), [""; 0]);
            let fs = mount(&pool).unwrap();
            assert!(fs.lookup(fs.root(), b"old").is_ok() && fs.lookup(fs.root(), b"promised").is_err());
            drop(fs);
            pool.export();
            continue;
        }
        pool.export();
        pool.devices.push(log);
        pool.open();
        let fs = mount(&pool).unwrap();
        assert!(fs.lookup(fs.root(), b"promised").is_ok());
        drop(fs);
        pool.export();
        pool.judge();
    }
}

/// `zpool freeze`: what is acknowledged after it is only in the log, whatever is synced, and the
/// next import replays it. Facts: spa_freeze.
#[test]
fn a_frozen_pool_keeps_its_state_and_logs_until_it_is_imported_again() {
    let mut rig = Rig::new();
    let fs = rig.make("tank/fs", &[]);
    let who = root();
    let make = |name: &[u8]| fs.create(&who, fs.root(), name, &NewNode::Regular, 0o644, 0).unwrap().node;
    let old = make(b"old");
    let before: Vec<u8> = (0..3u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    fs.write(&who, old, 0, &before).unwrap();
    // The first commit creates the log, which takes a txg.
    fs.sync_node(old, SyncKind::Data).unwrap();
    let writer = rig.live().writer().clone();
    writer.freeze().unwrap();
    let frozen = writer.frozen_after().unwrap();
    let new = make(b"new");
    fs.write(&who, new, 5, b"logged").unwrap();
    fs.write(&who, old, 1 << 20, b"changed").unwrap();
    fs.sync_node(new, SyncKind::Data).unwrap();
    // Blocks are freed and written, again and again, and none may come in the place of an old one.
    for round in 0..8u8 {
        let scratch = make(b"scratch");
        fs.write(&who, scratch, 0, &vec![round; 8 << 20]).unwrap();
        writer.sync().unwrap();
        fs.unlink(&who, fs.root(), b"scratch").unwrap();
        writer.sync().unwrap();
    }
    // A name without an fsync is in the log when the dataset is closed.
    make(b"closed");
    assert!(writer.synced_txg() > frozen + 8);
    assert_eq!(rig.found().uberblock().txg.0, frozen);
    drop((fs, writer));
    rig.export();
    assert_eq!(rig.found().uberblock().txg.0, frozen, "it is not marked as exported");

    rig.open();
    let fs = rig.mount("tank/fs");
    let read = |name: &[u8]| fs.read(fs.lookup(fs.root(), name).unwrap().node, 0, 4 << 20).unwrap();
    assert_eq!(&read(b"new")[..], b"\0\0\0\0\0logged");
    assert!(read(b"closed").is_empty());
    let mut expected = before;
    expected[1 << 20..][..7].copy_from_slice(b"changed");
    assert!(read(b"old") == expected);
    assert!(fs.lookup(fs.root(), b"scratch").is_err());
    drop(fs);
    rig.export();
    rig.judge();
}
