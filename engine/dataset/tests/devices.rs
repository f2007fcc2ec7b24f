//! Devices are attached, detached, taken offline and brought back: after each change OpenZFS's
//! `zdb` finds every block, no leaks, and the configuration that OpenZFS would have written;
//! invalid changes are rejected in OpenZFS's words.

mod common;

use common::{Rig, layout, new_file, noise};
use dataset::LiveDataset;
use host::device::{Device, MemoryDevice};
use object::{Error, Result};
use pool::writer::{Joins, Lasts, NewLeaf, NewVdev, Order, Work, WorkRefused, WorkState};
use std::sync::Arc;

const BLOCK: u64 = 128 << 10;
const DISK_BYTES: usize = 160 << 20;

/// Files of random data, each in a txg of its own.
struct Files {
    live: Arc<LiveDataset>,
    files: Vec<u64>,
}

impl Files {
    fn new(rig: &Rig) -> Self {
        rig.create("tank/a", &[]).unwrap();
        Self { live: rig.open("tank/a"), files: Vec::new() }
    }

    fn put(&mut self, rig: &Rig) {
        let seed = self.files.len() as u64 + 1;
        let id = {
            let tx = self.live.begin(8 * BLOCK).unwrap();
            let id = new_file(self.live.objset(), &tx, 1).unwrap();
            self.live.objset().object(id).unwrap().write_at(&tx, 0, &noise(seed, 6 * BLOCK as usize)).unwrap();
            id
        };
        rig.live.writer().sync().unwrap();
        self.files.push(id);
    }
}

/// The on-disk state is correct, both to Weir and to OpenZFS; every file has its contents.
fn check(rig: &Rig, files: &Files) {
    check_ours(rig, files);
    rig.judge();
}

fn check_ours(rig: &Rig, files: &Files) {
    rig.live.writer().sync().unwrap();
    let found = rig.found();
    let report = pool::scan::verify(&found, &pool::scan::Options { threads: 1 }, &|_| true).unwrap();
    assert!(report.is_consistent() && report.lost_blocks == 0, "{report:#?}");
    let tree = dataset::Datasets::open(found).unwrap();
    let set = tree.dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
    for (id, seed) in files.files.iter().zip(1..) {
        let read = set.object(*id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap();
        assert!(read == noise(seed, 6 * BLOCK as usize), "file {seed}");
    }
}

fn disk(name: &str) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]))
}

fn new_leaf(device: &Arc<dyn Device>) -> NewLeaf {
    NewLeaf {
        kind: "file",
        path: device.name().to_owned(),
        device: Some(device.clone()),
        ashift: 9,
        spare: None,
        sequentially: false,
    }
}

/// The current leaf on the device of that name.
fn guid(rig: &Rig, name: &str) -> u64 {
    let tree = rig.live.writer().store().tree();
    tree.leaves().into_iter().find(|leaf| leaf.path == name).unwrap_or_else(|| panic!("{name}")).guid
}

fn stale(rig: &Rig, name: &str) -> Vec<(u64, u64)> {
    let tree = rig.live.writer().store().tree();
    tree.leaves().into_iter().find(|leaf| leaf.path == name).unwrap().stale_ranges()
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { what, .. }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// Lines of zdb's output about the configuration in the MOS, without leading spaces; empty if zdb
/// is not installed.
fn config(rig: &Rig) -> Vec<String> {
    let text = rig.zdb(&["-C", "tank"]).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn has(config: &[String], line: &str) -> bool {
    config.is_empty() || config.iter().any(|l| l.starts_with(line))
}

/// Re-imports the pool with those of its devices that are present.
fn reopen(rig: Rig, files: Files) -> (Rig, Files) {
    let Files { live, files } = files;
    drop(live);
    let rig = rig.reopen();
    let live = rig.open("tank/a");
    (rig, Files { live, files })
}

#[test]
fn a_device_that_is_offline_stays_so_and_is_resilvered_by_what_it_missed() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let one = guid(&rig, "disk-1");
    writer.offline(one, Lasts::Always).unwrap();
    let first = writer.open_txg();
    files.put(&rig);
    files.put(&rig);
    let last = writer.synced_txg();
    check(&rig, &files);
    assert!(has(&config(&rig), "offline: 1"));
    // Parity covers the loss of one device; a second is required.
    assert_eq!(refusal(writer.offline(guid(&rig, "disk-2"), Lasts::Always)), "no valid replicas");
    assert_eq!(refusal(writer.detach(guid(&rig, "disk-2"))), "only applicable to mirror and replacing vdevs");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    let tree = writer.store().tree();
    assert_eq!(tree.find(one).unwrap().leaf().unwrap().aux(), Some(block::vdev::Aux::Offline));
    let device = rig.devices.iter().find(|d| d.name() == "disk-1").unwrap().clone();
    let open = |_: &str| Ok(device.clone());
    assert!(writer.online(one, &open).unwrap());
    assert!(!has(&config(&rig), "offline") || config(&rig).is_empty());
    let missed = stale(&rig, "disk-1");
    let covers = |txg: u64| missed.iter().any(|(f, l)| (*f..=*l).contains(&txg));
    assert!((first..=last).all(covers), "{missed:?} covers {first} to {last}");
    // It accepts writes again, and what it missed stays missing until a resilver.
    files.put(&rig);
    assert_eq!(stale(&rig, "disk-1"), missed);
    check(&rig, &files);
    let other = disk("disk-1");
    writer.offline(one, Lasts::UntilImport).unwrap();
    assert!(!writer.online(one, &|_: &str| Ok(other.clone())).unwrap(), "another disk came in its place");
}

#[test]
fn a_fault_lasts_until_it_is_cleared_and_marks_what_is_needed_only() {
    let mirror = |names: [&str; 2]| NewVdev {
        kind: "mirror",
        parity: 0,
        draid: None,
        class: block::Class::Normal,
        leaf: None,
        ashift: 12,
        children: names.map(|n| NewVdev { leaf: Some((n.into(), disk(n))), ..layout(false) }).into(),
    };
    let rig = Rig::with(mirror(["a", "b"]), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, b) = (guid(&rig, "a"), guid(&rig, "b"));
    let writer = rig.live.writer().clone();
    writer.fault(a, Lasts::Always).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "faulted: 1") && has(&text, "aux_state: 'external'"), "{text:?}");
    // The other side is now required.
    writer.fault(b, Lasts::Always).unwrap();
    let text = config(&rig);
    assert!(has(&text, "degraded: 1"), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    let aux = |guid| writer.store().tree().find(guid).unwrap().leaf().unwrap().aux();
    assert_eq!((aux(a), aux(b)), (Some(block::vdev::Aux::Faulted), None));
    let device = rig.devices[0].clone();
    assert!(!writer.online(a, &|_: &str| Ok(device.clone())).unwrap(), "a fault has to be cleared");
    writer.clear(None, &|_: &str| Ok(device.clone())).unwrap();
    assert_eq!(aux(a), None);
    files.put(&rig);
    let text = config(&rig);
    assert!(text.is_empty() || !text.iter().any(|l| l.starts_with("faulted") || l.starts_with("degraded")), "{text:?}");
    check(&rig, &files);
}

#[test]
fn a_disk_becomes_a_mirror_and_a_disk_again() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, before) = (guid(&rig, "disk"), config(&rig));
    let top_zap = before.iter().find(|l| l.starts_with("com.delphix:vdev_zap_top")).cloned();
    let second = disk("second");
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let small: Arc<dyn Device> = Arc::new(MemoryDevice::new("small", vec![0; 80 << 20]));
    assert_eq!(refusal(writer.attach(a, new_leaf(&small), Joins::Attach)), "device is too small");
    let coarse = NewLeaf { ashift: 13, ..new_leaf(&second) };
    assert!(refusal(writer.attach(a, coarse, Joins::Attach)).contains("higher alignment"));
    writer.attach(a, new_leaf(&second), Joins::Attach).unwrap();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'mirror'") && top_zap.is_none_or(|zap| has(&text, &zap)), "{text:?}");
    check(&rig, &files);
    // The first side has the only complete copy, so it must stay.
    assert_eq!(refusal(writer.detach(a)), "no valid replicas");
    assert_eq!(refusal(writer.offline(a, Lasts::Always)), "no valid replicas");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    files.put(&rig);
    check(&rig, &files);
    let top = writer.store().tree().tops[0].guid;
    writer.detach(guid(&rig, "second")).unwrap();
    assert_eq!(guid(&rig, "disk"), top, "the last side goes on under the mirror's identity");
    let labels = block::label::read(second.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("txg") == Some(0)) && labels.uberblocks.is_empty());
    files.put(&rig);
    let text = config(&rig);
    assert!(text.is_empty() || !text.iter().any(|l| l.contains("mirror")), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, files) = reopen(rig, files);
    check(&rig, &files);
}

#[test]
fn a_disk_that_is_replaced_stays_until_the_new_one_is_whole() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let old = guid(&rig, "disk-2");
    // Same path, different disk: it was swapped while the machine was off.
    writer.offline(old, Lasts::Always).unwrap();
    files.put(&rig);
    let new = disk("disk-2");
    let rig = Rig { devices: [rig.devices[..2].to_vec(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(old, new_leaf(&new), Joins::Replace).unwrap();
    let again = refusal(writer.attach(writer.store().tree().tops[0].guid, new_leaf(&disk("x")), Joins::Replace));
    assert!(again.starts_with("already in replacing/spare config"), "{again}");
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'replacing'") && has(&text, "path: 'disk-2/old'"), "{text:?}");
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
    // After the replacement is cancelled, the old device has its path again.
    let writer = rig.live.writer().clone();
    writer.detach(guid(&rig, "disk-2")).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "path: 'disk-2'") && !text.iter().any(|l| l.contains("replacing")), "{text:?}");
    check(&rig, &files);
}

#[test]
fn a_log_leaves_when_nothing_is_on_it_and_a_hole_stays() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    let (log, spare) = (disk("log"), disk("spare"));
    let rig = Rig { devices: [rig.devices.clone(), vec![log.clone(), spare.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let aux = |device: &Arc<dyn Device>| pool::writer::NewAuxiliary {
        kind: "file",
        path: device.name().to_owned(),
        device: device.clone(),
        ashift: 9,
    };
    let top =
        NewVdev { class: block::Class::Log, leaf: Some(("log".into(), log.clone())), ashift: 12, ..layout(false) };
    let new = pool::writer::NewDevices { tops: vec![top], spares: vec![aux(&spare)], caches: Vec::new() };
    writer.add(new, false).unwrap();
    files.put(&rig);
    // The log contains data.
    let id = {
        let tx = files.live.begin(BLOCK).unwrap();
        let id = new_file(files.live.objset(), &tx, 1).unwrap();
        files.live.log().record_unloggable(&tx, Some(id));
        id
    };
    files.live.log().commit(Some(id)).unwrap();
    let before = config(&rig);
    let top = guid(&rig, "log");
    writer.remove(top, &|| rig.live.empty_logs()).unwrap();
    let text = config(&rig);
    assert!(has(&text, "type: 'hole'") && has(&text, "hole_array[0]: 1"), "{text:?} before: {before:?}");
    files.put(&rig);
    check(&rig, &files);
    let spare_guid = writer.store().tree().spares[0].guid;
    writer.remove(spare_guid, &|| Ok(())).unwrap();
    assert!(rig.found().spares().is_empty());
    let data = guid(&rig, "disk");
    assert_eq!(refusal(writer.remove(data, &|| Ok(()))), "out of space", "there is no other device");
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
    // A different device gets its own id.
    let again = disk("again");
    let rig = Rig { devices: [rig.devices.clone(), vec![again.clone()]].concat(), live: rig.live };
    let top = NewVdev { leaf: Some(("again".into(), again)), ..layout(false) };
    let new = pool::writer::NewDevices { tops: vec![top], ..Default::default() };
    rig.live.writer().add(new, false).unwrap();
    files.put(&rig);
    check(&rig, &files);
}

/// OpenZFS reports UNAVAIL once a scrub begins. Here such a log stayed ONLINE until the next
/// import, which then failed to find it.
#[test]
fn a_log_device_that_was_overwritten_is_not_used_from_the_next_scrub_on() {
    let rig = Rig::new();
    let log = disk("log");
    let top =
        NewVdev { class: block::Class::Log, leaf: Some(("log".into(), log.clone())), ashift: 12, ..layout(false) };
    let writer = rig.live.writer().clone();
    writer.add(pool::writer::NewDevices { tops: vec![top], ..Default::default() }, false).unwrap();
    let leaf = |name: &str| writer.store().tree().leaves().into_iter().find(|leaf| leaf.path == name).unwrap().clone();
    assert_eq!(writer.validate_labels().unwrap(), 0);
    log.write_at(0, &vec![0; log.size_bytes() as usize]).unwrap();
    writer.start_scrub().unwrap().unwrap();
    assert!(!leaf("log").is_open() && leaf("disk").is_open());
    assert_eq!(leaf("log").aux(), Some(block::vdev::Aux::CorruptLabel));
    // The data device is required, whatever its labels say.
    writer.sync().unwrap();
    let data = rig.devices[0].clone();
    let labels = data.size_bytes() - (512 << 10);
    for at in [0, labels] {
        data.write_at(at, &vec![0; 512 << 10]).unwrap();
    }
    assert_eq!(writer.validate_labels().unwrap(), 0);
    assert!(leaf("disk").is_open());
    writer.set_guid(7).unwrap();
    assert_eq!(writer.validate_labels().unwrap(), 0);
}

#[test]
fn a_spare_stands_in_until_the_device_is_good_again_or_stays_for_good() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let spare = disk("spare");
    let rig = Rig { devices: [rig.devices.clone(), vec![spare.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let aux = pool::writer::NewAuxiliary { kind: "file", path: "spare".into(), device: spare.clone(), ashift: 9 };
    writer.add(pool::writer::NewDevices { spares: vec![aux], ..Default::default() }, false).unwrap();
    let listed = writer.store().tree().spares[0].guid;
    let one = guid(&rig, "disk-1");
    writer.fault(one, Lasts::Always).unwrap();
    let stranger = NewLeaf { spare: Some(listed), ..new_leaf(&disk("stranger")) };
    assert!(refusal(writer.attach(one, stranger, Joins::Replace)).ends_with("is busy"));
    let steps_in = NewLeaf { spare: Some(listed), ..new_leaf(&spare) };
    writer.attach(one, steps_in.clone(), Joins::Replace).unwrap();
    files.put(&rig);
    let text = config(&rig);
    assert!(has(&text, "type: 'spare'") && has(&text, "is_spare: 1"), "{text:?}");
    let status = rig.found().status().unwrap();
    assert_eq!(status.spares[0].aux, pool::status::VdevAux::Spared);
    // Another change in the same group: the DTL of the spare is kept.
    let lacks = stale(&rig, "spare");
    let other = disk("other");
    writer.attach(guid(&rig, "disk-0"), new_leaf(&other), Joins::Replace).unwrap();
    writer.detach(guid(&rig, "other")).unwrap();
    assert!(!lacks.is_empty() && stale(&rig, "spare") == lacks);
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    files.put(&rig);
    // After a manual detach it is a spare again, and its labels say so.
    writer.detach(listed).unwrap();
    let labels = block::label::read(spare.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("state") == Some(3) && c.get_u64("guid") == Some(listed)));
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    files.put(&rig);
    check(&rig, &files);
    // The original is detached: the spare becomes a regular member and is no longer a spare.
    writer.attach(one, steps_in, Joins::Replace).unwrap();
    assert_eq!(refusal(writer.detach(guid(&rig, "disk-0"))), "only applicable to mirror and replacing vdevs");
    let device = rig.devices[1].clone();
    writer.clear(Some(one), &|_: &str| Ok(device.clone())).unwrap();
    let text = config(&rig);
    assert!(has(&text, "unspare: 1"), "{text:?}");
    files.put(&rig);
    check(&rig, &files);
}

/// Waits until a resilver has done everything it can.
fn resilvered(rig: &Rig) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let tree = || writer.store().tree();
    while tree().leaves().iter().any(|leaf| leaf.is_open() && !leaf.stale_ranges().is_empty()) {
        assert!(std::time::Instant::now() < end, "no resilver: {:?}", rig.found().status().unwrap().scan);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    writer.sync().unwrap();
}

#[test]
fn a_resilver_fills_what_joins_and_lets_go_of_what_it_replaces() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    let (new, old) = (disk("new"), rig.devices[1].clone());
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(guid(&rig, "disk-1"), new_leaf(&new), Joins::Replace).unwrap();
    files.put(&rig);
    resilvered(&rig);
    let text = config(&rig);
    assert!(
        !text.iter().any(|l| l.contains("replacing") || l.contains("resilver_txg") || l.contains("'disk-1'")),
        "{text:?}"
    );
    let labels = block::label::read(old.as_ref(), true);
    assert!(labels.configs().all(|c| c.get_u64("txg") == Some(0)), "it belongs to no pool any more");
    check(&rig, &files);
    assert!(rig.is_clean());
    // The returning device is resilvered, and no other missing device is required for that.
    let zero = guid(&rig, "disk-0");
    writer.offline(zero, Lasts::Always).unwrap();
    files.put(&rig);
    let device = rig.devices[0].clone();
    writer.online(zero, &|_: &str| Ok(device.clone())).unwrap();
    resilvered(&rig);
    writer.offline(guid(&rig, "disk-2"), Lasts::UntilImport).unwrap();
    check(&rig, &files);
}

#[test]
fn a_device_that_becomes_larger_is_used_to_its_new_end() {
    const MIB: usize = 1 << 20;
    let memory: Vec<Arc<MemoryDevice>> =
        (0..3).map(|i| Arc::new(MemoryDevice::new(format!("disk-{i}"), vec![0; 72 * MIB]))).collect();
    let child = |d: &Arc<MemoryDevice>| NewVdev {
        leaf: Some((d.name().to_owned(), d.clone() as Arc<dyn Device>)),
        ..layout(false)
    };
    let rig = Rig::with(NewVdev { children: memory.iter().map(child).collect(), ..layout(true) }, &[], None);
    let mut files = Files::new(&rig);
    files.put(&rig);
    let writer = rig.live.writer().clone();
    let (before, size) = (writer.allocator().totals(), || writer.allocator().totals().allocated_and_size().1);
    assert_eq!(size(), before.allocated_and_size().1);
    memory[..2].iter().for_each(|d| d.grow(320 * MIB));
    assert!(!writer.expand(guid(&rig, "disk-0")).unwrap(), "one is as small as it was");
    memory[2].grow(160 * MIB);
    let expand = |rig: &Rig| rig.found().status().unwrap().root.children[0].expand_bytes;
    assert!(expand(&rig) > 220 << 20, "{}", expand(&rig));
    assert!(!writer.autoexpand().unwrap(), "nobody wants it by itself");
    assert!(writer.expand(guid(&rig, "disk-0")).unwrap());
    memory[2].grow(280 * MIB);
    let set = pool::property::SetValue::Number(1);
    writer.task(move |cx| cx.set_pool_property("autoexpand", &set)).unwrap();
    assert_eq!(expand(&rig), 0);
    memory[2].grow(320 * MIB);
    assert!(writer.autoexpand().unwrap() && !writer.autoexpand().unwrap());
    assert!(size() > before.allocated_and_size().1 + (700 << 20));
    // More data than the old size allowed.
    for _ in 0..190 {
        files.put(&rig);
    }
    check(&rig, &files);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    files.put(&rig);
    check(&rig, &files);
}

/// Waits until no activity of that kind is in progress.
fn worked(rig: &Rig, work: Work) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while writer.is_working(work, &[]) {
        assert!(std::time::Instant::now() < end, "{work:?} does not end");
        writer.wait_for_work(std::time::Duration::from_millis(20));
    }
}

fn work_state(rig: &Rig, work: Work) -> Vec<(u64, u64, u64)> {
    let status = rig.found().status().unwrap();
    let leaves = status.root.walk().into_iter().filter(|v| v.is_leaf());
    let of = |v: &pool::status::VdevStatus| if work == Work::Trim { v.trim } else { v.initialize };
    leaves.map(of).map(|w| (w.state, w.done_bytes, w.total_bytes)).collect()
}

#[test]
fn what_is_free_is_told_to_devices_or_written_over_and_nothing_else() {
    const PATTERN: [u8; 8] = 0xdead_beef_dead_beee_u64.to_le_bytes();
    let start = Order::Start { rate: 0 };
    let mirror = |names: [&str; 2]| NewVdev {
        kind: "mirror",
        leaf: None,
        children: names.map(|n| NewVdev { leaf: Some((n.into(), disk(n))), ..layout(false) }).into(),
        ..layout(false)
    };
    let draid = NewVdev {
        kind: "draid",
        parity: 1,
        draid: Some(pool::writer::NewDraid { data: 2, spares: 1 }),
        leaf: None,
        children: (0..5)
            .map(|n| format!("d{n}"))
            .map(|n| NewVdev { leaf: Some((n.clone(), disk(&n))), ..layout(false) })
            .collect(),
        ..layout(false)
    };
    for top in [draid, layout(true), mirror(["a", "b"])] {
        let kind = top.kind;
        let rig = Rig::with(top, &[], None);
        let mut files = Files::new(&rig);
        (0..6).for_each(|_| files.put(&rig));
        let writer = rig.live.writer().clone();
        let leaves: Vec<u64> = writer.store().tree().leaves().iter().map(|leaf| leaf.guid).collect();
        let order = |work, what| leaves.iter().map(|g| writer.order_work(work, *g, what).unwrap()).collect::<Vec<_>>();
        assert!(order(Work::Initialize, Order::Suspend).iter().all(|r| *r == Err(WorkRefused::NotActive)));
        assert_eq!(writer.order_work(Work::Trim, 7, start).unwrap(), Err(WorkRefused::NoDevice));
        assert!(order(Work::Initialize, start).iter().all(|r| *r == Ok(())));
        files.put(&rig);
        worked(&rig, Work::Initialize);
        assert!(rig.is_clean());
        let complete = |work| work_state(&rig, work).iter().all(|(s, ..)| *s == WorkState::Complete as u64);
        assert!(complete(Work::Initialize), "{:?}", work_state(&rig, Work::Initialize));
        let patterns = |device: &Arc<dyn Device>| {
            let mut bytes = vec![0; DISK_BYTES];
            device.read_at(0, &mut bytes).unwrap();
            bytes.chunks_exact(4096).filter(|sector| sector.chunks_exact(8).all(|w| w == PATTERN)).count()
        };
        let before: Vec<usize> = rig.devices.iter().map(patterns).collect();
        // Everything except the files.
        let tree = writer.store().tree();
        let all = writer.allocator().totals().allocated_and_size().1;
        let sectors = |child| tree.tops[0].places(child, 0, all).iter().map(|(_, len)| len >> 12).sum::<u64>() as usize;
        let shares: Vec<usize> = tree.tops[0].leaves_by_child().into_iter().map(|(child, _)| sectors(child)).collect();
        let is_full = |(n, share): (&usize, &usize)| *n + 1700 > *share;
        assert!(before.iter().zip(&shares).all(is_full), "{kind}: {before:?} of {shares:?}");
        assert!(order(Work::Initialize, Order::Forget).iter().all(|r| *r == Ok(())));
        assert!(work_state(&rig, Work::Initialize).iter().all(|(s, ..)| *s == 0));
        files.put(&rig);
        // The space of a deleted file is not reported yet.
        assert!(order(Work::Trim, Order::Start { rate: 1 << 20 }).iter().all(|r| *r == Ok(())));
        assert!(order(Work::Trim, start).contains(&Err(WorkRefused::Busy)), "{kind}");
        assert!(order(Work::Trim, Order::Suspend).iter().all(|r| *r == Ok(())));
        worked(&rig, Work::Trim);
        let (_, done, total) = work_state(&rig, Work::Trim)[0];
        assert!(done < total, "{kind}: {done} of {total}");
        assert!(order(Work::Trim, Order::Cancel).iter().all(|r| *r == Ok(())));
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        let writer = rig.live.writer().clone();
        assert!(work_state(&rig, Work::Trim).iter().all(|(s, ..)| *s == WorkState::Cancelled as u64));
        for guid in &leaves {
            assert_eq!(writer.order_work(Work::Trim, *guid, start).unwrap(), Ok(()));
        }
        files.put(&rig);
        worked(&rig, Work::Trim);
        check(&rig, &files);
        let after: Vec<usize> = rig.devices.iter().map(patterns).collect();
        assert!(after.iter().zip(&before).all(|(a, b)| a * 20 < *b), "{kind}: {before:?} became {after:?}");
        assert!(rig.is_clean());
    }
}

#[test]
fn what_was_freed_is_told_to_devices_by_itself() {
    let rig = Rig::with(layout(true), &[], None);
    let mut files = Files::new(&rig);
    let writer = rig.live.writer().clone();
    let set = pool::property::SetValue::Number(1);
    writer.task(move |cx| cx.set_pool_property("autotrim", &set)).unwrap();
    (0..4).for_each(|_| files.put(&rig));
    let zeros = || {
        let mut bytes = vec![0; DISK_BYTES];
        rig.devices[0].read_at(0, &mut bytes).unwrap();
        bytes.chunks_exact(4096).filter(|sector| sector.iter().all(|b| *b == 0)).count()
    };
    let gone = files.files.pop().unwrap();
    let before = zeros();
    {
        let tx = files.live.begin(BLOCK).unwrap();
        files.live.objset().free_object(&tx, gone).unwrap();
    }
    writer.sync().unwrap();
    writer.trim_freed().unwrap();
    assert!(zeros() < before + 64, "it may still be gone back to");
    (0..4).for_each(|_| writer.task(|_| Ok(())).unwrap());
    let before = zeros();
    writer.trim_freed().unwrap();
    assert!(zeros() > before + 64, "{} and {before}", zeros());
    files.put(&rig);
    files.files.pop();
    check(&rig, &files);
}

/// Waits until the expansion has ended.
fn widened(rig: &Rig) {
    let writer = rig.live.writer();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while writer.expansion_state().0 {
        assert!(std::time::Instant::now() < end, "{:?}", rig.found().status().unwrap().expand);
        writer.wait_for_expansion(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_raidz_is_widened_while_it_is_used_and_every_step_is_what_openzfs_reads() {
    for parity in [1, 2] {
        let children = (0..2 + parity).map(|n| format!("disk-{n}"));
        let child = |n: String| NewVdev { leaf: Some((n.clone(), disk(&n))), ..layout(false) };
        let top = NewVdev { parity, children: children.map(child).collect(), ..layout(true) };
        let rig = Rig::with(top, &[], None);
        let mut files = Files::new(&rig);
        (0..24).for_each(|_| files.put(&rig));
        let added = disk("added");
        let rig = Rig { devices: [rig.devices.clone(), vec![added.clone()]].concat(), live: rig.live };
        let writer = rig.live.writer().clone();
        let top = writer.store().tree().tops[0].guid;
        let small: Arc<dyn Device> = Arc::new(MemoryDevice::new("small", vec![0; 80 << 20]));
        assert_eq!(refusal(writer.attach(top, new_leaf(&small), Joins::Attach)), "device is too small");
        writer.attach(top, new_leaf(&added), Joins::Attach).unwrap();
        // The same txg moved the first rows into the scratch area.
        let in_scratch = rig.found().uberblock().raidz_reflow >> 55;
        assert!(in_scratch == 1 && rig.is_clean());
        rig.judge();
        let again = refusal(writer.attach(top, new_leaf(&disk("other")), Joins::Attach));
        assert_eq!(again, "raidz expansion in progress");
        let size = || writer.allocator().totals().allocated_and_size().1;
        let before = size();
        // Out of the scratch area and onward: each txg is a step, and each step is consistent.
        let (mut states, mut word) = (Vec::new(), 0);
        for step in 0..6 {
            match step % 3 {
                1 => check(&rig, &files),
                _ => writer.sync().unwrap(),
            }
            assert!(rig.is_clean(), "step {step}");
            let now = rig.found().uberblock().raidz_reflow;
            assert!(now & ((1 << 55) - 1) >= word & ((1 << 55) - 1));
            (word, states) = (now, [states, vec![now >> 55]].concat());
            if step % 2 == 0 {
                files.put(&rig);
            }
        }
        assert!(states.iter().all(|state| *state == 4), "{states:?}");
        let text = config(&rig);
        assert!(has(&text, "raidz_expanding"), "{text:?}");
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        let writer = rig.live.writer().clone();
        assert!(writer.expansion_state().0);
        // It pauses while a device is offline.
        let zero = guid(&rig, "disk-0");
        writer.offline(zero, Lasts::Always).unwrap();
        files.put(&rig);
        let at = rig.found().uberblock().raidz_reflow;
        files.put(&rig);
        assert_eq!(rig.found().uberblock().raidz_reflow, at);
        check(&rig, &files);
        let device = rig.devices[0].clone();
        writer.online(zero, &|_: &str| Ok(device.clone())).unwrap();
        writer.run_scans().unwrap();
        resilvered(&rig);
        writer.run_expansion().unwrap();
        (0..10).for_each(|_| files.put(&rig));
        widened(&rig);
        let text = config(&rig);
        assert!(!text.iter().any(|l| l.contains("raidz_expanding")), "{text:?}");
        assert!(has(&text, "raidz_expand_txgs[0]"), "{text:?}");
        assert!(writer.allocator().totals().allocated_and_size().1 > before * 5 / 4);
        (0..4).for_each(|_| files.put(&rig));
        check(&rig, &files);
        drop(writer);
        let (rig, mut files) = reopen(rig, files);
        files.put(&rig);
        check(&rig, &files);
        assert!(rig.is_clean());
        // The new child carries its share: as many devices as the parity allows may be lost.
        let writer = rig.live.writer();
        writer.offline(guid(&rig, "disk-1"), Lasts::UntilImport).unwrap();
        check(&rig, &files);
    }
}

/// Waits until the scan's thread is idle.
fn settle(rig: &Rig) {
    let (writer, since) = (rig.live.writer(), std::time::Instant::now());
    loop {
        let now = writer.scan_activity();
        if !now.resilvering && !now.scrubbing {
            return;
        }
        assert!(since.elapsed().as_secs() < 60, "{now:?}");
        writer.wait_for_scan(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_side_that_joins_in_the_order_of_addresses_has_all_and_a_scrub_follows() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    (0..5).for_each(|_| files.put(&rig));
    let (a, second, third) = (guid(&rig, "disk"), disk("second"), disk("third"));
    let more = vec![second.clone(), third.clone()];
    let rig = Rig { devices: [rig.devices.clone(), more].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let sequentially = |device| NewLeaf { sequentially: true, ..new_leaf(device) };
    writer.attach(a, sequentially(&second), Joins::Attach).unwrap();
    // It is not running yet.
    assert!(writer.scan_activity().resilvering && writer.feature_active("device_rebuild"));
    let healing = refusal(writer.attach(a, new_leaf(&third), Joins::Attach));
    assert_eq!(healing, "currently sequentially resilvering");
    assert!(writer.start_scrub().unwrap().is_err());
    assert!(has(&config(&rig), "rebuild_txg:"));
    files.put(&rig);
    check(&rig, &files);
    drop(writer);
    // It resumes when the pool is opened.
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    assert_eq!(stale(&rig, "second")[0].0, 4);
    writer.run_scans().unwrap();
    files.put(&rig);
    settle(&rig);
    assert_eq!(stale(&rig, "second"), []);
    assert!(!writer.feature_active("device_rebuild"));
    let status = writer.pool().unwrap().status().unwrap();
    let scan = status.scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    let rebuild = status.root.children[0].rebuild.expect("it is told of").now;
    assert_eq!((rebuild.state, rebuild.errors), (3, 0));
    assert!(rebuild.rebuilt_bytes >= 5 * 6 * BLOCK && rebuild.total_bytes >= rebuild.scanned_bytes, "{rebuild:?}");
    check(&rig, &files);
    // The first side may be detached: the second is complete.
    writer.attach(guid(&rig, "disk"), sequentially(&third), Joins::Replace).unwrap();
    settle(&rig);
    assert!(writer.store().tree().leaves().iter().all(|leaf| leaf.path != "disk"), "it was replaced");
    writer.detach(guid(&rig, "second")).unwrap();
    files.put(&rig);
    check(&rig, &files);
}

#[test]
fn a_child_of_a_draid_is_rebuilt_of_the_others() {
    let draid = pool::writer::NewDraid { data: 2, spares: 0 };
    let leaf = |n| NewVdev { leaf: Some((format!("disk-{n}"), disk(&format!("disk-{n}")))), ..layout(false) };
    let rig = Rig::with(
        NewVdev { kind: "draid", draid: Some(draid), children: (0..5).map(leaf).collect(), ..layout(true) },
        &[],
        None,
    );
    let mut files = Files::new(&rig);
    (0..8).for_each(|_| files.put(&rig));
    let (writer, new) = (rig.live.writer().clone(), disk("new"));
    let gone = guid(&rig, "disk-3");
    writer.offline(gone, Lasts::Always).unwrap();
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone()]].concat(), live: rig.live };
    writer.attach(gone, NewLeaf { sequentially: true, ..new_leaf(&new) }, Joins::Replace).unwrap();
    files.put(&rig);
    writer.run_scans().unwrap();
    settle(&rig);
    let status = writer.pool().unwrap().status().unwrap();
    let scan = status.scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    assert!(writer.store().tree().leaves().iter().all(|leaf| leaf.path != "disk-3"), "it was replaced");
    assert_eq!(stale(&rig, "new"), []);
    check(&rig, &files);
}

#[test]
fn a_full_pool_is_rebuilt_though_nothing_that_is_freed_can_be_kept() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    // Full up to the reserve.
    let id = {
        let tx = files.live.begin(BLOCK).unwrap();
        new_file(files.live.objset(), &tx, 1).unwrap()
    };
    let (mut at, block) = (0, noise(99, 8 * BLOCK as usize));
    while let Ok(tx) = files.live.begin(8 * BLOCK) {
        files.live.objset().object(id).unwrap().write_at(&tx, at, &block).unwrap();
        at += 8 * BLOCK;
        drop(tx);
        if at.is_multiple_of(64 * BLOCK) {
            rig.live.writer().sync().unwrap();
        }
        assert!(at < DISK_BYTES as u64);
    }
    let second = disk("second");
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    let new = NewLeaf { sequentially: true, ..new_leaf(&second) };
    writer.attach(guid(&rig, "disk"), new, Joins::Attach).unwrap();
    writer.run_scans().unwrap();
    settle(&rig);
    assert_eq!(stale(&rig, "second"), []);
    let scan = writer.pool().unwrap().status().unwrap().scan.expect("a scrub follows");
    assert_eq!((scan.kind, scan.errors, scan.processed_bytes), (pool::status::ScanKind::Scrub, 0, 0));
    check(&rig, &files);
}

#[test]
fn a_rebuild_ends_when_whom_it_is_for_leaves_and_is_none_of_a_raidz() {
    let rig = Rig::new();
    let mut files = Files::new(&rig);
    files.put(&rig);
    let (a, second) = (guid(&rig, "disk"), disk("second"));
    let rig = Rig { devices: [rig.devices.clone(), vec![second.clone()]].concat(), live: rig.live };
    let writer = rig.live.writer().clone();
    writer.attach(a, NewLeaf { sequentially: true, ..new_leaf(&second) }, Joins::Attach).unwrap();
    writer.detach(guid(&rig, "second")).unwrap();
    writer.run_scans().unwrap();
    settle(&rig);
    assert!(!writer.feature_active("device_rebuild"));
    let rebuild = writer.pool().unwrap().status().unwrap().root.children[0].rebuild.expect("it is told of").now;
    assert_eq!(rebuild.state, 2);
    files.put(&rig);
    check(&rig, &files);
    let rig = Rig::with(layout(true), &[], None);
    let writer = rig.live.writer().clone();
    let (top, new) = (writer.store().tree().tops[0].guid, NewLeaf { sequentially: true, ..new_leaf(&disk("x")) });
    let only = "only mirror and dRAID vdevs support sequential reconstruction";
    assert_eq!(refusal(writer.attach(guid(&rig, "disk-1"), new.clone(), Joins::Replace)), only);
    assert!(refusal(writer.attach(top, new, Joins::Attach)).starts_with("raidz_expansion"));
}

/// A draid with one distributed spare; returns its busiest leaf and the identity of the spare.
fn draid_with_spare(parity: u64, children: usize) -> (Rig, Files, u64, u64) {
    let draid = pool::writer::NewDraid { data: 2, spares: 1 };
    let leaf = |n| NewVdev { leaf: Some((format!("disk-{n}"), disk(&format!("disk-{n}")))), ..layout(false) };
    let children = (0..children).map(leaf).collect();
    let rig = Rig::with(NewVdev { kind: "draid", parity, draid: Some(draid), children, ..layout(true) }, &[], None);
    let mut files = Files::new(&rig);
    (0..6).for_each(|_| files.put(&rig));
    let tree = rig.live.writer().store().tree();
    let busiest = tree.leaves().into_iter().max_by_key(|leaf| leaf.write_traffic().1).unwrap().guid;
    let spare = tree.spares[0].guid;
    (rig, files, busiest, spare)
}

fn distributed(spare: u64, sequentially: bool) -> NewLeaf {
    let path = "draid-spare".to_owned();
    NewLeaf { kind: "dspare", path, device: None, ashift: 0, spare: Some(spare), sequentially }
}

fn lacks(rig: &Rig, guid: u64) -> Vec<(u64, u64)> {
    let tree = rig.live.writer().store().tree();
    tree.logs().into_iter().find(|log| log.guid == guid).expect("it stands in").stale_ranges()
}

/// Checks that this many of the other devices may now be lost, in any combination. OpenZFS checks
/// the first combination.
fn check_without_each(rig: &Rig, files: &Files, parity: usize) {
    let writer = rig.live.writer();
    let leaves: Vec<u64> =
        writer.store().tree().leaves().into_iter().filter(|leaf| leaf.is_open()).map(|leaf| leaf.guid).collect();
    for (number, lost) in leaves.windows(parity).enumerate() {
        let devices: Vec<(u64, Arc<dyn Device>)> = lost
            .iter()
            .map(|guid| (*guid, writer.store().tree().find(*guid).unwrap().leaf().unwrap().device().unwrap()))
            .collect();
        lost.iter().for_each(|guid| writer.offline(*guid, Lasts::Always).unwrap());
        match number {
            0 => check(rig, files),
            _ => check_ours(rig, files),
        }
        for (guid, device) in &devices {
            writer.online(*guid, &|_: &str| Ok(device.clone())).unwrap();
        }
        resilvered(rig);
    }
}

#[test]
fn a_distributed_spare_stands_in_and_another_device_may_be_lost_then() {
    for sequentially in [false, true] {
        let (rig, mut files, lost, spare) = draid_with_spare(1, 5);
        let writer = rig.live.writer().clone();
        writer.fault(lost, Lasts::Always).unwrap();
        files.put(&rig);
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        let text = config(&rig);
        for line in ["type: 'spare'", "type: 'dspare'", "is_spare: 1", "spareid: 0", "top_guid: "] {
            assert!(has(&text, line), "{line}: {text:?}");
        }
        assert_eq!(rig.found().status().unwrap().spares[0].aux, pool::status::VdevAux::Spared);
        assert!(refusal(writer.attach(lost, distributed(spare, false), Joins::Replace)).len() > 1);
        files.put(&rig);
        check(&rig, &files);
        let before = lacks(&rig, spare);
        assert_eq!(before.first().map(|(first, _)| *first), Some(4));
        drop(writer);
        // Opening the pool loads the DTLs and resumes the resilver.
        let (rig, mut files) = reopen(rig, files);
        assert_eq!(lacks(&rig, spare), before);
        let writer = rig.live.writer().clone();
        writer.run_scans().unwrap();
        files.put(&rig);
        settle(&rig);
        assert_eq!(lacks(&rig, spare), []);
        check_without_each(&rig, &files, 1);
        // After a manual detach it is available for another device.
        writer.detach(spare).unwrap();
        assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
        files.put(&rig);
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        settle(&rig);
        check_without_each(&rig, &files, 1);
    }
}

#[test]
fn a_device_takes_over_from_a_distributed_spare_which_is_free_again() {
    let (rig, mut files, lost, spare) = draid_with_spare(1, 5);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    writer.fault(lost, Lasts::Always).unwrap();
    writer.attach(lost, distributed(spare, false), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    let (new, newer) = (disk("new"), disk("newer"));
    let rig = Rig { devices: [rig.devices.clone(), vec![new.clone(), newer.clone()]].concat(), live: rig.live };
    writer.attach(lost, new_leaf(&new), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    assert!(!config(&rig).iter().any(|line| line.contains("type: 'dspare'") && line.contains("type: 'spare'")));
    check_without_each(&rig, &files, 1);
    // The device is detached, and the spare stays in its place until it is itself replaced.
    let lost = guid(&rig, "new");
    writer.fault(lost, Lasts::Always).unwrap();
    writer.attach(lost, distributed(spare, true), Joins::Replace).unwrap();
    settle(&rig);
    writer.detach(lost).unwrap();
    files.put(&rig);
    check_without_each(&rig, &files, 1);
    drop(writer);
    let (rig, mut files) = reopen(rig, files);
    let writer = rig.live.writer().clone();
    writer.run_scans().unwrap();
    files.put(&rig);
    assert_eq!(rig.found().status().unwrap().spares[0].aux, pool::status::VdevAux::Spared);
    writer.attach(spare, new_leaf(&newer), Joins::Replace).unwrap();
    files.put(&rig);
    settle(&rig);
    assert!(writer.store().tree().logs().iter().all(|log| !log.is_distributed()), "it was replaced");
    assert_eq!(rig.found().status().unwrap().spares[0].state, pool::status::VdevState::Healthy);
    check_without_each(&rig, &files, 1);
}

#[test]
fn what_a_device_was_to_hold_for_a_distributed_spare_while_it_was_away_it_gets_later() {
    for sequentially in [false, true] {
        let (rig, mut files, lost, spare) = draid_with_spare(2, 6);
        let writer = rig.live.writer().clone();
        let tree = writer.store().tree();
        let block::vdev::Kind::Draid(geometry) = &tree.tops[0].kind else { panic!("a draid") };
        let below = tree.tops[0].children[geometry.spare_child(0, 0).unwrap()].guid;
        let lost = if lost == below { guid(&rig, "disk-0") } else { lost };
        writer.fault(lost, Lasts::Always).unwrap();
        writer.offline(below, Lasts::Always).unwrap();
        writer.attach(lost, distributed(spare, sequentially), Joins::Replace).unwrap();
        files.put(&rig);
        check_ours(&rig, &files);
        writer.run_scans().unwrap();
        settle(&rig);
        check_ours(&rig, &files);
        let device = rig.devices.iter().find(|device| tree.find(below).unwrap().name == device.name()).unwrap().clone();
        writer.online(below, &|_: &str| Ok(device.clone())).unwrap();
        settle(&rig);
        assert_eq!(lacks(&rig, spare), []);
        assert_eq!(lacks(&rig, below), []);
        check_without_each(&rig, &files, 2);
        let errors: u64 = writer.store().tree().leaves().iter().map(|leaf| leaf.errors().checksum).sum();
        assert_eq!(errors, 0, "nothing was wrong");
    }
}

#[test]
fn a_distributed_spare_is_for_children_of_its_own_draid() {
    let (rig, _, _, spare) = draid_with_spare(1, 5);
    let writer = rig.live.writer().clone();
    let other = disk("other");
    let rig = Rig { devices: [rig.devices.clone(), vec![other.clone()]].concat(), live: rig.live };
    let top = NewVdev { leaf: Some(("other".into(), other)), ..layout(false) };
    writer.add(pool::writer::NewDevices { tops: vec![top], ..Default::default() }, false).unwrap();
    let only = "dRAID spares can only replace child devices in their parent's dRAID vdev";
    assert_eq!(refusal(writer.attach(guid(&rig, "other"), distributed(spare, false), Joins::Replace)), only);
    assert!(refusal(writer.attach(guid(&rig, "disk-1"), distributed(7, false), Joins::Replace)).ends_with("is busy"));
    assert!(writer.offline(spare, Lasts::Always).is_err());
    rig.judge();
}
