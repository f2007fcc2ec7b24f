//! Scrub, resilver and self-healing on devices in memory that are damaged, unavailable or stale.
//! Afterwards their contents must be complete even without any of the others that the layout can
//! miss.

use crate::common::options;
use block::RawBlock;
use host::device::{Device, MemoryDevice};
use object::NewObject;
use ondisk::{Compression, Endian, ObjectType};
use pool::scan::{Options, verify};
use pool::writer::{CreatePool, NewVdev, Participant, ScanRefused, SyncTx, default_features};
use pool::{OpenOptions, Pool, Writer, search_devices};
use rig::noise;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

const DISK_BYTES: usize = 72 << 20;
/// The area of blocks, after the labels and the boot area.
const DATA: std::ops::Range<usize> = 4 << 20..DISK_BYTES - (1 << 20);

fn disks(count: usize) -> Vec<Arc<MemoryDevice>> {
    (0..count).map(|n| Arc::new(MemoryDevice::new(format!("disk-{n}"), vec![0; DISK_BYTES]))).collect()
}

fn create(kind: &'static str, parity: u64, disks: &[Arc<MemoryDevice>]) -> Arc<Writer> {
    crate::common::create(kind, parity, disks, default_features().map(str::to_owned).collect())
}

/// Writes objects of several block sizes in a txg of their own.
fn fill(writer: &Writer, seed: u64, bytes: usize) -> Vec<u64> {
    let made = writer.task(move |cx| {
        let mut made = Vec::new();
        for (n, block) in [512u32, 4096, 128 << 10].into_iter().enumerate() {
            let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, block))?;
            object.write_at(cx.tx(), 0, &noise(seed + n as u64, bytes))?;
            made.push(object.id());
        }
        Ok(made)
    });
    made.unwrap()
}

fn found(disks: &[Arc<MemoryDevice>]) -> pool::FoundPool {
    search_devices(disks.iter().map(|d| d.clone() as Arc<dyn Device>)).pools.remove(0)
}

fn reopen(disks: &[Arc<MemoryDevice>]) -> Arc<Writer> {
    Writer::open(&found(disks), &OpenOptions::default(), &options()).unwrap()
}

fn wait(writer: &Writer) {
    let begun = Instant::now();
    loop {
        let now = writer.scan_activity();
        if !now.scrubbing && !now.resilvering {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the scan does not end: {now:?}");
        writer.wait_for_scan(Duration::from_millis(20));
    }
}

/// Asserts that everything can be read without these devices.
fn assert_whole_without(disks: &[Arc<MemoryDevice>], away: &[usize]) {
    let here: Vec<_> = disks.iter().enumerate().filter(|(n, _)| !away.contains(n)).map(|(_, d)| d.clone()).collect();
    let pool = Pool::open(&found(&here), &OpenOptions::default()).unwrap();
    let report = verify(&pool, &Options { threads: 2 }, &|_| true).unwrap();
    assert!(report.damage.is_empty(), "without {away:?}: {:?}", report.damage);
    let wrong: u64 = report.devices.values().map(|d| d.wrong + d.stale + d.unreadable).sum();
    assert_eq!(wrong, 0, "without {away:?}: {:?}", report.devices);
}

fn scrub(writer: &Writer) -> pool::status::ScanStatus {
    writer.run_scans().unwrap();
    writer.start_scrub().unwrap().unwrap();
    wait(writer);
    writer.pool().unwrap().status().unwrap().scan.unwrap()
}

/// All sets of `size` devices out of `count`.
fn combinations(count: usize, size: usize) -> Vec<Vec<usize>> {
    (0..1usize << count)
        .filter(|set| set.count_ones() as usize == size)
        .map(|set| (0..count).filter(|n| set >> n & 1 == 1).collect())
        .collect()
}

/// The result of a broken compressor: each copy is intact, but cannot be decompressed.
#[test]
fn a_block_that_does_not_unpack_is_lost_while_space_and_devices_are_right() {
    let disks = disks(3);
    let writer = create("raidz", 1, &disks);
    let object = writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 128 << 10))?;
        for (blkid, compression) in [(0, Compression::Gzip(1)), (2, Compression::Lz4), (5, Compression::Zstd)] {
            let block = RawBlock {
                bytes: noise(blkid, 4096).into(),
                lsize_bytes: 128 << 10,
                compression,
                endian: Endian::Little,
                sealed: None,
            };
            object.put_raw(cx.tx(), blkid, block)?;
        }
        object.write_at(cx.tx(), 128 << 10, &noise(9, 128 << 10))?;
        Ok(object.id())
    });
    let object = object.unwrap();
    writer.sync().unwrap();
    let report = verify(&writer.pool().unwrap(), &Options { threads: 2 }, &|_| true).unwrap();
    assert_eq!((report.lost_blocks, report.malformed_blocks, report.repairable_blocks), (3, 3, 0), "{report:#?}");
    let at: Vec<_> =
        report.damage.iter().map(|d| (d.at.objset, d.at.object, d.at.level, d.at.blkid, d.span_bytes)).collect();
    assert_eq!(at, [0, 2, 5].map(|blkid| (0, object, 0, blkid, 128 << 10)));
    assert!(!report.is_clean() && report.is_consistent(), "{report:#?}");
    // A scrub compares checksums, as in OpenZFS, and has nothing to repair.
    let scan = scrub(&writer);
    assert_eq!((scan.errors, scan.processed_bytes), (0, 0), "{scan:?}");
}

#[test]
fn a_scrub_repairs_losses_of_as_many_devices_as_allowed() {
    for (kind, parity, count) in [("mirror", 0, 2), ("mirror", 0, 3), ("raidz", 1, 3), ("raidz", 2, 5), ("raidz", 3, 5)]
    {
        let lost = if kind == "mirror" { count - 1 } else { parity as usize };
        {
            let (round, zeroed) = (count % 2, count % 2 == 0);
            let disks = disks(count);
            let writer = create(kind, parity, &disks);
            fill(&writer, 7 + round as u64, 300_000);
            writer.sync().unwrap();
            for n in 0..lost {
                let n = (n + round) % count;
                let with = if zeroed { vec![0; DATA.len()] } else { noise(n as u64 + 99, DATA.len()) };
                disks[n].write_at(DATA.start as u64, &with).unwrap();
            }
            let scan = scrub(&writer);
            assert_eq!((scan.errors, scan.state), (0, pool::status::Progress::Finished), "{kind}{parity} of {count}");
            assert!(scan.processed_bytes > 100_000, "{scan:?}");
            assert_eq!(scan.issued_bytes(), scan.examined_bytes);
            let again = scrub(&writer);
            assert_eq!((again.errors, again.processed_bytes), (0, 0), "{kind}{parity} of {count}");
            assert!(again.examined_bytes > 900_000, "{again:?}");
            writer.export().unwrap();
            combinations(count, lost).iter().for_each(|away| assert_whole_without(&disks, away));
        }
    }
}

#[test]
fn damage_found_by_a_read_is_overwritten() {
    for (kind, parity, count) in [("mirror", 0, 2), ("raidz", 1, 4)] {
        let disks = disks(count);
        let writer = create(kind, parity, &disks);
        let objects = fill(&writer, 3, 500_000);
        writer.close().unwrap();
        drop(writer);
        // A small cache, so that reads come from devices.
        let open = OpenOptions { cache_bytes: 1 << 20, ..OpenOptions::default() };
        let writer = Writer::open(&found(&disks), &open, &options()).unwrap();
        disks[1].write_at(DATA.start as u64, &noise(5, DATA.len())).unwrap();
        let read = || {
            let pool = writer.pool().unwrap();
            for (n, id) in objects.iter().enumerate() {
                let bytes = pool.mos().object(*id).unwrap().read_vec(0, 500_000).unwrap();
                assert!(bytes == noise(3 + n as u64, 500_000));
            }
            writer.wait_for_healing();
        };
        // More blocks may be bad than the queue holds: readers report them again.
        for _ in 0..20 {
            read();
        }
        let errors = || writer.pool().unwrap().store().tree().leaves()[1].errors().checksum;
        let (before, (blocks, bytes)) = (errors(), writer.healed());
        assert!(before > 3 && blocks > 3 && bytes > 100_000, "{kind}: {before} errors, {blocks} blocks, {bytes} bytes");
        read();
        assert_eq!(errors(), before, "{kind}: something is still wrong");
        // Reading the status reads more blocks, which may be repaired too.
        let status = writer.pool().unwrap().status().unwrap();
        assert!(status.root.children[0].children[1].self_healed_bytes >= bytes);
        writer.close().unwrap();
    }
}

#[test]
fn a_resilver_writes_exactly_the_missed_data() {
    for (kind, parity, count) in [("mirror", 0, 2), ("mirror", 0, 3), ("raidz", 1, 3), ("raidz", 2, 4)] {
        let disks = disks(count);
        let writer = create(kind, parity, &disks);
        fill(&writer, 1, 3_000_000);
        writer.export().unwrap();
        drop(writer);
        let without: Vec<_> = disks[..count - 1].to_vec();
        let writer = reopen(&without);
        fill(&writer, 40, 100_000);
        writer.export().unwrap();
        drop(writer);
        let writer = reopen(&disks);
        let leaf_traffic = || {
            let tree = writer.pool().unwrap().store().tree();
            tree.leaves().iter().map(|l| l.traffic().1).sum::<u64>()
        };
        let before = leaf_traffic();
        writer.run_scans().unwrap();
        wait(&writer);
        let status = writer.pool().unwrap().status().unwrap();
        let scan = status.scan.unwrap();
        assert_eq!((scan.kind, scan.errors), (pool::status::ScanKind::Resilver, 0), "{kind}{parity}");
        assert!(scan.processed_bytes > 100_000 && scan.processed_bytes < 2_000_000, "{scan:?}");
        assert!(leaf_traffic() - before < 4_000_000, "{kind}: {} bytes read", leaf_traffic() - before);
        let stale =
            writer.pool().unwrap().store().tree().leaves().iter().map(|l| l.stale_ranges().len()).sum::<usize>();
        assert_eq!(stale, 0, "{kind}{parity}");
        writer.export().unwrap();
        let lost = if kind == "mirror" { count - 1 } else { parity as usize };
        combinations(count, lost).iter().for_each(|away| assert_whole_without(&disks, away));
        let pool = Pool::open(&found(&disks), &OpenOptions::default()).unwrap();
        assert!(pool.store().tree().leaves().iter().all(|l| l.stale_ranges().is_empty()), "{kind}{parity}");
    }
}

#[test]
fn a_scrub_pauses_stops_and_resumes_after_a_restart() {
    let disks = disks(2);
    let writer = create("mirror", 0, &disks);
    fill(&writer, 1, 2_000_000);
    // Background work is not running yet: requests are only recorded.
    writer.start_scrub().unwrap().unwrap();
    assert_eq!(writer.start_scrub().unwrap(), Err(ScanRefused::Scrubbing));
    writer.pause_scrub().unwrap().unwrap();
    assert_eq!(writer.pause_scrub().unwrap(), Err(ScanRefused::ScrubPaused));
    writer.export().unwrap();
    drop(writer);
    disks[1].write_at(DATA.start as u64, &vec![0; DATA.len()]).unwrap();

    let writer = reopen(&disks);
    writer.run_scans().unwrap();
    assert!(!writer.scan_activity().scrubbing, "it is paused");
    let scan = writer.pool().unwrap().status().unwrap().scan.unwrap();
    assert_eq!(scan.state, pool::status::Progress::Active);
    assert_ne!(scan.pause_time, 0);
    writer.start_scrub().unwrap().unwrap();
    wait(&writer);
    let scan = writer.pool().unwrap().status().unwrap().scan.unwrap();
    assert_eq!((scan.state, scan.errors), (pool::status::Progress::Finished, 0));
    assert_eq!(writer.stop_scrub().unwrap(), Err(ScanRefused::NoScan));
    assert_eq!(writer.pause_scrub().unwrap(), Err(ScanRefused::NoScan));
    let directory = writer.pool().unwrap().directory().clone();
    assert!(directory.lookup_u64("last_scrubbed_txg").unwrap().is_some_and(|txg| txg > 0));
    writer.export().unwrap();
    assert_whole_without(&disks, &[0]);

    let writer = reopen(&disks);
    writer.start_scrub().unwrap().unwrap();
    writer.stop_scrub().unwrap().unwrap();
    let scan = writer.pool().unwrap().status().unwrap().scan.unwrap();
    assert_eq!(scan.state, pool::status::Progress::Cancelled);
}

#[test]
fn unrepairable_damage_is_logged_until_a_scrub_finds_none() {
    for features in [vec![], vec!["head_errlog"]] {
        let disks = disks(2);
        let class = block::Class::Normal;
        let tops = disks.iter().map(|disk| {
            let leaf = Some((disk.name().to_owned(), disk.clone() as Arc<dyn Device>));
            NewVdev { kind: "file", parity: 0, class, leaf, ashift: 9, children: vec![], draid: None }
        });
        let features: Vec<String> = features.into_iter().map(str::to_owned).collect();
        let by_head = !features.is_empty();
        let new = CreatePool {
            version: 5000,
            name: "tank".into(),
            tops: tops.collect(),
            features,
            comment: None,
            compatibility: None,
        };
        let writer = Writer::create(&new, &OpenOptions::default(), &options(), |_| Ok(())).unwrap();
        let objects = fill(&writer, 1, 20_000);
        let pool = writer.pool().unwrap();
        let bp = pool.mos().object(objects[1]).unwrap().block_pointer(0, 2).unwrap();
        let saved: Vec<_> = bp
            .dvas()
            .map(|dva| {
                let (disk, at) = (&disks[dva.vdev as usize], dva.offset_bytes + (4 << 20));
                let mut bytes = vec![0; bp.psize_bytes() as usize];
                disk.read_at(at, &mut bytes).unwrap();
                disk.write_at(at, &vec![0x5a; bytes.len()]).unwrap();
                (disk.clone(), at, bytes)
            })
            .collect();
        let scan = scrub(&writer);
        assert_eq!(scan.errors, 1, "{scan:?}");
        let status = writer.pool().unwrap().status().unwrap();
        assert_eq!(status.error_count, 1, "head_errlog: {by_head}");
        let log = writer.pool().unwrap().error_log().unwrap();
        assert_eq!((log[0].dataset, log[0].object, log[0].level, log[0].block), (0, objects[1], 0, 2));
        saved.iter().for_each(|(disk, at, bytes)| disk.write_at(*at, bytes).unwrap());
        assert_eq!(writer.start_error_scrub().unwrap(), Ok(()));
        wait(&writer);
        assert_eq!(writer.pool().unwrap().error_log().unwrap(), []);
        let scan = scrub(&writer);
        assert_eq!((scan.errors, scan.processed_bytes), (0, 0));
        writer.export().unwrap();
    }
}

/// The last that has something of the pool, as a dataset that another thread has just closed.
struct LastHolder {
    writer: Weak<Writer>,
    last: Mutex<Receiver<Arc<Writer>>>,
    dropped: Mutex<Sender<u64>>,
}

impl Participant for LastHolder {
    fn is_dirty(&self, _: u64) -> bool {
        false
    }
    fn quiesce(&self, _: u64) {}
    fn sync(&self, cx: &SyncTx<'_>) -> errors::Result<()> {
        // Once the scrub has begun, its thread changes something and waits for the txg, so a txg is
        // synced.
        if self.writer.upgrade().is_some_and(|writer| writer.scan_activity().scrubbing) {
            let writer = self.last.lock().unwrap().recv_timeout(Duration::from_secs(30)).unwrap();
            assert_eq!(Arc::strong_count(&writer), 1);
            drop(writer);
            self.dropped.lock().unwrap().send(cx.txg()).unwrap();
        }
        Ok(())
    }
}

/// Before, the syncing thread waited for the thread that scrubs, which waited for the txg, and the
/// devices were released in the middle of it.
#[test]
fn a_pool_that_the_syncing_thread_drops_last_is_released_when_its_txg_is_on_disk() {
    let disks = disks(2);
    let writer = create("mirror", 0, &disks);
    fill(&writer, 1, 300_000);
    writer.run_scans().unwrap();
    let ((give, last), (dropped, when)) = (channel(), channel());
    let holder =
        Arc::new(LastHolder { writer: Arc::downgrade(&writer), last: Mutex::new(last), dropped: Mutex::new(dropped) });
    writer.register(holder.clone());
    writer.start_scrub().unwrap().unwrap();
    give.send(writer).unwrap();
    let txg = when.recv_timeout(Duration::from_secs(30)).expect("nothing waits for the thread");
    let begun = Instant::now();
    while Arc::strong_count(&holder) > 1 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the pool is not released");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pool = Pool::open(&found(&disks), &OpenOptions::default()).unwrap();
    assert!(pool.uberblock().txg.0 >= txg, "the open txg is on disk");
    assert!(verify(&pool, &Options { threads: 1 }, &|_| true).unwrap().is_clean());
}
