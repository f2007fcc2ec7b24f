//! Pools that change shape: a checkpoint is created, discarded and rewound to. After each step
//! OpenZFS's `zdb` finds every block, no leaks, and correct feature counts.

use crate::common::{Rig, layout, new_file, options};
use dataset::{KeyStore, LiveDataset, LiveDatasets};
use errors::{Error, Result};
use host::device::{Device, MemoryDevice};
use pool::writer::{NewDevices, NewVdev};
use pool::{OpenOptions, Writer, search_devices};
use rig::noise;
use std::path::PathBuf;
use std::sync::Arc;

const BLOCK: u64 = 128 << 10;

/// Files of random data in one file system.
struct Files {
    live: Arc<LiveDataset>,
    /// Object number, and seed of its contents.
    all: Vec<(u64, u64)>,
    next_seed: u64,
}

impl Files {
    fn new(rig: &Rig) -> Self {
        rig.create("tank/a", &[]).unwrap();
        Self { live: rig.open("tank/a"), all: Vec::new(), next_seed: 1 }
    }

    /// Adds a file, in a txg of its own.
    fn put(&mut self, rig: &Rig) {
        self.next_seed += 1;
        let seed = self.next_seed;
        let id = {
            let tx = self.live.begin(8 * BLOCK).unwrap();
            let id = new_file(self.live.objset(), &tx, 1).unwrap();
            self.live.objset().object(id).unwrap().write_at(&tx, 0, &noise(seed, 6 * BLOCK as usize)).unwrap();
            id
        };
        rig.live.writer().sync().unwrap();
        self.all.push((id, seed));
    }

    /// Deletes the oldest file.
    fn drop_oldest(&mut self, rig: &Rig) {
        let (id, _) = self.all.remove(0);
        {
            let tx = self.live.begin(BLOCK).unwrap();
            self.live.objset().free_object(&tx, id).unwrap();
        }
        rig.live.writer().sync().unwrap();
    }
}

/// The on-disk state is correct, both to Weir and to OpenZFS; every file has its contents.
fn check(rig: &Rig, all: &[(u64, u64)]) {
    rig.live.writer().sync().unwrap();
    let found = rig.found();
    let report = pool::scan::verify(&found, &pool::scan::Options { threads: 1 }, &|_| true).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let tree = dataset::Datasets::open(found).unwrap();
    let set = tree.dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
    for (id, seed) in all {
        let read = set.object(*id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap();
        assert!(read == noise(*seed, 6 * BLOCK as usize), "file {seed}");
    }
    rig.judge();
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { what, .. }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Closes the pool and opens it again.
fn reopen(rig: Rig, files: Files, open: &OpenOptions) -> (Rig, Files) {
    let Files { live, all, next_seed } = files;
    drop(live);
    let Rig { devices, live } = rig;
    live.close_all().unwrap();
    live.writer().export().unwrap();
    drop(live);
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let writer = Writer::open(&found, open, &options()).unwrap();
    let rig = Rig { devices, live: LiveDatasets::new(writer, Arc::new(KeyStore::new())) };
    let live = rig.open("tank/a");
    (rig, Files { live, all, next_seed })
}

#[test]
fn a_checkpoint_keeps_freed_space_until_it_is_discarded_or_rewound() {
    for raidz in [false, true] {
        let mut rig = Rig::with(layout(raidz), &[], None);
        let mut files = Files::new(&rig);
        (0..4).for_each(|_| files.put(&rig));
        let writer = rig.live.writer().clone();
        assert_eq!(refusal(writer.discard_checkpoint()), "checkpoint does not exist");
        writer.checkpoint().unwrap();
        let kept = files.all.clone();
        assert_eq!(refusal(writer.checkpoint()), "checkpoint exists");
        assert_eq!(refusal(writer.set_guid(7)), "checkpoint exists");
        check(&rig, &files.all);
        files.drop_oldest(&rig);
        files.drop_oldest(&rig);
        files.put(&rig);
        check(&rig, &files.all);
        let status = rig.found().status().unwrap().checkpoint.unwrap();
        assert!(!status.discarding && status.space_bytes > 12 * BLOCK, "{status:?}");
        drop(writer);
        (rig, files) = reopen(rig, files, &OpenOptions::default());
        files.drop_oldest(&rig);
        check(&rig, &files.all);

        // The checkpointed state: first opened read-only, then rewound to permanently.
        let found = search_devices(rig.devices.iter().cloned()).pools.remove(0);
        let back = OpenOptions { checkpoint: true, ..OpenOptions::default() };
        let old = pool::Pool::open(&found, &back).unwrap();
        let set = dataset::Datasets::open(old).unwrap().dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
        let (id, seed) = kept[0];
        assert!(set.object(id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap() == noise(seed, 6 * BLOCK as usize));
        (rig, files) = reopen(rig, files, &back);
        files.all = kept;
        check(&rig, &files.all);
        assert!(rig.found().status().unwrap().checkpoint.is_none());
        files.put(&rig);
        check(&rig, &files.all);

        // A second checkpoint, discarded: partly before the pool is closed, the rest afterwards.
        let writer = rig.live.writer().clone();
        writer.checkpoint().unwrap();
        (0..3).for_each(|_| files.drop_oldest(&rig));
        check(&rig, &files.all);
        writer.discard_checkpoint().unwrap();
        drop(writer);
        (rig, files) = reopen(rig, files, &OpenOptions::default());
        let writer = rig.live.writer().clone();
        writer.finish_discarding(&|| false).unwrap();
        assert!(!writer.feature_active("zpool_checkpoint"));
        assert!(rig.found().status().unwrap().checkpoint.is_none());
        check(&rig, &files.all);
        writer.set_guid(7).unwrap();
        files.put(&rig);
        check(&rig, &files.all);
    }
}

/// The pool of an image made by the kernel module; `None` if the images are not available.
fn image(name: &str) -> Option<Rig> {
    let folder = PathBuf::from(std::env::var_os("WEIR_FIXTURES")?).join(name);
    Some(Rig::of_image(&folder).unwrap())
}

#[test]
fn a_checkpoint_that_openzfs_made_is_kept_discarded_and_wound_back_to() {
    let Some(rig) = image("checkpoint") else {
        println!("skipped: no images (make fixtures)");
        return;
    };
    assert!(rig.found().status().unwrap().checkpoint.is_some());
    rig.live.writer().sync().unwrap();
    rig.judge();
    let rig = rig.copy();
    rig.live.writer().discard_checkpoint().unwrap();
    rig.live.writer().finish_discarding(&|| false).unwrap();
    assert!(rig.is_clean());
    rig.judge();
}

fn disk(name: &str, bytes: usize) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(name, vec![0; bytes]))
}

fn top(devices: &[Arc<dyn Device>], class: block::Class) -> NewVdev {
    let one = |d: &Arc<dyn Device>| NewVdev { leaf: Some((d.name().to_owned(), d.clone())), class, ..layout(false) };
    match devices {
        [device] => one(device),
        several => {
            NewVdev { kind: "mirror", leaf: None, children: several.iter().map(one).collect(), ..one(&several[0]) }
        }
    }
}

/// Adds a top-level device with these disks.
fn add(rig: Rig, disks: &[Arc<dyn Device>], class: block::Class) -> Rig {
    let new = NewDevices { tops: vec![top(disks, class)], ..Default::default() };
    rig.live.writer().add(new, false).unwrap();
    Rig { devices: [rig.devices, disks.to_vec()].concat(), live: rig.live }
}

/// The top-level device on the disk of that name.
fn top_guid(rig: &Rig, name: &str) -> u64 {
    let tree = rig.live.writer().store().tree();
    tree.tops.iter().find(|top| top.leaves().iter().any(|leaf| leaf.path == name)).expect(name).guid
}

/// Runs part of the removal, up to a moment when nothing is written.
fn step(rig: &Rig, bytes: u64) {
    let writer = rig.live.writer();
    writer.limit_removal(Some(bytes));
    writer.sync().unwrap();
    writer.sync().unwrap();
}

#[test]
fn a_removed_device_is_copied_and_space_freed_during_and_after_is_free() {
    let first = disk("disk-0", 96 << 20);
    let rig = Rig::with(top(std::slice::from_ref(&first), block::Class::Normal), &[], None);
    let mut files = Files::new(&rig);
    (0..14).for_each(|_| files.put(&rig));
    let pair = [disk("disk-1", 160 << 20), disk("disk-2", 160 << 20)];
    let rig = add(rig, &pair, block::Class::Normal);
    (0..6).for_each(|_| files.put(&rig));
    files.drop_oldest(&rig);
    dataset::write::snapshot(&rig.live, &["tank/a@before".to_owned()], &[]).unwrap();
    let writer = rig.live.writer().clone();
    let empty = |rig: &Rig| {
        let live = rig.live.clone();
        move || live.empty_logs()
    };
    writer.limit_removal(Some(0));
    let guid = top_guid(&rig, "disk-0");
    writer.remove(guid, &empty(&rig)).unwrap();
    assert_eq!(refusal(writer.remove(guid, &empty(&rig))), "removal for this vdev is already in progress.");
    assert_eq!(refusal(writer.checkpoint()), "device removal in progress");
    check(&rig, &files.all);
    // In the middle: files are created and deleted on both sides of the copy position.
    for round in 0..3 {
        step(&rig, 2 << 20);
        assert!(writer.is_removing());
        files.put(&rig);
        if round == 1 {
            files.drop_oldest(&rig);
            dataset::write::destroy_snapshots(&rig.live, &["tank/a@before".to_owned()], false).unwrap();
        }
        check(&rig, &files.all);
    }
    let status = rig.found().status().unwrap().removal.unwrap();
    assert!(status.copied_bytes >= 6 << 20 && status.copied_bytes < status.to_copy_bytes, "{status:?}");
    // As after a power cut, on another machine: the removal can resume, or be cancelled.
    let other = rig.copy();
    assert!(other.live.writer().is_removing());
    other.live.writer().finish_removal(&|| false).unwrap();
    check(&other, &files.all);
    drop(other);
    let other = rig.copy();
    other.live.writer().cancel_removal().unwrap();
    assert!(!other.live.writer().is_removing() && !other.live.writer().feature_active("device_removal"));
    check(&other, &files.all);
    drop((other, writer));

    let (rig, mut files) = reopen(rig, files, &OpenOptions::default());
    let writer = rig.live.writer().clone();
    writer.finish_removal(&|| false).unwrap();
    check(&rig, &files.all);
    let status = rig.found().status().unwrap().removal.unwrap();
    assert_eq!(status.copied_bytes, status.to_copy_bytes);
    // Opened without the device; then the contents that were on it are deleted.
    drop(writer);
    let devices = rig.devices[1..].to_vec();
    let (rig, mut files) = {
        files.put(&rig);
        reopen(Rig { devices, live: rig.live }, files, &OpenOptions::default())
    };
    check(&rig, &files.all);
    for _ in 0..6 {
        files.drop_oldest(&rig);
    }
    check(&rig, &files.all);
    // Unused parts of the mapping are omitted.
    let ranges = |rig: &Rig| rig.found().status().unwrap().removal.unwrap().mapping_bytes;
    let before = ranges(&rig);
    rig.live.writer().condense_from(0);
    files.put(&rig);
    check(&rig, &files.all);
    assert!(ranges(&rig) < before, "{before}");
    files.drop_oldest(&rig);
    check(&rig, &files.all);
    // Another device is removed onto a third: addresses are translated by two mappings.
    let third = disk("disk-3", 320 << 20);
    let rig = add(rig, &[third], block::Class::Normal);
    let guid = top_guid(&rig, "disk-1");
    rig.live.writer().remove(guid, &empty(&rig)).unwrap();
    rig.live.writer().finish_removal(&|| false).unwrap();
    check(&rig, &files.all);
    let rig = Rig { devices: vec![rig.devices[2].clone()], live: rig.live };
    let (rig, mut files) = reopen(rig, files, &OpenOptions::default());
    while files.all.len() > 2 {
        files.drop_oldest(&rig);
    }
    check(&rig, &files.all);
    // A checkpoint keeps freed blocks on removed devices.
    rig.live.writer().checkpoint().unwrap();
    files.drop_oldest(&rig);
    check(&rig, &files.all);
}

#[test]
fn a_pool_from_which_openzfs_removed_a_device_is_written() {
    let Some(rig) = image("removed") else {
        println!("skipped: no images (make fixtures)");
        return;
    };
    let heads = rig.tree().list(&[], &dataset::ListOptions::heads()).unwrap().entries;
    let heads: Vec<_> = heads.iter().filter_map(|e| e.dataset().cloned()).collect();
    let snapshots: Vec<String> = heads.iter().map(|d| format!("{}@now", d.name())).collect();
    dataset::write::snapshot(&rig.live, &snapshots, &[]).unwrap();
    for head in heads.iter().filter(|d| d.kind().unwrap() == dataset::DatasetKind::FileSystem) {
        let live = rig.open(head.name());
        let set = live.objset();
        let files = (1..512).filter(|id| {
            set.object(*id).is_ok_and(|o| o.dnode().object_type == ondisk::ObjectType::PLAIN_FILE_CONTENTS)
        });
        for id in files.collect::<Vec<_>>() {
            let tx = live.begin(BLOCK).unwrap();
            set.free_object(&tx, id).unwrap();
        }
        rig.live.writer().sync().unwrap();
        rig.judge();
    }
    assert!(rig.is_clean());
    dataset::write::destroy_snapshots(&rig.live, &snapshots, false).unwrap();
    rig.live.writer().sync().unwrap();
    rig.live.writer().sync().unwrap();
    assert!(rig.is_clean());
    rig.judge();
}

/// Earlier releases freed the list of unflushed txgs of a removed device, but left its number in
/// the device's ZAP, which is kept. Once the number was reused, two devices had the same object:
/// `zdb` aborts on such a pool.
#[test]
fn an_entry_that_outlived_its_object_leaves_the_zap_of_a_removed_device_when_the_pool_is_opened() {
    let rig = add(Rig::new(), &[disk("larger", 256 << 20)], block::Class::Normal);
    let writer = rig.live.writer().clone();
    writer.remove(top_guid(&rig, "disk"), &|| rig.live.empty_logs()).unwrap();
    writer.finish_removal(&|| false).unwrap();
    let unflushed = |rig: &Rig, top: usize| {
        let found = rig.found();
        let zap = found.root_vdev().children[top].number(ondisk::pool_dir::config::VDEV_TOP_ZAP);
        let entry = ondisk::pool_dir::vdev_top::MS_UNFLUSHED_PHYS_TXGS;
        (zap, object::Zap::open(found.mos().object(zap).unwrap()).unwrap().lookup_u64(entry).unwrap())
    };
    let ((removed, gone), (_, other)) = (unflushed(&rig, 0), unflushed(&rig, 1));
    assert_eq!(gone, None);
    let other = other.expect("the remaining device has such a list");
    let stale = move |cx: &pool::writer::SyncTx<'_>| {
        let zap = object::Zap::open(cx.mos().object(removed)?)?;
        zap.insert_u64(cx.tx(), ondisk::pool_dir::vdev_top::MS_UNFLUSHED_PHYS_TXGS, other)
    };
    writer.task(stale).unwrap();
    drop(writer);
    let rig = rig.reopen();
    rig.judge();
    assert_eq!(unflushed(&rig, 0), (removed, None));
    assert_eq!(unflushed(&rig, 1).1, Some(other));
}

#[test]
fn a_special_device_is_removed_and_other_removals_are_refused_with_a_reason() {
    let rig = Rig::new();
    let special = disk("special", 96 << 20);
    let rig = add(rig, std::slice::from_ref(&special), block::Class::Special);
    let mut files = Files::new(&rig);
    (0..3).for_each(|_| files.put(&rig));
    let writer = rig.live.writer().clone();
    let empty = || rig.live.empty_logs();
    let mixed = "invalid config; all top-level vdevs must have the same sector size and not be raidz.";
    assert_eq!(refusal(writer.remove(top_guid(&rig, "disk"), &empty)), "out of space");
    writer.remove(top_guid(&rig, "special"), &empty).unwrap();
    writer.finish_removal(&|| false).unwrap();
    assert_eq!(writer.store().tree().tops.len(), 2);
    files.drop_oldest(&rig);
    files.put(&rig);
    check(&rig, &files.all);
    let raidz = NewDevices { tops: vec![layout(true)], ..Default::default() };
    assert!(refusal(writer.add(raidz, false)).contains("does not support adding raidz"));
    drop(writer);
    let parity = Rig::with(layout(true), &[], None);
    let parity = add(parity, &[disk("more", 96 << 20)], block::Class::Normal);
    let writer = parity.live.writer();
    assert_eq!(refusal(writer.remove(top_guid(&parity, "more"), &|| parity.live.empty_logs())), mixed);
}

#[test]
fn a_side_of_each_mirror_becomes_a_pool_of_its_own() {
    let disks: Vec<_> = (0..4).map(|n| disk(&format!("disk-{n}"), 96 << 20)).collect();
    let rig = Rig::with(top(&disks[..2], block::Class::Normal), &[], None);
    let rig = Rig { devices: disks[..2].to_vec(), ..rig };
    let rig = add(rig, &[disk("log", 96 << 20)], block::Class::Log);
    let rig = add(rig, &disks[2..4], block::Class::Normal);
    let mut files = Files::new(&rig);
    (0..5).for_each(|_| files.put(&rig));
    files.live.log().commit(None).unwrap();
    let writer = rig.live.writer().clone();
    let guid = |name: &str| writer.store().tree().leaves().into_iter().find(|leaf| leaf.path == name).unwrap().guid;
    let all = disks.clone();
    let open: pool::writer::OwnedOpener =
        Arc::new(move |path: &str| Ok(all.iter().find(|d| d.name() == path).expect("one of them").clone()));
    let both = [guid("disk-0"), guid("disk-1")];
    let refused = writer.split("half", &both, open.clone(), &|| rig.live.empty_logs());
    assert_eq!(refusal(refused), "Device list must include at most one disk from each mirror");
    writer.split("half", &[guid("disk-0")], open, &|| rig.live.empty_logs()).unwrap();
    drop(writer);
    let kept = files.all.clone();
    let devices = rig.devices.iter().filter(|d| !["disk-0", "disk-3"].contains(&d.name())).cloned().collect();
    let rig = Rig { devices, live: rig.live };
    files.put(&rig);
    check(&rig, &files.all);
    // The other pool, with its contents at that time.
    let devices = vec![disks[0].clone(), disks[3].clone()];
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    assert_eq!((found.name(), found.state()), ("half", pool::PoolState::Exported));
    let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
    let half = Rig { devices, live: LiveDatasets::new(writer, Arc::new(KeyStore::new())) };
    half.live.writer().sync().unwrap();
    assert!(half.is_clean());
    half.judge();
    let set = half.tree().dataset("half/a").unwrap().objset(half.live.keys()).unwrap();
    for (id, seed) in &kept {
        assert!(set.object(*id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap() == noise(*seed, 6 * BLOCK as usize));
    }
    // Both continue, each with its own contents.
    half.create("half/b", &[]).unwrap();
    half.live.writer().sync().unwrap();
    half.judge();
    let (rig, mut files) = reopen(rig, files, &OpenOptions::default());
    files.put(&rig);
    check(&rig, &files.all);
}
