//! Intent log records that cannot be replayed: which ones are skipped, how they are reported, and
//! how long their log is kept.

use crate::common::{Rig, noted, root};
use dataset::write::NewDataset;
use files::vfs::{NewNode, RenameFlags, SyncKind, Vfs};
use files::zpl::FileSystem;

/// One bad record prevented all later records from being replayed, and the log was lost.
#[test]
fn only_a_record_without_its_directory_is_skipped_and_the_log_kept_until_it_is_discarded() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::Body;
    let who = root();
    let rig = Rig::new();
    let fs = rig.make("tank/fs", &[]);
    let make = |name: &[u8]| fs.create(&who, fs.root(), name, &NewNode::Regular, 0o644, 0).unwrap().node;
    let old = make(b"old");
    fs.sync_all().unwrap();
    let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
    let before = make(b"before");
    fs.write(&who, before, 0, b"before").unwrap();
    let tx = live.begin(1 << 20).unwrap();
    let body = Body::Remove { directory: 77_777, name: b"lost" };
    live.log().record(&tx, 77_778, RecordType::REMOVE, &body);
    drop(tx);
    let after = make(b"after");
    fs.write(&who, after, 0, b"after").unwrap();
    fs.rename(&who, fs.root(), b"old", fs.root(), b"moved", RenameFlags::default()).unwrap();
    fs.write(&who, old, 0, b"moved").unwrap();
    fs.sync_all().unwrap();

    let listed = |rig: &Rig| {
        let tree = dataset::Datasets::open(rig.found()).unwrap();
        let mut skipped = Vec::new();
        dataset::intent_log::read(&tree.dataset("tank/fs").unwrap(), None, &mut |e| {
            skipped.extend(e.skipped.map(|why| (e.record.unwrap().kind.name(), why)));
        })
        .unwrap();
        skipped
    };
    let mut pool = rig.cut();
    let expected = |pool: &Rig, fs: &FileSystem| {
        for (name, contents) in [(&b"before"[..], &b"before"[..]), (b"after", b"after"), (b"moved", b"moved")] {
            let file = fs.lookup(fs.root(), name).unwrap();
            assert_eq!(&fs.read(file.node, 0, 99).unwrap()[..], contents);
        }
        assert!(pool.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap().log().is_kept());
    };
    // The missing directory is reported before the log is replayed.
    let would = listed(&pool);
    assert!(would.len() == 1 && would[0].1.contains("directory 77777 is missing"), "{would:?}");
    let again = pool.mount("tank/fs");
    expected(&pool, &again);
    // An fsync now waits for a txg, which gives the same guarantee.
    let late = again.create(&who, again.root(), b"late", &NewNode::Regular, 0o644, 0).unwrap().node;
    again.sync_node(late, SyncKind::All).unwrap();
    drop(again);
    pool.export();
    pool.judge();
    let skipped = listed(&pool);
    assert!(skipped.len() == 1 && skipped[0].0 == "TX_REMOVE", "{skipped:?}");
    assert!(skipped[0].1.contains("\"lost\" in directory 77777"), "{skipped:?}");
    let history = pool.found().history().unwrap();
    assert!(history.iter().any(|e| e.get_str("internal_name") == Some("intent log record skipped")));

    // The log survives exports, whether or not it is open when it is discarded.
    for is_open in [true, false] {
        let mut pool = pool.cut();
        let again = is_open.then(|| pool.mount("tank/fs"));
        if let Some(again) = &again {
            expected(&pool, again);
            assert!(again.lookup(again.root(), b"late").is_ok());
        }
        assert_eq!(pool.live().discard_kept_logs().unwrap(), ["tank/fs"]);
        assert_eq!(pool.live().discard_kept_logs().unwrap(), [""; 0]);
        drop(again);
        pool.export();
        pool.judge();
        assert_eq!(listed(&pool), []);
        pool.open();
        let again = pool.mount("tank/fs");
        assert!(!pool.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap().log().is_kept());
        drop(again);
        pool.export();
    }
    // It can also be destroyed together with its file system.
    pool.open();
    dataset::write::destroy(pool.live(), "tank/fs").unwrap();
    pool.export();
    pool.judge();
}

/// Each record had its own event in the history, and took a txg or two.
#[test]
fn thousands_of_records_that_cannot_be_replayed_leave_few_events_and_cost_few_txgs() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::Body;
    const GROUPS: u64 = 300;
    const RECORDS: u64 = 10 * GROUPS;
    let who = root();
    let rig = Rig::new();
    let fs = rig.make("tank/fs", &[]);
    let old = |group: u64| format!("old {group}").into_bytes();
    for group in 0..GROUPS {
        fs.create(&who, fs.root(), &old(group), &NewNode::Regular, 0o644, 0).unwrap();
    }
    // The first sync waits for the txg that contains the files and the head of the log.
    fs.sync_all().unwrap();
    let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
    for group in 0..GROUPS {
        let tx = live.begin(16 << 10).unwrap();
        for n in 0..10 {
            let name = format!("{group} {n}");
            let body = Body::Remove { directory: 77_777, name: name.as_bytes() };
            live.log().record(&tx, 77_778, RecordType::REMOVE, &body);
        }
        drop(tx);
        // The skipped record numbers do not form a single range.
        fs.unlink(&who, fs.root(), &old(group)).unwrap();
    }
    fs.create(&who, fs.root(), b"after", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();

    let mut pool = rig.cut();
    let before = pool.live().writer().synced_txg();
    let again = pool.mount("tank/fs");
    let txgs = pool.live().writer().synced_txg() - before;
    // The removals need some txgs.
    assert!(txgs <= 10, "{txgs} txgs");
    assert!(pool.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap().log().is_kept());
    assert!(again.lookup(again.root(), b"after").is_ok());
    drop(again);
    pool.export();
    pool.judge();
    let history = pool.found().history().unwrap();
    let events = history.iter().filter(|e| e.get_str("internal_name") == Some("intent log record skipped")).count();
    assert!(events as u64 <= dataset::intent_log::NAMED_MAX as u64 + txgs, "{events} events, {txgs} txgs");
    assert!(noted(&pool) > 1, "they have no room in one entry");
    // Every skipped record is still known.
    let tree = dataset::Datasets::open(pool.found()).unwrap();
    let mut skipped = 0;
    dataset::intent_log::read(&tree.dataset("tank/fs").unwrap(), None, &mut |e| {
        skipped += u64::from(e.skipped.is_some());
    })
    .unwrap();
    assert_eq!(skipped, RECORDS);
}

/// Skipped records were recorded only in the history, which is a ring: once it had wrapped, the log
/// was freed as if it had been replayed completely.
#[test]
fn a_log_with_skipped_records_is_kept_after_the_history_forgot_them() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::Body;
    let who = root();
    let rig = Rig::new();
    let fs = rig.make("tank/fs", &[]);
    fs.create(&who, fs.root(), b"old", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();
    let live = rig.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap();
    let body = Body::Remove { directory: 77_777, name: b"lost" };
    live.log().record(&live.begin(1 << 20).unwrap(), 77_778, RecordType::REMOVE, &body);
    fs.create(&who, fs.root(), b"after", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();

    let mut pool = rig.cut();
    // Everything up to the first command is never overwritten.
    pool.live().writer().task(|sync| sync.history_command("zpool create tank disk")).unwrap();
    drop(pool.mount("tank/fs"));
    let text = "x".repeat(10_000);
    pool.live().writer().task(move |sync| (0..60).try_for_each(|_| sync.history_command(&text))).unwrap();
    let found = pool.live().writer().pool().unwrap();
    let history = found.history().unwrap();
    assert!(!history.iter().any(|e| e.get_str("internal_name") == Some("intent log record skipped")));
    // A partial read returns the end of the history.
    let newest = found.newest_history(40_000).unwrap();
    assert!(newest.len() > 3 && newest.len() < history.len());
    assert_eq!(newest.last(), history.last());
    drop(found);
    pool.export();
    pool.judge();
    assert_eq!(noted(&pool), 1);
    pool.open();
    let again = pool.mount("tank/fs");
    assert!(pool.live().open("tank/fs", Some(files::zpl::owners_of)).unwrap().log().is_kept());
    assert!(again.lookup(again.root(), b"after").is_ok());
    drop(again);
    assert_eq!(pool.live().discard_kept_logs().unwrap(), ["tank/fs"]);
    pool.export();
    pool.judge();
    assert_eq!(noted(&pool), 0);
}

/// Skipped records were written to the history, which is not encrypted, together with the file
/// names.
#[test]
fn skipped_records_of_an_encrypted_dataset_are_reported_without_names() {
    use ondisk::zil::RecordType;
    use ondisk::zil::record::Body;
    let who = root();
    let rig = Rig::new();
    let key = vec![7; 32];
    let properties = [("encryption", "on"), ("keyformat", "raw")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    let key_of_new = Some(key.clone().into());
    let new = NewDataset { name: "tank/secret".into(), properties, key: key_of_new, ..NewDataset::default() };
    dataset::write::create(rig.live(), &new, files::zpl::MAKER).unwrap();
    let fs = rig.mount("tank/secret");
    fs.create(&who, fs.root(), b"old", &NewNode::Regular, 0o644, 0).unwrap();
    fs.sync_all().unwrap();
    let live = rig.live().open("tank/secret", Some(files::zpl::owners_of)).unwrap();
    // One fails because the name is missing, the other because its directory is.
    for directory in [fs.root().0, 77_777] {
        let body = Body::Remove { directory, name: b"confidential" };
        live.log().record(&live.begin(1 << 20).unwrap(), 77_778, RecordType::REMOVE, &body);
    }
    fs.sync_all().unwrap();

    let mut pool = rig.cut();
    let tree = pool.live().synced().unwrap();
    pool.live().keys().load(&tree.dataset("tank/secret").unwrap(), &key).unwrap();
    drop(pool.mount("tank/secret"));
    pool.export();
    pool.judge();
    let history = pool.found().history().unwrap();
    let is_skipped = |e: &&ondisk::nvlist::Nvlist| e.get_str("internal_name") == Some("intent log record skipped");
    let texts: Vec<_> = history.iter().filter(is_skipped).filter_map(|e| e.get_str("history internal str")).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.iter().all(|t| t.contains("TX_REMOVE") && !t.contains("confidential")), "{texts:?}");
}
