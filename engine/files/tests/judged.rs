//! Whole pools that contain files: read back by our own reader, and checked by `verify` and by
//! OpenZFS's `zdb` if it is installed.

mod rig;

use dataset::write::NewDataset;
use files::vfs::{Caller, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, SyncKind, Vfs};
use files::zpl::FileSystem;
use rig::{Rig, root, told};

/// Populates a file system with some of everything.
fn populate(fs: &FileSystem) {
    populate_in(fs, fs.root());
}

fn populate_in(fs: &FileSystem, top: NodeId) {
    let who = root();
    let make = |dir, name: &str, new: NewNode, mode| fs.create(&who, dir, name.as_bytes(), &new, mode, 0).unwrap().node;
    let d = make(top, "d", NewNode::Directory, 0o755);
    let many = make(top, "many", NewNode::Directory, 0o750);
    for i in 0..1500 {
        let file = make(many, &format!("file with a name of some length, number {i}"), NewNode::Regular, 0o644);
        fs.write(&who, file, 0, format!("contents {i}").as_bytes()).unwrap();
        if i % 3 == 0 {
            fs.unlink(&who, many, format!("file with a name of some length, number {i}").as_bytes()).unwrap();
        }
    }
    make(d, "short", NewNode::Symlink(b"../target".to_vec()), 0o777);
    make(d, "long", NewNode::Symlink(vec![b'l'; 900]), 0o777);
    make(d, "fifo", NewNode::Fifo, 0o600);
    make(d, "null", NewNode::CharDevice { major: 1, minor: 3 }, 0o666);
    let big = make(top, "big", NewNode::Regular, 0o604);
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (i, piece) in data.chunks(70_001).enumerate() {
        fs.write(&who, big, i as u64 * 70_001, piece).unwrap();
    }
    let sparse = make(top, "sparse", NewNode::Regular, 0o644);
    fs.write(&who, sparse, 1 << 40, b"far out").unwrap();
    fs.write(&who, sparse, 5 << 20, &data[..300_000]).unwrap();
    let cut = make(top, "cut", NewNode::Regular, 0o644);
    fs.write(&who, cut, 0, &data).unwrap();
    fs.set_attr(&who, cut, &SetAttr { size: Some(150_000), uid: Some(1000), gid: Some(100), ..SetAttr::default() })
        .unwrap();
    for (name, len) in [("user.small", 10), ("user.medium", 5000), ("security.large", 60_000)] {
        for node in [cut, d] {
            match fs.set_xattr(&who, node, name.as_bytes(), &data[..len], SetXattr::Either) {
                // xattr=off
                Err(files::Error::Unsupported { .. }) => {}
                other => other.unwrap(),
            }
        }
    }
    let project = SetAttr { project: Some(7), project_inherit: Some(true), ..SetAttr::default() };
    match fs.set_attr(&who, d, &project) {
        // Old pools have no projects.
        Err(files::Error::Unsupported { .. }) => {}
        other => assert_eq!(other.unwrap().project, 7),
    }
    make(d, "of the project", NewNode::Regular, 0o644);
    fs.link(&who, big, top, b"bigger").unwrap();
    fs.rename(&who, top, b"big", many, b"moved", RenameFlags::default()).unwrap();
    fs.rename(&who, many, b"moved", top, b"bigger", RenameFlags::default()).unwrap();
    let deep = (0..20).fold(top, |dir, i| make(dir, &format!("deep{i}"), NewNode::Directory, 0o755));
    make(deep, "leaf", NewNode::Regular, 0o400);
}

#[test]
fn what_was_written_is_read_back_and_openzfs_finds_nothing_wrong() {
    let mut rig = Rig::new();
    let kinds: [(&str, &[(&str, &str)]); 5] = [
        ("tank/plain", &[]),
        ("tank/posix", &[("acltype", "posix"), ("xattr", "dir"), ("recordsize", "4K"), ("compression", "off")]),
        ("tank/large", &[("dnodesize", "auto"), ("recordsize", "1M"), ("compression", "zstd"), ("longname", "on")]),
        ("tank/folded", &[("casesensitivity", "insensitive"), ("normalization", "formD")]),
        ("tank/large16", &[("dnodesize", "16k"), ("xattr", "sa"), ("acltype", "posix")]),
    ];
    let mut tales = Vec::new();
    for (name, properties) in kinds {
        let fs = rig.make(name, properties);
        populate(&fs);
        let long = fs.create(&root(), fs.root(), &[b'L'; 700], &NewNode::Regular, 0o644, 0).map(|_| ());
        assert_eq!(long.is_ok(), name == "tank/large", "{long:?}");
        let before = told(&*fs);
        rig.live().writer().sync().unwrap();
        assert!(told(&*fs) == before, "{name} after a sync");
        // Again, now over what is already on disk.
        let top = fs.root();
        let many = fs.lookup(top, b"many").unwrap().node;
        for i in (1..1500).step_by(3) {
            let name = format!("file with a name of some length, number {i}");
            fs.unlink(&root(), many, name.as_bytes()).unwrap();
        }
        let cut = fs.lookup(top, b"cut").unwrap().node;
        fs.set_attr(&root(), cut, &SetAttr { size: Some(10), ..SetAttr::default() }).unwrap();
        fs.remove_xattr(&root(), cut, b"security.large").unwrap();
        tales.push((name, told(&*fs)));
    }
    rig.export();
    rig.judge();
    for (name, tale) in &tales {
        let read = told(&*rig.read(name));
        for (a, b) in read.lines().zip(tale.lines()) {
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(read.len(), tale.len(), "{name}");
    }
    rig.open();
    for (name, tale) in &tales {
        let fs = rig.mount(name);
        assert!(told(&*fs) == *tale, "{name} opened again");
        let many = fs.lookup(fs.root(), b"many").unwrap().node;
        fs.rename(&root(), fs.root(), b"bigger", many, b"back", RenameFlags::default()).unwrap();
    }
    rig.export();
    rig.judge();
}

#[test]
fn a_new_file_system_is_what_the_kernel_makes() {
    let mut rig = Rig::new();
    rig.make("tank/new", &[]);
    rig.export();
    let Some(text) = rig.zdb(&["-dddd", "tank/new", "1", "32", "33", "34", "35", "36"]) else { return };
    for line in [
        "DELETE_QUEUE = 33",
        "normalization = 0",
        "casesensitivity = 0",
        "utf8only = 0",
        "VERSION = 5",
        "ROOT = 34",
        "SA_ATTRS = 32",
        "REGISTRY = 35",
        "LAYOUTS = 36",
        "176   bonus  System attributes",
        "mode	40755",
        "pflags	840800000144",
        "microzap: 512 bytes, 7 entries",
        "ZPL_PROJID =  8000015 : [8:0:21]",
        "ZPL_DACL_ACES =  40013 : [0:4:19]",
        "2 = [ 5  6  4  12  13  7  11  0  1  2  3  8  21  16  19 ]",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn pools_of_openzfs_are_written_on() {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES") else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked images");
        return;
    };
    let picked = std::env::var("WEIR_SCENARIO").ok();
    let mut written = 0;
    for scenario in
        ["everything", "history", "mirror3", "no-features", "version28", "stripe-and-mirror", "hybrid", "zpl"]
    {
        let devices = std::path::Path::new(&folder).join(scenario);
        if picked.as_ref().is_some_and(|p| p != scenario) || !devices.exists() {
            continue;
        }
        let mut rig = match Rig::of_openzfs(&devices) {
            Ok(rig) => rig,
            Err(e) => {
                println!("{scenario}: {e}");
                continue;
            }
        };
        let tree = rig.live().synced().unwrap();
        let heads = tree.list(&[], &dataset::ListOptions::heads()).unwrap();
        let mut tales = Vec::new();
        for head in heads.entries.iter().filter_map(|e| e.dataset()) {
            if head.kind().unwrap() != dataset::DatasetKind::FileSystem {
                continue;
            }
            let name = head.name().to_owned();
            let live = match rig.live().open(&name, Some(files::zpl::owners_of)) {
                Ok(live) => live,
                Err(e) => {
                    println!("{name}: {e}");
                    continue;
                }
            };
            let fs = match FileSystem::mount(&live) {
                Ok(fs) => fs,
                Err(e) => {
                    println!("{e}");
                    continue;
                }
            };
            let top = match fs.create(&root(), fs.root(), b"of weir", &NewNode::Directory, 0o755, 0) {
                Ok(made) => made.node,
                Err(e) => {
                    println!("{name}: {e}");
                    continue;
                }
            };
            populate_in(&fs, top);
            tales.push((name, told(&*fs), fs.options().clone()));
        }
        written += tales.len();
        rig.export();
        rig.judge();
        for (name, tale, options) in &tales {
            let read = told(&*rig.read_as(name, options.clone()));
            for (a, b) in read.lines().zip(tale.lines()) {
                assert_eq!(a, b, "{name}");
            }
        }
        println!("{scenario}: {} datasets", tales.len());
    }
    assert!(written > 0 || picked.is_some());
}

#[test]
fn quotas_of_users_and_projects_hold_once_a_txg_has_counted() {
    use dataset::Principal;
    use files::Refusal;
    let mut rig = Rig::new();
    let fs = rig.make("tank/q", &[("compression", "off")]);
    let user = Caller { uid: 1000, gid: 100, ..Caller::default() };
    let make = |name: &str| fs.create(&user, fs.root(), name.as_bytes(), &NewNode::Regular, 0o644, 0);
    fs.set_quota(Principal::User, 1000, false, 300_000).unwrap();
    fs.set_quota(Principal::Group, 100, true, 2).unwrap();
    let file = make("a").unwrap().node;
    let write = |offset| fs.write(&user, file, offset, &[5; 150_000]).map_err(|e| e.refusal());
    write(0).unwrap();
    rig.live().writer().sync().unwrap();
    write(150_000).unwrap();
    rig.live().writer().sync().unwrap();
    assert_eq!(write(0), Err(Some(Refusal::QuotaExceeded)));
    fs.set_quota(Principal::User, 1000, false, 0).unwrap();
    write(0).unwrap();
    make("b").unwrap();
    rig.live().writer().sync().unwrap();
    assert_eq!(make("c").unwrap_err().refusal(), Some(Refusal::QuotaExceeded));
    // Changing the group of a file makes room.
    fs.set_attr(&root(), file, &SetAttr { gid: Some(101), ..SetAttr::default() }).unwrap();
    rig.live().writer().sync().unwrap();
    make("c").unwrap();
    rig.export();
    rig.judge();
}

#[test]
fn times_of_reading_are_stored_with_the_next_txg_though_nobody_closes_the_file() {
    // Reads like NFSv3, which opens and closes nothing.
    let mut rig = Rig::new();
    let fs = rig.make("tank/a", &[]);
    let (who, top) = (root(), fs.root());
    let files: Vec<_> = (0..50)
        .map(|i| fs.create(&who, top, format!("f{i}").as_bytes(), &NewNode::Regular, 0o644, 0).unwrap().node)
        .collect();
    rig.live().writer().sync().unwrap();
    // The file clock advances in ticks of milliseconds: the access and the creation must not share
    // one.
    let read_later = |node| {
        let before = fs.attr(node).unwrap();
        while fs.attr(node).unwrap().atime <= before.atime.max(before.mtime).max(before.ctime) {
            std::thread::sleep(std::time::Duration::from_millis(1));
            fs.accessed(node);
        }
        fs.attr(node).unwrap().atime
    };
    let read: Vec<_> = files.iter().map(|node| read_later(*node)).collect();
    rig.live().writer().sync().unwrap();
    let stored = rig.read("tank/a");
    for (node, atime) in files.iter().zip(&read) {
        let found = stored.attr(*node).unwrap();
        assert!(found.atime == *atime && found.atime > found.mtime, "{found:?}, expected {atime:?}");
    }
    // The most recent access times are stored when the file system is closed.
    fs.set_attr(&who, files[0], &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    let atime = read_later(files[0]);
    assert_ne!(atime, read[0]);
    rig.export();
    assert_eq!(rig.read("tank/a").attr(files[0]).unwrap().atime, atime);
    rig.judge();
}

/// More access times than fit in one txg. Those that did not fit were lost when the file system was
/// closed, and all of them were lost if nothing else held it open.
#[test]
fn every_time_of_reading_is_stored_before_the_file_system_is_closed() {
    const FILES: usize = 10_500;
    let mut rig = Rig::new();
    let fs = rig.make("tank/a", &[("relatime", "off")]);
    let (who, top) = (root(), fs.root());
    let files: Vec<_> = (0..FILES)
        .map(|i| fs.create(&who, top, format!("f{i}").as_bytes(), &NewNode::Regular, 0o644, 0).unwrap().node)
        .collect();
    rig.live().writer().sync().unwrap();
    let read_all = || {
        // The file clock advances in ticks of milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        files.iter().for_each(|node| fs.accessed(*node));
        files.iter().map(|node| fs.attr(*node).unwrap().atime).collect::<Vec<_>>()
    };
    let stored = |rig: &Rig| {
        let found = rig.read("tank/a");
        files.iter().map(|node| found.attr(*node).unwrap().atime).collect::<Vec<_>>()
    };
    // Access times that do not fit in one txg are stored in the next one, which needs no request.
    let first = read_all();
    rig.live().writer().sync().unwrap();
    let txg = rig.live().writer().synced_txg();
    let began = std::time::Instant::now();
    while rig.live().writer().synced_txg() == txg && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(stored(&rig) == first, "after the next txg");
    let second = read_all();
    assert!(second.iter().zip(&first).all(|(second, first)| second > first));
    drop(fs);
    rig.export();
    assert!(stored(&rig) == second, "after the export");
    rig.judge();
}

/// The access time was stored on close, like any change, so closing waited for txgs while the
/// dataset was full, or failed.
#[test]
fn closing_a_file_that_was_read_waits_for_nothing_where_the_quota_is_used_up() {
    let mut rig = Rig::new();
    let fs = rig.make("tank/a", &[("relatime", "off"), ("refquota", "2M"), ("compression", "off")]);
    let (who, top) = (root(), fs.root());
    let make = |name: &[u8]| fs.create(&who, top, name, &NewNode::Regular, 0o644, 0).unwrap().node;
    let (read, full) = (make(b"read"), make(b"full"));
    rig.live().writer().sync().unwrap();
    let mut at = 0;
    while fs.write(&who, full, at, &[7; 64 << 10]).is_ok() {
        at += 64 << 10;
    }
    // Space is reserved in the open txg.
    fs.set_attr(&who, full, &SetAttr { size: Some(at - 1), ..SetAttr::default() }).unwrap();
    let txg = rig.live().writer().synced_txg();
    fs.open_node(read).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs.accessed(read);
    let atime = fs.attr(read).unwrap().atime;
    fs.close_node(read);
    assert_eq!(rig.live().writer().synced_txg(), txg, "nothing was waited for");
    assert_eq!(fs.attr(read).unwrap().atime, atime);
    // It is stored once there is room.
    fs.unlink(&who, top, b"full").unwrap();
    drop(fs);
    rig.export();
    assert_eq!(rig.read("tank/a").attr(read).unwrap().atime, atime);
    rig.judge();
}

#[test]
fn writes_from_the_cache_of_a_kernel_leave_the_times_to_it() {
    let rig = Rig::new();
    let fs = rig.make("tank/a", &[]);
    let who = root();
    let node = fs.create(&who, fs.root(), b"f", &NewNode::Regular, 0o644, 0).unwrap().node;
    let time = files::vfs::SetTime::To(files::vfs::Time { seconds: 1_000_000, nanoseconds: 7 });
    fs.set_attr(&who, node, &SetAttr { mtime: Some(time), ctime: Some(time), ..SetAttr::default() }).unwrap();
    fs.sync_node(node, files::vfs::SyncKind::All).unwrap();
    let before = fs.attr(node).unwrap();
    fs.write_cached(&who, node, 0, b"written before, and kept").unwrap();
    let after = fs.attr(node).unwrap();
    assert_eq!((after.size, after.mtime, after.ctime), (24, before.mtime, before.ctime));
    // Log replay does not change the modification time either.
    fs.sync_node(node, files::vfs::SyncKind::All).unwrap();
    let cut = rig.cut();
    let fs = cut.mount("tank/a");
    assert_eq!(&fs.read(node, 0, 100).unwrap()[..], b"written before, and kept");
    assert_eq!(fs.attr(node).unwrap().mtime, before.mtime);
}

/// CCM encrypts less than 16 MiB at once: syncing an incompressible record failed, and suspended
/// the pool.
#[test]
fn records_of_16_mib_do_not_suspend_a_pool_that_is_encrypted_with_ccm() {
    let mut rig = Rig::new();
    let create = |name: &str, property: (&str, &str), is_volume: bool| {
        let secret = [("encryption", "aes-256-ccm"), ("keyformat", "passphrase"), ("pbkdf2iters", "100000"), property];
        let properties = secret.iter().chain(is_volume.then_some(&("volsize", "32M")));
        let new = dataset::write::NewDataset {
            name: name.into(),
            properties: properties.map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            key: Some(b"correct horse".to_vec().into()),
            is_volume,
            ..Default::default()
        };
        dataset::write::create(rig.live(), &new, files::zpl::MAKER)
    };
    create("tank/secret", ("recordsize", "16M"), false).unwrap();
    let fs = rig.mount("tank/secret");
    let file = fs.create(&root(), fs.root(), b"f", &NewNode::Regular, 0o644, 0).unwrap().node;
    let data: Vec<u8> = (0..20u32 << 18).flat_map(|i| (i.wrapping_mul(2_654_435_761) ^ i << 7).to_le_bytes()).collect();
    fs.write(&root(), file, 0, &data).unwrap();
    rig.live().writer().sync().unwrap();
    assert_eq!(fs.attr(file).unwrap().block_bytes, 8 << 20);
    let refused = create("tank/volume", ("volblocksize", "16M"), true).unwrap_err().to_string();
    assert!(refused.contains("blocks of 16777216 bytes and aes-256-ccm"), "{refused}");
    assert!(fs.read(file, 0, data.len()).unwrap()[..] == data[..]);
    drop(fs);
    rig.export();
    rig.judge();
}

#[test]
fn a_full_file_system_can_be_emptied() {
    use files::Refusal;
    let mut rig = Rig::new();
    let fs = rig.make("tank/full", &[("compression", "off"), ("quota", "20M")]);
    let (who, top) = (root(), fs.root());
    let block = vec![9; 1 << 20];
    let mut files = Vec::new();
    let why = loop {
        let name = format!("f{}", files.len());
        let made = fs.create(&who, top, name.as_bytes(), &NewNode::Regular, 0o644, 0);
        let full = made.and_then(|file| {
            files.push((name, file.node));
            (0..3).try_for_each(|i| fs.write(&who, file.node, i << 20, &block))
        });
        if let Err(e) = full {
            break e.refusal();
        }
        assert!(files.len() < 30, "the quota does not hold");
    };
    assert!(matches!(why, Some(Refusal::QuotaExceeded | Refusal::NoSpace)), "{why:?}");
    let (cut, kept) = (files.len() / 2, files[0].1);
    for (name, _) in files.split_off(cut) {
        fs.unlink(&who, top, name.as_bytes()).unwrap();
    }
    fs.set_attr(&who, files[1].1, &SetAttr { size: Some(10), ..SetAttr::default() }).unwrap();
    assert_eq!(fs.read(kept, 0, 1 << 20).unwrap(), block);
    rig.live().writer().sync().unwrap();
    rig.live().writer().sync().unwrap();
    fs.write(&who, files[1].1, 0, &block).unwrap();
    rig.export();
    rig.judge();
}

/// Files whose blocks are cloned, changed, truncated and removed in random order: the pool stays
/// consistent, and in the end all space is free again.
#[test]
fn cloned_blocks_are_counted_until_their_last_use_goes() {
    let mut rig = Rig::new();
    let record = 8192u64;
    let mut seed = 0x5eed_u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let fs = rig.make("tank/clones", &[("recordsize", "8K"), ("compression", "off")]);
    rig.live().writer().sync().unwrap();
    let allocated = |rig: &Rig| rig.live().writer().pool().unwrap().stats().unwrap().allocated_bytes;
    let before = allocated(&rig);
    let who = root();
    let mut fs = fs;
    let mut cloned = 0;
    for round in 0..4u64 {
        let top = fs.root();
        let mut files = Vec::new();
        fs.read_dir(top, 2, &mut |e| {
            files.push((e.name, e.node));
            true
        })
        .unwrap();
        while files.len() < 6 {
            let name = format!("f{round}-{}", files.len()).into_bytes();
            let node = fs.create(&who, top, &name, &NewNode::Regular, 0o644, 0).unwrap().node;
            let data: Vec<u8> = (0..40 * record).map(|i| (i.wrapping_mul(2_654_435_761 + round) >> 11) as u8).collect();
            fs.write(&who, node, 0, &data[..(below(40) * record + 1 + below(record)) as usize]).unwrap();
            files.push((name, node));
        }
        for _ in 0..60 {
            rig.live().writer().sync().unwrap();
            for _ in 0..4 {
                let (a, b) = (below(files.len() as u64) as usize, below(files.len() as u64) as usize);
                let (from, to, len) = (below(30) * record, below(30) * record, (1 + below(12)) * record);
                let target = files[b].1;
                let size = fs.attr(target).unwrap().size;
                match below(8) {
                    0..=4 if a != b => {
                        let expected = fs.read(files[a].1, from, len as usize).unwrap();
                        let done = fs.copy_range(&who, files[a].1, from, target, to, len).unwrap();
                        assert_eq!(done, expected.len() as u64);
                        assert!(fs.read(target, to, expected.len()).unwrap() == expected);
                        cloned += done;
                    }
                    5 => {
                        fs.write(&who, target, to + below(record), &vec![round as u8; below(20_000) as usize]).unwrap()
                    }
                    6 => fs
                        .set_attr(&who, target, &SetAttr { size: Some(below(size + 1)), ..SetAttr::default() })
                        .map(|_| ())
                        .unwrap(),
                    _ => fs.allocate(&who, target, files::vfs::Allocate::Punch, to, len).unwrap(),
                }
            }
        }
        let name = format!("tank/clones@{round}");
        dataset::write::snapshot(rig.live(), &[name], &[]).unwrap();
        let (name, _) = files.swap_remove(below(files.len() as u64) as usize);
        fs.unlink(&who, top, &name).unwrap();
        let tale = told(&*fs);
        drop(fs);
        let store = std::sync::Arc::downgrade(rig.live().writer().store());
        rig.export();
        // Clone tables are read through the store that queries them: they once kept all of an
        // exported pool in memory.
        assert!(store.upgrade().is_none(), "an exported pool is still in memory");
        rig.judge();
        assert!(told(&*rig.read("tank/clones")) == tale);
        rig.open();
        fs = rig.mount("tank/clones");
    }
    assert!(cloned > 0 && rig.live().writer().pool().unwrap().stats().unwrap().clone_saved_bytes > 0);
    for round in [2, 0, 3, 1] {
        dataset::write::destroy_snapshots(rig.live(), &[format!("tank/clones@{round}")], false).unwrap();
    }
    let mut names = Vec::new();
    fs.read_dir(fs.root(), 2, &mut |e| {
        names.push(e.name);
        true
    })
    .unwrap();
    for name in names {
        fs.unlink(&who, fs.root(), &name).unwrap();
    }
    for _ in 0..4 {
        rig.live().writer().sync().unwrap();
    }
    let stats = rig.live().writer().pool().unwrap().stats().unwrap();
    assert_eq!((stats.clone_used_bytes, stats.clone_saved_bytes), (0, 0));
    // The remaining difference is history and space maps.
    assert!(allocated(&rig) < before + (2 << 20), "{before} then, {} now", allocated(&rig));
    drop(fs);
    rig.export();
    rig.judge();
    assert_eq!(rig.found().features().count("com.fudosecurity:block_cloning"), Some(0));
}

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

/// An ACL that grants `bits` to user `named`, beside the owner, group and others.
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

/// One bad record prevented all later records from being replayed, and the log was lost.
#[test]
fn a_record_without_its_directory_is_skipped_alone_and_the_log_kept_until_it_is_discarded() {
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

/// Number of entries in the pool's object directory that record which log records were skipped.
fn noted(rig: &Rig) -> usize {
    let entries = rig.found().directory().entries().unwrap();
    entries.iter().filter(|e| e.name.starts_with(b"weir:")).count()
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
                assert!(matches!(error, files::Error::Unsupported { .. }), "{error}");
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
fn a_claimed_log_whose_device_is_missing_waits_for_it_or_for_someone_who_discards_it() {
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
        for _ in 0..2 {
            let error = mount(&pool).map(drop).unwrap_err().to_string();
            assert!(error.contains("tank/fs") && error.contains("records 1 to"), "{error}");
            assert!(error.contains("\"zpool clear tank\""), "{error}");
        }
        if !comes_back {
            assert_eq!(pool.live().discard_unread_logs().unwrap(), ["tank/fs"]);
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
