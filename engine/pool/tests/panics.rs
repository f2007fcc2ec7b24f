//! A broken invariant panics. Whatever thread does, in whatever part of a txg: the pool stops in
//! the state of the last synced txg, the reason is reported, and no thread waits any longer.

use errors::{Error, Refusal, Result};
use host::device::Device;
use object::{NewObject, Tx};
use ondisk::ObjectType;
use parking_lot::Mutex;
use pool::scan::walk::{Visit, Visitor, walk};
use pool::writer::{CreatePool, NewVdev, Participant, SyncTx, WriteOptions, default_features};
use pool::{OpenOptions, Writer, search_devices};
use rig::Disk;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const DISK_BYTES: usize = 72 << 20;
const WHY: &str = "the books do not balance";
/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    writer: Arc<Writer>,
    disks: Vec<Arc<Disk>>,
}

/// A pool on a mirror of two disks.
fn bench() -> Bench {
    let disks: Vec<Arc<Disk>> = (0..2).map(|n| Disk::new(format!("disk-{n}"), vec![0; DISK_BYTES])).collect();
    let part = |kind, leaf, children| NewVdev {
        kind,
        parity: 0,
        draid: None,
        class: block::Class::Normal,
        leaf,
        ashift: 12,
        children,
    };
    let leaf = |disk: &Arc<Disk>| {
        let device: Arc<dyn Device> = disk.clone();
        part("file", Some((disk.name().to_owned(), device)), vec![])
    };
    let new = CreatePool {
        version: 5000,
        name: "tank".into(),
        tops: vec![part("mirror", None, disks.iter().map(leaf).collect())],
        features: default_features().map(str::to_owned).collect(),
        comment: None,
        compatibility: None,
    };
    let options = WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() };
    let writer = Writer::create(&new, &OpenOptions::default(), &options, |_| Ok(())).unwrap();
    Bench { writer, disks }
}

/// Changes something in a txg, and waits for it.
fn change(writer: &Writer) -> Result<u64> {
    writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
        object.write_at(cx.tx(), 0, &rig::noise(cx.txg(), 50_000))?;
        Ok(cx.txg())
    })
}

/// Runs `wait` on a thread of its own: it must return.
fn returns<T: Send + 'static>(what: &str, wait: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answers) = channel();
    std::thread::spawn(move || answer.send(wait()));
    answers.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} hangs"))
}

impl Bench {
    /// The pool as it is on disk.
    fn open(&self) -> Arc<pool::Pool> {
        let devices = self.disks.iter().map(|disk| disk.clone() as Arc<dyn Device>);
        let found = search_devices(devices).pools.remove(0);
        pool::Pool::open(&found, &OpenOptions::default()).unwrap()
    }

    /// The txg in which the pool is on disk.
    fn on_disk(&self) -> u64 {
        let pool = self.open();
        assert_eq!(pool::space::Space::load(&pool).unwrap().anomalies, [""; 0]);
        pool.uberblock().txg.0
    }

    /// Checks that the pool stopped because of `why`, in txg `txg`, and stays so.
    fn check_stopped(self, txg: u64, why: &str) {
        let writer = &self.writer;
        let sync = writer.clone();
        let error = returns("sync", move || sync.sync()).expect_err("the pool is suspended");
        assert!(error.to_string().contains(why), "{error}");
        assert!(writer.suspension().is_some_and(|s| s.until_reopened && s.why.contains(why)));
        let begun = writer.begin().map(|_| ()).expect_err("no transaction begins");
        assert_eq!(begun.refusal(), Some(Refusal::Suspended), "{begun}");
        assert!(change(writer).is_err());
        writer.resume();
        assert!(change(writer).is_err(), "this cannot be resumed");
        assert_eq!(self.on_disk(), txg);
        let export = writer.clone();
        assert!(returns("export", move || export.export()).is_err());
        assert_eq!(self.on_disk(), txg);
    }
}

#[test]
fn a_panic_in_a_task_leaves_the_last_txg() {
    let bench = bench();
    let txg = change(&bench.writer).unwrap();
    let writer = bench.writer.clone();
    let result = returns("the task", move || {
        writer.task(|cx| -> Result<()> {
            cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
            panic!("{WHY}")
        })
    });
    assert!(result.unwrap_err().to_string().contains(WHY));
    bench.check_stopped(txg, WHY);
}

/// Part of a txg in which a participant panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    BeforeClose,
    IsDirty,
    Quiesce,
    Cloned,
    Sync,
    Synced,
}

struct Panicking(At);

impl Panicking {
    fn at(&self, part: At) {
        assert!(self.0 != part, "{WHY}");
    }
}

impl Participant for Panicking {
    fn before_close(&self) {
        self.at(At::BeforeClose);
    }
    fn is_dirty(&self, _: u64) -> bool {
        self.at(At::IsDirty);
        true
    }
    fn quiesce(&self, _: u64) {
        self.at(At::Quiesce);
    }
    fn cloned(&self, _: u64, _: &mut dyn FnMut(&ondisk::BlkPtr) -> Result<()>) -> Result<()> {
        self.at(At::Cloned);
        Ok(())
    }
    fn sync(&self, _: &SyncTx<'_>) -> Result<()> {
        self.at(At::Sync);
        Ok(())
    }
    fn synced(&self, _: u64) {
        self.at(At::Synced);
    }
}

#[test]
fn a_panic_in_any_part_of_a_txg_wakes_all_waiting_threads() {
    for part in [At::BeforeClose, At::Quiesce, At::Cloned, At::Sync, At::Synced] {
        let bench = bench();
        let txg = change(&bench.writer).unwrap();
        // Keeps the gate from closing until all threads are there.
        let tx = bench.writer.begin().unwrap();
        bench.writer.register(Arc::new(Panicking(part)));
        let (answer, answers) = channel();
        let threads = 6;
        for n in 0..threads {
            let (writer, answer) = (bench.writer.clone(), answer.clone());
            std::thread::spawn(move || {
                let result: Result<()> = match n % 3 {
                    0 => writer.wait(txg + 1),
                    1 => change(&writer).map(|_| ()),
                    // Waits for the closing, then for the next txg.
                    _ => writer.begin().map(|tx| tx.txg()).and_then(|open| writer.wait(open)),
                };
                answer.send(result)
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        drop(tx);
        for _ in 0..threads {
            let result = answers.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{part:?}: a thread hangs"));
            assert!(result.is_err(), "{part:?}");
        }
        let on_disk = if part == At::Synced { txg + 1 } else { txg };
        bench.check_stopped(on_disk, WHY);
    }
}

#[test]
fn a_panic_while_no_thread_waits_is_reported_to_the_next() {
    let bench = bench();
    let txg = change(&bench.writer).unwrap();
    bench.writer.register(Arc::new(Panicking(At::IsDirty)));
    bench.writer.sync_soon();
    let writer = bench.writer.clone();
    returns("the suspension", move || {
        while writer.failure().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    bench.check_stopped(txg, WHY);
}

#[test]
fn a_panic_in_the_middle_of_a_change_is_not_synced() {
    let bench = bench();
    let txg = change(&bench.writer).unwrap();
    let writer = bench.writer.clone();
    let half = std::thread::spawn(move || {
        let _tx = writer.begin().unwrap();
        panic!("{WHY}");
    });
    assert!(half.join().is_err());
    // Without any thread that waits for a txg.
    let refused = bench.writer.begin().map(|_| ()).expect_err("the open txg has half of a change");
    assert_eq!(refused.refusal(), Some(Refusal::Suspended));
    bench.check_stopped(txg, "panicked in the middle of a change");
}

#[test]
fn a_panic_outside_of_transactions_stops_nothing() {
    let bench = bench();
    let writer = bench.writer.clone();
    let panicking = std::thread::spawn(move || {
        drop(writer.begin().unwrap());
        panic!("{WHY}");
    });
    assert!(panicking.join().is_err());
    let txg = change(&bench.writer).unwrap();
    bench.writer.close().unwrap();
    assert!(bench.on_disk() >= txg);
}

fn panic_in_writes(bench: &Bench, yes: bool) {
    bench.disks.iter().for_each(|disk| disk.panics.store(yes, Ordering::SeqCst));
}

#[test]
fn a_panic_below_the_syncing_thread_stops_the_pool() {
    // On a busy machine a disk may seem slow, and then other threads write its blocks: the next
    // test.
    let writes_here = || {
        let bench = bench();
        let txg = change(&bench.writer).unwrap();
        panic_in_writes(&bench, true);
        let writer = bench.writer.clone();
        assert!(returns("the task", move || change(&writer)).is_err());
        panic_in_writes(&bench, false);
        let is_stopped = bench.writer.suspension().expect("a panic suspends the pool").until_reopened;
        if !is_stopped {
            bench.writer.resume();
        }
        is_stopped.then_some((bench, txg))
    };
    let (bench, txg) = (0..100).find_map(|_| writes_here()).expect("disks in memory are not slow");
    bench.check_stopped(txg, "panics in a write");
}

#[test]
fn a_device_thread_that_panics_suspends_the_pool_and_its_blocks_are_written_again() {
    let bench = bench();
    // On slow disks, blocks are written by other threads than the one that syncs.
    bench.disks.iter().for_each(|disk| disk.latency_us.store(500, Ordering::SeqCst));
    let txg = (0..5).map(|_| change(&bench.writer).unwrap()).max().unwrap();
    panic_in_writes(&bench, true);
    let writer = bench.writer.clone();
    let error = returns("the task", move || change(&writer)).unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
    assert_eq!(bench.on_disk(), txg);
    panic_in_writes(&bench, false);
    bench.writer.resume();
    let writer = bench.writer.clone();
    returns("sync", move || writer.sync()).unwrap();
    assert!(bench.on_disk() > txg);
}

/// Begins a transaction when a txg was synced, as clients do at any time.
struct Late {
    writer: Mutex<Option<Arc<Writer>>>,
    /// Transactions to begin, and changes by txg that are not synced.
    left: AtomicU64,
    changes: Mutex<Vec<u64>>,
    made: AtomicU64,
}

impl Participant for Late {
    fn is_dirty(&self, txg: u64) -> bool {
        self.changes.lock().contains(&txg)
    }
    fn quiesce(&self, _: u64) {}
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        self.changes.lock().retain(|txg| *txg > cx.txg());
        Ok(())
    }
    fn synced(&self, _: u64) {
        let writer = self.writer.lock().clone();
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if let (Some(writer), Ok(_)) = (writer, left)
            && let Ok(tx) = writer.begin()
        {
            let tx: Tx = tx;
            self.changes.lock().push(tx.txg());
            self.made.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_change_that_begins_while_the_pool_is_closed_is_synced() {
    // Between the last txg and the end, a transaction could once begin whose change was lost.
    for leave in [Writer::close as fn(&Writer) -> Result<()>, Writer::export, Writer::destroy] {
        let bench = bench();
        change(&bench.writer).unwrap();
        let late = Arc::new(Late {
            writer: Mutex::new(Some(bench.writer.clone())),
            left: 3.into(),
            changes: Mutex::default(),
            made: 0.into(),
        });
        bench.writer.register(late.clone());
        leave(&bench.writer).unwrap();
        *late.writer.lock() = None;
        assert!(late.made.load(Ordering::SeqCst) > 0);
        assert!(late.changes.lock().is_empty(), "lost: {:?}", late.changes.lock());
    }
}

/// Panics at one of the blocks.
struct Stumbling(AtomicU64);

impl Visitor for Stumbling {
    fn block(&self, _: &Visit<'_>) -> bool {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) != 5, "{WHY}");
        true
    }
    fn broken(&self, _: usize, _: block::Bookmark, _: &Error) {}
}

#[test]
fn a_walk_ends_if_one_of_its_threads_panics() {
    // The others once waited for it for ever.
    let bench = bench();
    for _ in 0..5 {
        change(&bench.writer).unwrap();
    }
    bench.writer.close().unwrap();
    let pool = bench.open();
    let panic = returns("the walk", move || {
        let (roots, _) = pool::scan::roots(&pool).unwrap();
        let visitor = Stumbling(0.into());
        catch_unwind(AssertUnwindSafe(|| walk(pool.store(), &roots, 4, &visitor)))
            .map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    });
    assert_eq!(panic, Err(WHY.to_owned()), "with its reason");
}
