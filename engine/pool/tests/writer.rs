//! Pools without datasets: created, written for many txgs and reopened, with a check of every block
//! of the MOS and every space map.

use host::device::{Device, MemoryDevice};
use object::NewObject;
use object::zap::Zap;
use ondisk::ObjectType;
use ondisk::pool_dir::{config, directory, vdev_top};
use pool::writer::{CreatePool, Joins, NewAuxiliary, NewDevices, NewLeaf, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Writer, search_devices};
use rig::Disk;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const DISK_BYTES: usize = 72 << 20;

fn leaf(name: &str) -> NewVdev {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]));
    let leaf = Some((name.to_owned(), device));
    NewVdev { kind: "file", parity: 0, draid: None, class: block::Class::Normal, leaf, ashift: 12, children: vec![] }
}

fn group(kind: &'static str, parity: u64, count: usize) -> NewVdev {
    let children = (0..count).map(|i| leaf(&format!("{kind}-{i}"))).collect();
    NewVdev { kind, parity, draid: None, class: block::Class::Normal, leaf: None, ashift: 9, children }
}

fn devices(tops: &[NewVdev]) -> Vec<Arc<dyn Device>> {
    tops.iter().flat_map(|t| t.leaf.iter().map(|l| l.1.clone()).chain(devices(&t.children))).collect()
}

fn options() -> WriteOptions {
    WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

/// A pool of these devices, with all default features.
fn create(tops: Vec<NewVdev>) -> Arc<Writer> {
    let new = CreatePool {
        version: 5000,
        name: "tank".into(),
        tops,
        features: default_features().map(str::to_owned).collect(),
        comment: None,
        compatibility: None,
    };
    Writer::create(&new, &OpenOptions::default(), &options(), |_| Ok(())).unwrap()
}

/// Checks a pool. Returns the number of its log space maps.
fn check(devices: &[Arc<dyn Device>]) -> usize {
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let pool = pool::Pool::open(&found, &OpenOptions::default()).unwrap();
    // Without datasets, only the MOS is in use.
    let mut reachable = std::collections::BTreeMap::new();
    let mut add = |bp: &ondisk::BlkPtr| {
        for dva in bp.dvas() {
            assert!(
                reachable.insert((dva.vdev, dva.offset_bytes), dva.asize_bytes).is_none(),
                "{dva:?} is allocated twice"
            );
        }
        assert!(bp.is_hole() || pool.store().verify(bp).faults.is_empty(), "{bp:?}");
    };
    add(&pool.uberblock().root);
    let mos = pool.mos();
    let mut id = 0;
    let mut dnodes = vec![mos.phys().meta_dnode.clone()];
    while let Some(next) = mos.next_object(id).unwrap() {
        dnodes.push(mos.dnode(next).unwrap());
        id = next;
    }
    for dnode in &dnodes {
        let mut used = 0;
        for bp in &dnode.blkptrs {
            walk(&pool, bp, &mut |bp| {
                used += bp.dvas().map(|d| (d.asize_bytes >> 9) * pool.deflate_ratios()[d.vdev as usize]).sum::<u64>();
                add(bp);
            });
        }
        assert_eq!(dnode.used_bytes, used, "{dnode:?}");
    }
    let space = pool::space::Space::load(&pool).unwrap();
    let sum: u64 = reachable.values().sum();
    let allocated: u64 = pool.root_vdev().children.iter().map(|t| space.device(t.id).unwrap().allocated_bytes()).sum();
    assert_eq!(allocated, sum, "space maps and reachable blocks");
    assert_eq!(space.anomalies, [""; 0]);
    check_logs(&pool)
}

/// Checks that OpenZFS would accept the log space maps: each metaslab refers to an existing log,
/// and the oldest log is needed. Returns the number of logs.
fn check_logs(pool: &pool::Pool) -> usize {
    let Some(id) = pool.directory().lookup_u64(directory::LOG_SPACEMAP_ZAP).unwrap() else { return 0 };
    let entries = Zap::open(pool.mos().object(id).unwrap()).unwrap().entries().unwrap();
    let txg = |name: &[u8]| u64::from_str_radix(std::str::from_utf8(name).unwrap(), 16).unwrap();
    let logs: BTreeSet<u64> = entries.iter().map(|e| txg(&e.name)).collect();
    let mut named = BTreeSet::new();
    for top in &pool.root_vdev().children {
        let zap = Zap::open(pool.mos().object(top.number(config::VDEV_TOP_ZAP)).unwrap()).unwrap();
        let Some(list) = zap.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS).unwrap() else { continue };
        let count = top.number(config::ASIZE) >> top.number(config::METASLAB_SHIFT);
        named.extend(pool.mos().object(list).unwrap().read_words(count).unwrap());
    }
    named.remove(&0);
    assert!(named.is_subset(&logs), "{named:?} of {logs:?}");
    assert_eq!(named.first(), logs.first());
    logs.len()
}

fn walk(pool: &pool::Pool, bp: &ondisk::BlkPtr, sink: &mut dyn FnMut(&ondisk::BlkPtr)) {
    if bp.is_hole() {
        return;
    }
    sink(bp);
    if bp.level() > 0 {
        let at = block::Bookmark { objset: 0, object: 0, level: 0, blkid: 0 };
        let block = pool.store().read(bp, &at, None).unwrap();
        for b in block.data.chunks_exact(128) {
            walk(pool, &ondisk::BlkPtr::parse(b, block.endian).unwrap(), sink);
        }
    }
}

#[test]
fn every_layout_is_made_written_and_opened_again_without_a_leak() {
    let layouts = [
        vec![leaf("disk")],
        vec![leaf("a"), leaf("b")],
        vec![group("mirror", 0, 2)],
        vec![group("raidz", 1, 3)],
        vec![group("raidz", 2, 5), group("raidz", 2, 5)],
        vec![group("raidz", 3, 6)],
    ];
    for tops in layouts {
        let devices = devices(&tops);
        let mut writer = create(tops);
        check(&devices);
        let mut ids = Vec::new();
        for round in 0..6u64 {
            for step in 0..5u64 {
                let made = writer.task(move |cx| {
                    let new = NewObject::new(ObjectType::UINT64_OTHER, 4096);
                    let object = cx.mos().create_object(cx.tx(), &new)?;
                    object.write_at(cx.tx(), step * 10_000, &vec![round as u8; 50_000])?;
                    cx.history_command(&format!("round {round} step {step}"))?;
                    Ok(object.id())
                });
                ids.push(made.unwrap());
                if round > 2 {
                    let gone = ids.remove(0);
                    writer.task(move |cx| cx.mos().free_object(cx.tx(), gone)).unwrap();
                }
            }
            assert!(writer.pool().unwrap().mos().object(ids[0]).is_ok());
            let stats = writer.txg_stats();
            assert!(stats.iter().all(|s| s.passes <= 5), "{stats:?}");
            if round % 2 == 0 {
                writer.export().unwrap();
                assert_eq!(check(&devices), 1, "that of the last txg");
                let found = search_devices(devices.iter().cloned()).pools.remove(0);
                assert_eq!(found.state(), pool::PoolState::Exported);
                drop(writer);
                writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
            }
        }
        writer.close().unwrap();
        assert!(check(&devices) > 1, "changes of the last txgs are in logs");
    }
}

fn add(writer: &Writer, tops: Vec<NewVdev>) -> errors::Result<()> {
    writer.add(NewDevices { tops, ..NewDevices::default() }, false)
}

fn fill(writer: &Writer, objects: u64) -> Vec<u64> {
    let one = |n: u64| {
        writer.task(move |cx| {
            let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 131_072))?;
            // Words that do not compress.
            let noise: Vec<u8> =
                (0..70_000u64).flat_map(|i| (i + n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
            object.write_at(cx.tx(), 0, &noise)?;
            Ok(object.id())
        })
    };
    (0..objects).map(|n| one(n).unwrap()).collect()
}

#[test]
fn devices_of_every_kind_join_an_open_pool_and_take_blocks_from_the_next_txg_on() {
    let first = leaf("first");
    let joining = [
        vec![leaf("second")],
        vec![group("mirror", 0, 2)],
        vec![group("raidz", 2, 4), NewVdev { class: block::Class::Log, ..leaf("log") }],
        vec![NewVdev { class: block::Class::Special, ..leaf("special") }],
        vec![NewVdev { class: block::Class::Dedup, ..leaf("dedup") }],
    ];
    let mut all = devices(std::slice::from_ref(&first));
    let mut writer = create(vec![first]);
    let mut ids = fill(&writer, 4);
    let mut count = 1;
    for (round, tops) in joining.into_iter().enumerate() {
        let before = writer.allocator().totals().class(block::Class::Normal).size_bytes;
        all.extend(devices(&tops));
        count += tops.len();
        let is_normal = tops[0].class == block::Class::Normal;
        add(&writer, tops).unwrap();
        check(&all);
        assert_eq!(writer.allocator().totals().class(block::Class::Normal).size_bytes > before, is_normal);
        ids.extend(fill(&writer, 8));
        let pool = writer.pool().unwrap();
        assert_eq!((pool.root_vdev().children.len(), pool.store().tree().tops.len()), (count, count));
        check(&all);
        if round % 2 == 1 {
            writer.export().unwrap();
            drop((pool, writer));
            check(&all);
            let found = search_devices(all.iter().cloned()).pools.remove(0);
            writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
        }
    }
    let used = pool::space::Space::load(&writer.pool().unwrap()).unwrap();
    let used: Vec<bool> = (0..7).map(|id| used.device(id).unwrap().allocated_bytes() > 0).collect();
    // No intent log and no dedup table was written.
    assert_eq!(used, [true, true, true, true, false, true, false]);
    assert_eq!(writer.pool().unwrap().features().count("org.zfsonlinux:allocation_classes"), Some(2));
    for id in ids {
        writer.task(move |cx| cx.mos().free_object(cx.tx(), id)).unwrap();
    }
    writer.close().unwrap();
    check(&all);
}

#[test]
fn spares_and_cache_devices_are_listed_and_their_labels_name_no_pool() {
    let first = leaf("first");
    let mut all = devices(std::slice::from_ref(&first));
    let writer = create(vec![first]);
    let auxiliary = |name: &str| {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]));
        NewAuxiliary { kind: "file", path: name.to_owned(), device, ashift: 9 }
    };
    let mut known = (Vec::new(), Vec::new());
    for round in 0..2 {
        let (spare, cache) = (auxiliary(&format!("spare-{round}")), auxiliary(&format!("cache-{round}")));
        all.extend([spare.device.clone(), cache.device.clone()]);
        known.0.push(spare.path.clone());
        known.1.push(cache.path.clone());
        let new = NewDevices { spares: vec![spare], caches: vec![cache], ..NewDevices::default() };
        writer.add(new, true).unwrap();
    }
    writer.export().unwrap();
    drop(writer);
    let found = search_devices(all.iter().cloned()).pools.remove(0);
    assert_eq!((found.devices.len(), found.auxiliary.len()), (1, 4));
    let pool = pool::Pool::open(&found, &OpenOptions::default()).unwrap();
    let status = pool.status().unwrap();
    let names = |all: &[pool::status::VdevStatus]| -> Vec<String> {
        all.iter().map(|v| v.path.clone().unwrap_or_default()).collect()
    };
    assert_eq!((names(&status.spares), names(&status.caches)), known);
    assert!(status.spares.iter().chain(&status.caches).all(|v| !v.not_present), "{status:?}");
    check(&all);
}

#[test]
fn attached_and_detached_devices_post_the_events_of_openzfs() {
    let first = group("mirror", 0, 2);
    let writer = create(vec![first]);
    let queue = writer.store().reporter().queue();
    let memory = |name: &str| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES])) };
    let auxiliary = |name: &str| NewAuxiliary { kind: "file", path: name.to_owned(), device: memory(name), ashift: 9 };
    // Events since the last call: class, and path of the device.
    let mut seen = queue.last();
    let mut news = || {
        let events = queue.after(seen).events;
        seen = queue.last();
        let reported = events.iter().filter(|e| e.class.contains(".vdev_"));
        reported.map(|e| format!("{} {}", e.subclass(), e.text("vdev_path").unwrap_or("-"))).collect::<Vec<_>>()
    };
    let guid = |path: &str| {
        let tree = writer.store().tree();
        let found = tree.all_leaves().find(|leaf| leaf.path == path).map(|leaf| leaf.guid);
        found.unwrap()
    };
    let log = NewVdev { class: block::Class::Log, ashift: 9, ..leaf("log") };
    let (spares, caches) = (vec![auxiliary("spare")], vec![auxiliary("cache")]);
    writer.add(NewDevices { tops: vec![log], spares, caches }, true).unwrap();
    assert_eq!(news(), ["vdev_add -"]);
    let third = memory("third");
    let joins = NewLeaf {
        kind: "file",
        path: "third".into(),
        device: Some(third.clone()),
        ashift: 9,
        spare: None,
        sequentially: false,
    };
    writer.attach(guid("mirror-0"), joins, Joins::Attach).unwrap();
    assert_eq!(news(), ["vdev_attach third"]);
    writer.detach(guid("third")).unwrap();
    assert_eq!(news(), ["vdev_remove third"]);
    // As the kernel module leaves it: of txg 0, with the devices of the mirror before.
    let left = block::label::read(third.as_ref(), true).configs().next().cloned().unwrap();
    let mirror = left.get_nvlist("vdev_tree").unwrap();
    assert_eq!((left.get_u64("txg"), left.get_u64("create_txg")), (Some(0), Some(0)));
    assert_eq!((mirror.get_str("type"), mirror.get_nvlist_array("children").len()), (Some("mirror"), 3));
    assert!(left.get_nvlist("features_for_read").is_some());
    for (path, class) in [("spare", "vdev_remove_aux"), ("cache", "vdev_remove_aux"), ("log", "vdev_remove_dev")] {
        writer.remove(guid(path), &|| Ok(())).unwrap();
        assert_eq!(news(), [format!("{class} {path}")]);
    }
}

#[test]
fn a_device_with_larger_sectors_is_refused_and_the_pool_continues_without_it() {
    let (_, writer, mut all) = on_faulty();
    let other = NewVdev { ashift: 9, ..leaf("other") };
    all.extend(devices(std::slice::from_ref(&other)));
    let new = NewDevices { tops: vec![other.clone()], ..NewDevices::default() };
    let e = writer.add(new, true).unwrap_err().to_string();
    assert!(e.contains("different physical sector sizes"), "{e}");
    let small = Some(("small".to_owned(), Arc::new(MemoryDevice::new("small", vec![0; 1 << 20])) as Arc<dyn Device>));
    let e = add(&writer, vec![NewVdev { leaf: small, ..leaf("unused") }]).unwrap_err().to_string();
    assert!(e.contains("too small"), "{e}");
    add_object(&writer).unwrap();
    assert_eq!(writer.pool().unwrap().root_vdev().children.len(), 1);
    add(&writer, vec![other]).unwrap();
    writer.close().unwrap();
    check(&all);
}

fn on_faulty() -> (Arc<Disk>, Arc<Writer>, Vec<Arc<dyn Device>>) {
    let faulty = Disk::new("faulty", vec![0; DISK_BYTES]);
    let top = NewVdev { leaf: Some(("faulty".into(), faulty.clone())), ..leaf("unused") };
    let writer = create(vec![top]);
    let devices: Vec<Arc<dyn Device>> = vec![faulty.clone()];
    (faulty, writer, devices)
}

fn add_object(writer: &Writer) -> errors::Result<u64> {
    writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
        object.write_at(cx.tx(), 0, &[7; 40_000])?;
        Ok(object.id())
    })
}

#[test]
fn a_pool_with_a_failed_device_suspends_still_reads_and_resumes_after_clear() {
    let (faulty, writer, devices) = on_faulty();
    let before = add_object(&writer).unwrap();
    faulty.fails_writes.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(add_object(&writer).unwrap_err().to_string().contains("Input/output error"));
    assert!(writer.failure().is_some());
    assert_eq!(writer.begin().err().and_then(|e| e.refusal()), Some(errors::Refusal::Suspended));
    let pool = writer.pool().unwrap();
    assert_eq!(pool.mos().object(before).unwrap().read_vec(0, 3).unwrap(), [7; 3], "reads continue");
    // Clearing without a repair changes nothing.
    writer.resume();
    while writer.failure().is_none() {
        std::thread::yield_now();
    }
    faulty.fails_writes.store(false, std::sync::atomic::Ordering::SeqCst);
    writer.resume();
    writer.sync().unwrap();
    assert!(writer.failure().is_none());
    let after = add_object(&writer).unwrap();
    // The task that got the error is done too.
    assert!(after > before + 1);
    writer.export().unwrap();
    check(&devices);
}

#[test]
fn a_pool_whose_labels_cannot_be_written_is_suspended_until_they_can() {
    let (faulty, writer, devices) = on_faulty();
    let before = writer.synced_txg();
    faulty.fails_label_writes.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(add_object(&writer).unwrap_err().to_string().contains("Input/output error"));
    assert!(writer.suspension().is_some_and(|why| !why.until_reopened));
    faulty.fails_label_writes.store(false, std::sync::atomic::Ordering::SeqCst);
    writer.resume();
    writer.sync().unwrap();
    assert!(writer.synced_txg() > before && writer.failure().is_none());
    add_object(&writer).unwrap();
    writer.export().unwrap();
    check(&devices);
}

#[test]
fn a_suspended_pool_is_released_in_the_state_of_its_last_txg() {
    let (faulty, writer, devices) = on_faulty();
    let before = add_object(&writer).unwrap();
    let synced = writer.synced_txg();
    faulty.fails_writes.store(true, std::sync::atomic::Ordering::SeqCst);
    add_object(&writer).unwrap_err();
    writer.export().unwrap_err();
    drop(writer);
    faulty.fails_writes.store(false, std::sync::atomic::Ordering::SeqCst);
    check(&devices);
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
    assert_eq!(writer.pool().unwrap().uberblock().txg.0, synced);
    assert!(writer.pool().unwrap().mos().object(before).is_ok());
    add_object(&writer).unwrap();
    writer.export().unwrap();
    check(&devices);
}

#[test]
fn a_pool_whose_txg_number_is_damage_is_refused_for_writing_and_still_read() {
    let tops = vec![leaf("d")];
    let devices = devices(&tops);
    let writer = create(tops);
    writer.export().unwrap();
    drop(writer);
    let find = || search_devices(devices.iter().cloned()).pools.remove(0);
    let pool = pool::Pool::open(&find(), &OpenOptions::default()).unwrap();
    let damaged = ondisk::uberblock::Uberblock { txg: ondisk::Txg(u64::MAX), ..pool.uberblock().clone() };
    block::label::write_uberblock(devices[0].as_ref(), 12, &damaged, false).unwrap();
    assert!(pool::Pool::open(&find(), &OpenOptions::default()).is_ok());
    let error = Writer::open(&find(), &OpenOptions::default(), &options()).err().expect("refused").to_string();
    assert!(error.contains(&format!("txg {}", u64::MAX)), "{error}");
}

/// A device whose reads block while a flag is set, if the thread called `reader` issues them.
struct Slow {
    device: MemoryDevice,
    /// Whether reads block, and how many are blocked.
    state: std::sync::Mutex<(bool, usize)>,
    changed: std::sync::Condvar,
}

impl Slow {
    fn wait_for(&self, what: impl Fn((bool, usize)) -> bool) {
        let limit = Duration::from_secs(20);
        let (state, waited) =
            self.changed.wait_timeout_while(self.state.lock().unwrap(), limit, |now| !what(*now)).unwrap();
        assert!(!waited.timed_out(), "{:?}", *state);
    }

    fn set(&self, waits: bool) {
        self.state.lock().unwrap().0 = waits;
        self.changed.notify_all();
    }
}

impl Device for Slow {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        if std::thread::current().name() == Some("reader") && self.state.lock().unwrap().0 {
            self.state.lock().unwrap().1 += 1;
            self.changed.notify_all();
            self.wait_for(|(waits, _)| !waits);
        }
        self.device.read_at(offset, buf)
    }
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn name(&self) -> &str {
        self.device.name()
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.device.write_at(offset, data)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.device.flush()
    }
    fn is_writable(&self) -> bool {
        true
    }
}

/// Regression: while a raidz is expanded, reads of it wait for the end of a txg. Opening the state
/// of the last txg held the lock of the pool's identity meanwhile, which the end of the txg needs
/// for the labels: both waited forever, and `zpool status` never answered.
#[test]
fn a_txg_ends_while_the_state_before_it_is_still_being_read() {
    let slow = Arc::new(Slow {
        device: MemoryDevice::new("slow", vec![0; DISK_BYTES]),
        state: Default::default(),
        changed: Default::default(),
    });
    let top = NewVdev { leaf: Some(("slow".into(), slow.clone())), ..leaf("unused") };
    let writer = create(vec![top]);
    writer.export().unwrap();
    drop(writer);
    let found = search_devices([slow.clone() as Arc<dyn Device>]).pools.remove(0);
    let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
    add_object(&writer).unwrap();
    writer.store().cache().clear();
    slow.set(true);
    let reader = std::thread::Builder::new().name("reader".into()).spawn({
        let writer = writer.clone();
        move || writer.pool().map(|pool| pool.uberblock().txg.0)
    });
    slow.wait_for(|(_, waiting)| waiting > 0);
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn({
        let writer = writer.clone();
        move || ended.send(writer.set_guid(7))
    });
    let result = end.recv_timeout(Duration::from_secs(20));
    slow.set(false);
    result.expect("the txg does not end").unwrap();
    assert!(reader.unwrap().join().unwrap().unwrap() < writer.synced_txg());
    writer.export().unwrap();
    check(&[slow]);
}
