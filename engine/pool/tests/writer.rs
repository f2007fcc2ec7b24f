//! Pools without datasets: made, written for many txgs, opened again, with every block of the MOS and every space map checked.

use host::device::{Device, MemoryDevice};
use object::NewObject;
use ondisk::ObjectType;
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Writer, search_devices};
use std::sync::Arc;
use std::time::Duration;

const DISK_BYTES: usize = 72 << 20;

fn leaf(name: &str) -> NewVdev {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]));
    let leaf = Some((name.to_owned(), device));
    NewVdev { kind: "file", parity: 0, class: block::Class::Normal, leaf, ashift: 12, children: vec![] }
}

fn group(kind: &'static str, parity: u64, count: usize) -> NewVdev {
    let children = (0..count).map(|i| leaf(&format!("{kind}-{i}"))).collect();
    NewVdev { kind, parity, class: block::Class::Normal, leaf: None, ashift: 9, children }
}

fn devices(tops: &[NewVdev]) -> Vec<Arc<dyn Device>> {
    tops.iter().flat_map(|t| t.leaf.iter().map(|l| l.1.clone()).chain(devices(&t.children))).collect()
}

fn options() -> WriteOptions {
    WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

fn check(devices: &[Arc<dyn Device>]) {
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let pool = pool::Pool::open(&found, &OpenOptions::default()).unwrap();
    // Without datasets all that is in use is the MOS.
    let mut reachable = std::collections::BTreeMap::new();
    let mut add = |bp: &ondisk::BlkPtr| {
        for dva in bp.dvas() {
            assert!(reachable.insert((dva.vdev, dva.offset_bytes), dva.asize_bytes).is_none(), "{dva:?} twice");
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
    assert_eq!(allocated, sum, "space maps and what is reachable");
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
        let new = CreatePool {
            name: "tank".into(),
            tops,
            features: default_features().map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let mut writer = Writer::create(&new, &OpenOptions::default(), &options(), |_| Ok(())).unwrap();
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
                check(&devices);
                let found = search_devices(devices.iter().cloned()).pools.remove(0);
                assert_eq!(found.state(), pool::PoolState::Exported);
                drop(writer);
                writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
            }
        }
        writer.close().unwrap();
        check(&devices);
    }
}

/// A device that fails writes while it is told to.
struct Faulty(MemoryDevice, std::sync::atomic::AtomicBool);

impl Device for Faulty {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, buf)
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        if self.1.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        self.0.write_at(offset, data)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.0.flush()
    }
    fn is_writable(&self) -> bool {
        true
    }
}

fn on_faulty() -> (Arc<Faulty>, Arc<Writer>, Vec<Arc<dyn Device>>) {
    let faulty = Arc::new(Faulty(MemoryDevice::new("faulty", vec![0; DISK_BYTES]), false.into()));
    let top = NewVdev { leaf: Some(("faulty".into(), faulty.clone())), ..leaf("unused") };
    let new = CreatePool {
        name: "tank".into(),
        tops: vec![top],
        features: default_features().map(str::to_owned).collect(),
        comment: None,
        compatibility: None,
    };
    let writer = Writer::create(&new, &OpenOptions::default(), &options(), |_| Ok(())).unwrap();
    let devices: Vec<Arc<dyn Device>> = vec![faulty.clone()];
    (faulty, writer, devices)
}

fn add_object(writer: &Writer) -> pool::Result<u64> {
    writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
        object.write_at(cx.tx(), 0, &[7; 40_000])?;
        Ok(object.id())
    })
}

#[test]
fn a_pool_whose_device_fails_suspends_reads_on_and_goes_on_after_clear() {
    let (faulty, writer, devices) = on_faulty();
    let before = add_object(&writer).unwrap();
    faulty.1.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(add_object(&writer).unwrap_err().to_string().contains("Input/output error"));
    assert!(writer.failure().is_some());
    assert_eq!(writer.begin().err().and_then(|e| e.refusal()), Some(pool::Refusal::Suspended));
    let pool = writer.pool().unwrap();
    assert_eq!(pool.mos().object(before).unwrap().read_vec(0, 3).unwrap(), [7; 3], "reads go on");
    // Clearing without mending changes nothing.
    writer.resume();
    while writer.failure().is_none() {
        std::thread::yield_now();
    }
    faulty.1.store(false, std::sync::atomic::Ordering::SeqCst);
    writer.resume();
    writer.sync().unwrap();
    assert!(writer.failure().is_none());
    let after = add_object(&writer).unwrap();
    // What the task that was told of the error had begun is done, too.
    assert!(after > before + 1);
    writer.export().unwrap();
    check(&devices);
}

#[test]
fn a_suspended_pool_is_let_go_as_its_last_txg_left_it() {
    let (faulty, writer, devices) = on_faulty();
    let before = add_object(&writer).unwrap();
    let synced = writer.synced_txg();
    faulty.1.store(true, std::sync::atomic::Ordering::SeqCst);
    add_object(&writer).unwrap_err();
    writer.export().unwrap_err();
    drop(writer);
    faulty.1.store(false, std::sync::atomic::Ordering::SeqCst);
    check(&devices);
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
    assert_eq!(writer.pool().unwrap().uberblock().txg.0, synced);
    assert!(writer.pool().unwrap().mos().object(before).is_ok());
    add_object(&writer).unwrap();
    writer.export().unwrap();
    check(&devices);
}
